//! Hosts and their transport, simulated one rack at a time.
//!
//! A host serves its priorities in strict order. Within a priority, replies are sent first, and then the
//! ready connections take turns. A connection is ready if it has data, its window has space and pacing allows
//! a packet. The host rechecks these conditions when a reply or a timer changes the connection's state. A
//! connection in a real transport stack is ready after any event at its host, and takes its turn with the others.

mod credits;
mod pacing;
mod receiving;
mod rings;
mod sack;
mod sending;
mod stacks;

use core::cmp::Reverse;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{PauseTimeRow, ReceiverRow, SenderRow};
use poseidon_plan::rings::{RingProgress, RingRank};
use poseidon_plan::stack::Side;
use poseidon_plan::topology::Node;
use poseidon_plan::traffic::Event;
use poseidon_types::{Bytes, ConnectionId, HostId, JoinId, MessageId, Picos, PortId};
use std::collections::{BinaryHeap, VecDeque};

use crate::calendar::{Arrival, PREFETCH_BATCH};
use crate::context::ShardContext;
use crate::credits::pacer::{Grant, Pacer};
use crate::packet::{Fifo, Packet, PacketId, PacketKind};
use crate::pfc::PauseClock;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::wire::Wire;
use stacks::{StackSide, StackSides};

/// Both ends of all connections, and the state of message dependencies.
pub(crate) struct Endpoints {
    senders: Vec<Option<Box<Sender>>>,
    receivers: Vec<Receiver>,
    /// The number of dependencies and joins that each message still waits for. Empty if no message waits.
    unmet_dependencies: Vec<u32>,
    /// The number of events that each join still waits for.
    unmet_events: Vec<u32>,
    /// Whether each message is due. A due message may still have to wait for earlier messages on its
    /// connection. Empty if no message waits.
    is_due: Vec<bool>,
    /// The state of each ring.
    rings: Vec<RingProgress>,
    /// The credit of each connection at its receiver. Empty without credits.
    grants: Vec<Grant>,
    /// The connections in real transport stacks, if the plan has any.
    stacks: Option<StackSides>,
}

impl Endpoints {
    pub(crate) fn new(ctx: &ShardContext<'_>) -> Self {
        let connections = (0..ctx.plan.connections.len()).map(ConnectionId::from_index);
        let first_end = |connection| ctx.schedule.end_seq_at(connection, 0);
        let unmet_dependencies = ctx.schedule.dependency_counts.clone();
        Self {
            senders: connections.clone().map(|_| None).collect(),
            receivers: connections.map(|connection| Receiver::new(first_end(connection))).collect(),
            is_due: vec![false; unmet_dependencies.len()],
            unmet_dependencies,
            unmet_events: ctx.schedule.join_counts.clone(),
            rings: ctx.schedule.rings.layouts().iter().map(RingProgress::new).collect(),
            grants: credits::grants(ctx.plan),
            stacks: ctx.stacks.map(|factory| StackSides::new(factory, ctx.plan.connections.len())),
        }
    }

    /// Prefetches the state of the endpoint that will receive a packet.
    #[inline]
    fn prefetch(&self, packet: &Packet) {
        let connection = packet.connection().index();
        if packet.tag.kind() == PacketKind::Data {
            core::hint::black_box(self.receivers.get(connection).map(|receiver| receiver.next_expected));
        } else if let Some(Some(sender)) = self.senders.get(connection) {
            core::hint::black_box((sender.una, sender.srtt));
        }
    }

    /// Prefetches what the receivers of a batch of packets will read next, with scoreboards and selective
    /// acknowledgements. The loads of one step are independent, so the memory system can overlap them.
    #[cold]
    #[inline(never)]
    fn prefetch_sack(&self, ctx: &ShardContext<'_>, arrivals: &[Arrival]) {
        let packets = || arrivals.iter().map(|arrival| &ctx.arena[arrival.packet()]);
        let replies = || packets().filter(|packet| packet.tag.kind() != PacketKind::Data);
        ctx.telemetry.record_arena.prefetch(replies().map(|reply| reply.records));
        let senders = || {
            replies()
                .filter_map(|reply| self.senders.get(reply.connection().index()).and_then(Option::as_ref))
        };
        core::hint::black_box(senders().fold(0, |sizes, sender| sizes ^ sender.sack_bytes_in_flight().get()));
        senders().for_each(|sender| sender.prefetch_sack());
    }

