//! The state shared by all nodes in a shard: plan, network, packets, calendar and counters.

mod capture;

use poseidon_plan::recording::Recording;
use poseidon_plan::records::{DropCause, DropRow, MemorySink};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::Pause;
use poseidon_plan::{Plan, Report};
use poseidon_types::{Bytes, Picos, PortId, SwitchId};

use crate::calendar::{Arrival, Calendar};
use crate::datagrams::DatagramArena;
use crate::exchange::{NEVER, Outbox};
use crate::hash::{hash_pair, splitmix64};
use crate::hop_records::RecordsId;
use crate::impairments::Impairments;
use crate::network::Network;
use crate::node::NodeId;
use crate::packet::{Packet, PacketArena, PacketId, PacketKind};
use crate::recorder::Recorder;
use crate::schedule::Schedule;
use crate::telemetry::Telemetry;
use crate::wire::{ImpairmentId, Wire};

/// The read-only state shared by all shards.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: Network<'a>,
    pub(crate) schedule: Schedule,
    pub(crate) recording: &'a Recording,
    pub(crate) wire_format_telemetry: bool,
    /// Creates the plan's real transport stacks. `None` if the plan has no stacks.
    pub(crate) stacks: Option<&'static dyn StackFactory>,
    /// Supplies the laws that are not in the registry.
    #[cfg(feature = "custom-laws")]
    pub(crate) custom_laws: Option<&'static dyn poseidon_laws::custom::CustomLaws>,
    pub(crate) shards: u32,
}

/// The state shared by all nodes in a shard. A shard is the part of the network that one thread simulates.
pub(crate) struct ShardContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) network: &'a Network<'a>,
    pub(crate) schedule: &'a Schedule,
    /// This shard's index.
    shard: u32,
    /// The number of shards.
    shards: u32,
    pub(crate) arena: PacketArena,
    pub(crate) datagrams: DatagramArena,
    /// Creates the plan's real transport stacks. `None` if the plan has no stacks.
    pub(crate) stacks: Option<&'static dyn StackFactory>,
    /// Supplies the laws that are not in the registry.
    #[cfg(feature = "custom-laws")]
    pub(crate) custom_laws: Option<&'static dyn poseidon_laws::custom::CustomLaws>,
    pub(crate) telemetry: Telemetry,
    pub(crate) calendar: Calendar,
    pub(crate) report: Report,
    pub(crate) rows: MemorySink,
    pub(crate) recorder: Recorder<'a>,
    pub(crate) impairments: Impairments,
    /// Whether the laws of watched connections are logged on every ACK.
    pub(crate) logs_acks: bool,
    /// Whether all packets stay in this shard, none is captured and no link is impaired.
    is_direct: bool,
    /// Packets for other shards, indexed by shard.
    pub(crate) outboxes: Vec<Outbox>,
    /// The earliest arrival time of any packet in `outboxes`, or [`Picos::MAX`].
    first_remote_arrival: Picos,
    /// The MTU. This and the following packet sizes are computed once.
    pub(crate) mtu: u16,
    pub(crate) data_overhead: u16,
    pub(crate) reply_size: u16,
    pub(crate) largest_packet: Bytes,
    /// Payload bytes that were dropped.
    dropped_bytes: u64,
    /// Payload bytes that reached their destination, including duplicates.
    pub(crate) arrived_bytes: u64,
    /// Packets that reached their destination. Each reply counts as a new packet.
    pub(crate) consumed_packets: u64,
}

impl<'a> ShardContext<'a> {
    pub(crate) fn new(setup: &'a Setup<'a>, shard: u32) -> Self {
        let Setup { plan, network, schedule, recording, wire_format_telemetry, stacks, shards, .. } = setup;
        let recorder = Recorder::new(recording, plan.watched_connections.len());
        let impairments = Impairments::new(plan, network);
        let nodes = network.switches() + network.racks;
        let narrow = |bytes: Bytes| u16::try_from(bytes.get()).expect("the plan was validated");
        let min_delay = network.min_delay_into_switch(plan.switch.pause != Pause::Off);
        Self {
            plan,
            network,
            schedule,
            shard,
            shards: *shards,
            arena: PacketArena::new(),
            datagrams: DatagramArena::default(),
            stacks: *stacks,
            #[cfg(feature = "custom-laws")]
            custom_laws: setup.custom_laws,
            telemetry: Telemetry::new(plan, *wire_format_telemetry, network.rates().clone()),
            calendar: Calendar::new(nodes, network.switches(), min_delay, plan.stop),
            report: Report::default(),
            rows: MemorySink::default(),
            logs_acks: plan.log_decisions || recorder.records_law_states(),
            is_direct: *shards == 1 && !recorder.captures_packets() && impairments.is_empty(),
            recorder,
            impairments,
            outboxes: (0..*shards).map(|_| Outbox::default()).collect(),
            first_remote_arrival: Picos::MAX,
            mtu: narrow(plan.transport.mtu),
            data_overhead: narrow(plan.data_overhead()),
            reply_size: narrow(plan.ack_size()),
            largest_packet: plan.data_size().max(plan.ack_size()),
            dropped_bytes: 0,
            arrived_bytes: 0,
            consumed_packets: 0,
        }
    }

