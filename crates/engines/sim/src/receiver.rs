//! The receiving end of a connection: reassembly, ACK policy and ECN echo.

use poseidon_plan::Plan;
use poseidon_plan::transport::{Acks, Echo, Recovery};
use poseidon_types::{Bytes, Picos};

use crate::hop_records::SelectiveAck;
use crate::out_of_order::OutOfOrder;
use crate::packet::{Packet, PacketId};

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Every packet below this sequence number has arrived.
    pub(crate) next_expected: u32,
    /// The number of completed messages.
    pub(crate) complete_messages: u32,
    /// The sequence number following the last packet of the first incomplete message, or `u32::MAX` if all messages
    /// are complete.
    pub(crate) message_end: u32,
    /// The number of payload bytes received. Each byte counts once.
    pub(crate) received_bytes: u64,
    /// Packets above `next_expected` that have arrived.
    out_of_order: OutOfOrder,
    /// The data packet that becomes the next ACK, or [`PacketId::NONE`].
    pub(crate) pending_ack: PacketId,
    /// The number of packets that the pending ACK acknowledges. With ACKs per number of bytes, the bytes since the
    /// latest ACK.
    pub(crate) pending_count: u32,
    /// The pending ACK's deadline.
    pub(crate) ack_deadline: Picos,
    /// Whether a mark has arrived since the last CWR.
    ece_latched: bool,
    /// Whether the receiver has sent a NACK for the current gap.
    nack_sent: bool,
    /// Whether the sender has requested an ACK since the receiver last had no gaps.
    ack_requested: bool,
    /// The earliest time at which the next CNP may be sent.
    next_cnp: Picos,
}

/// The receiver's response to a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyAction {
    AckNow,
    /// Keep the packet for a delayed ACK.
    DelayAck,
    /// Send an ACK with a selective acknowledgement.
    SackNow,
    /// Discard the packet and request the missing packet.
    Nack,
    Discard,
}

/// The effect of a data packet on its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// Whether the packet was accepted and is not a duplicate.
    pub(crate) is_new: bool,
    pub(crate) action: ReplyAction,
    /// Whether the pending ACK must be sent first because its mark differs from the packet's mark.
    pub(crate) flush_pending_ack: bool,
    pub(crate) send_cnp: bool,
}

impl Receiver {
    /// Creates a receiver. `message_end` is the sequence number following the last packet of the first message.
    pub(crate) const fn new(message_end: u32) -> Self {
        Self {
            next_expected: 0,
            complete_messages: 0,
            message_end,
            received_bytes: 0,
            out_of_order: OutOfOrder::new(),
            pending_ack: PacketId::NONE,
            pending_count: 0,
            ack_deadline: Picos::MAX,
            ece_latched: false,
            nack_sent: false,
            ack_requested: false,
            next_cnp: Picos::ZERO,
        }
    }

    /// Returns whether the first incomplete message has been fully received.
    #[inline]
    pub(crate) const fn completes_message(&self) -> bool {
        self.message_end <= self.next_expected
    }

