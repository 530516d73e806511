//! Generates a cell's traffic.

use crate::files::{InputFiles, is_file_name};
use crate::scenario::{
    DestinationSpec, GroupedDigits, OneOrMore, Scenario, SpecError, SpecErrorKind, Suggestion, TrafficKind,
    TrafficSpec, select_hosts, select_nodes,
};
use poseidon_plan::Topology;
use poseidon_plan::patterns::{
    ALGORITHMS, Algorithm, ClosedLoop, Collective, ConnectionReuse, Destinations, Incast, LongFlows,
    PairConnections, Pattern, Permutation, Phase, Phases, PoissonFlows, Racks, Requests, RotatingIncast,
    SizeDistribution, Stagger, Traffic, TrafficClass, UniformRandom, WORKLOADS,
};
use poseidon_plan::traffic::Amount;
use poseidon_traces::NodeMap;
use poseidon_types::{Bytes, Fraction, HostId, Picos};

/// The maximum number of messages in a plan. A plan has at most as many connections as messages. Each message takes
/// about 100 bytes with its measurements, so the largest plan takes about 1 GB before it runs.
pub const MAX_MESSAGES: u32 = 10_000_000;

/// The network that traffic crosses, and the files that describe traffic.
pub(super) struct TrafficNetwork<'a> {
    pub(super) topology: &'a Topology,
    pub(super) racks: &'a Racks,
    /// The hosts by the numbers of the topology file, if it has numbers of its own.
    pub(super) nodes: Option<&'a NodeMap>,
    pub(super) files: &'a InputFiles,
}

/// Generates the traffic of one pattern.
pub(super) struct Generator<'a> {
    pub(super) spec: &'a TrafficSpec,
    pub(super) class: &'a TrafficClass,
    pub(super) scenario: &'a Scenario,
    pub(super) network: &'a TrafficNetwork<'a>,
    /// The end of the run.
    pub(super) stop: Picos,
    /// The number of messages that the plan already has.
    pub(super) earlier_messages: usize,
}

