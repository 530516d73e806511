//! A seeded random number generator with a fixed output, so that a failing test can be reproduced from its seed.
//!
//! Source  Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 (SplitMix64)
//! Limits  For test inputs only: not for cryptography, and not for random numbers in a simulation.

use poseidon_types::random::splitmix64;

/// SplitMix64: 64 bits of state, period 2^64, no weak seeds.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let bits = splitmix64(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// Returns a uniformly distributed number in `0..bound`.
    ///
    /// # Panics
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound must be above zero");
        // Reject values above the largest multiple of `bound`, because they would bias the result towards small
        // numbers.
        let rejected = (u64::MAX % bound + 1) % bound;
        loop {
            let draw = self.next_u64();
            if draw <= u64::MAX - rejected {
                return draw % bound;
            }
        }
    }

    /// Returns a uniformly distributed number in `low..=high`.
    ///
    /// # Panics
    /// Panics if `low > high`, or if the range covers all 2^64 numbers (use [`Self::next_u64`]).
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "the range {low}..={high} is empty");
        low + self.below(high - low + 1)
    }

    /// Returns a uniformly distributed index in `0..len`.
    ///
    /// # Panics
    /// Panics if `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).expect("a length fits in 64 bits");
        usize::try_from(self.below(bound)).expect("the index is below `len`")
    }

    /// Returns one of `items`, each with the same probability.
    ///
    /// # Panics
    /// Panics if `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Returns a uniformly distributed number in `0.0..1.0`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles `items` (Fisher and Yates). Every order has the same probability.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_matches_the_reference_implementation() {
        // The first outputs of splitmix64.c by S. Vigna for seed 1234567.
        let mut rng = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_uniformly_distributed() {
        let mut rng = SplitMix64::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[rng.index(6)] += 1;
        }
        // Binomial distribution with mean 10,000 and standard deviation 91. The limit is five standard deviations.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 456), "{counts:?}");
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut rng = SplitMix64::new(3);
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut rng = SplitMix64::new(11);
        let drawn: Vec<u64> = (0..200).map(|_| rng.within(4, 7)).collect();
        assert!((4..=7).all(|n| drawn.contains(&n)));
        assert!(drawn.iter().all(|n| (4..=7).contains(n)));
        assert!((0..1000).map(|_| rng.unit()).all(|u| (0.0..1.0).contains(&u)));
    }
}
