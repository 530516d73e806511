//! A small transport stack for tests: go-back-N with a fixed window, clocked by ACKs, with a retransmission timer.
//!
//! A datagram starts with its kind and an offset in the connection's stream of message bytes. The receiver acknowledges
//! every datagram with the offset that it expects next. The end of a long flow occupies one more offset.

use poseidon_plan::stack::{Arrival, Side, StackEndpoint, StackEvent, StackKind, StackMessage, StackState};
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId, Picos};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The size of the toy's own header.
pub(crate) const HEADER: u64 = 9;
/// The bytes that a link carries in addition to each datagram.
pub(crate) const OVERHEAD: u64 = 38;

const DATA: u8 = 0;
const END: u8 = 1;
const ACK: u8 = 2;

/// The arrival of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedArrival {
    pub(crate) time: Picos,
    pub(crate) connection: ConnectionId,
    pub(crate) side: Side,
    pub(crate) arrival: Arrival,
}

/// Creates toy endpoints with the same settings.
#[derive(Debug)]
pub(crate) struct ToyFactory {
    /// The window in full datagrams.
    pub(crate) window: u64,
    pub(crate) rto: Picos,
    /// Whether data is ECN-capable. ACKs never are.
    pub(crate) ecn: bool,
    /// Whether the sender asks for timeouts in the past while data is outstanding.
    pub(crate) past_timeouts: bool,
    /// The bytes by which full datagrams exceed the limit.
    pub(crate) excess: u64,
    /// All arrivals so far, in no particular order.
    pub(crate) arrivals: Mutex<Vec<LoggedArrival>>,
}

impl ToyFactory {
    /// Creates a factory that lives until the program ends. It has a window of `window` full datagrams and a
    /// retransmission timeout of `rto_us`.
    pub(crate) fn leak(window: u64, rto_us: u64) -> &'static mut Self {
        Box::leak(Box::new(Self {
            window,
            rto: Picos::new(rto_us * 1_000_000),
            ecn: true,
            past_timeouts: false,
            excess: 0,
            arrivals: Mutex::default(),
        }))
    }

    /// Returns the message bytes of a full datagram.
    pub(crate) fn full_payload(plan: &Plan) -> u64 {
        plan.data_size().get() - plan.switch.stamp.data_bytes().get() - OVERHEAD - HEADER
    }
}

/// Returns the byte at an offset of a stream.
const fn stream_byte(offset: u64) -> u8 {
    (offset % 251) as u8
}

/// Writes a datagram with `len` message bytes.
fn write(buffer: &mut Vec<u8>, kind: u8, offset: u64, len: u64) {
    buffer.push(kind);
    buffer.extend_from_slice(&offset.to_be_bytes());
    buffer.extend((offset..offset + len).map(stream_byte));
}

/// Returns the kind, the offset and the message bytes of a datagram.
fn parse(datagram: &[u8]) -> (u8, u64, &[u8]) {
    let (header, payload) = datagram.split_at(1 + size_of::<u64>());
    let offset = u64::from_be_bytes(header[1..].try_into().expect("an offset has eight bytes"));
    assert!((offset..).zip(payload).all(|(offset, byte)| *byte == stream_byte(offset)), "bytes have changed");
    (header[0], offset, payload)
}

impl StackFactory for ToyFactory {
    fn overhead(&self, _: StackKind) -> Bytes {
        Bytes::new(OVERHEAD)
    }

    fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        if plan.transport.mtu < Bytes::new(100) {
            return Err(PlanError::Setting("the toy needs an MTU of at least 100 B"));
        }
        Ok(())
    }

    fn create(&self, plan: &Plan, connection: ConnectionId, side: Side) -> Box<dyn StackEndpoint> {
        let messages = plan.messages.iter().filter(|message| message.connection == connection);
        let mut end = 0;
        let ends = messages.filter_map(|message| message.amount.bytes()).map(|size| {
            end += size.get();
            end
        });
        match side {
            Side::Sender => Box::new(Sender {
                window: self.window * Self::full_payload(plan),
                full_payload: Self::full_payload(plan) + self.excess,
                rto: self.rto,
                ecn: self.ecn,
                past_timeouts: self.past_timeouts,
                ..Sender::default()
            }),
            Side::Receiver => Box::new(Receiver { ends: ends.collect(), ..Receiver::default() }),
        }
    }
}

