//! Random operations for any law: ACKs, losses, timeouts, trimmed packets, wrapping clocks, and invalid telemetry.
//!
//! A law cannot return an error, so it must handle any input from a host or a network. [`assert_valid_decision`] checks
//! a law after each operation. [`assert_conforms`] checks whole sequences.

use crate::rng::SplitMix64;
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, LawDefinition, Loss, Pacing, Path, Timeout, Trim};
use poseidon_types::telemetry::MAX_HOPS;
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, HopStack, Nanos, Packets};

/// An event that a host reports to a law.
#[derive(Debug, Clone)]
pub enum Operation {
    /// An ACK and its hop records.
    Ack(Box<(Ack<'static>, HopStack, CounterWrap)>),
    /// A loss that starts fast recovery.
    Loss(Loss),
    /// A retransmission timeout.
    Timeout(Timeout),
    /// A trimmed packet.
    Trim(Trim),
}

/// Returns up to `max_count` random operations with increasing times.
pub fn random_operations(rng: &mut SplitMix64, max_count: usize) -> Vec<Operation> {
    // Most clocks start at an ordinary time; some start just before they wrap.
    let mut now = if rng.below(8) == 0 { u64::MAX - rng.below(1 << 20) } else { rng.below(1 << 40) };
    let mut seq = if rng.below(8) == 0 { u64::MAX - rng.below(1 << 20) } else { rng.below(1 << 30) };
    (0..=rng.index(max_count))
        .map(|_| {
            let gap = random_value(rng, 100_000);
            now = now.wrapping_add(gap);
            match rng.below(20) {
                0 => Operation::Loss(Loss { now: Nanos::new(now) }),
                1 => Operation::Timeout(random_timeout(rng, now)),
                2 => Operation::Trim(random_trim(rng, now)),
                _ => {
                    seq = seq.wrapping_add(random_value(rng, 10_000));
                    Operation::Ack(Box::new(random_ack(rng, now, seq)))
                }
            }
        })
        .collect()
}

/// Applies an operation to a law.
pub fn apply<L: Law>(law: &mut L, operation: &Operation) {
    match operation {
        Operation::Ack(event) => {
            let (ack, stack, wrap) = &**event;
            law.on_ack(&Ack { hops: HopPath { records: stack.as_slice(), wrap: *wrap }, ..*ack });
        }
        Operation::Loss(loss) => law.on_loss(loss),
        Operation::Timeout(timeout) => law.on_timeout(timeout),
        Operation::Trim(trim) => law.on_trim(trim),
    }
}

/// Checks a decision: the window is neither zero nor unbounded, and the pacing is finite.
///
/// # Panics
/// Panics if the decision is invalid. The message contains the law's state.
pub fn assert_valid_decision<L: Law>(law: &L) {
    let decision = law.decision();
    assert!(decision.window > Packets::ZERO, "zero window in {law:?}");
    assert!(decision.window <= Packets::MAX_WINDOW, "window {decision:?} in {law:?}");
    match decision.pacing {
        Pacing::Off => {
            assert!(decision.window >= Packets::ONE, "{decision:?} is below one packet without pacing");
        }
        // The largest RTT that a law represents (4.3 s) divided by the smallest window that a parameter allows (0.001
        // packets).
        Pacing::Gap(gap) => {
            assert!(gap <= Nanos::from_millis(10_000_000), "gap {gap} in {law:?}")
        }
        Pacing::Rate(rate) => assert!(rate > BitRate::ZERO, "zero rate in {law:?}"),
    }
}

/// Values for random parameters: range bounds and the names of all choices.
const PARAMETER_VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "30",
    "255",
    "0.001",
    "0.01",
    "0.25",
    "0.5",
    "0.9",
    "0.99",
    "1.01",
    "1.999",
    "16",
    "true",
    "false",
    "0 ns",
    "1 ns",
    "30 ns",
    "2 us",
    "40 us",
    "10 ms",
    "1 s",
    "4 s",
    "0 bps",
    "1 bps",
    "20 Mbps",
    "50 Mbps",
    "200 Gbps",
    "100 Tbps",
    "0 B",
    "1 B",
    "1 kB",
    "10 MB",
    "0.001 packets",
    "0.01 packets",
    "1 packets",
    "2 packets",
    "256 packets",
    "32768 packets",
    "log",
    "inv-sqrt-rate",
    "inv-sqrt-cwnd",
    "fixed",
    "distance",
    "ratio",
    "aimd",
    "steady",
    "max-hop-delay",
    "rtt",
    "brownfield",
    "largest-window",
    "bdp",
];

/// Returns random valid parameters: the defaults or a preset, with up to eight changes.
///
/// `choose` returns a number below its argument.
pub fn random_params<P: Params>(mut choose: impl FnMut(usize) -> usize) -> P {
    let mut params = P::default();
    if let Some(preset) = P::PRESETS.get(choose(P::PRESETS.len() + 1)) {
        (preset.apply)(&mut params);
    }
    for _ in 0..choose(9) {
        let (name, value) =
            (P::TABLE[choose(P::TABLE.len())].name, PARAMETER_VALUES[choose(PARAMETER_VALUES.len())]);
        let mut changed = params.clone();
        if changed.set(name, value).is_ok() && changed.check().is_ok() {
            params = changed;
        }
    }
    params
}

/// Runs random sequences of operations.
///
/// Every decision must be valid, a second run must end in the same state, and so must a clone taken halfway. Every
/// tenth sequence uses the default parameters; the others use [`random_params`].
///
/// # Panics
/// Panics if a law does not conform. The message contains the seed of the sequence.
pub fn assert_conforms<L: LawDefinition>(sequences: u64) {
    for seed in 0..sequences {
        let mut rng = SplitMix64::new(seed);
        let params = if seed.is_multiple_of(10) {
            L::Params::default()
        } else {
            random_params::<L::Params>(|below| rng.index(below))
        };
        params
            .check()
            .unwrap_or_else(|error| panic!("{}: the random parameters are invalid: {error}", L::NAME));
        let path = random_path(&mut rng);
        path.check().expect("the random path is valid");
        let operations = random_operations(&mut rng, 40);
        let mut law = L::new(&params, &path);
        let mut replay = L::new(&params, &path);
        assert_valid_decision(&law);
        let half = operations.len() / 2;
        for operation in &operations[..half] {
            apply(&mut law, operation);
            assert_valid_decision(&law);
        }
        let mut clone = law.clone();
        for operation in &operations[half..] {
            apply(&mut law, operation);
            apply(&mut clone, operation);
            assert_valid_decision(&law);
        }
        for operation in &operations {
            apply(&mut replay, operation);
        }
        assert!(law == clone, "{}: seed {seed}: a clone diverges: {law:?} {clone:?}", L::NAME);
        assert!(law == replay, "{}: seed {seed}: a replay diverges: {law:?} {replay:?}", L::NAME);
    }
}

fn random_path(rng: &mut SplitMix64) -> Path {
    Path {
        mtu: Bytes::new(*rng.pick(&[64, 256, 1_000, 1_448, 4_096, 9_000, 65_535])),
        line_rate: BitRate::from_bps(*rng.pick(&[1_000_000, 100_000_000, 25_000_000_000, 400_000_000_000])),
        base_rtt: Nanos::new(*rng.pick(&[1, 500, 9_900, 100_000, 40_000_000, u64::from(u32::MAX)])),
    }
}

fn random_ack(rng: &mut SplitMix64, now: u64, seq: u64) -> (Ack<'static>, HopStack, CounterWrap) {
    let bytes = random_value(rng, 100_000);
    let delay = |rng: &mut SplitMix64| (rng.below(4) != 0).then(|| Nanos::new(random_value(rng, 50_000)));
    let wrap = *rng.pick(&[
        CounterWrap::NEVER,
        CounterWrap { timestamp: Nanos::new(1 << 24), sent: Bytes::new(1 << 27) },
        CounterWrap { timestamp: Nanos::new(1), sent: Bytes::new(1) },
    ]);
    let ack = Ack {
        now: Nanos::new(now),
        rtt: Nanos::new(random_value(rng, 100_000)),
        packets: u32::try_from(random_value(rng, 64)).unwrap_or(u32::MAX),
        bytes: Bytes::new(bytes),
        marked: Bytes::new(if rng.below(2) == 0 { 0 } else { random_value(rng, 100_000) }),
        in_flight: Bytes::new(random_value(rng, 1_000_000)),
        rtt_ambiguous: rng.below(4) == 0,
        acked_seq: seq,
        next_seq: seq.wrapping_add(random_value(rng, 1 << 20)),
        max_hop_delay: delay(rng),
        reverse_max_hop_delay: delay(rng),
        endpoint_delay: Nanos::new(random_value(rng, 50_000)),
        hop_count: u8::try_from(rng.below(256)).unwrap_or(u8::MAX),
        circuit_up: rng.below(2) == 0,
        app_limited: rng.below(4) == 0,
        random: u32::try_from(rng.below(1 << 32)).unwrap_or(u32::MAX),
        ..Ack::EMPTY
    };
    let mut stack = HopStack::EMPTY;
    // Most ACKs have the same number of hops; otherwise laws would not compare their records.
    let hops = if rng.below(4) == 0 { rng.index(MAX_HOPS + 2) } else { 3 };
    for _ in 0..hops {
        stack.push(HopRecord {
            timestamp: Nanos::new(now.wrapping_add(random_value(rng, 1_000))),
            sent: Bytes::new(random_value(rng, 1 << 30)),
            queue: Bytes::new(random_value(rng, 1 << 20)),
            rate: BitRate::from_bps(*rng.pick(&[0, 1, 25_000_000_000, 100_000_000_000, u64::MAX])),
        });
    }
    (ack, stack, wrap)
}

fn random_timeout(rng: &mut SplitMix64, now: u64) -> Timeout {
    Timeout { now: Nanos::new(now), bytes: Bytes::new(random_value(rng, 100_000)) }
}

fn random_trim(rng: &mut SplitMix64, now: u64) -> Trim {
    Trim {
        now: Nanos::new(now),
        bytes: Bytes::new(random_value(rng, 10_000)),
        in_flight: Bytes::new(random_value(rng, 1_000_000)),
        last_hop: rng.below(2) == 0,
        rtt: (rng.below(4) != 0).then(|| Nanos::new(random_value(rng, 100_000))),
    }
}

/// Returns a random value below `typical`, and occasionally zero, one or an extreme value.
fn random_value(rng: &mut SplitMix64, typical: u64) -> u64 {
    match rng.below(24) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => rng.next_u64() >> rng.below(64),
        _ => rng.below(typical),
    }
}
