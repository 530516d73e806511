//! The sending end of a connection: messages, scoreboard and loss detection.

mod sack;

use poseidon_laws::coexistence::Coexistence;
use poseidon_laws::plb::Plb;
use poseidon_laws::{AnyLaw, Decision, Law};
use poseidon_plan::traffic::Connection;
use poseidon_policies::path::PathSelector;
use poseidon_types::{Bytes, MessageId, Nanos, Picos};
use std::collections::VecDeque;

use crate::credits::sender::SendCredit;
use crate::hash::{hash_pair, low32, splitmix64};
use crate::path_filter::DelayFilter;
pub(crate) use sack::{LostPacket, SackOutcome, SackScoreboard};

/// A message that has not been fully acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) id: MessageId,
    /// The sequence number of the message's first packet.
    pub(crate) first_seq: u32,
    /// The sequence number following the message's last packet.
    pub(crate) end_seq: u32,
    /// The last packet's payload size.
    pub(crate) last_payload: u16,
    pub(crate) start: Picos,
    /// The message size, or `None` if the message is open-ended.
    pub(crate) size: Option<Bytes>,
    pub(crate) retransmitted: u32,
}

/// The state of a packet in the scoreboard: acknowledged, lost or in flight. For an in-flight packet, the
/// value is the number of its latest transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PacketState(u32);

impl PacketState {
    const ACKNOWLEDGED: Self = Self(u32::MAX);
    const LOST: Self = Self(u32::MAX - 1);

    const fn in_flight(transmission: u32) -> Self {
        Self(transmission)
    }

    /// Returns the number of the packet's latest transmission if the packet is in flight.
    fn transmission(self) -> Option<u32> {
        (self.0 < Self::LOST.0).then_some(self.0)
    }
}

/// The sending end of a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    /// The law's current decision.
    pub(crate) decision: Decision,
    /// The earliest time at which pacing allows the next packet to be sent.
    pub(crate) next_send: Picos,
    /// The time at which the retransmission timeout expires.
    pub(crate) rto_deadline: Picos,
    /// The earliest pending pacing timer, or [`Picos::MAX`] if none is set.
    pub(crate) pacing_timer: Picos,
    /// The earliest pending RTO timer, or [`Picos::MAX`] if none is set.
    pub(crate) rto_timer: Picos,
    /// The smoothed RTT, or zero before the first sample.
    pub(crate) srtt: Nanos,
    /// The first unacknowledged sequence number.
    pub(crate) una: u32,
    /// The sequence number of the next new packet.
    pub(crate) next_seq: u32,
    pub(crate) in_flight: u32,
    /// The number of packets sent so far, including retransmissions.
    pub(crate) transmitted: u32,
    /// The sequence number following the last packet of the last queued message.
    end_seq: u32,
    /// The ECMP hash input for the connection's packets.
    pub(crate) entropy: u32,
    /// The number of messages that the application has submitted so far.
    pub(crate) queued_messages: u32,
    /// Whether the connection is on its host's ready list.
    pub(crate) is_ready: bool,
    /// Whether the next data packet carries CWR.
    pub(crate) cwr: bool,
    /// The sender does not set CWR again until everything below this sequence number has been acknowledged.
    cwr_until: u32,
    pub(crate) law: AnyLaw,
    pub(crate) plb: Plb,
    /// The coexistence policy, if enabled. The policy is boxed because few runs use it.
    pub(crate) coexistence: Option<Box<Coexistence>>,
    /// Whether the sender has a filter of delays, a credit, a path policy with state or a SACK scoreboard.
    pub(crate) has_options: bool,
    /// The filter of delays, if it is on.
    pub(crate) delay_filter: Option<Box<DelayFilter>>,
    /// The credit of the receiver, if senders wait for credits.
    pub(crate) credit: Option<Box<SendCredit>>,
    /// The path policy, if it has state.
    pub(crate) paths: Option<Box<PathSelector>>,
    /// The scoreboard of a sender that learns of losses from NACKs and timeouts. It replaces `scoreboard` and
    /// `outstanding`.
    pub(crate) sack: Option<Box<SackScoreboard>>,
    /// Whether the scoreboard is implicit, which is the common case. All in-flight packets were then sent
    /// exactly once and in order, and no packet above `una` has been acknowledged. `scoreboard` and
    /// `outstanding` are empty, and a packet's transmission number is its sequence number plus
    /// `transmission_offset`.
    implicit_scoreboard: bool,
    transmission_offset: u32,
    /// The first message's `end_seq`, or `u32::MAX` if there is no message.
    first_message_end: u32,
    /// The states of packets `una..next_seq`.
    scoreboard: VecDeque<PacketState>,
    /// Messages that have not been fully acknowledged, oldest first.
    pub(crate) messages: VecDeque<OutgoingMessage>,
    /// Lost packets waiting to be retransmitted.
    retransmit_queue: VecDeque<u32>,
    /// The sequence numbers of transmissions that have been neither acknowledged nor declared lost, oldest
    /// first. A transmission is lost if a later transmission was acknowledged, so a retransmitted packet can
    /// be lost again.
    outstanding: VecDeque<u32>,
    /// The transmission number of the first entry in `outstanding`.
    first_outstanding: u32,
    /// The transmission number following the latest transmission known to have arrived.
    newest_delivered: u32,
    /// Unacknowledged retransmitted packets and their send times. An ACK for an earlier transmission does not
    /// prove that the retransmission arrived.
    retransmit_times: Vec<(u32, Picos)>,
    /// The law is notified of at most one loss until everything below this sequence number has been
    /// acknowledged.
    recovery_point: u32,
    /// The number of packets declared lost because of later ACKs.
    pub(crate) lost: u32,
}

