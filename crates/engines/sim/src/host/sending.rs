//! The sending half of a rack, which queues messages, processes replies, runs the laws and sends packets.

use core::cmp::Reverse;
use poseidon_laws::coexistence::{Coexistence, CoexistenceAck};
use poseidon_laws::plb::{PlbAck, PlbParams};
use poseidon_laws::{Ack, Law, Loss, Timeout};
use poseidon_plan::Plan;
use poseidon_plan::records::{DecisionRow, MessageRow};
use poseidon_plan::traffic::{Amount, Event};
use poseidon_plan::transport::{AnyPathPolicy, Echo, Eligibility, Recovery, Transport};
use poseidon_policies::path::Outcome;
use poseidon_types::{Bytes, ConnectionId, MessageId, Nanos, Packets, Picos};

use super::credits::{credit_allows_packet, start_credit};
use super::pacing::{apply_decision, pacing_delay, rto};
use super::sack::{ReplyStart, complete_ack, complete_send, start_optional_reply};
use super::{Endpoints, Rack, Timer};
use crate::context::ShardContext;
use crate::hash::{hash_pair, low32, splitmix64};
use crate::packet::{Packet, PacketId, PacketKind, PacketTag};
use crate::path_filter::DelayFilter;
use crate::schedule::last_packet_payload;
use crate::sender::{AckOutcome, OutgoingMessage, Sender, path_entropy};
use crate::telemetry::{Telemetry, available_signals};

/// A reply and its effect on the sender's scoreboard.
struct ReplyUpdate<'a> {
    reply: &'a Packet,
    now: Nanos,
    rtt: Nanos,
    outcome: AckOutcome,
    /// The number of packets that the reply revealed as lost.
    newly_lost: u32,
    /// The number of in-flight packets before the reply.
    in_flight_before: u32,
}

impl Rack {
    /// Queues a due message, and all due messages after it, once the connection's earlier messages have been
    /// queued.
    pub(super) fn on_message_due(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        message: MessageId,
        now: Picos,
    ) {
        let connection = ctx.schedule.content(ctx.plan, message).connection;
        if endpoints.stacks.is_some() && ctx.plan.stack_of(connection).is_some() {
            self.start_stack_message(ctx, endpoints, message, now);
            return;
        }
        if let Some(is_due) = endpoints.is_due.get_mut(message.index()) {
            *is_due = true;
        }
        let mut next = Some(message);
        while let Some(message) = next {
            let sender = endpoints.senders[connection.index()].as_ref();
            let queued = sender.map_or(0, |sender| sender.queued_messages);
            if ctx.schedule.message(connection, queued) != Some(message) {
                break;
            }
            self.queue_message(ctx, endpoints, message, now);
            let following = ctx.schedule.message(connection, queued + 1);
            next = following.filter(|message| endpoints.is_due.get(message.index()) == Some(&true));
        }
        self.update_connection(ctx, endpoints, connection, now);
    }

    /// Passes a message to its sender. A connection's first message creates the sender.
    fn queue_message(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        id: MessageId,
        now: Picos,
    ) {
        let plan = ctx.plan;
        let message = ctx.schedule.content(plan, id);
        let connection = plan.connections[message.connection.index()];
        let sender = endpoints.senders[message.connection.index()].get_or_insert_with(|| {
            let law = plan.laws[connection.law as usize]
                .build(&plan.path(&connection), available_signals(plan))
                .expect("the plan was validated");
            #[cfg(feature = "custom-laws")]
            let law = start_custom_law(law, ctx.custom_laws, &plan.path(&connection));
            let mut sender = Sender::new(law, path_entropy(&connection));
            sender.credit = start_credit(plan, &connection);
            sender.delay_filter = DelayFilter::new(plan.transport.path_filter).map(Box::new);
            if plan.transport.recovery == Recovery::TrimNacks {
                sender.use_sack(ctx.mtu);
            }
            if !plan.transport.load_balancing.is_stateless() {
                sender.paths = Some(Box::new(plan.transport.load_balancing.start()));
            }
            sender.has_options = sender.credit.is_some()
                || sender.delay_filter.is_some()
                || sender.sack.is_some()
                || sender.paths.is_some();
            if plan.transport.coexistence {
                sender.coexistence = Some(Box::new(Coexistence::new(now.to_nanos_floor())));
            }
            Box::new(sender)
        });
        let previous = sender.queued_messages.checked_sub(1);
        let previous = previous.and_then(|position| ctx.schedule.message(message.connection, position));
        sender.queued_messages += 1;
        let size = message.amount.bytes();
        sender.queue_message(OutgoingMessage {
            id,
            first_seq: previous.map_or(0, |previous| ctx.schedule.end_seq(previous)),
            end_seq: ctx.schedule.end_seq(id),
            last_payload: size.map_or(0, |size| last_packet_payload(size, plan.transport.mtu)),
            start: now,
            size,
            retransmitted: 0,
        });
        if let Amount::Until(until) = message.amount
            && until < plan.stop
        {
            self.timers.push(Reverse((until.max(now), Timer::EndOpenMessage(message.connection))));
        }
    }