    /// Returns whether a node belongs to this shard.
    #[inline]
    pub(crate) fn owns(&self, node: NodeId) -> bool {
        self.shards == 1 || self.network.shard_of(node, self.shards) == self.shard
    }

    /// Prefetches arriving packets and their hop records.
    #[inline]
    pub(crate) fn prefetch(&self, arrivals: &[Arrival]) {
        self.arena.prefetch(arrivals.iter().map(|arrival| arrival.packet()));
        if self.telemetry.has_records() {
            let records = arrivals.iter().map(|arrival| self.arena[arrival.packet()].records);
            self.telemetry.record_arena.prefetch(records);
        }
    }

    /// Sends a packet on a wire at `now`. Returns the time at which the wire becomes free.
    #[inline]
    pub(crate) fn transmit(&mut self, wire: &Wire, id: PacketId, now: Picos) -> Picos {
        let free_at = Picos::new(now.get() + wire.send_time(self.arena[id].size).get());
        self.deliver(wire, id, free_at + wire.delay, false);
        free_at
    }

    /// Sends a PFC frame on a wire at `now`. PFC frames skip the next switch's pipeline. Returns the time at
    /// which the wire becomes free.
    pub(crate) fn transmit_control(&mut self, wire: &Wire, id: PacketId, now: Picos) -> Picos {
        let free_at = Picos::new(now.get() + wire.send_time(self.arena[id].size).get());
        let pipeline = if self.network.is_switch(wire.peer) { self.network.pipeline } else { Picos::ZERO };
        self.deliver(wire, id, free_at + (wire.delay - pipeline), true);
        free_at
    }

    #[inline]
    fn deliver(&mut self, wire: &Wire, id: PacketId, time: Picos, is_control: bool) {
        self.report.packet_hops += 1;
        if self.is_direct {
            self.calendar.schedule_arrival(wire.peer, wire.peer_port(), time, id, is_control);
        } else {
            self.deliver_indirectly(wire, id, time, is_control);
        }
    }

    /// Delivers a packet in a run with several shards, captured packets or impaired links.
    fn deliver_indirectly(&mut self, wire: &Wire, id: PacketId, time: Picos, is_control: bool) {
        let mut arrival = time;
        if wire.impairment != ImpairmentId::NONE {
            let sent = time - wire.delay;
            match self.impairments.impair(wire.impairment, sent, time) {
                Some(delayed) => arrival = delayed,
                None => {
                    let departed = sent - wire.send_time(self.arena[id].size);
                    let (switch, port) = self.impairments.port(wire.impairment);
                    self.capture_drop(switch, port, id, departed, DropCause::Loss);
                    self.drop_packet(switch, id, departed, DropCause::Loss);
                    return;
                }
            }
        }
        if self.recorder.captures_packets() {
            self.capture_on_wire(wire, id, time, arrival, is_control);
        }
        if self.owns(wire.peer) {
            self.calendar.schedule_arrival(wire.peer, wire.peer_port(), arrival, id, is_control);
        } else {
            self.send_to_other_shard(wire, id, arrival);
        }
    }

    /// Moves a packet to another shard's outbox. The packet's queueing fields carry the arrival node, port
    /// and time.
    fn send_to_other_shard(&mut self, wire: &Wire, id: PacketId, time: Picos) {
        let packet = Packet {
            next: PacketId::new(wire.peer.get()),
            in_port: u16::try_from(wire.peer_port().get()).unwrap_or(u16::MAX),
            enqueued_at_ps: time.get(),
            ..self.arena[id]
        };
        let outbox = &mut self.outboxes[self.network.shard_of(wire.peer, self.shards) as usize];
        outbox.packets.push(packet);
        outbox.records.extend_from_slice(self.telemetry.record_arena.lines(packet.records));
        if packet.is_datagram() {
            outbox.datagrams.extend_from_slice(self.datagrams.bytes(packet.datagram_slot()));
        }
        self.first_remote_arrival = self.first_remote_arrival.min(time);
        self.discard(id);
    }

    /// Schedules the arrivals of packets received from other shards.
    pub(crate) fn receive_from_other_shards(&mut self, inbox: &Outbox) {
        let (mut lines, mut datagrams) = (inbox.records.as_slice(), inbox.datagrams.as_slice());
        for packet in &inbox.packets {
            let records = if packet.records == RecordsId::NONE {
                RecordsId::NONE
            } else {
                self.telemetry.record_arena.import(&mut lines)
            };
            let mut local = Packet { records, next: PacketId::NONE, ..*packet };
            if packet.is_datagram() {
                let slot = self.datagrams.import(&mut datagrams, packet.datagram_len() as usize);
                local = local.with_datagram(slot, packet.datagram_len());
            }
            let id = self.arena.insert(local);
            let node = NodeId::new(packet.next.get());
            let port = PortId::new(u32::from(packet.in_port));
            let is_control = packet.tag.kind() == PacketKind::Pause;
            self.calendar.schedule_arrival(node, port, Picos::new(packet.enqueued_at_ps), id, is_control);
        }
    }

