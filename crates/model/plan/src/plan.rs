//! A plan: everything a run is given.

use crate::changes::{Change, LinkEvent};
use crate::switch::{Direction, MOST_PRIORITIES, Pause, Silence, Switch};
use crate::topology::{Link, Topology};
use crate::traffic::{After, Amount, Connection, Event, Message};
use crate::transport::{Acks, Recovery, Transport};
use core::fmt;
use poseidon_laws::params::ParamError;
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
    /// Switches that do not stamp, all along or for a while: a network where only some speak telemetry. By number, one each.
    pub silences: Vec<Silence>,
    /// What every host does.
    pub transport: Transport,
    /// The laws that connections run.
    pub laws: Vec<AnyParams>,
    /// Who may talk to whom.
    pub connections: Vec<Connection>,
    /// What they say; those that wait for nothing in order of time.
    pub messages: Vec<Message>,
    /// Which messages wait for which. Sorted.
    pub after: Vec<After>,
    /// What happens to links, in order of time.
    pub changes: Vec<Change>,
    /// How often watched queues and connections are written down; zero for never.
    pub sample_every: Picos,
    /// The watched queues: switch and port. Sorted.
    pub watched: Vec<(u32, u32)>,
    /// The watched connections. Sorted.
    pub watched_connections: Vec<u32>,
    /// Whether each decision of their laws is written down too.
    pub log_decisions: bool,
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
    /// A switch policy has a parameter outside its domain.
    Policy {
        /// Which.
        policy: &'static str,
        /// Why.
        error: ParamError,
    },
    /// The memory of a switch with flow control does not hold the headroom of its ports and a packet for each.
    Headroom {
        /// What it has.
        memory: Bytes,
        /// What it needs.
        needed: Bytes,
    },
    /// A number is outside its range.
    Setting(&'static str),
    /// A link change names what is not there or comes before the one before it.
    Change {
        /// Its index.
        index: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A dependency between messages makes no sense.
    After {
        /// Its index.
        index: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// The run would need more memory than it may have.
    Memory {
        /// What it would need.
        needed: Bytes,
        /// What it may have.
        limit: Bytes,
    },
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
    /// The machine that was to run it failed, in words.
    Machine(String),
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
            Self::Policy { policy, error } => write!(f, "policy {policy:?}: {error}"),
            Self::Headroom { memory, needed } => {
                write!(
                    f,
                    "flow control needs {needed} per switch and has {memory}; raise memory or shorten links"
                )
            }
            Self::Setting(why) => f.write_str(why),
            Self::Change { index, why } => write!(f, "link change {index}: {why}"),
            Self::After { index, why } => write!(f, "dependency {index}: {why}"),
            Self::Memory { needed, limit } => {
                write!(
                    f,
                    "the run needs about {needed} of memory and may have {limit}; raise the limit or shrink the plan"
                )
            }
            Self::Connection { index, why } => write!(f, "connection {index}: {why}"),
            Self::Message { index, why } => write!(f, "message {index}: {why}"),
            Self::Law { connection, error } => write!(f, "connection {connection}: {error}"),
            Self::Switches(why) => write!(f, "switches: {why}"),
            Self::Unsupported(what) => write!(f, "this backend cannot do {what}"),
            Self::Machine(why) => f.write_str(why),
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
        self.check_dependencies()?;
        self.check_changes()?;
        let switches = self.topology.switches();
        let silent = self.silences.iter().map(|silence| silence.switch);
        let watched = self.watched.iter().map(|(switch, _)| *switch);
        if silent.clone().chain(watched).any(|switch| switch >= switches) {
            return Err(PlanError::Switches("a silent or watched switch is not there"));
        }
        if !silent.is_sorted_by(|a, b| a < b) || !self.watched.is_sorted() {
            return Err(PlanError::Switches(
                "silent and watched switches must be listed in order, silent ones once",
            ));
        }
        if self.silences.iter().any(|silence| silence.until <= silence.from) {
            return Err(PlanError::Switches("a silence ends before it begins"));
        }
        let samples = self.stop.get().checked_div(self.sample_every.get()).unwrap_or(0);
        if samples > MOST_SAMPLES {
            return Err(PlanError::Setting(
                "sample-every: more than a billion samples; sample less often or stop sooner",
            ));
        }
        if !self.watched_connections.is_sorted()
            || self.watched_connections.last().is_some_and(|last| *last as usize >= self.connections.len())
        {
            return Err(PlanError::Setting("watched connections must be there, and listed in order"));
        }
        Ok(())
    }

    /// What a law is told of the path of `connection`.
    pub fn path(&self, connection: &Connection) -> Path {
        let base = self.base_rtt(connection.from, connection.to);
        Path {
            mtu: self.transport.mtu,
            line_rate: self.topology.host_link(connection.from).rate,
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

    /// Memory that flow control sets aside for what is on the way from the far end of a link when it is told to stop: what fills the
    /// wire and the pipeline both ways, the packet that each end may just have begun, the one that went over the threshold, and
    /// the pause frames of all priorities.
    pub fn headroom(&self, link: Link) -> Bytes {
        let on_the_way = link.delay + link.delay + self.switch.pipeline;
        let filled = u128::from(on_the_way.get()) * u128::from(link.rate.get()) / 8_000_000_000_000;
        let largest = self.data_size().max(self.ack_size());
        let frames = PAUSE_FRAME * u64::from(MOST_PRIORITIES);
        Bytes::new(u64::try_from(filled).unwrap_or(u64::MAX)) + largest * 3 + frames
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
        let Switch { priorities, buffer, mark, marks_go, .. } = &self.switch;
        buffer.check().map_err(|error| PlanError::Policy { policy: buffer.name(), error })?;
        mark.check().map_err(|error| PlanError::Policy { policy: mark.name(), error })?;
        if self.switch.pause == Pause::Off && buffer.room(0, 0) < largest.get() {
            return Err(PlanError::Buffer(Bytes::new(buffer.room(0, 0))));
        }
        if !(1..=MOST_PRIORITIES).contains(priorities) {
            return Err(PlanError::Setting("priorities: give a port between 1 and 8 queues"));
        }
        if self.transport.ack_priority.is_some_and(|priority| priority >= *priorities) {
            return Err(PlanError::Setting("ack-priority: ports do not have so many queues"));
        }
        if *marks_go == (Direction::ReversePerFlow { counters: 0 }) {
            return Err(PlanError::Setting("counters: give reverse marking at least one"));
        }
        match self.transport.acks {
            Acks::Coalesced { packets, delay } if packets == 0 || delay.is_zero() => {
                Err(PlanError::Setting("coalesced ACKs: set packets and delay above zero"))
            }
            Acks::Coalesced { .. } if self.transport.recovery == Recovery::GoBackN => {
                Err(PlanError::Setting("coalesced ACKs do not go with go-back-n: acknowledge every packet"))
            }
            Acks::Coalesced { .. } | Acks::EveryPacket => Ok(()),
        }
    }

    fn check_changes(&self) -> Result<(), PlanError> {
        let mut last = Picos::ZERO;
        for (index, change) in self.changes.iter().enumerate() {
            let refuse = |why| Err(PlanError::Change { index, why });
            if change.switch >= self.topology.switches() {
                return refuse("its switch is not there");
            }
            if change.at < last {
                return refuse("it comes before the change before it; sort them by time");
            }
            if matches!(change.what, LinkEvent::Rate(rate) if rate.is_zero()) {
                return refuse("a rate of zero; take the link down instead");
            }
            last = change.at;
        }
        Ok(())
    }

    fn check_dependencies(&self) -> Result<(), PlanError> {
        for (index, after) in self.after.iter().enumerate() {
            let refuse = |why| Err(PlanError::After { index, why });
            let ends = |message: u32| {
                let message = self.messages.get(message as usize)?;
                Some((message.amount, self.connections[message.connection as usize]))
            };
            let (Some((amount, first)), Some((_, then))) = (ends(after.message), ends(after.then)) else {
                return refuse("one of its messages is not there");
            };
            if after.then <= after.message {
                return refuse("a message can only wait for one before it in the plan");
            }
            if amount.bytes().is_none() {
                return refuse("it waits for a message without a size");
            }
            let here = match after.event {
                Event::Received => first.to,
                Event::Acknowledged => first.from,
            };
            if here != then.from {
                return refuse("what is waited for happens at another host than the one that waits");
            }
        }
        if self.after.is_sorted() { Ok(()) } else { Err(PlanError::Setting("dependencies must be sorted")) }
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
            if connection.priority >= self.switch.priorities {
                return refuse("ports do not have so many queues as its priority asks for");
            }
            let Some(law) = usize::try_from(connection.law).ok().and_then(|law| self.laws.get(law)) else {
                return refuse("its law is not there");
            };
            law.build(&self.path(connection), supplied)
                .map_err(|error| PlanError::Law { connection: index, error })?;
        }
        let mut waits = vec![false; self.messages.len()];
        for after in &self.after {
            if let Some(then) = waits.get_mut(after.then as usize) {
                *then = true;
            }
        }
        // Per connection: whether it has a message, and whether that has no size.
        let mut has: Vec<Option<bool>> = vec![None; self.connections.len()];
        let mut last = Picos::ZERO;
        for (index, message) in self.messages.iter().enumerate() {
            let refuse = |why| Err(PlanError::Message { index, why });
            let Some(has) = has.get_mut(message.connection as usize) else {
                return refuse("its connection is not there");
            };
            if message.amount.bytes().is_some_and(Bytes::is_zero) {
                return refuse("it is empty");
            }
            let endless = message.amount.bytes().is_none();
            if *has == Some(true) || (endless && *has == Some(false)) {
                return refuse("a message without a size must be the only one of its connection");
            }
            *has = Some(endless);
            if matches!(message.amount, Amount::Until(until) if until <= message.at && !waits[index]) {
                return refuse("it ends before it begins");
            }
            if waits[index] {
                continue;
            }
            if message.at < last {
                return refuse("it comes before the message before it; sort them by time");
            }
            last = message.at;
        }
        Ok(())
    }
}

/// Most samples of one queue: beyond, a plan without an end would be sampled for ever.
const MOST_SAMPLES: u64 = 1_000_000_000;

/// A pause frame on the wire: the smallest that Ethernet has.
pub const PAUSE_FRAME: Bytes = Bytes::new(64);
