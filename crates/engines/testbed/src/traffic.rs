//! Runs a plan's connections with one thread per end. The connections of most laws are TCP connections; those of a law in
//! a real stack are in [`stacks`](crate::stacks).
//!
//! All TCP connections open before the clock starts, while the network is idle, so each connection measures its empty
//! path. The receiver acknowledges each message of known size with a one-byte reply.

use crate::flow::{Clock, Flow, Row, connection_port, has_messages, messages_of};
use crate::laws::Laws;
use crate::namespace::run_in_node;
use crate::network::address;
use crate::stacks::OpenStackConnection;
use crate::{Result, machine_error};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use poseidon_plan::Plan;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::stack::StackLaw;
use poseidon_plan::stack_factory::StackFactory;
use poseidon_plan::topology::Node;
use poseidon_plan::traffic::{Amount, Connection, Message};
use poseidon_types::{Bytes, ConnectionId, MessageId, Picos};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The number of bytes per write. Small writes let a flow stop quickly.
const WRITE_BYTES: usize = 4 << 10;

/// An open connection that has not started sending.
pub(crate) enum OpenConnection {
    Tcp(OpenTcpConnection),
    Stack(OpenStackConnection),
}

/// An open TCP connection that has not started sending.
pub(crate) struct OpenTcpConnection {
    connection: ConnectionId,
    sender: TcpStream,
    receiver: TcpStream,
}

/// Opens the connections that have messages. `stacks` creates the endpoints of connections in real stacks.
pub(crate) fn open(
    plan: &Plan,
    laws: &Laws,
    stacks: Option<&dyn StackFactory>,
) -> Result<Vec<OpenConnection>> {
    let has_messages = has_messages(plan);
    let connections = plan.connections.iter().enumerate().filter(|(index, _)| has_messages[*index]);
    let open = |(index, hosts): (usize, &Connection)| {
        let connection = ConnectionId::from_index(index);
        let law: Option<&StackLaw> = plan.stack_of(connection);
        match stacks.zip(law) {
            Some((factory, law)) => {
                OpenStackConnection::open(plan, factory, connection, law).map(OpenConnection::Stack)
            }
            None => OpenTcpConnection::open(hosts, connection, laws).map(OpenConnection::Tcp),
        }
    };
    connections.map(open).collect()
}

impl OpenConnection {
    /// Starts a thread for each end. The sender waits for the start time of each message.
    pub(crate) fn start(self, plan: &Plan, clock: Clock, rows: &Sender<Row>) -> Result<Flow> {
        match self {
            Self::Tcp(connection) => connection.start(plan, clock, rows),
            Self::Stack(connection) => connection.start(plan, clock, rows),
        }
    }
}

impl OpenTcpConnection {
    fn open(hosts: &Connection, connection: ConnectionId, laws: &Laws) -> Result<Self> {
        let law = laws.name(hosts.law);
        let to = SocketAddr::new(address(hosts.to).into(), connection_port(connection)?);
        let socket_error = |operation: &'static str| {
            move |error: Errno| machine_error(format!("{operation} with the congestion control {law}"), error)
        };
        let listener = run_in_node(Node::Host(hosts.to), || {
            let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&listener, law)?;
            bind(&listener, &to)?;
            listen(&listener, 1)?;
            Ok(TcpListener::from(listener))
        })?
        .map_err(socket_error("listening"))?;
        let sender = run_in_node(Node::Host(hosts.from), || {
            let sender = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&sender, law)?;
            connect(&sender, &to)?;
            Ok(TcpStream::from(sender))
        })?
        .map_err(socket_error("connecting"))?;
        let (receiver, _) =
            listener.accept().map_err(|error| machine_error("accepting a connection", error))?;
        Ok(Self { connection, sender, receiver })
    }

    fn start(self, plan: &Plan, clock: Clock, rows: &Sender<Row>) -> Result<Flow> {
        let Self { connection, sender, receiver } = self;
        let messages = messages_of(plan, connection);
        let duplicate = |stream: &TcpStream| {
            stream.try_clone().map_err(|error| machine_error("duplicating a socket", error))
        };
        let streams = vec![duplicate(&sender)?, duplicate(&receiver)?];
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
        let mut flow = Flow::in_tcp(connection, received, stop, streams);
        // The kernel resets a connection when it ends, so errors of its streams are expected.
        flow.spawn(128 << 10, move || {
            receiving.run();
            Ok(())
        })?;
        flow.spawn(128 << 10, move || {
            sending.run();
            Ok(())
        })?;
        Ok(flow)
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
    fn send(&mut self, bytes: Bytes, data: &[u8]) -> io::Result<()> {
        let mut remaining = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        while remaining > 0 {
            let length = remaining.min(data.len());
            self.stream.write_all(&data[..length])?;
            remaining -= length;
        }
        self.stream.read_exact(&mut [0])
    }

    fn send_until(&mut self, until: Picos, data: &[u8]) -> io::Result<()> {
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
