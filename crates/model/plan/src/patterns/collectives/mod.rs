//! Collective operations of machine learning.
//!
//! A [`Collective`] runs an [`Algorithm`] between ranks, which are hosts in a given order. [`ALGORITHMS`] lists all
//! algorithms. A new algorithm is a file with a constant `ALGORITHM`, a `mod` line and a line in [`ALGORITHMS`].
//!
//! `n` is the number of ranks, `S` is the size, `g` is the number of ranks per server and `m` is the number of servers.
//! The table gives the longest chain of messages without chunks, and the bytes that each rank sends.
//!
//! | algorithm | steps | bytes sent per rank |
//! |---|---|---|
//! | `ring-all-reduce` | 2 (n - 1) | 2 S (n - 1) / n |
//! | `ring-all-gather`, `ring-reduce-scatter` | n - 1 | S (n - 1) / n |
//! | `halving-doubling-all-reduce` | 2 log2 n | 2 S (n - 1) / n |
//! | `recursive-doubling-all-reduce` | log2 n | S log2 n |
//! | `double-binary-tree-all-reduce` | about 2 log2 n | at most 2 S |
//! | `direct-all-reduce` | 2 | 2 S (n - 1) / n |
//! | `direct-all-gather`, `direct-reduce-scatter` | 1 | S (n - 1) / n |
//! | `hierarchical-all-reduce` | 2 (g - 1) + 2 (m - 1) | 2 S (g - 1) / g in a server, 2 S (m - 1) / (m g) between servers |
//! | `all-to-all` | 1 | S (n - 1) / n |
//! | `all-to-allv` | 1 | its row of the matrix, without the diagonal |
//! | `broadcast-chain` | n - 1 | S; the last rank sends nothing |
//! | `broadcast-tree` | log2 n | S per child, at most 2 S |
//! | `pipeline-forward` | n - 1 | S; the last rank sends nothing |
//! | `pipeline-forward-backward` | 2 (n - 1) | 2 S; the first and the last rank send S |
//!
//! # Channels and chunks
//!
//! The data is split into one part per channel. The parts differ by at most one byte. The channels run independently of
//! each other over their own connections. All channels use the same order of ranks, except in a ring all-reduce between
//! servers, where each channel uses another NIC of a server.
//!
//! A transfer that is larger than a chunk becomes several messages. A message waits only for the messages that wrote to
//! its own bytes, so chunks are pipelined. Without a chunk size, each transfer is one message. In a double binary tree, a
//! sender is at most eight chunks ahead of the ACKs, as in NCCL.
//!
//! # Rings with many messages
//!
//! A ring with more than [`MAX_EXPANDED_MESSAGES`] messages becomes a [`Ring`](crate::rings::Ring), whose messages are
//! computed when they are due. The run is the same, but the plan has no list of its messages.
//!
//! # Repetitions
//!
//! A rank finishes a repetition when it has received all its messages of this repetition. A rank that receives no
//! messages finishes when all its own messages are acknowledged. The rank then computes for
//! [`Collective::compute_gap`]. It sends no message of the next repetition earlier. Ranks do not wait for each other
//! otherwise.

mod algorithm;
mod all_to_all;
mod all_to_allv;
mod broadcast_chain;
mod broadcast_tree;
mod compact;
mod direct_all_gather;
mod direct_all_reduce;
mod direct_reduce_scatter;
mod double_binary_tree_all_reduce;
mod halving_doubling_all_reduce;
mod hierarchical_all_reduce;
mod pipeline_forward;
mod pipeline_forward_backward;
mod recursive_doubling_all_reduce;
mod ring_all_gather;
mod ring_all_reduce;
mod ring_reduce_scatter;
#[cfg(test)]
mod runs_tests;
#[cfg(test)]
mod tests;
mod transfers;

pub use algorithm::Algorithm;
pub use compact::MAX_EXPANDED_MESSAGES;

use super::error::{check_above_zero, check_hosts};
use super::split::check_parts;
use super::{
    CollectiveInfo, CollectiveRuns, Operation, Pattern, PatternError, Traffic, TrafficClass, count_u32,
};
use crate::rings::number_count;
use crate::traffic::{Amount, Event};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Picos};
use transfers::{Span, TransferKind, Transfers};

