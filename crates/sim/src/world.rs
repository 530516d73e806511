//! What every node of a shard works with: the plan, the network, the packets, the calendar and the books.

use poseidon_plan::records::Kept;
use poseidon_plan::{Plan, Report};
use poseidon_types::HopStack;

use crate::calendar::Calendar;
use crate::exchange::{Mail, NEVER};
use crate::network::{Network, Wire, mix};
use crate::packet::{Arena, Kind, NONE, Packet};

/// Shared by all nodes of a shard: a part of the network that one thread runs.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: &'a Network,
    shard: u32,
    shards: u32,
    pub(crate) arena: Arena,
    pub(crate) stacks: Stacks,
    pub(crate) calendar: Calendar,
    pub(crate) report: Report,
    pub(crate) rows: Kept,
    /// What leaves for other shards, by shard.
    pub(crate) outbox: Vec<Vec<Mail>>,
    /// When the first of it arrives.
    first_mail: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, network: &'a Network, shard: u32, shards: u32) -> Self {
        let nodes = network.switches() + network.racks;
        Self {
            plan,
            network,
            shard,
            shards,
            arena: Arena::new(),
            stacks: Stacks::default(),
            calendar: Calendar::new(nodes, network.switches(), network.shortest()),
            report: Report::default(),
            rows: Kept::default(),
            outbox: (0..shards).map(|_| Vec::new()).collect(),
            first_mail: NEVER,
        }
    }

    /// The node of a rack of hosts.
    pub(crate) fn rack_node(&self, rack: u32) -> u32 {
        self.network.switches() + rack
    }

    /// Whether a node belongs to this shard.
    pub(crate) fn owns(&self, node: u32) -> bool {
        self.shards == 1 || self.network.shard_of(node, self.shards) == self.shard
    }

    /// Puts a packet on a wire at `now`; when the wire is free again.
    #[inline]
    pub(crate) fn transmit(&mut self, wire: Wire, id: u32, now: u64) -> u64 {
        let free = now + wire.send_time(self.arena[id].size);
        let time = free + wire.delay;
        self.report.packet_hops += 1;
        if self.owns(wire.node) {
            self.calendar.arrive(wire.node, wire.port, time, id);
        } else {
            self.post(wire, id, time);
        }
        free
    }

    /// Sends a packet to a node of another shard.
    fn post(&mut self, wire: Wire, id: u32, time: u64) {
        let packet = self.arena[id];
        let records = (packet.records != NONE).then(|| Box::new(*self.stacks.get(packet.records)));
        self.discard(id);
        self.first_mail = self.first_mail.min(time);
        let to = self.network.shard_of(wire.node, self.shards);
        self.outbox[to as usize].push(Mail { node: wire.node, port: wire.port, time, packet, records });
    }

    /// Takes a packet from another shard.
    pub(crate) fn receive(&mut self, mail: Mail) {
        let records = mail.records.map_or(NONE, |stack| self.stacks.add(*stack));
        let id = self.arena.add(Packet { records, ..mail.packet });
        self.calendar.arrive(mail.node, mail.port, mail.time, id);
    }

    /// The window in which this shard, or one that it has written to, next has something to do.
    pub(crate) fn next_window(&mut self) -> u64 {
        let mail = match core::mem::replace(&mut self.first_mail, NEVER) {
            NEVER => NEVER,
            time => self.calendar.window_of(time),
        };
        self.calendar.next().unwrap_or(NEVER).min(mail)
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
    pub(crate) fn add(&mut self, stack: HopStack) -> u32 {
        if let Some(id) = self.free.pop() {
            self.stacks[id as usize] = stack;
            return id;
        }
        self.stacks.push(stack);
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