    /// Processes a data packet. `pending_is_marked` states whether the pending ACK is marked.
    pub(crate) fn on_data(
        &mut self,
        plan: &Plan,
        packet: &Packet,
        pending_is_marked: bool,
        now: Picos,
    ) -> ReceiveOutcome {
        let is_marked = packet.tag.is_marked();
        if packet.tag.has_cwr() {
            self.ece_latched = false;
        }
        self.ece_latched |= is_marked;
        let send_cnp = match plan.transport.echo {
            Echo::Notification { gap } if is_marked && now >= self.next_cnp => {
                self.next_cnp = now + Picos::from_nanos(gap);
                true
            }
            Echo::Notification { .. } | Echo::Exact | Echo::UntilReduced => false,
        };
        let in_order = packet.seq == self.next_expected;
        if plan.transport.recovery == Recovery::GoBackN && packet.seq > self.next_expected {
            let nack_sent = core::mem::replace(&mut self.nack_sent, true);
            let action = if nack_sent { ReplyAction::Discard } else { ReplyAction::Nack };
            return ReceiveOutcome { is_new: false, action, flush_pending_ack: false, send_cnp };
        }
        let is_new = self.record_packet(packet.seq);
        let (action, flush_pending_ack) = match plan.transport.acks {
            Acks::CoalescedBytes { bytes } => {
                let ack_now = self.needs_sack(packet, is_new, bytes);
                (if ack_now { ReplyAction::SackNow } else { ReplyAction::Discard }, false)
            }
            Acks::EveryPacket => (ReplyAction::AckNow, false),
            Acks::Coalesced { packets, delay } => {
                let flush_pending_ack = self.pending_ack != PacketId::NONE
                    && plan.transport.echo == Echo::Exact
                    && pending_is_marked != is_marked;
                if flush_pending_ack {
                    self.pending_count = 0;
                }
                if self.pending_count == 0 {
                    self.ack_deadline = now + Picos::from_nanos(delay);
                }
                self.pending_count += 1;
                let ack_now = self.pending_count >= packets || !in_order || self.completes_message();
                (if ack_now { ReplyAction::AckNow } else { ReplyAction::DelayAck }, flush_pending_ack)
            }
        };
        if action == ReplyAction::AckNow {
            self.pending_count = 0;
        }
        ReceiveOutcome { is_new, action, flush_pending_ack, send_cnp }
    }

    /// Returns whether a data packet triggers an ACK, with ACKs per number of bytes.
    #[inline(never)]
    fn needs_sack(&mut self, packet: &Packet, is_new: bool, threshold: Bytes) -> bool {
        // The bytes of this packet are not counted yet.
        let is_first = is_new && self.received_bytes == 0;
        self.pending_count = self.pending_count.saturating_add(u32::from(packet.size));
        let requests_ack = is_new && packet.tag.requests_ack();
        self.ack_requested |= requests_ack;
        let closes_gap =
            self.ack_requested && self.next_expected > packet.seq && self.out_of_order.is_empty();
        self.ack_requested &= !closes_gap;
        let is_due = u64::from(self.pending_count) >= threshold.get();
        is_due || !is_new || is_first || requests_ack || closes_gap || packet.tag.is_marked()
    }

    /// Returns whether packet `seq` has arrived.
    pub(crate) fn has_packet(&self, seq: u32) -> bool {
        seq < self.next_expected || self.out_of_order.contains(seq)
    }

    /// Returns the selective acknowledgement for an ACK that packet `seq` triggers. The packets of an ACK for a marked
    /// packet, or for one that requests an ACK, start with the packet itself (`from_packet`).
    pub(crate) fn selective_ack(&mut self, seq: u32, from_packet: bool) -> SelectiveAck {
        self.pending_count = 0;
        let base = if from_packet { seq } else { seq.saturating_sub(63).max(self.next_expected + 1) };
        SelectiveAck { received_bytes: self.received_bytes, bitmap: self.out_of_order.bitmap(base), base }
    }

    /// Returns whether the pending ACK acknowledges only one packet, in which case its timer is not set yet.
    pub(crate) const fn started_delayed_ack(&self) -> bool {
        self.pending_count == 1
    }

    /// Returns whether an ACK echoes a mark. `is_marked` states whether the data packet is marked.
    pub(crate) const fn echoes_mark(&self, echo: Echo, is_marked: bool) -> bool {
        match echo {
            Echo::Exact => is_marked,
            Echo::UntilReduced => self.ece_latched,
            Echo::Notification { .. } => false,
        }
    }

    /// Records the arrival of packet `seq`. Returns `false` for a duplicate.
    fn record_packet(&mut self, seq: u32) -> bool {
        if seq < self.next_expected {
            return false;
        }
        if seq > self.next_expected {
            return self.out_of_order.insert(seq);
        }
        self.nack_sent = false;
        self.next_expected += 1;
        if !self.out_of_order.is_empty() {
            self.next_expected = self.out_of_order.remove_run(self.next_expected);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiver_counts_each_packet_once() {
        let mut receiver = Receiver::new(u32::MAX);
        let is_new: Vec<bool> = [0, 2, 2, 3, 1, 0].map(|seq| receiver.record_packet(seq)).to_vec();
        assert_eq!(is_new, [true, true, false, true, true, false]);
        assert_eq!(receiver.next_expected, 4);
    }
}
