//! Connections through a room, each end in a cgroup or in none, and what the table of flows says in the middle of it.

use crate::room::{Place, RECEIVER, Room};
use core::time::Duration;
use poseidon_linux::tcp::{self, TcpFlow};
use poseidon_types::Nanos;
use rustix::net::sockopt::set_socket_linger;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic<'a> {
    /// The cgroup of the sending end.
    pub(crate) sender: Option<&'a Path>,
    /// The cgroup of the receiving end.
    pub(crate) receiver: Option<&'a Path>,
    /// Of the receiver; 0 for any.
    pub(crate) port: u16,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Bytes per second that arrived, per connection.
    pub(crate) rates: Vec<u64>,
    /// After three quarters of the time or the last time that all were seen, both ends of these connections; empty where Poseidon
    /// is off.
    pub(crate) table: Vec<TcpFlow>,
    /// What round trips waited, of all that send: in the middle of nine looks, because a busy machine makes single ones late.
    pub(crate) queueing: Nanos,
}

const LOOKS: u32 = 9;

impl Sent {
    /// Whether a link of 100 Mbit/s was in use: most of the time, for where this runs the machine may be busy with something else.
    pub(crate) fn fills_100_mbps(&self) -> bool {
        self.mbps() >= 60
    }

    pub(crate) fn mbps(&self) -> u64 {
        self.rates.iter().sum::<u64>() * 8 / 1_000_000
    }

    /// Those that send.
    pub(crate) fn flows(&self) -> Vec<&TcpFlow> {
        self.table.iter().filter(|flow| flow.remote.ip().to_string() == RECEIVER).collect()
    }
}

impl Room {
    #[expect(clippy::disallowed_methods, reason = "real packets take real time")]
    pub(crate) fn send(&self, traffic: Traffic<'_>) -> Sent {
        let Traffic { sender, receiver, port, connections, time } = traffic;
        let listen = || TcpListener::bind((RECEIVER, port)).expect("the room is there");
        let listener = in_cgroup(receiver, || self.enter(Place::Receiver, listen));
        let address = listener.local_addr().expect("it listens");
        let connect = || {
            let each = (0..connections).map(|_| TcpStream::connect(address).expect("it listens"));
            each.collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let accept = || receive(listener.accept().expect("it listens").0, time);
            let receivers: Vec<_> = (0..connections).map(|_| scope.spawn(accept)).collect();
            for stream in in_cgroup(sender, || self.enter(Place::Sender, connect)) {
                scope.spawn(move || send(stream, time));
            }
            thread::sleep(time / 4);
            let (mut table, mut queueing) = (Vec::new(), Vec::new());
            for _ in 0..LOOKS {
                thread::sleep(time / 2 / LOOKS);
                let mut seen = tcp::flows().unwrap_or_default();
                seen.retain(|flow| flow.local == address || flow.remote == address);
                let sending = seen.iter().filter(|flow| flow.remote == address);
                queueing.extend(sending.map(|flow| flow.rtt - flow.base_rtt));
                // A look is late on a busy machine, and the connections may be over.
                if seen.len() >= table.len() {
                    table = seen;
                }
            }
            queueing.sort_unstable();
            let queueing = queueing.get(queueing.len() / 2).copied().unwrap_or(Nanos::ZERO);
            let rates = receivers.into_iter().map(|receiver| receiver.join().expect("it receives")).collect();
            Sent { rates, table, queueing }
        })
    }
}

/// So long, or until nobody listens any more.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send(mut stream: TcpStream, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && stream.write_all(&[7; 4 << 10]).is_ok() {}
    // What a slow flow still has to say would keep the connection, and the programs with it.
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("it is a socket");
}

/// Bytes per second within the time: what a slow flow has in its buffers then is not waited for.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn receive(mut stream: TcpStream, time: Duration) -> u64 {
    let (began, mut bytes) = (Instant::now(), 0);
    let mut buffer = vec![0; 64 << 10];
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
    while began.elapsed() < time {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes += count as u64,
            Err(_) => {}
        }
    }
    bytes * 1_000_000 / u64::try_from(began.elapsed().as_micros()).expect("a short time").max(1)
}

/// A socket belongs to the cgroup that its process is in when it makes it, so only one may be at it.
fn in_cgroup<T>(cgroup: Option<&Path>, make: impl FnOnce() -> T) -> T {
    static AT_IT: Mutex<()> = Mutex::new(());
    let guard = AT_IT.lock().expect("nobody failed");
    let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").expect("root may");
    cgroup.inspect(|cgroup| join(cgroup));
    let made = make();
    cgroup.and_then(Path::parent).inspect(|parent| join(parent));
    drop(guard);
    made
}
