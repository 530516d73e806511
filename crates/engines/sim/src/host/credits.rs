//! Credits in a rack: the demand in data packets, and the pull packets that answer it.

use core::cmp::Reverse;
use poseidon_plan::Plan;
use poseidon_plan::traffic::Connection;
use poseidon_plan::transport::Credits;
use poseidon_types::{ConnectionId, HostId, Packets, Picos};

use super::pacing::rto;
use super::{Endpoints, Rack, Timer};
use crate::context::ShardContext;
use crate::credits::oversubscription::Arrival;
use crate::credits::pacer::{Grant, Pacer};
use crate::credits::sender::{Demand, SendCredit};
use crate::hash::{hash_pair, low32};
use crate::packet::{Packet, PacketId, PacketKind, PacketTag};
use crate::sender::Sender;

/// Returns the largest credit of a connection in bytes.
fn largest_credit(plan: &Plan, credits: &Credits, connection: &Connection) -> u64 {
    let rate = plan.topology.line_rate(connection.from, connection.to).get();
    let bits = u128::from(rate) * u128::from(credits.network_rtt.get()) / 1_000_000_000;
    credits.window.mul_floor(u64::try_from(bits / 8).unwrap_or(u64::MAX))
}

/// Returns the credit state of each connection at its receiver. Empty without credits.
pub(super) fn grants(plan: &Plan) -> Vec<Grant> {
    let Some(credits) = &plan.transport.credits else { return Vec::new() };
    let grant = |connection| Grant::new(largest_credit(plan, credits, connection));
    plan.connections.iter().map(grant).collect()
}

/// Returns the pacer of each host. Empty without credits.
pub(super) fn pacers(plan: &Plan, hosts: usize) -> Vec<Pacer> {
    plan.transport.credits.as_ref().map_or_else(Vec::new, |credits| vec![Pacer::new(credits); hosts])
}

/// Returns the credit of a connection that starts to send.
pub(super) fn start_credit(plan: &Plan, connection: &Connection) -> Option<Box<SendCredit>> {
    let credits = plan.transport.credits.as_ref()?;
    Some(Box::new(SendCredit::new(largest_credit(plan, credits, connection))))
}

/// Returns whether a sender's credit allows a packet.
#[inline]
pub(super) fn credit_allows_packet(sender: &Sender) -> bool {
    sender.credit.as_ref().is_none_or(|credit| credit.allows_packet())
}

/// Returns the total credit that a sender asks for, in quanta. `active` is the number of its host's connections that
/// wait for their turn.
fn pull_target(ctx: &ShardContext<'_>, sender: &Sender, credit: &SendCredit, active: usize) -> u32 {
    let packet = u64::from(ctx.mtu + ctx.data_overhead);
    let (new, lost) = sender.waiting_packets();
    let window = (u128::from(sender.decision.window.q24()) * u128::from(packet)) >> Packets::FRACTION_BITS;
    credit.pull_target(&Demand {
        backlog: (u64::from(new) + u64::from(lost)) * packet,
        has_new_data: new > 0,
        window: u64::try_from(window).unwrap_or(u64::MAX).saturating_add(packet),
        packet,
        active: active as u64,
    })
}

/// Spends credit on a data packet and writes the sender's demand into it.
pub(super) fn spend_credit(ctx: &mut ShardContext<'_>, sender: &mut Sender, id: PacketId, active: usize) {
    let Some(mut credit) = sender.credit.take() else { return };
    credit.spend(u64::from(ctx.arena[id].size));
    let target = pull_target(ctx, sender, &credit, active);
    credit.asked = credit.asked.max(target);
    ctx.arena[id].cumulative_ack = target;
    if sender.sack.is_some() && !credit.allows_packet() {
        // The packet requests an ACK, because no packet can follow it now.
        ctx.arena[id].tag.set_cwr(true);
    }
    sender.credit = Some(credit);
}

impl Rack {
    /// Sends a sender's demand in a packet of its own, if no data packet can carry it: the sender has no credit, nothing
    /// is in flight, and it needs more than it has asked for. The sender asks again after a timeout.
    #[cold]
    #[inline(never)]
    pub(super) fn request_credit(
        &mut self,
        ctx: &mut ShardContext<'_>,
        sender: &mut Sender,
        connection: ConnectionId,
        now: Picos,
    ) {
        if credit_allows_packet(sender) || sender.in_flight > 0 || !sender.has_data() {
            return;
        }
        let Some(mut credit) = sender.credit.take() else { return };
        let target = pull_target(ctx, sender, &credit, 1);
        sender.rto_deadline = now + rto(ctx, sender);
        if target > credit.asked {
            credit.asked = target;
            let to = ctx.plan.connections[connection.index()].to;
            self.queue_credit_packet(ctx, connection, to, target, now);
        }
        sender.credit = Some(credit);
        self.arm_rto(sender, connection);
    }

