//! The sending half of a rack for senders that learn of losses from NACKs and timeouts (`Recovery::TrimNacks`).

use poseidon_laws::{Law, Loss, Timeout, Trim};
use poseidon_policies::path::Outcome;
use poseidon_types::{ConnectionId, Nanos, Picos};

use super::sending::{ReplyUpdate, apply_decision, build_ack, log_decision, path_outcome, update_law};
use super::{Endpoints, Rack};
use crate::context::ShardContext;
use crate::packet::{Packet, PacketId, PacketKind};
use crate::sender::{AckOutcome, LostPacket, Sender};

/// The number of transmissions of a packet up to which its RTT is known: the original and one retransmission.
const MAX_TIMED_TRANSMISSIONS: u16 = 2;

impl Rack {
    /// Processes an ACK with a selective acknowledgement, or a NACK for a trimmed packet.
    #[inline(never)]
    pub(super) fn on_sack_reply(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        id: PacketId,
        now: Picos,
    ) {
        let reply = ctx.arena[id];
        let connection = reply.connection();
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else {
            ctx.discard(id);
            return;
        };
        if reply.tag.kind() == PacketKind::Nack {
            on_trim_nack(sender, &reply, now);
        } else {
            on_sack(ctx, sender, &reply, now);
        }
        set_sack_deadline(ctx, sender);
        self.arm_rto(sender, connection);
        ctx.discard(id);
        self.finish_messages(ctx, endpoints, connection, now);
        self.update_connection(ctx, endpoints, connection, now);
    }

    /// Retransmits the packets that have timed out. The RTO timer may have expired too early.
    #[inline(never)]
    pub(super) fn on_sack_rto(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else { return };
        let is_due = now >= sender.rto_deadline;
        while let Some(LostPacket { bytes, .. }) = sender.expire_oldest(min_rto(ctx), now) {
            ctx.report.timeouts += 1;
            sender.report_path(None, Outcome::TimedOut, now);
            sender.law.on_timeout(&Timeout { now: now.to_nanos_floor(), bytes });
            if let Some(coexistence) = &mut sender.coexistence {
                coexistence.on_timeout(now.to_nanos_floor());
            }
            apply_decision(sender);
        }
        set_sack_deadline(ctx, sender);
        self.arm_rto(sender, connection);
        if is_due {
            self.repeat_request(ctx, sender, connection, now);
        }
        self.update_connection(ctx, endpoints, connection, now);
    }
}

/// Returns the retransmission timeout, which does not depend on the RTT.
const fn min_rto(ctx: &ShardContext<'_>) -> Picos {
    Picos::from_nanos(ctx.plan.transport.min_rto)
}

/// Sets the time at which the oldest packet in flight times out.
#[inline(never)]
pub(super) fn set_sack_deadline(ctx: &ShardContext<'_>, sender: &mut Sender) {
    sender.rto_deadline = sender.sack_rto_deadline(min_rto(ctx));
}

/// Returns the time between a reply's packet and the reply.
fn rtt(reply: &Packet, now: Picos) -> Nanos {
    Nanos::new((now.get() - reply.sent_at_ps) / 1_000)
}

/// Processes an ACK: updates the scoreboard, the path policy and the law.
fn on_sack(ctx: &mut ShardContext<'_>, sender: &mut Sender, reply: &Packet, now: Picos) {
    let in_flight_before = sender.in_flight;
    let selective_ack = ctx.telemetry.record_arena.selective_ack(reply.records);
    let outcome = sender.on_sack(reply, &selective_ack);
    sender.report_path(Some(!reply.entropy), path_outcome(reply), now);
    let rtt = rtt(reply, now);
    if sender.srtt.is_zero() {
        sender.srtt = rtt;
    } else if !outcome.rtt_ambiguous {
        sender.srtt = Nanos::new((3 * sender.srtt.get() + rtt.get()) / 4);
    }
    let update = ReplyUpdate {
        reply,
        now: now.to_nanos_floor(),
        rtt,
        outcome: AckOutcome { acked: outcome.acked, new_loss: false },
        newly_lost: 0,
        in_flight_before,
    };
    let mut ack = build_ack(&mut ctx.telemetry, ctx.plan, sender, &update);
    ack.bytes = outcome.bytes;
    if reply.tag.is_marked() {
        ack.marked = ack.bytes.max(poseidon_types::Bytes::new(1));
    }
    ack.in_flight = sender.sack_bytes_in_flight();
    ack.rtt_ambiguous = outcome.rtt_ambiguous;
    let signals = (ack.max_hop_delay, ack.hops.records.iter().map(|record| record.queue).max());
    if let Some(filter) = &mut sender.delay_filter {
        filter.apply(&mut ack);
    }
    update_law(sender, &ack, &update, false);
    ctx.report.decisions += 1;
    ctx.report.decisions_with_telemetry += u64::from(reply.reflected_hops > 0);
    log_decision(ctx, sender, &update, signals, now);
}

/// Processes a NACK: queues the trimmed packet for retransmission, and reports it to the path policy and the law. A
/// NACK for an earlier transmission has no effect.
fn on_trim_nack(sender: &mut Sender, reply: &Packet, now: Picos) {
    let Some(lost) = sender.on_trim_nack(reply) else { return };
    let last_hop = reply.tag.is_last_hop();
    let is_timed = lost.transmissions <= MAX_TIMED_TRANSMISSIONS;
    sender.law.on_trim(&Trim {
        now: now.to_nanos_floor(),
        bytes: lost.bytes,
        in_flight: sender.sack_bytes_in_flight(),
        last_hop,
        rtt: is_timed.then(|| rtt(reply, now)),
    });
    let host_now = now.to_nanos_floor();
    if lost.new_loss && sender.coexistence.as_mut().is_none_or(|policy| policy.on_loss(host_now)) {
        sender.law.on_loss(&Loss { now: host_now });
    }
    apply_decision(sender);
    // A packet that was trimmed at the last hop says nothing against its path.
    let outcome = if last_hop { path_outcome(reply) } else { Outcome::Trimmed };
    sender.report_path(Some(!reply.entropy), outcome, now);
}
