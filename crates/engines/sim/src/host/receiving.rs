//! The receiving half of a rack, which processes data packets and sends replies.

use core::cmp::Reverse;
use poseidon_plan::records::ReceivedRow;
use poseidon_plan::traffic::Event;
use poseidon_types::{Bytes, ConnectionId, Picos};

use super::{Endpoints, Rack, Timer};
use crate::context::ShardContext;
use crate::credits::oversubscription::Arrival;
use crate::hop_records::RecordsId;
use crate::packet::{Packet, PacketId, PacketKind, PacketTag};
use crate::receiver::ReplyAction;

/// The reply fields that are not copied from the data packet.
#[derive(Clone, Copy, Debug)]
struct ReplyFields {
    kind: PacketKind,
    cumulative_ack: u32,
    /// Whether the reply echoes a mark.
    marked: bool,
}

impl Rack {
    /// Processes a data packet that arrived at a host.
    pub(super) fn on_data(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let data = ctx.arena[id];
        let connection = data.connection();
        if ctx.plan.transport.credits.is_some() {
            self.on_data_with_credits(ctx, endpoints, slot, id, now);
        }
        let payload = ctx.payload(&data);
        let receiver = &mut endpoints.receivers[connection.index()];
        ctx.report.delivered += 1;
        ctx.arrived_bytes += payload;
        let pending = receiver.pending_ack;
        let pending_is_marked = pending != PacketId::NONE && ctx.arena[pending].tag.is_marked();
        let expected_before = receiver.next_expected;
        let outcome = receiver.on_data(ctx.plan, &data, pending_is_marked, now);
        if outcome.is_new {
            receiver.received_bytes += payload;
            ctx.report.delivered_bytes += Bytes::new(payload);
            if receiver.completes_message() {
                self.record_complete_messages(ctx, endpoints, connection, now);
            }
        }
        if outcome.flush_pending_ack {
            // The pending ACK does not acknowledge the packet that just arrived.
            self.send_pending_ack(ctx, endpoints, connection, expected_before, now);
        }
        if outcome.send_cnp {
            self.send_cnp(ctx, slot, &data, now);
        }
        let receiver = &mut endpoints.receivers[connection.index()];
        match outcome.action {
            ReplyAction::AckNow | ReplyAction::DelayAck => {
                // An ACK reuses the last data packet that it acknowledges, so earlier data packets are no
                // longer needed.
                if receiver.pending_ack != PacketId::NONE {
                    ctx.discard(receiver.pending_ack);
                }
                receiver.pending_ack = id;
                let pending = &mut ctx.arena[id];
                pending.set_enqueued_at(now);
                pending.tag = pending.tag.with_kind(PacketKind::PendingAck);
                if outcome.action == ReplyAction::AckNow {
                    let cumulative_ack = receiver.next_expected;
                    self.send_pending_ack(ctx, endpoints, connection, cumulative_ack, now);
                } else if receiver.started_delayed_ack() {
                    self.timers.push(Reverse((receiver.ack_deadline, Timer::DelayedAck(connection))));
                }
            }
            ReplyAction::SackNow => self.send_sack(ctx, endpoints, slot, id, now),
            ReplyAction::Nack => {
                ctx.report.nacks += 1;
                let cumulative_ack = receiver.next_expected;
                let fields = ReplyFields { kind: PacketKind::Nack, cumulative_ack, marked: false };
                self.queue_reply(ctx, slot, id, fields, now);
            }
            ReplyAction::Discard => ctx.discard(id),
        }
        self.send_next(ctx, endpoints, slot, now);
    }

    /// Processes the demand and the mark of a data packet, with credits.
    #[cold]
    #[inline(never)]
    fn on_data_with_credits(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let data = ctx.arena[id];
        let arrival = Arrival::Data { marked: data.tag.is_marked() };
        self.on_demand(ctx, endpoints, slot, &data, Some(arrival), now);
    }

    /// Turns a data packet into an ACK with a selective acknowledgement.
    #[inline(never)]
    fn send_sack(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let data = &mut ctx.arena[id];
        data.set_enqueued_at(now);
        let receiver = &mut endpoints.receivers[data.connection().index()];
        let marked = data.tag.is_marked() && data.tag.kind() == PacketKind::Data;
        let from_packet = marked || data.tag.kind() == PacketKind::Data && data.tag.requests_ack();
        let ack = receiver.selective_ack(data.seq, from_packet);
        if data.records == RecordsId::NONE {
            data.records = ctx.telemetry.record_arena.allocate();
        }
        ctx.telemetry.record_arena.write_selective_ack(data.records, &ack);
        let cumulative_ack = receiver.next_expected;
        self.queue_reply(ctx, slot, id, ReplyFields { kind: PacketKind::Ack, cumulative_ack, marked }, now);
    }

