//! A seeded generator whose numbers never change: a failing test prints its seed and can be rerun for ever.
//!
//! Source  Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 (SplitMix64)
//! Limits  for test inputs only; not for cryptography, not for a simulation's own randomness

use poseidon_types::chance::mix;

/// SplitMix64: 64 bits of state, period 2^64, every seed as good as another.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The generator that starts at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let bits = mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// A number in `0..bound`, each equally likely.
    ///
    /// # Panics
    /// If `bound` is zero: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        // The values above the largest multiple of `bound` would favour small results: draw again.
        let unfair = (u64::MAX % bound + 1) % bound;
        loop {
            let draw = self.next_u64();
            if draw <= u64::MAX - unfair {
                return draw % bound;
            }
        }
    }

    /// A number in `low..=high`, each equally likely.
    ///
    /// # Panics
    /// If `low > high`, or if the range holds all 2^64 numbers (use [`Self::next_u64`]).
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "the range {low}..={high} is empty");
        low + self.below(high - low + 1)
    }

    /// An index in `0..len`, each equally likely.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).expect("a length in memory fits 64 bits");
        usize::try_from(self.below(bound)).expect("below a length that is a usize")
    }

    /// One of `items`, each equally likely.
    ///
    /// # Panics
    /// If `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// A number in `0.0..1.0`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Puts `items` in random order (Fisher and Yates), every order equally likely.
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
    fn gives_the_published_numbers() {
        // First outputs of the reference implementation (splitmix64.c by S. Vigna) for seed 1234567.
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
    fn every_number_below_the_bound_is_about_as_likely() {
        let mut rng = SplitMix64::new(7);
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[rng.index(6)] += 1;
        }
        // Binomial: mean 10,000, standard deviation 91; five of them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 456), "{seen:?}");
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
