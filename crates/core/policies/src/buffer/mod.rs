//! How much may wait in a queue.

use core::fmt::Display;
use poseidon_types::params::{ParamError, ParamInfo, Params};

use crate::table::table;

/// A buffer policy: its parameters, and what it decides.
pub trait Buffer: Params {
    /// Its name in scenario files.
    const NAME: &'static str;
    /// Where it is described.
    const SOURCE: &'static str;

    /// How much more may wait in a queue that holds `waiting` bytes, at a switch whose queues hold `used` in all.
    fn room(&self, used: u64, waiting: u64) -> u64;
}

table! { AnyBuffer, Buffer, BUFFERS;
    /// How much more may wait in a queue that holds `waiting` bytes, at a switch whose queues hold `used` in all.
    fn room(used: u64, waiting: u64) -> u64;
    per_queue::PerQueue,
    shared::Shared,
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Bytes, Fraction};

    #[test]
    fn a_queue_of_its_own_does_not_care_for_others() {
        let policy = AnyBuffer::from(PerQueue { size: Bytes::new(1_000) });
        assert_eq!((policy.room(1 << 40, 400), policy.room(0, 1_000), policy.room(0, 2_000)), (600, 0, 0));
    }

    #[test]
    fn a_shared_buffer_leaves_a_share_of_what_is_free() {
        // One queue alone settles at alpha / (1 + alpha) of the memory (Choudhury and Hahne, section IV).
        let policy = AnyBuffer::from(Shared { size: Bytes::new(9_000), alpha: Fraction::ratio(8, 1) });
        let mut waiting = 0;
        while policy.room(waiting, waiting) > 0 {
            waiting += 1;
        }
        assert_eq!(waiting, 8_000);
        // Two queues: alpha / (1 + 2 alpha) each.
        let mut waiting = 0;
        while policy.room(2 * waiting, waiting) > 0 {
            waiting += 1;
        }
        assert_eq!(waiting, 9_000 * 8 / 17 + 1);
    }

    #[test]
    fn every_policy_has_sound_defaults_and_room_at_first() {
        for info in BUFFERS {
            let policy = AnyBuffer::of(info.name).expect("in the table");
            assert_eq!(policy.check(), Ok(()), "{}", info.name);
            assert!(policy.room(0, 0) > 9_000, "{}: no room for a jumbo frame", info.name);
            assert!(policy.room(u64::MAX, u64::MAX) == 0, "{}: room in a full memory", info.name);
        }
    }
}
