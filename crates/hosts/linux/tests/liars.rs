//! A switch or a peer that lies slows the flow that it lies to, and pushes no flow past what the round trip proves. Needs root; `.ci/linux` runs it, or says why it does not.

#[path = "room/port.rs"]
mod port;
mod room;
#[path = "room/traffic.rs"]
mod traffic;

use core::time::Duration;
use poseidon_linux::tcp::{self, Mode, Settings, TcpFlow};
use poseidon_types::{BitRate, Nanos};
use room::Room;
use std::path::PathBuf;
use std::thread;
use traffic::{Sent, Traffic};

/// The port of the flow that is lied to.
const PORT: u16 = 5_001;
/// Where data goes, and where its ACKs come back.
const FORWARD: &str = "e1";
const BACKWARD: &str = "e0";
/// A code beyond sixteen bits: anything, by chance.
const ANYTHING: u32 = 0x1_0000;
/// 256 ns: as good as nothing, but it proves that a hop measures.
const EMPTY: u32 = 1;
const FULL: u32 = 0xffff;

/// One test, because there is one kernel: what is on is on for all.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn lies_slow_their_own_flow_and_pass_no_guard() {
    // 24 ms of queue: much more than the guard allows.
    let room = Room::new(100, 300_000);
    told_that_it_is_empty(&room);
    told_that_it_is_empty_beside_others(&room);
    told_that_the_way_back_is_full(&room);
    told_that_it_is_full(&room);
    told_anything(&room);
    dropped_for_its_option(&room);
    loses_one_packet_in_a_hundred(&room);
}

/// With coexistence a loss without a queue does not slow a flow down.
fn loses_one_packet_in_a_hundred(room: &Room) {
    let on = On::with(&[("coexistence", "true")]);
    port::put(room, FORWARD, "lossy", [0; 2]);
    let sent = on.send(room, PORT, 2_000);
    let flow = show("one packet in a hundred is lost", &sent);
    // At the target itself about half of the losses meet a delay above it, and those count.
    assert!(flow.counters.losses > 20 && flow.counters.ignored_losses > flow.counters.losses / 5, "{flow:?}");
    assert!(sent.fills_100_mbps(), "{sent:?}");
}

/// Half of a round trip's queueing counts, whatever telemetry says. A flow alone settles where (queueing - 2 k)/2 = k, so at four
/// smallest targets, 1.2 ms, and its queue stays below 2 T + 2 k at any rate, 9.2 ms.
fn told_that_it_is_empty(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay")]);
    lie(room, FORWARD, EMPTY);
    let sent = on.send(room, PORT, 2_000);
    let flow = show("told empty", &sent);
    assert!(flow.mode == Mode::Telemetry && flow.counters.guarded > 100, "{flow:?}");
    assert!(sent.queueing < Nanos::from_millis(3) && flow.counters.losses == 0, "{flow:?}");
    assert!(sent.fills_100_mbps(), "{sent:?}");
}

/// What a receiver gains that reports empty queues: a larger share than three honest flows, and not all of it.
fn told_that_it_is_empty_beside_others(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay")]);
    lie(room, FORWARD, EMPTY);
    let (liar, honest) = thread::scope(|scope| {
        let send = |port| on.send(room, PORT + port, 4_000);
        let honest = [1, 2, 3].map(|port| scope.spawn(move || send(port)));
        let liar = on.send(room, PORT, 4_000);
        (liar, honest.map(|flow| flow.join().expect("it sends")))
    });
    let honest: u64 = honest.iter().map(Sent::mbps).sum();
    println!("{} Mbit/s for the liar, {honest} for three honest flows", liar.mbps());
    assert!(honest >= 12, "{} and {honest} Mbit/s", liar.mbps());
}

/// In brownfield the way back explains delay away: the guard holds here too.
fn told_that_the_way_back_is_full(room: &Room) {
    let on = On::with(&[("signal", "brownfield")]);
    lie(room, BACKWARD, FULL);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("told that the way back is full", &sent);
    assert!(flow.mode == Mode::Brownfield && flow.counters.guarded > 100, "{flow:?}");
    assert!(sent.queueing < Nanos::from_micros(7_300), "{flow:?}");
    lie(room, BACKWARD, 0);
}

/// No hop holds a packet longer than its round trip: a delay of 16.7 ms counts as the round trip, the flow keeps a part of its rate, and
/// who is not lied to has the rest.
fn told_that_it_is_full(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay")]);
    lie(room, FORWARD, FULL);
    let (lied_to, other) = thread::scope(|scope| {
        let other = scope.spawn(|| on.send(room, PORT + 1, 1_000));
        (on.send(room, PORT, 1_000), other.join().expect("it sends"))
    });
    let flow = show("told full", &lied_to);
    show("beside it", &other);
    assert!(flow.mode == Mode::Telemetry && flow.counters.timeouts == 0, "{flow:?}");
    assert!(flow.counters.implausible > 10 && flow.delay < Nanos::from_millis(5), "{flow:?}");
    assert!(lied_to.mbps() >= 5 && other.mbps() >= 40, "{lied_to:?} {other:?}");
}

fn told_anything(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay")]);
    lie(room, FORWARD, ANYTHING);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("told anything", &sent);
    assert!(sent.queueing < Nanos::from_micros(7_300) && sent.rates[0] > 5_000, "{flow:?}");
}

/// A connection comes about where SYNs with the option are dropped: the third goes without, after 3 s.
fn dropped_for_its_option(room: &Room) {
    let on = On::with(&[]);
    port::put(room, FORWARD, "dropper", [0; 2]);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("dropped for its option", &sent);
    assert!(!flow.speaks_option && flow.mss.get() == 1_448, "{flow:?}");
}

fn show<'a>(says: &str, sent: &'a Sent) -> &'a TcpFlow {
    let flow = sent.flows()[0];
    println!("{says}: {} Mbit/s\n{}\n{flow}", sent.mbps(), TcpFlow::HEAD);
    flow
}

fn lie(room: &Room, link: &str, code: u32) {
    port::put(room, link, "liar", [u32::from(PORT), code]);
}

/// On with some settings; off when dropped.
struct On {
    cgroup: PathBuf,
}

impl On {
    fn with(settings: &[(&str, &str)]) -> Self {
        let mut all = Settings::for_rate(BitRate::from_mbps(100));
        // What the bounds alone do.
        all.coexistence = false;
        for (name, value) in settings {
            all.set(name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        Self { cgroup: tcp::enable(&all).unwrap_or_else(|error| panic!("{error}")) }
    }

    /// One connection for so long, both ends in the cgroup.
    fn send(&self, room: &Room, port: u16, milliseconds: u64) -> Sent {
        let cgroup = Some(self.cgroup.as_path());
        let time = Duration::from_millis(milliseconds);
        room.send(Traffic { sender: cgroup, receiver: cgroup, port, connections: 1, time })
    }
}

impl Drop for On {
    fn drop(&mut self) {
        tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    }
}
