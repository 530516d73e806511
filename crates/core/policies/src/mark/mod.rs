//! Congestion marking: which packets to mark when they leave a queue.

mod codel_rfc;
mod codel_tofino;
mod every;
mod off;
mod red;
mod step;

use core::fmt::Display;
use poseidon_types::params::{ParamError, ParamInfo, Params};
use poseidon_types::{BitRate, Bytes, Picos};

use crate::registry::registry;

/// A marking policy. The implementing type holds its parameters.
pub trait MarkPolicy: Params {
    /// The policy's name in scenario files.
    const NAME: &'static str;
    /// The publication or program that describes the policy.
    const SOURCE: &'static str;

    /// Returns whether to mark the packet. `state` belongs to the queue and starts with its default value.
    fn should_mark(&self, state: &mut MarkState, packet: &Departure) -> bool;
}

/// A packet that is leaving a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The time at which transmission of the packet starts.
    pub now: Picos,
    /// The time that the packet has spent in the queue.
    pub sojourn_time: Picos,
    /// The queue length, excluding this packet.
    pub queue_len: Bytes,
    /// The largest packet size in the network.
    pub max_packet: Bytes,
    /// The egress link rate.
    pub link_rate: BitRate,
    /// A number that is unique to this packet. Policies that mark at random hash this number.
    pub random_seed: u64,
}

/// The marking state of one queue. The fields follow `CoDel`'s pseudocode; each policy uses only the fields that it
/// needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MarkState {
    /// The time at which marking starts if the queue stays above the target. Zero while the queue is below the target.
    pub first_above: Picos,
    /// The time of the next mark.
    pub next_mark: Picos,
    /// The number of marks since marking started.
    pub count: u32,
    /// The value of `count` when marking last started.
    pub last_count: u32,
    /// Whether the queue is in the marking state.
    pub marking: bool,
}

registry! { AnyMarkPolicy, MarkPolicy, MARK_POLICIES;
    /// Returns whether to mark the packet.
    fn should_mark(state: &mut MarkState, packet: &Departure) -> bool;
    off::Off,
    step::Step,
    red::Red,
    codel_rfc::CodelRfc,
    codel_tofino::CodelTofino,
    every::Every,
}

impl AnyMarkPolicy {
    /// The policy that never marks a packet.
    pub const OFF: Self = Self::Off(Off {});
}

/// Returns the spacing between `CoDel` marks: `interval / sqrt(count)`, rounded down.
pub fn mark_spacing(interval: Picos, count: u32) -> Picos {
    let square = u128::from(interval.get()) * u128::from(interval.get()) / u128::from(count.max(1));
    Picos::new(u64::try_from(square.isqrt()).unwrap_or_else(|_| interval.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Fraction, Nanos};
    use std::vec::Vec;

    const MS: u64 = 1_000_000_000;

    /// Returns the indices of the marked packets. One packet leaves every 0.1 ms, with a sojourn time of 2 ms if
    /// `is_congested` holds for its millisecond, and 0.5 ms otherwise.
    fn marked_packets(policy: &AnyMarkPolicy, ms: u64, is_congested: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut state = MarkState::default();
        let packet = |tenth: u64| Departure {
            now: Picos::new(tenth * MS / 10 + 1),
            sojourn_time: Picos::new(if is_congested(tenth / 10) { 2 * MS } else { MS / 2 }),
            queue_len: Bytes::new(1_000_000),
            max_packet: Bytes::new(1_500),
            link_rate: BitRate::from_gbps(10),
            random_seed: 0,
        };
        (0..ms * 10).filter(|tenth| policy.should_mark(&mut state, &packet(*tenth))).collect()
    }

    fn codel_rfc() -> AnyMarkPolicy {
        CodelRfc { target: Nanos::from_millis(1), interval: Nanos::from_millis(20) }.into()
    }

    fn codel_tofino() -> AnyMarkPolicy {
        CodelTofino { target: Nanos::from_millis(1), interval: Nanos::from_millis(20) }.into()
    }

    #[test]
    fn codel_rfc_marks_at_an_increasing_rate_after_one_interval() {
        // The first mark comes after 20 ms, followed by gaps of 20, 20/√2 and 20/√3 ms.
        assert_eq!(marked_packets(&codel_rfc(), 70, |_| true), [200, 400, 542, 657]);
    }

    #[test]
    fn codel_rfc_resumes_the_previous_marking_rate() {
        // After 30 ms below the target, marking resumes at the previous rate.
        let marked = marked_packets(&codel_rfc(), 200, |ms| !(80..110).contains(&ms));
        let resumed: Vec<u64> = marked.iter().copied().filter(|tenth| *tenth > 1_100).collect();
        assert!(resumed[1] - resumed[0] < 120, "{marked:?}");
    }

    #[test]
    fn codel_tofino_restarts_after_one_packet_below_the_target() {
        // The first mark comes 20 ms after the first packet, followed by gaps of 20/√2 and 20/√3 ms.
        assert_eq!(marked_packets(&codel_tofino(), 70, |_| true), [201, 342, 457, 557, 647]);
        let interrupted = marked_packets(&codel_tofino(), 60, |ms| ms != 30);
        assert_eq!(interrupted, [201, 511], "a packet below the target resets the state");
    }

    #[test]
    fn red_probability_rises_linearly() {
        let policy = AnyMarkPolicy::from(Red {
            min: Bytes::new(100),
            max: Bytes::new(200),
            probability: Fraction::ratio(1, 5),
            per: BitRate::from_gbps(25),
        });
        let count_marked = |queue_len, gbps| {
            let marked = (0..10_000u64).filter(|seed| {
                let departure = Departure {
                    now: Picos::ZERO,
                    sojourn_time: Picos::ZERO,
                    queue_len: Bytes::new(queue_len),
                    max_packet: Bytes::new(1),
                    link_rate: BitRate::from_gbps(gbps),
                    random_seed: *seed,
                };
                policy.should_mark(&mut MarkState::default(), &departure)
            });
            marked.count()
        };
        for gbps in [25, 100] {
            let scaled = |bytes: u64| bytes * gbps / 25;
            assert_eq!((count_marked(scaled(100), gbps), count_marked(scaled(201), gbps)), (0, 10_000));
            assert!((900..1_100).contains(&count_marked(scaled(150), gbps)), "{gbps}");
            assert!((1_900..2_100).contains(&count_marked(scaled(200), gbps)), "{gbps}");
        }
    }

    /// Checks that every policy conforms: the defaults are in range, printed parameters parse to the same values, and
    /// packets are not marked while the queue is empty.
    #[test]
    fn every_policy_has_valid_defaults_and_does_not_mark_on_an_empty_queue() {
        for info in MARK_POLICIES {
            let policy = AnyMarkPolicy::from_name(info.name).expect("the policy is registered");
            assert_eq!(policy.check(), Ok(()), "{}", info.name);
            let mut parsed = policy.clone();
            policy.for_each(&mut |param, value| {
                parsed.set(param.name, &std::format!("{value}")).expect("printed values are valid");
            });
            assert_eq!(parsed, policy);
            let mut state = MarkState::default();
            for us in 0..100_000 {
                let packet = Departure {
                    now: Picos::new(us * 1_000_000),
                    sojourn_time: Picos::ZERO,
                    queue_len: Bytes::ZERO,
                    max_packet: Bytes::new(1_500),
                    link_rate: BitRate::from_gbps(10),
                    random_seed: us,
                };
                assert!(!policy.should_mark(&mut state, &packet), "{} at {us} us", info.name);
            }
        }
    }
}
