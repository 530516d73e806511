//! Connections that run in a real transport stack over UDP sockets.
//!
//! ```text
//!   Plan ──> StackEndpoint (quinn-proto) <──datagrams──> UDP socket in the host's namespace
//!                  ^ time, timeouts                        v ECN codepoints, telemetry in the datagrams
//!            the run's clock
//! ```
//!
//! The endpoints are those that the simulator uses, so both backends run the same stack with the same settings. Each side
//! of a connection has one thread, which owns the endpoint and its socket. As in the simulator, a QUIC connection begins
//! with its first message.

use crate::flow::{Clock, Flow, Row, StackCounters, connection_port, has_messages, messages_of};
use crate::namespace::run_in_node;
use crate::network::address;

use crate::udp::DatagramSocket;
use crate::{Result, machine_error};
use core::net::SocketAddrV4;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicBool, Ordering};
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::stack::{Side, StackEndpoint, StackEvent, StackKind, StackLaw, StackMessage};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::switch::MarkDirection;
use poseidon_plan::topology::Node;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Nanos, Picos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The UDP port of datagrams with telemetry. Routers write only into datagrams to this port.
const TELEMETRY_PORT: u16 = 65_053;
/// The most bytes of a UDP datagram in a packet of 1500 bytes.
const MAX_DATAGRAM: Bytes = Bytes::new(1_500 - 20 - 8);
/// The maximum number of datagrams to receive, or to send, before the other is done. quinn receives as many at a time.
const BATCH: usize = 32;
/// How often a thread checks whether it must stop.
const MAX_WAIT: Picos = Picos::from_nanos(Nanos::from_millis(20));
/// The size of a thread's stack. Handshakes need more than 128 KiB in builds without optimisation.
const THREAD_STACK_BYTES: usize = 1 << 20;
/// The size of the buffer for received datagrams.
const BUFFER_BYTES: usize = 2_048;

/// Returns the factory for the plan's real stacks, or `None` if the plan has no stacks. Rejects plans that the testbed
/// cannot run.
pub(crate) fn check(
    plan: &Plan,
    factory: Option<&'static dyn StackFactory>,
) -> Result<Option<&'static dyn StackFactory>> {
    if plan.stacks.is_empty() {
        return Ok(None);
    }
    let unsupported = |what| Err(PlanError::Unsupported(what));
    let Some(factory) = factory else {
        return unsupported(
            "real transport stacks in this build; build the command with the features `linux` and `stacks`",
        );
    };
    if plan.stacks.iter().any(|law| law.stack == StackKind::Smoltcp) {
        return unsupported(
            "the stack smoltcp, which writes IP packets with its own addresses instead of UDP datagrams; \
             use the simulator",
        );
    }
    if plan.switch.mark_direction == MarkDirection::ReversePerPort {
        return unsupported(
            "per-port reverse marking with real transport stacks, because a mark would reach another connection",
        );
    }
    factory.check(plan)?;
    let datagram = plan.data_size() - factory.overhead(StackKind::Quinn) - plan.switch.stamp.data_bytes();
    if datagram > MAX_DATAGRAM {
        return Err(PlanError::BackendFailed(format!(
            "a full packet has room for a datagram of {} bytes, but the testbed's packets carry at most {}; lower \
             transport.mtu by {} bytes",
            datagram.get(),
            MAX_DATAGRAM.get(),
            (datagram - MAX_DATAGRAM).get()
        )));
    }
    let mut pairs = BTreeSet::new();
    let has_port = |pair: [HostId; 2]| pairs.insert(pair.map(HostId::get));
    if !law_pairs(plan).all(has_port) {
        return unsupported(
            "two connections of a law in a real stack between the same two hosts, because telemetry has one UDP port; \
             use other hosts, or a controller of the stack",
        );
    }
    Ok(Some(factory))
}

/// Returns the hosts of the connections whose datagrams carry telemetry, in ascending order.
fn law_pairs(plan: &Plan) -> impl Iterator<Item = [HostId; 2]> {
    let has_messages = has_messages(plan);
    let connections = plan.connections.iter().enumerate().filter(move |(index, _)| has_messages[*index]);
    connections.filter_map(|(index, connection)| {
        let law = plan.stack_of(ConnectionId::from_index(index))?;
        let (from, to) = (connection.from, connection.to);
        law.controller.is_none().then_some([from.min(to), from.max(to)])
    })
}

/// A connection in a real stack that has not started sending.
pub(crate) struct OpenStackConnection {
    connection: ConnectionId,
    sockets: [DatagramSocket; 2],
    endpoints: [Box<dyn StackEndpoint>; 2],
}

impl OpenStackConnection {
    /// Opens the sockets of both sides.
    pub(crate) fn open(
        plan: &Plan,
        factory: &dyn StackFactory,
        connection: ConnectionId,
        law: &StackLaw,
    ) -> Result<Self> {
        let hosts = &plan.connections[connection.index()];
        let port = if law.controller.is_none() { TELEMETRY_PORT } else { connection_port(connection)? };
        let [from, to] = [hosts.from, hosts.to].map(|host| SocketAddrV4::new(address(host), port));
        let open = |host, own, peer| {
            run_in_node(Node::Host(host), || DatagramSocket::open(own, peer))?
                .map_err(|error| machine_error("opening a UDP socket", error))
        };
        let sockets = [open(hosts.from, from, to)?, open(hosts.to, to, from)?];
        let endpoints = [Side::Sender, Side::Receiver].map(|side| factory.create(plan, connection, side));
        Ok(Self { connection, sockets, endpoints })
    }

