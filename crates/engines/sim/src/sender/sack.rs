//! The scoreboard of a sender that learns of losses from NACKs and timeouts (`Recovery::TrimNacks`).
//!
//! Packets take different paths, so their order says nothing about losses. The scoreboard therefore records each packet
//! until an ACK covers it. The bytes in flight follow the number of bytes that the receiver reports, because an ACK
//! names at most 64 packets that arrived out of order.

use poseidon_policies::path::{Feedback, NextPacket, Outcome};
use poseidon_types::{Bytes, Packets, Picos};
use std::collections::VecDeque;

use super::Sender;
use crate::hop_records::SelectiveAck;
use crate::packet::Packet;

/// The scoreboard.
#[derive(Debug)]
pub(crate) struct SackScoreboard {
    /// The payload size of a full packet.
    mtu: u16,
    /// The packets from the first unacknowledged one to the latest one sent.
    packets: VecDeque<SentPacket>,
    /// All transmissions, oldest first. An entry is stale if its packet is no longer in flight or was sent again.
    transmissions: VecDeque<(u32, Picos)>,
    /// The payload bytes in flight. May be below zero for a moment, when the receiver reports bytes of a packet that
    /// waits for retransmission.
    in_flight_bytes: i64,
    /// The number of payload bytes that the receiver has reported.
    received_bytes: u64,
}

/// A packet that has been sent.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    /// The time of the latest transmission.
    sent_at: Picos,
    transmissions: u16,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// The packet waits for retransmission.
    Lost,
    Acknowledged,
}

/// The effect of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SackOutcome {
    /// The number of newly acknowledged packets.
    pub(crate) acked: u32,
    /// The number of payload bytes that the receiver newly reports.
    pub(crate) bytes: Bytes,
    /// Whether the RTT of the ACK may belong to another transmission of the packet.
    pub(crate) rtt_ambiguous: bool,
}

/// A packet that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostPacket {
    pub(crate) bytes: Bytes,
    /// The time of its latest transmission.
    pub(crate) sent_at: Picos,
    pub(crate) transmissions: u16,
    /// Whether the loss is outside the current recovery episode.
    pub(crate) new_loss: bool,
}

