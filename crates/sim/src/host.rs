//! Hosts, a rack at a time: the transport around a law.
//!
//! A host's wire serves ACKs first and then, in turn, the connections that may send. A connection may send when it has
//! data, its window has room and its pacing allows it; it is asked again when an ACK or a timer changes any of that.

use core::cmp::Reverse;
use poseidon_laws::{Ack, Loss, Pacing};
use poseidon_plan::records::MessageRow;
use poseidon_plan::switch::{Carrier, Stamp};
use poseidon_plan::transport::Eligibility;
use poseidon_types::{Bytes, HopPath, HopStack, MaxHopDelay, Nanos, Packets, Picos, Signals, Wrap};
use poseidon_wire::shim;
use std::collections::{BinaryHeap, VecDeque};

use crate::connection::{Receiver, Sender, Sending};
use crate::network::{low_half, mix};
use crate::packet::{Fifo, Kind, NONE, Packet};
use crate::world::World;

/// The two ends of all connections.
pub(crate) struct Ends {
    pub(crate) senders: Vec<Option<Box<Sender>>>,
    pub(crate) receivers: Vec<Receiver>,
}

/// A rack of hosts.
#[derive(Debug)]
pub(crate) struct Rack {
    rack: u32,
    hosts: Vec<Host>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// The messages its hosts will send, in order of time, last first.
    messages: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Host {
    /// When its wire is free.
    free_at: u64,
    /// Whether a timer waits for that.
    waits: bool,
    acks: Fifo,
    /// Connections that may send, in turn.
    ready: VecDeque<u32>,
}

/// What a timer is for. The order decides between timers of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The wire of the host at this place is free.
    Wire(u32),
    /// A connection's pacing or timeout.
    Connection(u32),
    /// The next message is handed over.
    Message,
}

impl Rack {
    pub(crate) fn new(world: &World<'_>, rack: u32) -> Self {
        let idle = Host { free_at: 0, waits: false, acks: Fifo::EMPTY, ready: VecDeque::new() };
        Self {
            rack,
            hosts: vec![idle; world.network.hosts_per_rack as usize],
            timers: BinaryHeap::new(),
            messages: Vec::new(),
        }
    }

    /// Gives the rack the messages of its hosts, in order of time.
    pub(crate) fn start(&mut self, world: &mut World<'_>, mut messages: Vec<u32>) {
        messages.reverse();
        self.messages = messages;
        self.arm_message(world);
        self.arm_visit(world);
    }

    /// Everything that happens in this rack in the present window, in order of time.
    pub(crate) fn visit(&mut self, world: &mut World<'_>, ends: &mut Ends) {
        let node = world.rack_node(self.rack);
        let batch = world.calendar.take_batch(node);
        let (begins, stops) = (world.calendar.begins(), world.calendar.ends());
        let mut arrivals = batch.iter();
        loop {
            let timer = self.timers.peek().map(|Reverse(timer)| *timer).filter(|(time, _)| *time < stops);
            let arrival = arrivals.as_slice().first().map(|arrival| begins + arrival.offset());
            match (timer, arrival) {
                (Some((now, timer)), arrival) if arrival.is_none_or(|at| now <= at) => {
                    self.timers.pop();
                    self.on_timer(world, ends, timer, now);
                }
                (_, Some(now)) => {
                    let arrival = *arrivals.next().expect("it was there a moment ago");
                    self.on_packet(world, ends, arrival.port(), arrival.packet(), now);
                }
                (_, None) => break,
            }
        }
        self.arm_visit(world);
        world.calendar.give_back_batch(node, batch);
    }

    fn arm_visit(&self, world: &mut World<'_>) {
        if let Some(Reverse((time, _))) = self.timers.peek() {
            world.calendar.wake(world.rack_node(self.rack), *time);
        }
    }

    fn arm_message(&mut self, world: &World<'_>) {
        if let Some(message) = self.messages.last() {
            let at = world.plan.messages[*message as usize].at.get();
            self.timers.push(Reverse((at, Timer::Message)));
        }
    }

