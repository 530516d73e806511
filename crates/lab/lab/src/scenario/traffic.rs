//! A scenario's traffic patterns and phases.

use super::text::{OneOrMore, Rate, Ratio, Size, Time};
use poseidon_traces::{FlowLayout, PrioritySource, StartUnit};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A traffic pattern. The description of each kind lists its keys; any other key is an error.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TrafficSpec {
    /// The pattern name. Metric names begin with this name.
    pub name: String,
    /// The kind of traffic.
    pub kind: TrafficKind,
    /// The law that the connections use; defaults to the scenario's law.
    pub law: Option<String>,
    /// The packet priority; 0 is the highest.
    #[serde(default)]
    pub priority: u8,
    /// The senders: `"rack0.host0"`, `"rack[1-9].host0"`, `"host[0-15]"`, or `"host[0-23].rack[1-10]"`, where the
    /// rack varies fastest.
    pub from: Option<OneOrMore>,
    /// The receivers: one for all senders, or one per sender. For random traffic, the hosts to draw from.
    pub to: Option<OneOrMore>,
    /// Uses only the first `count` senders.
    pub count: Option<u32>,
    /// The start time.
    #[serde(default)]
    pub start: Time,
    /// The end time; defaults to the end of the run.
    pub until: Option<Time>,
    /// The maximum random delay that is added to the start of each flow.
    pub spread: Option<Time>,
    /// The number of `incast` senders that start at the same time; the next group starts `every` later.
    pub together: Option<u32>,
    /// The time between groups (see `together`), the period of `rotating-incast`, or the mean time between the
    /// `requests` of a client.
    pub every: Option<Time>,
    /// The number of servers in a rack that answer a request.
    pub fan: Option<u32>,
    /// The number of messages that each `closed-loop` sender sends.
    pub messages: Option<u32>,
    /// The think time of a `closed-loop` sender, from the end of a message to the start of the next message.
    pub think: Option<Time>,
    /// The message size.
    pub size: Option<Size>,
    /// The message size in the last period of `rotating-incast`, if it differs from `size`.
    pub last_size: Option<Size>,
    /// The mean offered rate per sender.
    pub rate: Option<Rate>,
    /// Whether each message of `uniform-random` or `closed-loop` opens a new connection.
    #[serde(default)]
    pub fresh: bool,
    /// The number of receivers that each `uniform-random` sender draws once and keeps. Ignored if `fresh` is set.
    pub partners: Option<u32>,
    /// The offered load as a fraction of the capacity; at most 1.
    pub load: Option<Ratio>,
    /// The message size distribution: the name of a published one (`poseidon list workloads`), or a file with the
    /// columns `size_bytes,cdf` or HPCC's `bytes percent`. A name with a dot or a slash is a file, relative to the
    /// folder of the scenario.
    pub sizes: Option<String>,
    /// The destinations of `poisson-flows`; defaults to `other-racks`.
    pub destinations: Option<DestinationSpec>,
    /// The name of another traffic pattern. Flows take the same uplink as the first flow of that pattern.
    pub share_uplink_of: Option<String>,
    /// The file of `flow-list`, relative to the folder of the scenario.
    pub file: Option<String>,
    /// The format of `file`; by default, `htsim` for `.cm` and `.tm`, `csv` for `.csv`.
    pub format: Option<FlowFormatSpec>,
    /// The unit of start times in an htsim file, which differs between its programs.
    pub start_unit: Option<StartUnitSpec>,
    /// The algorithm of a `collective`, such as `ring-all-reduce` (`poseidon list collectives`).
    pub algorithm: Option<String>,
    /// The number of groups of consecutive ranks that run a `collective` at the same time, each by itself (default: 1).
    pub groups: Option<u32>,
    /// The number of parts of the data that a `collective` transfers independently of each other, each over its own
    /// connections (default: 1).
    pub channels: Option<u32>,
    /// The largest message of a `collective`. Larger transfers are split into messages of this size, which are
    /// pipelined.
    pub chunk: Option<Size>,
    /// The number of times that a `collective` runs (default: 1).
    pub repetitions: Option<u32>,
    /// The time that each rank computes before it starts the next repetition of a `collective` (default: 0).
    pub compute: Option<Time>,
    /// The number of consecutive ranks that form a server, for hierarchical collectives.
    pub ranks_per_server: Option<u32>,
    /// The file with the bytes that each rank sends to each rank, for `all-to-allv`: a square matrix, one row per line.
    pub matrix: Option<String>,
}

