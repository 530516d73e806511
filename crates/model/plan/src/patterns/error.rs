//! Errors in patterns and in the files that describe them.

use core::fmt;
use poseidon_types::{Bytes, HostId, Picos};

/// The reason that a pattern was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern needs more hosts.
    TooFewHosts {
        /// The minimum number of hosts.
        needed: usize,
        /// The actual number of hosts.
        actual: usize,
    },
    /// A host would send to itself.
    SelfTraffic(HostId),
    /// A host is listed twice.
    DuplicateHost(HostId),
    /// A host is not part of the topology.
    UnknownHost(HostId),
    /// The named quantity is zero but must be positive.
    Zero(&'static str),
    /// The size is too small to divide into this many parts.
    TooSmall {
        /// The size to divide.
        size: Bytes,
        /// The number of parts.
        parts: usize,
    },
    /// A rack has fewer hosts than a request requires.
    RackTooSmall {
        /// The rack number.
        rack: u32,
        /// The number of hosts in the rack.
        hosts: u32,
        /// The number of servers per request.
        fan: u32,
    },
    /// The topology has only one rack.
    SingleRack,
    /// An interval is empty because it does not end after it begins.
    EmptyInterval {
        /// The start of the interval.
        from: Picos,
        /// The end of the interval.
        until: Picos,
    },
    /// The collective algorithm needs a power of two of ranks.
    NotPowerOfTwo {
        /// The number of ranks.
        ranks: usize,
    },
    /// The collective algorithm needs to know how many ranks form a server.
    MissingServerSize,
    /// The ranks do not fill a whole number of servers.
    IncompleteServer {
        /// The number of ranks.
        ranks: usize,
        /// The number of ranks per server.
        ranks_per_server: u32,
    },
    /// The ranks do not form complete groups of at least two ranks.
    IncompleteGroup {
        /// The number of ranks.
        ranks: usize,
        /// The number of groups.
        groups: u32,
    },
    /// The collective algorithm needs a matrix of sizes.
    MissingMatrix,
    /// The matrix of sizes does not have one row and one column per rank.
    MatrixShape {
        /// The number of ranks.
        ranks: usize,
        /// The first rank whose row does not have one entry per rank, or `None` if the number of rows is wrong.
        row: Option<usize>,
        /// The number of entries in this row, or the number of rows.
        actual: usize,
    },
    /// The matrix of sizes sends no data between different ranks.
    EmptyMatrix,
    /// The collective algorithm does not use this setting.
    UnusedSetting {
        /// The setting.
        setting: &'static str,
        /// The name of the algorithm.
        algorithm: &'static str,
    },
    /// A collective has too many channels.
    TooManyChannels {
        /// The number of channels.
        channels: u32,
        /// The maximum number of channels.
        limit: u32,
    },
    /// The algorithm is not a single ring, so its messages do not follow the rule of a ring.
    NotARing {
        /// The name of the algorithm.
        algorithm: &'static str,
    },
    /// The pattern has more than 2^32 messages, or more than 2^32 repetitions times ranks.
    TooManyMessages,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewHosts { needed, actual } => {
                write!(f, "the pattern needs at least {needed} hosts but has {actual}")
            }
            Self::SelfTraffic(host) => {
                write!(f, "host {} would send to itself: remove it from one list", host.get())
            }
            Self::DuplicateHost(host) => write!(f, "host {} is listed twice: list it once", host.get()),
            Self::UnknownHost(host) => write!(f, "host {} is not part of the topology", host.get()),
            Self::Zero(quantity) => write!(f, "{quantity} must be above zero"),
            Self::TooSmall { size, parts } => {
                write!(f, "{size} cannot be divided into {parts} parts: each part needs at least one byte")
            }
            Self::RackTooSmall { rack, hosts, fan } => {
                write!(f, "rack {rack} has {hosts} hosts, but a request needs {fan}: lower the fan")
            }
            Self::SingleRack => f.write_str("there is no other rack: add one, or choose among all hosts"),
            Self::EmptyInterval { from, until } => {
                write!(f, "it begins at {from} and ends at {until}: move the end after the beginning")
            }
            Self::NotPowerOfTwo { ranks } => {
                write!(f, "the algorithm needs 2, 4, 8, ... ranks but has {ranks}: choose a ring or a tree")
            }
            Self::MissingServerSize => {
                f.write_str("the algorithm needs the number of ranks per server: set ranks-per-server")
            }
            Self::IncompleteServer { ranks, ranks_per_server } => write!(
                f,
                "{ranks} ranks do not fill servers of {ranks_per_server} ranks: choose a divisor of {ranks}"
            ),
            Self::IncompleteGroup { ranks, groups } => write!(
                f,
                "{ranks} ranks do not form {groups} groups of at least two ranks: choose a divisor of {ranks}"
            ),
            Self::MissingMatrix => f.write_str("the algorithm needs a matrix of sizes: set matrix"),
            Self::MatrixShape { ranks, row: Some(row), actual } => {
                write!(
                    f,
                    "the matrix row of rank {row} has {actual} entries, but there are {ranks} ranks: \
                     write one entry per rank"
                )
            }
            Self::MatrixShape { ranks, row: None, actual } => {
                write!(f, "the matrix has {actual} rows, but there are {ranks} ranks: write one row per rank")
            }
            Self::EmptyMatrix => {
                f.write_str("the matrix sends no data between different ranks: raise an entry above zero")
            }
            Self::UnusedSetting { setting, algorithm } => {
                write!(f, "{algorithm} does not use {setting}: remove it")
            }
            Self::TooManyChannels { channels, limit } => {
                write!(f, "{channels} channels are too many: use at most {limit}")
            }
            Self::NotARing { algorithm } => {
                write!(f, "{algorithm} is not a ring: generate all of its messages")
            }
            Self::TooManyMessages => f.write_str(
                "the pattern has more than 2^32 messages: use fewer ranks or repetitions, or larger chunks",
            ),
        }
    }
}

impl core::error::Error for PatternError {}

/// A syntax error in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The line number, starting at one.
    pub line: usize,
    /// A description of the error.
    pub reason: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for TextError {}

/// Strips `#` comments and returns the non-empty lines with their line numbers, starting at one.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or("").trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// Returns an error if the list has fewer than `needed` hosts or contains duplicates.
pub(super) fn check_hosts(hosts: &[HostId], needed: usize) -> Result<(), PatternError> {
    if hosts.len() < needed {
        return Err(PatternError::TooFewHosts { needed, actual: hosts.len() });
    }
    let mut sorted = hosts.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PatternError::DuplicateHost(pair[0])),
        None => Ok(()),
    }
}

/// Returns an error if a host would send to itself.
pub(super) fn check_ends(from: HostId, to: HostId) -> Result<(), PatternError> {
    if from == to { Err(PatternError::SelfTraffic(from)) } else { Ok(()) }
}

/// Returns an error if the interval is empty.
pub(super) fn check_interval(from: Picos, until: Picos) -> Result<(), PatternError> {
    if from < until { Ok(()) } else { Err(PatternError::EmptyInterval { from, until }) }
}

/// Returns an error if the quantity is zero.
pub(super) fn check_above_zero(is_zero: bool, quantity: &'static str) -> Result<(), PatternError> {
    if is_zero { Err(PatternError::Zero(quantity)) } else { Ok(()) }
}
