//! Hosts, a rack at a time: the transport around a law.
//!
//! A host's wire serves its lanes by priority, and in each lane replies first and then, in turn, the connections that may send. A
//! connection may send when it has data, its window has room and its pacing allows it; it is asked again when a reply or a
//! timer changes any of that.

use core::cmp::Reverse;
use poseidon_laws::parts::plb::PlbAck;
use poseidon_laws::{Ack, Loss, Pacing};
use poseidon_plan::records::{DecisionRow, MessageRow, ReceivedRow, ReceiverRow, SenderRow};
use poseidon_plan::traffic::{Amount, Connection, Event};
use poseidon_plan::transport::{Echo, Eligibility, Recovery, Spread};
use poseidon_types::{Bytes, Nanos, Packets, Picos};
use std::collections::{BinaryHeap, VecDeque};

use crate::chance::{low_half, mix, mix_two};
use crate::connection::{Acked, Sender, Sending};
use crate::packet::{Fifo, Kind, NONE, Packet, Tag};
use crate::reply::{Receiver, Reply};
use crate::schedule::{last_payload, waiting_for};
use crate::wire::Wire;
use crate::world::World;

/// How many arrivals ahead a packet is touched, so that it is in the cache when its turn comes.
const AHEAD: usize = 8;

/// The two ends of all connections, and which messages wait for which.
pub(crate) struct Ends {
    senders: Vec<Option<Box<Sender>>>,
    receivers: Vec<Receiver>,
    /// By message: how many others it still waits for. Empty where none waits.
    waits_for: Vec<u32>,
    /// By message: whether its time has come before its turn. Empty where none waits.
    is_early: Vec<bool>,
}

impl Ends {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let connections = world.plan.connections.len();
        let waits_for = world.schedule.waits_for.clone();
        Self {
            senders: (0..connections).map(|_| None).collect(),
            receivers: vec![Receiver::NEW; connections],
            is_early: vec![false; waits_for.len()],
            waits_for,
        }
    }

    /// Brings the end that a packet is for into the cache.
    #[inline]
    fn touch(&self, packet: &Packet) {
        let connection = packet.connection as usize;
        if packet.tag.kind() == Kind::Data {
            core::hint::black_box(self.receivers.get(connection).map(|receiver| receiver.cumulative));
        } else if let Some(Some(sender)) = self.senders.get(connection) {
            core::hint::black_box((sender.una, sender.srtt));
        }
    }

    /// Writes down one end of a connection, as it is before what happens at `now`.
    fn sample(&self, world: &mut World<'_>, watched: Watched, now: u64) {
        let at = Picos::new(now);
        match watched {
            Watched::Sender(connection) => {
                if let Some(sender) = &self.senders[connection as usize] {
                    world.rows.senders.push(SenderRow {
                        at,
                        connection,
                        window: sender.decision.window,
                        in_flight: sender.in_flight,
                        srtt: Nanos::new(sender.srtt),
                    });
                }
            }
            Watched::Receiver(connection) => {
                let received = Bytes::new(self.receivers[connection as usize].bytes);
                world.rows.receivers.push(ReceiverRow { at, connection, received });
            }
        }
    }
}

/// One end of a watched connection.
#[derive(Clone, Copy, Debug)]
enum Watched {
    Sender(u32),
    Receiver(u32),
}

/// A rack of hosts.
#[derive(Debug)]
pub(crate) struct Rack {
    rack: u32,
    hosts: Vec<Host>,
    /// By host and priority.
    lanes: Vec<Lane>,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// The messages that its hosts will send without waiting for others, in order of time, last first.
    messages: Vec<u32>,
    /// The ends of watched connections that are here.
    watched: Vec<Watched>,
}

#[derive(Clone, Debug)]
struct Host {
    wire: Wire,
    /// When its wire is free.
    free_at: u64,
    /// Whether a timer waits for that.
    waits: bool,
    /// The priorities that its switch has stopped.
    stopped: u8,
}