impl Generator<'_> {
    /// Generates the traffic. Key paths in errors are relative to the pattern's table.
    pub(super) fn generate(&self) -> Result<Traffic, SpecError> {
        check_keys(self.spec)?;
        match self.spec.kind {
            TrafficKind::LongFlows => self.long_flows(),
            TrafficKind::Phased => self.phased(),
            TrafficKind::Incast => self.incast(),
            TrafficKind::RotatingIncast => self.rotating_incast(),
            TrafficKind::UniformRandom => self.uniform_random(),
            TrafficKind::PoissonFlows => self.poisson_flows(),
            TrafficKind::Requests => self.requests(),
            TrafficKind::ClosedLoop => self.closed_loop(),
            TrafficKind::Permutation => self.permutation(),
            TrafficKind::FlowList => self.flow_list(),
            TrafficKind::Collective => self.collective(),
        }
    }

    fn long_flows(&self) -> Result<Traffic, SpecError> {
        let stop = self.spec.until.map_or(Picos::MAX, |until| until.0);
        self.build(&LongFlows { ends: self.endpoints()?, start: self.start(), spread: self.spread(), stop })
    }

    fn phased(&self) -> Result<Traffic, SpecError> {
        let endpoints = self.endpoints()?;
        let mut phases = Vec::new();
        for phase in self.scenario.phase.iter().filter(|phase| phase.start < self.scenario.stop) {
            let flows = phase.flows.get(&self.spec.name).copied().unwrap_or(0) as usize;
            if flows > endpoints.len() {
                let (phase, available) = (phase.name.clone(), endpoints.len());
                return Err(SpecErrorKind::TooManyPhaseFlows { phase, flows, available }.at(["from"]));
            }
            phases.push(Phase { start: phase.start.0, flows: endpoints[..flows].to_vec() });
        }
        self.build(&Phases { phases, end: self.stop }).map(|traffic| self.spread_starts(traffic))
    }

    fn incast(&self) -> Result<Traffic, SpecError> {
        let to = self.receivers()?;
        let [target] = to.as_slice() else { return Err(SpecErrorKind::SeveralTargets.at(["to"])) };
        let stagger = match self.spec.together {
            Some(group_size) => Stagger { group_size, interval: self.every()? },
            None => Stagger::NONE,
        };
        let (senders, amount, start) = (self.senders()?, self.amount(), self.start());
        self.build(&Incast { senders, target: *target, amount, start, stagger })
            .map(|traffic| self.spread_starts(traffic))
    }

    fn rotating_incast(&self) -> Result<Traffic, SpecError> {
        let targets = self.receivers()?;
        self.build(&RotatingIncast {
            senders: self.senders()?,
            targets,
            size: self.size()?,
            last_size: self.spec.last_size.map(|size| size.0),
            period: self.every()?,
            start: self.start(),
            until: self.until(),
        })
        .map(|traffic| self.spread_starts(traffic))
    }

    fn uniform_random(&self) -> Result<Traffic, SpecError> {
        let rate = self.spec.rate.ok_or_else(|| missing_key("rate"))?.0;
        let connections = match (self.spec.fresh, self.spec.partners) {
            (true, _) => PairConnections::PerMessage,
            (false, Some(partners)) => PairConnections::PerPairLimited(partners),
            (false, None) => PairConnections::PerPair,
        };
        self.build(&UniformRandom {
            from: self.senders()?,
            to: self.receivers()?,
            size: self.size()?,
            rate,
            connections,
            start: self.start(),
            until: self.until(),
        })
    }

    fn poisson_flows(&self) -> Result<Traffic, SpecError> {
        let name = self.spec.sizes.as_ref().ok_or_else(|| missing_key("sizes"))?;
        let sizes = self.sizes(name)?;
        let load = self.spec.load.ok_or_else(|| missing_key("load"))?.0;
        if load > Fraction::ONE {
            return Err(SpecErrorKind::LoadAboveOne { load }.at(["load"]));
        }
        let last_host = HostId::new(self.network.racks.host_count().saturating_sub(1));
        let link_rate = || self.network.topology.line_rate(HostId::new(0), last_host);
        let capacity = self.spec.rate.map_or_else(link_rate, |rate| rate.0);
        let senders = if self.spec.from.is_some() { Some(self.senders()?) } else { None };
        let destinations = match self.spec.destinations {
            Some(_) if self.spec.to.is_some() => return Err(SpecErrorKind::ToWithDestinations.at(["to"])),
            None if self.spec.to.is_some() => {
                let mut hosts = self.receivers()?;
                hosts.sort_unstable();
                Destinations::Hosts(hosts)
            }
            None | Some(DestinationSpec::OtherRacks) => Destinations::OtherRacks,
            Some(DestinationSpec::OtherHosts) => Destinations::OtherHosts,
            Some(DestinationSpec::SameAndLaterRacks) => Destinations::SameAndLaterRacks,
        };
        let (racks, start, until) = (self.network.racks.clone(), self.start(), self.until());
        self.build(&PoissonFlows { racks, senders, destinations, sizes, load, capacity, start, until })
    }

    fn requests(&self) -> Result<Traffic, SpecError> {
        let clients = if self.spec.from.is_some() { self.senders()? } else { self.all_hosts() };
        let fan = self.spec.fan.ok_or_else(|| missing_key("fan"))?;
        self.build(&Requests {
            clients,
            racks: self.network.racks.clone(),
            servers: if self.spec.to.is_some() { Some(self.receivers()?) } else { None },
            fan,
            size: self.size()?,
            every: self.every()?,
            start: self.start(),
            until: self.until(),
        })
    }

    fn closed_loop(&self) -> Result<Traffic, SpecError> {
        let count = self.spec.messages.ok_or_else(|| missing_key("messages"))?;
        let connections =
            if self.spec.fresh { ConnectionReuse::NewConnections } else { ConnectionReuse::OneConnection };
        self.build(&ClosedLoop {
            ends: self.endpoints()?,
            size: self.size()?,
            count,
            think: self.spec.think.map_or(Picos::ZERO, |think| think.0),
            connections,
            start: self.start(),
            spread: self.spread(),
        })
    }

    fn permutation(&self) -> Result<Traffic, SpecError> {
        let receivers = if self.spec.to.is_some() { Some(self.receivers()?) } else { None };
        let (hosts, amount, start) = (self.senders()?, self.amount(), self.start());
        self.build(&Permutation { hosts, receivers, amount, start })
    }

    fn flow_list(&self) -> Result<Traffic, SpecError> {
        let TrafficSpec { file, format, start_unit, .. } = self.spec;
        let file = file.as_ref().ok_or_else(|| missing_key("file"))?;
        let limit = MAX_MESSAGES as usize;
        let flows = self.network.files.flows(file, *format, *start_unit, limit);
        let flows = flows.map_err(|error| SpecErrorKind::File(error).at(["file"]))?;
        let all_hosts = NodeMap::Identity(self.network.topology.hosts());
        let nodes = self.network.nodes.unwrap_or(&all_hosts);
        let traffic = self.network.files.traffic(file, *format, &flows, nodes);
        self.build(&traffic.map_err(|error| SpecErrorKind::File(error).at(["file"]))?)
    }

    fn collective(&self) -> Result<Traffic, SpecError> {
        let name = self.spec.algorithm.as_ref().ok_or_else(|| missing_key("algorithm"))?;
        let algorithm = Algorithm::from_name(name).ok_or_else(|| {
            let suggestion = Suggestion::new(name, ALGORITHMS.iter().map(|algorithm| algorithm.name));
            SpecErrorKind::UnknownAlgorithm { algorithm: name.clone(), suggestion }.at(["algorithm"])
        })?;
        let ranks = if self.spec.from.is_some() { self.senders()? } else { self.all_hosts() };
        let matrix = match &self.spec.matrix {
            Some(file) => {
                let matrix = self.network.files.matrix(file);
                Some(matrix.map_err(|error| SpecErrorKind::File(error).at(["matrix"]))?)
            }
            None => None,
        };
        // A matrix gives the sizes of all messages.
        let size = if matrix.is_some() { Bytes::ZERO } else { self.size()? };
        self.build(&Collective {
            ranks,
            groups: self.spec.groups.unwrap_or(1),
            algorithm,
            size,
            channels: self.spec.channels.unwrap_or(1),
            chunk: self.spec.chunk.map(|chunk| chunk.0),
            repetitions: self.spec.repetitions.unwrap_or(1),
            compute_gap: self.spec.compute.map_or(Picos::ZERO, |compute| compute.0),
            ranks_per_server: self.spec.ranks_per_server,
            matrix,
            start: self.start(),
        })
    }

    /// Returns a published size distribution, or reads one from a file.
    fn sizes(&self, name: &str) -> Result<SizeDistribution, SpecError> {
        if let Some(sizes) = SizeDistribution::named(name) {
            return Ok(sizes);
        }
        if is_file_name(name) {
            let sizes = self.network.files.sizes(name);
            return sizes.map_err(|error| SpecErrorKind::File(error).at(["sizes"]));
        }
        let suggestion = Suggestion::new(name, WORKLOADS.iter().map(|workload| workload.name));
        Err(SpecErrorKind::UnknownSizes { sizes: name.to_owned(), suggestion }.at(["sizes"]))
    }

    fn build(&self, pattern: &dyn Pattern) -> Result<Traffic, SpecError> {
        check_message_count(self.spec.kind, self.earlier_messages as f64 + pattern.expected_messages())?;
        pattern.generate(self.class).map_err(|error| SpecErrorKind::Pattern(error).at_root())
    }

    fn hosts(&self, key: &'static str, selectors: &Option<OneOrMore>) -> Result<Vec<HostId>, SpecError> {
        let selectors = selectors.as_ref().ok_or_else(|| missing_key(key))?;
        let hosts = match self.network.nodes {
            Some(nodes) => select_nodes(selectors, nodes, self.network.racks),
            None => select_hosts(selectors, self.network.racks),
        };
        hosts.map_err(|error| SpecErrorKind::Hosts { key, error }.at([key]))
    }

    fn all_hosts(&self) -> Vec<HostId> {
        (0..self.network.racks.host_count()).map(HostId::new).collect()
    }

    fn senders(&self) -> Result<Vec<HostId>, SpecError> {
        let mut from = self.hosts("from", &self.spec.from)?;
        if let Some(count) = self.spec.count {
            if count as usize > from.len() {
                return Err(SpecErrorKind::CountTooLarge { count, hosts: from.len() }.at(["count"]));
            }
            from.truncate(count as usize);
        }
        Ok(from)
    }

    fn receivers(&self) -> Result<Vec<HostId>, SpecError> {
        self.hosts("to", &self.spec.to)
    }

    /// Returns the sender and the receiver of each flow.
    fn endpoints(&self) -> Result<Vec<(HostId, HostId)>, SpecError> {
        let (from, to) = (self.senders()?, self.receivers()?);
        match to.as_slice() {
            [receiver] => Ok(from.iter().map(|sender| (*sender, *receiver)).collect()),
            receivers if receivers.len() >= from.len() => Ok(from.into_iter().zip(to).collect()),
            receivers => {
                let (senders, receivers) = (from.len(), receivers.len());
                Err(SpecErrorKind::TooFewReceivers { senders, receivers }.at(["to"]))
            }
        }
    }

    fn size(&self) -> Result<Bytes, SpecError> {
        self.spec.size.map(|size| size.0).ok_or_else(|| missing_key("size"))
    }

    fn every(&self) -> Result<Picos, SpecError> {
        self.spec.every.map(|every| every.0).ok_or_else(|| missing_key("every"))
    }

    fn amount(&self) -> Amount {
        self.spec.size.map_or(Amount::ENDLESS, |size| Amount::Exactly(size.0))
    }

    fn start(&self) -> Picos {
        self.spec.start.0
    }

    fn until(&self) -> Picos {
        self.spec.until.map_or(self.stop, |until| until.0.min(self.stop))
    }

    fn spread(&self) -> Picos {
        self.spec.spread.map_or(Picos::ZERO, |spread| spread.0)
    }

    /// Delays the start of each message by a random time of at most `spread`.
    fn spread_starts(&self, mut traffic: Traffic) -> Traffic {
        let random = self.class.random.named("spread");
        for (index, message) in (0..).zip(&mut traffic.messages) {
            let limit = u32::try_from(self.spread().get() / 1_000 + 1).unwrap_or(u32::MAX);
            message.start += Picos::new(u64::from(random.nth(index).below(limit)) * 1_000);
        }
        traffic
    }
}