    /// Returns the next window in which this shard, or any shard to which it sent packets, is active.
    pub(crate) fn next_window(&mut self) -> u64 {
        let remote = match core::mem::replace(&mut self.first_remote_arrival, Picos::MAX) {
            Picos::MAX => NEVER,
            time => self.calendar.window_of(time),
        };
        self.calendar.next_active_window().unwrap_or(NEVER).min(remote)
    }

    /// Returns the time of the next sample after `now` if it is before the end of the run.
    pub(crate) fn next_sample(&self, now: Picos) -> Option<Picos> {
        let next = now.checked_add(self.plan.sample_every)?;
        (next > now && next < self.plan.stop).then_some(next)
    }

    /// Adds a packet's arrival at its host to the result hash. The hash is a sum, so it does not depend on
    /// host order.
    #[inline(always)]
    pub(crate) fn hash_delivery(&mut self, now: Picos, packet: &Packet) {
        let kind = packet.tag.kind() as u64 + 8 * u64::from(packet.tag.is_marked());
        let identity = hash_pair(packet.connection, packet.seq) ^ kind;
        let delivery = splitmix64(now.get() ^ splitmix64(identity));
        self.report.result_hash = self.report.result_hash.wrapping_add(delivery);
    }

    /// Adds a datagram's arrival at its host to the result hash. The bytes do not count, because encryption may
    /// change them from run to run.
    pub(crate) fn hash_datagram(&mut self, now: Picos, packet: &Packet) {
        let kind = packet.tag.kind() as u64 + 8 * u64::from(packet.tag.is_marked());
        let shape = kind ^ u64::from(packet.size) << 8;
        let identity = hash_pair(packet.connection, packet.seq) ^ splitmix64(shape);
        let delivery = splitmix64(now.get() ^ splitmix64(identity));
        self.report.result_hash = self.report.result_hash.wrapping_add(delivery);
    }

    /// Returns a packet's payload size. Only data packets and datagrams have a payload. A datagram's payload
    /// includes the headers of its stack.
    pub(crate) fn payload(&self, packet: &Packet) -> u64 {
        match packet.tag.kind() {
            PacketKind::Data => u64::from(packet.size - self.data_overhead),
            PacketKind::Datagram => u64::from(packet.datagram_len()),
            PacketKind::Ack
            | PacketKind::Nack
            | PacketKind::Cnp
            | PacketKind::Pause
            | PacketKind::PendingAck
            | PacketKind::Trimmed => 0,
        }
    }

    /// Drops a packet at a switch.
    pub(crate) fn drop_packet(&mut self, switch: SwitchId, id: PacketId, now: Picos, cause: DropCause) {
        let packet = &self.arena[id];
        self.rows.drops.push(DropRow {
            time: now,
            switch,
            connection: packet.connection(),
            packet: packet.seq,
            cause,
        });
        self.dropped_bytes += self.payload(packet);
        self.report.dropped += 1;
        self.discard(id);
    }

    /// Frees a packet, its hop records and its datagram.
    pub(crate) fn discard(&mut self, id: PacketId) {
        let packet = &self.arena[id];
        self.telemetry.record_arena.free(packet.records);
        if packet.is_datagram() {
            self.datagrams.free(packet.datagram_slot());
        }
        self.arena.remove(id);
    }

    /// Returns the number of packets in the network and their total payload.
    pub(crate) fn in_flight(&self) -> (u64, u64) {
        let is_in_flight =
            |packet: &&Packet| !matches!(packet.tag.kind(), PacketKind::Pause | PacketKind::PendingAck);
        let packets = self.arena.live().filter(is_in_flight);
        packets.fold((0, 0), |(packets, bytes), packet| (packets + 1, bytes + self.payload(packet)))
    }

    /// Returns the packets and payload bytes created in this shard, minus those dropped, trimmed, consumed or
    /// still in flight in this shard. The sum over all shards is zero.
    pub(crate) fn conservation_balance(&self) -> (i128, i128) {
        let (packets, bytes) = self.in_flight();
        let created = i128::from(self.report.sent) + i128::from(self.report.replies);
        let ended = i128::from(self.report.dropped) + i128::from(self.consumed_packets) + i128::from(packets);
        let ended_bytes = i128::from(self.dropped_bytes)
            + i128::from(self.report.trimmed_bytes.get())
            + i128::from(self.arrived_bytes)
            + i128::from(bytes);
        (created - ended, i128::from(self.report.sent_bytes.get()) - ended_bytes)
    }
}
