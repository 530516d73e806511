//! A plan: everything a run is given.

use crate::switch::{Buffer, Switch};
use crate::topology::Topology;
use crate::traffic::{Connection, Message};
use crate::transport::Transport;
use core::fmt;
use poseidon_laws::{AnyParams, BuildError, Path};
use poseidon_types::{BitRate, Bytes, Picos, Signals};

/// Everything a run is given. Nothing is left to a backend's taste.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where all randomness comes from.
    pub seed: u64,
    /// When the run ends, if it has not run dry before.
    pub stop: Picos,
    /// Hosts, switches and links.
    pub topology: Topology,
    /// What every switch does.
    pub switch: Switch,
    /// Switches that do not stamp, by number: a network where only some speak telemetry. Sorted.
    pub silent_switches: Vec<u32>,
    /// What every host does.
    pub transport: Transport,
    /// The laws that connections run.
    pub laws: Vec<AnyParams>,
    /// Who may talk to whom.
    pub connections: Vec<Connection>,
    /// What they say, in order of time.
    pub messages: Vec<Message>,
    /// How often watched queues are written down; zero for never.
    pub sample_every: Picos,
    /// The watched queues: switch and port. Sorted.
    pub watched: Vec<(u32, u32)>,
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The topology has no host, no switch where one is needed, or more than 2^24 of either.
    Topology(&'static str),
    /// A link has no rate.
    LinkRate(BitRate),
    /// The packet sizes leave no payload, or a packet does not fit 65,535 bytes.
    PacketSize {
        /// Payload.
        mtu: Bytes,
        /// Headers.
        header: Bytes,
        /// An ACK.
        ack: Bytes,
    },
    /// The buffer does not hold one packet.
    Buffer(Bytes),
    /// A connection names a host or a law that is not there, or the same host twice.
    Connection {
        /// Its index.
        index: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A message names a connection that is not there, is empty, or comes before the one before it.
    Message {
        /// Its index.
        index: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A law cannot run on a connection's path.
    Law {
        /// The connection's index.
        connection: usize,
        /// Why.
        error: BuildError,
    },
    /// A watched or silent switch is not there, or the list is not sorted.
    Switches(&'static str),
    /// This backend cannot do it.
    Unsupported(&'static str),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(why) => write!(f, "topology: {why}"),
            Self::LinkRate(rate) => write!(f, "a link has the rate {rate}; give it one above zero"),
            Self::PacketSize { mtu, header, ack } => {
                write!(
                    f,
                    "packets of {mtu} + {header} and ACKs of {ack} must be above zero and below 65.536 kB"
                )
            }
            Self::Buffer(size) => write!(f, "a buffer of {size} does not hold one packet"),
            Self::Connection { index, why } => write!(f, "connection {index}: {why}"),
            Self::Message { index, why } => write!(f, "message {index}: {why}"),
            Self::Law { connection, error } => write!(f, "connection {connection}: {error}"),
            Self::Switches(why) => write!(f, "switches: {why}"),
            Self::Unsupported(what) => write!(f, "this backend cannot do {what}"),
        }
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Refuses what no backend could run. `supplied` is what the backend's hosts can tell a law.
    pub fn check(&self, supplied: Signals) -> Result<(), PlanError> {
        self.check_topology()?;
        self.check_sizes()?;
        self.check_traffic(supplied)?;
        let switches = self.topology.switches();
        let listed = self.silent_switches.iter().chain(self.watched.iter().map(|(switch, _)| switch));
        if listed.clone().any(|switch| *switch >= switches) {
            return Err(PlanError::Switches("a silent or watched switch is not there"));
        }
        if !self.silent_switches.is_sorted() || !self.watched.is_sorted() {
            return Err(PlanError::Switches("silent and watched switches must be listed in order"));
        }
        Ok(())
    }

    /// What a law is told of the path of `connection`.
    pub fn path(&self, connection: &Connection) -> Path {
        let base = self.base_rtt(connection.from, connection.to);
        Path {
            mtu: self.transport.mtu,
            line_rate: self.topology.host_link().rate,
            base_rtt: base.to_nanos_floor(),
        }
    }

    /// The time from the first bit of a full packet out to the last bit of its ACK in, with nothing else on the way.
    pub fn base_rtt(&self, from: u32, to: u32) -> Picos {
        self.crossing(from, to, self.data_size()) + self.crossing(to, from, self.ack_size())
    }

    /// A full data packet on the wire, telemetry included.
    pub fn data_size(&self) -> Bytes {
        self.transport.mtu + self.data_overhead()
    }

    /// What a data packet carries beside its payload.
    pub fn data_overhead(&self) -> Bytes {
        self.transport.header + self.switch.stamp.data_bytes()
    }

    /// An ACK on the wire, telemetry included.
    pub fn ack_size(&self) -> Bytes {
        self.transport.ack + self.switch.stamp.ack_bytes()
    }

    /// The time from the first bit of a packet out to its last bit in, with nothing else on the way.
    pub fn crossing(&self, from: u32, to: u32, size: Bytes) -> Picos {
        let links = self.topology.links_between(from, to);
        let switches = links.len() as u64 - 1;
        let wires: Picos = links.iter().map(|link| link.rate.send_time_ceil(size) + link.delay).sum();
        wires + self.switch.pipeline * switches
    }

    fn check_topology(&self) -> Result<(), PlanError> {
        self.topology.check().map_err(PlanError::Topology)?;
        match self.topology.links().iter().find(|link| link.rate.is_zero()) {
            Some(link) => Err(PlanError::LinkRate(link.rate)),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), PlanError> {
        let Transport { mtu, header, ack, .. } = self.transport;
        let largest = self.data_size().max(self.ack_size());
        if mtu.is_zero() || ack.is_zero() || largest > Bytes::new(65_535) {
            return Err(PlanError::PacketSize { mtu, header, ack });
        }
        let holds = match self.switch.buffer {
            Buffer::Static { per_queue } => per_queue,
            Buffer::Shared { total, .. } => total,
        };
        if holds < largest { Err(PlanError::Buffer(holds)) } else { Ok(()) }
    }

    fn check_traffic(&self, supplied: Signals) -> Result<(), PlanError> {
        let hosts = self.topology.hosts();
        for (index, connection) in self.connections.iter().enumerate() {
            let refuse = |why| Err(PlanError::Connection { index, why });
            if connection.from >= hosts || connection.to >= hosts {
                return refuse("one of its hosts is not there");
            }
            if connection.from == connection.to {
                return refuse("it goes from a host to itself");
            }
            let Some(law) = usize::try_from(connection.law).ok().and_then(|law| self.laws.get(law)) else {
                return refuse("its law is not there");
            };
            law.build(&self.path(connection), supplied)
                .map_err(|error| PlanError::Law { connection: index, error })?;
        }
        let mut last = Picos::ZERO;
        for (index, message) in self.messages.iter().enumerate() {
            let refuse = |why| Err(PlanError::Message { index, why });
            if usize::try_from(message.connection).map_or(true, |c| c >= self.connections.len()) {
                return refuse("its connection is not there");
            }
            if message.size.is_some_and(Bytes::is_zero) {
                return refuse("it is empty");
            }
            if message.at < last {
                return refuse("it comes before the message before it; sort them by time");
            }
            last = message.at;
        }
        Ok(())
    }
}
