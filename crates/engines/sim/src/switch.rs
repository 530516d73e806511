//! Switches: where a packet waits, is marked and stamped, and leaves.
//!
//! A packet that finds its port idle leaves at once; otherwise it waits, and one timer per busy port lets the next one go when the
//! wire is free. Decisions are taken when a packet leaves, so a queue may be paused, overtaken or given another way without
//! undoing anything. A port is *armed* while its timer runs: whenever a packet could leave a free wire, it is armed or has
//! just left.

use core::cmp::Reverse as Earliest;
use poseidon_plan::PAUSE_FRAME;
use poseidon_plan::changes::LinkEvent;
use poseidon_plan::records::{DropCause, QueueRow};
use poseidon_plan::switch::{AnyMark, Direction, Pause, Stamp};
use poseidon_policies::mark::{Departure, Memory};
use poseidon_types::{Bytes, Nanos, Picos};
use std::collections::BinaryHeap;

use crate::calendar::AT_ONCE;
use crate::chance::{mix, mix_two};
use crate::circuit::Circuit;
use crate::network::Crossroads;
use crate::packet::{Fifo, Kind, NONE, Packet, Tag};
use crate::pause::{Pauses, Verdict};
use crate::reverse::Reverse;
use crate::stamp::Measured;
use crate::wire::Wire;
use crate::world::World;

/// All switches of a shard.
#[derive(Debug)]
pub(crate) struct Switches {
    ports: Vec<Port>,
    queues: Vec<Queue>,
    switches: Vec<Switch>,
    /// By switch number, its place in `switches`, or [`NONE`] in another shard.
    local: Vec<u32>,
    pauses: Option<Pauses>,
    reverse: Reverse,
    /// By rack, in a rotor.
    circuits: Vec<Circuit>,
    /// Whether there is flow control, reverse marking or a rotor.
    has_extras: bool,
    /// Packets at the head of queues, for [`Self::touch`].
    heads: Vec<u32>,
}

/// How many packets of a queue are brought into the cache: about as many as leave in a window.
const DEEP: usize = 4;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Port {
    wire: Wire,
    /// When the wire is free.
    free_at: u64,
    /// Its queues, one per priority, or one per rack behind an uplink of a rotor.
    first_queue: u32,
    /// How long the packet that left last had waited, ns.
    last_delay: u32,
    /// The priorities that hold packets, and those that the far end has stopped.
    occupied: u8,
    stopped: u8,
    /// The priorities that the far end is to be told of, and what: stop or go on.
    tell: u8,
    told_to_stop: u8,
    /// Whether a timer waits for the wire.
    armed: bool,
    role: Role,
    /// What chance at this port is mixed from.
    salt: u64,
}

const _: () = assert!(size_of::<Port>() == 64, "a port is one cache line");

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Its own queues, by priority.
    Plain,
    /// The packet link of a rack in a rotor: its queues in turn.
    Uplink,
    /// The circuit of a rack in a rotor: one of the queues of the uplink before it.
    Circuit,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    packets: Fifo,
    /// Bytes in the queue, without the packet on the wire.
    waiting: u64,
    /// Bytes sent so far.
    sent: u64,
    memory: Memory,
}

#[derive(Debug)]
struct Switch {
    id: u32,
    first_port: u32,
    ports: u32,
    /// Bytes waiting in all its queues.
    used: u64,
    timers: BinaryHeap<Earliest<(u64, u32)>>,
    crossroads: Crossroads,
    /// It does not stamp from the first of these times, ps, until the second.
    silence: (u64, u64),
}

/// What a timer of a switch is for: to write down its watched queues, a port (one more than its number), the circuit, or a change
/// of a link. At one instant they come in this order.
const SAMPLE: u32 = 0;
const CIRCUIT: u32 = 1 << 16;
const CHANGE: u32 = 1 << 17;

