//! Scenarios: what a file says, typed, before anything is worked out.
//!
//! Every quantity has its unit in the text and every key that is not known is refused with its line. What a key may be stands here
//! once: the reader, the schema for editors and the reference page come from these types.

mod cell;
mod claim;
mod error;
mod network;
mod schema;
mod select;
mod text;
mod traffic;

pub use cell::{Cell, Label, cells};
pub use error::ScenarioError;
pub(crate) use error::{advice, grouped, key_line, place};
pub use schema::schema;
pub use select::{Place, hosts, queue, racks};
pub use text::{HostTime, OneOrMore, Part, Rate, Scalar, Scalars, Size, Text, Time, Written};

pub use claim::{As, ClaimSpec, FigureKind, FigureSpec};
pub use network::{
    EchoSpec, LinkSpec, MarksGo, PfcSpec, PlbSpec, PolicySpec, SilenceSpec, StampSpec, SwitchSpec,
    TopologySpec, TransportSpec,
};
pub use traffic::{DestinationSpec, PhaseSpec, TrafficKind, TrafficSpec};

use poseidon_types::{Nanos, Picos};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An experiment: what runs, what is measured, what it should show.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// What it shows, in a line.
    pub title: String,
    /// Where it comes from: paper and figure.
    pub source: String,
    /// What the source leaves open and what was chosen, in plain words.
    #[serde(default)]
    pub about: String,
    /// When a run ends, or its drain begins.
    #[serde(default)]
    pub stop: Time,
    /// How long a run goes on at most after `stop`, with the same traffic, so that messages that began before can finish; it ends as soon
    /// as they all have. Nothing that begins in it is counted.
    #[serde(default)]
    pub drain: Time,
    /// How many seeds each cell is run with; at least 1.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The law that connections run, by its name in `laws` or in the table of laws. A sweep named `law` sets it.
    #[serde(default = "poseidon")]
    pub law: String,
    /// Laws with other values than their defaults.
    #[serde(default)]
    pub laws: BTreeMap<String, LawSpec>,
    /// Hosts, switches and links.
    pub topology: Option<TopologySpec>,
    /// What switches do.
    #[serde(default)]
    pub switch: SwitchSpec,
    /// What hosts do around a law.
    #[serde(default)]
    pub transport: TransportSpec,
    /// What is sent.
    #[serde(default)]
    pub traffic: Vec<TrafficSpec>,
    /// Parts of a run that are measured one by one; without any, the run is one.
    #[serde(default)]
    pub phase: Vec<PhaseSpec>,
    /// What is written down.
    #[serde(default)]
    pub observe: ObserveSpec,
    /// A closed form instead of a run.
    pub analytic: Option<Analytic>,
    /// Why nothing is run: for an entry of a paper that its authors no longer stand by.
    pub withdrawn: Option<String>,
    /// What varies from cell to cell: lists of values, or of tables with a `name`, a `set` of keys and any `$variables`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: toml::Table,
    /// What `--quick` cuts.
    #[serde(default)]
    pub quick: QuickSpec,
    /// What it should show.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
    /// What is drawn.
    #[serde(default)]
    pub figure: Vec<FigureSpec>,
}

fn one() -> u32 {
    1
}

fn poseidon() -> String {
    "poseidon".into()
}

/// A law with values of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct LawSpec {
    /// The law it is.
    pub base: String,
    /// A named set of values to start from.
    pub preset: Option<String>,
    /// Its parameters, by the names that `poseidon laws` lists.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Scalar>,
}

/// What is written down in a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ObserveSpec {
    /// How often queues and connections are looked at; 50 us.
    pub sample: Time,
    /// What rates are averaged over, for their spread and for series: a multiple of `sample`; 1 ms.
    pub bin: Time,
    /// How much of the beginning of each phase is not measured, as a part of it; 0.5.
    pub settle: f64,
    /// Messages that start before this are not counted; 0.
    pub messages_from: Time,
    /// Traffic whose rates are looked at; all long flows where it is not given. Of messages, how fair they are to each other.
    pub rates: Option<Vec<String>>,
    /// Traffic whose law is looked at ACK by ACK: round trips, signals, cuts.
    pub decisions: Vec<String>,
    /// Queues by a name of your own: `"last hop of victim"`, `"hop 1 of victim"`, `"circuit of victim"`.
    pub queues: BTreeMap<String, String>,
    /// Switches of racks by a name of your own, whose whole buffers are looked at: `"rack[0-7]"`. The largest sample of each `bin` counts.
    pub buffers: BTreeMap<String, OneOrMore>,
    /// Messages by their size, by a name of your own: metrics of messages begin with it.
    pub classes: BTreeMap<String, ClassSpec>,
}

/// Messages of some sizes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassSpec {
    /// The traffic they are of.
    pub of: OneOrMore,
    /// Those of at least this size.
    #[serde(default)]
    pub from: Size,
    /// Those below this size.
    pub below: Option<Size>,
}

impl Default for ObserveSpec {
    fn default() -> Self {
        let us = |us: u64| Text(Picos::from_nanos(Nanos::from_micros(us)));
        Self {
            sample: us(50),
            bin: us(1_000),
            settle: 0.5,
            messages_from: Time::default(),
            rates: None,
            decisions: Vec::new(),
            queues: BTreeMap::new(),
            buffers: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }
}

/// A closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Analytic {
    /// Fig. 7a: a flow that sees exactly the delay of a fair share of 50 Gbps, from 1 Gbps on, beside one that adds 1 Gbps per round trip.
    FairRamp,
    /// Fig. 7b: the target delay against the rate, beside the inverse square root matched at both ends.
    TargetCurve,
    /// PowerTCP's fig. 2a: how voltage, current and power react to a queue that grows or shrinks, by how fast.
    ReactionBySlope,
    /// PowerTCP's fig. 2b: the same by how long the queue is.
    ReactionByQueue,
    /// PowerTCP's fig. 3a: where queue length and delay lead window and queue to, from many starts.
    PhaseVoltage,
    /// PowerTCP's fig. 3b: the same of the RTT gradient.
    PhaseGradient,
    /// PowerTCP's fig. 3c: the same of power.
    PhasePower,
    /// VAI + SF's fig. 4: two flows that decrease every 30 ACKs beside two that decrease once per round trip.
    SamplingDecrease,
    /// RPM's Lemma 1: the largest stable gain of marks, forward and reverse, beside what is printed.
    ReverseStability,
}

/// What `--quick` cuts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct QuickSpec {
    /// So many seeds; at least 1.
    pub seeds: Option<u32>,
    /// A shorter run.
    pub stop: Option<Time>,
    /// A shorter drain.
    pub drain: Option<Time>,
    /// Fewer values: of each sweep, the names of those that stay.
    pub sweep: BTreeMap<String, Vec<Scalar>>,
    /// Not at all, for this reason.
    pub skip: Option<String>,
}
