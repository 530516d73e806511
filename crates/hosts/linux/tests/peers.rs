//! Tests the C ports of Swift and DCTCP. Swift is compared with the Rust law, and both ports run with real packets.

mod network;
#[path = "network/port.rs"]
mod port;
#[path = "network/traffic.rs"]
mod traffic;

use core::time::Duration;
use network::{Node, TestNetwork};
use poseidon_laws::laws::swift::{Swift, SwiftParams};
use poseidon_laws::{Ack, Law, LawDefinition, Loss, Path, Timeout};
use poseidon_linux::peers::{Peer, SwiftFlow};
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Nanos, Packets};
use std::env;
use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;
use traffic::{Traffic, Transfer};
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

/// The maximum relative error of a C window, compared with the `f64` window in Rust.
const TOLERANCE: f64 = 1e-4;
const HOPS: u8 = 3;

/// The Rust counterpart of `struct event` in `bpf/swift.c`.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct Event {
    now: u64,
    rtt: u64,
    packets: u32,
    app_limited: u16,
    kind: u16,
}

#[test]
fn integer_swift_follows_the_law_in_rust() {
    let program = compile();
    let mut max_error: f64 = 0.0;
    for seed in 0..300 {
        let mut rng = SplitMix64::new(seed);
        let params = params(&mut rng);
        let path = Path {
            mtu: Bytes::new(1_448),
            line_rate: BitRate::from_gbps(100),
            base_rtt: Nanos::from_micros(20),
        };
        let mut law = Swift::new(&params, &path);
        let mut now = rng.below(1 << 50);
        let (events, windows): (Vec<_>, Vec<_>) = (0..400)
            .map(|_| {
                now += rng.below(2 * params.base_target.get());
                let event = event(&mut rng, now, target(&params, law.decision().window));
                apply(&mut law, &event);
                (event, to_f64(law.decision().window))
            })
            .unzip();
        let flow = SwiftFlow::new(&params, HOPS).unwrap_or_else(|error| panic!("{error}"));
        let in_c = run(&program, &flow, &events);
        assert_eq!(in_c.len(), windows.len());
        for (index, (in_c, in_rust)) in in_c.iter().zip(&windows).enumerate() {
            let error = (in_c / in_rust - 1.0).abs();
            max_error = max_error.max(error);
            assert!(error < TOLERANCE, "trace {seed} at event {index}: {in_c} in C, {in_rust} in Rust");
        }
    }
    println!("largest relative error: {max_error:.1e}");
}

fn params(rng: &mut SplitMix64) -> SwiftParams {
    SwiftParams {
        base_target: Nanos::from_micros(rng.within(10, 2_000)),
        scaling_range: Nanos::from_micros(rng.within(0, 5_000)),
        additive_increase: Packets::from_q24(rng.within(1 << 18, 4 << 24)),
        max_window: Packets::whole(rng.within(32, 4_096)),
        ..SwiftParams::default()
    }
}

/// Equation 2 of the Swift paper, in floating point.
fn target(params: &SwiftParams, window: Packets) -> f64 {
    let inverse_sqrt = |window: Packets| 1.0 / to_f64(window).sqrt();
    let range = params.scaling_range.get() as f64;
    let a = range / (inverse_sqrt(params.scaling_min_window) - inverse_sqrt(params.scaling_max_window));
    let scaling = a * (inverse_sqrt(window) - inverse_sqrt(params.scaling_max_window));
    (params.base_target.get() + u64::from(HOPS) * params.per_hop.get()) as f64 + scaling.clamp(0.0, range)
}

/// Returns an event with a delay of 0.5 to 1.5 times the target, but not exactly at the target, where rounding would
/// decide the outcome.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a delay is small and positive")]
fn event(rng: &mut SplitMix64, now: u64, target: f64) -> Event {
    let ratio = rng.within(500, 1_500) as f64 / 1_000.0;
    let ratio = if (ratio - 1.0).abs() < 2e-3 { 1.01 } else { ratio };
    let kind = match rng.below(40) {
        0 => 1,
        1 => 2,
        _ => 0,
    };
    let packets = u32::try_from(rng.within(1, 4)).expect("the value is small");
    let app_limited = u16::from(rng.below(8) == 0);
    Event { now, rtt: (target * ratio) as u64, packets, app_limited, kind }
}

fn apply(law: &mut Swift, event: &Event) {
    let now = Nanos::new(event.now);
    match event.kind {
        0 => law.on_ack(&Ack {
            now,
            rtt: Nanos::new(event.rtt),
            packets: event.packets,
            hop_count: HOPS,
            app_limited: event.app_limited != 0,
            ..Ack::EMPTY
        }),
        1 => law.on_loss(&Loss { now }),
        _ => law.on_timeout(&Timeout { now, bytes: Bytes::ZERO }),
    }
}