    /// Ends a connection's open-ended message.
    pub(super) fn end_open_message(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else {
            self.end_stack_flow(ctx, endpoints, connection, now);
            return;
        };
        if sender.end_open_message() {
            self.finish_messages(ctx, endpoints, connection, now);
        }
    }

    /// Processes an ACK, NACK or CNP and updates the law.
    pub(super) fn on_reply(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        id: PacketId,
        now: Picos,
    ) {
        let reply = ctx.arena[id];
        let connection = reply.connection();
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else {
            // All messages on the connection are finished.
            ctx.discard(id);
            return;
        };
        process_reply(ctx, sender, id, &reply, now);
        if sender.has_options {
            self.complete_reply(ctx, sender, id, now);
        }
        ctx.discard(id);
        self.finish_messages(ctx, endpoints, connection, now);
        self.update_connection(ctx, endpoints, connection, now);
    }

    /// Records a connection's fully acknowledged messages and releases the messages that depend on them.
    pub(super) fn finish_messages(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        loop {
            let Some(sender) = endpoints.senders[connection.index()].as_mut() else { return };
            let Some(message) = sender.take_finished_message() else { return };
            let packets = u64::from(message.end_seq - message.first_seq);
            ctx.rows.messages.push(MessageRow {
                message: message.id,
                start: message.start,
                acknowledged: now,
                size: message.size.unwrap_or(ctx.plan.transport.mtu * packets),
                retransmitted: message.retransmitted,
            });
            let is_last = ctx.schedule.message(connection, sender.queued_messages).is_none();
            if sender.messages.is_empty() && is_last {
                // Free the memory of a connection that has no more data to send.
                endpoints.senders[connection.index()] = None;
            }
            self.release_dependents(ctx, endpoints, message.id, Event::Acknowledged, now);
        }
    }

    /// Handles an RTO timer. The deadline may have moved since the timer was set.
    pub(super) fn on_rto(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else { return };
        if sender.rto_timer != now {
            return;
        }
        sender.rto_timer = Picos::MAX;
        if sender.sack.is_some() {
            self.on_sack_rto(ctx, endpoints, connection, now);
            return;
        }
        if sender.in_flight > 0 && now >= sender.rto_deadline {
            let host_now = now.to_nanos_floor();
            ctx.report.timeouts += 1;
            let bytes = ctx.plan.transport.mtu * u64::from(sender.in_flight);
            sender.on_rto();
            sender.report_path(None, Outcome::TimedOut, now);
            sender.law.on_timeout(&Timeout { now: host_now, bytes });
            if let Some(coexistence) = &mut sender.coexistence {
                coexistence.on_timeout(host_now);
            }
            apply_decision(sender);
            let random = low32(splitmix64(ctx.plan.seed ^ hash_pair(connection.get(), sender.next_seq)));
            if let Some(plb) = &ctx.plan.transport.plb
                && sender.plb.on_timeout(host_now, random, plb)
            {
                change_path(ctx, sender);
            }
            sender.rto_deadline = now + rto(ctx, sender);
            self.repeat_request(ctx, sender, connection, now);
        } else if now >= sender.rto_deadline {
            self.repeat_request(ctx, sender, connection, now);
        }
        self.update_connection(ctx, endpoints, connection, now);
    }

    /// Makes a connection ready or updates its timers after its state has changed. Then sends the host's next
    /// packet.
    pub(super) fn update_connection(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let Some(sender) = endpoints.senders[connection.index()].as_mut() else { return };
        let ends = &ctx.plan.connections[connection.index()];
        let (from, priority) = (ends.from, ends.priority);
        let slot = self.slot_of(ctx, from);
        if sender.credit.is_some() {
            self.request_credit(ctx, sender, connection, now);
        }
        self.enqueue_if_eligible(ctx, sender, connection, slot, priority, now);
        if sender.in_flight > 0 {
            self.arm_rto(sender, connection);
        }
        self.send_next(ctx, endpoints, slot, now);
    }

