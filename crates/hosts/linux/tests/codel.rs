//! Rust = C = BPF: `bpf/codel.h` marks the packets that the policies in Rust mark, and remembers what they remember.

use poseidon_linux::codel::{Codel, Config, InKernel, Memory, Outcome, Packet, SPACINGS, Start};
use poseidon_policies::mark::{self, CodelRfc, CodelTofino};
use poseidon_testkit::SplitMix64;
use poseidon_types::{Bytes, Nanos, Picos};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use zerocopy::{FromBytes, IntoBytes};

const PACKETS: usize = 1_000_000;
const LARGEST: Bytes = Bytes::new(1_514);

struct Life {
    seed: u64,
    config: Config,
    packets: Vec<Packet>,
    outcomes: Vec<Outcome>,
}

/// By two compilers, and once with a trap at whatever C leaves undefined.
#[test]
fn native_c_marks_what_rust_marks() {
    let from_environment = |name, usual: &str| env::var(name).unwrap_or_else(|_| usual.to_owned());
    let (cc, clang) = (from_environment("CC", "cc"), from_environment("CLANG", "clang-19"));
    let programs = [
        compile("codel", &cc, &["-O2"]),
        compile("codel-clang", &clang, &["-O2"]),
        compile("codel-traps", &clang, &["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined"]),
    ];
    let (mut packets, mut marks) = (0, 0);
    let lives: Vec<_> = lives().collect();
    for some in lives.chunks(64) {
        for life in some {
            packets += life.packets.len();
            marks += life.outcomes.iter().map(|outcome| outcome.marks).sum::<u64>();
        }
        for program in &programs {
            let outcomes = native(program, some);
            some.iter().zip(outcomes).for_each(|(life, outcomes)| assert_equal(life, &outcomes, "C"));
        }
    }
    println!("{packets} packets, {marks} marks, {} programs, no difference", programs.len());
    assert!(packets >= PACKETS && marks > 10_000, "{packets} packets, {marks} marks");
}

/// Not among what `cargo test` runs, because it needs root; `.ci/linux` runs it, or says why it does not.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn the_kernel_marks_what_rust_marks() {
    let kernel = InKernel::load().unwrap_or_else(|error| panic!("{error}"));
    let mut packets = 0;
    for life in lives() {
        let outcomes = kernel.replay(life.config, &life.packets).unwrap_or_else(|error| panic!("{error}"));
        assert_equal(&life, &outcomes, "BPF");
        packets += life.packets.len();
    }
    println!("{packets} packets in the kernel, no difference");
    assert!(packets >= PACKETS);
}

/// The documented difference: the table ends, and then marks are as far apart as at its end.
#[test]
fn spacings_stay_where_the_table_ends() {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let interval = Nanos::from_millis(20);
    let codel = Codel::Tofino(CodelTofino { interval, ..CodelTofino::default() });
    let ms = 1_000_000_000;
    // Every packet finds a mark due.
    let packet = |number: u64| Packet { now: number * 20 * ms, waited: 2 * ms, behind: 1 << 20 };
    let packets: Vec<_> = (0..6_000).map(packet).collect();
    let life = Life { seed: 0, config: Config::new(&codel, LARGEST), packets, outcomes: Vec::new() };
    let outcomes = native(&compile("codel-table", &cc, &["-O2"]), &[life]).concat();
    let last = u32::try_from(SPACINGS - 1).expect("small");
    let spacing = |count: u32| mark::spacing(Picos::from_nanos(interval), count);
    let mut expected = mark::Memory { active: true, count: 1, ..mark::Memory::default() };
    expected.next = Picos::from_nanos(interval);
    for (number, outcome) in outcomes.iter().enumerate().skip(2) {
        expected.count += 1;
        expected.next += spacing(expected.count.min(last));
        assert_eq!(*outcome, Outcome { memory: Memory::from(&expected), marks: 1 }, "packet {number}");
    }
    assert_eq!(spacing(last + 1), Picos::from_nanos(Nanos::new(312_500)));
}