    fn on_timer(&mut self, world: &mut World<'_>, ends: &mut Ends, timer: Timer, now: u64) {
        match timer {
            Timer::Wire(place) => {
                self.hosts[place as usize].waits = false;
                self.send_next(world, ends, place, now);
            }
            Timer::Connection(connection) => self.on_connection_timer(world, ends, connection, now),
            Timer::Message => {
                if let Some(message) = self.messages.pop() {
                    self.hand_over(world, ends, message, now);
                }
                self.arm_message(world);
            }
        }
    }

    /// The application hands over a message.
    fn hand_over(&mut self, world: &mut World<'_>, ends: &mut Ends, index: u32, now: u64) {
        let plan = world.plan;
        let message = plan.messages[index as usize];
        let connection = plan.connections[message.connection as usize];
        let sender = ends.senders[message.connection as usize].get_or_insert_with(|| {
            let law = plan.laws[connection.law as usize]
                .build(&plan.path(&connection), supplies(plan.switch.stamp))
                .expect("the plan was checked");
            Box::new(Sender::new(law))
        });
        let mtu = plan.transport.mtu.get();
        let size = message.size.map_or(u64::MAX, Bytes::get);
        let room = u32::MAX - sender.end();
        let packets = u32::try_from(size.div_ceil(mtu)).unwrap_or(u32::MAX).min(room);
        if packets == 0 {
            // A message without an end is in front of it: its turn never comes.
            return;
        }
        let last = size - (u64::from(packets) - 1) * mtu;
        sender.messages.push_back(Sending {
            message: index,
            end: sender.end() + packets,
            last_payload: u16::try_from(last.min(mtu)).expect("an MTU fits 16 bits"),
            start: message.at,
            size: Bytes::new(size),
            retransmitted: 0,
        });
        self.make_ready(world, ends, message.connection, now);
    }

    fn on_packet(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, id: u32, now: u64) {
        let packet = world.arena[id];
        world.note_delivery(now, &packet);
        match packet.kind {
            Kind::Data => self.on_data(world, ends, place, id, now),
            Kind::Ack => self.on_ack(world, ends, id, now),
        }
    }

    /// A data packet has arrived: it becomes its own ACK.
    fn on_data(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, id: u32, now: u64) {
        let data = world.arena[id];
        let connection = world.plan.connections[data.connection as usize];
        let receiver = &mut ends.receivers[data.connection as usize];
        world.report.delivered += 1;
        if receiver.receive(data.seq) {
            world.report.delivered_bytes += Bytes::new(u64::from(data.size)) - world.plan.data_overhead();
        }
        let back = world.network.place(connection.from);
        world.arena[id] = Packet {
            enqueued_at: now,
            cumulative: receiver.cumulative,
            to_rack: back.rack,
            to_place: back.place,
            to_pod: back.pod,
            // The way back is hashed apart from the way there.
            entropy: !data.entropy,
            own_delay: 0,
            own_hops: 0,
            reflected_delay: data.own_delay,
            reflected_hops: data.own_hops,
            size: u16::try_from(world.plan.ack_size().get()).expect("checked"),
            kind: Kind::Ack,
            ..data
        };
        self.hosts[place as usize].acks.push(&mut world.arena, id);
        self.send_next(world, ends, place, now);
    }