    /// Adds a connection to the ready list if it has data and its window has space, or sets its pacing timer.
    fn enqueue_if_eligible(
        &mut self,
        ctx: &ShardContext<'_>,
        sender: &mut Sender,
        connection: ConnectionId,
        slot: u32,
        priority: u8,
        now: Picos,
    ) {
        if !sender.has_data() || !window_has_space(ctx, sender) || !credit_allows_packet(sender) {
            return;
        }
        if sender.next_send > now {
            if sender.next_send < sender.pacing_timer {
                sender.pacing_timer = sender.next_send;
                self.timers.push(Reverse((sender.next_send, Timer::Pacing(connection))));
            }
        } else if !sender.is_ready {
            sender.is_ready = true;
            self.tx_queue(ctx, slot, priority).ready.push_back(connection);
        }
    }

    /// Sets a connection's RTO timer unless an earlier timer is already set. When the earlier timer expires,
    /// it sets a new timer.
    pub(super) fn arm_rto(&mut self, sender: &mut Sender, connection: ConnectionId) {
        if sender.rto_deadline < sender.rto_timer {
            sender.rto_timer = sender.rto_deadline;
            self.timers.push(Reverse((sender.rto_deadline, Timer::Rto(connection))));
        }
    }

    /// Dequeues the next packet of one priority: a reply, or else a packet from the first ready connection
    /// that may still send. A ready connection without a sender may run in a real stack.
    pub(super) fn dequeue(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        priority: u8,
        now: Picos,
    ) -> Option<PacketId> {
        if let Some(id) = self.tx_queue(ctx, slot, priority).replies.pop(&ctx.arena) {
            // The time that a reply spends waiting for the wire is host delay, not network delay.
            let reply = &mut ctx.arena[id];
            reply.exclude_host_delay(reply.waited(now));
            return Some(id);
        }
        while let Some(connection) = self.tx_queue(ctx, slot, priority).ready.pop_front() {
            let Some(sender) = endpoints.senders[connection.index()].as_mut() else {
                match self.dequeue_datagram(ctx, endpoints, slot, connection, now) {
                    Some(id) => return Some(id),
                    None => continue,
                }
            };
            sender.is_ready = false;
            if !window_has_space(ctx, sender) || !credit_allows_packet(sender) || sender.next_send > now {
                continue;
            }
            let Some((seq, is_retransmission)) = sender.take_next_packet(now) else { continue };
            let id = new_data_packet(ctx, sender, connection, seq, now);
            ctx.report.retransmitted += u64::from(is_retransmission);
            sender.next_send = now + pacing_delay(sender, ctx.arena[id].size);
            if sender.in_flight == 1 {
                sender.rto_deadline = now + rto(ctx, sender);
            }
            if sender.has_options {
                let active = 1 + self.tx_queue(ctx, slot, priority).ready.len();
                complete_send(ctx, sender, id, active);
            }
            self.arm_rto(sender, connection);
            self.enqueue_if_eligible(ctx, sender, connection, slot, priority, now);
            return Some(id);
        }
        None
    }
}

/// Processes a reply: updates the scoreboard and the law.
#[inline(always)]
fn process_reply(ctx: &mut ShardContext<'_>, sender: &mut Sender, id: PacketId, reply: &Packet, now: Picos) {
    let transport = &ctx.plan.transport;
    let (update, sack) = match start_reply(ctx, sender, id, now) {
        ReplyStart::Scoreboard => (update_scoreboard(sender, reply, transport, now), None),
        ReplyStart::Sack { rtt, outcome, in_flight_before } => {
            let acked = AckOutcome { acked: outcome.acked, new_loss: false };
            let now = now.to_nanos_floor();
            (ReplyUpdate { reply, now, rtt, outcome: acked, newly_lost: 0, in_flight_before }, Some(outcome))
        }
        ReplyStart::Trimmed => return,
    };
    let mut ack = build_ack(&mut ctx.telemetry, ctx.plan, sender, &update);
    let hop_delay = ack.max_hop_delay;
    let hop_queue = ack.hops.records.iter().map(|record| record.queue).max();
    let (acked_seq, next_seq) = (ack.acked_seq, ack.next_seq);
    if sender.has_options {
        complete_ack(sender, &mut ack, sack.as_ref());
    }
    let plb = if sack.is_none() { transport.plb.as_ref() } else { None };
    let congested = update_law(sender, &ack, &update, plb);
    ctx.report.decisions += 1;
    ctx.report.decisions_with_telemetry += u64::from(reply.reflected_hops > 0);
    if let Some(plb) = plb {
        let idle = sender.in_flight == 0;
        let plb_ack = PlbAck { now: update.now, acked_seq, next_seq, congested, idle };
        if sender.plb.on_ack(&plb_ack, plb) {
            change_path(ctx, sender);
        }
    }
    sender.rto_deadline = now + rto(ctx, sender);
    log_decision(ctx, sender, &update, (hop_delay, hop_queue), now);
}

