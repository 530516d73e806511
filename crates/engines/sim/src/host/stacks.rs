//! Connections that run in real transport stacks.
//!
//! Both sides of such a connection send datagrams. A side is created when it is first needed: the sender when its first
//! message is due, and the receiver when the first datagram arrives. The stack writes a datagram when the wire of its
//! host is free, so at most the datagram on the wire is ahead of the stack.

use core::cmp::Reverse;
use poseidon_plan::Report;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::stack::{Arrival, Side, StackEndpoint, StackEvent, StackMessage, StackState};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::Stamp;
use poseidon_plan::traffic::Amount;
use poseidon_plan::transport::AnyPathPolicy;
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Nanos, Picos};
use std::collections::BTreeMap;

use super::{Endpoints, Rack, Timer};
use crate::context::ShardContext;
use crate::datagrams::DatagramSlot;
use crate::hash::{hash_pair, low32};
use crate::network::HostLocation;
use crate::packet::{Packet, PacketId, PacketKind, PacketTag};
use crate::sender::path_entropy;

/// The time after which a host calls a stack again if the stack still asks for the same time after its timeout. Time
/// therefore always advances, also if a stack rounds times.
const RETRY_AFTER: Picos = Picos::from_nanos(Nanos::new(1));

/// One side of a connection in a real stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackSide {
    connection: ConnectionId,
    side: Side,
}

impl StackSide {
    pub(super) const fn new(connection: ConnectionId, side: Side) -> Self {
        Self { connection, side }
    }

    /// Returns the side of a connection that runs on `host`.
    fn on_host(ctx: &ShardContext<'_>, connection: ConnectionId, host: HostId) -> Self {
        let is_sender = ctx.plan.connections[connection.index()].from == host;
        Self::new(connection, if is_sender { Side::Sender } else { Side::Receiver })
    }

    /// Returns the side's host and the host at the other end.
    fn hosts(self, ctx: &ShardContext<'_>) -> (HostId, HostId) {
        let ends = &ctx.plan.connections[self.connection.index()];
        match self.side {
            Side::Sender => (ends.from, ends.to),
            Side::Receiver => (ends.to, ends.from),
        }
    }

    /// Returns zero for the sender and one for the receiver.
    const fn parity(self) -> u32 {
        match self.side {
            Side::Sender => 0,
            Side::Receiver => 1,
        }
    }

    const fn index(self) -> usize {
        2 * self.connection.index() + self.parity() as usize
    }

    const fn timer(self) -> Timer {
        match self.side {
            Side::Sender => Timer::StackSender(self.connection),
            Side::Receiver => Timer::StackReceiver(self.connection),
        }
    }
}

/// The sides of all connections in real stacks that are in this shard.
pub(super) struct StackSides {
    factory: &'static dyn StackFactory,
    /// The hosts of the stacks, indexed by side.
    hosts: Vec<Option<Box<StackHost>>>,
}

/// The host of one side of a connection in a real stack.
struct StackHost {
    endpoint: Box<dyn StackEndpoint>,
    /// The messages that are not acknowledged, by their numbers within the connection.
    messages: BTreeMap<u32, StartedMessage>,
    /// The number of messages that have started.
    started_messages: u32,
    /// The number of datagrams sent so far.
    sent: u32,
    /// The bytes of the datagrams sent so far.
    sent_bytes: u64,
    /// The times of the pending timers, earliest last.
    timers: Vec<Picos>,
    /// The time at which the stack last processed a timeout.
    timed_out_at: Option<Picos>,
    /// Whether the connection is on its host's ready list.
    is_ready: bool,
    priority: u8,
    /// The bytes that a link carries in addition to a datagram: headers and telemetry.
    overhead: u64,
    /// The ECMP hash input for the side's datagrams.
    entropy: u32,
    /// The host at the other end.
    destination: HostLocation,
}