fn missing_key(key: &'static str) -> SpecError {
    SpecErrorKind::MissingKey { key }.at([key])
}

/// Rejects a plan with more than [`MAX_MESSAGES`] messages. The error points to the key that contributes most of the
/// messages.
fn check_message_count(kind: TrafficKind, messages: f64) -> Result<(), SpecError> {
    if messages <= f64::from(MAX_MESSAGES) {
        return Ok(());
    }
    let (key, remedy) = match kind {
        TrafficKind::ClosedLoop => ("messages", "lower messages or count"),
        TrafficKind::PoissonFlows => ("load", "lower load, or end earlier with until or stop"),
        TrafficKind::UniformRandom => ("rate", "lower rate, raise size, or end earlier with until or stop"),
        TrafficKind::RotatingIncast | TrafficKind::Requests => {
            ("every", "raise every, or end earlier with until or stop")
        }
        TrafficKind::LongFlows | TrafficKind::Phased | TrafficKind::Incast | TrafficKind::Permutation => {
            ("from", "lower count")
        }
        TrafficKind::FlowList => ("file", "split the file"),
        TrafficKind::Collective => {
            ("algorithm", "use fewer ranks, channels or repetitions, or larger chunks")
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "the estimate saturates")]
    let messages = GroupedDigits(messages as u64);
    let limit = GroupedDigits(MAX_MESSAGES.into());
    Err(SpecErrorKind::TooManyMessages { key, messages, limit, remedy }.at([key]))
}

