//! Switches whose ports do not influence each other: each queue has a buffer of its own, and there is no PFC, reverse
//! marking or circuit.
//!
//! Such a port needs no timer. Its departures follow from its own queues, so they are processed late: when the next
//! packet arrives at the port, and at the end of the window. Other switches order all departures and arrivals with a
//! heap of timers. Both ways give the same result.

use core::cmp::Reverse;
use poseidon_plan::switch::AnyBufferPolicy;
use poseidon_types::{Bytes, Picos, QueueId};

use super::{Switches, TimerEvent};
use crate::calendar::PREFETCH_BATCH;
use crate::context::ShardContext;
use crate::node::NodeId;
use crate::packet::PacketId;

impl Switches {
    /// Returns whether no port of these switches depends on another one.
    pub(super) fn has_independent_ports(&self) -> bool {
        let is_per_queue = |buffer: &AnyBufferPolicy| matches!(buffer, AnyBufferPolicy::PerQueue(_));
        !self.needs_preprocessing && self.switches.iter().all(|switch| is_per_queue(&switch.buffer))
    }

    /// Processes all of a switch's events in the current window. The events of each port are in chronological order.
    pub(super) fn visit_independent_ports(&mut self, ctx: &mut ShardContext<'_>, node: NodeId) {
        let switch = self.local_index[node.index()] as usize;
        let batch = ctx.calendar.take_batch(node);
        let (window_start, window_end) = (ctx.calendar.window_start(), ctx.calendar.window_end());
        self.prefetch(ctx, switch);
        let mut next_timer = self.next_timer(switch);
        for (index, arrival) in batch.iter().enumerate() {
            let now = arrival.time(window_start);
            if now >= window_end {
                break;
            }
            while next_timer <= now {
                next_timer = self.run_timer(ctx, switch);
            }
            if index.is_multiple_of(PREFETCH_BATCH) {
                let next = batch[index..].iter().take(PREFETCH_BATCH);
                ctx.arena.prefetch(next.map(|arrival| arrival.packet()));
            }
            self.on_arrival::<true>(ctx, switch, arrival.port(), arrival.packet(), now);
        }
        while next_timer < window_end {
            next_timer = self.run_timer(ctx, switch);
        }
        let next_departure = self.depart_all_until(ctx, switch, window_end);
        let next_event = next_departure.min(next_timer);
        if next_event < Picos::MAX {
            ctx.calendar.schedule_visit(node, next_event);
        }
        ctx.calendar.recycle_batch(batch);
    }

    /// Returns the time of a switch's next sample or link change, or [`Picos::MAX`].
    fn next_timer(&self, switch: usize) -> Picos {
        self.switches[switch].timers.peek().map_or(Picos::MAX, |Reverse((time, _))| *time)
    }

    /// Runs a switch's next timer, after the departures before it. Returns the time of the timer after it. A sample shows
    /// the queues before the departures at its time, and a link changes after them.
    #[cold]
    #[inline(never)]
    fn run_timer(&mut self, ctx: &mut ShardContext<'_>, switch: usize) -> Picos {
        if let Some(Reverse((time, timer))) = self.switches[switch].timers.pop() {
            let until = match timer.event() {
                TimerEvent::Sample => time,
                _ => following(time),
            };
            self.depart_all_until(ctx, switch, until);
            self.on_timer(ctx, switch, timer, time);
        }
        self.next_timer(switch)
    }

    /// Sends a packet immediately if its port is idle. Otherwise, queues, trims or drops the packet.
    #[inline]
    pub(super) fn enqueue_at_independent_port(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        id: PacketId,
        now: Picos,
    ) {
        self.depart_until(ctx, switch, port, following(now));
        let packet = &ctx.arena[id];
        let (size, queue_id) = (u64::from(packet.size), QueueId::new(u32::from(packet.tag.priority())));
        let state = &self.ports[port];
        let queue = (state.first_queue + queue_id.get()) as usize;
        if state.occupied == 0 && state.free_at <= now {
            self.depart(ctx, switch, port, queue, id, now);
            return;
        }
        let divisor = u64::from(state.divisor);
        let queue_len = Bytes::new(self.queues[queue].queued_bytes * divisor);
        let free = self.switches[switch].buffer.free_space(Bytes::ZERO, queue_len);
        if Bytes::new(size * divisor) <= free || self.admit_beyond_limit(ctx, switch, port, queue, id, now) {
            let queue = &mut self.queues[queue];
            queue.packets.push(&mut ctx.arena, id);
            queue.queued_bytes += size;
            self.switches[switch].buffered_bytes += size;
            self.ports[port].occupied |= 1 << queue_id.get();
        }
    }

    /// Trims or drops a packet that does not fit in its queue. Returns whether the packet was admitted all the same.
    #[cold]
    #[inline(never)]
    fn admit_beyond_limit(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        queue: usize,
        id: PacketId,
        now: Picos,
    ) -> bool {
        self.admit(ctx, switch, port, queue, id, now)
    }

    /// Sends the packets that leave a port before `until`.
    #[inline]
    fn depart_until(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, until: Picos) {
        loop {
            let state = &mut self.ports[port];
            if state.occupied == 0 || state.free_at >= until {
                return;
            }
            let (now, queue_id) = (state.free_at, state.occupied.trailing_zeros());
            let queue = (state.first_queue + queue_id) as usize;
            let queued = &mut self.queues[queue];
            let Some(id) = queued.packets.pop(&ctx.arena) else { return };
            if queued.packets.is_empty() {
                state.occupied &= !(1 << queue_id);
            }
            let size = u64::from(ctx.arena[id].size);
            queued.queued_bytes -= size;
            self.switches[switch].buffered_bytes -= size;
            self.depart(ctx, switch, port, queue, id, now);
        }
    }

    /// Sends the packets that leave a switch before `until`. Returns the time of the next departure, or [`Picos::MAX`].
    fn depart_all_until(&mut self, ctx: &mut ShardContext<'_>, switch: usize, until: Picos) -> Picos {
        let first = self.switches[switch].first_port as usize;
        let ports = self.switches[switch].ports as usize;
        let mut next = Picos::MAX;
        for port in first..first + ports {
            self.depart_until(ctx, switch, port, until);
            let state = &self.ports[port];
            if state.occupied != 0 {
                next = next.min(state.free_at);
            }
        }
        next
    }
}

/// Returns the time that directly follows `time`.
fn following(time: Picos) -> Picos {
    Picos::new(time.get() + 1)
}
