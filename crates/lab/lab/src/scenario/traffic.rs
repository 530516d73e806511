//! The part of a scenario that says what is sent.

use super::text::{OneOrMore, Part, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Something that is sent. Which keys a kind reads stands at each; one that it does not read is refused.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TrafficSpec {
    /// What it is called: metrics begin with it.
    pub name: String,
    /// What it is.
    pub kind: TrafficKind,
    /// The law of its connections, where it is not the scenario's.
    pub law: Option<String>,
    /// The queue that its packets wait in.
    #[serde(default)]
    pub priority: u8,
    /// Who sends: `"rack0.host0"`, `"rack[1-9].host0"`, `"host[0-23].rack[1-10]"` (the second from the left runs fastest), `"host[0-15]"`.
    pub from: Option<OneOrMore>,
    /// To whom: one for all, or as many as there are senders. For kinds that draw, the hosts to draw from.
    pub to: Option<OneOrMore>,
    /// Only the first so many senders.
    pub count: Option<u32>,
    /// From when on.
    #[serde(default)]
    pub start: Time,
    /// Until when; the end of the run where it is not given.
    pub until: Option<Time>,
    /// Each begins at a random time within this.
    pub spread: Option<Time>,
    /// So many begin together (`incast`), and the next `every` so much later.
    pub together: Option<u32>,
    /// See `together`; the period of `rotating-incast`; the mean time between two `requests` of a client.
    pub every: Option<Time>,
    /// How many servers of a rack answer one of `requests`.
    pub fan: Option<u32>,
    /// How many messages a sender of `closed-loop` sends.
    pub messages: Option<u32>,
    /// From the end of a message of `closed-loop` to the next one's beginning.
    pub think: Option<Time>,
    /// How large a message is.
    pub size: Option<Size>,
    /// What each sender offers on average.
    pub rate: Option<Rate>,
    /// Each message of `uniform-random` or `closed-loop` has a connection of its own, with its first window.
    #[serde(default)]
    pub fresh: bool,
    /// A sender of `uniform-random` has only so many receivers, drawn once; `fresh` goes before it.
    pub partners: Option<u32>,
    /// How much of the capacity is offered; at most 1.
    pub load: Option<Part>,
    /// The published distribution of sizes.
    pub sizes: Option<String>,
    /// To whom `poisson-flows` go; other-racks.
    pub destinations: Option<DestinationSpec>,
    /// The flows take the uplink that the first flow of this traffic takes.
    pub share_uplink_of: Option<String>,
}

impl TrafficSpec {
    /// Whether it has no end of its own: its rates are measured, not its latencies.
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

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficKind {
    /// Flows that run from one time to another: from, to, count, start, until, spread.
    LongFlows,
    /// Long flows of which each phase says how many run: from, to, count, spread.
    Phased,
    /// Many to one: from, to, count, size, start, spread, together, every. Without a size they are long flows.
    Incast,
    /// Many to one, and the one advances: from, to, count, size, every, start, until.
    RotatingIncast,
    /// Messages of one size to hosts drawn from a group: from, to, count, size, rate, fresh, partners, start, until.
    UniformRandom,
    /// Flows of a distribution at a load, from every host: load, sizes, rate, destinations, start, until. The load is that of `rate`
    /// per host, or of its link.
    PoissonFlows,
    /// Files that several servers of another rack send to a client at once: from (the clients; all hosts), fan, size (of the file), every,
    /// start, until.
    Requests,
    /// One message after the other, each when the one before is acknowledged: from, to, count, size, messages, think, fresh, spread,
    /// start.
    ClosedLoop,
    /// Each host to one other, drawn: from, count, size, start. Without a size they are long flows.
    Permutation,
}

/// To whom `poisson-flows` go; each host there is as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DestinationSpec {
    /// Hosts of other racks: all of the load crosses the uplinks.
    OtherRacks,
    /// All other hosts, those of the same rack among them (HPCC's generator).
    OtherHosts,
    /// The same rack and those with higher numbers (PowerTCP's artifact).
    SameAndLaterRacks,
}

/// A part of a run that is measured by itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// What it is called.
    pub name: String,
    /// When it begins; it ends where the next begins.
    pub at: Time,
    /// How many flows of each `phased` traffic run.
    #[serde(default)]
    pub flows: BTreeMap<String, u32>,
}
