//! Random arrival times.

use super::PatternError;
use super::error::{check_above_zero, check_interval};
use crate::random::RandomKey;
use poseidon_types::{BitRate, Picos};

/// A Poisson process: independent events at a constant rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poisson {
    /// The mean time between events, in picoseconds.
    mean_gap_ps: f64,
    start: Picos,
    until: Picos,
}

impl Poisson {
    /// Creates a process that runs from `start` to `until` with this mean time between events.
    pub(super) fn with_mean_gap(mean_gap_ps: f64, start: Picos, until: Picos) -> Result<Self, PatternError> {
        check_interval(start, until)?;
        // A mean gap below the clock resolution would not advance the time.
        let is_zero = mean_gap_ps.is_nan() || mean_gap_ps < 1.0;
        check_above_zero(is_zero, "the mean time between events (in picoseconds)")?;
        Ok(Self { mean_gap_ps, start, until })
    }

    /// Creates an arrival process for messages with this mean size. The offered load is `load` times `rate`.
    pub(super) fn with_load(
        load: f64,
        rate: BitRate,
        mean_bytes: f64,
        start: Picos,
        until: Picos,
    ) -> Result<Self, PatternError> {
        check_above_zero(load <= 0.0 || rate.is_zero(), "load and rate")?;
        Self::with_mean_gap(mean_bytes * 8e12 / (load * rate.get() as f64), start, until)
    }

    /// Returns the expected number of events.
    pub(super) fn expected_events(self) -> f64 {
        self.until.get().saturating_sub(self.start.get()) as f64 / self.mean_gap_ps
    }

    /// Returns each event's counter and time.
    pub(super) fn events(self, random: RandomKey) -> impl Iterator<Item = (u64, Picos)> {
        let mut time = self.start;
        (0..).map_while(move |counter| {
            time += round_picos(self.mean_gap_ps * random.nth(counter).exponential());
            (time < self.until).then_some((counter, time))
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "gaps are positive, and gaps above 213 days saturate")]
fn round_picos(picos: f64) -> Picos {
    Picos::new((picos + 0.5) as u64)
}

/// Returns a random start offset below `limit`.
pub(super) fn start_offset(random: RandomKey, limit: Picos) -> Picos {
    let bits = random.named("spread").bits();
    Picos::new(u64::try_from((u128::from(bits) * u128::from(limit.get())) >> 64).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_expected_rate_and_stay_inside_the_interval() {
        // One event per microsecond for 100 ms: 10^5 events, with a standard deviation of 316.
        let (start, until) = (Picos::new(5_000_000_000), Picos::new(105_000_000_000));
        let process = Poisson::with_mean_gap(1e6, start, until).expect("the process is valid");
        let events: Vec<_> = process.events(RandomKey::new(7, "events")).collect();
        assert!((99_000..101_000).contains(&events.len()), "{}", events.len());
        assert!(events.is_sorted() && events[0].1 > start && events[events.len() - 1].1 < until);
        // Gaps are exponentially distributed, so a fraction 1/e of them exceeds the mean.
        let longer = events.windows(2).filter(|pair| (pair[1].1 - pair[0].1).get() > 1_000_000).count();
        assert!((longer as f64 / events.len() as f64 - 0.3679).abs() < 0.01, "{longer}");
    }

    #[test]
    fn process_without_an_end_is_rejected() {
        let end = Picos::new(1_000);
        assert!(Poisson::with_mean_gap(0.0, Picos::ZERO, end).is_err());
        assert!(Poisson::with_mean_gap(f64::NAN, Picos::ZERO, end).is_err());
        assert!(Poisson::with_mean_gap(1.0, end, end).is_err());
        assert!(Poisson::with_load(0.0, BitRate::from_gbps(1), 1.0, Picos::ZERO, end).is_err());
        assert!(Poisson::with_load(1.0, BitRate::ZERO, 1.0, Picos::ZERO, end).is_err());
    }
}
