//! Errors in scenarios. Each message is one line that states the position, the cause and a remedy.

use super::claim_error::ClaimError;
use super::file_error::FileError;
use super::key_path::{KeyPath, Segment, line_of_offset};
use super::select::SelectionError;
use super::suggestion::Suggestion;
use crate::expression::ExpressionError;
use core::fmt;
use poseidon_laws::BuildError;
use poseidon_laws::params::ParamError;
use poseidon_plan::PlanError;
use poseidon_plan::patterns::PatternError;
use poseidon_plan::switch::PriorityTooHigh;
use poseidon_plan::topology::EdgeError;
use poseidon_types::{Fraction, Signals};

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioError {
    /// The file name, as given by the user.
    pub file: String,
    /// The one-based line number, if the error refers to a line.
    pub line: Option<usize>,
    /// The cell in which the error occurs, if the scenario has several cells.
    pub cell: Option<String>,
    /// What is wrong, and which key is affected.
    pub error: SpecError,
}

impl ScenarioError {
    /// Creates an error and finds its line in the scenario text.
    pub(crate) fn new(file: &str, text: &str, error: SpecError) -> Self {
        let line = error.key_path.line(text);
        Self { file: file.to_owned(), line, cell: None, error }
    }

    /// Creates an error with a known line.
    pub(super) fn on_line(file: &str, line: usize, error: SpecError) -> Self {
        Self { file: file.to_owned(), line: Some(line), cell: None, error }
    }

    /// Sets the cell in which the error occurs.
    pub(crate) fn in_cell(self, cell: String) -> Self {
        Self { cell: Some(cell), ..self }
    }

    /// Creates the error for a file that is not UTF-8, with the line of the first invalid byte.
    pub(crate) fn not_utf8(file: &str, bytes: &[u8], error: &core::str::Utf8Error) -> Self {
        let byte = error.valid_up_to();
        let line = 1 + bytes[..byte].iter().filter(|byte| **byte == b'\n').count();
        Self::on_line(file, line, SpecErrorKind::NotUtf8 { byte }.at_root())
    }

    /// Creates the error for a file that is not valid TOML.
    pub(super) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().lines().next().unwrap_or_default().to_owned();
        let line = error.span().map(|span| line_of_offset(text, span.start));
        let error = SpecErrorKind::Syntax { message }.at_root();
        Self { file: file.to_owned(), line, cell: None, error }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.error)?,
            None => write!(f, "{}: {}", self.file, self.error)?,
        }
        match &self.cell {
            Some(cell) => write!(f, " (in the cell {cell})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// An error in the content of a scenario, before its file and line are known.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecError {
    /// The key that caused the error.
    pub key_path: KeyPath,
    /// The part of the scenario that the message mentions first.
    pub subject: Option<Subject>,
    /// What is wrong.
    pub kind: SpecErrorKind,
}

impl SpecError {
    /// Prepends a key or an index to the key path.
    #[must_use]
    pub(super) fn prepend_key(self, segment: impl Into<Segment>) -> Self {
        self.prepend_path(KeyPath::ROOT.join(segment))
    }

    /// Prepends the path of an enclosing table to the key path.
    #[must_use]
    pub(crate) fn prepend_path(self, outer: KeyPath) -> Self {
        Self { key_path: self.key_path.prepend(outer), ..self }
    }

    /// Sets the part of the scenario that the error is about.
    #[must_use]
    pub(crate) fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(subject) => write!(f, "{subject}: {}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl core::error::Error for SpecError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.kind)
    }
}

/// The part of a scenario that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A traffic pattern, identified by name.
    Traffic(String),
    /// A phase, identified by name.
    Phase(String),
    /// A claim, identified by its text.
    Claim(String),
    /// A figure, identified by its title.
    Figure(String),
    /// A sweep value.
    SweepValue {
        /// The sweep name.
        sweep: String,
        /// The value's name.
        value: String,
    },
    /// A scenario key.
    Key(KeyPath),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traffic(name) => write!(f, "traffic {name:?}"),
            Self::Phase(name) => write!(f, "phase {name:?}"),
            Self::Claim(statement) => write!(f, "claim {statement:?}"),
            Self::Figure(title) => write!(f, "figure {title:?}"),
            Self::SweepValue { sweep, value } => write!(f, "{value:?} of sweep {sweep:?}"),
            Self::Key(path) => path.fmt(f),
        }
    }
}

/// The law or policy that a parameter belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterOwner {
    /// A law, identified by its name in the scenario.
    Law(String),
    /// A switch policy, identified by its kind and name.
    Policy(&'static str, String),
}

impl fmt::Display for ParameterOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(name) => write!(f, "law {name:?}"),
            Self::Policy(kind, name) => write!(f, "{kind} policy {name:?}"),
        }
    }
}

