//! The messages of rings, which are computed when they are due.

use core::cmp::Reverse;
use poseidon_plan::rings::RingRank;
use poseidon_types::{MessageId, Picos};

use super::{Endpoints, Rack, Timer};
use crate::context::ShardContext;

impl Rack {
    /// Starts the ring message that was waiting for a received message. When a rank has received all messages of a
    /// repetition, schedules its next repetition.
    pub(super) fn on_ring_message_received(
        &mut self,
        ctx: &ShardContext<'_>,
        endpoints: &mut Endpoints,
        message: MessageId,
        now: Picos,
    ) {
        let Some((ring, place, _)) = ctx.schedule.rings.find_message(message) else { return };
        let layout = &ctx.schedule.rings.layouts()[ring];
        let event = endpoints.rings[ring].on_received(layout, place);
        if let Some((place, index)) = event.starts {
            self.timers.push(Reverse((now, Timer::DependentMessage(layout.message_id(place, index)))));
        }
        if !event.finishes_repetition || event.repetition + 1 == layout.ring.repetitions {
            return;
        }
        let rank = layout.rank_number(event.rank);
        match layout.ring.compute_gap {
            Picos::ZERO => self.start_ring_repetition(ctx, endpoints, rank, now),
            gap => self.timers.push(Reverse((now + gap, Timer::RingRepetition(rank)))),
        }
    }

    /// Starts the next repetition of a rank.
    pub(super) fn start_ring_repetition(
        &mut self,
        ctx: &ShardContext<'_>,
        endpoints: &mut Endpoints,
        rank: RingRank,
        now: Picos,
    ) {
        let Some((ring, rank)) = ctx.schedule.rings.find_rank(rank) else { return };
        let layout = &ctx.schedule.rings.layouts()[ring];
        for (place, messages) in endpoints.rings[ring].start_repetition(layout, rank) {
            for index in messages {
                let message = layout.message_id(place, index);
                self.timers.push(Reverse((now, Timer::DependentMessage(message))));
            }
        }
    }
}
