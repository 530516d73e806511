//! Reverse marking (RPM): a mark waits at the switch for the next ACK that goes the other way.
//!
//! Source: RPM, section III; details of counters, age and the check that both directions pass here are ours.

use poseidon_plan::switch::Direction;

use crate::chance::{low_half, mix_two};
use crate::packet::Packet;

/// After this long without an ACK a flow is marked forward, and its count is forgotten: one second, ps.
const AGE: u64 = 1_000_000_000_000;

/// Marks that wait, at all switches.
#[derive(Debug)]
pub(crate) struct Reverse {
    direction: Direction,
    /// By switch; made when its first ACK passes.
    flows: Vec<Option<Box<[Counter]>>>,
    /// By port.
    ports: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// When an ACK of the flow was last seen, ps; zero for never.
    seen: u64,
    /// When it was last marked.
    marked: u64,
    waiting: u8,
}

impl Reverse {
    pub(crate) fn new(direction: Direction, switches: usize, ports: usize) -> Self {
        let (switches, ports) = match direction {
            Direction::Forward => (0, 0),
            Direction::ReversePerFlow { .. } => (switches, 0),
            Direction::ReversePerPort => (0, ports),
        };
        Self { direction, flows: (0..switches).map(|_| None).collect(), ports: vec![0; ports] }
    }

    /// A packet that leaves by `port` is to be marked; whether the mark goes with it.
    pub(crate) fn marks_forward(&mut self, switch: usize, port: usize, packet: &Packet, now: u64) -> bool {
        match self.direction {
            Direction::Forward => true,
            Direction::ReversePerPort => {
                self.ports[port] = self.ports[port].saturating_add(1);
                false
            }
            Direction::ReversePerFlow { counters } => {
                let Some(flows) = &mut self.flows[switch] else { return true };
                let counter = &mut flows[bucket(packet.connection, counters)];
                if counter.seen == 0 || now - counter.seen > AGE {
                    return true;
                }
                (counter.waiting, counter.marked) = (counter.waiting.saturating_add(1), now);
                false
            }
        }
    }

    /// An ACK has come in by `port`; whether it takes a mark along.
    pub(crate) fn takes_mark(&mut self, switch: usize, port: usize, ack: &Packet, now: u64) -> bool {
        match self.direction {
            Direction::Forward => false,
            Direction::ReversePerPort => {
                let waiting = &mut self.ports[port];
                let takes = *waiting > 0;
                *waiting = waiting.saturating_sub(1);
                takes
            }
            Direction::ReversePerFlow { counters } => {
                let fresh = || vec![Counter::default(); counters as usize].into_boxed_slice();
                let flows = self.flows[switch].get_or_insert_with(fresh);
                let counter = &mut flows[bucket(ack.connection, counters)];
                // Zero means never.
                counter.seen = now.max(1);
                if now - counter.marked > AGE {
                    counter.waiting = 0;
                }
                let takes = counter.waiting > 0;
                counter.waiting = counter.waiting.saturating_sub(1);
                takes
            }
        }
    }
}

fn bucket(connection: u32, counters: u32) -> usize {
    ((u64::from(low_half(mix_two(connection, 0))) * u64::from(counters)) >> 32) as usize
}