impl Switches {
    pub(crate) fn new(world: &mut World<'_>) -> Self {
        let (plan, network) = (world.plan, world.network);
        let mine: Vec<u32> = (0..network.switches()).filter(|id| world.owns(*id)).collect();
        let mut all = Self {
            ports: Vec::new(),
            queues: Vec::new(),
            switches: Vec::with_capacity(mine.len()),
            local: vec![NONE; network.switches() as usize],
            pauses: Pauses::new(plan, network, &mine),
            reverse: Reverse::new(plan.switch.marks_go, 0, 0),
            circuits: Vec::new(),
            has_extras: plan.switch.pause != Pause::Off
                || plan.switch.marks_go != Direction::Forward
                || network.rotor().is_some(),
            heads: Vec::new(),
        };
        let silence = |id: u32| match plan.silences.binary_search_by_key(&id, |silence| silence.switch) {
            _ if plan.switch.stamp == Stamp::Off => (0, u64::MAX),
            Ok(at) => (plan.silences[at].from.get(), plan.silences[at].until.get()),
            Err(_) => (u64::MAX, u64::MAX),
        };
        for id in mine {
            all.local[id as usize] = count(all.switches.len());
            all.switches.push(Switch {
                id,
                first_port: count(all.ports.len()),
                ports: network.ports(id),
                used: 0,
                timers: BinaryHeap::new(),
                crossroads: network.crossroads(id),
                silence: silence(id),
            });
            for port in 0..network.ports(id) {
                all.add_port(world, id, port);
            }
        }
        all.reverse = Reverse::new(plan.switch.marks_go, all.switches.len(), all.ports.len());
        all.arm_changes(world);
        all.arm_circuits(world);
        all
    }

    fn add_port(&mut self, world: &World<'_>, id: u32, port: u32) {
        let (role, queues) = match world.network.rotor() {
            Some(rotor) if id < rotor.racks && port == rotor.hosts => (Role::Uplink, rotor.racks),
            Some(rotor) if id < rotor.racks && port > rotor.hosts => (Role::Circuit, 0),
            Some(_) | None => (Role::Plain, u32::from(world.plan.switch.priorities)),
        };
        let empty = Queue { packets: Fifo::EMPTY, waiting: 0, sent: 0, memory: Memory::default() };
        self.ports.push(Port {
            wire: world.network.wire(id, port),
            free_at: 0,
            first_queue: count(self.queues.len()),
            last_delay: 0,
            occupied: 0,
            stopped: 0,
            tell: 0,
            told_to_stop: 0,
            armed: false,
            role,
            salt: mix(world.plan.seed ^ mix_two(id, port)),
        });
        self.queues.resize(self.queues.len() + queues as usize, empty);
    }

    /// Everything that happens at a switch in the present window, in order of time; what leaves goes before what arrives.
    pub(crate) fn visit(&mut self, world: &mut World<'_>, id: u32) {
        let at = self.local[id as usize] as usize;
        let batch = world.calendar.take_batch(id);
        let (begins, ends) = (world.calendar.begins(), world.calendar.ends());
        let mut arrivals = batch.iter();
        self.touch(world, at);
        loop {
            let timer = self.switches[at].timers.peek().map(|Earliest(timer)| *timer);
            let timer = timer.filter(|(time, _)| *time < ends);
            let arrival = arrivals.as_slice().first().map(|arrival| begins + arrival.offset());
            match (timer, arrival.filter(|at| *at < ends)) {
                (Some((time, what)), arrival) if arrival.is_none_or(|at| time <= at) => {
                    self.switches[at].timers.pop();
                    self.on_timer(world, at, what, time);
                }
                (_, Some(now)) => {
                    if (batch.len() - arrivals.len()).is_multiple_of(AT_ONCE) {
                        world
                            .arena
                            .touch(arrivals.as_slice().iter().take(AT_ONCE).map(|arrival| arrival.packet()));
                    }
                    let arrival = arrivals.next().expect("it was there a moment ago");
                    self.arrive(world, at, arrival.port(), arrival.packet(), now);
                }
                (_, None) => break,
            }
        }
        self.arm_visit(world, at);
        world.calendar.give_back_batch(batch);
    }

