//! Poseidon in this machine's TCP, with real packets. Needs root; `.ci/linux` runs it, or says why it does not.

mod room;
#[path = "room/traffic.rs"]
mod traffic;

use core::time::Duration;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use poseidon_linux::tcp::{self, Mode, Settings, TcpFlow};
use poseidon_types::{BitRate, Nanos};
use room::Room;
use std::path::Path;
use std::thread;
use traffic::{Sent, Traffic};

const RATE_MBPS: u32 = 100;

/// One test, because there is one kernel: what is on is on for all.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn poseidon_runs_in_tcp_and_leaves_nothing_behind() {
    let before = loaded();
    let room = Room::new(RATE_MBPS, 300_000);
    let settings = Settings::for_rate(BitRate::from_mbps(u64::from(RATE_MBPS)));
    let cgroup = tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    let on = On;
    // A congestion control with its programs, and at least three maps; so that the end is not empty for want of looking.
    let [programs, maps, links] = loaded().map(|ids| ids.len());
    assert!(programs >= 10 && maps >= 5 && links >= 3, "{programs} programs, {maps} maps, {links} links");
    assert!(matches!(tcp::enable(&settings), Err(tcp::TcpError::AlreadyOn)));

    both_ends_speak(&room, &cgroup);
    one_end_speaks(&room, &cgroup);
    many_flows_share(&room, &cgroup);
    plain_receivers_delay_acks(&room, &cgroup);

    let status = tcp::status().expect("it can be asked").expect("it is on");
    println!("{status}");
    assert_eq!(status.cgroup, cgroup);
    assert_eq!(status.settings, settings.to_string());
    assert!(status.agreed >= 2 && status.refused >= 2 && status.unchosen == 0, "{status}");
    drop(on);
    assert_eq!(tcp::status().expect("it can be asked"), None);
    assert!(matches!(tcp::flows(), Err(tcp::TcpError::Off)));
    assert!(!cgroup.exists() && !Path::new("/sys/fs/bpf/poseidon/tcp").exists());
    drop(room);
    assert_gone(&before);
}

/// The option is negotiated, the flow fills the link, and the queue stays where the law wants it. No hop measures here, so the
/// law goes by the round trip.
fn both_ends_speak(room: &Room, cgroup: &Path) {
    let sent = transfer(room, Some(cgroup), Some(cgroup), 1, 2);
    let flow = sent.flows()[0];
    println!("{}\n{flow}\n{} Mbit/s", TcpFlow::HEAD, sent.mbps());
    assert!(flow.speaks_option && flow.mode == Mode::Delay, "{flow:?}");
    assert!(flow.counters.acks_with_echo > 1_000 && flow.counters.acks_without_echo < 10, "{flow:?}");
    // TCP's 1448 bytes less the option.
    assert_eq!(flow.mss.get(), 1_440);
    assert!(sent.fills_100_mbps(), "{} Mbit/s", sent.mbps());
    // T at the full rate is 0.3 ms. Cubic would fill the queue: 24 ms.
    println!("queueing {}", sent.queueing);
    assert!(sent.queueing < Nanos::from_millis(1), "{sent:?}");
    assert!(flow.counters.guarded < flow.counters.acks_with_echo / 20, "{flow:?}");
}

/// Plain TCP on the wire, and the law by the round trip where it runs.
fn one_end_speaks(room: &Room, cgroup: &Path) {
    let sent = transfer(room, Some(cgroup), None, 1, 1);
    let flow = sent.flows()[0];
    println!("{flow}\n{} Mbit/s", sent.mbps());
    assert!(!flow.speaks_option && flow.mode == Mode::Delay, "{flow:?}");
    assert_eq!((flow.counters.acks_with_echo, flow.mss.get()), (0, 1_448), "{flow:?}");
    // 80 to 95 in eight runs on a busy machine. A window per 40 ms, which is the fault to look for, would be 1.
    assert!(sent.fills_100_mbps(), "{} Mbit/s", sent.mbps());

    // Nor does the listener's end say a word after the handshake.
    let sent = transfer(room, None, Some(cgroup), 1, 1);
    assert!(sent.flows().is_empty(), "{sent:?}");
    assert!(sent.table.len() == 1 && !sent.table[0].speaks_option, "{sent:?}");
    assert!(sent.fills_100_mbps(), "{} Mbit/s", sent.mbps());
}

/// A receiver that holds ACKs back, because it knows nothing of us, does not starve flows of one packet.
fn plain_receivers_delay_acks(room: &Room, cgroup: &Path) {
    let sent = transfer(room, Some(cgroup), None, 32, 2);
    println!("32 flows to a plain receiver: {} Mbit/s, {:?}", sent.mbps(), sent.rates);
    assert!(sent.fills_100_mbps(), "{} Mbit/s", sent.mbps());
    // A flow that takes the receiver's timer for a queue gets 25 kB/s. Of one packet per ACK, the slowest of 32 had 56 to 80 kB/s.
    assert!(sent.rates.iter().all(|rate| *rate > 100_000), "{:?}", sent.rates);
}

fn transfer(
    room: &Room,
    sender: Option<&Path>,
    receiver: Option<&Path>,
    connections: usize,
    seconds: u64,
) -> Sent {
    room.send(Traffic { sender, receiver, port: 0, connections, time: Duration::from_secs(seconds) })
}

fn many_flows_share(room: &Room, cgroup: &Path) {
    let sent = transfer(room, Some(cgroup), Some(cgroup), 8, 2);
    println!("{}", TcpFlow::HEAD);
    sent.flows().iter().for_each(|flow| println!("{flow}"));
    println!("{} Mbit/s, {:?}", sent.mbps(), sent.rates);
    assert_eq!(sent.flows().len(), 8);
    assert!(sent.fills_100_mbps(), "{} Mbit/s", sent.mbps());
    // T at an eighth of the rate is 1.5 ms.
    println!("queueing {}", sent.queueing);
    assert!(sent.queueing < Nanos::from_millis(4), "{sent:?}");
}

/// Off, even when a test fails.
struct On;

impl Drop for On {
    fn drop(&mut self) {
        tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What the kernel holds of BPF that looks like ours: programs, maps, links.
fn loaded() -> [Vec<u32>; 3] {
    let programs =
        ProgInfoIter::default().filter(|program| program.name.to_string_lossy().starts_with("poseidon_"));
    let ours = ["poseidon", "telemetry", "totals", "about", ".rodata.setting"];
    let maps = MapInfoIter::default().filter(|map| ours.iter().any(|name| map.name == *name));
    let links = LinkInfoIter::default().filter(|link| {
        matches!(link.info, LinkTypeInfo::StructOps(_) | LinkTypeInfo::Cgroup(_) | LinkTypeInfo::Iter(_))
    });
    [
        programs.map(|program| program.id).collect(),
        maps.map(|map| map.id).collect(),
        links.map(|link| link.id).collect(),
    ]
}

/// The kernel frees some of it a moment later, after the last connection.
#[expect(clippy::disallowed_methods, reason = "the kernel frees when it frees")]
fn assert_gone(before: &[Vec<u32>; 3]) {
    let more = || {
        let now = loaded();
        now.into_iter()
            .zip(before)
            .map(|(now, before)| now.iter().filter(|id| !before.contains(id)).count())
            .collect::<Vec<_>>()
    };
    for _ in 0..50 {
        if more() == [0, 0, 0] {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("programs, maps and links that stayed: {:?}", more());
}
