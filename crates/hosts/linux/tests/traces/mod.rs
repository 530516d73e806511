//! Random flow traces: parameters over their whole range, events at the law's boundaries, and the Rust law's outcomes.
//! The traces are the golden vectors for the C port.

use poseidon_laws::law::MAX_RTT;
use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal, Target, Update};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, LawDefinition, Path};
use poseidon_linux::{Flow, Outcome, Start, Step};
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Packets};

/// A flow trace.
pub(crate) struct Trace {
    /// The seed that reproduces the trace.
    pub(crate) seed: u64,
    pub(crate) start: Start,
    pub(crate) steps: Vec<Step>,
    /// The Rust law's outcome after each step.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Trace {
    pub(crate) fn random(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let (params, path) = (params(&mut rng), path(&mut rng));
        params.check().expect("the values are in range");
        path.check().expect("the values are in range");
        let mut law = Poseidon::new(&params, &path);
        let flow = Flow::try_from(&law).expect("the C port supports the law");
        let mut host = Host::new(rng, &path);
        // Some traces are longer than one batch in the kernel.
        let length = host.rng.within(1, 600);
        let (steps, outcomes) = (0..length)
            .map(|_| {
                let step = host.next_step(&law);
                step.apply(&mut law);
                (step, Outcome::try_from(&law).expect("the C port supports the law"))
            })
            .unzip();
        Self { seed, start: Start { flow, steps: length }, steps, outcomes }
    }
}

/// Returns traces with at least `steps` steps in total.
pub(crate) fn traces(steps: u64) -> impl Iterator<Item = Trace> {
    let mut remaining = steps;
    (0..).map(Trace::random).take_while(move |trace| {
        let is_needed = remaining > 0;
        remaining = remaining.saturating_sub(trace.start.steps);
        is_needed
    })
}

/// A host that generates events at the law's boundaries.
struct Host {
    rng: SplitMix64,
    now: u64,
    base_rtt: u64,
    rtt: u64,
    /// The number of timeouts still to be generated.
    timeouts: u64,
    /// The number of ACKs without a queue still to be generated. The `steady` update counts such ACKs.
    empty_acks: u64,
}

impl Host {
    fn new(mut rng: SplitMix64, path: &Path) -> Self {
        let base_rtt = path.base_rtt.get();
        // The clock may be about to wrap, or it may have the value that means "never".
        let now = match rng.below(8) {
            0 => u64::MAX,
            1 => u64::MAX - rng.below(1 << 32),
            2 => 0,
            _ => rng.below(1 << 50),
        };
        Self { rng, now, base_rtt, rtt: base_rtt, timeouts: 0, empty_acks: 0 }
    }

    fn next_step(&mut self, law: &Poseidon) -> Step {
        self.advance_clock();
        let now = Nanos::new(self.now);
        if self.timeouts > 0 {
            self.timeouts -= 1;
            return Step::timeout(now);
        }
        match self.rng.below(64) {
            0 | 1 => Step::loss(now),
            2 | 3 => Step::timeout(now),
            4 => {
                // The number is sometimes larger than the timeout counter can hold.
                self.timeouts = self.rng.below(300) >> self.rng.below(8);
                Step::timeout(now)
            }
            5 => {
                self.empty_acks = self.rng.below(40);
                Step::ack(&self.ack(now, law))
            }
            _ => Step::ack(&self.ack(now, law)),
        }
    }

    /// Advances the clock. The law may cut again one nanosecond after an RTT.
    fn advance_clock(&mut self) {
        let step = match self.rng.below(16) {
            0 => 0,
            1 => self.rtt,
            2 => self.rtt.wrapping_add(1),
            3 => any_magnitude(&mut self.rng),
            // The clock moves backwards.
            4 => self.rng.below(1 << 20).wrapping_neg(),
            _ => self.rng.below(1 << 32) % self.rtt.saturating_mul(2).max(1),
        };
        self.now = self.now.wrapping_add(step);
    }

    fn ack(&mut self, now: Nanos, law: &Poseidon) -> Ack<'static> {
        let rng = &mut self.rng;
        let target = law.target_delay().get();
        let is_empty = self.empty_acks > 0;
        self.empty_acks = self.empty_acks.saturating_sub(1);
        let forward = if is_empty { 0 } else { near(rng, target) };
        let reverse = if is_empty { 0 } else { near(rng, target) };
        self.rtt = match rng.below(8) {
            _ if is_empty => self.base_rtt,
            0 => any_magnitude(rng),
            1 | 2 => self.rtt,
            // Only the two hops delay the packet.
            3 => self.base_rtt.saturating_add(forward).saturating_add(reverse),
            // In addition, the unreported delay is close to the target.
            4 => near(rng, target)
                .saturating_add(forward)
                .saturating_add(reverse)
                .saturating_add(self.base_rtt),
            _ => self.base_rtt.saturating_add(near(rng, target)),
        };
        let packets = match rng.below(16) {
            0 => 0,
            1 => any_magnitude(rng),
            2..=4 => rng.below(64),
            _ => 1,
        };
        Ack {
            now,
            rtt: Nanos::new(self.rtt),
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            max_hop_delay: (rng.below(8) != 0).then(|| Nanos::new(forward)),
            reverse_max_hop_delay: (rng.below(4) != 0).then(|| Nanos::new(reverse)),
            app_limited: rng.below(5) == 0,
            random: u32::try_from(rng.next_u64() >> 32).expect("the value has 32 bits"),
            ..Ack::EMPTY
        }
    }
}

