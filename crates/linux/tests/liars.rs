//! A switch or a peer that lies slows the flow that it lies to, and pushes no flow past the guards: the delay guard, losses, the
//! largest window. Needs root; `.ci/linux` runs it, or says why it does not.

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
    told_that_the_way_back_is_full(&room);
    told_that_it_is_full(&room);
    told_anything(&room);
    dropped_for_its_option(&room);
}

/// With the guard, a round trip's queueing stays below guard + k + p = 7.3 ms; without it, losses and the largest window hold it.
fn told_that_it_is_empty(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay"), ("delay-guard", "3 ms")]);
    lie(room, FORWARD, EMPTY);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("told empty", &sent);
    assert!(flow.mode == Mode::Telemetry && flow.counters.guarded > 100, "{flow:?}");
    assert!(sent.queueing < Nanos::from_micros(7_300) && flow.counters.losses == 0, "{flow:?}");
    assert!(sent.fills_100_mbps(), "{sent:?}");
    drop(on);

    let on = On::with(&[("signal", "max-hop-delay"), ("delay-guard", "1 s")]);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("the same without the guard", &sent);
    assert!(flow.counters.guarded == 0 && flow.counters.losses > 0, "{flow:?}");
}

/// In brownfield the way back explains delay away: the guard holds here too.
fn told_that_the_way_back_is_full(room: &Room) {
    let on = On::with(&[("signal", "brownfield"), ("delay-guard", "3 ms")]);
    lie(room, BACKWARD, FULL);
    let sent = on.send(room, PORT, 1_000);
    let flow = show("told that the way back is full", &sent);
    assert!(flow.mode == Mode::Brownfield && flow.counters.guarded > 100, "{flow:?}");
    assert!(sent.queueing < Nanos::from_micros(7_300), "{flow:?}");
    lie(room, BACKWARD, 0);
}

/// The flow falls to its smallest window and goes on; who is not lied to has the link.
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
    assert!(lied_to.mbps() < 5 && lied_to.rates[0] > 5_000, "{lied_to:?}");
    assert!(other.fills_100_mbps(), "{other:?}");
}

fn told_anything(room: &Room) {
    let on = On::with(&[("signal", "max-hop-delay"), ("delay-guard", "3 ms")]);
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
