//! The typed contents of a scenario file, before names and defaults are resolved.
//!
//! Every quantity is a string with a unit. An unknown key is an error that reports its line. The parser, the editor
//! schema and the reference page are all derived from the types in this module.

mod cell;
mod claim;
mod claim_error;
mod edit;
mod error;
mod file_error;
mod key_path;
mod names;
mod network;
mod nodes;
mod reader;
mod schema;
mod select;
mod suggestion;
mod switches;
mod text;
mod traffic;

pub use cell::{Cell, Label, read_cells};
pub use claim_error::{ClaimError, FormProblem};
pub use edit::{count_cells, syntax_error_position, with_laws, with_sweep_value};
pub use error::{GroupedDigits, ParameterOwner, ScenarioError, SpecError, SpecErrorKind, Subject};
pub use file_error::{FileError, FileErrorKind};
pub use key_path::{KeyPath, Segment};
pub use names::{host_name, switch_name};
pub use nodes::select_nodes;
pub use schema::schema;
pub use select::{QueuePosition, SelectionError, select_hosts, select_queue};
pub use suggestion::Suggestion;
pub use switches::select_switches;
pub use text::{HostTime, OneOrMore, Rate, Ratio, Scalar, Scalars, Size, Time, UnitText, WithUnit};

pub use claim::{ClaimSpec, Comparison, FigureKind, FigureSpec};
pub use network::{
    CreditsSpec, EchoSpec, GenerationSpec, LinkChangeSpec, LinkEventSpec, LinkImpairmentSpec, LinkSpec,
    MarkDirectionSpec, PathFilterSpec, PfcSpec, PlbSpec, PolicySpec, SlowLinkSpec, StampSpec, SwitchSpec,
    TelemetryOffSpec, TopologyFormatSpec, TopologySpec, TransportSpec, TrimSpec,
};
pub use traffic::{DestinationSpec, FlowFormatSpec, PhaseSpec, StartUnitSpec, TrafficKind, TrafficSpec};

use core::fmt;
use poseidon_types::{Nanos, Picos};
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// An experiment: what to run, what to measure and what the paper claims.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// A one-line title.
    pub title: String,
    /// The paper and the figure that the scenario reproduces.
    pub source: String,
    /// Notes on what the source leaves unspecified and what this scenario assumes instead.
    #[serde(default)]
    pub about: String,
    /// The time at which measurement ends.
    #[serde(default)]
    pub stop: Time,
    /// How long a run may continue after `stop` so that earlier messages can finish. Traffic continues during this
    /// time, but messages that start during the drain do not count. The run ends as soon as all earlier messages have
    /// finished.
    #[serde(default)]
    pub drain: Time,
    /// The number of seeds per cell; at least 1.
    #[serde(default = "default_seeds")]
    pub seeds: u32,
    /// The congestion control law of all connections: a name from `laws` or a built-in law. A sweep named `law`
    /// overrides this key.
    #[serde(default = "default_law")]
    pub law: String,
    /// Laws with non-default parameters.
    #[serde(default)]
    pub laws: BTreeMap<String, LawSpec>,
    /// Hosts, switches and links.
    pub topology: Option<TopologySpec>,
    /// Switch settings.
    #[serde(default)]
    pub switch: SwitchSpec,
    /// Generations of switches that differ from `switch`, each with a name of your choice.
    #[serde(default)]
    pub generation: BTreeMap<String, GenerationSpec>,
    /// Link failures, recoveries, and changes of rate and delay during the run.
    #[serde(default)]
    pub link_change: Vec<LinkChangeSpec>,
    /// Links that lose, delay or reorder packets.
    #[serde(default)]
    pub impairment: Vec<LinkImpairmentSpec>,
    /// Links that are slower than the topology states.
    #[serde(default)]
    pub slow_link: Vec<SlowLinkSpec>,
    /// Host transport settings.
    #[serde(default)]
    pub transport: TransportSpec,
    /// The traffic patterns.
    #[serde(default)]
    pub traffic: Vec<TrafficSpec>,
    /// Parts of a run that are measured separately. By default, the whole run is one phase.
    #[serde(default)]
    pub phase: Vec<PhaseSpec>,
    /// What to measure.
    #[serde(default)]
    pub observe: ObserveSpec,
    /// A closed-form or fluid model to evaluate instead of running a simulation.
    pub analytic: Option<Analytic>,
    /// Why this scenario does not run. Set this key if the authors have withdrawn this part of their paper.
    pub withdrawn: Option<String>,
    /// The parameters that vary between cells. Each parameter is a list of values, or a list of tables with a `name`, a
    /// `set` of keys to override and optional `$variables`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: toml::Table,
    /// Settings for `--quick` runs.
    #[serde(default)]
    pub quick: QuickSpec,
    /// The claims to judge.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
    /// The figures to draw.
    #[serde(default)]
    pub figure: Vec<FigureSpec>,
}

fn default_seeds() -> u32 {
    1
}

fn default_law() -> String {
    "poseidon".into()
}

/// A law with custom parameters.
#[derive(Clone, Debug, JsonSchema)]
pub struct LawSpec {
    /// The built-in law to start from. Not used together with `controller`.
    #[schemars(with = "Option<String>")]
    pub base: String,
    /// A real transport stack that runs the connections of this law, such as `quinn`. By default, connections run in
    /// the transport of the simulator or of Linux.
    pub stack: Option<String>,
    /// The stack's own congestion controller, which replaces the law, such as `cubic`.
    pub controller: Option<String>,
    /// A named set of parameter values to start from.
    pub preset: Option<String>,
    /// Parameter values, keyed by name. `poseidon laws` lists the names.
    #[schemars(flatten)]
    pub parameters: BTreeMap<String, Scalar>,
}

