//! `CoDel` as specified in RFC 8289, but with marks instead of drops.

use super::{Departure, MarkPolicy, MarkState, mark_spacing};
use poseidon_types::params::params;
use poseidon_types::{Nanos, Picos};

params! {
    /// Marks at an increasing rate while the sojourn time stays above a target.
    #[derive(Copy, Eq)]
    pub struct CodelRfc {
        /// Acceptable packet sojourn time (RFC 8289 section 4.3).
        target: Nanos = Nanos::from_millis(5),
        /// Time above the target before the first mark (RFC 8289 section 4.3).
        interval: Nanos = Nanos::from_millis(100),
    }
    presets {}
    check {}
}

impl MarkPolicy for CodelRfc {
    const NAME: &'static str = "codel-rfc";
    const SOURCE: &'static str = "RFC 8289 section 5, with marks instead of drops";

    fn should_mark(&self, state: &mut MarkState, packet: &Departure) -> bool {
        let interval = Picos::from_nanos(self.interval);
        let is_standing = self.is_standing_queue(state, packet);
        if !state.marking {
            if !is_standing {
                return false;
            }
            // Section 5.5: resume the previous marking rate if marking stopped recently.
            let is_recent = packet.now - state.next_mark < interval * 16;
            let delta = state.count.saturating_sub(state.last_count);
            state.count = if delta > 1 && is_recent { delta } else { 1 };
            state.last_count = state.count;
            state.marking = true;
            state.next_mark = packet.now + mark_spacing(interval, state.count);
            return true;
        }
        if !is_standing {
            state.marking = false;
            return false;
        }
        if packet.now < state.next_mark {
            return false;
        }
        state.count = state.count.saturating_add(1);
        state.next_mark += mark_spacing(interval, state.count);
        true
    }
}

impl CodelRfc {
    /// Returns whether the sojourn time has been above the target for one interval.
    fn is_standing_queue(&self, state: &mut MarkState, packet: &Departure) -> bool {
        if packet.sojourn_time < Picos::from_nanos(self.target) || packet.queue_len <= packet.max_packet {
            state.first_above = Picos::ZERO;
            return false;
        }
        if state.first_above.is_zero() {
            state.first_above = packet.now + Picos::from_nanos(self.interval);
            return false;
        }
        packet.now >= state.first_above
    }
}
