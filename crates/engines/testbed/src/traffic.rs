//! Who sends what: the connections of a plan as TCP connections, a thread at each end.
//!
//! All are opened before the clock starts, while the network is empty, so that each knows the round trip of its empty path. A receiver
//! answers each message of a known size with one byte: that is when the message counts as acknowledged.

use crate::laws::Laws;
use crate::network::{address, enter};
use crate::{Result, failed};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use poseidon_plan::Plan;
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::topology::End;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_types::{Bytes, Picos};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The first port of receivers; a connection's is so much higher as its number.
const FIRST_PORT: u16 = 20_000;
/// What is handed to TCP at a time, so that a flow that is to stop does not go on long.
const PIECE: usize = 4 << 10;

/// The time of a run, from when it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// It starts a little later.
    pub(crate) fn starts_in(time: Duration) -> Self {
        Self { start: now() + time }
    }

    pub(crate) fn now(&self) -> Picos {
        let since = now().saturating_duration_since(self.start);
        Picos::new(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000))
    }

    /// Waits until then.
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

/// A row that an end writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    Acknowledged(MessageRow),
    Received(ReceivedRow),
}

/// An open connection of the plan, before anything is sent.
pub(crate) struct Open {
    connection: u32,
    sender: TcpStream,
    receiver: TcpStream,
}

/// A connection at work.
pub(crate) struct Flow {
    pub(crate) connection: u32,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

/// Opens the connections that have something to send.
pub(crate) fn open(plan: &Plan, laws: &Laws) -> Result<Vec<Open>> {
    let mut has_messages = vec![false; plan.connections.len()];
    plan.messages.iter().for_each(|message| has_messages[message.connection as usize] = true);
    let mut all = Vec::new();
    for (index, connection) in plan.connections.iter().enumerate().filter(|(index, _)| has_messages[*index]) {
        let law = laws.name(connection.law);
        let port = u16::try_from(index).ok().and_then(|index| FIRST_PORT.checked_add(index));
        let port = port.ok_or(poseidon_plan::PlanError::Unsupported("more than 45,000 connections"))?;
        let to = SocketAddr::new(address(connection.to).into(), port);
        let said = |doing: &'static str| move |why: Errno| failed(format!("{doing} under {law}"), why);
        let listener = enter(End::Host(connection.to), || {
            let listener = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&listener, law)?;
            bind(&listener, &to)?;
            listen(&listener, 1)?;
            Ok(TcpListener::from(listener))
        })?
        .map_err(said("listening"))?;
        let sender = enter(End::Host(connection.from), || {
            let sender = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_tcp_congestion(&sender, law)?;
            connect(&sender, &to)?;
            Ok(TcpStream::from(sender))
        })?
        .map_err(said("connecting"))?;
        let (receiver, _) = listener.accept().map_err(|why| failed("accepting a connection", why))?;
        let connection = u32::try_from(index).expect("fewer than 45,000");
        all.push(Open { connection, sender, receiver });
    }
    Ok(all)
}

impl Open {
    /// Starts both ends; they wait for their messages on the clock.
    pub(crate) fn start(self, plan: &Plan, clock: Clock, rows: &Sender<Row>) -> Result<Flow> {
        let Self { connection, sender, receiver } = self;
        let mine = |(_, message): &(usize, &Message)| message.connection == connection;
        let messages: Vec<(u32, Message)> = plan
            .messages
            .iter()
            .enumerate()
            .filter(mine)
            .map(|(index, message)| (u32::try_from(index).expect("a plan has fewer"), *message))
            .collect();
        let copy =
            |stream: &TcpStream| stream.try_clone().map_err(|why| failed("a second handle of a socket", why));
        let ends = [copy(&sender)?, copy(&receiver)?];
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let sending = Sending {
            stream: sender,
            messages: messages.clone(),
            clock,
            stop: Arc::clone(&stop),
            end: plan.stop,
            rows: rows.clone(),
        };
        let receiving = Receiving {
            stream: receiver,
            messages,
            clock,
            received: Arc::clone(&received),
            rows: rows.clone(),
        };
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().stack_size(128 << 10).spawn(work);
            thread.map_err(|why| failed("starting a thread", why))
        };
        let threads =
            vec![spawn(Box::new(move || receiving.run()))?, spawn(Box::new(move || sending.run()))?];
        Ok(Flow { connection, received, stop, ends, threads })
    }
}

impl Flow {
    /// Payload that has arrived.
    pub(crate) fn received(&self) -> Bytes {
        Bytes::new(self.received.load(Ordering::Relaxed))
    }

    /// Ends it. What is still in its buffers is thrown away.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.ends {
            // One that its peer has reset is ended already.
            let _ = set_socket_linger(end, Some(Duration::ZERO));
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The sending end.
struct Sending {
    stream: TcpStream,
    messages: Vec<(u32, Message)>,
    clock: Clock,
    stop: Arc<AtomicBool>,
    end: Picos,
    rows: Sender<Row>,
}

impl Sending {
    fn run(mut self) {
        let data = [7; PIECE];
        for (message, Message { at, amount, .. }) in core::mem::take(&mut self.messages) {
            if at >= self.end {
                return;
            }
            self.clock.wait(at);
            let finished = match amount {
                Amount::Exactly(bytes) => self.send(bytes, &data),
                Amount::Until(until) => self.send_until(until.min(self.end), &data),
            };
            if finished.is_err() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Amount::Exactly(size) = amount {
                let acknowledged = self.clock.now();
                let row = MessageRow { message, start: at, acknowledged, size, retransmitted: 0 };
                // The run may be over.
                let _ = self.rows.send(Row::Acknowledged(row));
            }
        }
    }

    /// This much, and waits for the receiver's word.
    fn send(&mut self, bytes: Bytes, data: &[u8]) -> std::io::Result<()> {
        let mut left = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        while left > 0 {
            let piece = left.min(data.len());
            self.stream.write_all(&data[..piece])?;
            left -= piece;
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

/// The receiving end.
struct Receiving {
    stream: TcpStream,
    messages: Vec<(u32, Message)>,
    clock: Clock,
    received: Arc<AtomicU64>,
    rows: Sender<Row>,
}

impl Receiving {
    fn run(mut self) {
        let mut buffer = vec![0; 64 << 10];
        let mut whole = 0;
        let ends = self.messages.iter().filter_map(|(message, of)| {
            whole += of.amount.bytes()?.get();
            Some((*message, whole))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.reverse();
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            let received = self.received.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
            while let Some((message, _)) = ends.pop_if(|(_, end)| *end <= received) {
                let row = ReceivedRow { message, at: self.clock.now() };
                // The run may be over, and the sender gone.
                let _ = (self.rows.send(Row::Received(row)), self.stream.write_all(&[1]));
            }
        }
    }
}