    /// Brings the ports of a switch and the packets at the head of their queues into the cache, all ports side by side.
    fn touch(&mut self, world: &World<'_>, at: usize) {
        let Switch { first_port, ports, .. } = self.switches[at];
        let ports = &self.ports[first_port as usize..(first_port + ports) as usize];
        self.heads.clear();
        self.heads.extend(ports.iter().filter(|port| port.occupied != 0).map(|port| {
            let lane = port.occupied.trailing_zeros();
            self.queues[(port.first_queue + lane) as usize].packets.first().unwrap_or(NONE)
        }));
        for _ in 0..DEEP {
            if world.telemetry.has_sides() {
                let here = self.heads.iter().filter(|head| **head != NONE);
                world.telemetry.sides.touch(here.map(|head| world.arena[*head].records));
            }
            for head in self.heads.iter_mut().filter(|head| **head != NONE) {
                *head = world.arena[*head].next;
            }
        }
    }

    fn arm_visit(&self, world: &mut World<'_>, at: usize) {
        if let Some(Earliest((time, _))) = self.switches[at].timers.peek() {
            world.calendar.wake(self.switches[at].id, *time);
        }
    }

    /// Writes down the watched queues of all switches.
    pub(crate) fn sample_all(&self, world: &mut World<'_>, now: u64) {
        for at in 0..self.switches.len() {
            self.sample(world, at, now);
        }
    }

    /// Writes down the watched queues of a switch, as they are before what happens at `now`.
    fn sample(&self, world: &mut World<'_>, at: usize, now: u64) {
        let Switch { id, first_port, ports, .. } = self.switches[at];
        for port in watched(world, id).filter(|port| *port < ports) {
            let at = (first_port + port) as usize;
            let end = self.ports.get(at + 1).map_or(self.queues.len(), |next| next.first_queue as usize);
            let queues = &self.queues[self.ports[at].first_queue as usize..end];
            let all: u64 = queues.iter().map(|queue| queue.sent).sum();
            // The circuit and the packet link of a rack serve the same queues.
            let by_circuit = self.circuits.get(id as usize).map_or(0, |circuit| circuit.sent);
            let sent = match self.ports[at].role {
                Role::Plain => all,
                Role::Uplink => all - by_circuit,
                Role::Circuit => by_circuit,
            };
            world.rows.queues.push(QueueRow {
                at: Picos::new(now),
                switch: id,
                port,
                waiting: Bytes::new(queues.iter().map(|queue| queue.waiting).sum()),
                delay: Nanos::new(u64::from(self.ports[at].last_delay)),
                sent: Bytes::new(sent),
            });
        }
    }

    /// Sets the timer of the next sample after `now`, if there is one before the run ends.
    fn arm_sample(&mut self, world: &World<'_>, at: usize, now: u64) {
        if let Some(next) = world.next_sample(now)
            && watched(world, self.switches[at].id).next().is_some()
        {
            self.switches[at].timers.push(Earliest((next, SAMPLE)));
        }
    }

    fn on_timer(&mut self, world: &mut World<'_>, at: usize, what: u32, now: u64) {
        if what == SAMPLE {
            self.sample(world, at, now);
            self.arm_sample(world, at, now);
        } else if what < CIRCUIT {
            let port = self.switches[at].first_port + what - 1;
            self.ports[port as usize].armed = false;
            self.depart_next(world, at, port as usize, now);
        } else if what == CIRCUIT {
            self.turn_circuit(world, at, now);
        } else {
            self.change(world, at, what - CHANGE, now);
        }
    }

