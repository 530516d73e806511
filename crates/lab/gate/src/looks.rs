//! The looks: after how many seeds a decision is tried, and how much of alpha each look may spend.

use crate::stats::MAX_PAIRS;
use core::ops::RangeInclusive;

/// The default numbers of seeds.
pub const DEFAULT_LOOKS: [u32; 3] = [8, 16, 20];

/// The default probability of failing although nothing became worse, over all tests and looks.
pub const DEFAULT_ALPHA: f64 = 0.01;

/// The probability of passing although a metric is worse by more than its margin, over all looks of one metric.
pub const PASS_ALPHA: f64 = 0.05;

/// The fewest seeds of a look. With fewer, even a single test of five percent cannot reject.
pub const MIN_SEEDS: u32 = 5;

/// The most seeds of a look. All sign patterns of this many pairs are counted.
pub const MAX_SEEDS: u32 = 20;

const _: () = assert!(MAX_SEEDS as usize <= MAX_PAIRS);

/// When to decide, and with which error rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks {
    seeds: Vec<u32>,
    alpha: f64,
    first_seed: u64,
}

/// An error in the looks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LooksError {
    /// The numbers of seeds are invalid.
    #[error("--seeds {}: write one to four rising numbers from {MIN_SEEDS} to {MAX_SEEDS}, such as 8,16,20", list(.0))]
    Seeds(Vec<u32>),
    /// The error rate is invalid.
    #[error("--alpha {0}: write a number above 0 and at most 0.2, such as 0.01")]
    Alpha(f64),
    /// The first seed is invalid.
    #[error("--first-seed {0}: write a number from 1 to 4294967295")]
    FirstSeed(u64),
}

fn list(seeds: &[u32]) -> String {
    seeds.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

impl Looks {
    /// Checks the numbers of seeds and the error rate.
    pub fn new(seeds: Vec<u32>, alpha: f64, first_seed: u64) -> Result<Self, LooksError> {
        let is_rising = seeds.is_sorted_by(|a, b| a < b);
        let is_in_range = seeds.iter().all(|seeds| (MIN_SEEDS..=MAX_SEEDS).contains(seeds));
        if !(1..=4).contains(&seeds.len()) || !is_rising || !is_in_range {
            return Err(LooksError::Seeds(seeds));
        }
        if !(alpha > 0.0 && alpha <= 0.2) {
            return Err(LooksError::Alpha(alpha));
        }
        if !(1..=u64::from(u32::MAX)).contains(&first_seed) {
            return Err(LooksError::FirstSeed(first_seed));
        }
        Ok(Self { seeds, alpha, first_seed })
    }

    /// Returns one look at all seeds that exist, for results that cannot grow.
    pub fn single(alpha: f64) -> Result<Self, LooksError> {
        Self::new(vec![MAX_SEEDS], alpha, 1)
    }

    /// Returns the number of seeds at each look.
    pub fn seeds(&self) -> &[u32] {
        &self.seeds
    }

    /// Returns the largest number of seeds.
    pub fn max_seeds(&self) -> u32 {
        self.seeds.last().copied().unwrap_or(MAX_SEEDS)
    }

    /// Returns the error rate over all looks.
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the first seed.
    pub const fn first_seed(&self) -> u64 {
        self.first_seed
    }

    /// Returns the seeds from the first one to those of a look.
    pub fn range(&self, look: usize) -> RangeInclusive<u64> {
        self.first_seed..=self.first_seed + u64::from(self.seeds[look]) - 1
    }

    /// Returns the seeds that a look adds to those of the previous look.
    pub fn added(&self, look: usize) -> RangeInclusive<u64> {
        let start = look.checked_sub(1).map_or(self.first_seed, |before| self.range(before).end() + 1);
        start..=*self.range(look).end()
    }

    /// Returns the share of the error rate that a look may spend. The first look gets a little more, because eight
    /// seeds need it: the smallest p-value of eight pairs is 0.0039, and 40 % of 0.01 is 0.004.
    fn share(&self, look: usize) -> f64 {
        let count = self.seeds.len() as f64;
        let first = (1.2 / count).min(1.0);
        if look == 0 { first } else { (1.0 - first) / (count - 1.0) }
    }
}

/// The error rates of one look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookAlpha {
    /// The probability of failing although nothing became worse, over all tests.
    pub fail: f64,
    /// The probability of passing although a metric is worse by more than its margin.
    pub pass: f64,
    /// Whether a test can fail at this look. With few seeds and many tests, the smallest p-value is too large.
    pub can_fail: bool,
}