/// A message that its stack has started to send.
#[derive(Clone, Copy, Debug)]
struct StartedMessage {
    id: MessageId,
    start: Picos,
    /// The message size, or `None` for a long flow.
    size: Option<Bytes>,
    /// The packets that the stack had declared lost before the message started.
    lost_before: u64,
}

impl StackSides {
    pub(super) fn new(factory: &'static dyn StackFactory, connections: usize) -> Self {
        Self { factory, hosts: (0..2 * connections).map(|_| None).collect() }
    }

    fn get_mut(&mut self, side: StackSide) -> Option<&mut StackHost> {
        self.hosts.get_mut(side.index())?.as_deref_mut()
    }

    fn get_or_create(&mut self, ctx: &ShardContext<'_>, side: StackSide) -> &mut StackHost {
        let factory = self.factory;
        self.hosts[side.index()].get_or_insert_with(|| Box::new(StackHost::new(ctx, factory, side)))
    }
}

impl StackHost {
    fn new(ctx: &ShardContext<'_>, factory: &dyn StackFactory, side: StackSide) -> Self {
        let plan = ctx.plan;
        let connection = &plan.connections[side.connection.index()];
        let stack = plan.stack_of(side.connection).expect("the connection runs in a stack").stack;
        let telemetry = match plan.switch.stamp {
            Stamp::MaxHopDelay(_) => plan.switch.stamp.data_bytes(),
            // Datagrams carry no hop records.
            Stamp::HopRecords(_) | Stamp::Off => Bytes::ZERO,
        };
        let entropy = path_entropy(connection);
        // Datagrams of the receiver mostly carry ACKs, so they are treated like ACKs.
        let (priority, entropy) = match side.side {
            Side::Sender => (connection.priority, entropy),
            Side::Receiver => (plan.transport.ack_priority.unwrap_or(connection.priority), !entropy),
        };
        Self {
            endpoint: factory.create(plan, side.connection, side.side),
            messages: BTreeMap::new(),
            started_messages: 0,
            sent: 0,
            sent_bytes: 0,
            timers: Vec::new(),
            timed_out_at: None,
            is_ready: false,
            priority,
            overhead: (factory.overhead(stack) + telemetry).get(),
            entropy,
            destination: ctx.network.locate(side.hosts(ctx).1),
        }
    }

    /// Starts the connection's next message.
    fn start_message(&mut self, id: MessageId, size: Option<Bytes>, now: Picos) {
        let number = self.started_messages;
        self.started_messages += 1;
        let lost_before = self.endpoint.state().lost;
        self.messages.insert(number, StartedMessage { id, start: now, size, lost_before });
        self.endpoint.send(now, StackMessage { number, size });
    }

