//! Link impairments: which packets a link loses and which it delays.

mod jitter;
mod off;
mod random_loss;
mod reorder;

use core::fmt::Display;
use poseidon_types::Picos;
use poseidon_types::params::{ParamError, ParamInfo, Params};

use crate::registry::registry;

/// An impairment policy of one direction of a link. The implementing type holds its parameters.
pub trait ImpairPolicy: Params {
    /// The policy's name in scenario files.
    const NAME: &'static str;
    /// The publication or program that describes the policy.
    const SOURCE: &'static str;

    /// Returns what the link does to a packet. `state` belongs to the link and starts with its default value.
    fn impair(&self, state: &mut ImpairState, packet: &Transit) -> Impairment;
}

/// A packet whose last bit enters a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// The time at which the last bit enters the link.
    pub now: Picos,
    /// A number that is unique to this packet. Policies that act at random hash this number.
    pub random_seed: u64,
}

/// What a link does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impairment {
    /// The packet is lost.
    Lost,
    /// The packet arrives after the propagation delay and this additional delay.
    Delayed(Picos),
}

impl Impairment {
    /// The packet is neither lost nor delayed.
    pub const NONE: Self = Self::Delayed(Picos::ZERO);
}

/// The impairment state of one direction of a link. Each policy uses only the fields that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ImpairState {
    /// The latest time at which an earlier packet ends its additional delay.
    pub latest: Picos,
}

registry! { AnyImpairPolicy, ImpairPolicy, IMPAIR_POLICIES;
    /// Returns what the link does to a packet.
    fn impair(state: &mut ImpairState, packet: &Transit) -> Impairment;
    off::Off,
    random_loss::RandomLoss,
    jitter::Jitter,
    reorder::Reorder,
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::random::splitmix64;
    use poseidon_types::{Fraction, Nanos};
    use std::vec::Vec;

    const PACKETS: u64 = 100_000;

    /// Returns what happens to packets that enter the link every microsecond.
    fn impairments(policy: &AnyImpairPolicy) -> Vec<Impairment> {
        let mut state = ImpairState::default();
        let transit =
            |index: u64| Transit { now: Picos::new(index * 1_000_000), random_seed: splitmix64(index) };
        (0..PACKETS).map(|index| policy.impair(&mut state, &transit(index))).collect()
    }

    fn delay(impairment: &Impairment) -> u64 {
        match impairment {
            Impairment::Lost => 0,
            Impairment::Delayed(delay) => delay.get(),
        }
    }

    #[test]
    fn random_loss_has_the_given_probability() {
        let policy = RandomLoss { probability: Fraction::ratio(1, 100) }.into();
        let lost = impairments(&policy).iter().filter(|packet| **packet == Impairment::Lost).count();
        // The standard deviation is 31.
        assert!((900..1_100).contains(&lost), "{lost}");
    }

    #[test]
    fn certain_loss_loses_every_packet() {
        let policy = RandomLoss { probability: Fraction::ONE }.into();
        assert!(impairments(&policy).iter().all(|packet| *packet == Impairment::Lost));
    }

    #[test]
    fn jitter_is_uniform_and_may_change_the_order() {
        let policy = Jitter { max: Nanos::from_micros(10), keep_order: false }.into();
        let packets = impairments(&policy);
        let mean = packets.iter().map(delay).sum::<u64>() / PACKETS;
        assert!((4_950_000..5_050_000).contains(&mean), "{mean}");
        let arrivals: Vec<u64> =
            (0..).zip(&packets).map(|(index, packet)| index * 1_000_000 + delay(packet)).collect();
        assert!(arrivals.windows(2).any(|pair| pair[1] < pair[0]), "no packet overtakes another");
    }

    #[test]
    fn jitter_can_keep_the_order() {
        let policy = Jitter { max: Nanos::from_micros(10), keep_order: true }.into();
        let packets = impairments(&policy);
        let arrivals: Vec<u64> =
            (0..).zip(&packets).map(|(index, packet)| index * 1_000_000 + delay(packet)).collect();
        assert!(arrivals.windows(2).all(|pair| pair[0] <= pair[1]), "a packet overtakes another");
        assert!(
            packets.iter().all(|packet| delay(packet) <= 10_000_000),
            "a packet waits for longer than the jitter"
        );
    }

    #[test]
    fn reorder_delays_the_given_share_of_packets() {
        let policy = Reorder { probability: Fraction::ratio(1, 50), delay: Nanos::from_micros(3) }.into();
        let packets = impairments(&policy);
        let delayed = packets.iter().filter(|packet| delay(packet) == 3_000_000).count();
        assert!((1_850..2_150).contains(&delayed), "{delayed}");
        assert!(packets.iter().all(|packet| [0, 3_000_000].contains(&delay(packet))));
    }

    #[test]
    fn every_policy_has_valid_defaults_and_does_nothing_by_default() {
        for info in IMPAIR_POLICIES {
            let policy = AnyImpairPolicy::from_name(info.name).expect("the policy is registered");
            assert_eq!(policy.check(), Ok(()), "{}", info.name);
            let mut parsed = policy.clone();
            policy.for_each(&mut |param, value| {
                parsed.set(param.name, &std::format!("{value}")).expect("printed values are valid");
            });
            assert_eq!(parsed, policy);
            assert!(impairments(&policy).iter().all(|packet| *packet == Impairment::NONE), "{}", info.name);
        }
    }
}
