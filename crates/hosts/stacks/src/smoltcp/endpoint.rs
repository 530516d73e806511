//! One side of a TCP connection.

use super::device::PacketQueue;
use super::monitor::SegmentMonitor;
use crate::common::{LONG_FLOW_RESERVE, LONG_FLOW_WINDOWS};
use poseidon_plan::stack::{Arrival, Side, StackEndpoint, StackEvent, StackMessage, StackState};
use poseidon_types::{Bytes, Nanos, Picos};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;

const CLIENT: IpAddress = IpAddress::v4(10, 0, 0, 1);
const SERVER: IpAddress = IpAddress::v4(10, 0, 0, 2);
const PREFIX_LENGTH: u8 = 24;
const CLIENT_PORT: u16 = 49_152;
const SERVER_PORT: u16 = 5_001;
/// The buffer for the direction without data.
const MIN_BUFFER: usize = 4_096;

/// The settings of an endpoint.
pub(super) struct Settings {
    pub(super) side: Side,
    pub(super) device: PacketQueue,
    pub(super) control: CongestionControl,
    /// The size of the socket buffer in the direction of the data.
    pub(super) buffer: usize,
    pub(super) random_seed: u64,
    /// The sizes of the messages. A long flow has no size.
    pub(super) message_sizes: Vec<Option<Bytes>>,
}

/// A message that is not completely written to the socket.
struct Outgoing {
    number: u32,
    /// The bytes to write, or `None` for a long flow.
    remaining: Option<u64>,
    is_long_flow: bool,
}

/// A message whose end in the byte stream is known.
#[derive(Clone, Copy)]
struct Message {
    number: u32,
    end: u64,
}

/// One side of a TCP connection.
pub(super) struct SmoltcpEndpoint {
    side: Side,
    device: PacketQueue,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    monitor: SegmentMonitor,
    outgoing: VecDeque<Outgoing>,
    /// The messages that are written and not acknowledged.
    unacknowledged: VecDeque<Message>,
    written: u64,
    /// The messages that have not arrived completely.
    incoming: VecDeque<Message>,
    /// The number of the long flow that has not arrived completely.
    incoming_long_flow: Option<u32>,
    received: u64,
    events: VecDeque<StackEvent>,
    timeout: Option<Picos>,
}

impl SmoltcpEndpoint {
    pub(super) fn new(settings: Settings) -> Self {
        let Settings { side, mut device, control, buffer, random_seed, message_sizes } = settings;
        let (address, receive_buffer, send_buffer) = match side {
            Side::Sender => (CLIENT, MIN_BUFFER, buffer),
            Side::Receiver => (SERVER, buffer, MIN_BUFFER),
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random_seed;
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(address, PREFIX_LENGTH)).expect("the list has room for one address");
        });
        let ring = |size: usize| SocketBuffer::new(vec![0; size]);
        let mut socket = Socket::new(ring(receive_buffer), ring(send_buffer));
        socket.set_congestion_control(control);
        socket.set_nagle_enabled(false);
        if side == Side::Receiver {
            socket.listen(SERVER_PORT).expect("the socket is closed and the port is not zero");
        }
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let socket = sockets.add(socket);
        let (incoming, incoming_long_flow) = incoming_messages(&message_sizes);
        Self {
            side,
            device,
            interface,
            sockets,
            socket,
            monitor: SegmentMonitor::default(),
            outgoing: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            written: 0,
            incoming,
            incoming_long_flow,
            received: 0,
            events: VecDeque::new(),
            timeout: None,
        }
    }

    /// Connects a client that has not connected before.
    fn connect(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        if self.side == Side::Sender && socket.state() == State::Closed && self.written == 0 {
            socket
                .connect(self.interface.context(), (SERVER, SERVER_PORT), CLIENT_PORT)
                .expect("the socket is closed and the addresses are valid");
        }
    }

    /// Writes and reads as much as the socket accepts, and reports messages.
    fn process_socket(&mut self, now: Picos) {
        self.read();
        self.report_acknowledged();
        self.write();
        self.update_timeout(now);
    }

    fn write(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        while let Some(message) = self.outgoing.front_mut() {
            if !socket.may_send() {
                return;
            }
            while message.remaining != Some(0) {
                let space = match message.remaining {
                    Some(remaining) => remaining,
                    None => (LONG_FLOW_WINDOWS * self.monitor.in_flight() + LONG_FLOW_RESERVE)
                        .saturating_sub(socket.send_queue() as u64),
                };
                // The buffer contains zeros, the data of all messages.
                let take = |buffer: &mut [u8]| {
                    let length = buffer.len().min(usize::try_from(space).unwrap_or(usize::MAX));
                    (length, length as u64)
                };
                let written = socket.send(take).unwrap_or(0);
                if written == 0 {
                    return;
                }
                self.written += written;
                if let Some(remaining) = &mut message.remaining {
                    *remaining -= written;
                }
            }
            if message.is_long_flow {
                // The end of the byte stream tells the receiver where the long flow ends.
                socket.close();
            }
            self.unacknowledged.push_back(Message { number: message.number, end: self.written });
            self.outgoing.pop_front();
        }
        self.report_acknowledged();
    }

    fn report_acknowledged(&mut self) {
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        let acknowledged = self.written - socket.send_queue() as u64;
        while let Some(message) = self.unacknowledged.pop_front_if(|message| message.end <= acknowledged) {
            self.events.push_back(StackEvent::Acknowledged(message.number));
        }
    }

    fn read(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        while socket.can_recv() {
            let length = socket.recv(|data| (data.len(), data.len())).unwrap_or(0);
            self.received += length as u64;
        }
        while let Some(message) = self.incoming.pop_front_if(|message| message.end <= self.received) {
            self.events.push_back(StackEvent::Received(message.number));
        }
        if socket.state() == State::CloseWait
            && let Some(number) = self.incoming_long_flow.take()
        {
            self.events.push_back(StackEvent::Received(number));
        }
    }

    /// Stores the time of the next timer. A socket that wants to send at once needs no timer, because the host asks for
    /// datagrams after every call.
    fn update_timeout(&mut self, now: Picos) {
        let now = to_instant(now);
        let next = self.interface.poll_at(now, &self.sockets);
        self.timeout = next.filter(|next| *next > now).map(to_picos);
    }
}

