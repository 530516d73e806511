//! The receiving end of a connection: what has arrived, when that is acknowledged, and what is said of marks.

use poseidon_plan::Plan;
use poseidon_plan::transport::{Acks, Echo, Recovery};
use poseidon_types::Picos;
use std::collections::BTreeSet;

use crate::packet::{NONE, Packet};

/// The receiving end.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Every packet below this has arrived.
    pub(crate) cumulative: u32,
    /// How many messages have arrived whole.
    pub(crate) whole: u32,
    /// Payload that has arrived, each byte counted once.
    pub(crate) bytes: u64,
    early: BTreeSet<u32>,
    /// The packet that will become the next ACK, or [`NONE`], and for how many it speaks.
    pub(crate) held: u32,
    pub(crate) count: u32,
    /// When it will, at the latest, ps.
    pub(crate) deadline: u64,
    /// A mark has arrived, and the sender has not said that it reacted.
    latched: bool,
    /// The sender has been told of the hole that is open.
    complained: bool,
    /// Not before this may the next notification leave, ps.
    next_notice: u64,
}

/// What is done about a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is acknowledged now.
    Ack,
    /// It is held, to be acknowledged with others later.
    Hold,
    /// What is missing before it is asked for, and it is thrown away.
    Nack,
    /// It is thrown away.
    Nothing,
}

/// What a packet was to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// It is the first of its number, and kept.
    pub(crate) is_new: bool,
    pub(crate) reply: Reply,
    /// What was held must be acknowledged before it, because it is marked otherwise.
    pub(crate) flush_first: bool,
    /// A notification of congestion must be sent.
    pub(crate) notify: bool,
}

impl Receiver {
    pub(crate) const NEW: Self = Self {
        cumulative: 0,
        whole: 0,
        bytes: 0,
        early: BTreeSet::new(),
        held: NONE,
        count: 0,
        deadline: u64::MAX,
        latched: false,
        complained: false,
        next_notice: 0,
    };

    /// A packet has arrived. `was_marked` is the mark of the packet that is held; `ends_message` whether a message would be whole
    /// with it.
    pub(crate) fn receive(
        &mut self,
        plan: &Plan,
        packet: &Packet,
        was_marked: bool,
        now: u64,
        ends_message: impl Fn(u32) -> bool,
    ) -> Arrived {
        let marked = packet.tag.is_marked();
        if packet.tag.has_flag() {
            self.latched = false;
        }
        self.latched |= marked;
        let notify = match plan.transport.echo {
            Echo::Notification { gap } if marked && now >= self.next_notice => {
                self.next_notice = now.saturating_add(Picos::from_nanos(gap).get());
                true
            }
            Echo::Notification { .. } | Echo::Exact | Echo::UntilReduced => false,
        };
        let in_order = packet.seq == self.cumulative;
        if plan.transport.recovery == Recovery::GoBackN && packet.seq > self.cumulative {
            let reply =
                if core::mem::replace(&mut self.complained, true) { Reply::Nothing } else { Reply::Nack };
            return Arrived { is_new: false, reply, flush_first: false, notify };
        }
        let is_new = self.note(packet.seq);
        let (reply, flush_first) = match plan.transport.acks {
            Acks::EveryPacket => (Reply::Ack, false),
            Acks::Coalesced { packets, delay } => {
                let flush_first =
                    self.held != NONE && plan.transport.echo == Echo::Exact && was_marked != marked;
                if flush_first {
                    self.count = 0;
                }
                if self.count == 0 {
                    self.deadline = now.saturating_add(Picos::from_nanos(delay).get());
                }
                self.count += 1;
                let now = self.count >= packets || !in_order || ends_message(self.cumulative);
                (if now { Reply::Ack } else { Reply::Hold }, flush_first)
            }
        };
        if reply == Reply::Ack {
            self.count = 0;
        }
        Arrived { is_new, reply, flush_first, notify }
    }

    /// Whether the packet that is held is the first since the last ACK.
    pub(crate) const fn is_first_held(&self) -> bool {
        self.count == 1
    }

    /// What an ACK for a packet says of marks.
    pub(crate) const fn echoes(&self, echo: Echo, marked: bool) -> bool {
        match echo {
            Echo::Exact => marked,
            Echo::UntilReduced => self.latched,
            Echo::Notification { .. } => false,
        }
    }

    /// Notes a packet; whether it is the first of its number.
    fn note(&mut self, seq: u32) -> bool {
        if seq < self.cumulative {
            return false;
        }
        if seq > self.cumulative {
            return self.early.insert(seq);
        }
        self.complained = false;
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

    #[test]
    fn a_receiver_counts_each_packet_once() {
        let mut receiver = Receiver::NEW;
        let fresh: Vec<bool> = [0, 2, 2, 3, 1, 0].map(|seq| receiver.note(seq)).to_vec();
        assert_eq!(fresh, [true, true, false, true, true, false]);
        assert_eq!(receiver.cumulative, 4);
    }
}