/// The law in a plan for connections that a stack's own controller controls. Nothing uses it.
const UNUSED_LAW: &str = "fixed";

// Implemented by hand because errors lose their key under `serde(flatten)`.
impl<'de> Deserialize<'de> for LawSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LawSpecVisitor;
        impl<'de> Visitor<'de> for LawSpecVisitor {
            type Value = LawSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with a base law and its parameters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<LawSpec, A::Error> {
                let (mut base, mut preset, mut parameters) = (None, None, BTreeMap::new());
                let (mut stack, mut controller) = (None, None);
                while let Some(key) = table.next_key::<String>()? {
                    match key.as_str() {
                        "base" => base = Some(table.next_value()?),
                        "stack" => stack = Some(table.next_value()?),
                        "controller" => controller = Some(table.next_value()?),
                        "preset" => preset = Some(table.next_value()?),
                        _ => drop(parameters.insert(key, table.next_value()?)),
                    }
                }
                let base = match (base, &controller) {
                    (Some(_), Some(_)) => {
                        return Err(A::Error::custom(
                            "a controller of the stack replaces the law; remove base or controller",
                        ));
                    }
                    (Some(base), None) => base,
                    (None, Some(_)) => UNUSED_LAW.to_owned(),
                    (None, None) => return Err(A::Error::missing_field("base")),
                };
                Ok(LawSpec { base, stack, controller, preset, parameters })
            }
        }
        deserializer.deserialize_map(LawSpecVisitor)
    }
}

/// What to measure in a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ObserveSpec {
    /// The interval between samples of queues and connections (default: 50 us).
    pub sample: Time,
    /// The interval over which rates are averaged, both for their spread and for time series; must be a multiple of
    /// `sample` (default: 1 ms).
    pub bin: Time,
    /// The fraction of each phase, from its start, that is not measured (default: 0.5).
    pub settle: f64,
    /// Messages that start before this time do not count (default: 0).
    pub messages_from: Time,
    /// The traffic patterns whose rates are measured; by default, all long flows. For message traffic, this key
    /// measures the fairness among messages.
    pub rates: Option<Vec<String>>,
    /// The traffic patterns whose law decisions are logged on every ACK: RTTs, congestion signals and window
    /// reductions.
    pub decisions: Vec<String>,
    /// The queues to watch, each with a name of your choice: `"last hop of victim"`, `"hop 1 of victim"`, `"circuit of
    /// victim"`.
    pub queues: BTreeMap<String, String>,
    /// The switches whose buffers are measured, each with a name of your choice: `"rack[0-7]"`, `["agg0", "core[0-3]"]`.
    /// Only the largest sample of each `bin` counts.
    pub buffers: BTreeMap<String, OneOrMore>,
    /// The switches whose links are measured, each with a name of your choice: `"leaf[0-7]"`. Counts the bytes that the
    /// switches send on each link.
    pub links: BTreeMap<String, OneOrMore>,
    /// Whether to measure the time for which PFC pauses ports, and deadlocks of flow control (default: false).
    pub pauses: bool,
    /// Message classes by size, each with a name of your choice. Metric names begin with the class name.
    pub classes: BTreeMap<String, ClassSpec>,
}

/// A class of messages, selected by size.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassSpec {
    /// The traffic patterns that the messages belong to.
    pub of: OneOrMore,
    /// The minimum size, inclusive.
    #[serde(default)]
    pub from: Size,
    /// The maximum size, exclusive; no maximum by default.
    pub below: Option<Size>,
}

impl Default for ObserveSpec {
    fn default() -> Self {
        let micros = |micros: u64| WithUnit(Picos::from_nanos(Nanos::from_micros(micros)));
        Self {
            sample: micros(50),
            bin: micros(1_000),
            settle: 0.5,
            messages_from: Time::default(),
            rates: None,
            decisions: Vec::new(),
            queues: BTreeMap::new(),
            buffers: BTreeMap::new(),
            links: BTreeMap::new(),
            pauses: false,
            classes: BTreeMap::new(),
        }
    }
}

/// A closed-form or fluid model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Analytic {
    /// Poseidon's fig. 7a: a flow that starts at 1 Gbps and observes the delay of a 50 Gbps fair share, compared
    /// with a flow that adds 1 Gbps per round trip.
    FairRamp,
    /// Poseidon's fig. 7b: the target delay as a function of the rate, compared with an inverse square root that
    /// matches it at both ends.
    TargetCurve,
    /// PowerTCP's fig. 2a: how laws based on voltage, current and power react to the slope of the queue.
    ReactionBySlope,
    /// PowerTCP's fig. 2b: how the same laws react to the length of the queue.
    ReactionByQueue,
    /// PowerTCP's fig. 3a: trajectories of window and queue from many starting points, for laws based on queue length
    /// and on delay.
    PhaseVoltage,
    /// PowerTCP's fig. 3b: the same trajectories for a law based on the RTT gradient.
    PhaseGradient,
    /// PowerTCP's fig. 3c: the same trajectories for a law based on power.
    PhasePower,
    /// VAI + SF's fig. 4: two flows that decrease every 30 ACKs, compared with two flows that decrease once per round
    /// trip.
    SamplingDecrease,
    /// RPM's Lemma 1: the largest stable gain with forward and with reverse marking, compared with the printed lemma.
    ReverseStability,
}

/// Settings for `--quick` runs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct QuickSpec {
    /// The number of seeds per cell; at least 1.
    pub seeds: Option<u32>,
    /// An earlier `stop`.
    pub stop: Option<Time>,
    /// A shorter `drain`.
    pub drain: Option<Time>,
    /// The names of the values to keep in each sweep.
    pub sweep: BTreeMap<String, Vec<Scalar>>,
    /// Why a quick run skips this scenario.
    pub skip: Option<String>,
}