/// All collective algorithms.
pub const ALGORITHMS: &[Algorithm] = &[
    ring_all_reduce::ALGORITHM,
    ring_all_gather::ALGORITHM,
    ring_reduce_scatter::ALGORITHM,
    halving_doubling_all_reduce::ALGORITHM,
    recursive_doubling_all_reduce::ALGORITHM,
    double_binary_tree_all_reduce::ALGORITHM,
    direct_all_reduce::ALGORITHM,
    direct_all_gather::ALGORITHM,
    direct_reduce_scatter::ALGORITHM,
    hierarchical_all_reduce::ALGORITHM,
    all_to_all::ALGORITHM,
    all_to_allv::ALGORITHM,
    broadcast_chain::ALGORITHM,
    broadcast_tree::ALGORITHM,
    pipeline_forward::ALGORITHM,
    pipeline_forward_backward::ALGORITHM,
];

/// The maximum number of channels. NCCL has at most 64.
const MAX_CHANNELS: u32 = 1_024;

/// A collective operation between several ranks, which can be repeated.
///
/// ```
/// use poseidon_plan::patterns::{Algorithm, Collective, Pattern, TrafficClass};
/// use poseidon_types::{Bytes, HostId};
///
/// let ring = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
/// let ranks = (0..4).map(HostId::new).collect();
/// let collective = Collective { repetitions: 3, ..Collective::new(ring, ranks, Bytes::new(4_000)) };
/// let traffic = collective.generate(&TrafficClass::new(7, "gradients"))?.into_plan_order();
/// // Each of the 4 ranks sends 2 (4 - 1) messages of 1000 bytes to the next rank, 3 times.
/// assert_eq!((traffic.connections.len(), traffic.messages.len()), (4, 3 * 4 * 6));
/// assert_eq!(traffic.collectives[0].repetitions, 3);
/// # Ok::<(), poseidon_plan::patterns::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The ranks in order, at least two per group.
    pub ranks: Vec<HostId>,
    /// The number of groups of consecutive ranks. Each group runs the collective by itself, at the same time.
    pub groups: u32,
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// The size of the data. [`Operation::size_meaning`] gives its meaning.
    pub size: Bytes,
    /// The number of parts of the data that are transferred independently, each over its own connections.
    pub channels: u32,
    /// The size of the largest message. If `None`, transfers are not split.
    pub chunk: Option<Bytes>,
    /// The number of times that the collective runs.
    pub repetitions: u32,
    /// The time that a rank computes after it has finished a repetition and before it starts the next repetition.
    pub compute_gap: Picos,
    /// The number of consecutive ranks that form a server. Only `hierarchical-all-reduce` and `ring-all-reduce` use this
    /// setting.
    pub ranks_per_server: Option<u32>,
    /// The bytes that each rank (row) sends to each rank (column). Only `all-to-allv` uses this setting.
    pub matrix: Option<Vec<Vec<Bytes>>>,
    /// The time at which the first repetition starts.
    pub start: Picos,
}

impl Collective {
    /// Creates a collective that runs once at the start of the run, with one channel and without chunks.
    pub const fn new(algorithm: &'static Algorithm, ranks: Vec<HostId>, size: Bytes) -> Self {
        Self {
            ranks,
            groups: 1,
            algorithm,
            size,
            channels: 1,
            chunk: None,
            repetitions: 1,
            compute_gap: Picos::ZERO,
            ranks_per_server: None,
            matrix: None,
            start: Picos::ZERO,
        }
    }

    /// Returns the properties that the collective's metrics need.
    pub fn info(&self) -> CollectiveInfo {
        let size = match &self.matrix {
            Some(matrix) => all_to_allv::largest_transfer(matrix),
            None => self.size,
        };
        let Algorithm { name, operation, .. } = *self.algorithm;
        let ranks = count_u32(self.ranks_per_group());
        CollectiveInfo { algorithm: name, operation, ranks, size, compute_gap: self.compute_gap }
    }

    fn check(&self) -> Result<(), PatternError> {
        check_hosts(&self.ranks, 2)?;
        let (ranks, groups) = (self.ranks.len(), self.groups);
        check_above_zero(groups == 0, "the number of groups")?;
        if !ranks.is_multiple_of(groups as usize) || self.ranks_per_group() < 2 {
            return Err(PatternError::IncompleteGroup { ranks, groups });
        }
        check_above_zero(self.channels == 0, "the number of channels")?;
        check_above_zero(self.repetitions == 0, "the number of repetitions")?;
        check_above_zero(self.chunk.is_some_and(Bytes::is_zero), "the chunk size")?;
        if self.channels > MAX_CHANNELS {
            return Err(PatternError::TooManyChannels { channels: self.channels, limit: MAX_CHANNELS });
        }
        let unused = |setting| PatternError::UnusedSetting { setting, algorithm: self.algorithm.name };
        let uses_servers = [hierarchical_all_reduce::ALGORITHM, ring_all_reduce::ALGORITHM];
        if self.ranks_per_server.is_some() && !uses_servers.contains(self.algorithm) {
            return Err(unused("ranks-per-server"));
        }
        if self.matrix.is_some() && *self.algorithm != all_to_allv::ALGORITHM {
            return Err(unused("matrix"));
        }
        match self.first_group() {
            Some(group) => (self.algorithm.check)(&group)?,
            None => (self.algorithm.check)(self)?,
        }
        // Each message has a number, and so does each rank in each repetition.
        let numbers = self.count_messages().max(self.ranks.len() as u64 * u64::from(self.repetitions));
        let numbers = self.ring().map_or(numbers, |ring| numbers.max(number_count(&ring)));
        if numbers <= u32::MAX.into() { Ok(()) } else { Err(PatternError::TooManyMessages) }
    }

