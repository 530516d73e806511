//! The sending half of a rack for senders that learn of losses from NACKs and timeouts (`Recovery::TrimNacks`).

use poseidon_laws::{Ack, Law, Loss, Timeout, Trim};
use poseidon_policies::path::Outcome;
use poseidon_types::{Bytes, ConnectionId, Nanos, Picos};

use super::credits::spend_credit;
use super::pacing::apply_decision;
use super::{Endpoints, Rack};
use crate::context::ShardContext;
use crate::packet::{Packet, PacketId, PacketKind};
use crate::sender::{LostPacket, SackOutcome, Sender};

/// The number of transmissions of a packet up to which its RTT is known: the original and one retransmission.
const MAX_TIMED_TRANSMISSIONS: u16 = 2;

impl Rack {
    /// Sets the RTO of a sender with a SACK scoreboard after a reply. For other senders, reports the reply to the path
    /// policy.
    #[cold]
    #[inline(never)]
    pub(super) fn complete_reply(
        &mut self,
        ctx: &ShardContext<'_>,
        sender: &mut Sender,
        id: PacketId,
        now: Picos,
    ) {
        let reply = &ctx.arena[id];
        if sender.sack.is_some() {
            set_sack_deadline(ctx, sender);
            self.arm_rto(sender, reply.connection());
        } else if reply.tag.kind() == PacketKind::Ack {
            sender.report_path(Some(!reply.entropy), path_outcome(reply), now);
        }
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
fn set_sack_deadline(ctx: &ShardContext<'_>, sender: &mut Sender) {
    sender.rto_deadline = sender.sack_rto_deadline(min_rto(ctx));
}

/// Returns the time between a reply's packet and the reply.
fn rtt(reply: &Packet, now: Picos) -> Nanos {
    Nanos::new((now.get() - reply.sent_at_ps) / 1_000)
}

/// What a reply is to a sender's options.
pub(super) enum ReplyStart {
    /// The sender has no SACK scoreboard.
    Scoreboard,
    /// An ACK has updated the SACK scoreboard.
    Sack { rtt: Nanos, outcome: SackOutcome, in_flight_before: u32 },
    /// A NACK has reported a trimmed packet. Nothing remains to be done.
    Trimmed,
}

/// Processes what a reply means for a sender's credit and SACK scoreboard.
#[cold]
#[inline(never)]
pub(super) fn start_optional_reply(
    ctx: &ShardContext<'_>,
    sender: &mut Sender,
    id: PacketId,
    now: Picos,
) -> ReplyStart {
    let reply = &ctx.arena[id];
    if let Some(credit) = &mut sender.credit {
        credit.on_reply();
    }
    if sender.sack.is_none() {
        return ReplyStart::Scoreboard;
    }
    if reply.tag.kind() == PacketKind::Nack {
        on_trim_nack(sender, reply, now);
        ReplyStart::Trimmed
    } else {
        on_sack(ctx, sender, reply, now)
    }
}

/// Processes an ACK: updates the SACK scoreboard, the path policy and the smoothed RTT.
fn on_sack(ctx: &ShardContext<'_>, sender: &mut Sender, reply: &Packet, now: Picos) -> ReplyStart {
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
    ReplyStart::Sack { rtt, outcome, in_flight_before }
}

/// Completes the ACK event for the law: the bytes that a SACK reports, and the filter of delays.
#[cold]
#[inline(never)]
pub(super) fn complete_ack(sender: &mut Sender, ack: &mut Ack<'_>, sack: Option<&SackOutcome>) {
    if let Some(outcome) = sack {
        ack.bytes = outcome.bytes;
        if ack.marked > Bytes::ZERO {
            ack.marked = ack.bytes.max(Bytes::new(1));
        }
        ack.in_flight = sender.sack_bytes_in_flight();
        ack.rtt_ambiguous = outcome.rtt_ambiguous;
    }
    if let Some(filter) = &mut sender.delay_filter {
        filter.apply(ack);
    }
}

/// Completes a packet that is about to be sent: spends credit, and sets the RTO of a SACK scoreboard. `active` is the
/// number of the host's connections that wait for their turn.
#[cold]
#[inline(never)]
pub(super) fn complete_send(ctx: &mut ShardContext<'_>, sender: &mut Sender, id: PacketId, active: usize) {
    if sender.credit.is_some() {
        spend_credit(ctx, sender, id, active);
    }
    // A later packet does not change the oldest packet in flight.
    if sender.sack.is_some() && (sender.in_flight <= 1 || sender.rto_deadline == Picos::MAX) {
        set_sack_deadline(ctx, sender);
    }
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

/// Returns what an ACK says about the path of the packet that caused it.
const fn path_outcome(reply: &Packet) -> Outcome {
    if reply.tag.is_marked() { Outcome::Marked } else { Outcome::Good }
}
