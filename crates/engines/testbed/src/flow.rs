//! Running connections: their clock, their rows, and what they report.

use crate::{Result, machine_error};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::stack::{Side, StackState};
use poseidon_plan::traffic::Message;
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{Bytes, ConnectionId, MessageId, Picos};
use rustix::net::sockopt::set_socket_linger;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The base port for receivers. A receiver's port is this number plus the connection's index.
const FIRST_PORT: u16 = 20_000;
/// The run's clock. The run starts at time zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Returns a clock that starts after `delay`.
    pub(crate) fn starting_in(delay: Duration) -> Self {
        Self { start: now() + delay }
    }

    pub(crate) fn now(&self) -> Picos {
        let since = now().saturating_duration_since(self.start);
        Picos::new(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000))
    }

    /// Waits until the clock reaches `until`.
    #[expect(clippy::disallowed_methods, reason = "real packets take real time")]
    pub(crate) fn wait(&self, until: Picos) {
        let due = self.start + Duration::from_nanos(until.get() / 1_000);
        thread::sleep(due.saturating_duration_since(now()));
    }
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn now() -> Instant {
    Instant::now()
}

/// A record from one end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    Acknowledged(MessageRow),
    Received(ReceivedRow),
}

/// A running connection.
pub(crate) struct Flow {
    pub(crate) connection: ConnectionId,
    progress: FlowProgress,
    stop: Arc<AtomicBool>,
    /// The ends of a TCP connection.
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What a running connection reports.
enum FlowProgress {
    /// The bytes that have arrived.
    Tcp(Arc<AtomicU64>),
    Stack(Arc<StackCounters>),
}

/// What the sides of a connection in a real stack report while they run.
#[derive(Debug, Default)]
pub(crate) struct StackCounters {
    /// The datagrams that both sides have sent.
    pub(crate) sent: AtomicU64,
    /// The bytes of these datagrams.
    pub(crate) sent_bytes: AtomicU64,
    /// The datagrams that have arrived at both sides.
    pub(crate) arrived: AtomicU64,
    /// The states of the endpoints, indexed by side.
    states: [Mutex<StackState>; 2],
}

impl StackCounters {
    /// Returns the state of the endpoint at one side.
    pub(crate) fn state(&self, side: Side) -> StackState {
        *self.states[side as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the state of the endpoint at one side.
    pub(crate) fn set_state(&self, side: Side, state: StackState) {
        *self.states[side as usize].lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Returns the number of packets that both sides have declared lost.
    pub(crate) fn lost(&self) -> u64 {
        self.state(Side::Sender).lost + self.state(Side::Receiver).lost
    }
}

impl Flow {
    /// Creates a TCP connection, without its threads. `streams` are its two ends.
    pub(crate) fn in_tcp(
        connection: ConnectionId,
        received: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
        streams: Vec<TcpStream>,
    ) -> Self {
        Self { connection, progress: FlowProgress::Tcp(received), stop, streams, threads: Vec::new() }
    }

    /// Creates a connection in a real stack, without its threads.
    pub(crate) fn in_stack(
        connection: ConnectionId,
        counters: Arc<StackCounters>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let progress = FlowProgress::Stack(counters);
        Self { connection, progress, stop, streams: Vec::new(), threads: Vec::new() }
    }

    /// Starts a thread of the connection.
    pub(crate) fn spawn(
        &mut self,
        stack_size: usize,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let thread = thread::Builder::new().stack_size(stack_size).spawn(work);
        self.threads.push(thread.map_err(|error| machine_error("starting a thread", error))?);
        Ok(())
    }

    /// Returns the amount of payload received.
    pub(crate) fn received(&self) -> Bytes {
        match &self.progress {
            FlowProgress::Tcp(received) => Bytes::new(received.load(Ordering::Relaxed)),
            FlowProgress::Stack(counters) => counters.state(Side::Receiver).received,
        }
    }

    /// Returns the counters of a connection in a real stack.
    pub(crate) fn stack_counters(&self) -> Option<&StackCounters> {
        match &self.progress {
            FlowProgress::Tcp(_) => None,
            FlowProgress::Stack(counters) => Some(counters),
        }
    }

    /// Ends the connection and discards its buffers.
    pub(crate) fn end(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // The peer may already have reset the connection.
            let _ = set_socket_linger(stream, Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Both);
        }
        let join = |thread: JoinHandle<io::Result<()>>| match thread.join() {
            Ok(result) => result.map_err(|error| machine_error("sending datagrams", error)),
            Err(_) => Err(machine_error("a connection", "its thread panicked")),
        };
        self.threads.into_iter().map(join).fold(Ok(()), Result::and)
    }
}

/// Returns which connections have messages.
pub(crate) fn has_messages(plan: &Plan) -> Vec<bool> {
    let mut has_messages = vec![false; plan.connections.len()];
    plan.messages.iter().for_each(|message| has_messages[message.connection.index()] = true);
    has_messages
}

/// Returns the messages of a connection.
pub(crate) fn messages_of(plan: &Plan, connection: ConnectionId) -> Vec<(MessageId, Message)> {
    let belongs_to_connection = |(_, message): &(usize, &Message)| message.connection == connection;
    let messages = plan.messages.iter().enumerate().filter(belongs_to_connection);
    messages.map(|(index, message)| (MessageId::from_index(index), *message)).collect()
}

/// Returns the port of a connection's receiver.
pub(crate) fn connection_port(connection: ConnectionId) -> Result<u16> {
    let port = u16::try_from(connection.index()).ok().and_then(|index| FIRST_PORT.checked_add(index));
    port.ok_or(PlanError::Unsupported("more than 45,000 connections"))
}