/// Returns the keys that a traffic kind uses.
const fn keys_of(kind: TrafficKind) -> &'static [&'static str] {
    match kind {
        TrafficKind::LongFlows => &["from", "to", "count", "start", "until", "spread"],
        TrafficKind::Phased => &["from", "to", "count", "spread"],
        TrafficKind::Incast => &["from", "to", "count", "size", "start", "spread", "together", "every"],
        TrafficKind::RotatingIncast => {
            &["from", "to", "count", "size", "last-size", "every", "start", "until", "spread"]
        }
        TrafficKind::UniformRandom => {
            &["from", "to", "count", "size", "rate", "fresh", "partners", "start", "until"]
        }
        TrafficKind::PoissonFlows => {
            &["from", "to", "count", "load", "sizes", "rate", "destinations", "start", "until"]
        }
        TrafficKind::Requests => &["from", "to", "count", "fan", "size", "every", "start", "until"],
        TrafficKind::ClosedLoop => {
            &["from", "to", "count", "size", "messages", "think", "fresh", "spread", "start"]
        }
        TrafficKind::Permutation => &["from", "to", "count", "size", "start"],
        TrafficKind::FlowList => &["file", "format", "start-unit"],
        TrafficKind::Collective => &[
            "algorithm",
            "from",
            "count",
            "size",
            "groups",
            "channels",
            "chunk",
            "repetitions",
            "compute",
            "ranks-per-server",
            "matrix",
            "start",
        ],
    }
}

