//! Priority flow control: what each ingress port holds, when its peer is told to stop, and the headroom for what is already
//! on the way.
//!
//! The memory of a switch is headroom, set aside port by port, and the rest, which all share. An ingress may hold `alpha` times
//! what is free of the rest; the packet that would go beyond goes into headroom and its peer is told to stop. The headroom
//! ([`Plan::headroom`]) holds whatever can still arrive, so nothing is dropped.

use poseidon_plan::changes::LinkEvent;
use poseidon_plan::switch::Pause;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, Fraction};

use crate::network::Network;

/// What becomes of a packet that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is room.
    Holds,
    /// There is room in the headroom, and the peer must stop.
    HoldsAndPauses,
    /// There is none: the headroom was too small.
    Full,
}

/// Flow control of all switches.
#[derive(Debug)]
pub(crate) struct Pauses {
    alpha: Fraction,
    resume: u64,
    priorities: usize,
    /// By port and priority.
    ingress: Vec<Ingress>,
    /// By port: headroom of each priority.
    headroom: Vec<u64>,
    /// By switch: memory that is shared, and how much of it is in use.
    shared: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ingress {
    held: u64,
    in_headroom: u64,
    is_paused: bool,
}

impl Pauses {
    /// Flow control for these switches, whose ports are numbered through; none where the plan has none.
    pub(crate) fn new(plan: &Plan, network: &Network<'_>, switches: &[u32]) -> Option<Self> {
        let Pause::Pfc { memory, alpha, resume } = plan.switch.pause else { return None };
        let priorities = usize::from(plan.switch.priorities);
        let mut headroom = Vec::new();
        let mut shared = Vec::new();
        for switch in switches {
            let ports =
                (0..network.ports(*switch)).map(|port| headroom_of(plan, network, *switch, port).get());
            let first = headroom.len();
            headroom.extend(ports);
            let aside: u64 = headroom[first..].iter().sum::<u64>() * priorities as u64;
            shared.push((memory.get().saturating_sub(aside), 0));
        }
        let ingress = vec![Ingress::default(); headroom.len() * priorities];
        Some(Self { alpha, resume: resume.get(), priorities, ingress, headroom, shared })
    }

    /// Refuses a memory that does not hold the headroom of the widest switch and a packet for each of its ports.
    pub(crate) fn check(plan: &Plan, network: &Network<'_>) -> Result<(), PlanError> {
        let Pause::Pfc { memory, .. } = plan.switch.pause else { return Ok(()) };
        let each = plan.data_size().max(plan.ack_size());
        let needs = |switch| -> Bytes {
            let ports = 0..network.ports(switch);
            let one: Bytes = ports.map(|port| headroom_of(plan, network, switch, port) + each).sum();
            one * u64::from(plan.switch.priorities)
        };
        let needed = (0..network.switches()).map(needs).max().unwrap_or(Bytes::ZERO);
        if needed > memory { Err(PlanError::Headroom { memory, needed }) } else { Ok(()) }
    }

    /// A packet that came in at `port` has to wait.
    pub(crate) fn hold(&mut self, switch: usize, port: usize, priority: u8, size: u64) -> Verdict {
        let (memory, used) = &mut self.shared[switch];
        let ingress = &mut self.ingress[port * self.priorities + usize::from(priority)];
        let free = memory.saturating_sub(*used);
        if !ingress.is_paused && size <= free && ingress.held + size <= self.alpha.of_floor(free) {
            *used += size;
            ingress.held += size;
            return Verdict::Holds;
        }
        if ingress.in_headroom + size > self.headroom[port] {
            return Verdict::Full;
        }
        ingress.held += size;
        ingress.in_headroom += size;
        if core::mem::replace(&mut ingress.is_paused, true) {
            Verdict::Holds
        } else {
            Verdict::HoldsAndPauses
        }
    }

    /// A packet that came in at `port` leaves; whether the peer may go on.
    pub(crate) fn release(&mut self, switch: usize, port: usize, priority: u8, size: u64) -> bool {
        let (memory, used) = &mut self.shared[switch];
        let ingress = &mut self.ingress[port * self.priorities + usize::from(priority)];
        let from_headroom = size.min(ingress.in_headroom);
        ingress.in_headroom -= from_headroom;
        *used -= size - from_headroom;
        ingress.held -= size;
        let limit = self.alpha.of_floor(memory.saturating_sub(*used));
        let is_low = ingress.held == 0 || ingress.held + self.resume <= limit;
        if ingress.is_paused && ingress.in_headroom == 0 && is_low {
            ingress.is_paused = false;
            return true;
        }
        false
    }

    /// The priorities of a port whose far end must be stopped.
    pub(crate) fn paused(&self, port: usize) -> u8 {
        let of_port = &self.ingress[port * self.priorities..(port + 1) * self.priorities];
        of_port
            .iter()
            .zip(0..)
            .fold(0, |mask, (ingress, priority)| mask | u8::from(ingress.is_paused) << priority)
    }
}

/// Headroom of one priority of a port. Where links change their rate: for the fastest that any ever is, and for what comes in at that
/// rate while a packet that was begun at the slowest is still in the way of the pause frame.
fn headroom_of(plan: &Plan, network: &Network<'_>, switch: u32, port: u32) -> Bytes {
    let mut link = network.behind(switch, port).0;
    let changes = plan.changes.iter().any(|change| matches!(change.what, LinkEvent::Rate(_)));
    let (Some(slowest), Some(fastest), true) = (network.rates().first(), network.rates().last(), changes)
    else {
        return plan.headroom(link);
    };
    link.rate = *fastest;
    let slow = slowest.send_time_ceil(plan.data_size().max(plan.ack_size()));
    let meanwhile = u128::from(slow.get()) * u128::from(fastest.get()) / 8_000_000_000_000;
    plan.headroom(link) + Bytes::new(u64::try_from(meanwhile).unwrap_or(u64::MAX))
}
