//! Switches: ports, queues and timers.
//!
//! A packet that arrives at an idle port departs immediately. Otherwise, it waits, and one timer per busy
//! port sends the next packet when the wire becomes free. The switch selects a packet only at departure, so a
//! queue can be paused, overtaken or rerouted without undoing a decision. A port is *armed* while its timer
//! is set. Whenever a packet can depart, the port is armed or has just sent a packet.

mod events;
mod forwarding;
mod independent_ports;
mod pauses;
mod sampling;
mod trimming;

use core::cmp::Reverse;
use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, MarkDirection, Pause, Stamp};
use poseidon_policies::mark::MarkState;
use poseidon_types::{Picos, PortId, SwitchId};
use std::collections::BinaryHeap;

use crate::calendar::PREFETCH_BATCH;
use crate::circuit::Circuit;
use crate::context::ShardContext;
use crate::hash::{hash_pair, splitmix64};
use crate::network::SwitchRoutes;
use crate::node::NodeId;
use crate::packet::{Fifo, PacketId};
use crate::pfc::{PauseClock, Pfc};
use crate::reverse_marking::ReverseMarking;
use crate::wire::Wire;

/// All switches in a shard.
///
/// Methods take local indices: `switch`, `port` and `queue` are indices into `switches`, `ports` and
/// `queues`.
#[derive(Debug)]
pub(crate) struct Switches {
    ports: Vec<Port>,
    queues: Vec<Queue>,
    switches: Vec<Switch>,
    /// For each switch id, the index in `switches`, or [`NOT_LOCAL`].
    local_index: Vec<u32>,
    pfc: Option<Pfc>,
    reverse_marking: ReverseMarking,
    /// Circuits in a rotor topology, indexed by rack.
    circuits: Vec<Circuit>,
    /// Whether PFC, reverse marking or a rotor requires [`Self::preprocess_arrival`].
    needs_preprocessing: bool,
    /// Whether no port depends on another one. Then ports have no timers.
    independent_ports: bool,
    /// Whether a port is slower than the topology states.
    has_slow_ports: bool,
    /// How long each port has been paused. Empty without PFC.
    pauses: Vec<PauseClock>,
    /// The number of packets that each port has trimmed. Empty without trimming.
    trims: Vec<u64>,
    /// A scratch buffer for [`Self::prefetch`].
    queue_heads: Vec<PacketId>,
}

/// The local index of a switch that belongs to another shard.
const NOT_LOCAL: u32 = u32::MAX;

/// The number of packets to prefetch per queue: about as many as leave in one window.
const PREFETCH_DEPTH: usize = 4;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Port {
    wire: Wire,
    /// The time at which the wire becomes free.
    free_at: Picos,
    /// The index of the first queue. A port has one queue per priority, and a rotor uplink has one queue per
    /// destination rack.
    first_queue: u32,
    /// The queueing delay of the last packet that departed, in ns.
    last_delay_ns: u32,
    /// A bit mask of the priorities with queued packets.
    occupied: u8,
    /// A bit mask of the priorities that the peer has paused.
    paused: u8,
    /// A bit mask of the priorities with an unsent PFC frame.
    pfc_pending: u8,
    /// For each bit set in `pfc_pending`, whether the frame pauses (1) or resumes (0) the priority.
    pfc_xoff: u8,
    /// Whether the port's timer is set.
    is_armed: bool,
    role: PortRole,
    /// Whether the port marks packets.
    marks: bool,
    /// The factor by which the rate, the buffer and the marking thresholds are smaller than the topology states.
    divisor: u8,
    /// The seed for random decisions at this port.
    random_seed: u64,
}

const _: () = assert!(size_of::<Port>() == 64, "a port is one cache line");

/// The queues that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortRole {
    /// The port's own queues, in priority order.
    Regular,
    /// The queues of a rack's packet link in a rotor topology, in round-robin order.
    RotorUplink,
    /// One queue of the uplink, served by a rack's circuit in a rotor topology. The uplink is the preceding
    /// port.
    RotorCircuit,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    packets: Fifo,
    /// Bytes in the queue, excluding the packet being transmitted.
    queued_bytes: u64,
    /// Bytes sent so far.
    sent_bytes: u64,
    mark_state: MarkState,
}