/// Processes what a reply means for a sender's credit and SACK scoreboard, if it has them.
#[inline(always)]
fn start_reply(ctx: &ShardContext<'_>, sender: &mut Sender, id: PacketId, now: Picos) -> ReplyStart {
    if sender.has_options { start_optional_reply(ctx, sender, id, now) } else { ReplyStart::Scoreboard }
}

/// Updates a sender's scoreboard, CWR state and smoothed RTT.
#[inline]
fn update_scoreboard<'a>(
    sender: &mut Sender,
    reply: &'a Packet,
    transport: &Transport,
    now: Picos,
) -> ReplyUpdate<'a> {
    let (in_flight_before, lost_before) = (sender.in_flight, sender.lost);
    let outcome = match (reply.tag.kind(), transport.recovery) {
        (PacketKind::Ack, Recovery::Selective { reordering }) => {
            sender.on_ack(reply.seq, reply.sent_at(), reply.cumulative_ack, reordering)
        }
        (PacketKind::Ack, Recovery::GoBackN) => {
            sender.on_ack(reply.seq, reply.sent_at(), reply.cumulative_ack, u32::MAX)
        }
        (PacketKind::Nack, _) => sender.on_nack(reply.cumulative_ack),
        // A CNP acknowledges no packets.
        _ => AckOutcome::EMPTY,
    };
    if reply.tag.is_marked() && transport.echo == Echo::UntilReduced {
        sender.on_ecn_echo();
    }
    let rtt = (now.get() - reply.sent_at_ps) / 1_000;
    let srtt = sender.srtt.get();
    sender.srtt = Nanos::new(if srtt == 0 { rtt } else { (3 * srtt + rtt) / 4 });
    ReplyUpdate {
        reply,
        now: now.to_nanos_floor(),
        rtt: Nanos::new(rtt),
        outcome,
        newly_lost: sender.lost.wrapping_sub(lost_before),
        in_flight_before,
    }
}

/// Starts a flow whose law the program supplies. Returns any other law as it is.
#[cfg(feature = "custom-laws")]
fn start_custom_law(
    mut law: poseidon_laws::AnyLaw,
    laws: Option<&'static dyn poseidon_laws::custom::CustomLaws>,
    path: &poseidon_laws::Path,
) -> poseidon_laws::AnyLaw {
    if let (poseidon_laws::AnyLaw::Custom(law), Some(laws)) = (&mut law, laws) {
        law.start(laws, path);
    }
    law
}

/// Builds the ACK event that is passed to the law.
#[inline(always)]
fn build_ack<'a>(
    telemetry: &'a mut Telemetry,
    plan: &Plan,
    sender: &Sender,
    update: &ReplyUpdate<'_>,
) -> Ack<'a> {
    let mtu = plan.transport.mtu;
    let reply = update.reply;
    let bytes = mtu * u64::from(update.outcome.acked);
    let (max_hop_delay, reverse_max_hop_delay) = telemetry.max_hop_delays(reply);
    let in_flight_before = Packets::whole(u64::from(update.in_flight_before));
    Ack {
        now: update.now,
        rtt: update.rtt,
        packets: update.outcome.acked,
        bytes,
        // A CNP reports a marked packet that a different reply acknowledges.
        marked: if reply.tag.is_marked() { bytes.max(Bytes::new(1)) } else { Bytes::ZERO },
        in_flight: mtu * u64::from(sender.in_flight),
        acked_seq: u64::from(sender.una) * mtu.get(),
        next_seq: u64::from(sender.next_seq) * mtu.get(),
        max_hop_delay,
        reverse_max_hop_delay,
        hops: telemetry.hop_records(reply),
        hop_count: reply.switches,
        circuit_up: reply.tag.is_circuit_up(),
        // A flow is application-limited if less than half of its window was in flight when the reply arrived.
        app_limited: in_flight_before.q24() * 2 < sender.decision.window.q24(),
        random: low32(splitmix64(plan.seed ^ hash_pair(reply.connection, reply.seq))),
        ..Ack::EMPTY
    }
}

