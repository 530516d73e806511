//! One side of a QUIC connection.

use super::controllers::{InFlight, peer_address};
use super::message_data;
use super::tls::SERVER_NAME;
use crate::common::{LONG_FLOW_RESERVE, LONG_FLOW_WINDOWS};
use bytes::{Buf as _, BytesMut};
use core::time::Duration;
use poseidon_plan::stack::{Arrival, Side, StackEndpoint, StackEvent, StackMessage, StackState};
use poseidon_quic::prefix::PREFIX_BYTES;
use poseidon_quic::quinn::PrefixLayer;
use poseidon_types::{Bytes, Nanos, Picos};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event,
    StreamEvent, StreamId,
};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Instant;

/// quinn sends at most this many datagrams per call.
const MAX_DATAGRAMS: usize = 1;

/// What an endpoint is made of.
pub(super) struct Parts {
    pub(super) endpoint: Endpoint,
    /// The configuration of a client.
    pub(super) client: Option<ClientConfig>,
    pub(super) side: Side,
    pub(super) prefix: Option<PrefixLayer>,
    pub(super) in_flight: InFlight,
}

/// A message that is not completely written to its stream.
struct Outgoing {
    /// The stream, once it is open.
    stream: Option<StreamId>,
    /// The bytes to write, or `None` for a long flow.
    remaining: Option<u64>,
}

/// One side of a QUIC connection.
pub(super) struct QuinnEndpoint {
    parts: Parts,
    connection: Option<(ConnectionHandle, Connection)>,
    outgoing: VecDeque<Outgoing>,
    /// Datagrams of the endpoint that belong to no connection.
    responses: VecDeque<Vec<u8>>,
    events: VecDeque<StackEvent>,
    received: u64,
    timeout: Option<Picos>,
}

impl QuinnEndpoint {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            parts,
            connection: None,
            outgoing: VecDeque::new(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            received: 0,
            timeout: None,
        }
    }

    /// Connects a client that has not connected before.
    fn connect(&mut self, now: Picos) {
        let Some(client) = self.parts.client.take() else { return };
        let address = peer_address(self.parts.side);
        let connection = self.parts.endpoint.connect(to_instant(now), client, address, SERVER_NAME);
        self.connection = Some(connection.expect("the configuration and the address are valid"));
    }

    /// Passes a QUIC datagram to the connection, or creates the connection.
    fn process_datagram(&mut self, now: Instant, datagram: BytesMut, ecn: Option<EcnCodepoint>) {
        let Self { parts: Parts { endpoint, side, .. }, connection, responses, .. } = self;
        let mut response = Vec::new();
        match endpoint.handle(now, peer_address(*side), None, ecn, datagram, &mut response) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if connection.is_some() {
                    endpoint.ignore(incoming);
                } else {
                    *connection = endpoint.accept(incoming, now, &mut response, None).ok();
                }
            }
            Some(DatagramEvent::Response(_)) => responses.push_back(response),
            None => {}
        }
    }

    /// Processes everything that the connection has to report, then writes as much as it accepts.
    fn process_events(&mut self) {
        while self.process_endpoint_events() | self.process_connection_events() {}
        self.write();
        self.update_timeout();
    }

    fn process_endpoint_events(&mut self) -> bool {
        let Self { parts: Parts { endpoint, .. }, connection: Some((handle, connection)), .. } = self else {
            return false;
        };
        let mut has_event = false;
        while let Some(event) = connection.poll_endpoint_events() {
            has_event = true;
            if let Some(event) = endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        has_event
    }

    fn process_connection_events(&mut self) -> bool {
        let mut has_event = false;
        while let Some((_, connection)) = &mut self.connection
            && let Some(event) = connection.poll()
        {
            has_event = true;
            match event {
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = connection.streams().accept(dir) {
                        read(connection, stream, &mut self.received, &mut self.events);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    read(connection, id, &mut self.received, &mut self.events);
                }
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.events.push_back(StackEvent::Acknowledged(message_number(id)));
                }
                // The handshake or a limit has changed. The endpoint tries to write after all events.
                _ => {}
            }
        }
        has_event
    }

    /// Opens streams and fills them, in the order of the messages.
    fn write(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        while let Some(message) = self.outgoing.front_mut() {
            if message.stream.is_none() {
                message.stream = connection.streams().open(Dir::Uni);
            }
            let Some(stream) = message.stream else { return };
            if message.remaining.is_none() {
                let window = connection.congestion_state().window();
                connection.set_send_window(LONG_FLOW_WINDOWS * window + LONG_FLOW_RESERVE);
            }
            if !write_message(connection, stream, &mut message.remaining) {
                return;
            }
            // The stream was opened above and has not been finished, so this succeeds.
            let _ = connection.send_stream(stream).finish();
            self.outgoing.pop_front();
        }
    }

    fn update_timeout(&mut self) {
        self.timeout =
            self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout()).map(to_picos);
    }
}