#[derive(Debug)]
struct Switch {
    id: SwitchId,
    first_port: u32,
    ports: u32,
    /// Bytes in all of the switch's queues.
    buffered_bytes: u64,
    timers: BinaryHeap<Reverse<(Picos, Timer)>>,
    routes: SwitchRoutes,
    /// The switch writes no telemetry from the first time (inclusive) until the second (exclusive).
    telemetry_off: (Picos, Picos),
    /// The buffer policy, which PFC replaces.
    buffer: AnyBufferPolicy,
    mark: AnyMarkPolicy,
}

impl Switch {
    /// Returns a port's local index.
    #[inline]
    const fn local_port(&self, port: PortId) -> usize {
        (self.first_port + port.get()) as usize
    }
}

/// A switch timer packed into an integer. Timers that expire at the same time run in [`TimerEvent`] order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer(u32);

/// The event that a timer triggers.
enum TimerEvent {
    /// The watched queues are sampled.
    Sample,
    /// A port's wire becomes free.
    WireFree(PortId),
    /// A rotor's circuits change.
    CircuitChange,
    /// A link of this switch changes. The value is an index into the plan's link changes.
    LinkChange(u32),
}

impl Timer {
    const SAMPLE: Self = Self(0);
    const CIRCUIT_CHANGE: Self = Self(1 << 16);
    const FIRST_LINK_CHANGE: u32 = 1 << 17;

    const fn wire_free(port: PortId) -> Self {
        Self(port.get() + 1)
    }

    const fn link_change(index: u32) -> Self {
        Self(Self::FIRST_LINK_CHANGE + index)
    }

    #[inline]
    fn event(self) -> TimerEvent {
        if self == Self::SAMPLE {
            TimerEvent::Sample
        } else if self < Self::CIRCUIT_CHANGE {
            TimerEvent::WireFree(PortId::new(self.0 - 1))
        } else if self == Self::CIRCUIT_CHANGE {
            TimerEvent::CircuitChange
        } else {
            TimerEvent::LinkChange(self.0 - Self::FIRST_LINK_CHANGE)
        }
    }
}

impl Switches {
    pub(crate) fn new(ctx: &mut ShardContext<'_>) -> Self {
        let (plan, network) = (ctx.plan, ctx.network);
        let ids: Vec<SwitchId> = network.switch_ids().filter(|id| ctx.owns((*id).into())).collect();
        let mut switches = Self {
            ports: Vec::new(),
            queues: Vec::new(),
            switches: Vec::with_capacity(ids.len()),
            local_index: vec![NOT_LOCAL; network.switches() as usize],
            pfc: Pfc::new(plan, network, &ids),
            reverse_marking: ReverseMarking::new(plan.switch.mark_direction, 0, 0),
            circuits: Vec::new(),
            needs_preprocessing: plan.switch.pause != Pause::Off
                || plan.switch.mark_direction != MarkDirection::Forward
                || network.rotor().is_some(),
            independent_ports: false,
            has_slow_ports: !plan.slow_ports.is_empty(),
            pauses: Vec::new(),
            trims: Vec::new(),
            queue_heads: Vec::new(),
        };
        for id in ids {
            switches.add_switch(ctx, id);
        }
        switches.independent_ports = switches.has_independent_ports();
        let (switch_count, port_count) = (switches.switches.len(), switches.ports.len());
        if switches.pfc.is_some() {
            switches.pauses = vec![PauseClock::default(); port_count];
        }
        if plan.switch.trim.is_some() {
            switches.trims = vec![0; port_count];
        }
        switches.reverse_marking = ReverseMarking::new(plan.switch.mark_direction, switch_count, port_count);
        switches.arm_link_changes_and_samples(ctx);
        switches.start_circuits(ctx);
        switches
    }

