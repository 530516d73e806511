//! Tests Poseidon in this machine's TCP stack, with real packets. Needs root; `.ci/linux` runs this test.

mod network;
#[path = "network/traffic.rs"]
mod traffic;

use core::time::Duration;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use network::TestNetwork;
use poseidon_linux::tcp::{self, Mode, Settings, TcpFlow};
use poseidon_types::{BitRate, Nanos};
use std::path::Path;
use std::thread;
use traffic::{Traffic, Transfer};

const RATE_MBPS: u32 = 100;

/// All cases are in one test, because Poseidon is enabled for the whole machine.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn poseidon_runs_in_tcp_and_is_removed_completely() {
    let before = loaded_objects();
    let network = TestNetwork::new(RATE_MBPS, 300_000);
    let settings = Settings::for_rate(BitRate::from_mbps(u64::from(RATE_MBPS)));
    let cgroup = tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    let enabled = Enabled;
    // Check that the objects are found, so that the check at the end is meaningful.
    let [programs, maps, links] = loaded_objects().map(|ids| ids.len());
    assert!(programs >= 10 && maps >= 5 && links >= 3, "{programs} programs, {maps} maps, {links} links");
    assert!(matches!(tcp::enable(&settings), Err(tcp::TcpError::AlreadyEnabled)));

    both_ends_negotiate(&network, &cgroup);
    one_end_supports_the_option(&network, &cgroup);
    many_flows_share_the_link(&network, &cgroup);
    plain_receivers_delay_acks(&network, &cgroup);

    let status = tcp::status().expect("the status is readable").expect("Poseidon is enabled");
    println!("{status}");
    assert_eq!(status.cgroup, cgroup);
    assert_eq!(status.settings, settings.to_string());
    assert!(status.negotiated >= 2 && status.not_negotiated >= 2 && status.not_assigned == 0, "{status}");
    drop(enabled);
    assert_eq!(tcp::status().expect("the status is readable"), None);
    assert!(matches!(tcp::flows(), Err(tcp::TcpError::NotEnabled)));
    assert!(!cgroup.exists() && !Path::new("/sys/fs/bpf/poseidon/tcp").exists());
    drop(network);
    assert_removed(&before);
}

/// The ends negotiate the option, the flow fills the link, and the law controls the queue. No hop measures delays in
/// this test, so the law uses the round-trip delay.
fn both_ends_negotiate(network: &TestNetwork, cgroup: &Path) {
    let result = transfer(network, Some(cgroup), Some(cgroup), 1, 2);
    let flow = result.flows()[0];
    println!("{}\n{flow}\n{} Mbit/s", TcpFlow::HEADER, result.mbps());
    assert!(flow.option_negotiated && flow.mode == Mode::Delay, "{flow:?}");
    assert!(flow.counters.acks_with_echo > 1_000 && flow.counters.acks_without_echo < 10, "{flow:?}");
    // 1448 bytes, minus 8 bytes for the option.
    assert_eq!(flow.mss.get(), 1_440);
    assert!(result.fills_100_mbps(), "{} Mbit/s", result.mbps());
    // At the full rate, T is 0.3 ms. CUBIC would fill the queue, which takes 24 ms to drain.
    println!("queueing {}", result.queueing);
    assert!(result.queueing < Nanos::from_millis(1), "{result:?}");
    assert!(flow.counters.guarded < flow.counters.acks_with_echo / 20, "{flow:?}");
}

