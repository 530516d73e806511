//! The two ends of a connection: what has been sent, what has arrived, what is lost.

use poseidon_laws::AnyLaw;
use poseidon_types::{Bytes, Picos};
use std::collections::{BTreeSet, VecDeque};

/// Packets that must be acknowledged behind a hole before it counts as a loss.
const REORDERING: u32 = 3;

/// A message that is being sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// Its index in the plan.
    pub(crate) message: u32,
    /// The number of the packet behind its last one.
    pub(crate) end: u32,
    /// Payload of its last packet.
    pub(crate) last_payload: u16,
    pub(crate) start: Picos,
    pub(crate) size: Bytes,
    pub(crate) retransmitted: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    Acknowledged,
    Lost,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) law: AnyLaw,
    /// Messages not yet acknowledged whole, oldest first.
    pub(crate) messages: VecDeque<Sending>,
    /// Every packet below this is acknowledged.
    pub(crate) una: u32,
    /// The next packet that has never been sent.
    pub(crate) next: u32,
    pub(crate) in_flight: u32,
    /// What became of the packets `una..next`.
    fates: VecDeque<Fate>,
    /// Lost packets, to be sent again.
    resend: VecDeque<u32>,
    /// Packets below this have been judged lost or not.
    judged: u32,
    /// A loss is told to the law once until everything sent before it is acknowledged.
    recover_until: u32,
    /// Not before this may the next packet leave, ps.
    pub(crate) next_send: u64,
    /// When silence becomes a timeout, ps.
    pub(crate) deadline: u64,
    /// The earliest timer that is set, ps.
    pub(crate) timer: u64,
    /// Smoothed round-trip time, ns; zero before the first.
    pub(crate) srtt: u64,
    pub(crate) is_ready: bool,
}

/// What an ACK did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Packets newly acknowledged.
    pub(crate) packets: u32,
    /// A loss was found that the law has not heard of.
    pub(crate) found_loss: bool,
}

impl Sender {
    pub(crate) fn new(law: AnyLaw) -> Self {
        Self {
            law,
            messages: VecDeque::new(),
            una: 0,
            next: 0,
            in_flight: 0,
            fates: VecDeque::new(),
            resend: VecDeque::new(),
            judged: 0,
            recover_until: 0,
            next_send: 0,
            deadline: u64::MAX,
            timer: u64::MAX,
            srtt: 0,
            is_ready: false,
        }
    }

    /// The number of the packet behind the last one handed over.
    pub(crate) fn end(&self) -> u32 {
        self.messages.back().map_or(self.next, |message| message.end)
    }

    pub(crate) fn has_data(&self) -> bool {
        !self.resend.is_empty() || self.next < self.end()
    }

