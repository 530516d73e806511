//! Which packets get a congestion mark, decided as a packet leaves.

use core::fmt::Display;
use poseidon_types::params::{ParamError, ParamInfo, Params};
use poseidon_types::{BitRate, Bytes, Picos};

use crate::table::table;

/// A marking policy: its parameters, and what it decides.
pub trait Mark: Params {
    /// Its name in scenario files.
    const NAME: &'static str;
    /// Where it is described.
    const SOURCE: &'static str;

    /// Whether the packet is marked. `memory` is the queue's own, zero at the start.
    fn marks(&self, memory: &mut Memory, packet: &Departure) -> bool;
}

/// A packet that leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its first bit leaves.
    pub now: Picos,
    /// How long it waited.
    pub waited: Picos,
    /// What waits behind it.
    pub behind: Bytes,
    /// The largest packet there is.
    pub largest: Bytes,
    /// The rate of the link that it leaves by.
    pub rate: BitRate,
    /// A number that no other packet has: what chance is mixed from, where a policy needs it.
    pub dice: u64,
}

/// What a queue remembers for its policy, whichever it is. The names are `CoDel`'s; a policy may use them as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// When something began or will have lasted; zero for not at all.
    pub since: Picos,
    /// When something is due.
    pub next: Picos,
    /// How often it happened.
    pub count: u32,
    /// How often it had happened when this began.
    pub last_count: u32,
    /// Whether it goes on.
    pub active: bool,
}

table! { AnyMark, Mark, MARKS;
    /// Whether the packet is marked.
    fn marks(memory: &mut Memory, packet: &Departure) -> bool;
    off::Off,
    step::Step,
    red::Red,
    codel_rfc::CodelRfc,
    codel_tofino::CodelTofino,
    every::Every,
}

impl AnyMark {
    /// No packet is marked.
    pub const OFF: Self = Self::Off(Off {});
}

/// `interval / sqrt(count)`, rounded down: the spacing of `CoDel`'s marks.
pub fn spacing(interval: Picos, count: u32) -> Picos {
    let square = u128::from(interval.get()) * u128::from(interval.get()) / u128::from(count.max(1));
    Picos::new(u64::try_from(square.isqrt()).unwrap_or_else(|_| interval.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Fraction, Nanos};
    use std::vec::Vec;

    const MS: u64 = 1_000_000_000;

    /// The milliseconds at which packets are marked, one packet per 0.1 ms, each having waited 2 ms where `waits`.
    fn marks(policy: &AnyMark, ms: u64, waits: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut memory = Memory::default();
        let packet = |tenth: u64| Departure {
            now: Picos::new(tenth * MS / 10 + 1),
            waited: Picos::new(if waits(tenth / 10) { 2 * MS } else { MS / 2 }),
            behind: Bytes::new(1_000_000),
            largest: Bytes::new(1_500),
            rate: BitRate::from_gbps(10),
            dice: 0,
        };
        (0..ms * 10).filter(|tenth| policy.marks(&mut memory, &packet(*tenth))).collect()
    }

    fn rfc() -> AnyMark {
        CodelRfc { target: Nanos::from_millis(1), interval: Nanos::from_millis(20) }.into()
    }

    fn tofino() -> AnyMark {
        CodelTofino { target: Nanos::from_millis(1), interval: Nanos::from_millis(20) }.into()
    }

    #[test]
    fn rfc_codel_marks_after_an_interval_and_then_ever_more_often() {
        // After 20 ms, then gaps of 20, 20/√2, 20/√3 ms.
        assert_eq!(marks(&rfc(), 70, |_| true), [200, 400, 542, 657]);
    }

    #[test]
    fn rfc_codel_remembers_how_often_it_marked() {
        // A pause of 30 ms: it comes back at the rate it had.
        let seen = marks(&rfc(), 200, |ms| !(80..110).contains(&ms));
        let after: Vec<u64> = seen.iter().copied().filter(|tenth| *tenth > 1_100).collect();
        assert!(after[1] - after[0] < 120, "{seen:?}");
    }

    #[test]
    fn tofino_codel_waits_an_interval_each_time() {
        // Armed at 0; then after 20, 20 + 20/√2, + 20/√3 ms, with the first packet later than that.
        assert_eq!(marks(&tofino(), 70, |_| true), [201, 342, 457, 557, 647]);
        let paused = marks(&tofino(), 60, |ms| ms != 30);
        assert_eq!(paused, [201, 511], "one packet below the target and it starts anew");
    }

    #[test]
    fn red_marks_a_rising_share() {
        let policy = AnyMark::from(Red {
            min: Bytes::new(100),
            max: Bytes::new(200),
            probability: Fraction::ratio(1, 5),
            per: BitRate::from_gbps(25),
        });
        let share = |behind, gbps| {
            let marked = (0..10_000u64).filter(|packet| {
                let departure = Departure {
                    now: Picos::ZERO,
                    waited: Picos::ZERO,
                    behind: Bytes::new(behind),
                    largest: Bytes::new(1),
                    rate: BitRate::from_gbps(gbps),
                    dice: *packet,
                };
                policy.marks(&mut Memory::default(), &departure)
            });
            marked.count()
        };
        for gbps in [25, 100] {
            let behind = |bytes: u64| bytes * gbps / 25;
            assert_eq!((share(behind(100), gbps), share(behind(201), gbps)), (0, 10_000));
            assert!((900..1_100).contains(&share(behind(150), gbps)), "{gbps}");
            assert!((1_900..2_100).contains(&share(behind(200), gbps)), "{gbps}");
        }
    }

    /// What must hold for every policy of the table: its defaults pass its own checks, its parameters can be read back from
    /// what they show, and an empty queue that nobody waited in is never marked.
    #[test]
    fn every_policy_has_sound_defaults_and_leaves_an_empty_queue_alone() {
        for info in MARKS {
            let policy = AnyMark::of(info.name).expect("in the table");
            assert_eq!(policy.check(), Ok(()), "{}", info.name);
            let mut again = policy.clone();
            policy.each(&mut |param, value| {
                again.set(param.name, &std::format!("{value}")).expect("reads what it shows");
            });
            assert_eq!(again, policy);
            let mut memory = Memory::default();
            for us in 0..100_000 {
                let packet = Departure {
                    now: Picos::new(us * 1_000_000),
                    waited: Picos::ZERO,
                    behind: Bytes::ZERO,
                    largest: Bytes::new(1_500),
                    rate: BitRate::from_gbps(10),
                    dice: us,
                };
                assert!(!policy.marks(&mut memory, &packet), "{} at {us} us", info.name);
            }
        }
    }
}
