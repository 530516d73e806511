//! Switches: where a packet waits, is marked and stamped, and leaves.
//!
//! Every port has one queue. A packet that finds its port idle leaves at once; otherwise it waits, and one timer per
//! busy port lets the next one go when the wire is free. Decisions are taken when a packet leaves, so a queue may be
//! paused or reordered without undoing anything.

use core::cmp::Reverse;
use poseidon_plan::records::{DropRow, QueueRow};
use poseidon_plan::switch::{Buffer, Stamp};
use poseidon_types::{Bytes, HopRecord, Nanos, Picos};
use std::collections::BinaryHeap;

use crate::mark::{Departure, Marker};
use crate::packet::{Fifo, Kind};
use crate::world::World;

/// How many arrivals ahead a packet is touched, so that it is in the cache when its turn comes.
const AHEAD: usize = 8;

/// All switches of a run.
#[derive(Debug)]
pub(crate) struct Switches {
    ports: Vec<Port>,
    switches: Vec<Switch>,
}

#[derive(Clone, Copy, Debug)]
struct Port {
    /// When the wire is free.
    free_at: u64,
    queue: Fifo,
    /// Bytes in the queue, without the packet on the wire.
    waiting: u64,
    /// Bytes sent so far.
    sent: u64,
    /// How long the packet that left last had waited, ns.
    last_delay: u32,
    marker: Marker,
}

#[derive(Debug)]
struct Switch {
    /// Bytes waiting in all its queues.
    used: u64,
    /// When a port's wire becomes free while packets wait: time and port.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    stamps: bool,
}

