//! A scenario's traffic patterns and phases.

use super::text::{OneOrMore, Rate, Ratio, Size, Time};
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
    /// The mean offered rate per sender.
    pub rate: Option<Rate>,
    /// Whether each message of `uniform-random` or `closed-loop` opens a new connection.
    #[serde(default)]
    pub fresh: bool,
    /// The number of receivers that each `uniform-random` sender draws once and keeps. Ignored if `fresh` is set.
    pub partners: Option<u32>,
    /// The offered load as a fraction of the capacity; at most 1.
    pub load: Option<Ratio>,
    /// The name of a published message size distribution.
    pub sizes: Option<String>,
    /// The destinations of `poisson-flows`; defaults to `other-racks`.
    pub destinations: Option<DestinationSpec>,
    /// The name of another traffic pattern. Flows take the same uplink as the first flow of that pattern.
    pub share_uplink_of: Option<String>,
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
            | TrafficKind::ClosedLoop => false,
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
    /// Many senders to one receiver, which changes every period. Keys: from, to, count, size, every, start, until.
    RotatingIncast,
    /// Fixed-size messages to random hosts. Keys: from, to, count, size, rate, fresh, partners, start, until.
    UniformRandom,
    /// Flows with random sizes and start times at a given load, from every host. Keys: load, sizes, rate,
    /// destinations, start, until. The load is a fraction of `rate` per host, or of the host's link rate if `rate`
    /// is not set.
    PoissonFlows,
    /// Clients request files, and several servers in another rack send each file at once. Keys: from (the clients;
    /// all hosts by default), count, fan, size (of the file), every, start, until.
    Requests,
    /// Each sender sends its next message when the previous message has been acknowledged. Keys: from, to, count, size,
    /// messages, think, fresh, spread, start.
    ClosedLoop,
    /// Each host sends to one other host, chosen at random; long flows if no size is given. Keys: from, count, size,
    /// start.
    Permutation,
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