    /// Records the state of one end of a connection before the events at `now` are processed.
    fn sample(&self, ctx: &mut ShardContext<'_>, end: WatchedEnd, now: Picos) {
        match end {
            WatchedEnd::Sender(connection) => {
                if let Some(sender) = &self.senders[connection.index()] {
                    ctx.rows.senders.push(SenderRow {
                        time: now,
                        connection,
                        window: sender.decision.window,
                        in_flight: sender.in_flight,
                        srtt: sender.srtt,
                    });
                } else if let Some(state) = self.stack_state(StackSide::new(connection, Side::Sender)) {
                    let mtu = ctx.plan.transport.mtu;
                    ctx.rows.senders.push(SenderRow::from_stack(now, connection, &state, mtu));
                }
            }
            WatchedEnd::Receiver(connection) => {
                let received = match self.stack_state(StackSide::new(connection, Side::Receiver)) {
                    Some(state) => state.received,
                    None => Bytes::new(self.receivers[connection.index()].received_bytes),
                };
                ctx.rows.receivers.push(ReceiverRow { time: now, connection, received });
            }
        }
    }
}

/// One end of a watched connection.
#[derive(Clone, Copy, Debug)]
enum WatchedEnd {
    Sender(ConnectionId),
    Receiver(ConnectionId),
}

/// A rack of hosts.
#[derive(Debug)]
pub(crate) struct Rack {
    rack: u32,
    hosts: Vec<Host>,
    /// Transmit queues, indexed by host and priority.
    tx_queues: Vec<TxQueue>,
    timers: BinaryHeap<Reverse<(Picos, Timer)>>,
    /// The pacer of each host's credits. Empty without credits.
    pacers: Vec<Pacer>,
    /// The rack's messages that have no dependencies, latest first.
    messages: Vec<MessageId>,
    /// The ends of watched connections that are in this rack.
    watched: Vec<WatchedEnd>,
}

#[derive(Clone, Debug)]
struct Host {
    wire: Wire,
    /// The time at which the wire becomes free.
    free_at: Picos,
    /// Whether a [`Timer::WireFree`] timer is set.
    wire_timer_set: bool,
    /// A bit mask of the priorities that PFC has paused.
    paused: u8,
    pause_clock: PauseClock,
}

/// A host's transmit queue for one priority.
#[derive(Clone, Debug)]
struct TxQueue {
    replies: Fifo,
    /// Connections that may send, in round-robin order.
    ready: VecDeque<ConnectionId>,
}

/// Rack timers. Timers that expire at the same time run in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The watched connections are sampled.
    Sample,
    /// A link change is applied to a host's wire. The value is an index into the plan's link changes.
    LinkChange(u32),
    /// The wire of the host in this slot becomes free.
    WireFree(u32),
    /// Pacing allows a connection to send its next packet.
    Pacing(ConnectionId),
    /// A connection's retransmission timeout expires.
    Rto(ConnectionId),
    /// A delayed ACK reaches its deadline.
    DelayedAck(ConnectionId),
    /// An open-ended message ends.
    EndOpenMessage(ConnectionId),
    /// The next message in the rack's list is due.
    NextMessage,
    /// A message whose dependencies are met is due.
    DependentMessage(MessageId),
    /// The delay of a join has passed.
    Join(JoinId),
    /// A rank of a ring starts its next repetition.
    RingRepetition(RingRank),
    /// A real stack at a connection's sender may have a timeout.
    StackSender(ConnectionId),
    /// A real stack at a connection's receiver may have a timeout.
    StackReceiver(ConnectionId),
    /// The host in this slot sends its next pull packet.
    Pull(u32),
}