/// The effect of a reply on the scoreboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// The number of newly acknowledged packets.
    pub(crate) acked: u32,
    /// Whether the reply revealed a loss outside the current recovery episode.
    pub(crate) new_loss: bool,
}

impl AckOutcome {
    /// The outcome of a reply that acknowledges no packets.
    pub(crate) const EMPTY: Self = Self { acked: 0, new_loss: false };
}

/// Returns a connection's initial ECMP hash input.
pub(crate) fn path_entropy(connection: &Connection) -> u32 {
    let ends = hash_pair(connection.from.get(), connection.to.get());
    low32(splitmix64(ends ^ splitmix64(u64::from(connection.entropy))))
}

impl Sender {
    pub(crate) fn new(law: AnyLaw, entropy: u32) -> Self {
        Self {
            decision: law.decision(),
            next_send: Picos::ZERO,
            rto_deadline: Picos::MAX,
            pacing_timer: Picos::MAX,
            rto_timer: Picos::MAX,
            srtt: Nanos::ZERO,
            una: 0,
            next_seq: 0,
            in_flight: 0,
            transmitted: 0,
            end_seq: 0,
            entropy,
            queued_messages: 0,
            is_ready: false,
            cwr: false,
            cwr_until: 0,
            law,
            plb: Plb::default(),
            coexistence: None,
            has_options: false,
            delay_filter: None,
            credit: None,
            paths: None,
            sack: None,
            implicit_scoreboard: true,
            transmission_offset: 0,
            first_message_end: u32::MAX,
            scoreboard: VecDeque::new(),
            messages: VecDeque::new(),
            retransmit_queue: VecDeque::new(),
            outstanding: VecDeque::new(),
            first_outstanding: 0,
            newest_delivered: 0,
            retransmit_times: Vec::new(),
            recovery_point: 0,
            lost: 0,
        }
    }

    /// Appends a message to the send queue.
    pub(crate) fn queue_message(&mut self, message: OutgoingMessage) {
        self.end_seq = message.end_seq;
        self.messages.push_back(message);
        self.update_first_message_end();
    }

    pub(crate) fn has_data(&self) -> bool {
        self.next_seq < self.end_seq || !self.retransmit_queue.is_empty()
    }

    /// Returns the number of new packets and of lost packets that wait to be sent.
    pub(crate) fn waiting_packets(&self) -> (u32, u32) {
        let lost = u32::try_from(self.retransmit_queue.len()).unwrap_or(u32::MAX);
        (self.end_seq - self.next_seq, lost)
    }

