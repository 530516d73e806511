//! Random lives of flows: parameters over their whole domain, events that probe the law's edges, and what the law in
//! Rust made of each. These are the golden vectors that the law in C is held against.

use poseidon_laws::law::LONGEST_RTT;
use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal, Target, Update};
use poseidon_laws::params::Params;
use poseidon_laws::{Ack, Law, Path};
use poseidon_linux::{Flow, Outcome, Start, Step};
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Packets};

/// One flow from its start on.
pub(crate) struct Life {
    /// Gives the same life again.
    pub(crate) seed: u64,
    pub(crate) start: Start,
    pub(crate) steps: Vec<Step>,
    /// After each step, by the law in Rust.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Life {
    pub(crate) fn random(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let (params, path) = (params(&mut rng), path(&mut rng));
        params.check().expect("within the domain");
        path.check().expect("within the domain");
        let mut law = Poseidon::new(&params, &path);
        let flow = Flow::try_from(&law).expect("such laws are in C");
        let mut host = Host::new(rng, &path);
        // Some longer than a batch of the kernel's.
        let length = host.rng.within(1, 600);
        let (steps, outcomes) = (0..length)
            .map(|_| {
                let step = host.next(&law);
                step.apply(&mut law);
                (step, Outcome::try_from(&law).expect("such laws are in C"))
            })
            .unzip();
        Self { seed, start: Start { flow, steps: length }, steps, outcomes }
    }
}

/// Lives until there are `steps` steps.
pub(crate) fn lives(steps: u64) -> impl Iterator<Item = Life> {
    let mut left = steps;
    (0..).map(Life::random).take_while(move |life| {
        let more = left > 0;
        left = left.saturating_sub(life.start.steps);
        more
    })
}

/// A host that knows where the law's edges are.
struct Host {
    rng: SplitMix64,
    now: u64,
    base_rtt: u64,
    rtt: u64,
    /// So many timeouts follow.
    timeouts: u64,
    /// So many ACKs of an empty network follow: `steady` counts them.
    quiet: u64,
}

impl Host {
    fn new(mut rng: SplitMix64, path: &Path) -> Self {
        let base_rtt = path.base_rtt.get();
        // A clock that is about to wrap, or stands on the one value that means "never".
        let now = match rng.below(8) {
            0 => u64::MAX,
            1 => u64::MAX - rng.below(1 << 32),
            2 => 0,
            _ => rng.below(1 << 50),
        };
        Self { rng, now, base_rtt, rtt: base_rtt, timeouts: 0, quiet: 0 }
    }

    fn next(&mut self, law: &Poseidon) -> Step {
        self.tick();
        let now = Nanos::new(self.now);
        if self.timeouts > 0 {
            self.timeouts -= 1;
            return Step::timeout(now);
        }
        match self.rng.below(64) {
            0 | 1 => Step::loss(now),
            2 | 3 => Step::timeout(now),
            4 => {
                // Up to more than their counter holds.
                self.timeouts = self.rng.below(300) >> self.rng.below(8);
                Step::timeout(now)
            }
            5 => {
                self.quiet = self.rng.below(40);
                Step::ack(&self.ack(now, law))
            }
            _ => Step::ack(&self.ack(now, law)),
        }
    }

    /// The gate of cuts opens one nanosecond after an RTT.
    fn tick(&mut self) {
        let by = match self.rng.below(16) {
            0 => 0,
            1 => self.rtt,
            2 => self.rtt.wrapping_add(1),
            3 => magnitude(&mut self.rng),
            // Back.
            4 => self.rng.below(1 << 20).wrapping_neg(),
            _ => self.rng.below(1 << 32) % self.rtt.saturating_mul(2).max(1),
        };
        self.now = self.now.wrapping_add(by);
    }