    /// Starts a thread for each side.
    pub(crate) fn start(self, plan: &Plan, clock: Clock, rows: &Sender<Row>) -> Result<Flow> {
        let Self { connection, sockets, endpoints } = self;
        let messages = messages_of(plan, connection);
        let counters = Arc::new(StackCounters::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut flow = Flow::in_stack(connection, Arc::clone(&counters), Arc::clone(&stop));
        let sides = [Side::Sender, Side::Receiver];
        for ((side, socket), endpoint) in sides.into_iter().zip(sockets).zip(endpoints) {
            let host = StackHost {
                side,
                endpoint,
                socket,
                messages: messages.clone(),
                started: 0,
                unacknowledged: BTreeMap::new(),
                flow_end: None,
                stop_time: plan.stop,
                unsent: None,
                clock,
                counters: Arc::clone(&counters),
                rows: rows.clone(),
                stop: Arc::clone(&stop),
            };
            flow.spawn(THREAD_STACK_BYTES, move || host.run())?;
        }
        Ok(flow)
    }
}

/// One side of a connection.
struct StackHost {
    side: Side,
    endpoint: Box<dyn StackEndpoint>,
    socket: DatagramSocket,
    /// The messages of the connection. A message's number is its index.
    messages: Vec<(MessageId, Message)>,
    /// The number of messages that the sender has started.
    started: usize,
    unacknowledged: BTreeMap<u32, StartedMessage>,
    /// The end of the current long flow.
    flow_end: Option<Picos>,
    /// The end of the run.
    stop_time: Picos,
    /// A datagram that the socket has not accepted, and whether it is ECN-capable.
    unsent: Option<(Vec<u8>, bool)>,
    clock: Clock,
    counters: Arc<StackCounters>,
    rows: Sender<Row>,
    stop: Arc<AtomicBool>,
}

/// A message that the stack has started to send.
#[derive(Clone, Copy, Debug)]
struct StartedMessage {
    id: MessageId,
    start: Picos,
    /// The message size, or `None` for a long flow.
    size: Option<Bytes>,
    /// The packets that the stack had declared lost before the message started.
    lost_before: u64,
}

impl StackHost {
    fn run(mut self) -> io::Result<()> {
        // By default, the kernel delays timers by up to 50 us to wake fewer threads. This is only an optimisation.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        self.clock.wait(Picos::ZERO);
        let mut buffer = [0; BUFFER_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            self.start_messages();
            if self.endpoint.timeout().is_some_and(|timeout| timeout <= self.clock.now()) {
                self.endpoint.on_timeout(self.clock.now());
            }
            let is_drained = self.receive(&mut buffer)? & self.transmit()?;
            self.record_events();
            self.counters.set_state(self.side, self.endpoint.state());
            if is_drained {
                self.wait();
            }
        }
        Ok(())
    }

    /// Starts the messages that are due, and ends the long flow if it is due.
    fn start_messages(&mut self) {
        let now = self.clock.now();
        if self.flow_end.is_some_and(|end| end <= now) {
            self.flow_end = None;
            self.endpoint.end_long_flow(now);
        }
        while let Some((id, start)) = self.next_message()
            && start <= now
        {
            let (_, message) = self.messages[self.started];
            let number = u32::try_from(self.started).unwrap_or(u32::MAX);
            self.started += 1;
            let size = message.amount.bytes();
            if let Amount::Until(until) = message.amount {
                self.flow_end = (until < self.stop_time).then_some(until);
            }
            let lost_before = self.endpoint.state().lost;
            self.unacknowledged.insert(number, StartedMessage { id, start, size, lost_before });
            self.endpoint.send(now, StackMessage { number, size });
        }
    }

    /// Returns the sender's next message and its start time.
    fn next_message(&self) -> Option<(MessageId, Picos)> {
        let (id, message) = self.messages.get(self.started)?;
        let is_sent = self.side == Side::Sender && message.start < self.stop_time && self.flow_end.is_none();
        is_sent.then_some((*id, message.start))
    }

    /// Passes datagrams to the stack. Returns whether no more datagrams are waiting.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BATCH {
            match self.socket.receive(buffer) {
                Ok((length, arrival)) => {
                    self.counters.arrived.fetch_add(1, Ordering::Relaxed);
                    self.endpoint.on_datagram(self.clock.now(), &buffer[..length], arrival);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sends what the stack has to send. Returns whether the stack has no more to send now, or the socket is full.
    fn transmit(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH {
            let (datagram, ecn_capable) = match self.unsent.take() {
                Some(unsent) => unsent,
                None => {
                    let mut datagram = Vec::with_capacity(BUFFER_BYTES);
                    let Some(ecn_capable) = self.endpoint.poll_transmit(self.clock.now(), &mut datagram)
                    else {
                        return Ok(true);
                    };
                    (datagram, ecn_capable)
                }
            };
            match self.socket.send(&datagram, ecn_capable) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent = Some((datagram, ecn_capable));
                    return Ok(true);
                }
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error),
            }
            self.counters.sent.fetch_add(1, Ordering::Relaxed);
            self.counters.sent_bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
        }
        Ok(false)
    }

