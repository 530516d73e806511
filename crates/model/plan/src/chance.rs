//! Chance without a generator: a random number is a hash of where it stands.
//!
//! A generator gives its numbers in the order in which they are asked for, so one flow more shifts all that follow. Here a number is
//! a hash of (seed, name, counter): what one flow draws depends on nothing that another one does.

use poseidon_types::chance::mix;

/// One random number, and the root of as many more as are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// The number called `name` in a run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(mix(seed)).named(name)
    }

    /// The number called `name` below this one.
    pub fn named(self, name: &str) -> Self {
        // FNV-1a: names are short, and `of` mixes what it leaves.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.of(name.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// The number with this counter below this one.
    pub const fn of(self, counter: u64) -> Self {
        Self(mix(self.0 ^ mix(counter)))
    }

    /// It as 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// It as 32 bits: its upper half.
    pub const fn half(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// It as a fraction: 0 ≤ x < 1. A double holds its 53 bits exactly.
    pub const fn unit(self) -> f64 {
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// It as a whole number below `limit`; zero where the limit is zero. One number is likelier than another by at most
    /// `limit` / 2^64.
    #[expect(clippy::cast_possible_truncation, reason = "less than the limit, which has 32 bits")]
    pub fn below(self, limit: u32) -> u32 {
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u32
    }

    /// It as a waiting time with the mean one: the gap between two events of a Poisson process.
    pub fn exponential(self) -> f64 {
        // One minus a number below one is above zero, so the logarithm is finite. Not `f64::ln`: its bits differ by platform.
        -libm::log(1.0 - self.unit())
    }

    /// Puts `items` in an order, each as likely as any other (Fisher and Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.of(last as u64).below(u32::try_from(last + 1).unwrap_or(u32::MAX));
            items.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = 100_000;

    /// Mean and variance of many numbers below one.
    fn moments(number: impl Fn(Chance) -> f64) -> (f64, f64) {
        let root = Chance::new(7, "moments");
        let numbers: Vec<f64> = (0..MANY).map(|i| number(root.of(i))).collect();
        let mean = numbers.iter().sum::<f64>() / MANY as f64;
        (mean, numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / MANY as f64)
    }

    #[test]
    fn mixing_is_split_mix_64() {
        // The first numbers that Vigna's splitmix64.c gives from a state of zero.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn numbers_have_the_moments_of_their_distribution() {
        // Within five standard errors: of a uniform mean 0.29 / √n, of an exponential one 1 / √n.
        let (mean, variance) = moments(Chance::unit);
        assert!((mean - 0.5).abs() < 5.0 * 0.29 / 316.0, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.002, "{variance}");
        let (mean, variance) = moments(Chance::exponential);
        assert!((mean - 1.0).abs() < 5.0 / 316.0, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let (mean, _) = moments(|chance| f64::from(chance.below(7)));
        assert!((mean - 3.0).abs() < 5.0 * 2.0 / 316.0, "{mean}");
    }

    #[test]
    fn a_number_depends_on_its_seed_name_and_counter() {
        let numbers = [
            Chance::new(1, "a"),
            Chance::new(2, "a"),
            Chance::new(1, "b"),
            Chance::new(1, "a").of(0),
            Chance::new(1, "a").of(1).of(2),
            Chance::new(1, "a").of(2).of(1),
            Chance::new(1, "a").named(""),
        ];
        for (i, number) in numbers.iter().enumerate() {
            assert_eq!(numbers.iter().position(|other| other == number), Some(i));
        }
        assert_eq!(Chance::new(1, "a").of(3), Chance::new(1, "a").of(3));
    }

    #[test]
    fn numbers_stay_what_they_are() {
        // Computed apart from this code: a change here changes every run.
        let number = Chance::new(7, "ur").of(3);
        assert_eq!(number.bits(), 0x19e8_7977_8fcb_495f);
        assert!((number.exponential() - 0.10669866509405225).abs() < 1e-15);
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut seen = std::collections::BTreeMap::<[u8; 3], u32>::new();
        for i in 0..6_000 {
            let mut items = [0, 1, 2];
            Chance::new(i, "order").shuffle(&mut items);
            *seen.entry(items).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (850..1_150).contains(count)), "{seen:?}");
    }
}