    /// Returns the number of messages in all repetitions. The count saturates.
    fn count_messages(&self) -> u64 {
        if let Some(group) = self.first_group() {
            return group.count_messages().saturating_mul(self.groups.into());
        }
        (self.algorithm.count_messages)(self).saturating_mul(self.repetitions.into())
    }

    fn ranks_per_group(&self) -> usize {
        self.ranks.len() / self.groups.max(1) as usize
    }

    /// Returns the collective of the first group, if there are several.
    fn first_group(&self) -> Option<Self> {
        let ranks = || self.ranks[..self.ranks_per_group()].to_vec();
        (self.groups > 1).then(|| Self { ranks: ranks(), groups: 1, ..self.clone() })
    }

    /// Returns an error if the ranks do not form complete servers, or if no server size is given.
    fn check_servers(&self) -> Result<(), PatternError> {
        let ranks = self.ranks.len();
        let ranks_per_server = self.ranks_per_server.ok_or(PatternError::MissingServerSize)?;
        if !(ranks as u64).is_multiple_of(ranks_per_server.into()) || ranks_per_server == 0 {
            return Err(PatternError::IncompleteServer { ranks, ranks_per_server });
        }
        Ok(())
    }

    /// Returns an error if the data of a channel cannot be divided into this many parts.
    fn check_channel_parts(&self, parts: usize) -> Result<(), PatternError> {
        check_parts(self.size, parts.saturating_mul(self.channels as usize))
    }

    /// Returns the channels and their parts of the data.
    fn split_channels(&self) -> impl Iterator<Item = Channel<'_>> {
        let data = Span::new(self.size.get());
        let channel = move |index: u32| {
            let part = data.part(self.channels as usize, index as usize);
            Channel { collective: self, index, data: Span::new(part.len()) }
        };
        (0..self.channels).map(channel)
    }

    /// Adds up the message counts of all channels.
    fn sum_channels(&self, count_messages: impl Fn(&Channel<'_>) -> u64) -> u64 {
        self.split_channels().fold(0, |sum: u64, channel| sum.saturating_add(count_messages(&channel)))
    }

    /// Returns the number of messages if each of `parts` parts of each channel's data is transferred `times` times.
    fn count_transfers(&self, parts: usize, times: usize) -> u64 {
        self.sum_channels(|channel| self.count_part_chunks(channel.data, parts).saturating_mul(times as u64))
    }

    /// Returns the number of messages if each of `parts` parts of the data is transferred once.
    fn count_part_chunks(&self, data: Span, parts: usize) -> u64 {
        let (parts, size) = (parts as u64, data.len());
        let (larger, smaller) = (size % parts, parts - size % parts);
        let larger_chunks = larger.saturating_mul(self.count_chunks(size / parts + 1));
        larger_chunks.saturating_add(smaller.saturating_mul(self.count_chunks(size / parts)))
    }

    /// Returns the number of messages in a transfer of this size.
    fn count_chunks(&self, size: u64) -> u64 {
        match self.chunk {
            Some(chunk) => size.div_ceil(chunk.get()),
            None => size.min(1),
        }
    }

    /// Returns the transfers of one repetition.
    fn transfers(&self) -> Transfers {
        if let Some(group) = self.first_group() {
            return group.transfers().repeated(self.groups, count_u32(group.ranks.len()));
        }
        let mut transfers = Transfers::new(self.ranks.len(), self.chunk);
        for channel in self.split_channels() {
            transfers.begin_channel(channel.index);
            (self.algorithm.add_transfers)(&channel, &mut transfers);
        }
        transfers
    }
}

/// A channel of a collective.
#[derive(Clone, Copy, Debug)]
struct Channel<'a> {
    collective: &'a Collective,
    index: u32,
    /// The channel's part of the data.
    data: Span,
}

