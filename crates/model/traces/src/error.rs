//! Errors of readers and writers.

use crate::flows::StartUnit;
use core::fmt;
use core::num::NonZeroU32;
use poseidon_plan::patterns::SizePointError;
use poseidon_plan::topology::EdgeError;
use poseidon_types::Picos;
use poseidon_types::text::UnitError;
use std::io;

/// The reason that a file was refused, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line number, starting at one.
    pub line: u64,
    /// The cause.
    pub kind: TraceErrorKind,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl core::error::Error for TraceError {}

/// The reason that a file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// The file cannot be read.
    Io(io::ErrorKind),
    /// A line is too long.
    LineTooLong {
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The file ends too early.
    FileEnds {
        /// The missing content.
        expected: &'static str,
    },
    /// A line has the wrong number of words.
    Syntax {
        /// The form of the line.
        expected: &'static str,
    },
    /// A word is not a valid number.
    Number {
        /// The name of the field.
        field: &'static str,
        /// The beginning of the word.
        text: String,
        /// What is wrong with it.
        problem: NumberProblem,
    },
    /// A word is not a valid quantity with a unit.
    Quantity {
        /// The name of the field.
        field: &'static str,
        /// The beginning of the word.
        text: String,
        /// What is wrong with it.
        error: UnitError,
    },
    /// A word is not known.
    UnknownWord {
        /// The beginning of the word.
        text: String,
        /// The known words.
        expected: &'static str,
    },
    /// A field is missing.
    Missing {
        /// The name of the field.
        field: &'static str,
    },
    /// A field, an id or a switch appears twice.
    Duplicate {
        /// The name of the item.
        item: &'static str,
    },
    /// The file has more items than the caller allows.
    TooMany {
        /// The kind of items, in the plural.
        items: &'static str,
        /// The maximum number.
        limit: usize,
    },
    /// The file has fewer or more items than it announces.
    Count {
        /// The kind of items, in the plural.
        items: &'static str,
        /// The announced number.
        announced: u64,
        /// The number found. If the file has more items than it announces, this is the first surplus number.
        actual: u64,
    },
    /// A flow is empty.
    EmptyFlow,
    /// A node sends to itself, or a link connects a node to itself.
    SameEnds {
        /// The node.
        node: u32,
    },
    /// A node number is too high.
    UnknownNode {
        /// The node.
        node: u32,
        /// The number of nodes.
        nodes: u32,
    },
    /// A flow uses a trigger that the file does not define.
    UndefinedTrigger {
        /// The trigger.
        trigger: NonZeroU32,
    },
    /// The file defines a trigger twice.
    DuplicateTrigger {
        /// The trigger.
        trigger: NonZeroU32,
    },
    /// The points do not form a size distribution.
    Sizes(SizePointError),
    /// An address does not belong to a node.
    Address {
        /// The beginning of the address.
        text: String,
    },
    /// The file describes a network that cannot be built.
    Network(NetworkProblem),
}

impl fmt::Display for TraceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file cannot be read: {error}; check the path and the disk"),
            Self::LineTooLong { limit } => {
                write!(f, "the line is longer than {limit} bytes; check that this is a text file")
            }
            Self::FileEnds { expected } => write!(f, "the file ends too early; add {expected}"),
            Self::Syntax { expected } => {
                write!(f, "the line has too few or too many words; write {expected}")
            }
            Self::Number { field, text, problem } => write!(f, "{field} {text:?} {problem}"),
            Self::Quantity { field, text, error } => write!(f, "{field} {text:?}: {error}"),
            Self::UnknownWord { text, expected } => write!(f, "{text:?} is unknown; write {expected}"),
            Self::Missing { field } => write!(f, "{field} is missing; add it"),
            Self::Duplicate { item } => write!(f, "{item} is given twice; keep one"),
            Self::TooMany { items, limit } => {
                write!(f, "the file has more than {limit} {items}; split or shorten the file")
            }
            Self::Count { items, announced, actual } => write!(
                f,
                "the header announces {announced} {items}, but the file has {}; correct the header",
                CountText { announced: *announced, actual: *actual }
            ),
            Self::EmptyFlow => f.write_str("the flow is empty; give it a size above zero"),
            Self::SameEnds { node } => write!(f, "both ends are node {node}; choose two nodes"),
            Self::UnknownNode { node, nodes } => {
                write!(
                    f,
                    "node {node} does not exist; nodes are numbered from 0 to {}",
                    nodes.saturating_sub(1)
                )
            }
            Self::UndefinedTrigger { trigger } => {
                write!(f, "trigger {trigger} is not defined; add \"trigger id {trigger} oneshot\"")
            }
            Self::DuplicateTrigger { trigger } => {
                write!(f, "trigger {trigger} is defined twice; keep one definition")
            }
            Self::Sizes(error) => write!(f, "{error}; correct the points"),
            Self::Address { text } => {
                write!(f, "{text:?} is not the address of a node; write 0bXXXX01, where XXXX is the node")
            }
            Self::Network(problem) => problem.fmt(f),
        }
    }
}