    fn add_switch(&mut self, ctx: &ShardContext<'_>, id: SwitchId) {
        let (plan, network) = (ctx.plan, ctx.network);
        let telemetry_off = match plan.telemetry_off.binary_search_by_key(&id, |off| off.switch) {
            _ if plan.switch.stamp == Stamp::Off => (Picos::ZERO, Picos::MAX),
            Ok(index) => (plan.telemetry_off[index].from, plan.telemetry_off[index].until),
            Err(_) => (Picos::MAX, Picos::MAX),
        };
        let own = plan.switch_overrides.binary_search_by_key(&id, |own| own.switch);
        let own = own.ok().map(|index| &plan.switch_overrides[index]);
        let buffer = own.and_then(|own| own.buffer.as_ref()).unwrap_or(&plan.switch.buffer);
        let mark = own.and_then(|own| own.mark.as_ref()).unwrap_or(&plan.switch.mark);
        self.local_index[id.index()] = to_u32(self.switches.len());
        self.switches.push(Switch {
            id,
            first_port: to_u32(self.ports.len()),
            ports: network.port_count(id),
            buffered_bytes: 0,
            timers: BinaryHeap::new(),
            routes: network.switch_routes(id),
            telemetry_off,
            buffer: buffer.clone(),
            mark: mark.clone(),
        });
        for port in network.port_ids(id) {
            self.add_port(ctx, id, port);
        }
    }

    fn add_port(&mut self, ctx: &ShardContext<'_>, id: SwitchId, port: PortId) {
        let (role, queues) = match ctx.network.rotor() {
            Some(rotor) if id.get() < rotor.racks && port.get() == rotor.hosts => {
                (PortRole::RotorUplink, rotor.racks)
            }
            Some(rotor) if id.get() < rotor.racks && port.get() > rotor.hosts => (PortRole::RotorCircuit, 0),
            Some(_) | None => (PortRole::Regular, u32::from(ctx.plan.switch.priorities)),
        };
        let empty_queue =
            Queue { packets: Fifo::EMPTY, queued_bytes: 0, sent_bytes: 0, mark_state: MarkState::default() };
        let slow_ports = &ctx.plan.slow_ports;
        let slow = slow_ports.binary_search_by_key(&(id, port), |slow| (slow.switch, slow.port));
        let divisor = slow.map_or(1, |index| slow_ports[index].divisor);
        let mut wire = ctx.network.wire(id, port).with_impairment(ctx.impairments.find(id, port));
        if divisor > 1 {
            wire.slow_down(divisor, ctx.network.rates());
        }
        let leads_to_switch = ctx.network.is_switch(wire.peer);
        let has_policy = self.switches.last().is_some_and(|switch| switch.mark != AnyMarkPolicy::OFF);
        self.ports.push(Port {
            marks: has_policy && (ctx.plan.switch.mark_host_links || leads_to_switch),
            wire,
            free_at: Picos::ZERO,
            first_queue: to_u32(self.queues.len()),
            last_delay_ns: 0,
            occupied: 0,
            paused: 0,
            pfc_pending: 0,
            pfc_xoff: 0,
            is_armed: false,
            role,
            divisor,
            random_seed: splitmix64(ctx.plan.seed ^ hash_pair(id.get(), port.get())),
        });
        self.queues.resize(self.queues.len() + queues as usize, empty_queue);
    }

    /// Returns a port's number at its switch.
    fn port_id(&self, switch: usize, port: usize) -> PortId {
        PortId::new(to_u32(port) - self.switches[switch].first_port)
    }

    /// Returns the port of a queue. A queue of a rotor belongs to the packet link.
    fn port_of_queue(&self, switch: usize, queue: usize) -> PortId {
        let ports =
            &self.ports[self.switches[switch].first_port as usize..][..self.switches[switch].ports as usize];
        let after = ports.partition_point(|port| port.first_queue as usize <= queue);
        let is_owner = |port: &usize| ports[*port].role != PortRole::RotorCircuit;
        let port = (0..after).rev().find(is_owner).unwrap_or(0);
        PortId::new(to_u32(port))
    }