impl SackScoreboard {
    pub(crate) const fn new(mtu: u16) -> Self {
        Self {
            mtu,
            packets: VecDeque::new(),
            transmissions: VecDeque::new(),
            in_flight_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Returns the send time of the oldest packet in flight. `una` is the first unacknowledged packet.
    fn oldest_transmission(&mut self, una: u32) -> Option<(u32, Picos)> {
        while let Some(&(seq, sent_at)) = self.transmissions.front() {
            let packet = seq.checked_sub(una).and_then(|offset| self.packets.get(offset as usize));
            if packet.is_some_and(|packet| packet.state == State::InFlight && packet.sent_at == sent_at) {
                return Some((seq, sent_at));
            }
            self.transmissions.pop_front();
        }
        None
    }
}

impl Sender {
    /// Uses this scoreboard from the start of the connection.
    pub(crate) fn use_sack(&mut self, mtu: u16) {
        self.implicit_scoreboard = false;
        self.sack = Some(Box::new(SackScoreboard::new(mtu)));
    }

    /// Prefetches the entries of the scoreboard that the next reply will read.
    #[inline]
    pub(crate) fn prefetch_sack(&self) {
        if let Some(sack) = &self.sack {
            let (packet, sent) = (sack.packets.front(), sack.transmissions.front());
            core::hint::black_box((packet.map(|packet| packet.sent_at), sent.map(|(seq, _)| *seq)));
        }
    }

    /// Returns the bytes in flight.
    pub(crate) fn sack_bytes_in_flight(&self) -> Bytes {
        let bytes = self.sack.as_ref().map_or(0, |sack| sack.in_flight_bytes);
        Bytes::new(u64::try_from(bytes).unwrap_or(0))
    }

    /// Returns the time at which the oldest packet in flight times out, or [`Picos::MAX`].
    #[inline(never)]
    pub(crate) fn sack_rto_deadline(&mut self, rto: Picos) -> Picos {
        let una = self.una;
        let oldest = self.sack.as_mut().and_then(|sack| sack.oldest_transmission(una));
        oldest.map_or(Picos::MAX, |(_, sent_at)| sent_at + rto)
    }

    /// Returns the sequence number of the next packet to send, and whether the packet is a retransmission. The packet
    /// requests an ACK if it is a retransmission, or if no packet can follow it now.
    #[inline(never)]
    pub(super) fn take_next_sacked(&mut self, now: Picos) -> Option<(u32, bool)> {
        let lost = self.retransmit_queue.pop_front();
        let una = self.una;
        let seq = match lost {
            Some(seq) => {
                let message = self.message_index(seq);
                if let Some(message) = self.messages.get_mut(message) {
                    message.retransmitted += 1;
                }
                seq
            }
            None if self.next_seq < self.end_seq => {
                self.next_seq += 1;
                self.next_seq - 1
            }
            None => return None,
        };
        let bytes = self.sack_payload(seq);
        let sack = self.sack.as_mut()?;
        let index = (seq - una) as usize;
        if index == sack.packets.len() {
            sack.packets.push_back(SentPacket { sent_at: now, transmissions: 0, state: State::InFlight });
        }
        let packet = &mut sack.packets[index];
        packet.sent_at = now;
        packet.transmissions = packet.transmissions.saturating_add(1);
        packet.state = State::InFlight;
        sack.transmissions.push_back((seq, now));
        sack.in_flight_bytes += bytes;
        self.update_in_flight();
        let window_is_full = Packets::whole(u64::from(self.in_flight) + 1) >= self.decision.window;
        // Data packets carry the request in place of CWR.
        self.cwr = lost.is_some() || window_is_full || !self.has_data();
        Some((seq, lost.is_some()))
    }

    /// Processes an ACK. The reply's `sent_at` is the send time of the transmission that caused it, or slightly later.
    pub(crate) fn on_sack(&mut self, reply: &Packet, ack: &SelectiveAck) -> SackOutcome {
        let is_latest = self.sack_packet(reply.seq).is_some_and(|packet| {
            packet.state == State::InFlight && packet.transmissions <= 2 && packet.sent_at <= reply.sent_at()
        });
        let Some(sack) = self.sack.as_mut() else {
            return SackOutcome { acked: 0, bytes: Bytes::ZERO, rtt_ambiguous: true };
        };
        let bytes = ack.received_bytes.saturating_sub(sack.received_bytes);
        sack.received_bytes += bytes;
        sack.in_flight_bytes -= i64::try_from(bytes).unwrap_or(i64::MAX);
        let below = self.una..reply.cumulative_ack.min(self.next_seq);
        let mut acked: u32 = below.map(|seq| u32::from(self.ack_sacked(seq))).sum();
        let mut bitmap = ack.bitmap;
        while bitmap != 0 {
            acked += u32::from(self.ack_sacked(ack.base.wrapping_add(bitmap.trailing_zeros())));
            bitmap &= bitmap - 1;
        }
        acked += u32::from(self.ack_sacked(reply.seq));
        let una = &mut self.una;
        if let Some(sack) = self.sack.as_mut() {
            while sack.packets.front().is_some_and(|packet| packet.state == State::Acknowledged) {
                sack.packets.pop_front();
                *una += 1;
            }
        }
        self.update_in_flight();
        SackOutcome { acked, bytes: Bytes::new(bytes), rtt_ambiguous: !is_latest }
    }

    /// Processes a NACK for a trimmed packet. Returns `None` if the NACK belongs to an earlier transmission, or if the
    /// packet is not in flight.
    pub(crate) fn on_trim_nack(&mut self, reply: &Packet) -> Option<LostPacket> {
        let packet = self.sack_packet(reply.seq)?;
        if packet.state != State::InFlight || packet.sent_at > reply.sent_at() {
            return None;
        }
        Some(self.lose_sacked(reply.seq, packet))
    }

    /// Declares the oldest packet in flight lost if it has timed out at `now`.
    pub(crate) fn expire_oldest(&mut self, rto: Picos, now: Picos) -> Option<LostPacket> {
        let una = self.una;
        let (seq, sent_at) = self.sack.as_mut()?.oldest_transmission(una)?;
        if now < sent_at + rto {
            return None;
        }
        let packet = self.sack_packet(seq)?;
        Some(self.lose_sacked(seq, packet))
    }

    /// Returns the entropy value of a packet under a path policy with state.
    #[inline(never)]
    pub(crate) fn choose_path(&mut self) -> u32 {
        let packet = NextPacket {
            flow: self.entropy,
            transmission: self.transmitted,
            sent: self.next_seq.saturating_sub(1),
            window: u32::try_from(self.decision.window.floor()).unwrap_or(u32::MAX),
        };
        self.paths.as_mut().map_or(self.entropy, |paths| paths.choose(&packet))
    }

    /// Reports what happened to a packet with the entropy value `ev` to the path policy.
    #[inline(never)]
    pub(crate) fn report_path(&mut self, ev: Option<u32>, outcome: Outcome, now: Picos) {
        if let Some(paths) = &mut self.paths {
            paths.on_feedback(&Feedback { now, ev, outcome });
        }
    }

    fn sack_packet(&self, seq: u32) -> Option<SentPacket> {
        let index = seq.checked_sub(self.una)? as usize;
        self.sack.as_ref()?.packets.get(index).copied()
    }

    /// Returns the payload size of packet `seq`.
    fn sack_payload(&self, seq: u32) -> i64 {
        let mtu = self.sack.as_ref().map_or(0, |sack| sack.mtu);
        i64::from(self.payload(seq, mtu))
    }

    /// Queues a packet in flight for retransmission. Lower sequence numbers are sent first.
    fn lose_sacked(&mut self, seq: u32, packet: SentPacket) -> LostPacket {
        let bytes = self.sack_payload(seq);
        let index = (seq - self.una) as usize;
        if let Some(sack) = self.sack.as_mut() {
            sack.in_flight_bytes -= bytes;
            if let Some(packet) = sack.packets.get_mut(index) {
                packet.state = State::Lost;
            }
        }
        let position = self.retransmit_queue.partition_point(|other| *other < seq);
        self.retransmit_queue.insert(position, seq);
        self.lost = self.lost.wrapping_add(1);
        self.update_in_flight();
        LostPacket {
            bytes: Bytes::new(u64::try_from(bytes).unwrap_or(0)),
            sent_at: packet.sent_at,
            transmissions: packet.transmissions,
            new_loss: self.start_recovery(),
        }
    }

    /// Acknowledges packet `seq`. Returns whether the packet is newly acknowledged.
    fn ack_sacked(&mut self, seq: u32) -> bool {
        let index = seq.checked_sub(self.una).map(|offset| offset as usize);
        let Some(sack) = self.sack.as_mut() else { return false };
        let Some(packet) = index.and_then(|index| sack.packets.get_mut(index)) else { return false };
        match core::mem::replace(&mut packet.state, State::Acknowledged) {
            State::Acknowledged => false,
            State::InFlight => true,
            State::Lost => {
                // The packet had left the count, and the receiver's report has removed its bytes again.
                let bytes = self.sack_payload(seq);
                if let Some(sack) = self.sack.as_mut() {
                    sack.in_flight_bytes += bytes;
                }
                if let Ok(position) = self.retransmit_queue.binary_search(&seq) {
                    self.retransmit_queue.remove(position);
                }
                true
            }
        }
    }

    /// Updates the packets in flight, by which the window is filled, from the bytes in flight.
    fn update_in_flight(&mut self) {
        if let Some(sack) = &self.sack {
            let bytes = u64::try_from(sack.in_flight_bytes).unwrap_or(0);
            self.in_flight = u32::try_from(bytes.div_ceil(u64::from(sack.mtu.max(1)))).unwrap_or(u32::MAX);
        }
    }
}