/// Passes an ACK and any loss to the law, and applies the law's decision. Returns whether PLB, if it is on, considers
/// the path congested.
#[inline(always)]
fn update_law(sender: &mut Sender, ack: &Ack<'_>, update: &ReplyUpdate<'_>, plb: Option<&PlbParams>) -> bool {
    sender.law.on_ack(ack);
    let congested = plb.is_some_and(|plb| plb.is_congested(&sender.law, ack));
    update_coexistence(sender, ack, update.newly_lost);
    let now = update.now;
    if update.outcome.new_loss && sender.coexistence.as_mut().is_none_or(|policy| policy.on_loss(now)) {
        sender.law.on_loss(&Loss { now });
    }
    apply_decision(sender);
    congested
}

fn new_data_packet(
    ctx: &mut ShardContext<'_>,
    sender: &mut Sender,
    connection: ConnectionId,
    seq: u32,
    now: Picos,
) -> PacketId {
    let ends = &ctx.plan.connections[connection.index()];
    let destination = ctx.network.locate(ends.to);
    let payload = sender.payload(seq, ctx.mtu);
    let records = ctx.telemetry.allocate_records();
    let mut tag = PacketTag::new(PacketKind::Data, ends.priority);
    tag.set_cwr(core::mem::take(&mut sender.cwr));
    ctx.report.sent += 1;
    ctx.report.sent_bytes += Bytes::new(u64::from(payload));
    ctx.arena.insert(Packet {
        sent_at_ps: now.get(),
        connection: connection.get(),
        seq,
        dst_rack: destination.rack,
        dst_slot: destination.slot,
        dst_pod: destination.pod,
        entropy: match ctx.plan.transport.load_balancing {
            AnyPathPolicy::Ecmp(_) => sender.entropy,
            // A retransmission takes a different path from the original packet.
            AnyPathPolicy::Spray(_) => low32(hash_pair(sender.entropy, sender.transmitted)),
            _ => sender.choose_path(),
        },
        size: payload + ctx.data_overhead,
        records,
        tag,
        ..Packet::EMPTY
    })
}

/// Logs a law's decision after an ACK, if its connection is watched.
#[inline]
fn log_decision(
    ctx: &mut ShardContext<'_>,
    sender: &Sender,
    update: &ReplyUpdate<'_>,
    (hop_delay, hop_queue): (Option<Nanos>, Option<Bytes>),
    now: Picos,
) {
    let reply = update.reply;
    let connection = reply.connection();
    if ctx.logs_acks
        && let Ok(watched) = ctx.plan.watched_connections.binary_search(&connection)
    {
        let row = DecisionRow {
            time: now,
            connection,
            packet: reply.seq,
            rtt: update.rtt,
            marked: reply.tag.is_marked(),
            hop_delay,
            hop_queue,
            window: sender.decision.window,
        };
        ctx.log_ack(watched, row, sender, reply.switches);
    }
}

/// Moves a connection to another path.
fn change_path(ctx: &mut ShardContext<'_>, sender: &mut Sender) {
    ctx.report.repaths += 1;
    sender.entropy = low32(splitmix64(u64::from(sender.entropy)));
}

/// Returns whether the window allows one more in-flight packet.
fn window_has_space(ctx: &ShardContext<'_>, sender: &Sender) -> bool {
    let window = sender.decision.window;
    // If the window is below one packet, at most one packet is in flight, and pacing spaces out the packets.
    if window < Packets::ONE {
        return sender.in_flight == 0;
    }
    match ctx.plan.transport.eligibility {
        Eligibility::Floor => Packets::whole(u64::from(sender.in_flight) + 1) <= window,
        Eligibility::Ceil => Packets::whole(u64::from(sender.in_flight)) < window,
    }
}

/// Passes an ACK to the coexistence policy if the policy is enabled and the law has a target delay.
#[inline]
fn update_coexistence(sender: &mut Sender, ack: &Ack<'_>, lost: u32) {
    if let Some(coexistence) = &mut sender.coexistence
        && let Some(signal) = sender.law.delay_signal(ack)
    {
        let window = sender.law.decision().window;
        coexistence.on_ack(&CoexistenceAck::new(ack, signal, window, lost));
    }
}