    /// A packet has come in by a port.
    #[inline]
    fn arrive(&mut self, world: &mut World<'_>, at: usize, in_port: u32, id: u32, now: u64) {
        let Switch { id: switch, first_port, crossroads, .. } = self.switches[at];
        let packet = &mut world.arena[id];
        packet.enqueued_at = now;
        if packet.tag.kind() == Kind::Data {
            packet.switches = packet.switches.saturating_add(1);
        }
        if self.has_extras && self.arrive_with_extras(world, at, in_port, id, now) {
            return;
        }
        let packet = &world.arena[id];
        for turn in 0.. {
            let Some(port) = world.network.route(switch, crossroads, packet, turn) else {
                world.drop(switch, id, now, DropCause::Link);
                return;
            };
            let port = (first_port + port) as usize;
            if self.ports[port].wire.is_up {
                self.enqueue(world, at, port, id, now);
                return;
            }
        }
    }

    /// What flow control, reverse marks and circuits do with a packet that comes in; whether that was all.
    fn arrive_with_extras(
        &mut self,
        world: &mut World<'_>,
        at: usize,
        in_port: u32,
        id: u32,
        now: u64,
    ) -> bool {
        let Switch { id: switch, first_port, .. } = self.switches[at];
        let port = (first_port + in_port) as usize;
        let packet = &mut world.arena[id];
        packet.in_port = u16::try_from(in_port).unwrap_or(0);
        match packet.tag.kind() {
            Kind::Pause => {
                let tag = packet.tag;
                world.discard(id);
                self.on_pause(world, at, port, tag, now);
                return true;
            }
            Kind::Ack | Kind::Nack => {
                if self.reverse.takes_mark(at, port, packet, now) {
                    packet.tag.set_marked(true);
                    world.report.marks_taken += 1;
                }
                if let Some(rotor) = world.network.rotor().filter(|_| packet.to_rack == switch) {
                    let to = world.plan.connections[packet.connection as usize].to;
                    packet.tag.set_flag(rotor.tells(switch, world.network.place(to).rack, Picos::new(now)));
                }
            }
            Kind::Data | Kind::Notice | Kind::Held | Kind::Free => {}
        }
        false
    }

    /// A packet leaves by a port at once, finds room to wait, or is dropped.
    #[inline]
    fn enqueue(&mut self, world: &mut World<'_>, at: usize, port: usize, id: u32, now: u64) {
        let packet = &world.arena[id];
        let size = u64::from(packet.size);
        let state = &self.ports[port];
        let (lane, server) = match state.role {
            Role::Plain => (u32::from(packet.tag.priority()), port),
            Role::Uplink | Role::Circuit => {
                let is_circuits = self.circuits[self.switches[at].id as usize].peer == Some(packet.to_rack);
                (packet.to_rack, if is_circuits { port + 1 } else { port })
            }
        };
        let queue = (state.first_queue + lane) as usize;
        let may_leave = self.may_leave(at, server, lane, packet.size, now);
        let state = &self.ports[server];
        // Behind another packet nobody may go: where that one waits and the port is idle, a circuit has no time left for it.
        let may_leave = may_leave && self.queues[queue].packets.is_empty();
        if may_leave && !state.armed && state.free_at <= now {
            self.depart(world, at, server, queue, id, now);
            return;
        }
        if !self.hold(world, at, queue, id, now) {
            return;
        }
        let queue = &mut self.queues[queue];
        queue.packets.push(&mut world.arena, id);
        queue.waiting += size;
        self.switches[at].used += size;
        match self.ports[port].role {
            Role::Plain => self.ports[port].occupied |= 1 << lane,
            Role::Uplink | Role::Circuit => {
                self.circuits[self.switches[at].id as usize].occupied |= 1 << lane;
            }
        }
        if may_leave {
            self.arm(at, server);
        }
    }

