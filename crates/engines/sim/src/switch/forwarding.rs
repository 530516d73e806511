//! A packet's path through a switch: routing, admission, queueing and departure.

use poseidon_plan::records::{DropCause, MarkRow};
use poseidon_policies::mark::Departure;
use poseidon_types::{BitRate, Bytes, Picos, PortId, QueueId};

use super::{PortRole, Switch, Switches, to_u32};
use crate::context::ShardContext;
use crate::packet::{Packet, PacketId, PacketKind};
use crate::pfc::Admission;
use crate::telemetry::HopMeasurement;

impl Switches {
    /// Processes a packet that arrived at a port. Each kind of switch has its own copy of this function, so neither pays
    /// for the other.
    #[inline(always)]
    pub(super) fn on_arrival<const INDEPENDENT_PORTS: bool>(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        in_port: PortId,
        id: PacketId,
        now: Picos,
    ) {
        let Switch { id: switch_id, first_port, routes, .. } = self.switches[switch];
        let packet = &mut ctx.arena[id];
        packet.set_enqueued_at(now);
        if packet.tag.kind() == PacketKind::Data {
            packet.switches = packet.switches.saturating_add(1);
        }
        if self.needs_preprocessing && self.preprocess_arrival(ctx, switch, in_port, id, now) {
            return;
        }
        let packet = &ctx.arena[id];
        for attempt in 0.. {
            let Some(port) = ctx.network.route(switch_id, routes, packet, attempt) else {
                ctx.drop_packet(switch_id, id, now, DropCause::Link);
                return;
            };
            let port = (first_port + port.get()) as usize;
            if self.ports[port].wire.is_up {
                if INDEPENDENT_PORTS {
                    self.enqueue_at_independent_port(ctx, switch, port, id, now);
                } else {
                    self.enqueue(ctx, switch, port, id, now);
                }
                return;
            }
        }
    }

    /// Handles PFC, reverse marking and circuit notification for an arriving packet. Returns whether the
    /// packet was consumed.
    fn preprocess_arrival(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        in_port: PortId,
        id: PacketId,
        now: Picos,
    ) -> bool {
        let port = self.switches[switch].local_port(in_port);
        let rack = self.switches[switch].id.get();
        let packet = &mut ctx.arena[id];
        packet.in_port = u16::try_from(in_port.get()).unwrap_or(0);
        match packet.tag.kind() {
            PacketKind::Pause => {
                let tag = packet.tag;
                ctx.discard(id);
                self.on_pfc_frame(ctx, switch, port, tag, now);
                return true;
            }
            PacketKind::Ack | PacketKind::Nack => {
                if self.reverse_marking.take_pending_mark(switch, port, packet, now) {
                    packet.tag.set_marked(true);
                    ctx.report.marks_carried += 1;
                }
                if let Some(rotor) = ctx.network.rotor().filter(|_| packet.dst_rack == rack) {
                    let to = ctx.plan.connections[packet.connection().index()].to;
                    let peer_rack = ctx.network.locate(to).rack;
                    packet.tag.set_circuit_up(rotor.announces(rack, peer_rack, now));
                }
            }
            PacketKind::Data
            | PacketKind::Cnp
            | PacketKind::Datagram
            | PacketKind::PendingAck
            | PacketKind::Trimmed => {}
        }
        false
    }

    /// Sends a packet immediately if its port is idle. Otherwise, queues or drops the packet.
    #[inline]
    fn enqueue(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, id: PacketId, now: Picos) {
        let packet = &ctx.arena[id];
        let size = u64::from(packet.size);
        let state = &self.ports[port];
        let (queue_id, serving_port) = match state.role {
            PortRole::Regular => (QueueId::new(u32::from(packet.tag.priority())), port),
            PortRole::RotorUplink | PortRole::RotorCircuit => {
                let circuit = &self.circuits[self.switches[switch].id.index()];
                let uses_circuit = circuit.peer == Some(packet.dst_rack);
                (QueueId::new(packet.dst_rack), if uses_circuit { port + 1 } else { port })
            }
        };
        let queue = (state.first_queue + queue_id.get()) as usize;
        let may_depart = self.may_depart(switch, serving_port, queue_id, packet.size, now);
        let state = &self.ports[serving_port];
        // A packet must not overtake packets already in its queue. If the port is idle and the queue is not
        // empty, a circuit is about to end.
        let may_depart = may_depart && self.queues[queue].packets.is_empty();
        if may_depart && !state.is_armed && state.free_at <= now {
            self.depart(ctx, switch, serving_port, queue, id, now);
            return;
        }
        if !self.admit(ctx, switch, port, queue, id, now) {
            return;
        }
        let queue = &mut self.queues[queue];
        queue.packets.push(&mut ctx.arena, id);
        queue.queued_bytes += size;
        self.switches[switch].buffered_bytes += size;
        match self.ports[port].role {
            PortRole::Regular => self.ports[port].occupied |= 1 << queue_id.get(),
            PortRole::RotorUplink | PortRole::RotorCircuit => {
                self.circuits[self.switches[switch].id.index()].occupied |= 1 << queue_id.get();
            }
        }
        if may_depart {
            self.arm(switch, serving_port);
        }
    }

