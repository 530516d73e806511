//! The sending end of a connection: what has been sent, what has arrived, what is lost.

use poseidon_laws::parts::coexistence::Coexistence;
use poseidon_laws::parts::plb::Plb;
use poseidon_laws::{AnyLaw, Decision};
use poseidon_types::{Bytes, Picos};
use std::collections::VecDeque;

/// A message that is being sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// Its index in the plan.
    pub(crate) message: u32,
    /// The number of its first packet, and of the one behind its last.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Payload of its last packet.
    pub(crate) last_payload: u16,
    pub(crate) start: Picos,
    /// Its length, where that is known.
    pub(crate) size: Option<Bytes>,
    pub(crate) retransmitted: u32,
}

/// What became of a packet: the order of its last transmission while it is in flight, or one of these.
type Fate = u32;
const ACKNOWLEDGED: Fate = u32::MAX;
const LOST: Fate = u32::MAX - 1;

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender {
    /// What the law decided last.
    pub(crate) decision: Decision,
    /// Not before this may the next packet leave, ps.
    pub(crate) next_send: u64,
    /// When silence becomes a timeout, ps.
    pub(crate) deadline: u64,
    /// The earliest timers that are set, for pacing and for silence, ps.
    pub(crate) pace_timer: u64,
    pub(crate) silence_timer: u64,
    /// Smoothed round-trip time, ns; zero before the first.
    pub(crate) srtt: u64,
    /// Every packet below this is acknowledged.
    pub(crate) una: u32,
    /// The next packet that has never been sent.
    pub(crate) next: u32,
    pub(crate) in_flight: u32,
    /// Packets sent so far, each time counted.
    pub(crate) transmitted: u32,
    /// The packet behind the last one handed over.
    end: u32,
    /// What its packets are hashed by.
    pub(crate) entropy: u32,
    /// How many messages have been handed over.
    pub(crate) handed: u32,
    pub(crate) is_ready: bool,
    /// It has reacted to a mark and not yet said so; and until when it will not say so again.
    pub(crate) says_reduced: bool,
    reduced_until: u32,
    pub(crate) law: AnyLaw,
    pub(crate) plb: Plb,
    /// Where it is on. Few runs have it, so it is not inline.
    pub(crate) coexistence: Option<Box<Coexistence>>,
    /// Whether everything in flight was sent once and in order, and nothing beyond `una` is acknowledged: what most flows are most
    /// of the time. Then `fates` and `unjudged` are empty, and the order of a transmission is its packet's number plus `shift`.
    is_plain: bool,
    shift: u32,
    /// The end of the first message, or the largest number.
    first_end: u32,
    /// What became of the packets `una..next`.
    fates: VecDeque<Fate>,
    /// Messages not yet acknowledged whole, oldest first.
    pub(crate) messages: VecDeque<Sending>,
    /// Lost packets, to be sent again.
    resend: VecDeque<u32>,
    /// Transmissions that have not been judged, oldest first: the number of the packet. One is lost when a later one has been
    /// acknowledged, so a packet that is sent again can be lost again.
    unjudged: VecDeque<u32>,
    /// The order of the first of them, and one more than that of the last transmission known to have arrived.
    judged: u32,
    newest: u32,
    /// Packets that were sent again and are not acknowledged, and when: an ACK of what was sent before that does not say that the
    /// later one has arrived.
    resent: Vec<(u32, u64)>,
    /// A loss is told to the law once until everything sent before it is acknowledged.
    recover_until: u32,
    /// Packets found lost so far, by what was acknowledged behind them.
    pub(crate) lost: u32,
}

/// What a reply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Packets newly acknowledged.
    pub(crate) packets: u32,
    /// A loss was found that the law has not heard of.
    pub(crate) found_loss: bool,
}

impl Sender {
    pub(crate) fn new(law: AnyLaw, entropy: u32) -> Self {
        Self {
            decision: law.decision(),
            next_send: 0,
            deadline: u64::MAX,
            pace_timer: u64::MAX,
            silence_timer: u64::MAX,
            srtt: 0,
            una: 0,
            next: 0,
            in_flight: 0,
            transmitted: 0,
            end: 0,
            entropy,
            handed: 0,
            is_ready: false,
            says_reduced: false,
            reduced_until: 0,
            law,
            plb: Plb::default(),
            coexistence: None,
            is_plain: true,
            shift: 0,
            first_end: u32::MAX,
            fates: VecDeque::new(),
            messages: VecDeque::new(),
            resend: VecDeque::new(),
            unjudged: VecDeque::new(),
            judged: 0,
            newest: 0,
            resent: Vec::new(),
            recover_until: 0,
            lost: 0,
        }
    }

