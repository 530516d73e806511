//! Hosts, a rack at a time: the transport around a law.
//!
//! A host's wire serves its lanes by priority, and in each lane replies first and then, in turn, the connections that may send. A
//! connection may send when it has data, its window has room and its pacing allows it; it is asked again when a reply or a
//! timer changes any of that.

mod receiving;
mod sending;

pub(crate) use sending::entropy_of;

use core::cmp::Reverse;
use poseidon_plan::records::{ReceiverRow, SenderRow};
use poseidon_plan::traffic::Event;
use poseidon_types::{Bytes, Nanos, Picos};
use std::collections::{BinaryHeap, VecDeque};

use crate::calendar::AT_ONCE;
use crate::connection::Sender;
use crate::packet::{Fifo, Kind, NONE, Packet};
use crate::reply::Receiver;
use crate::schedule::waiting_for;
use crate::wire::Wire;
use crate::world::World;

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
                    if (batch.len() - arrivals.len()).is_multiple_of(AT_ONCE) {
                        let next = &arrivals.as_slice()[..AT_ONCE.min(arrivals.len())];
                        world.touch(next);
                        next.iter().for_each(|arrival| ends.touch(&world.arena[arrival.packet()]));
                    }
                    let arrival = *arrivals.next().expect("it was there a moment ago");
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

    fn lane(&mut self, world: &World<'_>, place: u32, priority: u8) -> &mut Lane {
        &mut self.lanes[place as usize * usize::from(world.plan.switch.priorities) + usize::from(priority)]
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
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.ready.is_empty()
    }
}