impl StackEndpoint for QuinnEndpoint {
    fn send(&mut self, now: Picos, message: StackMessage) {
        self.connect(now);
        self.outgoing.push_back(Outgoing { stream: None, remaining: message.size.map(Bytes::get) });
        self.process_events();
    }

    fn end_long_flow(&mut self, _now: Picos) {
        if let Some(message) = self.outgoing.iter_mut().find(|message| message.remaining.is_none()) {
            message.remaining = Some(0);
            self.process_events();
        }
    }

    fn on_datagram(&mut self, now: Picos, datagram: &[u8], arrival: Arrival) {
        let mut datagram = BytesMut::from(datagram);
        if let Some(prefix) = &self.parts.prefix {
            if !prefix.decap(&mut datagram, arrival.max_hop_delay) {
                return;
            }
            datagram.advance(PREFIX_BYTES);
        }
        let ecn = match arrival {
            Arrival { marked: true, .. } => Some(EcnCodepoint::Ce),
            Arrival { ecn_capable: true, .. } => Some(EcnCodepoint::Ect0),
            Arrival { .. } => None,
        };
        self.process_datagram(to_instant(now), datagram, ecn);
        self.process_events();
    }

    fn poll_transmit(&mut self, now: Picos, buffer: &mut Vec<u8>) -> Option<bool> {
        let is_ecn_capable = if let Some(response) = self.responses.pop_front() {
            buffer.extend_from_slice(&response);
            false
        } else {
            let (_, connection) = self.connection.as_mut()?;
            let transmit = connection.poll_transmit(to_instant(now), MAX_DATAGRAMS, buffer);
            self.update_timeout();
            transmit?.ecn.is_some()
        };
        if let Some(prefix) = &mut self.parts.prefix {
            let prefix = prefix.next_prefix(buffer);
            buffer.splice(..0, prefix);
        }
        Some(is_ecn_capable)
    }

    fn timeout(&self) -> Option<Picos> {
        self.timeout
    }

    fn on_timeout(&mut self, now: Picos) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(to_instant(now));
        }
        self.process_events();
    }

    fn poll_event(&mut self) -> Option<StackEvent> {
        self.events.pop_front()
    }

    fn state(&self) -> StackState {
        let mut state = StackState { received: Bytes::new(self.received), ..StackState::default() };
        if let Some((_, connection)) = &self.connection {
            state.window = Bytes::new(connection.congestion_state().window());
            state.in_flight = Bytes::new(self.parts.in_flight.get());
            state.lost = connection.stats().path.lost_packets;
            // The handshake takes the first sample.
            if !connection.is_handshaking() {
                state.srtt = to_nanos(connection.rtt());
            }
        }
        state
    }
}

/// Reads all data of a stream that has arrived.
fn read(
    connection: &mut Connection,
    stream: StreamId,
    received: &mut u64,
    events: &mut VecDeque<StackEvent>,
) {
    let mut receiver = connection.recv_stream(stream);
    // The stream can be closed already, because an event can be older than the last read.
    let Ok(mut chunks) = receiver.read(false) else { return };
    while let Ok(chunk) = chunks.next(usize::MAX) {
        let Some(chunk) = chunk else {
            events.push_back(StackEvent::Received(message_number(stream)));
            break;
        };
        *received += chunk.bytes.len() as u64;
    }
    // The host polls for datagrams after every call, so it sends the new limits in any case.
    let _ = chunks.finalize();
}

/// Writes to a stream and returns whether the message is written completely.
fn write_message(connection: &mut Connection, stream: StreamId, remaining: &mut Option<u64>) -> bool {
    let mut sender = connection.send_stream(stream);
    loop {
        if *remaining == Some(0) {
            return true;
        }
        let mut chunks = [message_data(remaining.unwrap_or(u64::MAX))];
        let Ok(written) = sender.write_chunks(&mut chunks) else { return false };
        if let Some(remaining) = remaining {
            *remaining -= written.bytes as u64;
        }
    }
}

/// Returns the number of the message that a stream carries.
fn message_number(stream: StreamId) -> u32 {
    u32::try_from(stream.index()).unwrap_or(u32::MAX)
}

/// The `Instant` that represents time zero. Its value has no effect, because quinn only uses differences.
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(read_clock)
}

#[expect(clippy::disallowed_methods, reason = "an Instant cannot be constructed from a number")]
fn read_clock() -> Instant {
    Instant::now()
}

fn to_instant(time: Picos) -> Instant {
    zero() + Duration::from_nanos(time.to_nanos_floor().get())
}

fn to_picos(instant: Instant) -> Picos {
    Picos::from_nanos(to_nanos(instant.saturating_duration_since(zero())))
}

fn to_nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
