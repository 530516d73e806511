//! Tests that Rust, C and BPF agree: `bpf/codel.h` marks the same packets as the Rust policies, and has the same state
//! after each packet.

use poseidon_linux::codel::{Codel, Config, KernelReplay, Outcome, Packet, QueueState, SPACINGS, Start};
use poseidon_policies::mark::{self, CodelRfc, CodelTofino};
use poseidon_testkit::SplitMix64;
use poseidon_types::{Bytes, Nanos, Picos};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use zerocopy::{FromBytes, IntoBytes};

const PACKETS: usize = 1_000_000;
const MAX_PACKET: Bytes = Bytes::new(1_514);

/// A queue's packets, and the Rust policy's outcomes.
struct Trace {
    seed: u64,
    config: Config,
    packets: Vec<Packet>,
    outcomes: Vec<Outcome>,
}

/// Builds the C code with two compilers, and once more with the undefined behaviour sanitizer.
#[test]
fn native_c_equals_rust() {
    let from_environment = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let (cc, clang) = (from_environment("CC", "cc"), from_environment("CLANG", "clang-19"));
    let programs = [
        compile("codel", &cc, &["-O2"]),
        compile("codel-clang", &clang, &["-O2"]),
        compile("codel-traps", &clang, &["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined"]),
    ];
    let (mut packets, mut marks) = (0, 0);
    let traces: Vec<_> = traces().collect();
    for batch in traces.chunks(64) {
        for trace in batch {
            packets += trace.packets.len();
            marks += trace.outcomes.iter().map(|outcome| outcome.marks).sum::<u64>();
        }
        for program in &programs {
            let outcomes = run_native(program, batch);
            batch.iter().zip(outcomes).for_each(|(trace, outcomes)| assert_equal(trace, &outcomes, "C"));
        }
    }
    println!("{packets} packets, {marks} marks, {} programs, no difference", programs.len());
    assert!(packets >= PACKETS && marks > 10_000, "{packets} packets, {marks} marks");
}

/// Needs root, so `cargo test` ignores this test; `.ci/linux` runs it.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn kernel_equals_rust() {
    let kernel = KernelReplay::load().unwrap_or_else(|error| panic!("{error}"));
    let mut packets = 0;
    for trace in traces() {
        let outcomes = kernel.replay(trace.config, &trace.packets).unwrap_or_else(|error| panic!("{error}"));
        assert_equal(&trace, &outcomes, "BPF");
        packets += trace.packets.len();
    }
    println!("{packets} packets in the kernel, no difference");
    assert!(packets >= PACKETS);
}

/// Tests the documented difference: beyond the end of the table, the spacing between marks is constant.
#[test]
fn spacing_is_constant_beyond_the_table() {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let interval = Nanos::from_millis(20);
    let codel = Codel::Tofino(CodelTofino { interval, ..CodelTofino::default() });
    let ms = 1_000_000_000;
    // A mark is due at every packet.
    let packet = |number: u64| Packet { now: number * 20 * ms, sojourn_time: 2 * ms, queue_len: 1 << 20 };
    let packets: Vec<_> = (0..6_000).map(packet).collect();
    let trace = Trace { seed: 0, config: Config::new(&codel, MAX_PACKET), packets, outcomes: Vec::new() };
    let outcomes = run_native(&compile("codel-table", &cc, &["-O2"]), &[trace]).concat();
    let last = u32::try_from(SPACINGS - 1).expect("the table is small");
    let spacing = |count: u32| mark::mark_spacing(Picos::from_nanos(interval), count);
    let mut expected = mark::MarkState { marking: true, count: 1, ..mark::MarkState::default() };
    expected.next_mark = Picos::from_nanos(interval);
    for (number, outcome) in outcomes.iter().enumerate().skip(2) {
        expected.count += 1;
        expected.next_mark += spacing(expected.count.min(last));
        assert_eq!(*outcome, Outcome { state: QueueState::from(&expected), marks: 1 }, "packet {number}");
    }
    assert_eq!(spacing(last + 1), Picos::from_nanos(Nanos::new(312_500)));
}

/// Returns traces with at least `PACKETS` packets in total. None of them reaches the end of the table.
fn traces() -> impl Iterator<Item = Trace> {
    let mut remaining = PACKETS;
    (0..).map(random_trace).take_while(move |trace| {
        let is_needed = remaining > 0;
        remaining = remaining.saturating_sub(trace.packets.len());
        is_needed
    })
}

