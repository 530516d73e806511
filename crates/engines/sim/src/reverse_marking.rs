//! Reverse marking (RPM): a mark waits at the switch for the next ACK in the opposite direction.
//!
//! Source: RPM, section III. The counters, their age limit and the check that both directions pass through
//! this switch are our design choices.

use poseidon_plan::switch::MarkDirection;
use poseidon_types::Picos;

use crate::hash::{hash_pair, low32};
use crate::packet::Packet;

/// The age limit: one second. If a flow has no ACK for this long, its packets are marked in the forward
/// direction, and its pending marks expire.
const MAX_AGE: Picos = Picos::new(1_000_000_000_000);

/// The pending reverse marks of all switches.
#[derive(Debug)]
pub(crate) struct ReverseMarking {
    direction: MarkDirection,
    /// For each switch, the flow counters, which are allocated when the first ACK passes.
    flow_counters: Vec<Option<Box<[FlowCounter]>>>,
    /// The number of pending marks at each port.
    port_counters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowCounter {
    /// The time at which the switch last saw an ACK for the flow. Zero means never.
    last_ack: Picos,
    last_mark: Picos,
    pending: u8,
}

impl ReverseMarking {
    pub(crate) fn new(direction: MarkDirection, switches: usize, ports: usize) -> Self {
        let (switches, ports) = match direction {
            MarkDirection::Forward => (0, 0),
            MarkDirection::ReversePerFlow { .. } => (switches, 0),
            MarkDirection::ReversePerPort => (0, ports),
        };
        let flow_counters = (0..switches).map(|_| None).collect();
        Self { direction, flow_counters, port_counters: vec![0; ports] }
    }

    /// Chooses the direction in which to mark a packet that leaves through `port`. Returns whether to mark
    /// the packet itself. Otherwise, the mark waits for an ACK.
    pub(crate) fn mark_forward(&mut self, switch: usize, port: usize, packet: &Packet, now: Picos) -> bool {
        match self.direction {
            MarkDirection::Forward => true,
            MarkDirection::ReversePerPort => {
                self.port_counters[port] = self.port_counters[port].saturating_add(1);
                false
            }
            MarkDirection::ReversePerFlow { counters } => {
                // Switches do not find the ACKs of a real stack, so its datagrams carry their marks themselves.
                if packet.is_datagram() {
                    return true;
                }
                let Some(flows) = &mut self.flow_counters[switch] else { return true };
                let counter = &mut flows[bucket(packet, counters)];
                if counter.last_ack.is_zero() || now - counter.last_ack > MAX_AGE {
                    return true;
                }
                (counter.pending, counter.last_mark) = (counter.pending.saturating_add(1), now);
                false
            }
        }
    }

    /// Takes a pending mark for an ACK that arrived at `port`. Returns whether a mark was pending.
    pub(crate) fn take_pending_mark(&mut self, switch: usize, port: usize, ack: &Packet, now: Picos) -> bool {
        match self.direction {
            MarkDirection::Forward => false,
            MarkDirection::ReversePerPort => {
                let pending = &mut self.port_counters[port];
                let has_mark = *pending > 0;
                *pending = pending.saturating_sub(1);
                has_mark
            }
            MarkDirection::ReversePerFlow { counters } => {
                let allocate = || vec![FlowCounter::default(); counters as usize].into_boxed_slice();
                let flows = self.flow_counters[switch].get_or_insert_with(allocate);
                let counter = &mut flows[bucket(ack, counters)];
                // Zero is reserved for "never".
                counter.last_ack = now.max(Picos::new(1));
                if now - counter.last_mark > MAX_AGE {
                    counter.pending = 0;
                }
                let has_mark = counter.pending > 0;
                counter.pending = counter.pending.saturating_sub(1);
                has_mark
            }
        }
    }
}

/// Returns the counter index for a packet's connection.
fn bucket(packet: &Packet, counters: u32) -> usize {
    ((u64::from(low32(hash_pair(packet.connection, 0))) * u64::from(counters)) >> 32) as usize
}