    /// Processes all of a switch's events in the current window, in chronological order. Timers run before
    /// arrivals that occur at the same time.
    pub(crate) fn visit(&mut self, ctx: &mut ShardContext<'_>, node: NodeId) {
        if self.independent_ports {
            self.visit_independent_ports(ctx, node);
            return;
        }
        let switch = self.local_index[node.index()] as usize;
        let batch = ctx.calendar.take_batch(node);
        let (window_start, window_end) = (ctx.calendar.window_start(), ctx.calendar.window_end());
        let mut arrivals = batch.iter();
        self.prefetch(ctx, switch);
        loop {
            let timer = self.switches[switch].timers.peek().map(|Reverse(timer)| *timer);
            let timer = timer.filter(|(time, _)| *time < window_end);
            let arrival = arrivals.as_slice().first().map(|arrival| arrival.time(window_start));
            match (timer, arrival.filter(|time| *time < window_end)) {
                (Some((now, timer)), arrival) if arrival.is_none_or(|time| now <= time) => {
                    self.switches[switch].timers.pop();
                    self.on_timer(ctx, switch, timer, now);
                }
                (_, Some(now)) => {
                    if (batch.len() - arrivals.len()).is_multiple_of(PREFETCH_BATCH) {
                        let next = arrivals.as_slice().iter().take(PREFETCH_BATCH);
                        ctx.arena.prefetch(next.map(|arrival| arrival.packet()));
                    }
                    let arrival = arrivals.next().expect("the arrival was peeked");
                    self.on_arrival::<false>(ctx, switch, arrival.port(), arrival.packet(), now);
                }
                (_, None) => break,
            }
        }
        self.schedule_next_visit(ctx, switch);
        ctx.calendar.recycle_batch(batch);
    }

    /// Prefetches a switch's ports and the packets at the heads of their queues.
    fn prefetch(&mut self, ctx: &ShardContext<'_>, switch: usize) {
        let Switch { first_port, ports, .. } = self.switches[switch];
        let ports = &self.ports[first_port as usize..(first_port + ports) as usize];
        self.queue_heads.clear();
        self.queue_heads.extend(ports.iter().filter(|port| port.occupied != 0).map(|port| {
            let priority = port.occupied.trailing_zeros();
            self.queues[(port.first_queue + priority) as usize].packets.front().unwrap_or(PacketId::NONE)
        }));
        for _ in 0..PREFETCH_DEPTH {
            if ctx.telemetry.has_records() {
                let heads = self.queue_heads.iter().filter(|head| **head != PacketId::NONE);
                ctx.telemetry.record_arena.prefetch(heads.map(|head| ctx.arena[*head].records));
            }
            for head in self.queue_heads.iter_mut().filter(|head| **head != PacketId::NONE) {
                *head = ctx.arena[*head].next;
            }
        }
    }

    fn schedule_next_visit(&self, ctx: &mut ShardContext<'_>, switch: usize) {
        if let Some(Reverse((time, _))) = self.switches[switch].timers.peek() {
            ctx.calendar.schedule_visit(self.switches[switch].id.into(), *time);
        }
    }

    #[inline(always)]
    fn on_timer(&mut self, ctx: &mut ShardContext<'_>, switch: usize, timer: Timer, now: Picos) {
        match timer.event() {
            TimerEvent::Sample => {
                self.sample(ctx, switch, now);
                self.arm_sample(ctx, switch, now);
            }
            TimerEvent::WireFree(port) => {
                let port = self.switches[switch].local_port(port);
                self.ports[port].is_armed = false;
                self.depart_next(ctx, switch, port, now);
            }
            TimerEvent::CircuitChange => self.change_circuit(ctx, switch, now),
            TimerEvent::LinkChange(index) => self.change_link(ctx, switch, index, now),
        }
    }

    /// Sets a port's timer unless it is already set.
    fn arm(&mut self, switch: usize, port: usize) {
        let switch = &mut self.switches[switch];
        let state = &mut self.ports[port];
        if !state.is_armed {
            state.is_armed = true;
            let timer = Timer::wire_free(PortId::new(to_u32(port) - switch.first_port));
            switch.timers.push(Reverse((state.free_at, timer)));
        }
    }

    /// Sends a port's next packet immediately if the wire is free. Otherwise, arms the port. An independent port needs
    /// neither: its wire is not free while a packet waits.
    fn try_depart(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, now: Picos) {
        let state = &self.ports[port];
        if state.is_armed || self.independent_ports {
            return;
        }
        if state.free_at > now {
            self.arm(switch, port);
        } else {
            self.depart_next(ctx, switch, port, now);
        }
    }
}

/// Converts a count that plan validation keeps below 2^32.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("the plan was validated")
}