#[derive(Clone, Debug)]
struct Lane {
    replies: Fifo,
    /// Connections that may send, in turn.
    ready: VecDeque<u32>,
}

/// What a timer is for. The order decides between timers of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Watched connections are written down.
    Sample,
    /// Something happens to the link of a host.
    Change(u32),
    /// The wire of the host at this place is free.
    Wire(u32),
    /// A connection's pacing lets the next packet go.
    Pace(u32),
    /// A connection has heard nothing for long.
    Silence(u32),
    /// What a receiver holds is acknowledged.
    Reply(u32),
    /// A message without a size ends.
    Stop(u32),
    /// The next message of the rack's list is handed over.
    Message,
    /// A message that waited for others is handed over.
    Late(u32),
}

impl Rack {
    pub(crate) fn new(world: &World<'_>, rack: u32) -> Self {
        let hosts = world.network.hosts_in(rack);
        let lanes = hosts.len() * usize::from(world.plan.switch.priorities);
        let host = |host| Host { wire: world.network.host_wire(host), free_at: 0, waits: false, stopped: 0 };
        Self {
            rack,
            hosts: hosts.map(host).collect(),
            lanes: vec![Lane { replies: Fifo::EMPTY, ready: VecDeque::new() }; lanes],
            timers: BinaryHeap::new(),
            messages: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Gives the rack the messages of its hosts, in order of time, and the changes of their links.
    pub(crate) fn start(&mut self, world: &mut World<'_>, mut messages: Vec<u32>) {
        messages.reverse();
        self.messages = messages;
        self.arm_message(world);
        let node = world.network.rack_node(self.rack);
        for (index, change) in (0..).zip(&world.plan.changes) {
            if world.network.behind(change.switch, change.port).1 == node {
                self.timers.push(Reverse((change.at.get(), Timer::Change(index))));
            }
        }
        for connection in &world.plan.watched_connections {
            let ends = world.plan.connections[*connection as usize];
            let is_here = |host| world.network.place(host).rack == self.rack;
            self.watched.extend(is_here(ends.from).then_some(Watched::Sender(*connection)));
            self.watched.extend(is_here(ends.to).then_some(Watched::Receiver(*connection)));
        }
        self.arm_sample(world, 0);
        self.arm_visit(world);
    }

    /// Writes down the watched connections.
    pub(crate) fn sample(&self, world: &mut World<'_>, ends: &Ends, now: u64) {
        for watched in &self.watched {
            ends.sample(world, *watched, now);
        }
    }

    /// Sets the timer of the next sample after `now`, if there is one before the run ends.
    fn arm_sample(&mut self, world: &World<'_>, now: u64) {
        if let Some(next) = world.next_sample(now).filter(|_| !self.watched.is_empty()) {
            self.timers.push(Reverse((next, Timer::Sample)));
        }
    }

    /// Everything that happens in this rack in the present window, in order of time.
    pub(crate) fn visit(&mut self, world: &mut World<'_>, ends: &mut Ends) {
        let batch = world.calendar.take_batch(world.network.rack_node(self.rack));
        let (begins, stops) = (world.calendar.begins(), world.calendar.ends());
        let mut arrivals = batch.iter();
        loop {
            let timer = self.timers.peek().map(|Reverse(timer)| *timer).filter(|(time, _)| *time < stops);
            let arrival = arrivals.as_slice().first().map(|arrival| begins + arrival.offset());
            match (timer, arrival.filter(|at| *at < stops)) {
                (Some((now, timer)), arrival) if arrival.is_none_or(|at| now <= at) => {
                    self.timers.pop();
                    self.on_timer(world, ends, timer, now);
                }
                (_, Some(now)) => {
                    let arrival = *arrivals.next().expect("it was there a moment ago");
                    if let Some(ahead) = arrivals.as_slice().get(AHEAD) {
                        world.arena.touch(ahead.packet());
                    }
                    if let Some(ahead) = arrivals.as_slice().get(AHEAD / 2) {
                        ends.touch(&world.arena[ahead.packet()]);
                    }
                    self.on_packet(world, ends, arrival.port(), arrival.packet(), now);
                }
                (_, None) => break,
            }
        }
        self.arm_visit(world);
        world.calendar.give_back_batch(batch);
    }

    fn arm_visit(&self, world: &mut World<'_>) {
        if let Some(Reverse((time, _))) = self.timers.peek() {
            world.calendar.wake(world.network.rack_node(self.rack), *time);
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
            Timer::Sample => {
                self.sample(world, ends, now);
                self.arm_sample(world, now);
            }
            Timer::Wire(place) => {
                self.hosts[place as usize].waits = false;
                self.send_next(world, ends, place, now);
            }
            Timer::Pace(connection) => {
                // Unless another timer has replaced this one.
                if let Some(sender) =
                    ends.senders[connection as usize].as_mut().filter(|s| s.pace_timer == now)
                {
                    sender.pace_timer = u64::MAX;
                    self.make_ready(world, ends, connection, now);
                }
            }
            Timer::Silence(connection) => self.on_silence(world, ends, connection, now),
            Timer::Reply(connection) => {
                let receiver = &mut ends.receivers[connection as usize];
                if receiver.held != NONE && receiver.deadline <= now {
                    receiver.count = 0;
                    let cumulative = receiver.cumulative;
                    self.acknowledge_held(world, ends, connection, cumulative, now);
                    let place = self.place_of(world, world.plan.connections[connection as usize].to);
                    self.send_next(world, ends, place, now);
                }
            }
            Timer::Stop(connection) => self.stop(world, ends, connection, now),
            Timer::Message => {
                if let Some(message) = self.messages.pop() {
                    self.its_time_has_come(world, ends, message, now);
                }
                self.arm_message(world);
            }
            Timer::Late(message) => self.its_time_has_come(world, ends, message, now),
            Timer::Change(index) => {
                let change = world.plan.changes[index as usize];
                let (_, _, place) = world.network.behind(change.switch, change.port);
                let host = &mut self.hosts[place as usize];
                host.wire.change(change.what, world.network);
                self.send_next(world, ends, place, now);
            }
        }
    }

    /// The place in the rack of one of its hosts.
    fn place_of(&self, world: &World<'_>, host: u32) -> u32 {
        host - world.network.hosts_in(self.rack).start
    }

    /// A message may be sent; it is, once those before it on its connection have been handed over.
    fn its_time_has_come(&mut self, world: &mut World<'_>, ends: &mut Ends, message: u32, now: u64) {
        let connection = world.plan.messages[message as usize].connection;
        if let Some(early) = ends.is_early.get_mut(message as usize) {
            *early = true;
        }
        let mut next = Some(message);
        while let Some(message) = next {
            let handed = ends.senders[connection as usize].as_ref().map_or(0, |sender| sender.handed);
            if world.schedule.message(connection, handed) != Some(message) {
                break;
            }
            self.hand_over(world, ends, message, now);
            let follows = world.schedule.message(connection, handed + 1);
            next = follows.filter(|next| ends.is_early.get(*next as usize) == Some(&true));
        }
        self.make_ready(world, ends, connection, now);
    }

    /// The application hands over a message.
    fn hand_over(&mut self, world: &mut World<'_>, ends: &mut Ends, index: u32, now: u64) {
        let plan = world.plan;
        let message = plan.messages[index as usize];
        let connection = plan.connections[message.connection as usize];
        let sender = ends.senders[message.connection as usize].get_or_insert_with(|| {
            let law = plan.laws[connection.law as usize]
                .build(&plan.path(&connection), crate::run::supplies(plan))
                .expect("the plan was checked");
            Box::new(Sender::new(law, entropy_of(&connection)))
        });
        let first = match sender.handed.checked_sub(1) {
            Some(before) => world.schedule.message(message.connection, before).map(|m| world.schedule.end(m)),
            None => None,
        };
        sender.handed += 1;
        sender.hand_over(Sending {
            message: index,
            first: first.unwrap_or(0),
            end: world.schedule.end(index),
            last_payload: message.amount.bytes().map_or(0, |size| last_payload(size, plan.transport.mtu)),
            start: Picos::new(now),
            size: message.amount.bytes(),
            retransmitted: 0,
        });
        if let Amount::Until(until) = message.amount
            && until < plan.stop
        {
            self.timers.push(Reverse((until.get().max(now), Timer::Stop(message.connection))));
        }
    }

    /// A message without a size ends.
    fn stop(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        if sender.stop() {
            self.finish_messages(world, ends, connection, now);
        }
    }

    fn on_packet(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, id: u32, now: u64) {
        let packet = world.arena[id];
        match packet.tag.kind() {
            Kind::Pause => {
                world.discard(id);
                let bit = 1 << packet.tag.priority();
                let host = &mut self.hosts[place as usize];
                host.stopped = if packet.tag.has_flag() { host.stopped | bit } else { host.stopped & !bit };
                self.send_next(world, ends, place, now);
                return;
            }
            Kind::Data => {
                world.note_delivery(now, &packet);
                self.on_data(world, ends, place, id, now);
            }
            Kind::Ack | Kind::Nack | Kind::Notice => {
                world.note_delivery(now, &packet);
                self.on_reply(world, ends, id, now);
            }
            Kind::Held | Kind::Free => {}
        }
        world.absorbed += 1;
    }

    /// A data packet has arrived.
    fn on_data(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, id: u32, now: u64) {
        let data = world.arena[id];
        let payload = world.payload(&data);
        let schedule = world.schedule;
        let receiver = &mut ends.receivers[data.connection as usize];
        world.report.delivered += 1;
        world.arrived_bytes += payload;
        let was_marked = receiver.held != NONE && world.arena[receiver.held].tag.is_marked();
        let before = receiver.cumulative;
        let whole = receiver.whole;
        let arrived = receiver.receive(world.plan, &data, was_marked, now, |cumulative| {
            schedule
                .message(data.connection, whole)
                .is_some_and(|message| schedule.end(message) <= cumulative)
        });
        if arrived.is_new {
            receiver.bytes += payload;
            world.report.delivered_bytes += Bytes::new(payload);
            self.note_whole_messages(world, ends, data.connection, now);
        }
        if arrived.flush_first {
            // It does not speak for the packet that has just come.
            self.acknowledge_held(world, ends, data.connection, before, now);
        }
        if arrived.notify {
            self.notify(world, place, &data, now);
        }
        let receiver = &mut ends.receivers[data.connection as usize];
        match arrived.reply {
            Reply::Ack | Reply::Hold => {
                // An ACK speaks for the last of the packets it acknowledges; those before it are done.
                if receiver.held != NONE {
                    world.discard(receiver.held);
                }
                receiver.held = id;
                let held = &mut world.arena[id];
                (held.enqueued_at, held.tag) = (now, held.tag.with_kind(Kind::Held));
                if arrived.reply == Reply::Ack {
                    let cumulative = receiver.cumulative;
                    self.acknowledge_held(world, ends, data.connection, cumulative, now);
                } else if receiver.is_first_held() {
                    self.timers.push(Reverse((receiver.deadline, Timer::Reply(data.connection))));
                }
            }
            Reply::Nack => self.reply(world, place, id, Kind::Nack, receiver.cumulative, false, now),
            Reply::Nothing => world.discard(id),
        }
        self.send_next(world, ends, place, now);
    }

    /// What a receiver holds becomes an ACK of everything below `cumulative`.
    fn acknowledge_held(
        &mut self,
        world: &mut World<'_>,
        ends: &mut Ends,
        connection: u32,
        cumulative: u32,
        now: u64,
    ) {
        let receiver = &mut ends.receivers[connection as usize];
        let id = core::mem::replace(&mut receiver.held, NONE);
        let marked = receiver.echoes(world.plan.transport.echo, world.arena[id].tag.is_marked());
        let place = self.place_of(world, world.plan.connections[connection as usize].to);
        self.reply(world, place, id, Kind::Ack, cumulative, marked, now);
    }

    /// A data packet becomes its reply and waits for the wire.
    #[expect(clippy::too_many_arguments, reason = "a reply is made of these")]
    fn reply(
        &mut self,
        world: &mut World<'_>,
        place: u32,
        id: u32,
        kind: Kind,
        cumulative: u32,
        marked: bool,
        now: u64,
    ) {
        let connection = world.plan.connections[world.arena[id].connection as usize];
        let back = world.network.place(connection.from);
        let packet = &mut world.arena[id];
        // The time since the packet came in is the host's, not the network's.
        if packet.enqueued_at < now && kind == Kind::Ack {
            packet.sent_at += now - packet.enqueued_at;
        }
        let priority = world.plan.transport.ack_priority.unwrap_or_else(|| packet.tag.priority());
        packet.tag = Tag::new(kind, priority);
        packet.tag.set_marked(marked);
        packet.enqueued_at = now;
        packet.cumulative = cumulative;
        (packet.to_rack, packet.to_place, packet.to_pod) = (back.rack, back.place, back.pod);
        // The way back is hashed apart from the way there.
        packet.entropy = !packet.entropy;
        packet.size = world.reply_size;
        world.telemetry.reflect(packet);
        world.report.replies += 1;
        self.lane(world, place, priority).replies.push(&mut world.arena, id);
    }

    /// A notification of congestion, beside the ACK.
    fn notify(&mut self, world: &mut World<'_>, place: u32, data: &Packet, now: u64) {
        let back = world.network.place(world.plan.connections[data.connection as usize].from);
        let priority = world.plan.transport.ack_priority.unwrap_or_else(|| data.tag.priority());
        let mut tag = Tag::new(Kind::Notice, priority);
        tag.set_marked(true);
        let id = world.arena.add(Packet {
            enqueued_at: now,
            to_rack: back.rack,
            to_place: back.place,
            to_pod: back.pod,
            entropy: !data.entropy,
            own_delay: 0,
            own_hops: 0,
            size: world.reply_size,
            records: NONE,
            tag,
            ..*data
        });
        world.report.replies += 1;
        self.lane(world, place, priority).replies.push(&mut world.arena, id);
    }

    fn lane(&mut self, world: &World<'_>, place: u32, priority: u8) -> &mut Lane {
        &mut self.lanes[place as usize * usize::from(world.plan.switch.priorities) + usize::from(priority)]
    }

    /// Writes down messages that have just become whole, and lets go what waited for them.
    fn note_whole_messages(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        loop {
            let receiver = &mut ends.receivers[connection as usize];
            let next = world.schedule.message(connection, receiver.whole);
            let Some(message) = next.filter(|message| world.schedule.end(*message) <= receiver.cumulative)
            else {
                return;
            };
            receiver.whole += 1;
            world.rows.received.push(ReceivedRow { message, at: Picos::new(now) });
            self.let_go(world, ends, message, Event::Received, now);
        }
    }

    /// Something has happened that messages of this rack may wait for.
    fn let_go(&mut self, world: &World<'_>, ends: &mut Ends, message: u32, event: Event, now: u64) {
        for then in waiting_for(world.plan, message, event) {
            let left = &mut ends.waits_for[then as usize];
            *left -= 1;
            if *left == 0 {
                let at = now.saturating_add(world.plan.messages[then as usize].at.get());
                self.timers.push(Reverse((at, Timer::Late(then))));
            }
        }
    }

    /// A reply has arrived: the law decides.
    fn on_reply(&mut self, world: &mut World<'_>, ends: &mut Ends, id: u32, now: u64) {
        let reply = world.arena[id];
        let connection = reply.connection;
        let Some(sender) = ends.senders[connection as usize].as_mut() else {
            // All its messages are done.
            world.discard(id);
            return;
        };
        let transport = &world.plan.transport;
        let before = Packets::whole(u64::from(sender.in_flight));
        let acked = match (reply.tag.kind(), transport.recovery) {
            (Kind::Ack, Recovery::Selective { reordering }) => {
                sender.acknowledge(reply.seq, reply.sent_at, reply.cumulative, reordering)
            }
            (Kind::Ack, Recovery::GoBackN) => {
                sender.acknowledge(reply.seq, reply.sent_at, reply.cumulative, u32::MAX)
            }
            (Kind::Nack, _) => sender.go_back(reply.cumulative),
            // A notification acknowledges nothing.
            _ => Acked { packets: 0, found_loss: false },
        };
        let marked = reply.tag.is_marked();
        if marked && transport.echo == Echo::UntilReduced {
            sender.hear_mark();
        }
        let rtt = (now - reply.sent_at) / 1_000;
        sender.srtt = if sender.srtt == 0 { rtt } else { (3 * sender.srtt + rtt) / 4 };
        let bytes = transport.mtu * u64::from(acked.packets);
        let (forward, backward) = world.telemetry.delays(&reply);
        let at = Nanos::new(now / 1_000);
        let chance = low_half(mix(world.plan.seed ^ mix_two(connection, reply.seq)));
        let ack = Ack {
            now: at,
            rtt: Nanos::new(rtt),
            packets: acked.packets,
            bytes,
            // A notification speaks for one packet that is acknowledged elsewhere.
            marked: if marked { bytes.max(Bytes::new(1)) } else { Bytes::ZERO },
            acked_seq: u64::from(sender.una) * transport.mtu.get(),
            next_seq: u64::from(sender.next) * transport.mtu.get(),
            max_hop_delay: forward,
            reverse_max_hop_delay: backward,
            hops: world.telemetry.records(&reply),
            hop_count: reply.switches,
            circuit_up: reply.tag.has_flag(),
            // Less than half of the window was in use when the ACK arrived.
            app_limited: before.q24() * 2 < sender.decision.window.q24(),
            chance,
            ..Ack::EMPTY
        };
        let (acked_seq, next_seq) = (ack.acked_seq, ack.next_seq);
        let hop_queue = ack.hops.records.iter().map(|record| record.queue).max();
        sender.law.on_ack(&ack);
        let congested = transport.plb.is_some() && sender.law.is_congested(&ack);
        world.report.decisions += 1;
        world.report.decisions_with_telemetry += u64::from(reply.reflected_hops > 0);
        if acked.found_loss {
            sender.law.on_loss(&Loss { now: at });
        }
        sender.decision = sender.law.decision();
        if let Some(plb) = &transport.plb {
            let heard = PlbAck { now: at, acked_seq, next_seq, congested, idle: sender.in_flight == 0 };
            if sender.plb.on_ack(&heard, plb) {
                repath(world, sender);
            }
        }
        sender.deadline = now.saturating_add(timeout(world, sender));
        if world.plan.log_decisions && world.plan.watched_connections.binary_search(&connection).is_ok() {
            world.rows.decisions.push(DecisionRow {
                at: Picos::new(now),
                connection,
                packet: reply.seq,
                rtt: Nanos::new(rtt),
                marked,
                hop_delay: forward,
                hop_queue,
                window: sender.decision.window,
            });
        }
        world.discard(id);
        self.finish_messages(world, ends, connection, now);
        self.make_ready(world, ends, connection, now);
    }

    /// Writes down the messages that have been acknowledged whole.
    fn finish_messages(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        loop {
            let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
            let Some(message) = sender.take_finished() else { return };
            let packets = u64::from(message.end - message.first);
            world.rows.messages.push(MessageRow {
                message: message.message,
                start: message.start,
                acknowledged: Picos::new(now),
                size: message.size.unwrap_or(world.plan.transport.mtu * packets),
                retransmitted: message.retransmitted,
            });
            let is_last = world.schedule.message(connection, sender.handed).is_none();
            if sender.messages.is_empty() && is_last {
                // Nothing more will be sent: a connection takes no memory when it is done.
                ends.senders[connection as usize] = None;
            }
            self.let_go(world, ends, message.message, Event::Acknowledged, now);
        }
    }

    /// A timer for silence has fired; the ACKs since it was set may have moved the time that it was set for.
    fn on_silence(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        if sender.silence_timer != now {
            return;
        }
        sender.silence_timer = u64::MAX;
        if sender.in_flight > 0 && now >= sender.deadline {
            let at = Nanos::new(now / 1_000);
            world.report.timeouts += 1;
            sender.time_out();
            sender.law.on_timeout(at);
            sender.decision = sender.law.decision();
            let chance = low_half(mix(world.plan.seed ^ mix_two(connection, sender.next)));
            if let Some(plb) = &world.plan.transport.plb
                && sender.plb.on_timeout(at, chance, plb)
            {
                repath(world, sender);
            }
            sender.deadline = now.saturating_add(timeout(world, sender));
        }
        self.make_ready(world, ends, connection, now);
    }

    /// Something has changed for a connection: it may send now, or its timers move.
    fn make_ready(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        let ends_of = &world.plan.connections[connection as usize];
        let (from, priority) = (ends_of.from, ends_of.priority);
        let place = self.place_of(world, from);
        self.take_turn(world, sender, connection, place, priority, now);
        if sender.in_flight > 0 {
            self.arm_silence(sender, connection);
        }
        self.send_next(world, ends, place, now);
    }

    /// A connection that has something to send and room for it gets in line, or waits for its pacing.
    fn take_turn(
        &mut self,
        world: &World<'_>,
        sender: &mut Sender,
        connection: u32,
        place: u32,
        priority: u8,
        now: u64,
    ) {
        if !sender.has_data() || !has_room(world, sender) {
            return;
        }
        if sender.next_send > now {
            if sender.next_send < sender.pace_timer {
                sender.pace_timer = sender.next_send;
                self.timers.push(Reverse((sender.next_send, Timer::Pace(connection))));
            }
        } else if !sender.is_ready {
            sender.is_ready = true;
            self.lane(world, place, priority).ready.push_back(connection);
        }
    }

    /// Sets a connection's timer for silence, unless an earlier one is set: when that fires, it is set anew.
    fn arm_silence(&mut self, sender: &mut Sender, connection: u32) {
        if sender.deadline < sender.silence_timer {
            sender.silence_timer = sender.deadline;
            self.timers.push(Reverse((sender.deadline, Timer::Silence(connection))));
        }
    }

    /// If a host's wire is free, the next packet leaves: by priority, a reply or one packet of the next connection in turn.
    fn send_next(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, now: u64) {
        let priorities = world.plan.switch.priorities;
        let Host { free_at, stopped, .. } = self.hosts[place as usize];
        if !self.hosts[place as usize].wire.is_up {
            return;
        }
        if free_at <= now {
            let mut open = (0..priorities).filter(|priority| stopped & (1 << priority) == 0);
            if let Some(id) = open.find_map(|priority| self.next_of_lane(world, ends, place, priority, now)) {
                let host = &mut self.hosts[place as usize];
                host.free_at = world.transmit(&host.wire, id, now);
            }
        }
        let host = &self.hosts[place as usize];
        if host.waits || host.free_at <= now {
            return;
        }
        let first = place as usize * usize::from(priorities);
        let lanes = self.lanes[first..first + usize::from(priorities)].iter();
        if lanes.zip(0..).any(|(lane, priority)| host.stopped & (1 << priority) == 0 && !lane.is_empty()) {
            self.timers.push(Reverse((host.free_at, Timer::Wire(place))));
            self.hosts[place as usize].waits = true;
        }
    }

    /// The next packet of a lane: a reply, or one of the first connection in turn that may still send.
    fn next_of_lane(
        &mut self,
        world: &mut World<'_>,
        ends: &mut Ends,
        place: u32,
        priority: u8,
        now: u64,
    ) -> Option<u32> {
        if let Some(id) = self.lane(world, place, priority).replies.pop(&world.arena) {
            // The time a reply waits for the wire is the host's, not the network's.
            let reply = &mut world.arena[id];
            reply.sent_at += now - reply.enqueued_at;
            return Some(id);
        }
        while let Some(connection) = self.lane(world, place, priority).ready.pop_front() {
            let Some(sender) = ends.senders[connection as usize].as_mut() else { continue };
            sender.is_ready = false;
            if !has_room(world, sender) || sender.next_send > now {
                continue;
            }
            let Some((seq, again)) = sender.take_next(now) else { continue };
            let id = new_packet(world, sender, connection, seq, now);
            world.report.retransmitted += u64::from(again);
            sender.next_send = now.saturating_add(spacing(sender, world.arena[id].size));
            if sender.in_flight == 1 {
                sender.deadline = now.saturating_add(timeout(world, sender));
            }
            self.arm_silence(sender, connection);
            self.take_turn(world, sender, connection, place, priority, now);
            return Some(id);
        }
        None
    }
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.ready.is_empty()
    }
}

fn new_packet(world: &mut World<'_>, sender: &mut Sender, connection: u32, seq: u32, now: u64) -> u32 {
    let ends = &world.plan.connections[connection as usize];
    let to = world.network.place(ends.to);
    let payload = sender.payload(seq, world.mtu);
    let records = world.telemetry.fresh();
    let mut tag = Tag::new(Kind::Data, ends.priority);
    tag.set_flag(core::mem::take(&mut sender.says_reduced));
    world.report.sent += 1;
    world.report.sent_bytes += Bytes::new(u64::from(payload));
    world.arena.add(Packet {
        sent_at: now,
        connection,
        seq,
        to_rack: to.rack,
        to_place: to.place,
        to_pod: to.pod,
        entropy: match world.plan.transport.spread {
            Spread::PerFlow => sender.entropy,
            // Sent again, it takes another way.
            Spread::PerPacket => low_half(mix_two(sender.entropy, sender.transmitted)),
        },
        size: payload + world.overhead,
        records,
        tag,
        ..Packet::EMPTY
    })
}

/// What the packets of a connection are hashed by at first.
pub(crate) fn entropy_of(connection: &Connection) -> u32 {
    low_half(mix(mix_two(connection.from, connection.to) ^ mix(u64::from(connection.entropy))))
}

/// A connection takes another path from its next packet on.
fn repath(world: &mut World<'_>, sender: &mut Sender) {
    world.report.repaths += 1;
    sender.entropy = low_half(mix(u64::from(sender.entropy)));
}

/// Whether the window has room for one more packet.
fn has_room(world: &World<'_>, sender: &Sender) -> bool {
    let window = sender.decision.window;
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
    match sender.decision.pacing {
        Pacing::Off => 0,
        Pacing::Gap(gap) => Picos::from_nanos(gap).get(),
        Pacing::Rate(rate) => rate.send_time_ceil(Bytes::new(u64::from(size))).get(),
    }
}

/// How long silence may last, ps: the configured minimum, or twice the smoothed round trip and the pacing gap; before there is a
/// round trip to go by, as long as configured for that.
fn timeout(world: &World<'_>, sender: &Sender) -> u64 {
    if sender.srtt == 0 {
        return Picos::from_nanos(world.plan.transport.first_rto).get();
    }
    let gap = match sender.decision.pacing {
        Pacing::Gap(gap) => gap,
        Pacing::Off | Pacing::Rate(_) => Nanos::ZERO,
    };
    let wait = world.plan.transport.min_rto.max(Nanos::new(2 * sender.srtt) + gap);
    Picos::from_nanos(wait).get()
}
