//! Priority flow control (PFC): buffer accounting per ingress port, pause and resume decisions, and headroom.
//!
//! Each port reserves headroom in the switch memory, and all ports share the remaining memory. An ingress
//! queue may use up to `alpha` times the free shared memory. A packet that exceeds this limit goes into the
//! headroom, and the switch pauses the peer. The headroom ([`Plan::headroom`]) absorbs everything that can
//! still arrive, so no packet is dropped.

use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::switch::Pause;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, Fraction, Picos, PortId, SwitchId};

use crate::network::Network;

/// The result of admitting a packet to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Accepted,
    /// The packet was placed in the headroom, and the switch must pause the peer.
    AcceptedAndPause,
    /// The headroom is full, so the packet must be dropped.
    Rejected,
}

/// The PFC state of all switches in a shard.
#[derive(Debug)]
pub(crate) struct Pfc {
    alpha: Fraction,
    resume_bytes: u64,
    priorities: usize,
    /// Ingress queues, indexed by port and priority.
    ingress: Vec<IngressQueue>,
    /// The headroom per priority, indexed by port.
    headroom: Vec<u64>,
    /// Shared memory, indexed by switch.
    shared: Vec<SharedMemory>,
}

#[derive(Clone, Copy, Debug, Default)]
struct IngressQueue {
    /// Bytes in the buffer, including bytes in the headroom.
    buffered: u64,
    in_headroom: u64,
    is_paused: bool,
}

/// How long a port has been paused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PauseClock {
    /// The time at which the current pause began.
    since: Picos,
    /// The length of all earlier pauses.
    total: Picos,
}

impl PauseClock {
    /// Updates the clock after a change of the paused priorities.
    pub(crate) fn update(&mut self, before: u8, after: u8, now: Picos) {
        match (before, after) {
            (0, 1..) => self.since = now,
            (1.., 0) => self.total += now - self.since,
            _ => {}
        }
    }

    /// Returns the length of the current pause. `paused` are the paused priorities.
    pub(crate) fn current(&self, paused: u8, now: Picos) -> Picos {
        if paused == 0 { Picos::ZERO } else { now - self.since }
    }

    /// Returns the length of all pauses.
    pub(crate) fn total(&self, paused: u8, now: Picos) -> Picos {
        self.total + self.current(paused, now)
    }
}

/// The part of a switch's memory that is shared by all ports.
#[derive(Clone, Copy, Debug)]
struct SharedMemory {
    size: u64,
    used: u64,
}

impl Pfc {
    /// Creates the PFC state for these switches, whose ports are numbered consecutively. Returns `None` if
    /// PFC is off.
    pub(crate) fn new(plan: &Plan, network: &Network<'_>, switches: &[SwitchId]) -> Option<Self> {
        let Pause::Pfc { memory, alpha, resume } = plan.switch.pause else { return None };
        let priorities = usize::from(plan.switch.priorities);
        let mut headroom = Vec::new();
        let mut shared = Vec::new();
        for switch in switches {
            let ports =
                network.port_ids(*switch).map(|port| compute_headroom(plan, network, *switch, port).get());
            let first = headroom.len();
            headroom.extend(ports);
            let reserved: u64 = headroom[first..].iter().sum::<u64>() * priorities as u64;
            shared.push(SharedMemory { size: memory.get().saturating_sub(reserved), used: 0 });
        }
        let ingress = vec![IngressQueue::default(); headroom.len() * priorities];
        Some(Self { alpha, resume_bytes: resume.get(), priorities, ingress, headroom, shared })
    }

    /// Rejects a plan whose switch memory cannot hold the headroom of every port plus one packet per port and
    /// priority.
    pub(crate) fn check_memory(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
        let Pause::Pfc { memory, .. } = plan.switch.pause else { return Ok(()) };
        let largest_packet = plan.data_size().max(plan.ack_size());
        let needed_by = |switch| -> Bytes {
            let ports = network.port_ids(switch);
            let per_priority: Bytes =
                ports.map(|port| compute_headroom(plan, network, switch, port) + largest_packet).sum();
            per_priority * u64::from(plan.switch.priorities)
        };
        let needed = network.switch_ids().map(needed_by).max().unwrap_or(Bytes::ZERO);
        if needed > memory { Err(PlanError::Headroom { memory, needed }) } else { Ok(()) }
    }

    /// Admits a packet that arrived at `port` and must be queued.
    pub(crate) fn admit(&mut self, switch: usize, port: usize, priority: u8, size: u64) -> Admission {
        let shared = &mut self.shared[switch];
        let ingress = &mut self.ingress[port * self.priorities + usize::from(priority)];
        let free = shared.size.saturating_sub(shared.used);
        if !ingress.is_paused && size <= free && ingress.buffered + size <= self.alpha.mul_floor(free) {
            shared.used += size;
            ingress.buffered += size;
            return Admission::Accepted;
        }
        if ingress.in_headroom + size > self.headroom[port] {
            return Admission::Rejected;
        }
        ingress.buffered += size;
        ingress.in_headroom += size;
        if core::mem::replace(&mut ingress.is_paused, true) {
            Admission::Accepted
        } else {
            Admission::AcceptedAndPause
        }
    }

    /// Releases the memory held by a departing packet that arrived at `port`. Returns whether the switch must
    /// resume the peer.
    pub(crate) fn release(&mut self, switch: usize, port: usize, priority: u8, size: u64) -> bool {
        let shared = &mut self.shared[switch];
        let ingress = &mut self.ingress[port * self.priorities + usize::from(priority)];
        let from_headroom = size.min(ingress.in_headroom);
        ingress.in_headroom -= from_headroom;
        shared.used -= size - from_headroom;
        ingress.buffered -= size;
        let limit = self.alpha.mul_floor(shared.size.saturating_sub(shared.used));
        let is_low = ingress.buffered == 0 || ingress.buffered + self.resume_bytes <= limit;
        if ingress.is_paused && ingress.in_headroom == 0 && is_low {
            ingress.is_paused = false;
            return true;
        }
        false
    }

    /// Returns a bit mask of the priorities that a port's peer must pause.
    pub(crate) fn paused_priorities(&self, port: usize) -> u8 {
        let queues = &self.ingress[port * self.priorities..(port + 1) * self.priorities];
        queues
            .iter()
            .zip(0..)
            .fold(0, |mask, (ingress, priority)| mask | u8::from(ingress.is_paused) << priority)
    }
}

/// Computes the headroom for one priority of a port.
///
/// If link rates change or differ between directions, the headroom is sized for the fastest rate of any link. The headroom also covers the
/// bytes that arrive at this rate while a packet at the slowest rate delays the pause frame.
fn compute_headroom(plan: &Plan, network: &Network<'_>, switch: SwitchId, port: PortId) -> Bytes {
    let mut link = network.peer_of(switch, port).link;
    let rates_change = !plan.slow_ports.is_empty()
        || plan.link_changes.iter().any(|change| matches!(change.event, LinkEvent::Rate(_)));
    let rates = network.rates().as_slice();
    let (Some(slowest), Some(fastest), true) = (rates.first(), rates.last(), rates_change) else {
        return plan.headroom(link);
    };
    link.rate = *fastest;
    let frame_delay = slowest.send_time_ceil(plan.data_size().max(plan.ack_size()));
    let arriving = u128::from(frame_delay.get()) * u128::from(fastest.get()) / 8_000_000_000_000;
    plan.headroom(link) + Bytes::new(u64::try_from(arriving).unwrap_or(u64::MAX))
}
