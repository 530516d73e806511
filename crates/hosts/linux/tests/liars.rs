//! Tests that forged telemetry slows down only the affected flow, and that no flow's delay exceeds the bound that
//! follows from its round-trip time. Needs root; `.ci/linux` runs these tests.

mod network;
#[path = "network/port.rs"]
mod port;
#[path = "network/traffic.rs"]
mod traffic;

use core::time::Duration;
use network::TestNetwork;
use poseidon_linux::tcp::{self, Mode, Settings, TcpFlow};
use poseidon_types::{BitRate, Nanos};
use std::path::PathBuf;
use std::thread;
use traffic::{Traffic, Transfer};

/// The port of the flow with forged telemetry.
const PORT: u16 = 5_001;
/// The router's egress devices for data and for ACKs.
const FORWARD: &str = "e1";
const REVERSE: &str = "e0";
/// A code that does not fit in 16 bits makes the program write random values.
const RANDOM: u32 = 0x1_0000;
/// A delay of 256 ns. This is almost zero, but it proves that a hop measures delays.
const EMPTY: u32 = 1;
const FULL: u32 = 0xffff;

/// All cases are in one test, because Poseidon is enabled for the whole machine.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn forged_telemetry_is_bounded() {
    // The queue can hold 24 ms of traffic, much more than the guard allows.
    let network = TestNetwork::new(100, 300_000);
    test_forged_empty_queue(&network);
    test_forged_empty_queue_beside_other_flows(&network);
    test_forged_full_reverse_path(&network);
    test_forged_full_queue(&network);
    test_random_telemetry(&network);
    test_middlebox_that_drops_the_option(&network);
    test_random_loss(&network);
}

/// With coexistence, a loss without a queue does not slow down a flow.
fn test_random_loss(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("coexistence", "true")]);
    port::attach(network, FORWARD, "lossy", [0; 2]);
    let result = poseidon.send(network, PORT, 2_000);
    let flow = print_flow("one packet in a hundred is lost", &result);
    // At the target, about half of the losses coincide with a delay above the target. The law reacts to those.
    assert!(flow.counters.losses > 20 && flow.counters.ignored_losses > flow.counters.losses / 5, "{flow:?}");
    assert!(result.fills_100_mbps(), "{result:?}");
}

/// Half of a round trip's queueing delay always counts. A single flow settles where (queueing - 2 k)/2 = k: at four
/// times the smallest target, which is 1.2 ms. Whatever the flow's rate, its queue stays below 2 T + 2 k = 9.2 ms.
fn test_forged_empty_queue(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("signal", "max-hop-delay")]);
    forge(network, FORWARD, EMPTY);
    let result = poseidon.send(network, PORT, 2_000);
    let flow = print_flow("forged empty queue", &result);
    assert!(flow.mode == Mode::Telemetry && flow.counters.guarded > 100, "{flow:?}");
    assert!(result.queueing < Nanos::from_millis(3) && flow.counters.losses == 0, "{flow:?}");
    assert!(result.fills_100_mbps(), "{result:?}");
}

/// A receiver that reports empty queues gets a larger share than three honest flows, but not all of the link.
fn test_forged_empty_queue_beside_other_flows(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("signal", "max-hop-delay")]);
    forge(network, FORWARD, EMPTY);
    let (forged, honest) = thread::scope(|scope| {
        let send = |port| poseidon.send(network, PORT + port, 4_000);
        let honest = [1, 2, 3].map(|port| scope.spawn(move || send(port)));
        let forged = poseidon.send(network, PORT, 4_000);
        (forged, honest.map(|flow| flow.join().expect("the sender does not panic")))
    });
    let honest: u64 = honest.iter().map(Transfer::mbps).sum();
    println!("{} Mbit/s with forged telemetry, {honest} for three honest flows", forged.mbps());
    assert!(honest >= 12, "{} and {honest} Mbit/s", forged.mbps());
}

/// In brownfield mode, reverse-path telemetry reduces the delay signal. The guard also bounds this effect.
fn test_forged_full_reverse_path(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("signal", "brownfield")]);
    forge(network, REVERSE, FULL);
    let result = poseidon.send(network, PORT, 1_000);
    let flow = print_flow("forged full reverse path", &result);
    assert!(flow.mode == Mode::Brownfield && flow.counters.guarded > 100, "{flow:?}");
    assert!(result.queueing < Nanos::from_micros(7_300), "{flow:?}");
    forge(network, REVERSE, 0);
}

/// A hop cannot delay a packet for longer than its round-trip time, so a reported delay of 16.7 ms is capped at the
/// round-trip time. The flow keeps part of its rate, and the other flow uses the rest.
fn test_forged_full_queue(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("signal", "max-hop-delay")]);
    forge(network, FORWARD, FULL);
    let (forged, other) = thread::scope(|scope| {
        let other = scope.spawn(|| poseidon.send(network, PORT + 1, 1_000));
        (poseidon.send(network, PORT, 1_000), other.join().expect("the sender does not panic"))
    });
    let flow = print_flow("forged full queue", &forged);
    print_flow("other flow", &other);
    assert!(flow.mode == Mode::Telemetry && flow.counters.timeouts == 0, "{flow:?}");
    assert!(flow.counters.implausible > 10 && flow.delay < Nanos::from_millis(5), "{flow:?}");
    assert!(forged.mbps() >= 5 && other.mbps() >= 40, "{forged:?} {other:?}");
}

fn test_random_telemetry(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[("signal", "max-hop-delay")]);
    forge(network, FORWARD, RANDOM);
    let result = poseidon.send(network, PORT, 1_000);
    let flow = print_flow("random telemetry", &result);
    assert!(result.queueing < Nanos::from_micros(7_300) && result.rates[0] > 5_000, "{flow:?}");
}

/// A middlebox drops SYNs with the option. The third SYN, after 3 s, has no option, so the connection opens.
fn test_middlebox_that_drops_the_option(network: &TestNetwork) {
    let poseidon = Enabled::with_settings(&[]);
    port::attach(network, FORWARD, "dropper", [0; 2]);
    let result = poseidon.send(network, PORT, 1_000);
    let flow = print_flow("middlebox drops the option", &result);
    assert!(!flow.option_negotiated && flow.mss.get() == 1_448, "{flow:?}");
}

fn print_flow<'a>(name: &str, result: &'a Transfer) -> &'a TcpFlow {
    let flow = result.flows()[0];
    println!("{name}: {} Mbit/s\n{}\n{flow}", result.mbps(), TcpFlow::HEADER);
    flow
}

fn forge(network: &TestNetwork, link: &str, code: u32) {
    port::attach(network, link, "liar", [u32::from(PORT), code]);
}

/// Poseidon, enabled with the given settings. Dropping this value disables it.
struct Enabled {
    cgroup: PathBuf,
}

impl Enabled {
    fn with_settings(changes: &[(&str, &str)]) -> Self {
        let mut settings = Settings::for_rate(BitRate::from_mbps(100));
        // Test the bounds without coexistence.
        settings.coexistence = false;
        for (name, value) in changes {
            settings.set(name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        Self { cgroup: tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}")) }
    }

    /// Sends on one connection whose ends are both in the cgroup.
    fn send(&self, network: &TestNetwork, port: u16, milliseconds: u64) -> Transfer {
        let cgroup = Some(self.cgroup.as_path());
        let time = Duration::from_millis(milliseconds);
        network.send(Traffic { sender: cgroup, receiver: cgroup, port, connections: 1, time })
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    }
}