    /// The next packet to send: a lost one first.
    pub(crate) fn take_next(&mut self) -> Option<u32> {
        let seq = match self.resend.pop_front() {
            Some(seq) => {
                if let Some(message) = self.messages.iter_mut().find(|message| seq < message.end) {
                    message.retransmitted += 1;
                }
                seq
            }
            None if self.next < self.end() => {
                self.fates.push_back(Fate::InFlight);
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        if let Some(fate) = self.fates.get_mut((seq - self.una) as usize) {
            *fate = Fate::InFlight;
        }
        self.in_flight += 1;
        Some(seq)
    }

    /// Payload of packet `seq`.
    pub(crate) fn payload(&self, seq: u32, mtu: u16) -> u16 {
        let last = self.messages.iter().find(|message| message.end == seq + 1);
        last.map_or(mtu, |message| message.last_payload)
    }

    /// Packet `seq` has arrived, and everything below `cumulative`.
    pub(crate) fn acknowledge(&mut self, seq: u32, cumulative: u32) -> Acked {
        let mut packets = 0;
        for known in (self.una..cumulative.min(self.next)).chain([seq]) {
            packets += u32::from(self.note_acknowledged(known));
        }
        while self.fates.front() == Some(&Fate::Acknowledged) {
            self.fates.pop_front();
            self.una += 1;
        }
        self.judged = self.judged.max(self.una);
        let mut lost = false;
        while self.judged + REORDERING <= seq {
            let at = (self.judged - self.una) as usize;
            if self.fates.get(at) == Some(&Fate::InFlight) {
                self.fates[at] = Fate::Lost;
                self.in_flight -= 1;
                self.resend.push_back(self.judged);
                lost = true;
            }
            self.judged += 1;
        }
        let found_loss = lost && self.una >= self.recover_until;
        if found_loss {
            self.recover_until = self.next;
        }
        Acked { packets, found_loss }
    }

    /// Silence: everything in flight is lost.
    pub(crate) fn time_out(&mut self) {
        for (at, fate) in self.fates.iter_mut().enumerate() {
            if *fate == Fate::InFlight {
                *fate = Fate::Lost;
                self.resend.push_back(self.una + u32::try_from(at).expect("fewer than 2^32 packets"));
            }
        }
        self.in_flight = 0;
        self.judged = self.next;
        self.recover_until = self.next;
    }

    fn note_acknowledged(&mut self, seq: u32) -> bool {
        let Some(fate) = seq.checked_sub(self.una).and_then(|at| self.fates.get_mut(at as usize)) else {
            return false;
        };
        match *fate {
            Fate::Acknowledged => return false,
            Fate::InFlight => self.in_flight -= 1,
            // It was late and not lost: it need not be sent again.
            Fate::Lost => self.resend.retain(|lost| *lost != seq),
        }
        *fate = Fate::Acknowledged;
        true
    }
}

/// The receiving end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Every packet below this has arrived.
    pub(crate) cumulative: u32,
    early: BTreeSet<u32>,
}

impl Receiver {
    /// A packet has arrived; whether it is the first of its number.
    pub(crate) fn receive(&mut self, seq: u32) -> bool {
        if seq < self.cumulative {
            return false;
        }
        if seq > self.cumulative {
            return self.early.insert(seq);
        }
        self.cumulative += 1;
        while self.early.first() == Some(&self.cumulative) {
            self.early.pop_first();
            self.cumulative += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::{AnyParams, Path};
    use poseidon_types::{BitRate, Nanos, Signals};

    fn sender(packets: u32) -> Sender {
        let path = Path {
            mtu: Bytes::new(1_000),
            line_rate: BitRate::from_gbps(1),
            base_rtt: Nanos::from_micros(1),
        };
        let law = AnyParams::of("fixed").expect("a law").build(&path, Signals::ALL).expect("builds");
        let mut sender = Sender::new(law);
        sender.messages.push_back(Sending {
            message: 0,
            end: packets,
            last_payload: 7,
            start: Picos::ZERO,
            size: Bytes::ZERO,
            retransmitted: 0,
        });
        sender
    }

    #[test]
    fn a_hole_is_lost_when_three_packets_behind_it_have_arrived() {
        let mut sender = sender(10);
        for seq in 0..6 {
            assert_eq!(sender.take_next(), Some(seq));
        }
        assert_eq!(sender.acknowledge(0, 1), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(2, 1), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(3, 1), Acked { packets: 1, found_loss: false });
        assert_eq!(sender.acknowledge(4, 1), Acked { packets: 1, found_loss: true });
        assert_eq!((sender.una, sender.in_flight), (1, 1));
        assert_eq!(sender.take_next(), Some(1), "the lost one first");
        assert_eq!(sender.acknowledge(1, 5), Acked { packets: 1, found_loss: false });
        assert_eq!((sender.una, sender.in_flight), (5, 1));
        assert_eq!(sender.messages[0].retransmitted, 1);
    }

    #[test]
    fn a_timeout_sends_everything_in_flight_again_and_a_late_ack_saves_it() {
        let mut sender = sender(3);
        while sender.take_next().is_some() {}
        sender.time_out();
        assert_eq!((sender.in_flight, sender.has_data()), (0, true));
        assert_eq!(sender.acknowledge(0, 1).packets, 1);
        assert_eq!(sender.take_next(), Some(1));
        assert_eq!((sender.payload(1, 1_000), sender.payload(2, 1_000)), (1_000, 7));
    }

    #[test]
    fn a_receiver_counts_each_packet_once() {
        let mut receiver = Receiver::default();
        let fresh: Vec<bool> = [0, 2, 2, 3, 1, 0].map(|seq| receiver.receive(seq)).to_vec();
        assert_eq!(fresh, [true, true, false, true, true, false]);
        assert_eq!(receiver.cumulative, 4);
    }
}