    /// Removes and returns the first message if it is fully acknowledged.
    pub(crate) fn take_finished_message(&mut self) -> Option<OutgoingMessage> {
        if self.una < self.first_message_end {
            return None;
        }
        let message = self.messages.pop_front();
        self.update_first_message_end();
        message
    }

    fn update_first_message_end(&mut self) {
        self.first_message_end = self.messages.front().map_or(u32::MAX, |message| message.end_seq);
    }

    /// Ends the open-ended message, which is the only message, at the last packet sent. Returns whether the
    /// message is fully acknowledged.
    pub(crate) fn end_open_message(&mut self) -> bool {
        self.end_seq = self.next_seq;
        if let Some(message) = self.messages.back_mut() {
            message.end_seq = self.next_seq;
        }
        self.update_first_message_end();
        self.una == self.next_seq
    }

    /// Returns the sequence number of the next packet to send, and whether the packet is a retransmission.
    /// Retransmissions take priority.
    pub(crate) fn take_next_packet(&mut self, now: Picos) -> Option<(u32, bool)> {
        self.transmitted = self.transmitted.wrapping_add(1);
        if self.implicit_scoreboard {
            if self.next_seq >= self.end_seq {
                return None;
            }
            self.next_seq += 1;
            self.in_flight += 1;
            return Some((self.next_seq - 1, false));
        }
        if self.sack.is_some() {
            return self.take_next_sacked(now);
        }
        let lost = self.retransmit_queue.pop_front();
        let transmission = self.first_outstanding + self.outstanding_count();
        let seq = match lost {
            Some(seq) => {
                let message = self.message_index(seq);
                if let Some(message) = self.messages.get_mut(message) {
                    message.retransmitted += 1;
                }
                if let Some(state) = self.scoreboard.get_mut((seq - self.una) as usize) {
                    *state = PacketState::in_flight(transmission);
                }
                self.retransmit_times.retain(|(other, _)| *other != seq);
                self.retransmit_times.push((seq, now));
                seq
            }
            None if self.next_seq < self.end_seq => {
                self.scoreboard.push_back(PacketState::in_flight(transmission));
                self.next_seq += 1;
                self.next_seq - 1
            }
            None => return None,
        };
        self.outstanding.push_back(seq);
        self.in_flight += 1;
        Some((seq, lost.is_some()))
    }

    fn outstanding_count(&self) -> u32 {
        u32::try_from(self.outstanding.len()).expect("a window fits in 32 bits")
    }

    /// Returns the index in `messages` of the message that contains packet `seq`.
    fn message_index(&self, seq: u32) -> usize {
        self.messages.partition_point(|message| message.end_seq <= seq)
    }

    /// Returns the payload size of packet `seq`.
    // There are two callers, but only one of them matters for the speed.
    #[inline(always)]
    pub(crate) fn payload(&self, seq: u32, mtu: u16) -> u16 {
        if seq + 1 < self.first_message_end { mtu } else { self.payload_at_end(seq, mtu) }
    }

    /// Returns the payload size of packet `seq`, which may be the last packet of a message.
    #[cold]
    #[inline(never)]
    fn payload_at_end(&self, seq: u32, mtu: u16) -> u16 {
        match self.messages.get(self.message_index(seq)) {
            Some(message) if message.end_seq == seq + 1 && message.size.is_some() => message.last_payload,
            Some(_) | None => mtu,
        }
    }

    /// Processes an ACK for packet `seq` and everything below `cumulative`. `sent_at` is the send time of the
    /// transmission that arrived, or earlier. A transmission is lost if another transmission sent more than
    /// `reordering` transmissions later has arrived.
    pub(crate) fn on_ack(
        &mut self,
        seq: u32,
        sent_at: Picos,
        cumulative: u32,
        reordering: u32,
    ) -> AckOutcome {
        if self.implicit_scoreboard {
            if cumulative > seq && cumulative <= self.next_seq {
                let acked = cumulative.saturating_sub(self.una);
                self.una += acked;
                self.in_flight -= acked;
                return AckOutcome { acked, new_loss: false };
            }
            self.build_scoreboard();
        }
        self.update_newest_delivered(seq, sent_at);
        let acked = self.ack_below(cumulative) + u32::from(self.ack_packet(seq));
        self.advance_una();
        let found_loss = self.detect_losses(reordering);
        self.drop_scoreboard_if_idle();
        AckOutcome { acked, new_loss: found_loss && self.start_recovery() }
    }

