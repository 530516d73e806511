//! Why a pattern or a text that describes one is refused.

use core::fmt;
use poseidon_types::{Bytes, Picos};

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// It needs more hosts.
    TooFewHosts {
        /// At least.
        needed: usize,
        /// What it was given.
        given: usize,
    },
    /// A host would send to itself.
    ToItself(u32),
    /// A host is named twice.
    Twice(u32),
    /// A host is not of the topology.
    NoSuchHost(u32),
    /// A number must be above zero.
    Zero(&'static str),
    /// A size cannot be divided among so many.
    TooSmall {
        /// The size.
        size: Bytes,
        /// How many.
        parts: usize,
    },
    /// A rack has fewer hosts than a request asks.
    RackTooSmall {
        /// Its number.
        rack: u32,
        /// Its hosts.
        hosts: u32,
        /// How many answer.
        fan: u32,
    },
    /// There is only one rack.
    OneRack,
    /// It ends, or goes on, before it begins.
    Backwards {
        /// When it begins.
        from: Picos,
        /// When it ends.
        until: Picos,
    },
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewHosts { needed, given } => {
                write!(f, "{given} hosts are too few: give it at least {needed}")
            }
            Self::ToItself(host) => write!(f, "host {host} would send to itself: take it out of one list"),
            Self::Twice(host) => write!(f, "host {host} is named twice: name it once"),
            Self::NoSuchHost(host) => write!(f, "host {host} is not of the topology"),
            Self::Zero(what) => write!(f, "{what} must be above zero"),
            Self::TooSmall { size, parts } => {
                write!(f, "{size} cannot be divided among {parts}: each needs a byte")
            }
            Self::RackTooSmall { rack, hosts, fan } => {
                write!(f, "rack {rack} has {hosts} hosts, and {fan} are to answer: lower the fan")
            }
            Self::OneRack => f.write_str("there is no other rack: add one, or choose among all hosts"),
            Self::Backwards { from, until } => {
                write!(f, "it begins at {from} and ends at {until}: put the end behind the beginning")
            }
        }
    }
}

impl core::error::Error for PatternError {}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The number of its line, from one.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for TextError {}

/// The lines of a text that say something, with their numbers from one: `#` begins a comment.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or("").trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// Refuses a list that is shorter than `needed` or names a host twice.
pub(super) fn check_hosts(hosts: &[u32], needed: usize) -> Result<(), PatternError> {
    if hosts.len() < needed {
        return Err(PatternError::TooFewHosts { needed, given: hosts.len() });
    }
    let mut sorted = hosts.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PatternError::Twice(pair[0])),
        None => Ok(()),
    }
}

/// Refuses ends that are the same.
pub(super) fn check_ends(from: u32, to: u32) -> Result<(), PatternError> {
    if from == to { Err(PatternError::ToItself(from)) } else { Ok(()) }
}

/// Refuses what ends before it begins.
pub(super) fn check_span(from: Picos, until: Picos) -> Result<(), PatternError> {
    if from < until { Ok(()) } else { Err(PatternError::Backwards { from, until }) }
}

/// Refuses nothing where something is needed.
pub(super) fn check_above_zero(is_zero: bool, what: &'static str) -> Result<(), PatternError> {
    if is_zero { Err(PatternError::Zero(what)) } else { Ok(()) }
}
