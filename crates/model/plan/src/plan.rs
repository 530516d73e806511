//! The plan, which is the complete input for a run.

use crate::impairments::LinkImpairment;
use crate::joins::{JoinDependent, JoinPrerequisite, Joins};
use crate::link_changes::{LinkChange, LinkEvent};
use crate::rings::{self, InvalidRing, Ring};
use crate::stack::StackLaw;
use crate::switch::{
    AnyBufferPolicy, AnyMarkPolicy, MAX_PRIORITIES, MarkDirection, Pause, PriorityTooHigh, SlowPort, Switch,
    SwitchOverride, TelemetryOff, Trim,
};
use crate::topology::{Link, SwitchPort, Topology};
use crate::traffic::{Amount, Connection, Dependency, Event, Message};
use crate::transport::{Acks, Echo, Recovery, Transport};
use core::fmt;
use poseidon_laws::params::ParamError;
use poseidon_laws::{AnyParams, BuildError, Path};
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, HostId, MessageId, Picos, Signals, SwitchId};

/// The complete input for a run. Backends do not apply defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The random seed.
    pub seed: u64,
    /// The time at which the run ends, unless all traffic finishes earlier.
    pub stop: Picos,
    /// The network topology.
    pub topology: Topology,
    /// The configuration shared by all switches.
    pub switch: Switch,
    /// Switches that write no telemetry during the whole run or part of it. Sorted by switch, with at most one entry
    /// per switch.
    pub telemetry_off: Vec<TelemetryOff>,
    /// Switches with their own policies. Sorted by switch, with at most one entry per switch.
    pub switch_overrides: Vec<SwitchOverride>,
    /// Ports with slower links. Sorted by switch and port, with at most one entry per port.
    pub slow_ports: Vec<SlowPort>,
    /// The configuration shared by all hosts.
    pub transport: Transport,
    /// The congestion control laws. Connections refer to them by index.
    pub laws: Vec<AnyParams>,
    /// The laws whose connections run in a real transport stack. Sorted by law, with at most one entry per law.
    pub stacks: Vec<StackLaw>,
    /// The connections.
    pub connections: Vec<Connection>,
    /// The messages. Messages without dependencies are sorted by time.
    pub messages: Vec<Message>,
    /// The dependencies between messages, in sorted order.
    pub dependencies: Vec<Dependency>,
    /// The joins, which make messages wait for several events.
    pub joins: Joins,
    /// The rings, whose messages are computed when they are due.
    pub rings: Vec<Ring>,
    /// Link failures, recoveries, and changes of rate and delay, sorted by time.
    pub link_changes: Vec<LinkChange>,
    /// Links that lose, delay or reorder packets. Sorted by switch and port, with at most one entry per port.
    pub link_impairments: Vec<LinkImpairment>,
    /// The sampling interval for watched ports and connections. Zero disables sampling.
    pub sample_every: Picos,
    /// The ports whose queues are sampled, in sorted order.
    pub watched_ports: Vec<SwitchPort>,
    /// The connections that are sampled, in sorted order.
    pub watched_connections: Vec<ConnectionId>,
    /// Whether to record every decision made by the watched connections' laws.
    pub log_decisions: bool,
}

