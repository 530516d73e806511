//! Checks that the C port of coexistence matches the Rust implementation: the same events produce the same windows,
//! gaps, modes and reactions to losses.

use poseidon_laws::coexistence::{Coexistence, CoexistenceAck, DelaySignal, Mode};
use poseidon_laws::{Decision, Pacing};
use poseidon_testkit::SplitMix64;
use poseidon_types::{Nanos, Packets};
use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FLOWS: u64 = 600;
const EVENTS: u64 = 2_000;

const ACK: u64 = 0;
const LOSS: u64 = 1;
const TIMEOUT: u64 = 2;
const START: u64 = 3;

/// The Rust counterpart of `struct event` in `bpf/coexistence.c`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
struct Event {
    now: u64,
    rtt: u64,
    delay: u64,
    limit: u64,
    law_window: u64,
    packets: u32,
    lost: u32,
    is_marked: u8,
    app_limited: u8,
    within_target: u8,
    unused: [u8; 5],
    law_gap: u64,
    kind: u64,
}

/// The Rust counterpart of `struct outcome` in `bpf/coexistence.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Outcome {
    window: u64,
    gap: u64,
    mode: u32,
    episodes: u32,
    law_reacts: u64,
}

#[test]
fn c_equals_rust() {
    let events: Vec<Event> = (0..FLOWS).flat_map(random_flow).collect();
    let in_c = run_c(&events);
    let mut flow = Coexistence::new(Nanos::ZERO);
    let (mut competed, mut yielded, mut ignored) = (0, 0, 0);
    assert_eq!(in_c.len(), events.len());
    for (index, (event, in_c)) in events.iter().zip(&in_c).enumerate() {
        let outcome = apply(&mut flow, event);
        assert_eq!(outcome, *in_c, "event {index}: {event:?}\n{flow:?}");
        competed += u32::from(flow.mode() == Mode::Compete);
        yielded += u32::from(flow.mode() == Mode::Yield);
        ignored += u32::from(outcome.law_reacts == 0);
    }
    println!(
        "{} events, {competed} while competing, {yielded} while yielding, {ignored} losses ignored",
        events.len()
    );
    assert!(competed > 50_000 && yielded > 5_000 && ignored > 1_000, "the events reach every mode");
}

/// Returns random events for a flow whose queueing delay varies.
fn random_flow(seed: u64) -> Vec<Event> {
    let mut rng = SplitMix64::new(seed);
    let limit = 1 << rng.within(10, 22);
    let base_rtt = 1 << rng.within(10, 24);
    let mut now = if rng.below(4) == 0 { u64::MAX - rng.below(1 << 34) } else { rng.below(1 << 50) };
    let mut delay = 0;
    (0..EVENTS)
        .map(|index| {
            now = now.wrapping_add(rng.below(2 * base_rtt));
            if rng.below(100) == 0 {
                // The delay is mostly above the limit, and sometimes arbitrary.
                delay = match rng.below(8) {
                    0 => rng.below(limit),
                    1 => rng.next_u64(),
                    _ => limit + rng.below(4 * limit),
                };
            }
            Event {
                now,
                rtt: base_rtt + delay.min(1 << 33),
                delay: delay.saturating_sub(rng.below(limit / 2)),
                limit,
                law_window: rng.below(1 << 30),
                packets: if rng.below(64) == 0 { u32::MAX } else { 1 + u32::from(rng.below(2) == 0) },
                lost: u32::from(rng.below(40) == 0),
                is_marked: u8::from(rng.below(200) == 0),
                app_limited: u8::from(rng.below(100) == 0),
                within_target: u8::from(rng.below(2) == 0),
                unused: [0; 5],
                law_gap: rng.below(1 << 40),
                kind: match (index, rng.below(100)) {
                    (0, _) => START,
                    (_, 0..=2) => LOSS,
                    (_, 3) => TIMEOUT,
                    _ => ACK,
                },
            }
        })
        .collect()
}

fn apply(flow: &mut Coexistence, event: &Event) -> Outcome {
    let now = Nanos::new(event.now);
    let mut law_reacts = true;
    match event.kind {
        ACK => flow.on_ack(&CoexistenceAck {
            now,
            rtt: Nanos::new(event.rtt),
            packets: event.packets,
            lost: event.lost,
            is_marked: event.is_marked != 0,
            app_limited: event.app_limited != 0,
            signal: DelaySignal {
                delay: Nanos::new(event.delay),
                within_target: event.within_target != 0,
                limit: Nanos::new(event.limit),
            },
            window: Packets::from_q24(event.law_window),
        }),
        LOSS => law_reacts = flow.on_loss(now),
        TIMEOUT => flow.on_timeout(now),
        _ => *flow = Coexistence::new(now),
    }
    let law = Decision {
        window: Packets::from_q24(event.law_window),
        pacing: Pacing::Gap(Nanos::new(event.law_gap)),
    };
    let Decision { window, pacing } = flow.decision(law);
    Outcome {
        window: window.q24(),
        gap: match pacing {
            Pacing::Gap(gap) => gap.get(),
            Pacing::Off | Pacing::Rate(_) => 0,
        },
        mode: match flow.mode() {
            Mode::Compete => 1,
            Mode::Yield => 2,
            _ => 0,
        },
        episodes: flow.episodes(),
        law_reacts: u64::from(law_reacts),
    }
}

/// Runs the native program `bpf/coexistence.c`.
fn run_c(events: &[Event]) -> Vec<Outcome> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coexistence");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-o"])
        .args([&program, Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/coexistence.c"))])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler}");
    let input = program.with_extension("events");
    fs::write(&input, events.as_bytes()).expect("the target folder is writable");
    let output = Command::new(&program).stdin(File::open(&input).expect("the input exists")).output();
    let output = output.expect("the program was compiled");
    assert!(output.status.success(), "{}", output.status);
    output
        .stdout
        .chunks(size_of::<Outcome>())
        .map(|bytes| Outcome::read_from_bytes(bytes).expect("the output consists of whole outcomes"))
        .collect()
}