impl StackEndpoint for SmoltcpEndpoint {
    fn send(&mut self, now: Picos, message: StackMessage) {
        self.connect();
        self.outgoing.push_back(Outgoing {
            number: message.number,
            remaining: message.size.map(Bytes::get),
            is_long_flow: message.size.is_none(),
        });
        self.process_socket(now);
    }

    fn end_long_flow(&mut self, now: Picos) {
        if let Some(message) = self.outgoing.iter_mut().find(|message| message.remaining.is_none()) {
            message.remaining = Some(0);
            self.process_socket(now);
        }
    }

    fn on_datagram(&mut self, now: Picos, datagram: &[u8], _arrival: Arrival) {
        self.monitor.on_receive(now, datagram);
        self.device.push_incoming(datagram);
        self.interface.poll_ingress_single(to_instant(now), &mut self.device, &mut self.sockets);
        self.process_socket(now);
    }

    fn poll_transmit(&mut self, now: Picos, buffer: &mut Vec<u8>) -> Option<bool> {
        if self.device.is_empty() {
            self.interface.poll_egress(to_instant(now), &mut self.device, &mut self.sockets);
        }
        let has_packet = self.device.pop_outgoing(buffer);
        self.update_timeout(now);
        if !has_packet {
            return None;
        }
        self.monitor.on_transmit(now, buffer);
        Some(false)
    }

    fn timeout(&self) -> Option<Picos> {
        self.timeout
    }

    fn on_timeout(&mut self, now: Picos) {
        // An expired timer makes the socket send something, which happens in `poll_transmit`.
        self.update_timeout(now);
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        self.events.pop_front()
    }

    fn state(&self) -> StackState {
        StackState {
            window: Bytes::ZERO,
            in_flight: Bytes::new(self.monitor.in_flight()),
            srtt: self.monitor.srtt(),
            received: Bytes::new(self.received),
            lost: self.monitor.retransmitted(),
        }
    }
}

/// Returns the ends of the messages in the byte stream, and the number of the long flow.
fn incoming_messages(sizes: &[Option<Bytes>]) -> (VecDeque<Message>, Option<u32>) {
    let (mut messages, mut end) = (VecDeque::new(), 0);
    for (number, size) in (0..).zip(sizes) {
        let Some(size) = size else { return (messages, Some(number)) };
        end += size.get();
        messages.push_back(Message { number, end });
    }
    (messages, None)
}

/// Rounds down to microseconds, the resolution of smoltcp.
fn to_instant(time: Picos) -> Instant {
    Instant::from_micros(i64::try_from(time.get() / 1_000_000).unwrap_or(i64::MAX))
}

fn to_picos(instant: Instant) -> Picos {
    Picos::from_nanos(Nanos::from_micros(u64::try_from(instant.total_micros()).unwrap_or(0)))
}
