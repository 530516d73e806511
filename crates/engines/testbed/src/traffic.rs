//! Runs a plan's connections as TCP connections, with one thread per end.
//!
//! All connections open before the clock starts, while the network is idle, so each connection measures its empty
//! path. The receiver acknowledges each message of known size with a one-byte reply.

use crate::laws::Laws;
use crate::namespace::run_in_node;
use crate::network::address;
use crate::{Result, machine_error};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use poseidon_plan::Plan;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::topology::Node;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_types::{Bytes, ConnectionId, MessageId, Picos};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The base port for receivers. A receiver's port is this number plus the connection's index.
const FIRST_PORT: u16 = 20_000;
/// The number of bytes per write. Small writes let a flow stop quickly.
const WRITE_BYTES: usize = 4 << 10;

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

/// An open connection that has not started sending.
pub(crate) struct OpenConnection {
    connection: ConnectionId,
    sender: TcpStream,
    receiver: TcpStream,
}

/// A running connection.
pub(crate) struct Flow {
    pub(crate) connection: ConnectionId,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

/// Opens the connections that have messages.
pub(crate) fn open(plan: &Plan, laws: &Laws) -> Result<Vec<OpenConnection>> {
    let mut has_messages = vec![false; plan.connections.len()];
    plan.messages.iter().for_each(|message| has_messages[message.connection.index()] = true);
    let mut opened = Vec::new();
    for (index, connection) in plan.connections.iter().enumerate().filter(|(index, _)| has_messages[*index]) {
        let law = laws.name(connection.law);
        let port = u16::try_from(index).ok().and_then(|index| FIRST_PORT.checked_add(index));
        let port = port.ok_or(poseidon_plan::PlanError::Unsupported("more than 45,000 connections"))?;
        let to = SocketAddr::new(address(connection.to).into(), port);
        let socket_error = |operation: &'static str| {
            move |error: Errno| machine_error(format!("{operation} with the congestion control {law}"), error)
        };
        let listener = run_in_node(Node::Host(connection.to), || {
            let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&listener, law)?;
            bind(&listener, &to)?;
            listen(&listener, 1)?;
            Ok(TcpListener::from(listener))
        })?
        .map_err(socket_error("listening"))?;
        let sender = run_in_node(Node::Host(connection.from), || {
            let sender = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&sender, law)?;
            connect(&sender, &to)?;
            Ok(TcpStream::from(sender))
        })?
        .map_err(socket_error("connecting"))?;
        let (receiver, _) =
            listener.accept().map_err(|error| machine_error("accepting a connection", error))?;
        let connection = ConnectionId::from_index(index);
        opened.push(OpenConnection { connection, sender, receiver });
    }
    Ok(opened)
}

impl OpenConnection {
    /// Starts a thread for each end. The sender waits for the start time of each message.
    pub(crate) fn start(self, plan: &Plan, clock: Clock, rows: &Sender<Row>) -> Result<Flow> {
        let Self { connection, sender, receiver } = self;
        let belongs_to_connection = |(_, message): &(usize, &Message)| message.connection == connection;
        let messages: Vec<(MessageId, Message)> = plan
            .messages
            .iter()
            .enumerate()
            .filter(belongs_to_connection)
            .map(|(index, message)| (MessageId::from_index(index), *message))
            .collect();
        let duplicate = |stream: &TcpStream| {
            stream.try_clone().map_err(|error| machine_error("duplicating a socket", error))
        };
        let ends = [duplicate(&sender)?, duplicate(&receiver)?];
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let sending = SenderEnd {
            stream: sender,
            messages: messages.clone(),
            clock,
            stop: Arc::clone(&stop),
            end: plan.stop,
            rows: rows.clone(),
        };
        let receiving = ReceiverEnd {
            stream: receiver,
            messages,
            clock,
            received: Arc::clone(&received),
            rows: rows.clone(),
        };
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().stack_size(128 << 10).spawn(work);
            thread.map_err(|error| machine_error("starting a thread", error))
        };
        let threads =
            vec![spawn(Box::new(move || receiving.run()))?, spawn(Box::new(move || sending.run()))?];
        Ok(Flow { connection, received, stop, ends, threads })
    }
}

impl Flow {
    /// Returns the amount of payload received.
    pub(crate) fn received(&self) -> Bytes {
        Bytes::new(self.received.load(Ordering::Relaxed))
    }

    /// Ends the connection and discards its buffers.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.ends {
            // The peer may already have reset the connection.
            let _ = set_socket_linger(end, Some(Duration::ZERO));
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The sending end of a connection.
struct SenderEnd {
    stream: TcpStream,
    messages: Vec<(MessageId, Message)>,
    clock: Clock,
    stop: Arc<AtomicBool>,
    end: Picos,
    rows: Sender<Row>,
}

impl SenderEnd {
    fn run(mut self) {
        let data = [7; WRITE_BYTES];
        for (message, Message { start, amount, .. }) in core::mem::take(&mut self.messages) {
            if start >= self.end {
                return;
            }
            self.clock.wait(start);
            let finished = match amount {
                Amount::Exactly(bytes) => self.send(bytes, &data),
                Amount::Until(until) => self.send_until(until.min(self.end), &data),
            };
            if finished.is_err() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Amount::Exactly(size) = amount {
                let acknowledged = self.clock.now();
                let row = MessageRow { message, start, acknowledged, size, retransmitted: 0 };
                // The run may already have ended.
                let _ = self.rows.send(Row::Acknowledged(row));
            }
        }
    }

    /// Sends `bytes`, and waits for the receiver's acknowledgement.
    fn send(&mut self, bytes: Bytes, data: &[u8]) -> std::io::Result<()> {
        let mut remaining = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        while remaining > 0 {
            let length = remaining.min(data.len());
            self.stream.write_all(&data[..length])?;
            remaining -= length;
        }
        self.stream.read_exact(&mut [0])
    }

    fn send_until(&mut self, until: Picos, data: &[u8]) -> std::io::Result<()> {
        while self.clock.now() < until && !self.stop.load(Ordering::Relaxed) {
            self.stream.write_all(data)?;
        }
        Ok(())
    }
}

/// The receiving end of a connection.
struct ReceiverEnd {
    stream: TcpStream,
    messages: Vec<(MessageId, Message)>,
    clock: Clock,
    received: Arc<AtomicU64>,
    rows: Sender<Row>,
}

impl ReceiverEnd {
    fn run(mut self) {
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        let ends = self.messages.iter().filter_map(|(index, message)| {
            total += message.amount.bytes()?.get();
            Some((*index, total))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.reverse();
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            let received = self.received.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
            while let Some((message, _)) = ends.pop_if(|(_, end)| *end <= received) {
                let row = ReceivedRow { message, time: self.clock.now() };
                // The run may already have ended, and the sender may have closed the connection.
                let _ = (self.rows.send(Row::Received(row)), self.stream.write_all(&[1]));
            }
        }
    }
}