    /// Returns whether a packet may leave through a port once the wire is free.
    #[inline]
    fn may_depart(&self, switch: usize, port: usize, queue_id: QueueId, size: u16, now: Picos) -> bool {
        let state = &self.ports[port];
        match state.role {
            PortRole::Regular => state.paused & (1 << queue_id.get()) == 0,
            PortRole::RotorUplink => true,
            // The last bit must leave before the circuit ends.
            PortRole::RotorCircuit => {
                let circuit_end = self.circuits[self.switches[switch].id.index()].next_change;
                state.free_at.max(now) + state.wire.send_time(size) <= circuit_end
            }
        }
    }

    /// Admits a packet to the buffer, or trims or drops it. Returns whether the packet was admitted.
    #[inline(always)]
    pub(super) fn admit(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        queue: usize,
        id: PacketId,
        now: Picos,
    ) -> bool {
        let Switch { id: switch_id, first_port, buffered_bytes, .. } = self.switches[switch];
        let Packet { size, in_port, tag, .. } = ctx.arena[id];
        let size = u64::from(size);
        let is_admitted = match &mut self.pfc {
            None => {
                let (mut size, mut queue_len) = (size, self.queues[queue].queued_bytes);
                let buffer = &self.switches[switch].buffer;
                if self.has_slow_ports {
                    // The queue of a slow port counts several times, as if its buffer were smaller.
                    let divisor = u64::from(self.ports[port].divisor);
                    (size, queue_len) = (size * divisor, queue_len * divisor);
                }
                Bytes::new(size) <= buffer.free_space(Bytes::new(buffered_bytes), Bytes::new(queue_len))
            }
            Some(pfc) => {
                let in_port = first_port as usize + usize::from(in_port);
                match pfc.admit(switch, in_port, tag.priority(), size) {
                    Admission::Accepted => true,
                    Admission::AcceptedAndPause => {
                        ctx.report.pauses += 1;
                        self.request_pfc_frame(ctx, switch, in_port, tag.priority(), true, now);
                        true
                    }
                    Admission::Rejected => false,
                }
            }
        };
        if !is_admitted {
            if ctx.plan.switch.trim.is_some() {
                return self.trim_or_drop(ctx, switch, port, queue, id, now);
            }
            let port = self.port_of_queue(switch, queue);
            ctx.capture_drop(switch_id, port, id, now, DropCause::Buffer);
            ctx.drop_packet(switch_id, id, now, DropCause::Buffer);
        }
        is_admitted
    }

    /// Returns the index of the queue that a port serves next, and the queue's id at the port.
    fn next_queue(
        &self,
        ctx: &ShardContext<'_>,
        switch: usize,
        port: usize,
        now: Picos,
    ) -> Option<(usize, QueueId)> {
        let state = &self.ports[port];
        if !state.wire.is_up {
            return None;
        }
        let circuit = || &self.circuits[self.switches[switch].id.index()];
        let (first, queue_id) = match state.role {
            PortRole::Regular => {
                let eligible = state.occupied & !state.paused;
                (state.first_queue, (eligible != 0).then(|| QueueId::new(eligible.trailing_zeros()))?)
            }
            PortRole::RotorUplink => (state.first_queue, circuit().next_packet_link_queue()?),
            PortRole::RotorCircuit => (self.ports[port - 1].first_queue, circuit().next_circuit_queue()?),
        };
        let queue = (first + queue_id.get()) as usize;
        if state.role == PortRole::RotorCircuit {
            let size = self.queues[queue].packets.front().map(|id| ctx.arena[id].size)?;
            self.may_depart(switch, port, queue_id, size, now).then_some((queue, queue_id))
        } else {
            Some((queue, queue_id))
        }
    }