fn random_trace(seed: u64) -> Trace {
    let mut rng = SplitMix64::new(seed);
    let target = Nanos::new(*rng.pick(&[0, 1, 5_000, 1_000_000, 5_000_000]));
    let interval = Nanos::new(*rng.pick(&[1, 3, 7_000, 20_000_000, 100_000_000]));
    let codel = if rng.below(2) == 0 {
        Codel::Rfc(CodelRfc { target, interval })
    } else {
        Codel::Tofino(CodelTofino { target, interval })
    };
    let (target, interval) = (Picos::from_nanos(target).get(), Picos::from_nanos(interval).get());
    let mut state = mark::MarkState::default();
    let mut now = rng.next_u64() >> rng.within(4, 40);
    let (mut above, mut remaining) = (true, 0);
    let length = rng.within(1, 4_000);
    let (packets, outcomes) = (0..length)
        .map(|_| {
            if remaining == 0 {
                (above, remaining) = (!above || rng.below(4) == 0, rng.within(1, 200));
            }
            remaining -= 1;
            // Some packets arrive exactly at a deadline, or just before or after it.
            let edge = *rng.pick(&[state.next_mark.get(), state.first_above.get()]);
            now = match rng.below(8) {
                0 => now.max(edge),
                1 => now.max(edge.saturating_sub(1)),
                2 => now.max(edge + 1),
                3 => now,
                4 => now + rng.below(2 * interval),
                5 => now + rng.below(40 * interval),
                _ => now + rng.below(interval / 8 + 2),
            };
            let excess = rng.below(target + 1_000);
            let sojourn_time = if above { target + excess } else { target.saturating_sub(excess + 1) };
            let queue_len = *rng.pick(&[1 << 20, 1 << 20, 1 << 20, MAX_PACKET.get(), MAX_PACKET.get() + 1]);
            let packet = Packet { now, sojourn_time, queue_len };
            (packet, packet.apply(&codel, MAX_PACKET, &mut state))
        })
        .unzip();
    Trace { seed, config: Config::new(&codel, MAX_PACKET), packets, outcomes }
}

/// Compiles the native program `bpf/codel_replay.c`.
fn compile(name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/codel_replay.c");
    let status = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"])
        .args(options)
        .args([Path::new("-o"), &program, Path::new(source)])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} {options:?}");
    program
}

fn run_native(program: &Path, traces: &[Trace]) -> Vec<Vec<Outcome>> {
    let input = program.with_extension("traces");
    let bytes = traces.iter().flat_map(|trace| {
        let packets = trace.packets.len() as u64;
        let start = Start { config: trace.config, state: QueueState::default(), packets };
        [start.as_bytes(), trace.packets.as_bytes()].concat()
    });
    fs::write(&input, bytes.collect::<Vec<_>>()).expect("the target folder is writable");
    let output = Command::new(program).stdin(File::open(&input).expect("the input exists")).output();
    let output = output.expect("the program was compiled");
    assert!(output.status.success(), "{}", output.status);
    let mut rest = &output.stdout[..];
    let outcomes = traces.iter().map(|trace| {
        let (outcomes, after) = <[Outcome]>::ref_from_prefix_with_elems(rest, trace.packets.len())
            .unwrap_or_else(|_| panic!("the output ends in trace {}", trace.seed));
        rest = after;
        outcomes.to_vec()
    });
    let outcomes = outcomes.collect();
    assert!(rest.is_empty());
    outcomes
}

/// Panics at the first outcome that differs from the Rust policy's outcome.
fn assert_equal(trace: &Trace, outcomes: &[Outcome], program: &str) {
    assert_eq!(
        outcomes.len(),
        trace.outcomes.len(),
        "{program}: trace {} has a different length",
        trace.seed
    );
    if let Some(index) = (0..outcomes.len()).find(|index| outcomes[*index] != trace.outcomes[*index]) {
        panic!(
            "{program} differs in trace {} at packet {index}\npacket {:?}\nRust {:?}\n{program} {:?}",
            trace.seed, trace.packets[index], trace.outcomes[index], outcomes[index]
        );
    }
}
