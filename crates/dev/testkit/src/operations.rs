//! Random operations for any law: acknowledgements, losses, timeouts, clocks that wrap, telemetry that lies.
//!
//! A law has no errors, so it must survive whatever a host or a network tells it. What must hold after every
//! operation is in [`assert_sound`]; what must hold of a whole list, in [`assert_conforms`].

use crate::rng::SplitMix64;
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, Loss, Pacing, Path};
use poseidon_types::telemetry::MAX_HOPS;
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, HopStack, Nanos, Packets, Wrap};

/// One thing that can happen to a law.
#[derive(Debug, Clone)]
pub enum Operation {
    /// An ACK and the records that came with it.
    Ack(Box<(Ack<'static>, HopStack, Wrap)>),
    /// Fast recovery.
    Loss(Loss),
    /// A retransmission timeout.
    Timeout(Nanos),
}

/// A list of up to `most` operations on one clock.
pub fn random_operations(rng: &mut SplitMix64, most: usize) -> Vec<Operation> {
    // Mostly sane clocks; some start just before they wrap.
    let mut now = if rng.below(8) == 0 { u64::MAX - rng.below(1 << 20) } else { rng.below(1 << 40) };
    let mut seq = if rng.below(8) == 0 { u64::MAX - rng.below(1 << 20) } else { rng.below(1 << 30) };
    (0..=rng.index(most))
        .map(|_| {
            let gap = amount(rng, 100_000);
            now = now.wrapping_add(gap);
            match rng.below(20) {
                0 => Operation::Loss(Loss { now: Nanos::new(now) }),
                1 => Operation::Timeout(Nanos::new(now)),
                _ => {
                    seq = seq.wrapping_add(amount(rng, 10_000));
                    Operation::Ack(Box::new(random_ack(rng, now, seq)))
                }
            }
        })
        .collect()
}

/// Does the operation to a law.
pub fn apply<L: Law>(law: &mut L, operation: &Operation) {
    match operation {
        Operation::Ack(parts) => {
            let (ack, stack, wrap) = &**parts;
            law.on_ack(&Ack { hops: HopPath { records: stack.as_slice(), wrap: *wrap }, ..*ack });
        }
        Operation::Loss(loss) => law.on_loss(loss),
        Operation::Timeout(now) => law.on_timeout(*now),
    }
}

/// What must hold of a law at any moment: a window that is neither zero nor unbounded, a pacing that ends.
///
/// # Panics
/// If it does not, with the law's state.
pub fn assert_sound<L: Law>(law: &L) {
    let decision = law.decision();
    assert!(decision.window > Packets::ZERO, "{}: zero window in {law:?}", L::NAME);
    assert!(decision.window <= Packets::MAX_WINDOW, "{}: window {decision:?} in {law:?}", L::NAME);
    match decision.pacing {
        Pacing::Off => {
            assert!(decision.window >= Packets::ONE, "{}: {decision:?} below one packet is unpaced", L::NAME);
        }
        // The longest RTT a law holds (4.3 s) over the smallest window a parameter may set (0.001 packets).
        Pacing::Gap(gap) => {
            assert!(gap <= Nanos::from_millis(10_000_000), "{}: gap {gap} in {law:?}", L::NAME)
        }
        Pacing::Rate(rate) => assert!(rate > BitRate::ZERO, "{}: zero rate in {law:?}", L::NAME),
    }
}

/// Texts that are tried for every parameter: the ends of domains, and every word that chooses a variant.
const TEXTS: &[&str] = &[
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
];

/// Parameters within the law's domain: the defaults or a preset, with up to eight of them changed. `choose` gives a
/// number below its argument.
pub fn random_params<P: Params>(mut choose: impl FnMut(usize) -> usize) -> P {
    let mut params = P::default();
    if let Some(preset) = P::PRESETS.get(choose(P::PRESETS.len() + 1)) {
        (preset.apply)(&mut params);
    }
    for _ in 0..choose(9) {
        let (name, text) = (P::TABLE[choose(P::TABLE.len())].name, TEXTS[choose(TEXTS.len())]);
        let mut changed = params.clone();
        if changed.set(name, text).is_ok() && changed.check().is_ok() {
            params = changed;
        }
    }
    params
}

/// Runs `lists` random lists of operations: after each operation the law is sound; a second run gives the same
/// state; a clone taken half way ends like the original. Parameters are [`random_params`], every tenth list the defaults.
///
/// # Panics
/// If a law does not conform; the message has the seed of the list.
pub fn assert_conforms<L: Law>(lists: u64) {
    for list in 0..lists {
        let mut rng = SplitMix64::new(list);
        let params = if list.is_multiple_of(10) {
            L::Params::default()
        } else {
            random_params::<L::Params>(|below| rng.index(below))
        };
        params.check().unwrap_or_else(|error| panic!("{}: its own values are refused: {error}", L::NAME));
        let path = random_path(&mut rng);
        path.check().expect("a random path is within the domain");
        let operations = random_operations(&mut rng, 40);
        let mut law = L::new(&params, &path);
        let mut again = L::new(&params, &path);
        assert_sound(&law);
        let half = operations.len() / 2;
        for operation in &operations[..half] {
            apply(&mut law, operation);
            assert_sound(&law);
        }
        let mut clone = law.clone();
        for operation in &operations[half..] {
            apply(&mut law, operation);
            apply(&mut clone, operation);
            assert_sound(&law);
        }
        for operation in &operations {
            apply(&mut again, operation);
        }
        assert!(law == clone, "{}: seed {list}: a clone ends elsewhere: {law:?} {clone:?}", L::NAME);
        assert!(law == again, "{}: seed {list}: a replay ends elsewhere: {law:?} {again:?}", L::NAME);
    }
}

fn random_path(rng: &mut SplitMix64) -> Path {
    Path {
        mtu: Bytes::new(*rng.pick(&[64, 256, 1_000, 1_448, 4_096, 9_000, 65_535])),
        line_rate: BitRate::from_bps(*rng.pick(&[1_000_000, 100_000_000, 25_000_000_000, 400_000_000_000])),
        base_rtt: Nanos::new(*rng.pick(&[1, 500, 9_900, 100_000, 40_000_000, u64::from(u32::MAX)])),
    }
}

fn random_ack(rng: &mut SplitMix64, now: u64, seq: u64) -> (Ack<'static>, HopStack, Wrap) {
    let bytes = amount(rng, 100_000);
    let delay = |rng: &mut SplitMix64| (rng.below(4) != 0).then(|| Nanos::new(amount(rng, 50_000)));
    let wrap = *rng.pick(&[
        Wrap::NEVER,
        Wrap { at: Nanos::new(1 << 24), sent: Bytes::new(1 << 27) },
        Wrap { at: Nanos::new(1), sent: Bytes::new(1) },
    ]);
    let ack = Ack {
        now: Nanos::new(now),
        rtt: Nanos::new(amount(rng, 100_000)),
        packets: u32::try_from(amount(rng, 64)).unwrap_or(u32::MAX),
        bytes: Bytes::new(bytes),
        marked: Bytes::new(if rng.below(2) == 0 { 0 } else { amount(rng, 100_000) }),
        acked_seq: seq,
        next_seq: seq.wrapping_add(amount(rng, 1 << 20)),
        max_hop_delay: delay(rng),
        reverse_max_hop_delay: delay(rng),
        endpoint_delay: Nanos::new(amount(rng, 50_000)),
        hop_count: u8::try_from(rng.below(256)).unwrap_or(u8::MAX),
        circuit_up: rng.below(2) == 0,
        app_limited: rng.below(4) == 0,
        chance: u32::try_from(rng.below(1 << 32)).unwrap_or(u32::MAX),
        ..Ack::EMPTY
    };
    let mut stack = HopStack::EMPTY;
    // Mostly the same number of hops, so that records are compared at all.
    let hops = if rng.below(4) == 0 { rng.index(MAX_HOPS + 2) } else { 3 };
    for _ in 0..hops {
        stack.push(HopRecord {
            at: Nanos::new(now.wrapping_add(amount(rng, 1_000))),
            sent: Bytes::new(amount(rng, 1 << 30)),
            queue: Bytes::new(amount(rng, 1 << 20)),
            rate: BitRate::from_bps(*rng.pick(&[0, 1, 25_000_000_000, 100_000_000_000, u64::MAX])),
        });
    }
    (ack, stack, wrap)
}

/// An amount up to `usual`, now and then zero, one, or absurd.
fn amount(rng: &mut SplitMix64, usual: u64) -> u64 {
    match rng.below(24) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => rng.next_u64() >> rng.below(64),
        _ => rng.below(usual),
    }
}