    /// Whether a packet of a lane may leave by a port, once its wire is free.
    #[inline]
    fn may_leave(&self, at: usize, port: usize, lane: u32, size: u16, now: u64) -> bool {
        let state = &self.ports[port];
        match state.role {
            Role::Plain => state.stopped & (1 << lane) == 0,
            Role::Uplink => true,
            // Its last bit must leave before dusk.
            Role::Circuit => {
                let dusk = self.circuits[self.switches[at].id as usize].dusk;
                state.free_at.max(now) + state.wire.send_time(size) <= dusk
            }
        }
    }

    /// Finds room for a packet, or drops it.
    fn hold(&mut self, world: &mut World<'_>, at: usize, queue: usize, id: u32, now: u64) -> bool {
        let Switch { id: switch, first_port, used, .. } = self.switches[at];
        let Packet { size, in_port, tag, .. } = world.arena[id];
        let size = u64::from(size);
        let holds = match &mut self.pauses {
            None => size <= world.plan.switch.buffer.room(used, self.queues[queue].waiting),
            Some(pauses) => {
                let in_port = first_port as usize + usize::from(in_port);
                match pauses.hold(at, in_port, tag.priority(), size) {
                    Verdict::Holds => true,
                    Verdict::HoldsAndPauses => {
                        world.report.pauses += 1;
                        self.tell(world, at, in_port, tag.priority(), true, now);
                        true
                    }
                    Verdict::Full => false,
                }
            }
        };
        if !holds {
            world.drop(switch, id, now, DropCause::Buffer);
        }
        holds
    }

    /// Sets a port's timer, unless it is set.
    fn arm(&mut self, at: usize, port: usize) {
        let switch = &mut self.switches[at];
        let state = &mut self.ports[port];
        if !state.armed {
            state.armed = true;
            switch.timers.push(Earliest((state.free_at, count(port) - switch.first_port + 1)));
        }
    }

    /// A packet may be able to leave a port that was not armed: now, or when its wire is free.
    fn kick(&mut self, world: &mut World<'_>, at: usize, port: usize, now: u64) {
        let state = &self.ports[port];
        if state.armed {
            return;
        }
        if state.free_at > now {
            self.arm(at, port);
        } else {
            self.depart_next(world, at, port, now);
        }
    }

    /// The queue that a port serves next, and its lane.
    fn next_queue(&self, world: &World<'_>, at: usize, port: usize, now: u64) -> Option<(usize, u32)> {
        let state = &self.ports[port];
        if !state.wire.is_up {
            return None;
        }
        let circuit = || &self.circuits[self.switches[at].id as usize];
        let (first, lane) = match state.role {
            Role::Plain => {
                let open = state.occupied & !state.stopped;
                (state.first_queue, (open != 0).then(|| open.trailing_zeros())?)
            }
            Role::Uplink => (state.first_queue, circuit().next_for_packets()?),
            Role::Circuit => (self.ports[port - 1].first_queue, circuit().next_for_circuit()?),
        };
        let queue = (first + lane) as usize;
        if state.role == Role::Circuit {
            let size = self.queues[queue].packets.first().map(|id| world.arena[id].size)?;
            self.may_leave(at, port, lane, size, now).then_some((queue, lane))
        } else {
            Some((queue, lane))
        }
    }

    /// The wire of a port is free: the next packet leaves.
    fn depart_next(&mut self, world: &mut World<'_>, at: usize, port: usize, now: u64) {
        if self.ports[port].tell != 0 && self.ports[port].wire.is_up {
            self.send_pause(world, port, now);
        } else {
            let Some((queue, lane)) = self.next_queue(world, at, port, now) else { return };
            let Some(id) = self.take(world, at, port, queue, lane, now) else { return };
            self.depart(world, at, port, queue, id, now);
        }
        let free = self.ports[port].free_at;
        if self.ports[port].tell != 0 || self.next_queue(world, at, port, free).is_some() {
            self.arm(at, port);
        }
    }