/// Hands out the error rates, look by look. A look at which no test can fail passes its share to the next one. That
/// depends only on the number of seeds and tests, not on the values, so the total remains alpha.
#[derive(Clone, Debug)]
pub struct AlphaSpending<'a> {
    looks: &'a Looks,
    unspent: f64,
}

impl<'a> AlphaSpending<'a> {
    /// Starts before the first look.
    pub const fn new(looks: &'a Looks) -> Self {
        Self { looks, unspent: 0.0 }
    }

    /// Returns the error rates of a look with this many tests. `smallest_p` is the smallest p-value that a test can
    /// have.
    pub fn spend(&mut self, look: usize, tests: usize, smallest_p: f64) -> LookAlpha {
        let share = self.looks.share(look);
        let fail = self.looks.alpha * share + self.unspent;
        let can_fail = smallest_p * tests.max(1) as f64 <= fail;
        self.unspent = if can_fail { 0.0 } else { fail };
        LookAlpha { fail, pass: PASS_ALPHA * share, can_fail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::smallest_sign_flip_p;

    fn default_looks() -> Looks {
        Looks::new(DEFAULT_LOOKS.to_vec(), DEFAULT_ALPHA, 1).expect("the defaults are valid")
    }

    #[test]
    fn the_shares_add_up_and_eight_seeds_can_fail() {
        for looks in [vec![8], vec![8, 16], vec![8, 16, 20], vec![5, 8, 12, 20]] {
            let looks = Looks::new(looks, 0.01, 1).expect("the looks are valid");
            let sum: f64 = (0..looks.seeds.len()).map(|look| looks.share(look)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{looks:?}");
        }
        let looks = default_looks();
        let first = AlphaSpending::new(&looks).spend(0, 1, smallest_sign_flip_p(8));
        assert!(first.can_fail && (first.fail - 0.004).abs() < 1e-12, "{first:?}");
    }

    #[test]
    fn a_look_that_cannot_fail_passes_its_share_on() {
        let looks = default_looks();
        let mut spending = AlphaSpending::new(&looks);
        let first = spending.spend(0, 12, smallest_sign_flip_p(8));
        assert!(!first.can_fail);
        let second = spending.spend(1, 12, smallest_sign_flip_p(16));
        assert!(second.can_fail && (second.fail - 0.007).abs() < 1e-12, "{second:?}");
        let third = spending.spend(2, 12, smallest_sign_flip_p(20));
        assert!((third.fail - 0.003).abs() < 1e-12, "{third:?}");
    }

    #[test]
    fn looks_add_consecutive_seeds() {
        let looks = Looks::new(vec![8, 16, 20], 0.01, 101).expect("the looks are valid");
        assert_eq!([0, 1, 2].map(|look| looks.added(look)), [101..=108, 109..=116, 117..=120]);
        assert_eq!(looks.range(1), 101..=116);
    }

    #[test]
    fn invalid_looks_are_refused() {
        for seeds in [vec![], vec![4], vec![8, 8], vec![16, 8], vec![21], vec![5, 6, 7, 8, 9]] {
            assert!(matches!(Looks::new(seeds, 0.01, 1), Err(LooksError::Seeds(_))));
        }
        for alpha in [0.0, -0.1, 0.3, f64::NAN] {
            assert!(matches!(Looks::new(vec![8], alpha, 1), Err(LooksError::Alpha(_))));
        }
        assert!(matches!(Looks::new(vec![8], 0.01, 0), Err(LooksError::FirstSeed(0))));
    }
}
