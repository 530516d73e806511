//! Oversubscription control: a receiver asks for less than its link rate while the network in between is congested.
//!
//! Once per period, the receiver looks at the packets that arrived. Packets trimmed before the last hop lower its rate
//! by their share. Marks above a target share lower it in proportion. Otherwise it rises, faster each time.

use poseidon_types::Picos;

/// The share of marked packets above which the rate falls.
const TARGET: f64 = 0.3;
/// The weight of a new share in its average.
const WEIGHT: f64 = 0.5;
/// The decrease per share above the target.
const DECREASE: f64 = 0.5;
/// The smallest increase.
const STEP: f64 = 0.01;
/// The number of increases in a row after which the increase stops doubling.
const MAX_DOUBLINGS: u32 = 20;

/// The state of one receiver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Oversubscription {
    /// The share of the link rate that the receiver asks for.
    rate: f64,
    /// The smallest rate.
    min_rate: f64,
    /// The average share of marked packets.
    marked_share: f64,
    /// The number of increases in a row.
    increases: u32,
    /// When the current period ends.
    period_end: Picos,
    /// The packets of the current period.
    packets: u32,
    marked: u32,
    trimmed: u32,
    trimmed_at_last_hop: u32,
}

/// What arrived at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A data packet, marked or not.
    Data {
        /// Whether it is marked.
        marked: bool,
    },
    /// A trimmed packet.
    Trimmed {
        /// Whether the last switch trimmed it.
        last_hop: bool,
    },
}

impl Oversubscription {
    pub(crate) const fn new(min_rate: f64) -> Self {
        Self {
            rate: 1.0,
            min_rate,
            marked_share: 0.0,
            increases: 0,
            period_end: Picos::ZERO,
            packets: 0,
            marked: 0,
            trimmed: 0,
            trimmed_at_last_hop: 0,
        }
    }

    /// Counts an arrival.
    pub(crate) fn record(&mut self, arrival: Arrival, now: Picos, period: Picos) {
        self.advance(now, period);
        self.packets += 1;
        match arrival {
            Arrival::Data { marked } => self.marked += u32::from(marked),
            Arrival::Trimmed { last_hop: true } => self.trimmed_at_last_hop += 1,
            Arrival::Trimmed { last_hop: false } => self.trimmed += 1,
        }
    }

    /// Returns the share of the link rate that the receiver may ask for.
    pub(crate) fn rate(&mut self, now: Picos, period: Picos) -> f64 {
        self.advance(now, period);
        self.rate
    }

    /// Ends the periods that are over. Periods without packets change nothing once the rate is back at 1.
    fn advance(&mut self, now: Picos, period: Picos) {
        while now >= self.period_end {
            self.end_period();
            self.period_end += period;
            if self.is_idle() && now >= self.period_end {
                // All periods up to now were the same.
                let periods = (now - self.period_end).get() / period.get();
                self.period_end += Picos::new(periods * period.get());
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.rate >= 1.0 && self.marked_share < STEP && self.increases >= MAX_DOUBLINGS
    }

    fn end_period(&mut self) {
        let full = self.packets - self.trimmed - self.trimmed_at_last_hop;
        let share = if full > 0 { f64::from(self.marked) / f64::from(full) } else { 0.0 };
        let before = self.rate;
        if self.trimmed > 0 {
            self.rate -= f64::from(self.trimmed) / f64::from(self.packets);
        }
        self.marked_share = (1.0 - WEIGHT) * self.marked_share + WEIGHT * share;
        let excess = self.marked_share - TARGET;
        if excess > 0.0 {
            self.rate *= 1.0 - DECREASE * excess;
        }
        if self.trimmed > 0 || excess > 0.0 {
            self.increases = 0;
        } else {
            let doublings = if self.marked == 0 { self.increases } else { 0 };
            self.rate = before + STEP * f64::from(1_u32 << doublings);
            self.increases = (self.increases + 1).min(MAX_DOUBLINGS);
        }
        self.rate = self.rate.clamp(self.min_rate, 1.0);
        (self.packets, self.marked, self.trimmed, self.trimmed_at_last_hop) = (0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Picos = Picos::new(14_000_000);

    /// Runs one period in which these packets arrive and returns the rate after it.
    fn run_period(control: &mut Oversubscription, period: u64, arrivals: &[(Arrival, u32)]) -> f64 {
        let start = Picos::new(period * PERIOD.get());
        for (arrival, count) in arrivals {
            for _ in 0..*count {
                control.record(*arrival, start, PERIOD);
            }
        }
        control.rate(start + PERIOD, PERIOD)
    }

    const UNMARKED: Arrival = Arrival::Data { marked: false };
    const MARKED: Arrival = Arrival::Data { marked: true };

    #[test]
    fn trims_before_the_last_hop_lower_the_rate_by_their_share() {
        let mut control = Oversubscription::new(0.01);
        let trimmed = Arrival::Trimmed { last_hop: false };
        assert_eq!(run_period(&mut control, 1, &[(UNMARKED, 9), (trimmed, 1)]), 0.9);
        let at_last_hop = Arrival::Trimmed { last_hop: true };
        let rate = run_period(&mut control, 2, &[(UNMARKED, 9), (at_last_hop, 1)]);
        assert!((rate - 0.91).abs() < 1e-12, "the last hop is the receiver's own link: {rate}");
    }

    #[test]
    fn marks_above_the_target_lower_the_rate_in_proportion() {
        let mut control = Oversubscription::new(0.01);
        // The average share is 1/2 after one period with marks only, and 3/4 after two.
        let rate = run_period(&mut control, 1, &[(MARKED, 10)]);
        assert!((rate - 0.9).abs() < 1e-12, "{rate}");
        let rate = run_period(&mut control, 2, &[(MARKED, 10)]);
        assert!((rate - 0.9 * 0.775).abs() < 1e-12, "{rate}");
    }

    #[test]
    fn increases_double_without_marks_and_stay_small_with_few_marks() {
        let mut control = Oversubscription::new(0.01);
        (control.rate, control.increases, control.period_end) = (0.5, 0, PERIOD);
        let rates: Vec<f64> =
            (1..5).map(|period| run_period(&mut control, period, &[(UNMARKED, 5)])).collect();
        for (rate, expected) in rates.iter().zip([0.51 + 0.02, 0.57, 0.65, 0.81]) {
            assert!((rate - expected).abs() < 1e-12, "{rates:?}");
        }
        let few_marks = run_period(&mut control, 5, &[(UNMARKED, 9), (MARKED, 1)]);
        assert!((few_marks - 0.82).abs() < 1e-12, "{few_marks}");
    }

    #[test]
    fn a_long_pause_ends_at_the_full_rate_in_few_steps() {
        let mut control = Oversubscription::new(0.01);
        control.rate = 0.01;
        let late = Picos::new(3_600_000_000_000_000);
        assert_eq!(control.rate(late, PERIOD), 1.0);
        assert!(control.period_end > late && control.period_end <= late + PERIOD);
    }
}