    /// Records the messages that the stack reports as received or acknowledged.
    fn record_events(&mut self, ctx: &mut ShardContext<'_>, connection: ConnectionId, now: Picos) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                StackEvent::Received(number) => {
                    if let Some(message) = ctx.schedule.message(connection, number) {
                        ctx.rows.received.push(ReceivedRow { message, time: now });
                    }
                }
                StackEvent::Acknowledged(number) => {
                    let Some(message) = self.messages.remove(&number) else { continue };
                    let lost = self.endpoint.state().lost - message.lost_before;
                    ctx.rows.messages.push(MessageRow {
                        message: message.id,
                        start: message.start,
                        acknowledged: now,
                        size: message.size.unwrap_or_else(|| Bytes::new(self.sent_bytes)),
                        retransmitted: u32::try_from(lost).unwrap_or(u32::MAX),
                    });
                }
            }
        }
    }

    /// Returns the time of a new timer if the stack asks for a timeout before its earliest pending timer.
    fn next_timer(&mut self, now: Picos, stop: Picos) -> Option<Picos> {
        let earliest = if self.timed_out_at == Some(now) { now + RETRY_AFTER } else { now };
        let time = self.endpoint.timeout()?.max(earliest);
        let is_needed = time < stop && self.timers.last().is_none_or(|pending| time < *pending);
        is_needed.then(|| self.timers.push(time)).map(|()| time)
    }

    /// Returns the packet that carries the stack's next datagram, or `None` if the stack has nothing to send.
    fn poll_datagram(&mut self, ctx: &mut ShardContext<'_>, side: StackSide, now: Picos) -> Option<PacketId> {
        let slot = ctx.datagrams.allocate();
        let Some(ecn_capable) = self.endpoint.poll_transmit(now, ctx.datagrams.buffer_mut(slot)) else {
            ctx.datagrams.free(slot);
            return None;
        };
        Some(self.new_packet(ctx, side, slot, ecn_capable, now))
    }

    fn new_packet(
        &mut self,
        ctx: &mut ShardContext<'_>,
        side: StackSide,
        slot: DatagramSlot,
        ecn_capable: bool,
        now: Picos,
    ) -> PacketId {
        let len = ctx.datagrams.bytes(slot).len() as u64;
        let size = len + self.overhead;
        let largest = ctx.plan.data_size().get();
        assert!(size <= largest, "a stack sent {size} B, but packets have at most {largest} B");
        let narrow = |bytes: u64| u16::try_from(bytes).expect("the largest packet fits in 16 bits");
        let number = self.sent;
        self.sent = number.wrapping_add(1);
        self.sent_bytes += len;
        ctx.report.sent += 1;
        ctx.report.sent_bytes += Bytes::new(len);
        let mut tag = PacketTag::new(PacketKind::Datagram, self.priority);
        tag.set_ecn_capable(ecn_capable);
        let packet = Packet {
            sent_at_ps: now.get(),
            connection: side.connection.get(),
            seq: number.wrapping_mul(2) | side.parity(),
            dst_rack: self.destination.rack,
            dst_slot: self.destination.slot,
            dst_pod: self.destination.pod,
            entropy: match ctx.plan.transport.load_balancing {
                AnyPathPolicy::Spray(_) => low32(hash_pair(self.entropy, number)),
                // A plan with stacks has no other policies.
                _ => self.entropy,
            },
            size: narrow(size),
            records: ctx.telemetry.allocate_for_datagram(),
            tag,
            ..Packet::EMPTY
        };
        ctx.arena.insert(packet.with_datagram(slot, u32::from(narrow(len))))
    }
}

impl Rack {
    /// Passes a due message to the real stack of its connection.
    #[cold]
    #[inline(never)]
    pub(super) fn start_stack_message(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        id: MessageId,
        now: Picos,
    ) {
        let message = ctx.schedule.content(ctx.plan, id);
        let side = StackSide::new(message.connection, Side::Sender);
        let Some(stacks) = &mut endpoints.stacks else { return };
        stacks.get_or_create(ctx, side).start_message(id, message.amount.bytes(), now);
        if let Amount::Until(until) = message.amount
            && until < ctx.plan.stop
        {
            self.timers.push(Reverse((until.max(now), Timer::EndOpenMessage(message.connection))));
        }
        self.update_stack(ctx, endpoints, side, now);
    }

    /// Ends the long flow of a connection in a real stack.
    #[cold]
    #[inline(never)]
    pub(super) fn end_stack_flow(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        connection: ConnectionId,
        now: Picos,
    ) {
        let side = StackSide::new(connection, Side::Sender);
        let Some(host) = endpoints.stacks.as_mut().and_then(|stacks| stacks.get_mut(side)) else { return };
        host.endpoint.end_long_flow(now);
        self.update_stack(ctx, endpoints, side, now);
    }

    /// Passes a datagram that arrived at a host to its stack.
    #[cold]
    #[inline(never)]
    pub(super) fn on_datagram(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        id: PacketId,
        now: Picos,
    ) {
        let packet = ctx.arena[id];
        let side = StackSide::on_host(ctx, packet.connection(), self.host_in(ctx, slot));
        ctx.report.delivered += 1;
        ctx.arrived_bytes += ctx.payload(&packet);
        let max_hop_delay = ctx.telemetry.datagram_max_hop_delay(&packet);
        let (marked, ecn_capable) = (packet.tag.is_marked(), packet.tag.is_ecn_capable());
        let arrival = Arrival { ecn_capable, marked, max_hop_delay };
        if let Some(stacks) = &mut endpoints.stacks {
            let endpoint = &mut stacks.get_or_create(ctx, side).endpoint;
            endpoint.on_datagram(now, ctx.datagrams.bytes(packet.datagram_slot()), arrival);
        }
        ctx.discard(id);
        self.update_stack(ctx, endpoints, side, now);
    }