/// The number of items that a file has.
struct CountText {
    announced: u64,
    actual: u64,
}

impl fmt::Display for CountText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.actual > self.announced { f.write_str("more") } else { write!(f, "{}", self.actual) }
    }
}

/// What is wrong with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberProblem {
    /// The text is not an unsigned number.
    NotANumber,
    /// The number is too large.
    TooLarge,
    /// The number is zero.
    Zero,
    /// The number has too many decimals.
    Inexact,
}

impl fmt::Display for NumberProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "is not a number; write decimal digits",
            Self::TooLarge => "is too large; write a smaller number",
            Self::Zero => "is zero; write a number above zero",
            Self::Inexact => "has too many decimals; write fewer",
        })
    }
}

/// The reason that a described network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkProblem {
    /// A link has bit errors.
    BitErrors,
    /// A link has the rate zero.
    ZeroRate,
    /// A link has the delay zero.
    ZeroDelay,
    /// A link connects two hosts.
    HostToHost {
        /// One host.
        a: u32,
        /// The other host.
        b: u32,
    },
    /// A host has more than one link.
    TwoLinks {
        /// The host.
        node: u32,
    },
    /// A node has no link.
    NoLink {
        /// The node.
        node: u32,
    },
    /// Two nodes have more than one link between them.
    ParallelLinks {
        /// One node.
        a: u32,
        /// The other node.
        b: u32,
    },
    /// There are too few links to connect all nodes.
    TooFewLinks {
        /// The number of nodes.
        nodes: u32,
        /// The number of links.
        links: u64,
    },
    /// A switch cannot be reached from another switch.
    Disconnected {
        /// The switch that cannot be reached.
        node: u32,
        /// The first switch.
        from: u32,
    },
    /// The links do not form a network.
    Edges(EdgeError),
    /// The network is too large.
    TooLarge(&'static str),
    /// Two settings of a `.topo` file do not fit together.
    Mismatch {
        /// The setting that does not fit.
        setting: &'static str,
        /// The tier of the setting, or `None` in the header.
        tier: Option<u32>,
        /// The value in the file.
        value: u64,
        /// The rule for the value.
        rule: &'static str,
        /// The value that the rule refers to.
        required: u64,
    },
    /// A `.topo` file has a setting for links that lead up from the top tier.
    TopTier {
        /// The setting.
        setting: &'static str,
        /// The top tier.
        tier: u32,
    },
    /// A `.topo` file bundles several links into one.
    Bundle {
        /// The tier.
        tier: u32,
        /// The number of links in a bundle.
        links: u32,
    },
}

