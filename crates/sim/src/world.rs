//! What every node works with: the plan, the network, the packets, the calendar and the books.

use poseidon_plan::records::Sink;
use poseidon_plan::{Plan, Report};
use poseidon_types::HopStack;

use crate::calendar::Calendar;
use crate::network::{Network, Wire, mix};
use crate::packet::{Arena, Kind, NONE, Packet};

/// Shared by all nodes of a run.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: Network,
    pub(crate) arena: Arena,
    pub(crate) stacks: Stacks,
    pub(crate) calendar: Calendar,
    pub(crate) report: Report,
    pub(crate) sink: &'a mut dyn Sink,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, sink: &'a mut dyn Sink) -> Self {
        let network = Network::new(plan);
        let nodes = network.switches() + network.racks;
        let calendar = Calendar::new(nodes, network.switches(), network.shortest());
        Self {
            plan,
            network,
            arena: Arena::new(),
            stacks: Stacks::default(),
            calendar,
            report: Report::default(),
            sink,
        }
    }

    /// The node of a rack of hosts.
    pub(crate) fn rack_node(&self, rack: u32) -> u32 {
        self.network.switches() + rack
    }

    /// Puts a packet on a wire at `now`; when the wire is free again.
    #[inline]
    pub(crate) fn transmit(&mut self, wire: Wire, id: u32, now: u64) -> u64 {
        let free = now + wire.send_time(self.arena[id].size);
        self.report.packet_hops += 1;
        self.calendar.arrive(wire.node, wire.port, free + wire.delay, id);
        free
    }

    /// Notes that a packet has reached its host. The sum does not depend on the order in which hosts are visited.
    pub(crate) fn note_delivery(&mut self, now: u64, packet: &Packet) {
        let what = (u64::from(packet.connection) << 32) | u64::from(packet.seq);
        let kind = u64::from(packet.kind == Kind::Ack) + 2 * u64::from(packet.marked);
        self.report.result_hash = self.report.result_hash.wrapping_add(mix(now ^ mix(what ^ mix(kind))));
    }

    /// Takes a packet out of the run, with its records.
    pub(crate) fn discard(&mut self, id: u32) {
        let records = self.arena[id].records;
        self.stacks.remove(records);
        self.arena.remove(id);
    }
}

/// The hop records of packets that carry them.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    stacks: Vec<HopStack>,
    free: Vec<u32>,
}

impl Stacks {
    pub(crate) fn add(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            self.stacks[id as usize] = HopStack::EMPTY;
            return id;
        }
        self.stacks.push(HopStack::EMPTY);
        u32::try_from(self.stacks.len() - 1).expect("fewer than 2^32 packets at once")
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut HopStack> {
        self.stacks.get_mut(id as usize)
    }

    pub(crate) fn get(&self, id: u32) -> &HopStack {
        static EMPTY: HopStack = HopStack::EMPTY;
        self.stacks.get(id as usize).unwrap_or(&EMPTY)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if id != NONE {
            self.free.push(id);
        }
    }
}