impl Switches {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let idle = Port {
            free_at: 0,
            queue: Fifo::EMPTY,
            waiting: 0,
            sent: 0,
            last_delay: 0,
            marker: Marker::default(),
        };
        let silent = &world.plan.silent_switches;
        let switch = |id| Switch {
            used: 0,
            timers: BinaryHeap::new(),
            stamps: world.plan.switch.stamp != Stamp::Off && silent.binary_search(&id).is_err(),
        };
        Self {
            ports: vec![idle; world.network.wires()],
            switches: (0..world.network.switches()).map(switch).collect(),
        }
    }

    /// Everything that happens at a switch in the present window, in order of time; what leaves goes before what arrives.
    pub(crate) fn visit(&mut self, world: &mut World<'_>, id: u32) {
        let batch = world.calendar.take_batch(id);
        let (begins, ends) = (world.calendar.begins(), world.calendar.ends());
        let mut arrivals = batch.iter();
        loop {
            let timer = self.switches[id as usize].timers.peek().map(|Reverse(timer)| *timer);
            let timer = timer.filter(|(time, _)| *time < ends);
            let arrival = arrivals.as_slice().first().map(|arrival| begins + arrival.offset());
            match (timer, arrival) {
                (Some((time, port)), arrival) if arrival.is_none_or(|at| time <= at) => {
                    self.switches[id as usize].timers.pop();
                    self.depart_next(world, id, port, time);
                }
                (_, Some(now)) => {
                    let packet = arrivals.next().map(|arrival| arrival.packet());
                    if let Some(ahead) = arrivals.as_slice().get(AHEAD) {
                        world.arena.touch(ahead.packet());
                    }
                    self.arrive(world, id, packet.expect("it was there a moment ago"), now);
                }
                (_, None) => break,
            }
        }
        if let Some(Reverse((time, _))) = self.switches[id as usize].timers.peek() {
            world.calendar.wake(id, *time);
        }
        world.calendar.give_back_batch(id, batch);
    }

    /// Writes down the watched queues.
    pub(crate) fn sample(&self, world: &mut World<'_>, now: u64) {
        for &(switch, port) in &world.plan.watched {
            if !world.owns(switch) {
                continue;
            }
            let range = world.network.ports(switch);
            let Some(state) = range.clone().nth(port as usize).and_then(|at| self.ports.get(at as usize))
            else {
                continue;
            };
            world.rows.queues.push(QueueRow {
                at: Picos::new(now),
                switch,
                port,
                waiting: Bytes::new(state.waiting),
                delay: Nanos::new(u64::from(state.last_delay)),
            });
        }
    }

    fn arrive(&mut self, world: &mut World<'_>, id: u32, packet: u32, now: u64) {
        let header = &mut world.arena[packet];
        if header.kind == Kind::Data {
            header.switches = header.switches.saturating_add(1);
        }
        let port = world.network.ports(id).start + world.network.route(id, &world.arena[packet]);
        self.enqueue(world, id, port, packet, now);
    }

    /// Finds room for a packet at a port, or drops it.
    fn enqueue(&mut self, world: &mut World<'_>, id: u32, port: u32, packet: u32, now: u64) {
        let size = u64::from(world.arena[packet].size);
        world.arena[packet].enqueued_at = now;
        let state = &mut self.ports[port as usize];
        if state.free_at <= now && state.queue.is_empty() {
            self.depart(world, id, port, packet, now);
            return;
        }
        let switch = &mut self.switches[id as usize];
        let limit = match world.plan.switch.buffer {
            Buffer::Static { per_queue } => per_queue.get(),
            Buffer::Shared { total, alpha } => alpha.of_floor(total.get().saturating_sub(switch.used)),
        };
        if state.waiting + size > limit {
            let connection = world.arena[packet].connection;
            world.report.dropped += 1;
            world.rows.drops.push(DropRow { at: Picos::new(now), switch: id, connection });
            world.discard(packet);
            return;
        }
        if state.queue.is_empty() {
            switch.timers.push(Reverse((state.free_at, port)));
        }
        state.queue.push(&mut world.arena, packet);
        state.waiting += size;
        switch.used += size;
    }

    /// The wire of a port is free: the next packet leaves.
    fn depart_next(&mut self, world: &mut World<'_>, id: u32, port: u32, now: u64) {
        let state = &mut self.ports[port as usize];
        let Some(packet) = state.queue.pop(&world.arena) else { return };
        let size = u64::from(world.arena[packet].size);
        state.waiting -= size;
        self.switches[id as usize].used -= size;
        self.depart(world, id, port, packet, now);
        let state = &self.ports[port as usize];
        if !state.queue.is_empty() {
            self.switches[id as usize].timers.push(Reverse((state.free_at, port)));
        }
    }

    /// A packet leaves: it is marked and stamped by what it leaves behind.
    fn depart(&mut self, world: &mut World<'_>, id: u32, port: u32, packet: u32, now: u64) {
        let wire = *world.network.wire(port);
        let state = &mut self.ports[port as usize];
        let header = &mut world.arena[packet];
        let delay = u32::try_from((now - header.enqueued_at) / 1_000).unwrap_or(u32::MAX);
        state.last_delay = delay;
        if header.kind == Kind::Data {
            let departure = Departure {
                now,
                waited: now - header.enqueued_at,
                behind: state.waiting,
                largest: world.plan.data_size(),
                dice: world.plan.seed ^ (u64::from(port) << 40) ^ state.sent,
            };
            header.marked |= state.marker.marks(&world.plan.switch.mark, &departure);
        }
        if self.switches[id as usize].stamps {
            header.own_delay = header.own_delay.max(delay);
            header.own_hops = header.own_hops.saturating_add(1);
            if header.kind == Kind::Data
                && let Some(stack) = world.stacks.get_mut(header.records)
            {
                stack.push(HopRecord {
                    at: Nanos::new(now / 1_000),
                    sent: Bytes::new(state.sent),
                    queue: Bytes::new(state.waiting),
                    rate: wire.rate,
                });
            }
        }
        state.sent += u64::from(header.size);
        state.free_at = world.transmit(wire, packet, now);
    }
}
