//! Sends data over connections through a test network, with each end optionally in a cgroup, and samples the flow
//! table.

use crate::network::{Node, RECEIVER, TestNetwork};
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

/// The connections to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic<'a> {
    /// The sender's cgroup.
    pub(crate) sender: Option<&'a Path>,
    /// The receiver's cgroup.
    pub(crate) receiver: Option<&'a Path>,
    /// The receiver's port. Zero selects any free port.
    pub(crate) port: u16,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
}

/// The result of a transfer.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// The number of bytes that each connection received per second.
    pub(crate) rates: Vec<u64>,
    /// Both ends of the connections, from the last sample that has all of them. Empty if Poseidon is disabled.
    pub(crate) table: Vec<TcpFlow>,
    /// The median queueing delay of the senders over all samples. Single samples may be late on a busy machine.
    pub(crate) queueing: Nanos,
}

const SAMPLES: u32 = 9;

impl Transfer {
    /// Returns whether the transfer used most of a 100 Mbit/s link. The margin allows for a busy machine.
    pub(crate) fn fills_100_mbps(&self) -> bool {
        self.mbps() >= 60
    }

    pub(crate) fn mbps(&self) -> u64 {
        self.rates.iter().sum::<u64>() * 8 / 1_000_000
    }

    /// Returns the sending ends.
    pub(crate) fn flows(&self) -> Vec<&TcpFlow> {
        self.table.iter().filter(|flow| flow.remote.ip().to_string() == RECEIVER).collect()
    }
}

impl TestNetwork {
    /// Opens the connections and sends for the given time.
    #[expect(clippy::disallowed_methods, reason = "real packets take real time")]
    pub(crate) fn send(&self, traffic: Traffic<'_>) -> Transfer {
        let Traffic { sender, receiver, port, connections, time } = traffic;
        let listen = || TcpListener::bind((RECEIVER, port)).expect("the network exists");
        let listener = in_cgroup(receiver, || self.run_in(Node::Receiver, listen));
        let address = listener.local_addr().expect("the listener has an address");
        let connect = || {
            let streams =
                (0..connections).map(|_| TcpStream::connect(address).expect("the receiver listens"));
            streams.collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let accept = || receive(listener.accept().expect("the sender connects").0, time);
            let receivers: Vec<_> = (0..connections).map(|_| scope.spawn(accept)).collect();
            for stream in in_cgroup(sender, || self.run_in(Node::Sender, connect)) {
                scope.spawn(move || send(stream, time));
            }
            thread::sleep(time / 4);
            let (mut table, mut queueing) = (Vec::new(), Vec::new());
            for _ in 0..SAMPLES {
                thread::sleep(time / 2 / SAMPLES);
                let mut flows = tcp::flows().unwrap_or_default();
                flows.retain(|flow| flow.local == address || flow.remote == address);
                let senders = flows.iter().filter(|flow| flow.remote == address);
                queueing.extend(senders.map(|flow| flow.rtt - flow.base_rtt));
                // On a busy machine a sample may be late, and the connections may have ended.
                if flows.len() >= table.len() {
                    table = flows;
                }
            }
            queueing.sort_unstable();
            let queueing = queueing.get(queueing.len() / 2).copied().unwrap_or(Nanos::ZERO);
            let rates = receivers
                .into_iter()
                .map(|receiver| receiver.join().expect("the receiver does not panic"))
                .collect();
            Transfer { rates, table, queueing }
        })
    }
}

/// Sends for `time`, or until the receiver closes the connection.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send(mut stream: TcpStream, time: Duration) {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline && stream.write_all(&[7; 4 << 10]).is_ok() {}
    // A slow flow's unsent data would keep the connection, and thus the programs, alive.
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("the stream is a socket");
}

/// Receives for `time`, and returns the bytes per second.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn receive(mut stream: TcpStream, time: Duration) -> u64 {
    let (start, mut bytes) = (Instant::now(), 0);
    let mut buffer = vec![0; 64 << 10];
    stream.set_read_timeout(Some(Duration::from_millis(50))).expect("the timeout is not zero");
    while start.elapsed() < time {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes += count as u64,
            Err(_) => {}
        }
    }
    bytes * 1_000_000 / u64::try_from(start.elapsed().as_micros()).expect("the time is short").max(1)
}

/// Runs `open` while the process is in the cgroup, because a socket belongs to the cgroup in which it is created.
///
/// The whole process moves, so only one thread may do this at a time.
fn in_cgroup<T>(cgroup: Option<&Path>, open: impl FnOnce() -> T) -> T {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().expect("no thread panicked");
    let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").expect("root may change cgroups");
    cgroup.inspect(|cgroup| join(cgroup));
    let socket = open();
    cgroup.and_then(Path::parent).inspect(|parent| join(parent));
    drop(guard);
    socket
}