    /// Asks again after a timeout, because the demand or the credit may have been lost.
    #[cold]
    #[inline(never)]
    pub(super) fn repeat_request(
        &mut self,
        ctx: &mut ShardContext<'_>,
        sender: &Sender,
        connection: ConnectionId,
        now: Picos,
    ) {
        let credit = sender.credit.as_ref().filter(|credit| !credit.allows_packet());
        if let Some(credit) = credit.filter(|_| sender.has_data()) {
            let target = pull_target(ctx, sender, credit, 1);
            let to = ctx.plan.connections[connection.index()].to;
            self.queue_credit_packet(ctx, connection, to, target, now);
        }
    }

    /// Passes the demand in a packet that arrived at its receiver to the pacer. Trimmed packets carry it too.
    #[cold]
    #[inline(never)]
    pub(super) fn on_demand(
        &mut self,
        ctx: &ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        packet: &Packet,
        arrival: Option<Arrival>,
        now: Picos,
    ) {
        let Some(credits) = &ctx.plan.transport.credits else { return };
        let pacer = &mut self.pacers[slot as usize];
        if let Some(arrival) = arrival {
            pacer.record(arrival, now, credits);
        }
        let connection = packet.connection();
        let grant = &mut endpoints.grants[connection.index()];
        // A trimmed packet needs an answer even if it asks for nothing new.
        let must_answer = matches!(arrival, Some(Arrival::Trimmed { .. }));
        if pacer.on_demand(connection, grant, packet.cumulative_ack, must_answer, now) {
            self.timers.push(Reverse((now, Timer::Pull(slot))));
        }
    }

    /// Sends the next pull packet of a host.
    #[cold]
    #[inline(never)]
    pub(super) fn on_pull_timer(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        now: Picos,
    ) {
        let Some(credits) = &ctx.plan.transport.credits else { return };
        let pacer = &mut self.pacers[slot as usize];
        if !pacer.is_due(now) {
            return;
        }
        let grants = &mut endpoints.grants;
        let plan = ctx.plan;
        let rate_of = |connection: ConnectionId| {
            let ends = &plan.connections[connection.index()];
            plan.topology.line_rate(ends.to, ends.from)
        };
        let Some((pull, next)) = pacer.next_pull(grants, &rate_of, credits, now) else { return };
        self.timers.push(Reverse((next, Timer::Pull(slot))));
        let from = plan.connections[pull.connection.index()].from;
        self.queue_credit_packet(ctx, pull.connection, from, pull.granted, now);
        self.send_next(ctx, endpoints, slot, now);
    }

    /// Processes a credit packet: a pull packet at the sender, or a request at the receiver.
    #[cold]
    #[inline(never)]
    pub(super) fn on_credit_packet(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let packet = ctx.arena[id];
        ctx.discard(id);
        let connection = packet.connection();
        if ctx.plan.connections[connection.index()].to == self.host_in(ctx, slot) {
            self.on_demand(ctx, endpoints, slot, &packet, None, now);
            return;
        }
        if let Some(sender) = endpoints.senders[connection.index()].as_mut() {
            if let Some(credit) = &mut sender.credit {
                credit.on_pull(packet.cumulative_ack);
            }
            self.update_connection(ctx, endpoints, connection, now);
        }
    }

    /// Queues a packet that carries `quanta` of credit or of demand to one end of a connection.
    fn queue_credit_packet(
        &mut self,
        ctx: &mut ShardContext<'_>,
        connection: ConnectionId,
        to: HostId,
        quanta: u32,
        now: Picos,
    ) {
        let ends = &ctx.plan.connections[connection.index()];
        let from = if to == ends.to { ends.from } else { ends.to };
        let destination = ctx.network.locate(to);
        let priority = ctx.plan.transport.ack_priority.unwrap_or(ends.priority);
        let mut tag = PacketTag::new(PacketKind::Cnp, priority);
        tag.set_credit(true);
        let id = ctx.arena.insert(Packet {
            sent_at_ps: now.get(),
            enqueued_at_ps: now.get(),
            connection: connection.get(),
            cumulative_ack: quanta,
            dst_rack: destination.rack,
            dst_slot: destination.slot,
            dst_pod: destination.pod,
            entropy: low32(hash_pair(connection.get(), quanta)),
            size: ctx.reply_size,
            tag,
            ..Packet::EMPTY
        });
        ctx.report.replies += 1;
        let slot = self.slot_of(ctx, from);
        self.tx_queue(ctx, slot, priority).replies.push(&mut ctx.arena, id);
    }
}
