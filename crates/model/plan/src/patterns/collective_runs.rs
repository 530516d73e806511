//! The repetitions of a collective and the times at which its ranks finish them.

use super::{Group, Operation, count_u32};
use poseidon_types::{Bytes, HostId, MessageId, Picos};

/// The properties of a collective that its metrics need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveInfo {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// The operation.
    pub operation: Operation,
    /// The number of ranks.
    pub ranks: u32,
    /// The size from which nccl-tests computes the algorithm bandwidth. For all-to-allv, this is the largest number of
    /// bytes that any rank sends or receives, including the bytes that stay at the rank. For other operations, it is
    /// [`Collective::size`](super::Collective::size).
    pub size: Bytes,
    /// The time that a rank computes between two repetitions.
    pub compute_gap: Picos,
}

impl CollectiveInfo {
    /// Returns the ratio of bus bandwidth to algorithm bandwidth, as defined by nccl-tests.
    pub fn bus_factor(&self) -> f64 {
        self.operation.bus_factor(self.ranks)
    }
}

/// The repetitions and ranks to which the messages of a collective belong.
///
/// [`CollectiveRuns::repetition_times`] computes the start of each repetition and the finish time of each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveRuns {
    /// The index of the collective's group in [`Traffic::groups`](crate::patterns::Traffic::groups).
    pub group: usize,
    /// The properties that metrics need.
    pub info: CollectiveInfo,
    /// The ranks.
    pub ranks: Vec<HostId>,
    /// The number of repetitions.
    pub repetitions: u32,
    /// The index of the collective's ring in [`Traffic::rings`](crate::patterns::Traffic::rings), if its messages are
    /// computed when they are due. The group then has no messages, and
    /// [`RingProgress`](crate::rings::RingProgress) gives the finish of each rank.
    pub ring: Option<usize>,
    /// For each message of the group, in the order of the group: the repetition times the number of ranks, plus the
    /// rank that receives the message.
    receivers: Vec<u32>,
}

impl CollectiveRuns {
    /// Creates the runs of a collective in a group of their own. `receivers` gives the receiver of each message in one
    /// repetition.
    pub(super) fn new(
        info: CollectiveInfo,
        ranks: Vec<HostId>,
        repetitions: u32,
        receivers: impl Iterator<Item = u32> + Clone,
    ) -> Self {
        let stride = count_u32(ranks.len());
        let receivers = (0..repetitions)
            .flat_map(|repetition| receivers.clone().map(move |rank| repetition * stride + rank))
            .collect();
        Self { group: 0, info, ranks, repetitions, ring: None, receivers }
    }

    /// Creates the runs of a collective whose messages are those of its first ring.
    pub(super) const fn of_ring(info: CollectiveInfo, ranks: Vec<HostId>, repetitions: u32) -> Self {
        Self { group: 0, info, ranks, repetitions, ring: Some(0), receivers: Vec::new() }
    }

    /// Returns the repetition and the receiving rank of each message of the group, in the order of the group.
    pub fn receivers(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        let ranks = count_u32(self.ranks.len());
        self.receivers.iter().map(move |receiver| (receiver / ranks, receiver % ranks))
    }

    /// Computes the times of each repetition. `group` is the collective's group, `start` returns the time at which a
    /// message started, and `arrival` returns the time at which it was fully received.
    pub fn repetition_times(
        &self,
        group: &Group,
        start: impl Fn(MessageId) -> Option<Picos>,
        arrival: impl Fn(MessageId) -> Option<Picos>,
    ) -> Vec<RepetitionTimes> {
        let unknown =
            RepetitionTimes { start: None, ranks: vec![RankFinish::ReceivesNothing; self.ranks.len()] };
        let mut times = vec![unknown; self.repetitions as usize];
        for (message, (repetition, rank)) in group.messages.iter().zip(self.receivers()) {
            let times = &mut times[repetition as usize];
            times.start = [times.start, start(*message)].into_iter().flatten().min();
            let finish = &mut times.ranks[rank as usize];
            *finish = match (*finish, arrival(*message)) {
                (RankFinish::Unfinished, _) | (_, None) => RankFinish::Unfinished,
                (RankFinish::ReceivesNothing, Some(time)) => RankFinish::At(time),
                (RankFinish::At(latest), Some(time)) => RankFinish::At(latest.max(time)),
            };
        }
        times
    }

    /// Sorts the entries like the messages of the group, whose IDs have changed.
    pub(super) fn sort_by_message(&mut self, group: &Group) {
        let mut entries: Vec<(MessageId, u32)> =
            group.messages.iter().copied().zip(self.receivers.iter().copied()).collect();
        entries.sort_unstable();
        self.receivers = entries.into_iter().map(|(_, receiver)| receiver).collect();
    }
}

/// The times of one repetition of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepetitionTimes {
    /// The time at which the first message of any rank started, or `None` if no message started.
    pub start: Option<Picos>,
    /// The finish of each rank.
    pub ranks: Vec<RankFinish>,
}

/// The time at which a rank finishes a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankFinish {
    /// The rank receives no messages, like the first rank of a broadcast.
    ReceivesNothing,
    /// The rank has not received all its messages.
    Unfinished,
    /// The rank received its last message at this time.
    At(Picos),
}

impl RepetitionTimes {
    /// Returns the slowest rank and its finish time, or `None` if a rank has not finished. If several ranks finish
    /// last, returns the first of them.
    pub fn slowest(&self) -> Option<(usize, Picos)> {
        let mut slowest: Option<(usize, Picos)> = None;
        for (rank, finish) in self.ranks.iter().enumerate() {
            match *finish {
                RankFinish::ReceivesNothing => {}
                RankFinish::Unfinished => return None,
                RankFinish::At(time) if slowest.is_none_or(|(_, latest)| time > latest) => {
                    slowest = Some((rank, time));
                }
                RankFinish::At(_) => {}
            }
        }
        slowest
    }

    /// Returns the time from the start until the slowest rank has finished, or `None` if a rank has not finished.
    pub fn duration(&self) -> Option<Picos> {
        self.slowest()?.1.checked_sub(self.start?)
    }
}
