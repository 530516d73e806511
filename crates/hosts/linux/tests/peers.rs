//! Swift and DCTCP in C: Swift beside the law in Rust, and both on real packets.

#[path = "room/port.rs"]
mod port;
mod room;
#[path = "room/traffic.rs"]
mod traffic;

use core::time::Duration;
use poseidon_laws::laws::swift::{Swift, SwiftParams};
use poseidon_laws::{Ack, Law, Loss, Path};
use poseidon_linux::peers::{Peer, SwiftFlow};
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Nanos, Packets};
use room::{Place, Room};
use std::env;
use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;
use traffic::{Sent, Traffic};
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

/// How far a window may be from the law's in `f64`.
const WITHIN: f64 = 1e-4;
const HOPS: u8 = 3;

/// `struct event` of `bpf/swift.c`.
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
fn swift_in_integers_stays_beside_swift_in_rust() {
    let program = compile();
    let mut farthest: f64 = 0.0;
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
                (event, real(law.decision().window))
            })
            .unzip();
        let flow = SwiftFlow::new(&params, HOPS).unwrap_or_else(|error| panic!("{error}"));
        let in_c = run(&program, &flow, &events);
        assert_eq!(in_c.len(), windows.len());
        for (at, (in_c, in_rust)) in in_c.iter().zip(&windows).enumerate() {
            let off = (in_c / in_rust - 1.0).abs();
            farthest = farthest.max(off);
            assert!(off < WITHIN, "life {seed} at {at}: {in_c} in C, {in_rust} in Rust");
        }
    }
    println!("the farthest window is off by {farthest:.1e}");
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

/// Equation 2 of Swift's paper, in real numbers.
fn target(params: &SwiftParams, window: Packets) -> f64 {
    let root = |window: Packets| 1.0 / real(window).sqrt();
    let range = params.scaling_range.get() as f64;
    let a = range / (root(params.scaling_min_window) - root(params.scaling_max_window));
    let scaling = a * (root(window) - root(params.scaling_max_window));
    (params.base_target.get() + u64::from(HOPS) * params.per_hop.get()) as f64 + scaling.clamp(0.0, range)
}

/// Delays from half the target to one and a half, but not on its very edge, where the last bit of a window decides.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a delay is small and positive")]
fn event(rng: &mut SplitMix64, now: u64, target: f64) -> Event {
    let part = rng.within(500, 1_500) as f64 / 1_000.0;
    let part = if (part - 1.0).abs() < 2e-3 { 1.01 } else { part };
    let kind = match rng.below(40) {
        0 => 1,
        1 => 2,
        _ => 0,
    };
    let packets = u32::try_from(rng.within(1, 4)).expect("small");
    let app_limited = u16::from(rng.below(8) == 0);
    Event { now, rtt: (target * part) as u64, packets, app_limited, kind }
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
        _ => law.on_timeout(now),
    }
}

fn real(window: Packets) -> f64 {
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

/// The window after each event.
fn run(program: &FilePath, flow: &SwiftFlow, events: &[Event]) -> Vec<f64> {
    let input = program.with_extension("life");
    let bytes = [flow.as_bytes(), events.as_bytes()].concat();
    fs::write(&input, bytes).expect("cargo's own folder can be written");
    let output = Command::new(program).stdin(File::open(&input).expect("just written")).output();
    let output = output.expect("it was just compiled");
    assert!(output.status.success(), "{}", output.status);
    let windows = output.stdout.chunks(8).map(|bytes| u64::read_from_bytes(bytes).expect("whole numbers"));
    windows.map(|window| real(Packets::from_q24(window))).collect()
}

/// Both fill the link; Swift keeps the queue at its target, and DCTCP, of whose packets an eighth is marked, loses none.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn peers_run_in_tcp() {
    let room = Room::new(100, 300_000);
    ack_at_once(&room);
    let params = SwiftParams {
        base_target: Nanos::from_micros(1_000),
        per_hop: Nanos::from_micros(50),
        scaling_range: Nanos::from_millis(4),
        ..SwiftParams::default()
    };
    let swift = Peer::swift(&params, 1).unwrap_or_else(|error| panic!("{error}"));
    let (sent, state) = try_out(&room, swift.name());
    println!("swift: {} Mbit/s; {state}", sent.mbps());
    assert!(sent.fills_100_mbps(), "{sent:?}; {state}");
    // Its target is between 1.05 ms and 1.6 ms at ten packets; a full queue is 24 ms.
    assert!((0.5..4.0).contains(&number(&state, "rtt:")), "{state}");

    port::put(&room, "e1", "marker", [0; 2]);
    let dctcp = Peer::dctcp().unwrap_or_else(|error| panic!("{error}"));
    let (sent, state) = try_out(&room, dctcp.name());
    println!("dctcp: {} Mbit/s; {state}", sent.mbps());
    let marked = number(&state, "delivered_ce:") / number(&state, "delivered:");
    assert!((0.08..0.17).contains(&marked), "{state}");
    // A sixteenth is cut when a window has a mark, and a packet added when it has none: 16 to 32 packets. Reno would have 4.
    assert!((8.0..64.0).contains(&number(&state, "cwnd:")), "{state}");
    assert!(sent.fills_100_mbps(), "{sent:?}; {state}");
}

/// Swift would take the 40 ms that a receiver may hold an ACK back for a queue, and Swift has no option by which it could tell.
fn ack_at_once(room: &Room) {
    let change = || {
        Command::new("sh")
            .args(["-c", "ip route change $(ip route show default) quickack 1"])
            .status()
            .expect("a shell")
    };
    assert!(room.enter(Place::Receiver, change).success());
}

/// One connection under this congestion control: what came of it, and what `ss` says of it.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn try_out(room: &Room, name: &str) -> (Sent, String) {
    for place in [Place::Sender, Place::Receiver] {
        room.enter(place, || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name)).expect("root may");
    }
    let time = Duration::from_millis(1_500);
    let traffic = Traffic { sender: None, receiver: None, port: 5_001, connections: 1, time };
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| room.send(traffic));
        std::thread::sleep(time * 2 / 3);
        let ss = || Command::new("ss").args(["-tinH", "dport", "=", ":5001"]).output().expect("iproute2");
        let state = String::from_utf8_lossy(&room.enter(Place::Sender, ss).stdout).into_owned();
        let sent = sent.join().expect("it sends");
        assert!(sent.flows().is_empty() && sent.queueing.is_zero(), "poseidon is on: {:?}", sent.table);
        (sent, state)
    })
}

/// The number behind a word of `ss`.
fn number(state: &str, word: &str) -> f64 {
    let mut words = state.split_whitespace().filter_map(|found| found.strip_prefix(word));
    let digits = words.next().unwrap_or_else(|| panic!("{word} in {state}"));
    digits.split('/').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{digits}"))
}