/// Lives until there are enough packets; none long enough to reach the end of the table.
fn lives() -> impl Iterator<Item = Life> {
    let mut left = PACKETS;
    (0..).map(life).take_while(move |life| {
        let more = left > 0;
        left = left.saturating_sub(life.packets.len());
        more
    })
}

fn life(seed: u64) -> Life {
    let mut rng = SplitMix64::new(seed);
    let target = Nanos::new(*rng.pick(&[0, 1, 5_000, 1_000_000, 5_000_000]));
    let interval = Nanos::new(*rng.pick(&[1, 3, 7_000, 20_000_000, 100_000_000]));
    let codel = if rng.below(2) == 0 {
        Codel::Rfc(CodelRfc { target, interval })
    } else {
        Codel::Tofino(CodelTofino { target, interval })
    };
    let (target, interval) = (Picos::from_nanos(target).get(), Picos::from_nanos(interval).get());
    let mut memory = mark::Memory::default();
    let mut now = rng.next_u64() >> rng.within(4, 40);
    let (mut above, mut left) = (true, 0);
    let length = rng.within(1, 4_000);
    let (packets, outcomes) = (0..length)
        .map(|_| {
            if left == 0 {
                (above, left) = (!above || rng.below(4) == 0, rng.within(1, 200));
            }
            left -= 1;
            // A few packets at just the moment that decides, or beside it.
            let edge = *rng.pick(&[memory.next.get(), memory.since.get()]);
            now = match rng.below(8) {
                0 => now.max(edge),
                1 => now.max(edge.saturating_sub(1)),
                2 => now.max(edge + 1),
                3 => now,
                4 => now + rng.below(2 * interval),
                5 => now + rng.below(40 * interval),
                _ => now + rng.below(interval / 8 + 2),
            };
            let beyond = rng.below(target + 1_000);
            let waited = if above { target + beyond } else { target.saturating_sub(beyond + 1) };
            let behind = *rng.pick(&[1 << 20, 1 << 20, 1 << 20, LARGEST.get(), LARGEST.get() + 1]);
            let packet = Packet { now, waited, behind };
            (packet, packet.apply(&codel, LARGEST, &mut memory))
        })
        .unzip();
    Life { seed, config: Config::new(&codel, LARGEST), packets, outcomes }
}

/// The native program `bpf/codel_replay.c`.
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

fn native(program: &Path, lives: &[Life]) -> Vec<Vec<Outcome>> {
    let input = program.with_extension("lives");
    let bytes = lives.iter().flat_map(|life| {
        let packets = life.packets.len() as u64;
        let start = Start { config: life.config, memory: Memory::default(), packets };
        [start.as_bytes(), life.packets.as_bytes()].concat()
    });
    fs::write(&input, bytes.collect::<Vec<_>>()).expect("cargo's own folder can be written");
    let output = Command::new(program).stdin(File::open(&input).expect("just written")).output();
    let output = output.expect("it was just compiled");
    assert!(output.status.success(), "{}", output.status);
    let mut rest = &output.stdout[..];
    let read = lives.iter().map(|life| {
        let (outcomes, after) = <[Outcome]>::ref_from_prefix_with_elems(rest, life.packets.len())
            .unwrap_or_else(|_| panic!("the output ends in life {}", life.seed));
        rest = after;
        outcomes.to_vec()
    });
    let read = read.collect();
    assert!(rest.is_empty());
    read
}

fn assert_equal(life: &Life, others: &[Outcome], who: &str) {
    assert_eq!(others.len(), life.outcomes.len(), "{who}: life {} has another length", life.seed);
    if let Some(at) = (0..others.len()).find(|at| others[*at] != life.outcomes[*at]) {
        panic!(
            "{who} differs in life {} at packet {at}\npacket {:?}\nRust {:?}\n{who} {:?}",
            life.seed, life.packets[at], life.outcomes[at], others[at]
        );
    }
}