    /// An ACK has arrived: the law decides.
    fn on_ack(&mut self, world: &mut World<'_>, ends: &mut Ends, id: u32, now: u64) {
        let ack = world.arena[id];
        let mtu = world.plan.transport.mtu;
        let Some(sender) = ends.senders[ack.connection as usize].as_mut() else {
            world.discard(id);
            return;
        };
        let before = Packets::whole(u64::from(sender.in_flight));
        let acked = sender.acknowledge(ack.seq, ack.cumulative);
        let rtt = (now - ack.sent_at) / 1_000;
        sender.srtt = if sender.srtt == 0 { rtt } else { (3 * sender.srtt + rtt) / 4 };
        let bytes = mtu * u64::from(acked.packets);
        let stamp = world.plan.switch.stamp;
        let window = sender.law.decision().window;
        sender.law.on_ack(&Ack {
            now: Nanos::new(now / 1_000),
            rtt: Nanos::new(rtt),
            packets: acked.packets,
            bytes,
            marked: if ack.marked { bytes } else { Bytes::ZERO },
            acked_seq: u64::from(sender.una) * mtu.get(),
            next_seq: u64::from(sender.next) * mtu.get(),
            max_hop_delay: read(stamp, ack.reflected_hops, ack.reflected_delay),
            reverse_max_hop_delay: read(stamp, ack.own_hops, ack.own_delay),
            hops: HopPath { records: world.stacks.get(ack.records).as_slice(), wrap: Wrap::NEVER },
            hop_count: ack.switches,
            // Less than half of the window was in use when the ACK arrived.
            app_limited: before.q24() * 2 < window.q24(),
            chance: low_half(mix(
                world.plan.seed ^ mix((u64::from(ack.connection) << 32) | u64::from(ack.seq))
            )),
            ..Ack::EMPTY
        });
        world.report.decisions += 1;
        world.report.decisions_with_telemetry += u64::from(ack.reflected_hops > 0);
        if acked.found_loss {
            sender.law.on_loss(&Loss { now: Nanos::new(now / 1_000) });
        }
        sender.deadline = now + timeout(world, sender);
        while let Some(message) = sender.messages.front().filter(|message| message.end <= sender.una) {
            world.rows.messages.push(MessageRow {
                message: message.message,
                start: message.start,
                acknowledged: Picos::new(now),
                size: message.size,
                retransmitted: message.retransmitted,
            });
            sender.messages.pop_front();
        }
        world.discard(id);
        self.make_ready(world, ends, ack.connection, now);
    }

    fn on_connection_timer(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        // A later timer has replaced this one.
        if sender.timer != now {
            return;
        }
        sender.timer = u64::MAX;
        if sender.in_flight > 0 && now >= sender.deadline {
            sender.time_out();
            sender.law.on_timeout(Nanos::new(now / 1_000));
            sender.deadline = now + timeout(world, sender);
        }
        self.make_ready(world, ends, connection, now);
    }

    /// Something has changed for a connection: it may send now, or its timers move.
    fn make_ready(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        let from = world.plan.connections[connection as usize].from;
        let place = from % world.network.hosts_per_rack;
        self.take_turn(world, sender, connection, place, now);
        if sender.in_flight > 0 {
            self.arm_connection(sender, connection, sender.deadline);
        }
        self.send_next(world, ends, place, now);
    }

    /// A connection that has something to send and room for it gets in line, or waits for its pacing.
    fn take_turn(&mut self, world: &World<'_>, sender: &mut Sender, connection: u32, place: u32, now: u64) {
        if !sender.has_data() || !has_room(world, sender) {
            return;
        }
        if sender.next_send > now {
            self.arm_connection(sender, connection, sender.next_send);
        } else if !sender.is_ready {
            sender.is_ready = true;
            self.hosts[place as usize].ready.push_back(connection);
        }
    }

    /// Sets a connection's timer, unless an earlier one is set: when that fires, it is set anew.
    fn arm_connection(&mut self, sender: &mut Sender, connection: u32, at: u64) {
        if at < sender.timer {
            sender.timer = at;
            self.timers.push(Reverse((at, Timer::Connection(connection))));
        }
    }

    /// If a host's wire is free, the next packet leaves: an ACK, or one packet of the next connection in turn.
    fn send_next(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, now: u64) {
        let host = &mut self.hosts[place as usize];
        if host.free_at <= now {
            let id = match host.acks.pop(&world.arena) {
                Some(id) => {
                    // The time an ACK waits for the wire is the host's, not the network's.
                    let ack = &mut world.arena[id];
                    ack.sent_at += now - ack.enqueued_at;
                    Some(id)
                }
                None => self.send_data(world, ends, place, now),
            };
            if let Some(id) = id {
                let wire = *world.network.host_wire(self.rack * world.network.hosts_per_rack + place);
                self.hosts[place as usize].free_at = world.transmit(wire, id, now);
            }
        }
        let host = &mut self.hosts[place as usize];
        if !host.waits && host.free_at > now && !(host.acks.is_empty() && host.ready.is_empty()) {
            host.waits = true;
            self.timers.push(Reverse((host.free_at, Timer::Wire(place))));
        }
    }