    /// Handles the earliest timer of a stack. The stack's timeout may have moved since the timer was set.
    #[cold]
    #[inline(never)]
    pub(super) fn on_stack_timer(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        side: StackSide,
        now: Picos,
    ) {
        let Some(host) = endpoints.stacks.as_mut().and_then(|stacks| stacks.get_mut(side)) else { return };
        let pending = host.timers.pop();
        debug_assert_eq!(pending, Some(now), "timers run in order");
        if host.endpoint.timeout().is_some_and(|timeout| timeout <= now) {
            host.timed_out_at = Some(now);
            host.endpoint.on_timeout(now);
            self.update_stack(ctx, endpoints, side, now);
        } else {
            self.arm_stack_timer(ctx, host, side, now);
        }
    }

    /// Records a stack's events, sets its timer and makes its connection ready after its state has changed. Then sends
    /// the host's next packet.
    fn update_stack(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        side: StackSide,
        now: Picos,
    ) {
        let Some(host) = endpoints.stacks.as_mut().and_then(|stacks| stacks.get_mut(side)) else { return };
        let slot = self.slot_of(ctx, side.hosts(ctx).0);
        host.record_events(ctx, side.connection, now);
        self.arm_stack_timer(ctx, host, side, now);
        if !host.is_ready {
            host.is_ready = true;
            self.tx_queue(ctx, slot, host.priority).ready.push_back(side.connection);
        }
        self.send_next(ctx, endpoints, slot, now);
    }

    /// Sets a timer for a stack's timeout unless an earlier timer is already set. When the earlier timer expires, it
    /// sets a new timer.
    fn arm_stack_timer(&mut self, ctx: &ShardContext<'_>, host: &mut StackHost, side: StackSide, now: Picos) {
        if let Some(time) = host.next_timer(now, ctx.plan.stop) {
            self.timers.push(Reverse((time, side.timer())));
        }
    }

    /// Takes the next datagram of a ready connection from its stack. The connection stays ready if it sent one.
    #[cold]
    #[inline(never)]
    pub(super) fn dequeue_datagram(
        &mut self,
        ctx: &mut ShardContext<'_>,
        endpoints: &mut Endpoints,
        slot: u32,
        connection: ConnectionId,
        now: Picos,
    ) -> Option<PacketId> {
        let stacks = endpoints.stacks.as_mut()?;
        let side = StackSide::on_host(ctx, connection, self.host_in(ctx, slot));
        let host = stacks.get_mut(side)?;
        let packet = host.poll_datagram(ctx, side, now);
        host.record_events(ctx, connection, now);
        self.arm_stack_timer(ctx, host, side, now);
        host.is_ready = packet.is_some();
        if host.is_ready {
            self.tx_queue(ctx, slot, host.priority).ready.push_back(connection);
        }
        packet
    }
}

impl Endpoints {
    /// Returns the state of one side of a connection, or `None` if it has not started to run in a real stack.
    pub(super) fn stack_state(&self, side: StackSide) -> Option<StackState> {
        let host = self.stacks.as_ref()?.hosts.get(side.index())?.as_ref()?;
        Some(host.endpoint.state())
    }

    /// Adds the totals that real stacks report at the end of a run.
    pub(crate) fn add_stack_totals(&self, report: &mut Report) {
        let hosts = self.stacks.iter().flat_map(|stacks| &stacks.hosts);
        for host in hosts.flatten() {
            let state = host.endpoint.state();
            report.retransmitted += state.lost;
            report.delivered_bytes += state.received;
        }
    }
}