    /// Records the messages that the stack reports as received or acknowledged.
    fn record_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            let time = self.clock.now();
            let row = match event {
                StackEvent::Received(number) => {
                    let message = usize::try_from(number).ok().and_then(|number| self.messages.get(number));
                    let Some((message, _)) = message else { continue };
                    Row::Received(ReceivedRow { message: *message, time })
                }
                StackEvent::Acknowledged(number) => {
                    let Some(message) = self.unacknowledged.remove(&number) else { continue };
                    let lost = self.endpoint.state().lost - message.lost_before;
                    let sent = Bytes::new(self.counters.sent_bytes.load(Ordering::Relaxed));
                    Row::Acknowledged(MessageRow {
                        message: message.id,
                        start: message.start,
                        acknowledged: time,
                        size: message.size.unwrap_or(sent),
                        retransmitted: u32::try_from(lost).unwrap_or(u32::MAX),
                    })
                }
            };
            // The run may already have ended.
            let _ = self.rows.send(row);
        }
    }

    /// Waits for a datagram, a timeout of the stack, or the next message.
    fn wait(&self) {
        let times = [self.endpoint.timeout(), self.flow_end, self.next_message().map(|(_, start)| start)];
        let now = self.clock.now();
        let wait = times.into_iter().flatten().min().map_or(MAX_WAIT, |due| (due - now).min(MAX_WAIT));
        let nanos = i64::try_from(wait.get().div_ceil(1_000)).unwrap_or(0);
        let timeout = Timespec { tv_sec: 0, tv_nsec: nanos };
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.unsent.is_some());
        // A signal can interrupt the call. The thread then finds nothing to do and waits again.
        let _ = poll(&mut [PollFd::new(&self.socket, events)], Some(&timeout));
    }
}

/// Returns whether an error means that a datagram was lost: a queue of the host is full, or the peer has closed its
/// socket.
fn is_loss(error: &io::Error) -> bool {
    let no_buffers = rustix::io::Errno::NOBUFS.raw_os_error();
    error.kind() == io::ErrorKind::ConnectionRefused || error.raw_os_error() == Some(no_buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::stack::Controller;
    use poseidon_plan::switch::Stamp;
    use poseidon_plan::{Link, Topology};
    use poseidon_stacks::STACKS;
    use poseidon_testkit::plans;
    use poseidon_types::BitRate;

    /// Returns a plan with two connections in quinn from one host to another.
    fn plan(controller: Option<Controller>) -> Plan {
        let link = Link { rate: BitRate::from_mbps(100), delay: Picos::ZERO };
        let mut plan = plans::plan(Topology::star(2, link), "cubic", &[(0, 1), (1, 0)]);
        plan.switch.stamp = Stamp::Off;
        plan.transport.mtu = Bytes::new(1_440);
        plan.transport.header = Bytes::new(70);
        plan.stacks = vec![StackLaw { law: 0, stack: StackKind::Quinn, controller }];
        plan
    }

    fn refusal(plan: &Plan) -> String {
        check(plan, Some(&STACKS)).expect_err("the plan is not supported").to_string()
    }

    #[test]
    fn plans_with_stacks_that_cannot_run_are_refused_with_a_remedy() {
        let cubic = plan(Some(Controller::Cubic));
        assert!(check(&cubic, Some(&STACKS)).expect("the plan is supported").is_some());
        let without_stacks = check(&cubic, None).expect_err("there is no factory").to_string();
        assert!(without_stacks.contains("feature"), "{without_stacks}");

        let mut smoltcp = cubic.clone();
        smoltcp.stacks[0].stack = StackKind::Smoltcp;
        assert!(refusal(&smoltcp).ends_with("use the simulator"));

        let mut per_port = cubic.clone();
        per_port.switch.mark_direction = MarkDirection::ReversePerPort;
        assert!(refusal(&per_port).contains("reverse marking"));

        let mut large = cubic;
        large.transport.header = Bytes::new(79);
        assert!(refusal(&large).ends_with("lower transport.mtu by 1 bytes"), "{}", refusal(&large));
    }

    #[test]
    fn one_connection_of_a_law_runs_between_two_hosts() {
        let law = plan(None);
        assert!(refusal(&law).contains("one UDP port"), "{}", refusal(&law));
        let mut single = law;
        single.messages.retain(|message| message.connection == ConnectionId::new(0));
        assert!(check(&single, Some(&STACKS)).is_ok());
    }

    #[test]
    fn plans_without_stacks_need_no_factory() {
        let mut tcp = plan(None);
        tcp.stacks.clear();
        assert!(check(&tcp, None).expect("TCP needs no stack").is_none());
    }
}