    /// Processes a trimmed packet: reports it to its sender, unless the packet has already arrived.
    #[inline(never)]
    pub(super) fn on_trimmed(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let trimmed = ctx.arena[id];
        if ctx.plan.transport.credits.is_some() {
            let arrival = Arrival::Trimmed { last_hop: trimmed.tag.is_last_hop() };
            self.on_demand(ctx, endpoints, slot, &trimmed, Some(arrival), now);
        }
        let receiver = &mut endpoints.receivers[trimmed.connection().index()];
        if receiver.has_packet(trimmed.seq) {
            self.send_sack(ctx, endpoints, slot, id, now);
        } else {
            ctx.report.nacks += 1;
            let (cumulative_ack, marked) = (receiver.next_expected, trimmed.tag.is_marked());
            let fields = ReplyFields { kind: PacketKind::Nack, cumulative_ack, marked };
            self.queue_reply(ctx, slot, id, fields, now);
            ctx.arena[id].tag.set_last_hop(trimmed.tag.is_last_hop());
        }
        self.send_next(ctx, endpoints, slot, now);
    }

    /// Sends a connection's pending ACK if its deadline has passed.
    pub(super) fn on_delayed_ack(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let receiver = &mut endpoints.receivers[connection.index()];
        if receiver.pending_ack != PacketId::NONE && receiver.ack_deadline <= now {
            receiver.pending_count = 0;
            let cumulative_ack = receiver.next_expected;
            self.send_pending_ack(ctx, endpoints, connection, cumulative_ack, now);
            let slot = self.slot_of(ctx, ctx.plan.connections[connection.index()].to);
            self.send_next(ctx, endpoints, slot, now);
        }
    }

    /// Turns a receiver's pending packet into an ACK for everything below `cumulative_ack`.
    fn send_pending_ack(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        cumulative_ack: u32,
        now: Picos,
    ) {
        let receiver = &mut endpoints.receivers[connection.index()];
        let id = core::mem::replace(&mut receiver.pending_ack, PacketId::NONE);
        let marked = receiver.echoes_mark(ctx.plan.transport.echo, ctx.arena[id].tag.is_marked());
        let slot = self.slot_of(ctx, ctx.plan.connections[connection.index()].to);
        self.queue_reply(ctx, slot, id, ReplyFields { kind: PacketKind::Ack, cumulative_ack, marked }, now);
    }

    /// Turns a data packet into a reply and queues the reply for transmission.
    fn queue_reply(
        &mut self,
        ctx: &mut ShardContext<'_>,
        slot: u32,
        id: PacketId,
        fields: ReplyFields,
        now: Picos,
    ) {
        let connection = ctx.plan.connections[ctx.arena[id].connection().index()];
        let destination = ctx.network.locate(connection.from);
        let packet = &mut ctx.arena[id];
        // The time since the data packet's arrival is host delay, not network delay.
        if packet.enqueued_at_ps < now.get() && fields.kind == PacketKind::Ack {
            packet.exclude_host_delay(packet.waited(now));
        }
        let priority = ctx.plan.transport.ack_priority.unwrap_or_else(|| packet.tag.priority());
        packet.tag = PacketTag::new(fields.kind, priority);
        packet.tag.set_marked(fields.marked);
        packet.set_enqueued_at(now);
        packet.cumulative_ack = fields.cumulative_ack;
        (packet.dst_rack, packet.dst_slot, packet.dst_pod) =
            (destination.rack, destination.slot, destination.pod);
        // Inverting the entropy lets the reply take an independent path.
        packet.entropy = !packet.entropy;
        packet.size = ctx.reply_size;
        ctx.telemetry.reflect(packet);
        ctx.report.replies += 1;
        self.tx_queue(ctx, slot, priority).replies.push(&mut ctx.arena, id);
    }

    /// Queues a CNP for a data packet's sender.
    fn send_cnp(&mut self, ctx: &mut ShardContext<'_>, slot: u32, data: &Packet, now: Picos) {
        let destination = ctx.network.locate(ctx.plan.connections[data.connection().index()].from);
        let priority = ctx.plan.transport.ack_priority.unwrap_or_else(|| data.tag.priority());
        let mut tag = PacketTag::new(PacketKind::Cnp, priority);
        tag.set_marked(true);
        let id = ctx.arena.insert(Packet {
            enqueued_at_ps: now.get(),
            dst_rack: destination.rack,
            dst_slot: destination.slot,
            dst_pod: destination.pod,
            entropy: !data.entropy,
            max_delay_ns: 0,
            hops: 0,
            size: ctx.reply_size,
            records: RecordsId::NONE,
            tag,
            ..*data
        });
        ctx.report.replies += 1;
        self.tx_queue(ctx, slot, priority).replies.push(&mut ctx.arena, id);
    }

    /// Records newly completed messages and releases the messages that depend on them.
    fn record_complete_messages(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        loop {
            let receiver = &mut endpoints.receivers[connection.index()];
            if !receiver.completes_message() {
                return;
            }
            let Some(message) = ctx.schedule.message(connection, receiver.complete_messages) else { return };
            receiver.complete_messages += 1;
            receiver.message_end = ctx.schedule.end_seq_at(connection, receiver.complete_messages);
            ctx.rows.received.push(ReceivedRow { message, time: now });
            self.release_dependents(ctx, endpoints, message, Event::Received, now);
        }
    }
}