impl Channel<'_> {
    const fn ranks(&self) -> usize {
        self.collective.ranks.len()
    }
}

impl Pattern for Collective {
    fn expected_messages(&self) -> f64 {
        match self.check() {
            Ok(()) if self.is_compact() => self.compact_entries() as f64,
            Ok(()) => self.count_messages() as f64,
            Err(_) => 0.0,
        }
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        if self.is_compact() { self.generate_compact(class) } else { self.generate_expanded(class) }
    }
}

impl Collective {
    /// Generates every message of the collective, even if there are many.
    pub fn generate_expanded(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        self.check()?;
        let transfers = self.transfers();
        let mut traffic = Traffic::default();
        let host = |rank: u32| self.ranks[rank as usize];
        for connection in &transfers.connections {
            let (from, to) = (host(connection.from), host(connection.to));
            traffic.add_connection(class.connection(from, to, connection.number()));
        }
        let is_dependent = transfers.dependent_mask();
        let rank_messages = RankMessages::of_all_ranks(self.ranks.len(), &transfers);
        for repetition in 0..self.repetitions {
            self.add_repetition(&mut traffic, &transfers, &is_dependent, repetition);
            if repetition > 0 {
                self.add_compute_gaps(&mut traffic, &transfers, &rank_messages, repetition);
            }
        }
        let mut traffic = traffic.grouped(&class.name);
        let receivers = transfers.messages.iter().map(|transfer| transfer.to);
        let ranks = self.ranks.clone();
        traffic.collectives.push(CollectiveRuns::new(self.info(), ranks, self.repetitions, receivers));
        Ok(traffic)
    }

    /// Adds the messages of one repetition and the dependencies between them.
    fn add_repetition(
        &self,
        traffic: &mut Traffic,
        transfers: &Transfers,
        is_dependent: &[bool],
        repetition: u32,
    ) {
        let id = |message: u32| message_id(transfers, repetition, message);
        for (transfer, is_dependent) in transfers.messages.iter().zip(is_dependent) {
            // In later repetitions, every message waits at least for the compute gap of its sender.
            let start = if repetition == 0 && !is_dependent { self.start } else { Picos::ZERO };
            let connection = ConnectionId::new(transfer.connection);
            traffic.add_message(connection, start, Amount::Exactly(Bytes::new(transfer.span.len())));
        }
        for (prerequisite, dependent) in &transfers.dependencies {
            traffic.add_dependency(id(*dependent), Event::Received, id(*prerequisite));
        }
        for (prerequisite, dependent) in &transfers.acknowledgements {
            traffic.add_dependency(id(*dependent), Event::Acknowledged, id(*prerequisite));
        }
        for transfer_join in &transfers.joins {
            let join = traffic.add_join(Picos::ZERO);
            for message in &transfer_join.prerequisites {
                traffic.add_join_prerequisite(join, Event::Received, id(*message));
            }
            for message in &transfer_join.dependents {
                traffic.add_join_dependent(join, id(*message));
            }
        }
    }

    /// Makes each rank wait until it has finished the previous repetition and has computed for the compute gap.
    fn add_compute_gaps(
        &self,
        traffic: &mut Traffic,
        transfers: &Transfers,
        rank_messages: &[RankMessages],
        repetition: u32,
    ) {
        for RankMessages { sent, received } in rank_messages.iter().filter(|rank| !rank.sent.is_empty()) {
            let join = traffic.add_join(self.compute_gap);
            let (event, prerequisites) = match received.as_slice() {
                [] => (Event::Acknowledged, sent),
                _ => (Event::Received, received),
            };
            for message in prerequisites {
                traffic.add_join_prerequisite(join, event, message_id(transfers, repetition - 1, *message));
            }
            for message in sent {
                traffic.add_join_dependent(join, message_id(transfers, repetition, *message));
            }
        }
    }
}

/// Returns the ID of a message in a repetition.
fn message_id(transfers: &Transfers, repetition: u32, message: u32) -> MessageId {
    MessageId::new(repetition * count_u32(transfers.messages.len()) + message)
}

/// The messages that a rank sends and receives in one repetition.
#[derive(Clone, Debug, Default)]
struct RankMessages {
    sent: Vec<u32>,
    received: Vec<u32>,
}

impl RankMessages {
    fn of_all_ranks(ranks: usize, transfers: &Transfers) -> Vec<Self> {
        let mut messages = vec![Self::default(); ranks];
        for (message, transfer) in (0..).zip(&transfers.messages) {
            messages[transfer.from as usize].sent.push(message);
            messages[transfer.to as usize].received.push(message);
        }
        messages
    }
}