    /// Makes a packet of the first connection in turn that may still send.
    fn send_data(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, now: u64) -> Option<u32> {
        while let Some(connection) = self.hosts[place as usize].ready.pop_front() {
            let Some(sender) = ends.senders[connection as usize].as_mut() else { continue };
            sender.is_ready = false;
            if !has_room(world, sender) || sender.next_send > now {
                continue;
            }
            let Some(seq) = sender.take_next() else { continue };
            let id = new_packet(world, sender, connection, seq, now);
            sender.next_send = now + spacing(sender, world.arena[id].size);
            if sender.in_flight == 1 {
                sender.deadline = now + timeout(world, sender);
            }
            self.arm_connection(sender, connection, sender.deadline);
            self.take_turn(world, sender, connection, place, now);
            return Some(id);
        }
        None
    }
}

/// What a host tells a law, with switches that stamp like this.
pub(crate) fn supplies(stamp: Stamp) -> Signals {
    let telemetry = match stamp {
        Stamp::Off => Signals::NONE,
        Stamp::MaxHopDelay(_) => Signals::MAX_HOP_DELAY | Signals::REVERSE_MAX_HOP_DELAY,
        Stamp::HopRecords => Signals::HOP_RECORDS,
    };
    Signals::RTT | Signals::ECN_ECHO | Signals::HOP_COUNT | telemetry
}

/// What a host reads of the largest hop delay, after whatever carried it. Hops compare codes, but the code of the largest
/// delay is the largest code, so it is enough to pass the value through the carrier once.
fn read(stamp: Stamp, hops: u8, delay: u32) -> Option<Nanos> {
    let measured = MaxHopDelay { worst: Nanos::new(u64::from(delay)), hops, ..MaxHopDelay::default() };
    match stamp {
        Stamp::MaxHopDelay(Carrier::Shim) => shim::QUANTISER.carry(measured).delay(),
        Stamp::MaxHopDelay(Carrier::Exact) | Stamp::HopRecords | Stamp::Off => measured.delay(),
    }
}

fn new_packet(world: &mut World<'_>, sender: &Sender, connection: u32, seq: u32, now: u64) -> u32 {
    let plan = world.plan;
    let ends = plan.connections[connection as usize];
    let mtu = u16::try_from(plan.transport.mtu.get()).expect("checked");
    let header = u16::try_from(plan.data_overhead().get()).expect("checked");
    let to = world.network.place(ends.to);
    let records =
        if plan.switch.stamp == Stamp::HopRecords { world.stacks.add(HopStack::EMPTY) } else { NONE };
    world.report.sent += 1;
    world.arena.add(Packet {
        sent_at: now,
        connection,
        seq,
        to_rack: to.rack,
        to_place: to.place,
        to_pod: to.pod,
        entropy: low_half(mix(
            (u64::from(ends.from) << 32 | u64::from(ends.to)) ^ mix(u64::from(ends.entropy))
        )),
        size: sender.payload(seq, mtu) + header,
        records,
        ..Packet::EMPTY
    })
}

/// Whether the window has room for one more packet.
fn has_room(world: &World<'_>, sender: &Sender) -> bool {
    let window = sender.law.decision().window;
    // Below one packet, one at a time; pacing spaces them.
    if window < Packets::ONE {
        return sender.in_flight == 0;
    }
    match world.plan.transport.eligibility {
        Eligibility::Floor => Packets::whole(u64::from(sender.in_flight) + 1) <= window,
        Eligibility::Ceil => Packets::whole(u64::from(sender.in_flight)) < window,
    }
}

/// How long the next packet waits after one of `size` bytes, ps.
fn spacing(sender: &Sender, size: u16) -> u64 {
    match sender.law.decision().pacing {
        Pacing::Off => 0,
        Pacing::Gap(gap) => Picos::from_nanos(gap).get(),
        Pacing::Rate(rate) => rate.send_time_ceil(Bytes::new(u64::from(size))).get(),
    }
}

/// How long silence may last, ps: the configured minimum, or twice the smoothed round trip and the pacing gap.
fn timeout(world: &World<'_>, sender: &Sender) -> u64 {
    let gap = match sender.law.decision().pacing {
        Pacing::Gap(gap) => gap,
        Pacing::Off | Pacing::Rate(_) => Nanos::ZERO,
    };
    let wait = world.plan.transport.min_rto.max(Nanos::new(2 * sender.srtt) + gap);
    Picos::from_nanos(wait).get()
}