/// The cause of a scenario error and its remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum SpecErrorKind {
    // The file.
    #[error("byte {byte} is not valid UTF-8; a scenario is a TOML file")]
    NotUtf8 { byte: usize },
    #[error("{message}")]
    Syntax { message: String },

    // Keys and values.
    #[error("there is no key {key:?} here; {suggestion}")]
    UnknownKey { key: String, suggestion: Suggestion },
    #[error("{key} is missing")]
    MissingKey { key: &'static str },
    #[error("{value:?} is not a valid value here; {suggestion}")]
    UnknownValue { value: String, suggestion: Suggestion },
    #[error("invalid type: {found}, expected {expected}")]
    WrongType { found: String, expected: String },
    #[error("invalid value: {found}, expected {expected}")]
    InvalidValue { found: String, expected: String },
    #[error("{message}")]
    InvalidText { message: String },

    // Sweeps, quick runs, seeds.
    #[error("sweep must be a table of lists: [sweep] law = [\"poseidon\", \"swift\"]")]
    SweepNotATable,
    #[error("sweep {sweep:?} must be a list of values: {sweep} = [1, 2, 4]")]
    SweepNotAList { sweep: String },
    #[error("a sweep cannot be called \"phase\"; give it another name")]
    SweepOfPhases,
    #[error("sweep {sweep:?} contains a value twice; remove one of them")]
    RepeatedSweepValue { sweep: String },
    #[error("sweep {sweep:?} has no values; add at least one")]
    EmptySweep { sweep: String },
    #[error("{value} is not a law name; a sweep of laws is a list of quoted names")]
    LawNotText { value: String },
    #[error("a value of sweep {sweep:?} has no name; write name = \"...\" in its table")]
    UnnamedSweepValue { sweep: String },
    #[error("set must be a table of keys")]
    SetNotATable,
    #[error("{key:?} is not a table, so its keys cannot be set; use a $variable there instead")]
    NotATable { key: String },
    #[error(
        "sweep {sweep:?} with {values} values and the other sweeps make {cells} cells; a study has at most {limit}: \
         shorten a sweep or split the study"
    )]
    TooManyCells { sweep: String, values: usize, cells: GroupedDigits, limit: GroupedDigits },
    #[error("there is no sweep {sweep:?}; {suggestion}")]
    UnknownSweep { sweep: String, suggestion: Suggestion },
    #[error("{sweep:?} has no value {value:?}; {suggestion}")]
    UnknownQuickValue { sweep: String, value: String, suggestion: Suggestion },
    #[error("there is no variable ${variable}; {suggestion}")]
    UnknownVariable { variable: String, suggestion: Suggestion },
    #[error("{key} is 0, so there would be no runs; set it to 1 or more")]
    NoSeeds { key: &'static str },
    #[error("{key} asks for {runs} runs of {cells} cells; a study has at most {limit}: lower {key}")]
    TooManyRuns { key: &'static str, runs: GroupedDigits, cells: usize, limit: GroupedDigits },
    #[error("the run has no end; set stop, such as stop = \"10 ms\"")]
    NoStop,
    #[error("stop and drain together are longer than a run can be; shorten drain")]
    StopTooLate,

    // Laws and policies.
    #[error("there is no law {law:?}; {suggestion}")]
    UnknownLaw { law: String, suggestion: Suggestion },
    #[error("law {law:?} has no preset {preset:?}; {suggestion}")]
    UnknownPreset { law: String, preset: String, suggestion: Suggestion },
    #[error("there is no stack {stack:?}; {suggestion}")]
    UnknownStack { stack: String, suggestion: Suggestion },
    #[error("stack {stack:?} has no controller {controller:?}; {suggestion}")]
    UnknownController { stack: &'static str, controller: String, suggestion: Suggestion },
    #[error("controller is a congestion controller of a stack; set stack as well, such as stack = \"quinn\"")]
    ControllerWithoutStack,
    #[error("stack {stack:?} cannot run our laws; set controller to one of its own: {controllers}")]
    StackWithoutLaws { stack: &'static str, controllers: String },
    #[error("there is no {kind} policy {policy:?}; {suggestion}")]
    UnknownPolicy { kind: &'static str, policy: String, suggestion: Suggestion },
    #[error("{owner} has no parameter {parameter:?}; {suggestion}")]
    UnknownParameter { owner: ParameterOwner, parameter: String, suggestion: Suggestion },
    #[error("{owner}: {error}")]
    Parameter { owner: ParameterOwner, error: ParamError },
    #[error("law {law:?} needs marks, but switch.mark is off; set its policy to one of {policies}")]
    MarksOff { law: String, policies: String },
    #[error("law {law:?} needs {missing}, which the switches do not write; set switch.stamp to \"auto\"")]
    TelemetryOff { law: String, missing: Signals },
    #[error("law {law:?} needs {missing}, which this backend does not measure; choose another law")]
    MissingSignals { law: String, missing: Signals },
    #[error(
        "one law needs per-hop records and another needs the largest hop delay, but switches write only one of them; \
         run the laws in separate cells"
    )]
    ConflictingTelemetry,
    #[error(transparent)]
    Law(BuildError),

    // Topology and switches.
    #[error("there is no [topology]; add one with a kind")]
    NoTopology,
    #[error(
        "topology.ports is {ports}; a fat tree needs switches with an even number of ports, such as {}",
        .ports.saturating_add(1).next_multiple_of(2)
    )]
    OddPorts { ports: u32 },
    #[error(transparent)]
    File(FileError),
    #[error("topology: {0}")]
    Links(EdgeError),
    #[error("topology: {0}")]
    Topology(&'static str),
    #[error(
        "one of these switches never writes telemetry (switch.stamping, generation.stamp); remove it here"
    )]
    TelemetryAlwaysOff,
    #[error("switch {switch} is also in generation {other:?}; a switch belongs to at most one generation")]
    TwoGenerations { switch: u32, other: String },
    #[error("PFC replaces buffer policies; leave out this policy or switch.pfc")]
    BufferWithPfc,
    #[error(
        "the rates of this topology cannot be changed; remove rate, or use a tiered topology or a list of links"
    )]
    FixedRates,
    #[error(
        "a network with different link rates needs a route table: at most {switches} switches and {hosts} hosts; \
         make the network smaller or remove rate"
    )]
    TooLargeForRates { switches: GroupedDigits, hosts: GroupedDigits },
    #[error("set exactly one of event, rate and delay")]
    LinkEventOrRate,
    #[error("set either to or port")]
    LinkToOrPort,
    #[error("{text:?} names {count} {nodes}; name exactly one")]
    NotOneNode { text: String, nodes: &'static str, count: usize },
    #[error("{switch:?} has {links} links to {to:?}; {remedy}")]
    NotOneLink { switch: String, to: String, links: usize, remedy: &'static str },
    #[error("there is no port {port} on {switch:?}, which has {ports} ports to hosts and switches")]
    UnknownPort { switch: String, port: u32, ports: usize },
    #[error(transparent)]
    Selection(SelectionError),
    #[error(transparent)]
    Plan(PlanError),
    #[error("{0}")]
    InvalidInPlan(&'static str),

    // Traffic.
    #[error("two traffic patterns are named {traffic:?}; choose unique names")]
    RepeatedTraffic { traffic: String },
    #[error("there is no traffic {traffic:?}; {suggestion}")]
    UnknownTraffic { traffic: String, suggestion: Suggestion },
    #[error("{key}: {error}")]
    Hosts { key: &'static str, error: SelectionError },
    #[error("count is {count}, but from names {hosts} hosts")]
    CountTooLarge { count: u32, hosts: usize },
    #[error("there are {senders} senders but {receivers} receivers; name one receiver, or one per sender")]
    TooFewReceivers { senders: usize, receivers: usize },
    #[error("to must name exactly one host")]
    SeveralTargets,
    #[error("phase {phase:?} asks for {flows} flows, but there are only {available}")]
    TooManyPhaseFlows { phase: String, flows: usize, available: usize },
    #[error("there is no size distribution {sizes:?}; {suggestion}")]
    UnknownSizes { sizes: String, suggestion: Suggestion },
    #[error(
        "load is {load}: hosts would offer more than their capacity, and queues would grow until the end; \
         write at most 1, or use an incast to overload a queue"
    )]
    LoadAboveOne { load: Fraction },
    #[error(
        "{key} leads to about {messages} messages; a plan has at most {limit}, which take about 1 GB: {remedy}"
    )]
    TooManyMessages { key: &'static str, messages: GroupedDigits, limit: GroupedDigits, remedy: &'static str },
    #[error("{key} has no effect on this kind of traffic; its keys are {}", .used.join(", "))]
    UnusedKey { key: &'static str, used: &'static [&'static str] },
    #[error("every needs together, the number of senders that start at the same time")]
    EveryWithoutTogether,
    #[error("share-uplink-of: there is no traffic {traffic:?}")]
    UnknownUplinkTraffic { traffic: String },
    #[error("none of its paths shares the uplink of {traffic:?}; place both in one rack")]
    NoSharedUplink { traffic: String },
    #[error("{0}")]
    Priority(PriorityTooHigh),
    #[error(
        "the file names link {link} of {tier} switch {switch}, but the network has no such link that leads up; \
         failures need the tiers of a Clos network"
    )]
    UnknownFailure { tier: String, switch: u32, link: u32 },
    #[error("to and destinations both choose the receivers; remove one of them")]
    ToWithDestinations,
    #[error("there is no collective algorithm {algorithm:?}; {suggestion}")]
    UnknownAlgorithm { algorithm: String, suggestion: Suggestion },
    #[error(transparent)]
    Pattern(PatternError),

    // Phases and observations.
    #[error("two phases are named {phase:?}; choose unique names")]
    RepeatedPhase { phase: String },
    #[error("phase {phase:?} starts after the next one; list phases in chronological order")]
    PhaseOrder { phase: String },
    #[error("flows lists {traffic:?}, whose kind is not phased; change its kind or remove it")]
    NotPhased { traffic: String },
    #[error("observe.settle is a fraction of a phase; it must be at least 0 and below 1")]
    SettleOutOfRange,
    #[error("observe: bin must be a multiple of sample, and sample must be above zero")]
    BinNotAMultiple,
    #[error("a traffic pattern has the same name; rename the class")]
    ClassNamedLikeTraffic,
    #[error("only a rotor network has circuits")]
    NoCircuits,
    #[error("there are only {hops} hops on that path")]
    TooFewHops { hops: usize },

    // Claims and figures.
    #[error("the scenario is withdrawn and does not run, so each claim needs a reason in not-comparable")]
    WithdrawnWithClaims,
    #[error(transparent)]
    Claim(ClaimError),
    #[error(transparent)]
    Expression(ExpressionError),
    #[error("{expression:?} contains no metric, so it is the same in every run")]
    NoMetric { expression: String },
    #[error("a figure of kind lines needs an x axis; set along to a sweep or \"phase\"")]
    LinesWithoutAxis,
    #[error("{sweep:?} has no value {value:?}; {suggestion}")]
    UnknownSweepValue { sweep: String, value: String, suggestion: Suggestion },
    #[error("{metric:?} is not a metric; add the name of its traffic or queue, such as \"victim.rate_gbps\"")]
    MetricWithoutOwner { metric: String },
    #[error("there is no metric {metric:?}; {suggestion}")]
    UnknownMetric { metric: String, suggestion: Suggestion },
    #[error("{metric:?}: there is no traffic, queue, buffer or class {owner:?}; {suggestion}")]
    UnknownMetricOwner { metric: String, owner: String, suggestion: Suggestion },
    #[error("{metric:?} is not measured: {name} exists only for {owners}")]
    MetricNotMeasured { metric: String, name: String, owners: &'static str },
    #[error("{metric:?} is not measured; add {owner:?} to observe.{list}")]
    NotObserved { metric: String, owner: String, list: &'static str },
    #[error("there is no {kind} {name:?}; {suggestion}")]
    UnknownName { kind: &'static str, name: String, suggestion: Suggestion },
}

impl SpecErrorKind {
    /// Creates an error about a key.
    pub(crate) fn at<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> SpecError {
        self.at_path(KeyPath::new(keys))
    }

    /// Creates an error about the key at a path.
    pub(crate) fn at_path(self, key_path: KeyPath) -> SpecError {
        SpecError { key_path, subject: None, kind: self }
    }

    /// Creates an error about the whole scenario, or about the reader's current value.
    pub(crate) fn at_root(self) -> SpecError {
        self.at_path(KeyPath::ROOT)
    }
}

/// A number that prints with commas between groups of three digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedDigits(pub u64);

impl From<usize> for GroupedDigits {
    fn from(number: usize) -> Self {
        Self(number as u64)
    }
}

impl fmt::Display for GroupedDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        let formatted = [0, 999, 1_000, 12_345, 1_000_000].map(|number| GroupedDigits(number).to_string());
        assert_eq!(formatted, ["0", "999", "1,000", "12,345", "1,000,000"]);
    }

    #[test]
    fn a_message_mentions_the_affected_part_of_the_scenario() {
        let error = SpecErrorKind::CountTooLarge { count: 9, hosts: 3 }.at(["count"]);
        let error =
            error.prepend_path(KeyPath::new(["traffic"]).join(1)).about(Subject::Traffic("red".into()));
        assert_eq!(error.key_path.to_string(), "traffic[1].count");
        let text = "[[traffic]]\nname = \"blue\"\n[[traffic]]\nname = \"red\"\ncount = 9\n";
        let error = ScenarioError::new("a.toml", text, error).in_cell("n=1".into());
        let message = "a.toml:5: traffic \"red\": count is 9, but from names 3 hosts (in the cell n=1)";
        assert_eq!(error.to_string(), message);
    }
}