    /// Sends the next packet from a port whose wire is free, and arms the port for the following packet.
    pub(super) fn depart_next(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, now: Picos) {
        if self.ports[port].pfc_pending != 0 && self.ports[port].wire.is_up {
            self.send_pfc_frame(ctx, port, now);
        } else {
            let Some((queue, queue_id)) = self.next_queue(ctx, switch, port, now) else { return };
            let Some(id) = self.dequeue(ctx, switch, port, (queue, queue_id), now) else { return };
            self.depart(ctx, switch, port, queue, id, now);
        }
        let free_at = self.ports[port].free_at;
        if self.ports[port].pfc_pending != 0 || self.next_queue(ctx, switch, port, free_at).is_some() {
            self.arm(switch, port);
        }
    }

    /// Removes the first packet from a queue, which is identified by its index and its id at the port.
    pub(super) fn dequeue(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        (queue, queue_id): (usize, QueueId),
        now: Picos,
    ) -> Option<PacketId> {
        let state = &mut self.queues[queue];
        let id = state.packets.pop(&ctx.arena)?;
        let Packet { size, in_port, tag, .. } = ctx.arena[id];
        let size = u64::from(size);
        state.queued_bytes -= size;
        self.switches[switch].buffered_bytes -= size;
        if state.packets.is_empty() {
            match self.ports[port].role {
                PortRole::Regular => self.ports[port].occupied &= !(1 << queue_id.get()),
                PortRole::RotorUplink | PortRole::RotorCircuit => {
                    self.circuits[self.switches[switch].id.index()].occupied &= !(1 << queue_id.get());
                }
            }
        }
        if self.ports[port].role == PortRole::RotorUplink {
            self.circuits[self.switches[switch].id.index()].advance_round_robin(queue_id);
        }
        if let Some(pfc) = &mut self.pfc {
            let in_port = self.switches[switch].first_port as usize + usize::from(in_port);
            if pfc.release(switch, in_port, tag.priority(), size) {
                self.request_pfc_frame(ctx, switch, in_port, tag.priority(), false, now);
            }
        }
        Some(id)
    }

    /// Sends a packet. The congestion mark and telemetry describe the queue behind the packet.
    #[inline]
    pub(super) fn depart(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        queue: usize,
        id: PacketId,
        now: Picos,
    ) {
        let state = &mut self.ports[port];
        let queue = &mut self.queues[queue];
        let packet = &mut ctx.arena[id];
        let waited = packet.waited(now);
        let delay_ns = u32::try_from(waited.get() / 1_000).unwrap_or(u32::MAX);
        state.last_delay_ns = delay_ns;
        if state.marks && packet.tag.is_ecn_capable() {
            let mark_policy = &self.switches[switch].mark;
            let (queue_len, link_rate) =
                scale_to_topology(Bytes::new(queue.queued_bytes), state.wire.rate, state.divisor);
            let departure = Departure {
                now,
                sojourn_time: waited,
                queue_len,
                max_packet: ctx.largest_packet,
                link_rate,
                random_seed: state.random_seed ^ now.get(),
            };
            if mark_policy.should_mark(&mut queue.mark_state, &departure) {
                ctx.report.marks += 1;
                if ctx.recorder.records_mark(now) {
                    let Switch { id: switch, first_port, .. } = self.switches[switch];
                    let port = PortId::new(to_u32(port) - first_port);
                    let (connection, packet) = (packet.connection(), packet.seq);
                    ctx.rows.recorded.marks.push(MarkRow { time: now, switch, port, connection, packet });
                }
                if self.reverse_marking.mark_forward(switch, port, packet, now) {
                    packet.tag.set_marked(true);
                    ctx.report.marks_carried += 1;
                }
            }
        }
        let (off_from, off_until) = self.switches[switch].telemetry_off;
        if !(off_from..off_until).contains(&now) {
            let measured = HopMeasurement {
                now,
                delay_ns,
                sent_bytes: queue.sent_bytes,
                queue_bytes: queue.queued_bytes,
                rate_index: state.wire.rate_index,
            };
            ctx.telemetry.write(packet, &measured);
        }
        queue.sent_bytes += u64::from(packet.size);
        if state.role == PortRole::RotorCircuit {
            self.circuits[self.switches[switch].id.index()].sent_bytes += u64::from(packet.size);
        }
        state.free_at = ctx.transmit(&state.wire, id, now);
    }
}

/// Scales the queue length and the rate of a slow port to the rate of the topology, to which marking thresholds apply.
/// A longer queue has the same effect as smaller thresholds.
#[inline]
fn scale_to_topology(queue_len: Bytes, link_rate: BitRate, divisor: u8) -> (Bytes, BitRate) {
    // The product is about the rate of the topology, so it does not overflow. A saturating multiplication would cost
    // instructions for every packet.
    let rate = link_rate.get().wrapping_mul(u64::from(divisor));
    (queue_len * u64::from(divisor), BitRate::from_bps(rate))
}