    /// Declares lost every transmission that is more than `reordering` transmissions older than the newest
    /// delivered transmission. Returns whether any transmission was declared lost.
    fn detect_losses(&mut self, reordering: u32) -> bool {
        let mut found_loss = false;
        while let Some(&seq) = self.outstanding.front() {
            let index = seq.checked_sub(self.una).map(|offset| offset as usize);
            let current = PacketState::in_flight(self.first_outstanding);
            if let Some(state) =
                index.and_then(|index| self.scoreboard.get_mut(index)).filter(|state| **state == current)
            {
                if self.newest_delivered.saturating_sub(self.first_outstanding) <= reordering {
                    break;
                }
                *state = PacketState::LOST;
                self.in_flight -= 1;
                self.retransmit_queue.push_back(seq);
                self.lost = self.lost.wrapping_add(1);
                found_loss = true;
            }
            self.outstanding.pop_front();
            self.first_outstanding += 1;
        }
        found_loss
    }

    /// Replaces the implicit scoreboard with an explicit scoreboard.
    fn build_scoreboard(&mut self) {
        self.implicit_scoreboard = false;
        let offset = self.transmission_offset;
        self.scoreboard.extend((self.una..self.next_seq).map(|seq| PacketState::in_flight(seq + offset)));
        self.outstanding.extend(self.una..self.next_seq);
        (self.first_outstanding, self.newest_delivered) = (self.una + offset, self.una + offset);
    }

    /// Returns to the implicit scoreboard if no packet is in flight or lost.
    fn drop_scoreboard_if_idle(&mut self) {
        if self.una == self.next_seq && self.outstanding.is_empty() {
            self.implicit_scoreboard = true;
            self.transmission_offset = self.first_outstanding - self.next_seq;
            self.retransmit_times.clear();
        }
    }

    /// Processes a NACK: everything below `cumulative` has arrived, and the sender goes back to `cumulative`.
    pub(crate) fn on_nack(&mut self, cumulative: u32) -> AckOutcome {
        if cumulative < self.una {
            // A later reply overtook this NACK, and the missing packet has since arrived.
            return AckOutcome::EMPTY;
        }
        if self.implicit_scoreboard {
            self.build_scoreboard();
        }
        let acked = self.ack_below(cumulative);
        self.advance_una();
        self.mark_all_lost();
        self.drop_scoreboard_if_idle();
        AckOutcome { acked, new_loss: self.start_recovery() }
    }

    /// Processes a retransmission timeout: all in-flight packets are considered lost.
    pub(crate) fn on_rto(&mut self) {
        if self.implicit_scoreboard {
            self.build_scoreboard();
        }
        self.mark_all_lost();
        self.recovery_point = self.next_seq;
    }

    /// Processes an ECN echo by setting CWR on the next data packet, at most once per window (RFC 3168
    /// section 6.1.2).
    pub(crate) fn on_ecn_echo(&mut self) {
        if self.una >= self.cwr_until {
            self.cwr = true;
            self.cwr_until = self.next_seq;
        }
    }

    /// Starts loss recovery unless the sender is already in recovery. Returns whether recovery started.
    fn start_recovery(&mut self) -> bool {
        let starts_recovery = self.una >= self.recovery_point;
        if starts_recovery {
            self.recovery_point = self.next_seq;
        }
        starts_recovery
    }

    /// Declares all unacknowledged packets lost.
    fn mark_all_lost(&mut self) {
        // Rebuild the queue in order, including packets that were already lost.
        self.retransmit_queue.clear();
        for (seq, state) in (self.una..).zip(self.scoreboard.iter_mut()) {
            if *state != PacketState::ACKNOWLEDGED {
                *state = PacketState::LOST;
                self.retransmit_queue.push_back(seq);
            }
        }
        self.in_flight = 0;
        self.first_outstanding += self.outstanding_count();
        self.outstanding.clear();
    }