    /// One more message to send.
    pub(crate) fn hand_over(&mut self, message: Sending) {
        self.end = message.end;
        self.messages.push_back(message);
        self.note_first();
    }

    pub(crate) fn has_data(&self) -> bool {
        self.next < self.end || !self.resend.is_empty()
    }

    /// The first message, if it is acknowledged whole.
    pub(crate) fn take_finished(&mut self) -> Option<Sending> {
        if self.una < self.first_end {
            return None;
        }
        let message = self.messages.pop_front();
        self.note_first();
        message
    }

    fn note_first(&mut self) {
        self.first_end = self.messages.front().map_or(u32::MAX, |message| message.end);
    }

    /// The only message, which has no size, ends here; whether it is acknowledged whole.
    pub(crate) fn stop(&mut self) -> bool {
        self.end = self.next;
        if let Some(message) = self.messages.back_mut() {
            message.end = self.next;
        }
        self.note_first();
        self.una == self.next
    }

    /// The next packet to send, a lost one first; and whether it is sent again.
    pub(crate) fn take_next(&mut self, now: u64) -> Option<(u32, bool)> {
        self.transmitted = self.transmitted.wrapping_add(1);
        if self.is_plain {
            if self.next >= self.end {
                return None;
            }
            self.next += 1;
            self.in_flight += 1;
            return Some((self.next - 1, false));
        }
        let lost = self.resend.pop_front();
        let order = self.judged + u32::try_from(self.unjudged.len()).expect("a window fits 32 bits");
        let seq = match lost {
            Some(seq) => {
                let message = self.message_of(seq);
                if let Some(message) = self.messages.get_mut(message) {
                    message.retransmitted += 1;
                }
                if let Some(fate) = self.fates.get_mut((seq - self.una) as usize) {
                    *fate = order;
                }
                self.resent.retain(|(other, _)| *other != seq);
                self.resent.push((seq, now));
                seq
            }
            None if self.next < self.end => {
                self.fates.push_back(order);
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.unjudged.push_back(seq);
        self.in_flight += 1;
        Some((seq, lost.is_some()))
    }

    /// Where the message of packet `seq` is in the list.
    fn message_of(&self, seq: u32) -> usize {
        self.messages.partition_point(|message| message.end <= seq)
    }

    /// Payload of packet `seq`.
    pub(crate) fn payload(&self, seq: u32, mtu: u16) -> u16 {
        if seq + 1 < self.first_end {
            return mtu;
        }
        match self.messages.get(self.message_of(seq)) {
            Some(message) if message.end == seq + 1 && message.size.is_some() => message.last_payload,
            Some(_) | None => mtu,
        }
    }

    /// Packet `seq`, sent at `sent_at` or before, has arrived, and everything below `cumulative`. A transmission is lost when one
    /// `reordering` later has arrived.
    pub(crate) fn acknowledge(&mut self, seq: u32, sent_at: u64, cumulative: u32, reordering: u32) -> Acked {
        if self.is_plain {
            if cumulative > seq && cumulative <= self.next {
                let packets = cumulative.saturating_sub(self.una);
                self.una += packets;
                self.in_flight -= packets;
                return Acked { packets, found_loss: false };
            }
            self.spell_out();
        }
        self.note_newest(seq, sent_at);
        let packets = self.note_below(cumulative) + u32::from(self.note_acknowledged(seq));
        self.advance();
        let mut lost = false;
        while let Some(&sent) = self.unjudged.front() {
            let at = sent.checked_sub(self.una).map(|at| at as usize);
            if let Some(fate) = at.and_then(|at| self.fates.get_mut(at)).filter(|fate| **fate == self.judged)
            {
                if self.newest.saturating_sub(self.judged) <= reordering {
                    break;
                }
                *fate = LOST;
                self.in_flight -= 1;
                self.resend.push_back(sent);
                self.lost = self.lost.wrapping_add(1);
                lost = true;
            }
            self.unjudged.pop_front();
            self.judged += 1;
        }
        self.become_plain();
        Acked { packets, found_loss: lost && self.is_news() }
    }

    /// Writes out what is in flight, because something is not plain any more.
    fn spell_out(&mut self) {
        self.is_plain = false;
        self.fates.extend((self.una..self.next).map(|seq| seq + self.shift));
        self.unjudged.extend(self.una..self.next);
        (self.judged, self.newest) = (self.una + self.shift, self.una + self.shift);
    }

    /// With nothing in flight and nothing lost, it is plain again.
    fn become_plain(&mut self) {
        if self.una == self.next && self.unjudged.is_empty() {
            self.is_plain = true;
            self.shift = self.judged - self.next;
            self.resent.clear();
        }
    }

    /// Everything below `cumulative` has arrived, and nothing beyond counts: it is all sent again.
    pub(crate) fn go_back(&mut self, cumulative: u32) -> Acked {
        if cumulative < self.una {
            // It was overtaken: what it asks for has arrived meanwhile.
            return Acked { packets: 0, found_loss: false };
        }
        if self.is_plain {
            self.spell_out();
        }
        let packets = self.note_below(cumulative);
        self.advance();
        self.lose_all();
        self.become_plain();
        Acked { packets, found_loss: self.is_news() }
    }

    /// Silence: everything in flight is lost.
    pub(crate) fn time_out(&mut self) {
        if self.is_plain {
            self.spell_out();
        }
        self.lose_all();
        self.recover_until = self.next;
    }

    /// A mark has been echoed: whether and when the receiver must be told that it was heard (RFC 3168 section 6.1.2).
    pub(crate) fn hear_mark(&mut self) {
        if self.una >= self.reduced_until {
            self.says_reduced = true;
            self.reduced_until = self.next;
        }
    }

    /// Whether the law has not heard of a loss since the packets in flight were sent; it now has.
    fn is_news(&mut self) -> bool {
        let news = self.una >= self.recover_until;
        if news {
            self.recover_until = self.next;
        }
        news
    }

    /// Everything that is not acknowledged is lost.
    fn lose_all(&mut self) {
        // What was lost before is on the list again, in order.
        self.resend.clear();
        for (seq, fate) in (self.una..).zip(self.fates.iter_mut()) {
            if *fate != ACKNOWLEDGED {
                *fate = LOST;
                self.resend.push_back(seq);
            }
        }
        self.in_flight = 0;
        self.judged += u32::try_from(self.unjudged.len()).expect("a window fits 32 bits");
        self.unjudged.clear();
    }

    /// Notes which transmission has arrived, of a packet that is in flight.
    fn note_newest(&mut self, seq: u32, sent_at: u64) {
        let fate = seq.checked_sub(self.una).and_then(|at| self.fates.get(at as usize).copied());
        let Some(order) = fate.filter(|fate| *fate < LOST) else { return };
        let again = self.resent.iter().find(|(other, _)| *other == seq);
        if again.is_none_or(|(_, at)| *at <= sent_at) {
            self.newest = self.newest.max(order + 1);
        }
    }

    /// Notes that everything below `cumulative` has arrived; how much of that is new.
    fn note_below(&mut self, cumulative: u32) -> u32 {
        let known = self.una..cumulative.min(self.next);
        known.map(|seq| u32::from(self.note_acknowledged(seq))).sum()
    }

    /// Forgets packets that are acknowledged with all before them.
    fn advance(&mut self) {
        while self.fates.front() == Some(&ACKNOWLEDGED) {
            self.fates.pop_front();
            self.una += 1;
        }
    }

    fn note_acknowledged(&mut self, seq: u32) -> bool {
        let Some(fate) = seq.checked_sub(self.una).and_then(|at| self.fates.get_mut(at as usize)) else {
            return false;
        };
        match *fate {
            ACKNOWLEDGED => return false,
            // It was late and not lost: it need not be sent again.
            LOST => self.resend.retain(|lost| *lost != seq),
            _ => self.in_flight -= 1,
        }
        *fate = ACKNOWLEDGED;
        if !self.resent.is_empty() {
            self.resent.retain(|(other, _)| *other != seq);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::{AnyParams, Path};
    use poseidon_types::{BitRate, Nanos, Signals};

    /// All at one instant: every ACK is of the last transmission.
    const NOW: u64 = 5;

    fn sender(packets: u32) -> Sender {
        let path = Path {
            mtu: Bytes::new(1_000),
            line_rate: BitRate::from_gbps(1),
            base_rtt: Nanos::from_micros(1),
        };
        let law = AnyParams::of("fixed").expect("a law").build(&path, Signals::ALL).expect("builds");
        let mut sender = Sender::new(law, 0);
        sender.hand_over(Sending {
            message: 0,
            first: 0,
            end: packets,
            last_payload: 7,
            start: Picos::ZERO,
            size: Some(Bytes::new(1)),
            retransmitted: 0,
        });
        sender
    }

    fn send_all(sender: &mut Sender) -> Vec<u32> {
        core::iter::from_fn(|| sender.take_next(NOW)).map(|(seq, _)| seq).collect()
    }

    #[test]
    fn a_hole_is_lost_when_three_packets_behind_it_have_arrived() {
        let mut sender = sender(6);
        assert_eq!(send_all(&mut sender), [0, 1, 2, 3, 4, 5]);
        assert_eq!(sender.acknowledge(0, NOW, 1, 3), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(2, NOW, 1, 3), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(3, NOW, 1, 3), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(4, NOW, 1, 3), Acked { packets: 1, found_loss: true });
        assert_eq!((sender.una, sender.in_flight), (1, 1));
        assert_eq!(sender.take_next(NOW), Some((1, true)), "the lost one first");
        assert_eq!(sender.acknowledge(1, NOW, 5, 3), Acked { packets: 1, found_loss: false });
        assert_eq!((sender.una, sender.in_flight), (5, 1));
        assert_eq!(sender.messages[0].retransmitted, 1);
    }

    #[test]
    fn a_packet_that_is_sent_again_can_be_lost_again() {
        let mut sender = sender(13);
        for _ in 0..10 {
            sender.take_next(NOW);
        }
        for seq in 1..4 {
            sender.acknowledge(seq, NOW, 0, 3);
        }
        let sent = send_all(&mut sender);
        assert_eq!(sent, [0, 10, 11, 12], "lost, and three behind it");
        for seq in 4..12 {
            sender.acknowledge(seq, NOW, 0, 3);
        }
        assert_eq!(sender.take_next(NOW), None);
        sender.acknowledge(12, NOW, 0, 3);
        assert_eq!(sender.take_next(NOW), Some((0, true)), "lost again");
    }

    #[test]
    fn a_late_arrival_does_not_pass_for_the_packet_sent_again() {
        let mut sender = sender(8);
        for _ in 0..5 {
            sender.take_next(0);
        }
        for seq in 1..4 {
            sender.acknowledge(seq, 0, 0, 3);
        }
        assert_eq!(sender.take_next(10), Some((0, true)), "it was only late");
        assert_eq!(sender.take_next(10), Some((5, false)));
        // The first transmission of 0 arrives: 4 was sent before the second and is still on its way.
        assert_eq!(sender.acknowledge(0, 0, 4, 0), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.in_flight, 2);
    }

    #[test]
    fn going_back_sends_everything_from_the_hole_again() {
        let mut sender = sender(5);
        send_all(&mut sender);
        assert_eq!(sender.acknowledge(0, NOW, 1, u32::MAX), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.go_back(2), Acked { packets: 1, found_loss: true });
        assert_eq!((sender.una, sender.in_flight), (2, 0));
        assert_eq!(sender.take_next(NOW), Some((2, true)));
        // A second complaint of the same loss is no news.
        assert_eq!(sender.go_back(2), Acked { packets: 0, found_loss: false });
        assert_eq!(send_all(&mut sender), [2, 3, 4]);
        // One that was overtaken asks for what has arrived.
        sender.acknowledge(2, NOW, 3, u32::MAX);
        assert_eq!((sender.go_back(1).packets, sender.in_flight), (0, 2));
    }

    #[test]
    fn a_timeout_sends_everything_in_flight_again_and_a_late_ack_saves_it() {
        let mut sender = sender(3);
        send_all(&mut sender);
        sender.time_out();
        assert_eq!((sender.in_flight, sender.has_data()), (0, true));
        assert_eq!(sender.acknowledge(0, NOW, 1, 3).packets, 1);
        assert_eq!(sender.take_next(NOW), Some((1, true)));
        assert_eq!((sender.payload(1, 1_000), sender.payload(2, 1_000)), (1_000, 7));
    }

    #[test]
    fn a_long_flow_that_stops_is_done_when_what_it_sent_is_acknowledged() {
        let mut sender = sender(100);
        for _ in 0..4 {
            sender.take_next(NOW);
        }
        assert!(!sender.stop());
        assert_eq!(sender.take_next(NOW), None);
        sender.acknowledge(3, NOW, 4, 3);
        assert!(sender.una == 4 && sender.messages[0].end == 4 && sender.stop());
    }

    #[test]
    fn a_mark_is_answered_once_per_window() {
        let mut sender = sender(10);
        for _ in 0..4 {
            sender.take_next(NOW);
        }
        sender.hear_mark();
        assert!(core::mem::take(&mut sender.says_reduced));
        sender.acknowledge(1, NOW, 2, 3);
        sender.hear_mark();
        assert!(!sender.says_reduced, "the same window");
        sender.acknowledge(3, NOW, 4, 3);
        sender.hear_mark();
        assert!(sender.says_reduced);
    }
}
