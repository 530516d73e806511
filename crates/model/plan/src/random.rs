//! Stateless random numbers: each number is a hash of its key.
//!
//! A stateful generator returns numbers in call order, so adding one flow would change all later numbers. Here, each
//! number is a hash of (seed, name, counter), so one flow's random numbers do not depend on other flows.

use poseidon_types::random::splitmix64;

/// A key that yields a random number and derives independent child keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKey(u64);

impl RandomKey {
    /// Returns the root key called `name` for a run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(splitmix64(seed)).named(name)
    }

    /// Returns the child key with this name.
    pub fn named(self, name: &str) -> Self {
        // FNV-1a is good enough here, because names are short and `nth` mixes the result.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.nth(name.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// Returns the child key with this counter.
    pub const fn nth(self, counter: u64) -> Self {
        Self(splitmix64(self.0 ^ splitmix64(counter)))
    }

    /// Returns 64 random bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the upper 32 bits of [`Self::bits`].
    pub const fn upper_bits(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns a uniformly distributed number in [0, 1) with 53 random bits, which `f64` represents exactly.
    pub const fn uniform(self) -> f64 {
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniformly distributed integer below `limit`, or zero if `limit` is zero. The bias is at most `limit` /
    /// 2^64.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below the limit, which has 32 bits")]
    pub fn below(self, limit: u32) -> u32 {
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u32
    }

    /// Returns an exponentially distributed number with mean one, such as the gap between two Poisson events.
    pub fn exponential(self) -> f64 {
        // The argument is positive, so the logarithm is finite. Use `libm`, because `f64::ln` may return different bits
        // on different platforms.
        -libm::log(1.0 - self.uniform())
    }

    /// Shuffles `items` with the Fisher-Yates algorithm. All permutations are equally likely.
    pub fn shuffle<T>(self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.nth(last as u64).below(u32::try_from(last + 1).unwrap_or(u32::MAX));
            items.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u64 = 100_000;

    /// Returns the mean and the variance of many random numbers.
    fn moments(number: impl Fn(RandomKey) -> f64) -> (f64, f64) {
        let parent = RandomKey::new(7, "moments");
        let numbers: Vec<f64> = (0..SAMPLES).map(|i| number(parent.nth(i))).collect();
        let mean = numbers.iter().sum::<f64>() / SAMPLES as f64;
        (mean, numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / SAMPLES as f64)
    }

    #[test]
    fn splitmix64_matches_the_reference_output() {
        // The first outputs of Vigna's splitmix64.c with an initial state of zero.
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn random_numbers_have_the_expected_mean_and_variance() {
        // The tolerance is five standard errors. The standard error of the mean is 0.29 / √n for a uniform distribution
        // and 1 / √n for an exponential distribution.
        let (mean, variance) = moments(RandomKey::uniform);
        assert!((mean - 0.5).abs() < 5.0 * 0.29 / 316.0, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.002, "{variance}");
        let (mean, variance) = moments(RandomKey::exponential);
        assert!((mean - 1.0).abs() < 5.0 / 316.0, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let (mean, _) = moments(|key| f64::from(key.below(7)));
        assert!((mean - 3.0).abs() < 5.0 * 2.0 / 316.0, "{mean}");
    }

    #[test]
    fn keys_depend_on_seed_name_and_counter() {
        let keys = [
            RandomKey::new(1, "a"),
            RandomKey::new(2, "a"),
            RandomKey::new(1, "b"),
            RandomKey::new(1, "a").nth(0),
            RandomKey::new(1, "a").nth(1).nth(2),
            RandomKey::new(1, "a").nth(2).nth(1),
            RandomKey::new(1, "a").named(""),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(i));
        }
        assert_eq!(RandomKey::new(1, "a").nth(3), RandomKey::new(1, "a").nth(3));
    }

    #[test]
    fn random_numbers_do_not_change_between_versions() {
        // The expected values were computed independently. If these numbers change, the results of every run change.
        let key = RandomKey::new(7, "ur").nth(3);
        assert_eq!(key.bits(), 0x19e8_7977_8fcb_495f);
        assert!((key.exponential() - 0.10669866509405225).abs() < 1e-15);
    }

    #[test]
    fn shuffle_is_uniform() {
        let mut counts = std::collections::BTreeMap::<[u8; 3], u32>::new();
        for i in 0..6_000 {
            let mut items = [0, 1, 2];
            RandomKey::new(i, "order").shuffle(&mut items);
            *counts.entry(items).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
