//! What every node of a shard works with: the plan, the network, the packets, the calendar and the books.

use poseidon_plan::records::{DropCause, DropRow, Kept};
use poseidon_plan::switch::Pause;
use poseidon_plan::{Plan, Report};
use poseidon_types::{Bytes, Picos};

use crate::calendar::{Arrival, Calendar};
use crate::chance::{mix, mix_two};
use crate::exchange::{Mail, NEVER};
use crate::network::Network;
use crate::packet::{Arena, Kind, NONE, Packet};
use crate::schedule::Schedule;
use crate::stamp::Telemetry;
use crate::wire::Wire;

/// What all shards share.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: Network<'a>,
    pub(crate) schedule: Schedule,
    pub(crate) through_bytes: bool,
    pub(crate) shards: u32,
}

/// Shared by all nodes of a shard: a part of the network that one thread runs.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: &'a Network<'a>,
    pub(crate) schedule: &'a Schedule,
    shard: u32,
    shards: u32,
    pub(crate) arena: Arena,
    pub(crate) telemetry: Telemetry,
    pub(crate) calendar: Calendar,
    pub(crate) report: Report,
    pub(crate) rows: Kept,
    /// What leaves for other shards, by shard.
    pub(crate) outbox: Vec<Mail>,
    /// When the first of it arrives.
    first_mail: u64,
    /// Sizes in bytes, worked out once.
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    pub(crate) reply_size: u16,
    pub(crate) largest: Bytes,
    /// Payload that was dropped, and that arrived, every time it did.
    dropped_bytes: u64,
    pub(crate) arrived_bytes: u64,
    /// Packets that hosts took in, other than those that became replies.
    pub(crate) absorbed: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(setup: &'a Setup<'a>, shard: u32) -> Self {
        let Setup { plan, network, schedule, through_bytes, shards } = setup;
        let nodes = network.switches() + network.racks;
        let small = |bytes: Bytes| u16::try_from(bytes.get()).expect("the plan was checked");
        let shortest = network.shortest(plan.switch.pause != Pause::Off);
        Self {
            plan,
            network,
            schedule,
            shard,
            shards: *shards,
            arena: Arena::new(),
            telemetry: Telemetry::new(plan.switch.stamp, *through_bytes, network.rates().to_vec()),
            calendar: Calendar::new(nodes, network.switches(), shortest, plan.stop.get()),
            report: Report::default(),
            rows: Kept::default(),
            outbox: (0..*shards).map(|_| Mail::default()).collect(),
            first_mail: NEVER,
            mtu: small(plan.transport.mtu),
            overhead: small(plan.data_overhead()),
            reply_size: small(plan.ack_size()),
            largest: plan.data_size().max(plan.ack_size()),
            dropped_bytes: 0,
            arrived_bytes: 0,
            absorbed: 0,
        }
    }

    /// Whether a node belongs to this shard.
    #[inline]
    pub(crate) fn owns(&self, node: u32) -> bool {
        self.shards == 1 || self.network.shard_of(node, self.shards) == self.shard
    }

    /// Brings packets that are about to be handled, and what they carry, into the cache.
    #[inline]
    pub(crate) fn touch(&self, arrivals: &[Arrival]) {
        self.arena.touch(arrivals.iter().map(|arrival| arrival.packet()));
        if self.telemetry.has_sides() {
            self.telemetry.sides.touch(arrivals.iter().map(|arrival| self.arena[arrival.packet()].records));
        }
    }

    /// Puts a packet on a wire at `now`; when the wire is free again.
    #[inline]
    pub(crate) fn transmit(&mut self, wire: &Wire, id: u32, now: u64) -> u64 {
        let free = now + wire.send_time(self.arena[id].size);
        self.deliver(wire, id, free.saturating_add(wire.delay), false);
        free
    }

    /// The same for flow control, which is handled where it comes in: it does not pass the pipeline.
    pub(crate) fn transmit_control(&mut self, wire: &Wire, id: u32, now: u64) -> u64 {
        let free = now + wire.send_time(self.arena[id].size);
        let pipeline = if wire.node < self.network.switches() { self.network.pipeline } else { 0 };
        self.deliver(wire, id, free.saturating_add(wire.delay - pipeline), true);
        free
    }

    #[inline]
    fn deliver(&mut self, wire: &Wire, id: u32, time: u64, is_control: bool) {
        self.report.packet_hops += 1;
        if self.owns(wire.node) {
            self.calendar.arrive(wire.node, u32::from(wire.port), time, id, is_control);
        } else {
            self.post(wire, id, time);
        }
    }

    /// Sends a packet to a node of another shard. On the way, fields that only a node uses say where and when it arrives.
    fn post(&mut self, wire: &Wire, id: u32, time: u64) {
        let packet = Packet { next: wire.node, in_port: wire.port, enqueued_at: time, ..self.arena[id] };
        let mail = &mut self.outbox[self.network.shard_of(wire.node, self.shards) as usize];
        mail.packets.push(packet);
        mail.sides.extend_from_slice(self.telemetry.sides.lines(packet.records));
        self.first_mail = self.first_mail.min(time);
        self.discard(id);
    }

    /// Takes packets from another shard.
    pub(crate) fn receive(&mut self, mail: &Mail) {
        let mut sides = mail.sides.as_slice();
        for packet in &mail.packets {
            let records =
                if packet.records == NONE { NONE } else { self.telemetry.sides.take_in(&mut sides) };
            let id = self.arena.add(Packet { records, next: NONE, ..*packet });
            let (port, is_control) = (u32::from(packet.in_port), packet.tag.kind() == Kind::Pause);
            self.calendar.arrive(packet.next, port, packet.enqueued_at, id, is_control);
        }
    }

    /// The window in which this shard, or one that it has written to, next has something to do.
    pub(crate) fn next_window(&mut self) -> u64 {
        let mail = match core::mem::replace(&mut self.first_mail, NEVER) {
            NEVER => NEVER,
            time => self.calendar.window_of(time),
        };
        self.calendar.next().unwrap_or(NEVER).min(mail)
    }

    /// When the next sample after `now` is due, ps, if that is before the run ends.
    pub(crate) fn next_sample(&self, now: u64) -> Option<u64> {
        let next = now.checked_add(self.plan.sample_every.get())?;
        (next > now && next < self.plan.stop.get()).then_some(next)
    }

    /// Notes that a packet has reached its host. The sum does not depend on the order in which hosts are visited.
    pub(crate) fn note_delivery(&mut self, now: u64, packet: &Packet) {
        let kind = packet.tag.kind() as u64 + 8 * u64::from(packet.tag.is_marked());
        let what = mix_two(packet.connection, packet.seq) ^ kind;
        self.report.result_hash = self.report.result_hash.wrapping_add(mix(now ^ mix(what)));
    }

    /// Payload of a data packet.
    pub(crate) fn payload(&self, packet: &Packet) -> u64 {
        match packet.tag.kind() {
            Kind::Data => u64::from(packet.size - self.overhead),
            Kind::Ack | Kind::Nack | Kind::Notice | Kind::Pause | Kind::Held | Kind::Free => 0,
        }
    }

    /// A switch drops a packet.
    pub(crate) fn drop(&mut self, switch: u32, id: u32, now: u64, cause: DropCause) {
        let packet = &self.arena[id];
        self.rows.drops.push(DropRow {
            at: Picos::new(now),
            switch,
            connection: packet.connection,
            packet: packet.seq,
            cause,
        });
        self.dropped_bytes += self.payload(packet);
        self.report.dropped += 1;
        self.discard(id);
    }

    /// Takes a packet out of the run, with what it carries.
    pub(crate) fn discard(&mut self, id: u32) {
        self.telemetry.sides.remove(self.arena[id].records);
        self.arena.remove(id);
    }

    /// What is on the way: packets and payload.
    pub(crate) fn in_flight(&self) -> (u64, u64) {
        let packets =
            self.arena.live().filter(|packet| !matches!(packet.tag.kind(), Kind::Pause | Kind::Held));
        packets.fold((0, 0), |(packets, bytes), packet| (packets + 1, bytes + self.payload(packet)))
    }

    /// The books of this shard: packets and payload that came into being here, less what went.
    pub(crate) fn books(&self) -> (i128, i128) {
        let (packets, bytes) = self.in_flight();
        let made = i128::from(self.report.sent) + i128::from(self.report.replies);
        let gone = i128::from(self.report.dropped) + i128::from(self.absorbed) + i128::from(packets);
        let gone_bytes = i128::from(self.dropped_bytes) + i128::from(self.arrived_bytes) + i128::from(bytes);
        (made - gone, i128::from(self.report.sent_bytes.get()) - gone_bytes)
    }
}