fn to_f64(window: Packets) -> f64 {
    window.q24() as f64 / Packets::ONE.q24() as f64
}

fn compile() -> std::path::PathBuf {
    let program = FilePath::new(env!("CARGO_TARGET_TMPDIR")).join("swift");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o"])
        .args([&program, FilePath::new(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/swift.c"))])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler}");
    program
}

/// Returns the window after each event.
fn run(program: &FilePath, flow: &SwiftFlow, events: &[Event]) -> Vec<f64> {
    let input = program.with_extension("trace");
    let bytes = [flow.as_bytes(), events.as_bytes()].concat();
    fs::write(&input, bytes).expect("the target folder is writable");
    let output = Command::new(program).stdin(File::open(&input).expect("the input exists")).output();
    let output = output.expect("the program was compiled");
    assert!(output.status.success(), "{}", output.status);
    let windows = output
        .stdout
        .chunks(8)
        .map(|bytes| u64::read_from_bytes(bytes).expect("the output consists of whole integers"));
    windows.map(|window| to_f64(Packets::from_q24(window))).collect()
}

/// Both congestion controls fill the link. Swift keeps the queue at its target. One eighth of the DCTCP packets are
/// marked, and none are lost.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn peers_run_in_tcp() {
    let network = TestNetwork::new(100, 300_000);
    disable_delayed_acks(&network);
    let params = SwiftParams {
        base_target: Nanos::from_micros(1_000),
        per_hop: Nanos::from_micros(50),
        scaling_range: Nanos::from_millis(4),
        ..SwiftParams::default()
    };
    let swift = Peer::swift(&params, 1).unwrap_or_else(|error| panic!("{error}"));
    let (sent, state) = run_control(&network, swift.name());
    println!("swift: {} Mbit/s; {state}", sent.mbps());
    assert!(sent.fills_100_mbps(), "{sent:?}; {state}");
    // At a window of ten packets, the target is between 1.05 ms and 1.6 ms. A full queue is 24 ms.
    assert!((0.5..4.0).contains(&field_value(&state, "rtt:")), "{state}");

    port::attach(&network, "e1", "marker", [0; 2]);
    let dctcp = Peer::dctcp().unwrap_or_else(|error| panic!("{error}"));
    let (sent, state) = run_control(&network, dctcp.name());
    println!("dctcp: {} Mbit/s; {state}", sent.mbps());
    let marked = field_value(&state, "delivered_ce:") / field_value(&state, "delivered:");
    assert!((0.08..0.17).contains(&marked), "{state}");
    // A window with a mark shrinks by a sixteenth, and a window without a mark grows by one packet, so the window stays
    // between 16 and 32 packets. Reno's window would be 4 packets.
    assert!((8.0..64.0).contains(&field_value(&state, "cwnd:")), "{state}");
    assert!(sent.fills_100_mbps(), "{sent:?}; {state}");
}

/// Makes the receiver acknowledge each packet immediately. Swift would mistake a delayed ACK (40 ms) for a queue.
fn disable_delayed_acks(network: &TestNetwork) {
    let change = || {
        Command::new("sh")
            .args(["-c", "ip route change $(ip route show default) quickack 1"])
            .status()
            .expect("a shell is installed")
    };
    assert!(network.run_in(Node::Receiver, change).success());
}

/// Sends data on one connection with this congestion control. Returns the result and the output of `ss`.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn run_control(network: &TestNetwork, name: &str) -> (Transfer, String) {
    for node in [Node::Sender, Node::Receiver] {
        network
            .run_in(node, || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name))
            .expect("root may change settings");
    }
    let time = Duration::from_millis(1_500);
    let traffic = Traffic { sender: None, receiver: None, port: 5_001, connections: 1, time };
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| network.send(traffic));
        std::thread::sleep(time * 2 / 3);
        let ss = || {
            Command::new("ss").args(["-tinH", "dport", "=", ":5001"]).output().expect("iproute2 is installed")
        };
        let state = String::from_utf8_lossy(&network.run_in(Node::Sender, ss).stdout).into_owned();
        let sent = sent.join().expect("the sender does not panic");
        assert!(sent.flows().is_empty() && sent.queueing.is_zero(), "poseidon is enabled: {:?}", sent.table);
        (sent, state)
    })
}

/// Returns the number after `key` in the output of `ss`.
fn field_value(state: &str, key: &str) -> f64 {
    let mut words = state.split_whitespace().filter_map(|word| word.strip_prefix(key));
    let digits = words.next().unwrap_or_else(|| panic!("no {key} in {state}"));
    digits.split('/').next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{digits}"))
}