    /// Updates the newest delivered transmission if packet `seq` is in flight and its latest transmission
    /// arrived.
    fn update_newest_delivered(&mut self, seq: u32, sent_at: Picos) {
        let index = seq.checked_sub(self.una).map(|offset| offset as usize);
        let state = index.and_then(|index| self.scoreboard.get(index).copied());
        let Some(transmission) = state.and_then(PacketState::transmission) else { return };
        let retransmission = self.retransmit_times.iter().find(|(other, _)| *other == seq);
        if retransmission.is_none_or(|(_, resent_at)| *resent_at <= sent_at) {
            self.newest_delivered = self.newest_delivered.max(transmission + 1);
        }
    }

    /// Acknowledges all packets below `cumulative`. Returns the number of newly acknowledged packets.
    fn ack_below(&mut self, cumulative: u32) -> u32 {
        let seqs = self.una..cumulative.min(self.next_seq);
        seqs.map(|seq| u32::from(self.ack_packet(seq))).sum()
    }

    /// Advances `una` past acknowledged packets.
    fn advance_una(&mut self) {
        while self.scoreboard.front() == Some(&PacketState::ACKNOWLEDGED) {
            self.scoreboard.pop_front();
            self.una += 1;
        }
    }

    /// Acknowledges packet `seq`. Returns whether the packet is newly acknowledged.
    fn ack_packet(&mut self, seq: u32) -> bool {
        let index = seq.checked_sub(self.una).map(|offset| offset as usize);
        let Some(state) = index.and_then(|index| self.scoreboard.get_mut(index)) else { return false };
        match *state {
            PacketState::ACKNOWLEDGED => return false,
            // The packet was delayed rather than lost, so it needs no retransmission.
            PacketState::LOST => self.retransmit_queue.retain(|lost| *lost != seq),
            _ => self.in_flight -= 1,
        }
        *state = PacketState::ACKNOWLEDGED;
        if !self.retransmit_times.is_empty() {
            self.retransmit_times.retain(|(other, _)| *other != seq);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::{AnyParams, Path};
    use poseidon_types::{BitRate, Signals};

    /// All packets are sent at the same time, so every ACK is for the latest transmission.
    const NOW: Picos = Picos::new(5);

    fn sender(packets: u32) -> Sender {
        let path = Path {
            mtu: Bytes::new(1_000),
            line_rate: BitRate::from_gbps(1),
            base_rtt: Nanos::from_micros(1),
        };
        let params = AnyParams::for_law("fixed").expect("the law exists");
        let law = params.build(&path, Signals::ALL).expect("the law builds");
        let mut sender = Sender::new(law, 0);
        sender.queue_message(OutgoingMessage {
            id: MessageId::new(0),
            first_seq: 0,
            end_seq: packets,
            last_payload: 7,
            start: Picos::ZERO,
            size: Some(Bytes::new(1)),
            retransmitted: 0,
        });
        sender
    }

    fn send_all(sender: &mut Sender) -> Vec<u32> {
        core::iter::from_fn(|| sender.take_next_packet(NOW)).map(|(seq, _)| seq).collect()
    }

    #[test]
    fn missing_packet_is_lost_after_three_later_packets_arrive() {
        let mut sender = sender(6);
        assert_eq!(send_all(&mut sender), [0, 1, 2, 3, 4, 5]);
        assert_eq!(sender.on_ack(0, NOW, 1, 3), AckOutcome { acked: 1, new_loss: false });
        assert_eq!(sender.on_ack(2, NOW, 1, 3), AckOutcome { acked: 1, new_loss: false });
        assert_eq!(sender.on_ack(3, NOW, 1, 3), AckOutcome { acked: 1, new_loss: false });
        assert_eq!(sender.on_ack(4, NOW, 1, 3), AckOutcome { acked: 1, new_loss: true });
        assert_eq!((sender.una, sender.in_flight), (1, 1));
        assert_eq!(sender.take_next_packet(NOW), Some((1, true)), "the lost packet is retransmitted first");
        assert_eq!(sender.on_ack(1, NOW, 5, 3), AckOutcome { acked: 1, new_loss: false });
        assert_eq!((sender.una, sender.in_flight), (5, 1));
        assert_eq!(sender.messages[0].retransmitted, 1);
    }

    #[test]
    fn retransmitted_packet_can_be_lost_again() {
        let mut sender = sender(13);
        for _ in 0..10 {
            sender.take_next_packet(NOW);
        }
        for seq in 1..4 {
            sender.on_ack(seq, NOW, 0, 3);
        }
        let sent = send_all(&mut sender);
        assert_eq!(sent, [0, 10, 11, 12], "the lost packet, then new packets");
        for seq in 4..12 {
            sender.on_ack(seq, NOW, 0, 3);
        }
        assert_eq!(sender.take_next_packet(NOW), None);
        sender.on_ack(12, NOW, 0, 3);
        assert_eq!(sender.take_next_packet(NOW), Some((0, true)), "the packet is lost again");
    }

    #[test]
    fn late_original_does_not_acknowledge_the_retransmission() {
        let (early, late) = (Picos::ZERO, Picos::new(10));
        let mut sender = sender(8);
        for _ in 0..5 {
            sender.take_next_packet(early);
        }
        for seq in 1..4 {
            sender.on_ack(seq, early, 0, 3);
        }
        assert_eq!(sender.take_next_packet(late), Some((0, true)), "the original is delayed, not lost");
        assert_eq!(sender.take_next_packet(late), Some((5, false)));
        // The original packet 0 arrives. Packet 4, which was sent before the retransmission, is still in
        // flight.
        assert_eq!(sender.on_ack(0, early, 4, 0), AckOutcome { acked: 1, new_loss: false });
        assert_eq!(sender.in_flight, 2);
    }

    #[test]
    fn nack_retransmits_everything_from_the_missing_packet() {
        let mut sender = sender(5);
        send_all(&mut sender);
        assert_eq!(sender.on_ack(0, NOW, 1, u32::MAX), AckOutcome { acked: 1, new_loss: false });
        assert_eq!(sender.on_nack(2), AckOutcome { acked: 1, new_loss: true });
        assert_eq!((sender.una, sender.in_flight), (2, 0));
        assert_eq!(sender.take_next_packet(NOW), Some((2, true)));
        // A second NACK for the same loss does not start another recovery.
        assert_eq!(sender.on_nack(2), AckOutcome { acked: 0, new_loss: false });
        assert_eq!(send_all(&mut sender), [2, 3, 4]);
        // An overtaken NACK requests a packet that has already arrived.
        sender.on_ack(2, NOW, 3, u32::MAX);
        assert_eq!((sender.on_nack(1).acked, sender.in_flight), (0, 2));
    }

    #[test]
    fn rto_retransmits_everything_in_flight_unless_a_late_ack_arrives() {
        let mut sender = sender(3);
        send_all(&mut sender);
        sender.on_rto();
        assert_eq!((sender.in_flight, sender.has_data()), (0, true));
        assert_eq!(sender.on_ack(0, NOW, 1, 3).acked, 1);
        assert_eq!(sender.take_next_packet(NOW), Some((1, true)));
        assert_eq!((sender.payload(1, 1_000), sender.payload(2, 1_000)), (1_000, 7));
    }

    #[test]
    fn open_ended_message_ends_with_the_ack_of_its_last_packet() {
        let mut sender = sender(100);
        for _ in 0..4 {
            sender.take_next_packet(NOW);
        }
        assert!(!sender.end_open_message());
        assert_eq!(sender.take_next_packet(NOW), None);
        sender.on_ack(3, NOW, 4, 3);
        assert!(sender.una == 4 && sender.messages[0].end_seq == 4 && sender.end_open_message());
    }

    #[test]
    fn cwr_is_set_once_per_window() {
        let mut sender = sender(10);
        for _ in 0..4 {
            sender.take_next_packet(NOW);
        }
        sender.on_ecn_echo();
        assert!(core::mem::take(&mut sender.cwr));
        sender.on_ack(1, NOW, 2, 3);
        sender.on_ecn_echo();
        assert!(!sender.cwr, "the sender sets CWR once per window");
        sender.on_ack(3, NOW, 4, 3);
        sender.on_ecn_echo();
        assert!(sender.cwr);
    }
}