impl TrafficSpec {
    /// Returns whether the pattern's flows have no fixed size. Such flows are measured by rate, and other flows by
    /// latency.
    pub fn is_long(&self) -> bool {
        match self.kind {
            TrafficKind::LongFlows | TrafficKind::Phased => true,
            TrafficKind::Incast | TrafficKind::Permutation => self.size.is_none(),
            TrafficKind::RotatingIncast
            | TrafficKind::UniformRandom
            | TrafficKind::PoissonFlows
            | TrafficKind::Requests
            | TrafficKind::ClosedLoop
            | TrafficKind::FlowList
            | TrafficKind::Collective => false,
        }
    }
}

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficKind {
    /// Flows that run for a given time. Keys: from, to, count, start, until, spread.
    LongFlows,
    /// Long flows whose number changes with the phase. Keys: from, to, count, spread.
    Phased,
    /// Many senders to one receiver; long flows if no size is given. Keys: from, to, count, size, start, spread,
    /// together, every.
    Incast,
    /// Many senders to one receiver, which changes every period. Keys: from, to, count, size, last-size, every, start,
    /// until, spread.
    RotatingIncast,
    /// Fixed-size messages to random hosts. Keys: from, to, count, size, rate, fresh, partners, start, until.
    UniformRandom,
    /// Flows with random sizes and start times at a given load. Keys: from (all hosts by default), to (instead of
    /// destinations), count, load, sizes, rate, destinations, start, until. The load is a fraction of `rate` per host, or of the host's link rate if `rate`
    /// is not set.
    PoissonFlows,
    /// Clients request files, and several servers in another rack send each file at once. Keys: from (the clients;
    /// all hosts by default), to (the servers; all hosts by default), count, fan, size (of the file), every, start, until.
    Requests,
    /// Each sender sends its next message when the previous message has been acknowledged. Keys: from, to, count, size,
    /// messages, think, fresh, spread, start.
    ClosedLoop,
    /// Each host sends to one other host, chosen at random; long flows if no size is given. Keys: from, to (by default,
    /// the senders themselves), count, size, start.
    Permutation,
    /// The flows of a file. Keys: file, format, start-unit.
    FlowList,
    /// A collective operation of machine learning. Keys: algorithm, from (the ranks, in order; all hosts by default),
    /// count, size, groups, channels, chunk, repetitions, compute, ranks-per-server, matrix, start.
    Collective,
}

/// The format of a flow list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowFormatSpec {
    /// Columns named by a header: `from,to,size_bytes,start_us`, optionally `priority`. Priorities in other formats
    /// have another meaning and are ignored.
    Csv,
    /// The flow files of HPCC's ns-3 simulator: `src dst pg dport bytes start_seconds`.
    Hpcc,
    /// A connection matrix of htsim (`.cm`).
    Htsim,
}

impl FlowFormatSpec {
    /// Returns where priorities come from. The priority classes of other simulators have another meaning.
    pub const fn priority_source(self) -> PrioritySource {
        match self {
            Self::Csv => PrioritySource::File,
            Self::Hpcc | Self::Htsim => PrioritySource::Class,
        }
    }

    /// Returns how files of this format arrange their flows.
    pub const fn layout(self) -> FlowLayout {
        match self {
            Self::Csv | Self::Hpcc => FlowLayout::AfterFirstLine,
            Self::Htsim => FlowLayout::Arrows,
        }
    }
}

/// The unit of start times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum StartUnitSpec {
    /// Picoseconds, as in csg-htsim.
    #[serde(rename = "ps")]
    Picoseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds, as in uet-htsim.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
}

impl StartUnitSpec {
    /// Returns the unit for the file readers.
    pub const fn unit(self) -> StartUnit {
        match self {
            Self::Picoseconds => StartUnit::Picoseconds,
            Self::Nanoseconds => StartUnit::Nanoseconds,
            Self::Microseconds => StartUnit::Microseconds,
            Self::Milliseconds => StartUnit::Milliseconds,
            Self::Seconds => StartUnit::Seconds,
        }
    }
}

/// The hosts from which `poisson-flows` draws destinations, with equal probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DestinationSpec {
    /// Hosts in other racks, so the whole load crosses the uplinks.
    OtherRacks,
    /// All other hosts, including those in the same rack (as in HPCC's generator).
    OtherHosts,
    /// Hosts in the same rack and in racks with higher numbers (as in PowerTCP's artifact).
    SameAndLaterRacks,
}

/// A part of a run that is measured separately.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// The phase name.
    pub name: String,
    /// The start time. A phase ends when the next phase starts.
    #[serde(rename = "at")]
    pub start: Time,
    /// The number of active flows for each `phased` traffic pattern.
    #[serde(default)]
    pub flows: BTreeMap<String, u32>,
}