    /// Takes the first packet out of a queue.
    fn take(
        &mut self,
        world: &mut World<'_>,
        at: usize,
        port: usize,
        queue: usize,
        lane: u32,
        now: u64,
    ) -> Option<u32> {
        let state = &mut self.queues[queue];
        let id = state.packets.pop(&world.arena)?;
        let Packet { size, in_port, tag, .. } = world.arena[id];
        let size = u64::from(size);
        state.waiting -= size;
        self.switches[at].used -= size;
        if state.packets.is_empty() {
            match self.ports[port].role {
                Role::Plain => self.ports[port].occupied &= !(1 << lane),
                Role::Uplink | Role::Circuit => {
                    self.circuits[self.switches[at].id as usize].occupied &= !(1 << lane);
                }
            }
        }
        if self.ports[port].role == Role::Uplink {
            self.circuits[self.switches[at].id as usize].served(lane);
        }
        if let Some(pauses) = &mut self.pauses {
            let in_port = self.switches[at].first_port as usize + usize::from(in_port);
            if pauses.release(at, in_port, tag.priority(), size) {
                self.tell(world, at, in_port, tag.priority(), false, now);
            }
        }
        Some(id)
    }

    /// A packet leaves: it is marked and stamped by what it leaves behind.
    #[inline]
    fn depart(&mut self, world: &mut World<'_>, at: usize, port: usize, queue: usize, id: u32, now: u64) {
        let state = &mut self.ports[port];
        let from = &mut self.queues[queue];
        let packet = &mut world.arena[id];
        let waited = now - packet.enqueued_at;
        let delay = u32::try_from(waited / 1_000).unwrap_or(u32::MAX);
        state.last_delay = delay;
        let mark = &world.plan.switch.mark;
        if packet.tag.kind() == Kind::Data && *mark != AnyMark::OFF {
            let departure = Departure {
                now: Picos::new(now),
                waited: Picos::new(waited),
                behind: Bytes::new(from.waiting),
                largest: world.largest,
                rate: state.wire.rate,
                dice: state.salt ^ now,
            };
            if mark.marks(&mut from.memory, &departure) {
                world.report.marks += 1;
                if self.reverse.marks_forward(at, port, packet, now) {
                    packet.tag.set_marked(true);
                    world.report.marks_taken += 1;
                }
            }
        }
        let (begins, ends) = self.switches[at].silence;
        if !(begins..ends).contains(&now) {
            let measured =
                Measured { now, delay, sent: from.sent, queue: from.waiting, rate: state.wire.rate_code };
            world.telemetry.write(packet, &measured);
        }
        from.sent += u64::from(packet.size);
        if state.role == Role::Circuit {
            self.circuits[self.switches[at].id as usize].sent += u64::from(packet.size);
        }
        state.free_at = world.transmit(&state.wire, id, now);
    }

    /// The far end of a port is to be told to stop a priority, or to go on.
    fn tell(&mut self, world: &mut World<'_>, at: usize, port: usize, priority: u8, stop: bool, now: u64) {
        let state = &mut self.ports[port];
        let bit = 1 << priority;
        state.tell |= bit;
        state.told_to_stop = if stop { state.told_to_stop | bit } else { state.told_to_stop & !bit };
        self.kick(world, at, port, now);
    }

    /// A pause frame goes before everything else.
    fn send_pause(&mut self, world: &mut World<'_>, port: usize, now: u64) {
        let state = &mut self.ports[port];
        let priority = state.tell.trailing_zeros();
        state.tell &= !(1 << priority);
        let mut tag = Tag::new(Kind::Pause, u8::try_from(priority).unwrap_or(0));
        tag.set_flag(state.told_to_stop & (1 << priority) != 0);
        let size = u16::try_from(PAUSE_FRAME.get()).unwrap_or(u16::MAX);
        let id = world.arena.add(Packet { size, tag, ..Packet::EMPTY });
        state.free_at = world.transmit_control(&state.wire, id, now);
    }

