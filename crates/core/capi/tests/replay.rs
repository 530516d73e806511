//! The hashes in `examples/replay.out` are the ones of `AnyLaw`. `.ci/capi` compares them with the output of the C program
//! `examples/replay.c`, so the compiled C library decides like the Rust code.

use core::fmt::Write;
use poseidon_laws::{Ack, AnyLaw, AnyParams, LAWS, Law, Loss, Pacing, Path, Timeout};
use poseidon_testkit::rng::SplitMix64;
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos, Signals};

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// The same events as `run_event` in C. Random numbers are drawn in the same order.
fn run_event(law: &mut AnyLaw, random: &mut Random, now: u64, seq: u64) {
    match random.below(20) {
        0 => law.on_loss(&Loss { now: Nanos::new(now) }),
        1 => law.on_timeout(&Timeout { now: Nanos::new(now), bytes: Bytes::ZERO }),
        _ => {
            let flags = random.below(16);
            let hop_count = u8::try_from(random.below(8)).expect("the number is small");
            let mut ack = Ack {
                now: Nanos::new(now),
                rtt: Nanos::new(9_900 + random.below(60_000)),
                bytes: Bytes::new(random.below(65_536)),
                hop_count,
                circuit_up: flags & 4 != 0,
                app_limited: flags & 8 != 0,
                ..Ack::EMPTY
            };
            ack.marked = Bytes::new(random.below(2) * random.below(65_536));
            ack.acked_seq = seq;
            ack.next_seq = seq + random.below(200_000);
            let delays = (random.below(50_000), random.below(50_000));
            ack.max_hop_delay = (flags & 1 != 0).then_some(Nanos::new(delays.0));
            ack.reverse_max_hop_delay = (flags & 2 != 0).then_some(Nanos::new(delays.1));
            ack.endpoint_delay = Nanos::new(random.below(20_000));
            ack.packets = u32::try_from(random.below(16)).expect("the number is small");
            ack.random = u32::try_from(random.below(1 << 32)).expect("the number has 32 bits");
            let timestamp = Nanos::new(random.below(2) << 24);
            let wrap = CounterWrap { timestamp, sent: Bytes::new(random.below(2) << 27) };
            let records = [(); 3].map(|()| HopRecord {
                timestamp: Nanos::new(now + random.below(1_000)),
                sent: Bytes::new(random.below(1 << 30)),
                queue: Bytes::new(random.below(1 << 20)),
                rate: BitRate::from_gbps(100),
            });
            law.on_ack(&Ack { hops: HopPath { records: &records, wrap }, ..ack });
        }
    }
}

const fn add(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).wrapping_add(hash >> 29)
}

fn run_law(name: &str) -> u64 {
    let path = Path::new(Bytes::new(4_096), BitRate::from_gbps(200), Nanos::new(9_900));
    let params = AnyParams::for_law(name).expect("the law is registered");
    let mut law = params.build(&path, Signals::ALL).expect("the defaults are valid");
    let (mut hash, mut now, mut seq) = (0xcbf2_9ce4_8422_2325, 1_000_000, 0);
    let mut random = Random(SplitMix64::new(7));
    for _ in 0..2_000 {
        now += random.below(40_000);
        seq += random.below(65_536);
        run_event(&mut law, &mut random, now, seq);
        let decision = law.decision();
        let (gap, rate) = match decision.pacing {
            Pacing::Off => (0, 0),
            Pacing::Gap(gap) => (gap.get(), 0),
            Pacing::Rate(rate) => (0, rate.get()),
        };
        hash = add(add(add(hash, decision.window.q24()), gap), rate);
    }
    hash
}

#[test]
fn replayed_decisions_are_the_ones_that_c_prints() {
    let mut lines = String::new();
    for law in LAWS {
        writeln!(lines, "{} {:016x}", law.name, run_law(law.name)).expect("a string can grow");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/replay.out");
    let expected = std::fs::read_to_string(path).expect("the file is part of the repository");
    assert_eq!(lines, expected, "if a law has changed on purpose, update {path}");
}