    fn ack(&mut self, now: Nanos, law: &Poseidon) -> Ack<'static> {
        let rng = &mut self.rng;
        let target = law.target_delay().get();
        let is_quiet = self.quiet > 0;
        self.quiet = self.quiet.saturating_sub(1);
        let forward = if is_quiet { 0 } else { near(rng, target) };
        let reverse = if is_quiet { 0 } else { near(rng, target) };
        self.rtt = match rng.below(8) {
            _ if is_quiet => self.base_rtt,
            0 => magnitude(rng),
            1 | 2 => self.rtt,
            // Nothing but the two hops; then what the `rtt` and `brownfield` signals are to be close to the target.
            3 => self.base_rtt.saturating_add(forward).saturating_add(reverse),
            4 => near(rng, target)
                .saturating_add(forward)
                .saturating_add(reverse)
                .saturating_add(self.base_rtt),
            _ => self.base_rtt.saturating_add(near(rng, target)),
        };
        let packets = match rng.below(16) {
            0 => 0,
            1 => magnitude(rng),
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
            chance: u32::try_from(rng.next_u64() >> 32).expect("32 bits"),
            ..Ack::EMPTY
        }
    }
}

/// Around `x`, its very edge included; now and then anything.
fn near(rng: &mut SplitMix64, x: u64) -> u64 {
    match rng.below(10) {
        0 => magnitude(rng),
        1 => x,
        2 => x.saturating_add(1),
        3 => x.saturating_sub(1),
        // 1/64 to 127/64 of it.
        _ => x.saturating_mul(rng.within(1, 127)) / 64,
    }
}

/// Of any size; the ends of 64 bits are as likely as all of a few bits.
fn magnitude(rng: &mut SplitMix64) -> u64 {
    match rng.below(32) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - 1,
        3 => u64::from(u32::MAX),
        _ => rng.next_u64() >> rng.below(64),
    }
}

/// From `low` to `high`, evenly over the magnitudes; both ends often.
fn spread(rng: &mut SplitMix64, low: u64, high: u64) -> u64 {
    match rng.below(16) {
        0 => low,
        1 => high,
        _ => {
            let bits = rng.within(u64::from(low.max(1).ilog2()), u64::from(high.max(1).ilog2()));
            rng.within(1 << bits, (2 << bits) - 1).clamp(low, high)
        }
    }
}

/// Half of them over the whole domain, half close to the paper's, where steps are seldom bounded.
fn params(rng: &mut SplitMix64) -> PoseidonParams {
    let of = |fraction: u64| Fraction::from_q32(fraction);
    let q32 = |n, d| Fraction::ratio(n, d).q32();
    let max_window = if rng.below(2) == 0 { 256 } else { spread(rng, 1, 32_768) };
    let min_window = spread(rng, 16_777, Packets::ONE.q24());
    let choices = PoseidonParams {
        step: of(spread(rng, q32(1, 1_000), (2 << 32) - 1)),
        min_decrease: of(spread(rng, q32(1, 100), q32(99, 100))),
        max_increase: of(spread(rng, q32(101, 100), q32(16, 1))),
        initial_window: Packets::from_q24(spread(rng, min_window, max_window << Packets::FRACTION_BITS)),
        min_window: Packets::from_q24(min_window),
        max_window: Packets::whole(max_window),
        reset_after: if rng.below(2) == 0 { 3 } else { u32::try_from(rng.within(1, 255)).expect("small") },
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
    let max_rate = spread(rng, 4, BitRate::from_gbps(100_000).get());
    PoseidonParams {
        target_range: Nanos::new(spread(rng, 2_000, 1_000_000_000)),
        target_floor: Nanos::new(spread(rng, 1, 1_000_000_000)),
        fixed_target: Nanos::new(spread(rng, 1, 1_000_000_000)),
        min_rate: BitRate::from_bps(spread(rng, 1, max_rate / 4)),
        max_rate: BitRate::from_bps(max_rate),
        ..choices
    }
}

fn path(rng: &mut SplitMix64) -> Path {
    let base_rtt = match rng.below(4) {
        0 => spread(rng, 1, LONGEST_RTT.get()),
        _ => spread(rng, 2_000, 200_000),
    };
    Path {
        mtu: Bytes::new(spread(rng, 1, 65_535)),
        line_rate: BitRate::from_gbps(100),
        base_rtt: Nanos::new(base_rtt),
    }
}
