//! When things happen that happen at random.

use super::PatternError;
use super::error::{check_above_zero, check_span};
use crate::chance::Chance;
use poseidon_types::{BitRate, Picos};

/// A Poisson process: events that do not know of each other, at so many per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poisson {
    /// The mean time between two, in picoseconds.
    gap_ps: f64,
    start: Picos,
    until: Picos,
}

impl Poisson {
    /// Events from `start` until `until`, with this mean time between two.
    pub(super) fn every(gap_ps: f64, start: Picos, until: Picos) -> Result<Self, PatternError> {
        check_span(start, until)?;
        // Below the clock's grain, time would stand still.
        check_above_zero(gap_ps.is_nan() || gap_ps < 1.0, "the mean time between two, in picoseconds,")?;
        Ok(Self { gap_ps, start, until })
    }

    /// Messages of this mean size that together offer `load` times `rate`.
    pub(super) fn offering(
        load: f64,
        rate: BitRate,
        mean_bytes: f64,
        start: Picos,
        until: Picos,
    ) -> Result<Self, PatternError> {
        check_above_zero(load <= 0.0 || rate.is_zero(), "load and rate")?;
        Self::every(mean_bytes * 8e12 / (load * rate.get() as f64), start, until)
    }

    /// How many events there are in the mean.
    pub(super) fn expected(self) -> f64 {
        self.until.get().saturating_sub(self.start.get()) as f64 / self.gap_ps
    }

    /// The events: their counter and their time.
    pub(super) fn events(self, chance: Chance) -> impl Iterator<Item = (u64, Picos)> {
        let mut at = self.start;
        (0..).map_while(move |counter| {
            at += nearest(self.gap_ps * chance.of(counter).exponential());
            (at < self.until).then_some((counter, at))
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a gap is positive, and one of more than 213 days saturates"
)]
fn nearest(picos: f64) -> Picos {
    Picos::new((picos + 0.5) as u64)
}

/// How much later than the first one begins: at random, and less than `most`.
pub(super) fn spread(chance: Chance, most: Picos) -> Picos {
    let share = chance.named("spread").bits();
    Picos::new(u64::try_from((u128::from(share) * u128::from(most.get())) >> 64).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_their_rate_and_stay_inside() {
        // One per microsecond over 100 ms: 10^5, with a standard deviation of 316.
        let (start, until) = (Picos::new(5_000_000_000), Picos::new(105_000_000_000));
        let process = Poisson::every(1e6, start, until).expect("a process");
        let events: Vec<_> = process.events(Chance::new(7, "events")).collect();
        assert!((99_000..101_000).contains(&events.len()), "{}", events.len());
        assert!(events.is_sorted() && events[0].1 > start && events[events.len() - 1].1 < until);
        // Memoryless: e^-1 of the gaps are longer than the mean.
        let longer = events.windows(2).filter(|pair| (pair[1].1 - pair[0].1).get() > 1_000_000).count();
        assert!((longer as f64 / events.len() as f64 - 0.3679).abs() < 0.01, "{longer}");
    }

    #[test]
    fn what_would_never_end_is_refused() {
        let end = Picos::new(1_000);
        assert!(Poisson::every(0.0, Picos::ZERO, end).is_err());
        assert!(Poisson::every(f64::NAN, Picos::ZERO, end).is_err());
        assert!(Poisson::every(1.0, end, end).is_err());
        assert!(Poisson::offering(0.0, BitRate::from_gbps(1), 1.0, Picos::ZERO, end).is_err());
        assert!(Poisson::offering(1.0, BitRate::ZERO, 1.0, Picos::ZERO, end).is_err());
    }
}