/// The connection is plain TCP on the wire, and the law uses the round-trip delay.
fn one_end_supports_the_option(network: &TestNetwork, cgroup: &Path) {
    let result = transfer(network, Some(cgroup), None, 1, 1);
    let flow = result.flows()[0];
    println!("{flow}\n{} Mbit/s", result.mbps());
    assert!(!flow.option_negotiated && flow.mode == Mode::Delay, "{flow:?}");
    assert_eq!((flow.counters.acks_with_echo, flow.mss.get()), (0, 1_448), "{flow:?}");
    // Eight runs on a busy machine reached 80 to 95 Mbit/s. With the typical fault, which is one window per 40 ms, the
    // rate would be 1 Mbit/s.
    assert!(result.fills_100_mbps(), "{} Mbit/s", result.mbps());

    // If only the listener supports the option, the listener does not send it after the handshake.
    let result = transfer(network, None, Some(cgroup), 1, 1);
    assert!(result.flows().is_empty(), "{result:?}");
    assert!(result.table.len() == 1 && !result.table[0].option_negotiated, "{result:?}");
    assert!(result.fills_100_mbps(), "{} Mbit/s", result.mbps());
}

/// A plain receiver delays ACKs. Flows with a window of one packet must not starve.
fn plain_receivers_delay_acks(network: &TestNetwork, cgroup: &Path) {
    let result = transfer(network, Some(cgroup), None, 32, 2);
    println!("32 flows to a plain receiver: {} Mbit/s, {:?}", result.mbps(), result.rates);
    assert!(result.fills_100_mbps(), "{} Mbit/s", result.mbps());
    // A flow that mistakes the ACK timer for a queue gets 25 kB/s. With one packet per ACK, the slowest of the 32 flows
    // gets 56 to 80 kB/s.
    assert!(result.rates.iter().all(|rate| *rate > 100_000), "{:?}", result.rates);
}

fn transfer(
    network: &TestNetwork,
    sender: Option<&Path>,
    receiver: Option<&Path>,
    connections: usize,
    seconds: u64,
) -> Transfer {
    network.send(Traffic { sender, receiver, port: 0, connections, time: Duration::from_secs(seconds) })
}

fn many_flows_share_the_link(network: &TestNetwork, cgroup: &Path) {
    let result = transfer(network, Some(cgroup), Some(cgroup), 8, 2);
    println!("{}", TcpFlow::HEADER);
    result.flows().iter().for_each(|flow| println!("{flow}"));
    println!("{} Mbit/s, {:?}", result.mbps(), result.rates);
    assert_eq!(result.flows().len(), 8);
    assert!(result.fills_100_mbps(), "{} Mbit/s", result.mbps());
    // At an eighth of the rate, T is 1.5 ms.
    println!("queueing {}", result.queueing);
    assert!(result.queueing < Nanos::from_millis(4), "{result:?}");
}

/// Disables Poseidon when dropped, even if a test fails.
struct Enabled;

impl Drop for Enabled {
    fn drop(&mut self) {
        tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Returns the ids of BPF programs, maps and links with our names.
fn loaded_objects() -> [Vec<u32>; 3] {
    let programs =
        ProgInfoIter::default().filter(|program| program.name.to_string_lossy().starts_with("poseidon_"));
    let names = ["poseidon", "telemetry", "totals", "about", ".rodata.setting"];
    let maps = MapInfoIter::default().filter(|map| names.iter().any(|name| map.name == *name));
    let links = LinkInfoIter::default().filter(|link| {
        matches!(link.info, LinkTypeInfo::StructOps(_) | LinkTypeInfo::Cgroup(_) | LinkTypeInfo::Iter(_))
    });
    [
        programs.map(|program| program.id).collect(),
        maps.map(|map| map.id).collect(),
        links.map(|link| link.id).collect(),
    ]
}

/// Waits until the kernel has freed everything, which takes a moment after the last connection.
#[expect(clippy::disallowed_methods, reason = "the kernel needs time to free objects")]
fn assert_removed(before: &[Vec<u32>; 3]) {
    let remaining = || {
        let now = loaded_objects();
        now.into_iter()
            .zip(before)
            .map(|(now, before)| now.iter().filter(|id| !before.contains(id)).count())
            .collect::<Vec<_>>()
    };
    for _ in 0..50 {
        if remaining() == [0, 0, 0] {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("remaining programs, maps and links: {:?}", remaining());
}