impl fmt::Display for NetworkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitErrors => f.write_str(
                "the error rate is not 0, but bit errors are not modelled; set the error rate to 0",
            ),
            Self::ZeroRate => f.write_str("the link has the rate 0; give it a rate above zero"),
            Self::ZeroDelay => f.write_str("the link has the delay 0; give it a delay above zero"),
            Self::HostToHost { a, b } => {
                write!(f, "the link connects the hosts {a} and {b}; put a switch between them")
            }
            Self::TwoLinks { node } => write!(f, "host {node} has two links; give each host exactly one"),
            Self::NoLink { node } => write!(f, "node {node} has no link; connect it or lower the node count"),
            Self::ParallelLinks { a, b } => write!(
                f,
                "nodes {a} and {b} have two links, of which ns-3 uses only one; keep one, with the rate of both"
            ),
            Self::TooFewLinks { nodes, links } => {
                write!(f, "{links} links cannot connect {nodes} nodes; correct the header")
            }
            Self::Disconnected { node, from } => write!(
                f,
                "switch {node} cannot be reached from switch {from}; add links between switches that connect them"
            ),
            Self::Edges(error) => error.fmt(f),
            Self::TooLarge(reason) => write!(f, "{reason}; describe a smaller network"),
            Self::Mismatch { setting, tier: Some(tier), value, rule, required } => {
                write!(
                    f,
                    "{setting} of tier {tier} is {value}, but it must be {rule} ({required}); change one"
                )
            }
            Self::Mismatch { setting, tier: None, value, rule, required } => {
                write!(f, "{setting} is {value}, but it must be {rule} ({required}); change one")
            }
            Self::TopTier { setting, tier } => write!(
                f,
                "{setting} has no meaning in tier {tier}, because no link leads up from the top tier; remove it"
            ),
            Self::Bundle { tier, links } => write!(
                f,
                "tier {tier} bundles {links} links; multiply its Downlink_speed_Gbps by {links}, divide its \
                 Radix_Down and the Radix_Up below it by {links}, and set Bundle to 1"
            ),
        }
    }
}

/// The reason that a file cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The index of the flow or row that the format cannot express. `None` if the cause is not a flow or row.
    pub item: Option<usize>,
    /// The cause.
    pub kind: WriteErrorKind,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            // Users count from one.
            Some(index) => write!(f, "flow {}: {}", index + 1, self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl core::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self { item: None, kind: WriteErrorKind::Io(error.kind()) }
    }
}

/// The reason that a file cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// The output cannot be written.
    Io(io::ErrorKind),
    /// The format has no such property.
    Unsupported(Feature),
    /// The format needs a property that the flow does not have.
    Missing(Feature),
    /// The format cannot hold a number.
    TooLarge {
        /// The name of the field.
        field: &'static str,
        /// The number.
        value: u64,
        /// The largest number that the format can hold.
        max: u64,
    },
    /// The start is not a whole number of units.
    FractionalStart {
        /// The start.
        start: Picos,
        /// The unit.
        unit: StartUnit,
    },
    /// The flow starts before the previous flow, but the format needs flows in order.
    OutOfOrder,
    /// The size is zero.
    EmptyFlow,
    /// Both ends are the same node.
    SameEnds,
    /// A node number is not below the node count.
    UnknownNode,
    /// A flow uses a trigger that is not defined, or a trigger is defined twice.
    BadTrigger {
        /// The trigger.
        trigger: NonZeroU32,
    },
}

impl fmt::Display for WriteErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file cannot be written: {error}"),
            Self::Unsupported(feature) => {
                write!(f, "this format has no {feature}; remove it, or write a .cm file")
            }
            Self::Missing(feature) => write!(f, "this format needs a {feature}; set one"),
            Self::TooLarge { field, value, max } => {
                write!(f, "{field} {value} is too large for this format; at most {max} is possible")
            }
            Self::FractionalStart { start, unit } => {
                write!(f, "the start {start} is not a whole number of {unit}; choose a smaller unit")
            }
            Self::OutOfOrder => {
                f.write_str("it starts before the previous flow; sort the flows by their start")
            }
            Self::EmptyFlow => f.write_str("it is empty; give it a size above zero"),
            Self::SameEnds => f.write_str("both ends are the same node; choose two nodes"),
            Self::UnknownNode => {
                f.write_str("its node number is not below the node count; raise the node count")
            }
            Self::BadTrigger { trigger } => {
                write!(f, "trigger {trigger} is used but not defined, or it is defined twice; define it once")
            }
        }
    }
}

/// A property that not every format has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A trigger.
    Trigger,
    /// A flow id.
    Id,
    /// A message on a shared connection.
    Message,
    /// A priority.
    Priority,
    /// A failed link.
    Failure,
    /// A node count.
    NodeCount,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trigger => "trigger",
            Self::Id => "flow id",
            Self::Message => "shared connection",
            Self::Priority => "priority",
            Self::Failure => "failed link",
            Self::NodeCount => "node count",
        })
    }
}