impl Rack {
    pub(crate) fn new(ctx: &ShardContext<'_>, rack: u32) -> Self {
        let hosts = ctx.network.hosts_in(rack);
        let tx_queues = hosts.len() * usize::from(ctx.plan.switch.priorities);
        let new_host = |number| Host {
            wire: ctx.network.host_wire(HostId::new(number)),
            free_at: Picos::ZERO,
            wire_timer_set: false,
            paused: 0,
            pause_clock: PauseClock::default(),
        };
        Self {
            rack,
            pacers: credits::pacers(ctx.plan, hosts.len()),
            hosts: hosts.map(new_host).collect(),
            tx_queues: vec![TxQueue { replies: Fifo::EMPTY, ready: VecDeque::new() }; tx_queues],
            timers: BinaryHeap::new(),
            messages: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Sets the timers for messages, link changes and samples. `messages` must be sorted by time.
    pub(crate) fn start(&mut self, ctx: &mut ShardContext<'_>, mut messages: Vec<MessageId>) {
        messages.reverse();
        self.messages = messages;
        self.arm_next_message(ctx);
        let node = ctx.network.rack_node(self.rack);
        for (index, change) in (0..).zip(&ctx.plan.link_changes) {
            if ctx.network.peer_of(change.switch, change.port).node == node {
                self.timers.push(Reverse((change.time, Timer::LinkChange(index))));
            }
        }
        for connection in &ctx.plan.watched_connections {
            let ends = ctx.plan.connections[connection.index()];
            let is_local = |host| ctx.network.locate(host).rack == self.rack;
            self.watched.extend(is_local(ends.from).then_some(WatchedEnd::Sender(*connection)));
            self.watched.extend(is_local(ends.to).then_some(WatchedEnd::Receiver(*connection)));
        }
        self.arm_sample(ctx, Picos::ZERO);
        self.schedule_next_visit(ctx);
    }

    /// Records the state of the watched connections.
    pub(crate) fn sample(&self, ctx: &mut ShardContext<'_>, endpoints: &Endpoints, now: Picos) {
        for end in &self.watched {
            endpoints.sample(ctx, *end, now);
        }
    }

    /// Records the time for which PFC paused each host. The run ends at `end`.
    pub(crate) fn record_pauses(&self, ctx: &mut ShardContext<'_>, end: Picos) {
        for (slot, host) in (0..).zip(&self.hosts) {
            let paused = host.pause_clock.total(host.paused, end);
            if paused > Picos::ZERO {
                let port = NodePort::new(Node::Host(self.host_in(ctx, slot)), PortId::new(0));
                ctx.rows.pause_times.push(PauseTimeRow { port, paused });
            }
        }
    }

    /// Sets the timer for the next sample after `now` if that sample is due before the end of the run.
    fn arm_sample(&mut self, ctx: &ShardContext<'_>, now: Picos) {
        if let Some(next) = ctx.next_sample(now).filter(|_| !self.watched.is_empty()) {
            self.timers.push(Reverse((next, Timer::Sample)));
        }
    }

    /// Processes all of this rack's events in the current window, in chronological order.
    pub(crate) fn visit(&mut self, ctx: &mut ShardContext<'_>, endpoints: &mut Endpoints) {
        let batch = ctx.calendar.take_batch(ctx.network.rack_node(self.rack));
        let (window_start, window_end) = (ctx.calendar.window_start(), ctx.calendar.window_end());
        let mut arrivals = batch.iter();
        loop {
            let timer =
                self.timers.peek().map(|Reverse(timer)| *timer).filter(|(time, _)| *time < window_end);
            let arrival = arrivals.as_slice().first().map(|arrival| arrival.time(window_start));
            match (timer, arrival.filter(|time| *time < window_end)) {
                (Some((now, timer)), arrival) if arrival.is_none_or(|time| now <= time) => {
                    self.timers.pop();
                    self.on_timer(ctx, endpoints, timer, now);
                }
                (_, Some(now)) => {
                    if (batch.len() - arrivals.len()).is_multiple_of(PREFETCH_BATCH) {
                        let next = &arrivals.as_slice()[..PREFETCH_BATCH.min(arrivals.len())];
                        ctx.prefetch(next);
                        next.iter().for_each(|arrival| endpoints.prefetch(&ctx.arena[arrival.packet()]));
                        if ctx.telemetry.record_arena.has_selective_acks() {
                            endpoints.prefetch_sack(ctx, next);
                        }
                    }
                    let arrival = *arrivals.next().expect("the arrival was peeked");
                    self.on_packet(ctx, endpoints, arrival.port().get(), arrival.packet(), now);
                }
                (_, None) => break,
            }
        }
        self.schedule_next_visit(ctx);
        ctx.calendar.recycle_batch(batch);
    }

    fn schedule_next_visit(&self, ctx: &mut ShardContext<'_>) {
        if let Some(Reverse((time, _))) = self.timers.peek() {
            ctx.calendar.schedule_visit(ctx.network.rack_node(self.rack), *time);
        }
    }

    fn arm_next_message(&mut self, ctx: &ShardContext<'_>) {
        if let Some(message) = self.messages.last() {
            let start = ctx.schedule.content(ctx.plan, *message).start;
            self.timers.push(Reverse((start, Timer::NextMessage)));
        }
    }

    fn on_timer(&mut self, ctx: &mut ShardContext<'_>, endpoints: &mut Endpoints, timer: Timer, now: Picos) {
        match timer {
            Timer::Sample => {
                self.sample(ctx, endpoints, now);
                self.arm_sample(ctx, now);
            }
            Timer::WireFree(slot) => {
                self.hosts[slot as usize].wire_timer_set = false;
                self.send_next(ctx, endpoints, slot, now);
            }
            Timer::Pacing(connection) => {
                // Ignore the timer if a newer timer has replaced it.
                if let Some(sender) =
                    endpoints.senders[connection.index()].as_mut().filter(|s| s.pacing_timer == now)
                {
                    sender.pacing_timer = Picos::MAX;
                    self.update_connection(ctx, endpoints, connection, now);
                }
            }
            Timer::Rto(connection) => self.on_rto(ctx, endpoints, connection, now),
            Timer::DelayedAck(connection) => self.on_delayed_ack(ctx, endpoints, connection, now),
            Timer::EndOpenMessage(connection) => self.end_open_message(ctx, endpoints, connection, now),
            Timer::NextMessage => {
                if let Some(message) = self.messages.pop() {
                    self.on_message_due(ctx, endpoints, message, now);
                }
                self.arm_next_message(ctx);
            }
            Timer::DependentMessage(message) => self.on_message_due(ctx, endpoints, message, now),
            Timer::Join(join) => self.complete_join(ctx, endpoints, join, now),
            Timer::RingRepetition(rank) => self.start_ring_repetition(ctx, endpoints, rank, now),
            Timer::StackSender(connection) => {
                self.on_stack_timer(ctx, endpoints, StackSide::new(connection, Side::Sender), now);
            }
            Timer::StackReceiver(connection) => {
                self.on_stack_timer(ctx, endpoints, StackSide::new(connection, Side::Receiver), now);
            }
            Timer::Pull(slot) => self.on_pull_timer(ctx, endpoints, slot, now),
            Timer::LinkChange(index) => {
                let change = ctx.plan.link_changes[index as usize];
                let slot = ctx.network.peer_of(change.switch, change.port).port;
                let host = &mut self.hosts[slot.index()];
                host.wire.apply(change.event, ctx.network.rates(), ctx.network.pipeline);
                self.send_next(ctx, endpoints, slot.get(), now);
            }
        }
    }

    /// Returns a host's slot in this rack.
    fn slot_of(&self, ctx: &ShardContext<'_>, host: HostId) -> u32 {
        host.get() - ctx.network.hosts_in(self.rack).start
    }

    /// Returns the host in a slot of this rack.
    fn host_in(&self, ctx: &ShardContext<'_>, slot: u32) -> HostId {
        HostId::new(ctx.network.hosts_in(self.rack).start + slot)
    }

    fn on_packet(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let packet = ctx.arena[id];
        match packet.tag.kind() {
            PacketKind::Pause => {
                ctx.discard(id);
                let bit = 1 << packet.tag.priority();
                if packet.tag.is_xoff() != (self.hosts[slot as usize].paused & bit != 0) {
                    let port = NodePort::new(Node::Host(self.host_in(ctx, slot)), PortId::new(0));
                    ctx.record_pause(port, packet.tag.priority(), packet.tag.is_xoff(), now);
                }
                let host = &mut self.hosts[slot as usize];
                let before = host.paused;
                host.paused = if packet.tag.is_xoff() { before | bit } else { before & !bit };
                host.pause_clock.update(before, host.paused, now);
                self.send_next(ctx, endpoints, slot, now);
                return;
            }
            PacketKind::Data => {
                ctx.hash_delivery(now, &packet);
                self.on_data(ctx, endpoints, slot, id, now);
            }
            PacketKind::Cnp if packet.tag.is_credit() => {
                self.on_optional_packet(ctx, endpoints, slot, id, now);
            }
            PacketKind::Ack | PacketKind::Nack | PacketKind::Cnp => {
                ctx.hash_delivery(now, &packet);
                self.on_reply(ctx, endpoints, id, now);
            }
            PacketKind::Trimmed | PacketKind::Datagram | PacketKind::PendingAck => {
                self.on_optional_packet(ctx, endpoints, slot, id, now);
            }
        }
        ctx.consumed_packets += 1;
    }

    /// Processes a packet that exists only with credits, trimming or real transport stacks.
    #[cold]
    #[inline(never)]
    fn on_optional_packet(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let packet = ctx.arena[id];
        match packet.tag.kind() {
            PacketKind::Cnp => {
                ctx.hash_delivery(now, &packet);
                self.on_credit_packet(ctx, endpoints, slot, id, now);
            }
            PacketKind::Trimmed => {
                ctx.hash_delivery(now, &packet);
                self.on_trimmed(ctx, endpoints, slot, id, now);
            }
            PacketKind::Datagram => {
                ctx.hash_datagram(now, &packet);
                self.on_datagram(ctx, endpoints, slot, id, now);
            }
            _ => {}
        }
    }

    fn tx_queue(&mut self, ctx: &ShardContext<'_>, slot: u32, priority: u8) -> &mut TxQueue {
        let priorities = usize::from(ctx.plan.switch.priorities);
        &mut self.tx_queues[slot as usize * priorities + usize::from(priority)]
    }

    /// Releases the messages that were waiting for the given event of `message`.
    fn release_dependents(
        &mut self,
        ctx: &ShardContext<'_>,
        endpoints: &mut Endpoints,
        message: MessageId,
        event: Event,
        now: Picos,
    ) {
        if message.index() >= ctx.plan.messages.len() {
            // Messages of rings wait only for received messages.
            if event == Event::Received {
                self.on_ring_message_received(ctx, endpoints, message, now);
            }
            return;
        }
        for dependent in ctx.plan.dependents_of(message, event) {
            self.meet_dependency(ctx, endpoints, dependent, now);
        }
        for join in ctx.plan.joins.waiting_for(message, event) {
            let unmet = &mut endpoints.unmet_events[join.index()];
            *unmet -= 1;
            if *unmet > 0 {
                continue;
            }
            match ctx.plan.joins.delays[join.index()] {
                Picos::ZERO => self.complete_join(ctx, endpoints, join, now),
                delay => self.timers.push(Reverse((now + delay, Timer::Join(join)))),
            }
        }
    }

    /// Releases the messages that were waiting for a join.
    fn complete_join(&mut self, ctx: &ShardContext<'_>, endpoints: &mut Endpoints, join: JoinId, now: Picos) {
        for dependent in ctx.plan.joins.dependents_of(join) {
            self.meet_dependency(ctx, endpoints, dependent, now);
        }
    }

    /// Counts a dependency or a join of a message as met. Schedules the message if it was the last one.
    fn meet_dependency(
        &mut self,
        ctx: &ShardContext<'_>,
        endpoints: &mut Endpoints,
        dependent: MessageId,
        now: Picos,
    ) {
        let unmet = &mut endpoints.unmet_dependencies[dependent.index()];
        *unmet -= 1;
        if *unmet == 0 {
            let due = now + ctx.plan.messages[dependent.index()].start;
            self.timers.push(Reverse((due, Timer::DependentMessage(dependent))));
        }
    }

    /// Sends a host's next packet if its wire is free, and sets the timer for the following packet.
    fn send_next(&mut self, ctx: &mut ShardContext<'_>, endpoints: &mut Endpoints, slot: u32, now: Picos) {
        let priorities = ctx.plan.switch.priorities;
        let Host { free_at, paused, .. } = self.hosts[slot as usize];
        if !self.hosts[slot as usize].wire.is_up {
            return;
        }
        if free_at <= now {
            let mut unpaused = (0..priorities).filter(|priority| paused & (1 << priority) == 0);
            if let Some(id) = unpaused.find_map(|priority| self.dequeue(ctx, endpoints, slot, priority, now))
            {
                let host = &mut self.hosts[slot as usize];
                host.free_at = ctx.transmit(&host.wire, id, now);
            }
        }
        let host = &self.hosts[slot as usize];
        if host.wire_timer_set || host.free_at <= now {
            return;
        }
        let first = slot as usize * usize::from(priorities);
        let queues = self.tx_queues[first..first + usize::from(priorities)].iter();
        if queues.zip(0..).any(|(queue, priority)| host.paused & (1 << priority) == 0 && !queue.is_empty()) {
            self.timers.push(Reverse((host.free_at, Timer::WireFree(slot))));
            self.hosts[slot as usize].wire_timer_set = true;
        }
    }
}

impl TxQueue {
    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.ready.is_empty()
    }
}