/// A factory whose endpoints also log the arrivals of datagrams.
#[derive(Debug)]
pub(crate) struct LoggingFactory(pub(crate) &'static ToyFactory);

impl StackFactory for LoggingFactory {
    fn overhead(&self, stack: StackKind) -> Bytes {
        self.0.overhead(stack)
    }

    fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        self.0.check(plan)
    }

    fn create(&self, plan: &Plan, connection: ConnectionId, side: Side) -> Box<dyn StackEndpoint> {
        let endpoint = self.0.create(plan, connection, side);
        Box::new(LoggingEndpoint { endpoint, factory: self.0, connection, side })
    }
}

struct LoggingEndpoint {
    endpoint: Box<dyn StackEndpoint>,
    factory: &'static ToyFactory,
    connection: ConnectionId,
    side: Side,
}

impl StackEndpoint for LoggingEndpoint {
    fn send(&mut self, now: Picos, message: StackMessage) {
        self.endpoint.send(now, message);
    }

    fn end_long_flow(&mut self, now: Picos) {
        self.endpoint.end_long_flow(now);
    }

    fn on_datagram(&mut self, now: Picos, datagram: &[u8], arrival: Arrival) {
        let logged = LoggedArrival { time: now, connection: self.connection, side: self.side, arrival };
        self.factory.arrivals.lock().expect("no test panics with the lock").push(logged);
        self.endpoint.on_datagram(now, datagram, arrival);
    }

    fn poll_transmit(&mut self, now: Picos, buffer: &mut Vec<u8>) -> Option<bool> {
        self.endpoint.poll_transmit(now, buffer)
    }

    fn timeout(&self) -> Option<Picos> {
        self.endpoint.timeout()
    }

    fn on_timeout(&mut self, now: Picos) {
        self.endpoint.on_timeout(now);
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        self.endpoint.poll_event()
    }

    fn state(&self) -> StackState {
        self.endpoint.state()
    }
}

/// The side that sends messages.
#[derive(Default)]
struct Sender {
    window: u64,
    full_payload: u64,
    rto: Picos,
    ecn: bool,
    past_timeouts: bool,
    /// Everything below this offset is acknowledged.
    una: u64,
    /// The next offset to send.
    next: u64,
    /// The offset after the last one that was sent.
    highest: u64,
    /// The offset after the last message byte.
    end: u64,
    /// Whether the end of a long flow follows the last message byte.
    has_end: bool,
    /// The messages that are not acknowledged, with the offset after each of them.
    messages: VecDeque<(u32, u64)>,
    deadline: Option<Picos>,
    /// The offset whose ACK gives the next RTT sample, and the time at which it was sent.
    timed: Option<(u64, Picos)>,
    srtt: Picos,
    events: VecDeque<StackEvent>,
    retransmitted: u64,
}

impl StackEndpoint for Sender {
    fn send(&mut self, _: Picos, message: StackMessage) {
        match message.size {
            Some(size) => {
                self.end += size.get();
                self.messages.push_back((message.number, self.end));
            }
            None => self.end = u64::MAX / 2,
        }
    }

    fn end_long_flow(&mut self, _: Picos) {
        self.end = self.highest;
        self.has_end = true;
        self.messages.push_back((0, self.end + 1));
    }