/// The reason that a plan was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The topology has no hosts, is not connected, or has more than 2^24 hosts or switches.
    Topology(&'static str),
    /// A link has a rate of zero.
    LinkRate(BitRate),
    /// The packet sizes leave no room for payload, or a packet exceeds 65,535 bytes.
    PacketSize {
        /// The payload size of a full packet.
        mtu: Bytes,
        /// The header size of a data packet.
        header: Bytes,
        /// The size of an ACK.
        ack: Bytes,
    },
    /// The buffer is smaller than one packet.
    Buffer(Bytes),
    /// A switch policy has a parameter outside its domain.
    Policy {
        /// The policy name.
        policy: &'static str,
        /// The parameter error.
        error: ParamError,
    },
    /// A switch with PFC has too little memory for its ports' headroom plus one packet per port.
    Headroom {
        /// The switch's memory.
        memory: Bytes,
        /// The required memory.
        needed: Bytes,
    },
    /// A switch's own policies are invalid.
    SwitchOverride {
        /// The switch.
        switch: SwitchId,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A numeric setting is out of range.
    Setting(&'static str),
    /// A slow port refers to an unknown switch or port, or has an invalid divisor.
    SlowPort {
        /// The index of the slow port.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A link change refers to an unknown switch or is out of order.
    LinkChange {
        /// The index of the link change.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A link impairment refers to an unknown switch or port.
    LinkImpairment {
        /// The index of the impairment.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A dependency between messages is invalid.
    Dependency {
        /// The index of the dependency.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A join is invalid.
    Join {
        /// The number of the join.
        join: u32,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A ring is invalid.
    Ring {
        /// The index of the ring.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// The run would exceed the memory limit.
    Memory {
        /// The estimated memory usage.
        needed: Bytes,
        /// The memory limit.
        limit: Bytes,
    },
    /// A connection refers to an unknown host or law, or connects a host to itself.
    Connection {
        /// The index of the connection.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// The priority of a connection is too high for the queues of a port.
    Priority {
        /// The index of the connection.
        connection: usize,
        /// The priority and the number of queues.
        error: PriorityTooHigh,
    },
    /// A message refers to an unknown connection, is empty, or is out of order.
    Message {
        /// The index of the message.
        index: usize,
        /// A description of the problem.
        reason: &'static str,
    },
    /// A law cannot run on a connection's path.
    Law {
        /// The index of the connection.
        connection: usize,
        /// The reason that the law cannot run.
        error: BuildError,
    },
    /// The list of watched ports, of switches without telemetry or of switches with their own policies is invalid.
    SwitchList(&'static str),
    /// The backend does not support a feature that the plan uses.
    Unsupported(&'static str),
    /// The backend failed to prepare or run the plan. The string is the error message from the operating system or the
    /// external tool.
    BackendFailed(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(reason) => write!(f, "topology: {reason}"),
            Self::LinkRate(rate) => write!(f, "a link has the rate {rate}; give it a rate above zero"),
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
                    "PFC needs {needed} of memory per switch but has {memory}; raise memory or shorten links"
                )
            }
            Self::SwitchOverride { switch, reason } => {
                write!(f, "policies of switch {}: {reason}", switch.get())
            }
            Self::Setting(reason) => f.write_str(reason),
            Self::SlowPort { index, reason } => write!(f, "slow port {index}: {reason}"),
            Self::LinkChange { index, reason } => write!(f, "link change {index}: {reason}"),
            Self::LinkImpairment { index, reason } => write!(f, "link impairment {index}: {reason}"),
            Self::Dependency { index, reason } => write!(f, "dependency {index}: {reason}"),
            Self::Join { join, reason } => write!(f, "join {join}: {reason}"),
            Self::Ring { index, reason } => write!(f, "ring {index}: {reason}"),
            Self::Memory { needed, limit } => {
                write!(
                    f,
                    "the run needs about {needed} of memory, above the limit of {limit}; raise it or shrink the plan"
                )
            }
            Self::Connection { index, reason } => write!(f, "connection {index}: {reason}"),
            Self::Priority { connection, error } => write!(f, "connection {connection}: {error}"),
            Self::Message { index, reason } => write!(f, "message {index}: {reason}"),
            Self::Law { connection, error } => write!(f, "connection {connection}: {error}"),
            Self::SwitchList(reason) => write!(f, "switches: {reason}"),
            Self::Unsupported(feature) => write!(f, "this backend does not support {feature}"),
            Self::BackendFailed(message) => f.write_str(message),
        }
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Checks that the plan is valid. `supplied` is the set of signals that the backend's hosts supply to laws.
    pub fn check(&self, supplied: Signals) -> Result<(), PlanError> {
        self.check_topology()?;
        self.check_sizes()?;
        self.check_transport()?;
        self.check_trimming()?;
        self.check_credits()?;
        self.check_switch_overrides()?;
        self.check_slow_ports()?;
        self.check_stacks()?;
        self.check_connections(supplied)?;
        self.check_messages()?;
        self.check_dependencies()?;
        self.check_joins()?;
        rings::check_rings(&self.rings, &self.connections, &self.messages)
            .map_err(|InvalidRing { index, reason }| PlanError::Ring { index, reason })?;
        self.check_link_changes()?;
        self.check_link_impairments()?;
        self.check_switch_lists()?;
        self.check_sampling()
    }

    /// Checks that the plan meets the requirements of credits.
    fn check_credits(&self) -> Result<(), PlanError> {
        let Some(credits) = &self.transport.credits else { return Ok(()) };
        let one = Fraction::ratio(1, 1).q32();
        if !(Bytes::new(256)..=Bytes::new(1 << 20)).contains(&credits.pull) {
            return Err(PlanError::Setting(
                "credits: set the credit of a pull packet between 256 B and 1 MiB",
            ));
        }
        if !(one / 1_000..=one).contains(&credits.rate.q32()) {
            return Err(PlanError::Setting(
                "credits: set the receivers' share of the link rate between 0.001 and 1",
            ));
        }
        if !(one / 1_000..=one).contains(&credits.min_rate.q32()) {
            return Err(PlanError::Setting("credits: set the smallest rate between 0.001 and 1"));
        }
        if credits.window.q32() < one / 10 || credits.window.q32() > 1_000 * one {
            return Err(PlanError::Setting("credits: set the largest credit between 0.1 and 1000 products"));
        }
        if credits.network_rtt.is_zero() || credits.network_rtt > poseidon_laws::law::MAX_RTT {
            return Err(PlanError::Setting("credits: set the network's RTT above zero and below 4.29 s"));
        }
        if matches!(self.topology, Topology::Rotor(_)) || !self.stacks.is_empty() {
            return Err(PlanError::Unsupported("credits with rotor networks or real transport stacks"));
        }
        Ok(())
    }

    /// Returns the path properties that a connection's law needs.
    pub fn path(&self, connection: &Connection) -> Path {
        let base = self.base_rtt(connection.from, connection.to);
        Path {
            mtu: self.transport.mtu,
            line_rate: self.topology.line_rate(connection.from, connection.to),
            base_rtt: base.to_nanos_floor(),
        }
    }

    /// Returns the RTT of a full packet in an idle network. The RTT runs from sending the packet's first bit to
    /// receiving the ACK's last bit.
    pub fn base_rtt(&self, from: HostId, to: HostId) -> Picos {
        self.one_way_delay(from, to, self.data_size()) + self.one_way_delay(to, from, self.ack_size())
    }

    /// Returns the size of a full data packet on the wire, including telemetry.
    pub fn data_size(&self) -> Bytes {
        self.transport.mtu + self.data_overhead()
    }

    /// Returns the per-packet overhead of data packets: headers and telemetry.
    pub fn data_overhead(&self) -> Bytes {
        self.transport.header + self.switch.stamp.data_bytes()
    }

    /// Returns the size of an ACK on the wire, including telemetry.
    pub fn ack_size(&self) -> Bytes {
        self.transport.ack + self.switch.stamp.ack_bytes()
    }

    /// Returns the one-way delay of a packet in an idle network. The delay runs from sending the first bit to receiving
    /// the last bit.
    pub fn one_way_delay(&self, from: HostId, to: HostId, size: Bytes) -> Picos {
        let links = self.topology.links_between(from, to);
        let switches = links.len() as u64 - 1;
        let wires: Picos = links.iter().map(|link| link.rate.send_time_ceil(size) + link.delay).sum();
        wires + self.switch.pipeline * switches
    }

    /// Returns the memory that PFC reserves for packets that arrive after a pause frame has been sent.
    ///
    /// The headroom covers the bytes in flight during the link's round-trip time plus one pipeline delay, three full
    /// packets, and one pause frame per priority. The three packets are the packet that exceeds the threshold and one
    /// packet in transmission at each end of the link.
    pub fn headroom(&self, link: Link) -> Bytes {
        let round_trip = link.delay + link.delay + self.switch.pipeline;
        let in_flight = u128::from(round_trip.get()) * u128::from(link.rate.get()) / 8_000_000_000_000;
        let largest = self.data_size().max(self.ack_size());
        let frames = PAUSE_FRAME * u64::from(MAX_PRIORITIES);
        Bytes::new(u64::try_from(in_flight).unwrap_or(u64::MAX)) + largest * 3 + frames
    }

    /// Returns whether each message has a dependency or waits for a join.
    pub fn dependent_mask(&self) -> Vec<bool> {
        let mut is_dependent = vec![false; self.messages.len()];
        let dependents = self.dependencies.iter().map(|dependency| dependency.dependent);
        for message in dependents.chain(self.joins.dependents.iter().map(|dependent| dependent.message)) {
            // An invalid plan may refer to a message that does not exist.
            if let Some(is_dependent) = is_dependent.get_mut(message.index()) {
                *is_dependent = true;
            }
        }
        is_dependent
    }

    /// Returns the connection of a message, or `None` if neither the messages nor the rings have this number.
    pub fn connection_of(&self, message: MessageId) -> Option<ConnectionId> {
        match self.messages.get(message.index()) {
            Some(message) => Some(message.connection),
            None => rings::connection_of(&self.rings, message),
        }
    }

    /// Returns the stack of a connection, or `None` if the connection runs in the backend's own transport.
    pub fn stack_of(&self, connection: ConnectionId) -> Option<&StackLaw> {
        let law = self.connections[connection.index()].law;
        self.stacks.iter().find(|stack| stack.law == law)
    }

    /// Returns the messages that directly depend on an event of a message. The dependencies must be sorted.
    pub fn dependents_of(&self, message: MessageId, event: Event) -> impl Iterator<Item = MessageId> + '_ {
        let key = (message, event);
        let first = self.dependencies.partition_point(|d| (d.prerequisite, d.event) < key);
        let dependencies = self.dependencies[first..].iter();
        dependencies.take_while(move |d| (d.prerequisite, d.event) == key).map(|d| d.dependent)
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
        let Switch { priorities, buffer, mark, mark_direction, .. } = &self.switch;
        self.check_buffer(buffer)?;
        check_mark(mark)?;
        if !(1..=MAX_PRIORITIES).contains(priorities) {
            return Err(PlanError::Setting("priorities: a port must have between 1 and 8 queues"));
        }
        if self.transport.ack_priority.is_some_and(|priority| priority >= *priorities) {
            return Err(PlanError::Setting("ack-priority: it must be below the number of queues per port"));
        }
        if *mark_direction == (MarkDirection::ReversePerFlow { counters: 0 }) {
            return Err(PlanError::Setting("counters: reverse marking needs at least one"));
        }
        Ok(())
    }

    /// Checks the path policy, and that the ways to send ACKs and to recover from losses fit together.
    fn check_transport(&self) -> Result<(), PlanError> {
        let Transport { acks, recovery, load_balancing, echo, .. } = &self.transport;
        load_balancing.check().map_err(|error| PlanError::Policy { policy: load_balancing.name(), error })?;
        let coalesces_bytes = matches!(acks, Acks::CoalescedBytes { .. });
        if coalesces_bytes != (*recovery == Recovery::TrimNacks) {
            return Err(PlanError::Setting(
                "ACKs per number of bytes and recovery by NACKs of trimmed packets need each other: use both",
            ));
        }
        if coalesces_bytes && self.transport.plb.is_some() {
            return Err(PlanError::Setting(
                "recovery by NACKs of trimmed packets does not support PLB: choose a path policy instead",
            ));
        }
        if coalesces_bytes && *echo != Echo::Exact {
            return Err(PlanError::Setting("ACKs per number of bytes need exact echoes: set echo to exact"));
        }
        match *acks {
            Acks::Coalesced { packets, delay } if packets == 0 || delay.is_zero() => {
                Err(PlanError::Setting("coalesced ACKs: set packets and delay above zero"))
            }
            Acks::Coalesced { .. } if *recovery == Recovery::GoBackN => {
                Err(PlanError::Setting("go-back-n does not support coalesced ACKs: acknowledge every packet"))
            }
            Acks::CoalescedBytes { bytes } if bytes.is_zero() || bytes > Bytes::new(1 << 30) => {
                Err(PlanError::Setting("ACKs per number of bytes: set the number between 1 B and 1 GiB"))
            }
            Acks::Coalesced { .. } | Acks::CoalescedBytes { .. } | Acks::EveryPacket => Ok(()),
        }
    }

    /// Checks that the plan meets the requirements of packet trimming.
    fn check_trimming(&self) -> Result<(), PlanError> {
        let Some(Trim { size }) = self.switch.trim else { return Ok(()) };
        if size.is_zero() || size >= self.data_size() {
            return Err(PlanError::Setting("trimming: a trimmed packet must be smaller than a full packet"));
        }
        if self.switch.pause != Pause::Off {
            return Err(PlanError::Setting("trimming: PFC never drops packets; leave out one of them"));
        }
        if self.transport.recovery != Recovery::TrimNacks {
            return Err(PlanError::Setting(
                "trimming: the hosts must use recovery by NACKs of trimmed packets",
            ));
        }
        if self.transport.ack_priority != Some(0) || self.connections.iter().any(|c| c.priority == 0) {
            return Err(PlanError::Setting(
                "trimming: headers, ACKs and NACKs need priority 0, and data needs a lower priority",
            ));
        }
        if !self.stacks.is_empty() {
            return Err(PlanError::Unsupported("packet trimming with real transport stacks"));
        }
        Ok(())
    }

    fn check_slow_ports(&self) -> Result<(), PlanError> {
        for (index, SlowPort { switch, port: _, divisor }) in self.slow_ports.iter().enumerate() {
            if switch.get() >= self.topology.switches() {
                return Err(PlanError::SlowPort { index, reason: "its switch does not exist" });
            }
            if *divisor < 2 {
                return Err(PlanError::SlowPort { index, reason: "its divisor is below two" });
            }
        }
        let is_before = |a: &SlowPort, b: &SlowPort| (a.switch, a.port) < (b.switch, b.port);
        if self.slow_ports.is_sorted_by(is_before) {
            Ok(())
        } else {
            Err(PlanError::Setting("sort the slow ports by switch and port, and list each port once"))
        }
    }

    /// Checks a buffer policy's parameters, and that the buffer holds a packet unless PFC replaces it.
    fn check_buffer(&self, buffer: &AnyBufferPolicy) -> Result<(), PlanError> {
        buffer.check().map_err(|error| PlanError::Policy { policy: buffer.name(), error })?;
        let space = buffer.free_space(Bytes::ZERO, Bytes::ZERO);
        if self.switch.pause == Pause::Off && space < self.data_size().max(self.ack_size()) {
            return Err(PlanError::Buffer(space));
        }
        Ok(())
    }

    fn check_switch_overrides(&self) -> Result<(), PlanError> {
        for SwitchOverride { switch, buffer, mark } in &self.switch_overrides {
            let reject = |reason| Err(PlanError::SwitchOverride { switch: *switch, reason });
            if switch.get() >= self.topology.switches() {
                return reject("the switch does not exist");
            }
            if buffer.is_none() && mark.is_none() {
                return reject("they do not differ from those of the other switches");
            }
            if buffer.is_some() && self.switch.pause != Pause::Off {
                return reject("PFC ignores buffer policies; leave out one of them");
            }
            buffer.as_ref().map_or(Ok(()), |buffer| self.check_buffer(buffer))?;
            mark.as_ref().map_or(Ok(()), check_mark)?;
        }
        if self.switch_overrides.is_sorted_by(|a, b| a.switch < b.switch) {
            Ok(())
        } else {
            Err(PlanError::SwitchList(
                "sort the switches with their own policies, and list each of them once",
            ))
        }
    }

    fn check_stacks(&self) -> Result<(), PlanError> {
        for StackLaw { law, stack, controller } in &self.stacks {
            if usize::try_from(*law).ok().and_then(|law| self.laws.get(law)).is_none() {
                return Err(PlanError::Setting("stacks: a law does not exist"));
            }
            if controller.is_some_and(|controller| !stack.controllers().contains(&controller)) {
                return Err(PlanError::Setting("stacks: the stack does not have this controller"));
            }
            if controller.is_none() && !stack.runs_laws() {
                return Err(PlanError::Setting(
                    "stacks: the stack does not run our laws; choose one of its controllers",
                ));
            }
        }
        if !self.stacks.is_sorted_by(|a, b| a.law < b.law) {
            return Err(PlanError::Setting("stacks: sort them by law, and list each law once"));
        }
        if self.stacks.is_empty() {
            return Ok(());
        }
        if !self.transport.load_balancing.is_stateless() {
            return Err(PlanError::Unsupported(
                "path policies other than ecmp and spray together with real stacks",
            ));
        }
        let has_dependencies =
            !self.dependencies.is_empty() || !self.joins.delays.is_empty() || !self.rings.is_empty();
        if has_dependencies {
            return Err(PlanError::Unsupported("messages that wait for messages together with real stacks"));
        }
        Ok(())
    }

    fn check_connections(&self, supplied: Signals) -> Result<(), PlanError> {
        let hosts = self.topology.hosts();
        for (index, connection) in self.connections.iter().enumerate() {
            let reject = |reason| Err(PlanError::Connection { index, reason });
            if connection.from.get() >= hosts || connection.to.get() >= hosts {
                return reject("one of its hosts does not exist");
            }
            if connection.from == connection.to {
                return reject("its sender and receiver are the same host");
            }
            let (priority, queues) = (connection.priority, self.switch.priorities);
            if priority >= queues {
                let error = PriorityTooHigh { priority, queues };
                return Err(PlanError::Priority { connection: index, error });
            }
            let Some(law) = usize::try_from(connection.law).ok().and_then(|law| self.laws.get(law)) else {
                return reject("its law does not exist");
            };
            law.build(&self.path(connection), supplied)
                .map_err(|error| PlanError::Law { connection: index, error })?;
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), PlanError> {
        let is_dependent = self.dependent_mask();
        // For each connection: `None` until its first message is seen, then whether that message is a long flow.
        let mut has_long_flow: Vec<Option<bool>> = vec![None; self.connections.len()];
        let mut last_start = Picos::ZERO;
        for (index, message) in self.messages.iter().enumerate() {
            let reject = |reason| Err(PlanError::Message { index, reason });
            let Some(has_long_flow) = has_long_flow.get_mut(message.connection.index()) else {
                return reject("its connection does not exist");
            };
            if message.amount.bytes().is_some_and(Bytes::is_zero) {
                return reject("it is empty");
            }
            let is_long = message.amount.bytes().is_none();
            if *has_long_flow == Some(true) || (is_long && *has_long_flow == Some(false)) {
                return reject("a message without a fixed size must be the only one of its connection");
            }
            *has_long_flow = Some(is_long);
            if is_dependent[index] {
                continue;
            }
            if matches!(message.amount, Amount::Until(until) if until <= message.start) {
                return reject("it ends before it begins");
            }
            if message.start < last_start {
                return reject("it starts before the previous message; sort messages by time");
            }
            last_start = message.start;
        }
        Ok(())
    }

    fn check_dependencies(&self) -> Result<(), PlanError> {
        for (index, dependency) in self.dependencies.iter().enumerate() {
            let reject = |reason| Err(PlanError::Dependency { index, reason });
            let find = |message: MessageId| {
                let message = self.messages.get(message.index())?;
                Some((message.amount, self.connections[message.connection.index()]))
            };
            let (Some((amount, first)), Some((_, second))) =
                (find(dependency.prerequisite), find(dependency.dependent))
            else {
                return reject("one of its messages does not exist");
            };
            if dependency.dependent <= dependency.prerequisite {
                return reject("a message can only wait for a message that comes earlier in the plan");
            }
            if amount.bytes().is_none() {
                return reject("it waits for a message without a fixed size");
            }
            if event_host(dependency.event, first) != second.from {
                return reject("the event does not happen at the sender of the waiting message");
            }
        }
        if self.dependencies.is_sorted() {
            Ok(())
        } else {
            Err(PlanError::Setting("dependencies must be sorted"))
        }
    }

    fn check_joins(&self) -> Result<(), PlanError> {
        let Joins { delays, prerequisites, dependents } = &self.joins;
        // For each join, the host at which its events happen, and the last message that it waits for.
        let mut waits: Vec<Option<(HostId, MessageId)>> = vec![None; delays.len()];
        for JoinPrerequisite { message: id, event, join } in prerequisites {
            let reject = |reason| Err(PlanError::Join { join: join.get(), reason });
            let (Some(wait), Some(message)) = (waits.get_mut(join.index()), self.messages.get(id.index()))
            else {
                return reject("the join or a message that it waits for does not exist");
            };
            if message.amount.bytes().is_none() {
                return reject("it waits for a message without a fixed size");
            }
            let host = event_host(*event, self.connections[message.connection.index()]);
            let (first_host, last) = wait.unwrap_or((host, *id));
            if host != first_host {
                return reject("it waits for events at different hosts");
            }
            *wait = Some((host, last.max(*id)));
        }
        for JoinDependent { join, message: id } in dependents {
            let reject = |reason| Err(PlanError::Join { join: join.get(), reason });
            let (Some(Some((host, last))), Some(message)) =
                (waits.get(join.index()), self.messages.get(id.index()))
            else {
                return reject(
                    "the join or a message that waits for it does not exist, or the join has no events",
                );
            };
            if id <= last {
                return reject("a message can only wait for messages that come earlier in the plan");
            }
            if self.connections[message.connection.index()].from != *host {
                return reject("its events do not happen at the sender of the waiting message");
            }
        }
        if prerequisites.is_sorted() && dependents.is_sorted() {
            Ok(())
        } else {
            Err(PlanError::Setting("the prerequisites and dependents of joins must be sorted"))
        }
    }

    fn check_link_changes(&self) -> Result<(), PlanError> {
        let mut last_time = Picos::ZERO;
        for (index, change) in self.link_changes.iter().enumerate() {
            let reject = |reason| Err(PlanError::LinkChange { index, reason });
            if change.switch.get() >= self.topology.switches() {
                return reject("its switch does not exist");
            }
            if change.time < last_time {
                return reject("it comes before the previous change; sort changes by time");
            }
            if matches!(change.event, LinkEvent::Rate(rate) if rate.is_zero()) {
                return reject("its rate is zero; take the link down instead");
            }
            last_time = change.time;
        }
        Ok(())
    }

    fn check_link_impairments(&self) -> Result<(), PlanError> {
        for (index, LinkImpairment { switch, policy, .. }) in self.link_impairments.iter().enumerate() {
            if switch.get() >= self.topology.switches() {
                return Err(PlanError::LinkImpairment { index, reason: "its switch does not exist" });
            }
            policy.check().map_err(|error| PlanError::Policy { policy: policy.name(), error })?;
        }
        let is_before = |a: &LinkImpairment, b: &LinkImpairment| (a.switch, a.port) < (b.switch, b.port);
        if self.link_impairments.is_sorted_by(is_before) {
            Ok(())
        } else {
            Err(PlanError::Setting("sort the link impairments by port, and list each port once"))
        }
    }

    fn check_switch_lists(&self) -> Result<(), PlanError> {
        let switches = self.topology.switches();
        let without_telemetry = self.telemetry_off.iter().map(|period| period.switch);
        let watched = self.watched_ports.iter().map(|watched| watched.switch);
        if without_telemetry.clone().chain(watched).any(|switch| switch.get() >= switches) {
            return Err(PlanError::SwitchList(
                "a watched switch or a switch without telemetry does not exist",
            ));
        }
        if !without_telemetry.is_sorted_by(|a, b| a < b) || !self.watched_ports.is_sorted() {
            return Err(PlanError::SwitchList(
                "sort the watched ports and the switches without telemetry, and list each of these switches once",
            ));
        }
        if self.telemetry_off.iter().any(|period| period.until <= period.from) {
            return Err(PlanError::SwitchList("a period without telemetry ends before it begins"));
        }
        Ok(())
    }

    fn check_sampling(&self) -> Result<(), PlanError> {
        let samples = self.stop.get().checked_div(self.sample_every.get()).unwrap_or(0);
        if samples > MAX_SAMPLES {
            return Err(PlanError::Setting(
                "sample-every: more than a billion samples; sample less often or stop sooner",
            ));
        }
        if !self.watched_connections.is_sorted()
            || self.watched_connections.last().is_some_and(|last| last.index() >= self.connections.len())
        {
            return Err(PlanError::Setting("watched connections must exist and be sorted"));
        }
        Ok(())
    }
}

fn check_mark(mark: &AnyMarkPolicy) -> Result<(), PlanError> {
    mark.check().map_err(|error| PlanError::Policy { policy: mark.name(), error })
}

/// Returns the host at which an event of a connection's message happens.
const fn event_host(event: Event, connection: Connection) -> HostId {
    match event {
        Event::Received => connection.to,
        Event::Acknowledged => connection.from,
    }
}

/// The maximum number of samples per port. This limit prevents a plan with no stop time from sampling forever.
const MAX_SAMPLES: u64 = 1_000_000_000;

/// The size of a pause frame on the wire, which is the minimum Ethernet frame size.
pub const PAUSE_FRAME: Bytes = Bytes::new(64);