    /// The far end of a port says stop, or go on.
    fn on_pause(&mut self, world: &mut World<'_>, at: usize, port: usize, tag: Tag, now: u64) {
        let bit = 1 << tag.priority();
        let state = &mut self.ports[port];
        if tag.has_flag() {
            state.stopped |= bit;
        } else {
            state.stopped &= !bit;
            self.kick(world, at, port, now);
        }
    }

    /// Sets the timers that are known from the start.
    fn arm_changes(&mut self, world: &mut World<'_>) {
        for (index, change) in world.plan.changes.iter().enumerate() {
            let far = world.network.behind(change.switch, change.port).1;
            for switch in [change.switch, far] {
                if let Some(state) =
                    self.local.get(switch as usize).and_then(|local| self.switches.get_mut(*local as usize))
                {
                    state.timers.push(Earliest((change.at.get(), CHANGE + count(index))));
                }
            }
        }
        for at in 0..self.switches.len() {
            self.arm_sample(world, at, 0);
            self.arm_visit(world, at);
        }
    }

    /// Something happens to a link at this switch.
    fn change(&mut self, world: &mut World<'_>, at: usize, index: u32, now: u64) {
        let change = world.plan.changes[index as usize];
        let switch = &self.switches[at];
        let port = if change.switch == switch.id {
            change.port
        } else {
            world.network.behind(change.switch, change.port).2
        };
        let port = (switch.first_port + port) as usize;
        self.ports[port].wire.change(change.what, world.network);
        match change.what {
            LinkEvent::Down => self.flush(world, at, port, now),
            LinkEvent::Up => {
                // Whatever was said before, or was on the way: both ends say again what holds.
                if let Some(pauses) = &self.pauses {
                    self.ports[port].tell = u8::MAX >> (8 - world.plan.switch.priorities);
                    self.ports[port].told_to_stop = pauses.paused(port);
                }
                self.kick(world, at, port, now);
            }
            LinkEvent::Rate(_) => {}
        }
    }

    /// Drops everything that waits at a port.
    fn flush(&mut self, world: &mut World<'_>, at: usize, port: usize, now: u64) {
        for lane in 0..u32::from(world.plan.switch.priorities) {
            let queue = (self.ports[port].first_queue + lane) as usize;
            while let Some(id) = self.take(world, at, port, queue, lane, now) {
                world.drop(self.switches[at].id, id, now, DropCause::Link);
            }
        }
    }

    fn arm_circuits(&mut self, world: &mut World<'_>) {
        let Some(rotor) = world.network.rotor() else { return };
        self.circuits = vec![Circuit::default(); rotor.racks as usize];
        for at in 0..self.switches.len() {
            if self.switches[at].id < rotor.racks {
                self.turn_circuit(world, at, 0);
                self.arm_visit(world, at);
            }
        }
    }

    /// The circuits have changed.
    fn turn_circuit(&mut self, world: &mut World<'_>, at: usize, now: u64) {
        let Some(rotor) = world.network.rotor() else { return };
        let Switch { id, first_port, .. } = self.switches[at];
        let next = self.circuits[id as usize].turn_to(rotor, id, now);
        self.switches[at].timers.push(Earliest((next, CIRCUIT)));
        let uplink = (first_port + rotor.hosts) as usize;
        if let Some(peer) = self.circuits[id as usize].peer {
            self.ports[uplink + 1].wire.node = peer;
            self.kick(world, at, uplink + 1, now);
        }
        // What the circuit did not take goes by packets again.
        self.kick(world, at, uplink, now);
    }
}

/// The watched ports of a switch.
fn watched<'a>(world: &World<'a>, switch: u32) -> impl Iterator<Item = u32> + use<'a> {
    let all = &world.plan.watched;
    let from = all.partition_point(|(other, _)| *other < switch);
    all[from..].iter().take_while(move |(other, _)| *other == switch).map(|(_, port)| *port)
}

/// A count that the plan's checks keep small.
fn count(n: usize) -> u32 {
    u32::try_from(n).expect("a plan with more was refused")
}