    fn on_datagram(&mut self, now: Picos, datagram: &[u8], arrival: Arrival) {
        let (kind, offset, _) = parse(datagram);
        assert_eq!(kind, ACK);
        assert!(!arrival.marked, "ACKs are not ECN-capable");
        if offset <= self.una {
            return;
        }
        if let Some((_, sent)) = self.timed.filter(|(end, _)| *end <= offset) {
            self.srtt = now - sent;
            self.timed = None;
        }
        self.una = offset;
        self.next = self.next.max(offset);
        self.deadline = (self.una < self.highest).then(|| now + self.rto);
        while let Some((number, _)) = self.messages.front().copied().filter(|(_, end)| *end <= offset) {
            self.messages.pop_front();
            self.events.push_back(StackEvent::Acknowledged(number));
        }
    }

    fn poll_transmit(&mut self, now: Picos, buffer: &mut Vec<u8>) -> Option<bool> {
        let end = self.end + u64::from(self.has_end);
        if self.next >= end || self.next - self.una >= self.window {
            return None;
        }
        self.retransmitted += u64::from(self.next < self.highest);
        if self.next == self.end {
            write(buffer, END, self.next, 0);
            self.next += 1;
        } else {
            let len = self.full_payload.min(self.end - self.next);
            write(buffer, DATA, self.next, len);
            self.next += len;
        }
        if self.next > self.highest {
            self.highest = self.next;
            self.timed = self.timed.or(Some((self.next, now)));
        }
        self.deadline = self.deadline.or(Some(now + self.rto));
        Some(self.ecn)
    }

    fn timeout(&self) -> Option<Picos> {
        if self.past_timeouts { self.deadline.map(|_| Picos::ZERO) } else { self.deadline }
    }

    fn on_timeout(&mut self, now: Picos) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            (self.next, self.timed) = (self.una, None);
            self.deadline = Some(now + self.rto);
        }
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        self.events.pop_front()
    }

    fn state(&self) -> StackState {
        StackState {
            window: Bytes::new(self.window),
            in_flight: Bytes::new(self.next - self.una),
            srtt: self.srtt.to_nanos_floor(),
            received: Bytes::ZERO,
            lost: self.retransmitted,
        }
    }
}

/// The side that receives messages.
#[derive(Default)]
struct Receiver {
    /// Everything below this offset has arrived.
    expected: u64,
    has_ended: bool,
    /// The offsets after the messages that have not arrived.
    ends: VecDeque<u64>,
    complete: u32,
    pending_acks: u32,
    events: VecDeque<StackEvent>,
}

impl StackEndpoint for Receiver {
    fn send(&mut self, _: Picos, message: StackMessage) {
        panic!("the receiver sends no messages: {message:?}");
    }

    fn end_long_flow(&mut self, _: Picos) {
        panic!("the receiver has no long flow");
    }

    fn on_datagram(&mut self, _: Picos, datagram: &[u8], _: Arrival) {
        let (kind, offset, payload) = parse(datagram);
        self.pending_acks += 1;
        if offset != self.expected || self.has_ended {
            return;
        }
        self.expected += payload.len() as u64;
        if kind == END {
            self.has_ended = true;
            self.events.push_back(StackEvent::Received(0));
        }
        while self.ends.front().is_some_and(|end| *end <= self.expected) {
            self.ends.pop_front();
            self.events.push_back(StackEvent::Received(self.complete));
            self.complete += 1;
        }
    }

    fn poll_transmit(&mut self, _: Picos, buffer: &mut Vec<u8>) -> Option<bool> {
        self.pending_acks = self.pending_acks.checked_sub(1)?;
        write(buffer, ACK, self.expected + u64::from(self.has_ended), 0);
        Some(false)
    }

    fn timeout(&self) -> Option<Picos> {
        None
    }

    fn on_timeout(&mut self, _: Picos) {
        panic!("the receiver has no timeouts");
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        self.events.pop_front()
    }

    fn state(&self) -> StackState {
        StackState { received: Bytes::new(self.expected), ..StackState::default() }
    }
}
