//! Buffer admission: how many bytes a queue may hold.

mod per_queue;
mod shared;

use core::fmt::Display;
use poseidon_types::Bytes;
use poseidon_types::params::{ParamError, ParamInfo, Params};

use crate::registry::registry;

/// A buffer policy. The implementing type holds its parameters.
pub trait BufferPolicy: Params {
    /// The policy's name in scenario files.
    const NAME: &'static str;
    /// The publication or program that describes the policy.
    const SOURCE: &'static str;

    /// Returns how many more bytes a queue may hold.
    ///
    /// `used` is the total occupancy of the switch's queues, and `queue_len` is the length of this queue.
    fn free_space(&self, used: Bytes, queue_len: Bytes) -> Bytes;
}

registry! { AnyBufferPolicy, BufferPolicy, BUFFER_POLICIES;
    /// Returns how many more bytes a queue may hold.
    ///
    /// `used` is the total occupancy of the switch's queues, and `queue_len` is the length of this queue.
    fn free_space(used: Bytes, queue_len: Bytes) -> Bytes;
    per_queue::PerQueue,
    shared::Shared,
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Fraction;

    fn free_space(policy: &AnyBufferPolicy, used: u64, queue_len: u64) -> u64 {
        policy.free_space(Bytes::new(used), Bytes::new(queue_len)).get()
    }

    #[test]
    fn per_queue_buffer_ignores_other_queues() {
        let policy = AnyBufferPolicy::from(PerQueue { size: Bytes::new(1_000) });
        assert_eq!(free_space(&policy, 1 << 40, 400), 600);
        assert_eq!(free_space(&policy, 0, 1_000), 0);
        assert_eq!(free_space(&policy, 0, 2_000), 0);
    }

    #[test]
    fn shared_buffer_reaches_the_dynamic_threshold() {
        // One queue settles at alpha / (1 + alpha) of the buffer (Choudhury and Hahne, section IV).
        let policy = AnyBufferPolicy::from(Shared { size: Bytes::new(9_000), alpha: Fraction::ratio(8, 1) });
        let mut queue_len = 0;
        while free_space(&policy, queue_len, queue_len) > 0 {
            queue_len += 1;
        }
        assert_eq!(queue_len, 8_000);
        // Two queues settle at alpha / (1 + 2 alpha) each.
        let mut queue_len = 0;
        while free_space(&policy, 2 * queue_len, queue_len) > 0 {
            queue_len += 1;
        }
        assert_eq!(queue_len, 9_000 * 8 / 17 + 1);
    }

    #[test]
    fn default_parameters_of_every_policy_are_valid() {
        for info in BUFFER_POLICIES {
            let policy = AnyBufferPolicy::from_name(info.name).expect("the policy is registered");
            assert_eq!(policy.check(), Ok(()), "{}", info.name);
            assert!(free_space(&policy, 0, 0) > 9_000, "{}: a jumbo frame does not fit", info.name);
            assert_eq!(free_space(&policy, u64::MAX, u64::MAX), 0, "{}: a full buffer has space", info.name);
        }
    }
}