/// Returns a value near `x`, often `x` itself or an adjacent value, and sometimes an arbitrary value.
fn near(rng: &mut SplitMix64, x: u64) -> u64 {
    match rng.below(10) {
        0 => any_magnitude(rng),
        1 => x,
        2 => x.saturating_add(1),
        3 => x.saturating_sub(1),
        // 1/64 to 127/64 of `x`.
        _ => x.saturating_mul(rng.within(1, 127)) / 64,
    }
}

/// Returns a value of any magnitude. The extremes of 64 bits are likely.
fn any_magnitude(rng: &mut SplitMix64) -> u64 {
    match rng.below(32) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - 1,
        3 => u64::from(u32::MAX),
        _ => rng.next_u64() >> rng.below(64),
    }
}

/// Returns a value from `low` to `high`, uniform over magnitudes. Both ends are likely.
fn log_uniform(rng: &mut SplitMix64, low: u64, high: u64) -> u64 {
    match rng.below(16) {
        0 => low,
        1 => high,
        _ => {
            let bits = rng.within(u64::from(low.max(1).ilog2()), u64::from(high.max(1).ilog2()));
            rng.within(1 << bits, (2 << bits) - 1).clamp(low, high)
        }
    }
}

/// Returns random parameters. Half of them cover the whole range. The others are close to the paper's parameters, where
/// bounds seldom apply.
fn params(rng: &mut SplitMix64) -> PoseidonParams {
    let from_q32 = |fraction: u64| Fraction::from_q32(fraction);
    let q32 = |n, d| Fraction::ratio(n, d).q32();
    let max_window = if rng.below(2) == 0 { 256 } else { log_uniform(rng, 1, 32_768) };
    let min_window = log_uniform(rng, 16_777, Packets::ONE.q24());
    let choices = PoseidonParams {
        step: from_q32(log_uniform(rng, q32(1, 1_000), (2 << 32) - 1)),
        min_decrease: from_q32(log_uniform(rng, q32(1, 100), q32(99, 100))),
        max_increase: from_q32(log_uniform(rng, q32(101, 100), q32(16, 1))),
        initial_window: Packets::from_q24(log_uniform(rng, min_window, max_window << Packets::FRACTION_BITS)),
        min_window: Packets::from_q24(min_window),
        max_window: Packets::whole(max_window),
        reset_after: if rng.below(2) == 0 {
            3
        } else {
            u32::try_from(rng.within(1, 255)).expect("the value is small")
        },
        target: if rng.below(8) == 0 { Target::Fixed } else { Target::Log },
        update: if rng.below(3) == 0 { Update::Steady } else { Update::Distance },
        signal: *rng.pick(&[Signal::MaxHopDelay, Signal::MaxHopDelay, Signal::Rtt, Signal::Brownfield]),
        strict_paper: rng.below(4) == 0,
        ..PoseidonParams::default()
    };
    let is_steady = choices.update == Update::Steady;
    let choices = if is_steady { PoseidonParams { target: Target::Log, ..choices } } else { choices };
    if rng.below(2) == 0 {
        return choices;
    }
    let max_rate = log_uniform(rng, 4, BitRate::from_gbps(100_000).get());
    PoseidonParams {
        target_range: Nanos::new(log_uniform(rng, 2_000, 1_000_000_000)),
        target_floor: Nanos::new(log_uniform(rng, 1, 1_000_000_000)),
        fixed_target: Nanos::new(log_uniform(rng, 1, 1_000_000_000)),
        min_rate: BitRate::from_bps(log_uniform(rng, 1, max_rate / 4)),
        max_rate: BitRate::from_bps(max_rate),
        ..choices
    }
}

fn path(rng: &mut SplitMix64) -> Path {
    let base_rtt = match rng.below(4) {
        0 => log_uniform(rng, 1, MAX_RTT.get()),
        _ => log_uniform(rng, 2_000, 200_000),
    };
    Path {
        mtu: Bytes::new(log_uniform(rng, 1, 65_535)),
        line_rate: BitRate::from_gbps(100),
        base_rtt: Nanos::new(base_rtt),
    }
}
