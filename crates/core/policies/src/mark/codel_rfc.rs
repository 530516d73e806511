//! `CoDel` as RFC 8289 has it, with marks for drops.

use super::{Departure, Mark, Memory, spacing};
use poseidon_types::params::params;
use poseidon_types::{Nanos, Picos};

params! {
    /// Marks while a queue stands above a target, ever more often.
    #[derive(Copy, Eq)]
    pub struct CodelRfc {
        /// A packet may wait this long. RFC 8289 section 4.3.
        target: Nanos = Nanos::from_millis(5),
        /// And longer for this long, before one is marked. RFC 8289 section 4.3.
        interval: Nanos = Nanos::from_millis(100),
    }
    presets {}
    check {}
}

impl Mark for CodelRfc {
    const NAME: &'static str = "codel-rfc";
    const SOURCE: &'static str = "RFC 8289 section 5, with a mark where it drops";

    fn marks(&self, memory: &mut Memory, packet: &Departure) -> bool {
        let interval = Picos::from_nanos(self.interval);
        let stands = self.stands(memory, packet);
        if !memory.active {
            if !stands {
                return false;
            }
            // Section 5.5: soon after the last time, go on where it stopped.
            let recent = packet.now - memory.next < interval * 16;
            let more = memory.count.saturating_sub(memory.last_count);
            memory.count = if more > 1 && recent { more } else { 1 };
            memory.last_count = memory.count;
            memory.active = true;
            memory.next = packet.now + spacing(interval, memory.count);
            return true;
        }
        if !stands {
            memory.active = false;
            return false;
        }
        if packet.now < memory.next {
            return false;
        }
        memory.count = memory.count.saturating_add(1);
        memory.next += spacing(interval, memory.count);
        true
    }
}

impl CodelRfc {
    /// Whether the queue has stood above the target for an interval.
    fn stands(&self, memory: &mut Memory, packet: &Departure) -> bool {
        if packet.waited < Picos::from_nanos(self.target) || packet.behind <= packet.largest {
            memory.since = Picos::ZERO;
            return false;
        }
        if memory.since.is_zero() {
            memory.since = packet.now + Picos::from_nanos(self.interval);
            return false;
        }
        packet.now >= memory.since
    }
}