/// Rejects keys that the traffic kind does not use, because they would have no effect.
fn check_keys(spec: &TrafficSpec) -> Result<(), SpecError> {
    let used = keys_of(spec.kind);
    let keys = [
        ("from", spec.from.is_some()),
        ("to", spec.to.is_some()),
        ("count", spec.count.is_some()),
        ("start", !spec.start.0.is_zero()),
        ("until", spec.until.is_some()),
        ("spread", spec.spread.is_some()),
        ("together", spec.together.is_some()),
        ("every", spec.every.is_some()),
        ("size", spec.size.is_some()),
        ("last-size", spec.last_size.is_some()),
        ("rate", spec.rate.is_some()),
        ("fresh", spec.fresh),
        ("partners", spec.partners.is_some()),
        ("fan", spec.fan.is_some()),
        ("messages", spec.messages.is_some()),
        ("think", spec.think.is_some()),
        ("destinations", spec.destinations.is_some()),
        ("load", spec.load.is_some()),
        ("sizes", spec.sizes.is_some()),
        ("file", spec.file.is_some()),
        ("format", spec.format.is_some()),
        ("start-unit", spec.start_unit.is_some()),
        ("algorithm", spec.algorithm.is_some()),
        ("groups", spec.groups.is_some()),
        ("channels", spec.channels.is_some()),
        ("chunk", spec.chunk.is_some()),
        ("repetitions", spec.repetitions.is_some()),
        ("compute", spec.compute.is_some()),
        ("ranks-per-server", spec.ranks_per_server.is_some()),
        ("matrix", spec.matrix.is_some()),
    ];
    match keys.into_iter().find(|(key, is_present)| *is_present && !used.contains(key)) {
        Some((key, _)) => Err(SpecErrorKind::UnusedKey { key, used }.at([key])),
        None if spec.kind == TrafficKind::Incast && spec.every.is_some() && spec.together.is_none() => {
            Err(SpecErrorKind::EveryWithoutTogether.at(["every"]))
        }
        None => Ok(()),
    }
}
