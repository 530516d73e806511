//! The transfers of one repetition of a collective, and the dependencies between them.
//!
//! An algorithm only states which rank sends which bytes to which rank in which step. The dependencies follow from the
//! data: a message waits for all messages that the sender received in earlier steps and that wrote to the same bytes.

use crate::patterns::count_u32;
use poseidon_types::Bytes;
use std::collections::BTreeMap;

/// A message with more prerequisites than this waits for a join, which it shares with other messages.
const MAX_DIRECT_DEPENDENCIES: usize = 8;

/// A range of bytes in the data of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    /// The end, exclusive.
    pub(super) end: u64,
}

impl Span {
    /// Returns the first `len` bytes.
    pub(super) const fn new(len: u64) -> Self {
        Self { start: 0, end: len }
    }

    pub(super) const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns one of `parts` parts, which differ by at most one byte. Larger parts come first.
    pub(super) fn part(self, parts: usize, index: usize) -> Self {
        let (quotient, remainder) = (self.len() / parts as u64, self.len() % parts as u64);
        let offset = |index: u64| self.start + index * quotient + index.min(remainder);
        Self { start: offset(index as u64), end: offset(index as u64 + 1) }
    }

    /// Returns parts `first` to `first + count - 1` of `parts` parts, as one range.
    pub(super) fn part_range(self, parts: usize, first: usize, count: usize) -> Self {
        Self { start: self.part(parts, first).start, end: self.part(parts, first + count - 1).end }
    }
}

/// What the receiver does with the data of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferKind {
    /// The receiver adds the data to its own data.
    Reduce,
    /// The receiver replaces its own data.
    Copy,
    /// The receiver stores the data in a separate buffer and does not send it on.
    Exchange,
}

/// A message of the collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) from: u32,
    pub(super) to: u32,
    /// An index into [`Transfers::connections`].
    pub(super) connection: u32,
    pub(super) span: Span,
    pub(super) kind: TransferKind,
}

/// A connection between two ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankConnection {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) channel: u32,
    pub(super) lane: u32,
}

impl RankConnection {
    /// Returns a number that distinguishes the connections between the same two ranks.
    pub(super) fn number(self) -> u64 {
        (u64::from(self.channel) << 32) | u64::from(self.lane)
    }
}

/// Several messages that wait for the same messages.
#[derive(Clone, Debug)]
pub(super) struct TransferJoin {
    pub(super) prerequisites: Vec<u32>,
    pub(super) dependents: Vec<u32>,
}

/// A range of bytes that a rank has received.
#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    /// The messages that have written to these bytes since the last copy.
    writers: Vec<u32>,
    /// The join that waits for the writers, if it exists.
    join: Option<u32>,
}

impl Segment {
    fn new(end: u64, writer: u32) -> Self {
        Self { end, writers: vec![writer], join: None }
    }
}

/// The segments that a rank has received, by their first byte.
type Segments = BTreeMap<u64, Segment>;

/// Collects the messages of one repetition.
#[derive(Debug)]
pub(super) struct Transfers {
    pub(super) messages: Vec<Transfer>,
    pub(super) connections: Vec<RankConnection>,
    /// Each entry is a prerequisite and the message that waits until it is received.
    pub(super) dependencies: Vec<(u32, u32)>,
    /// Each entry is a prerequisite and the message that waits until it is acknowledged.
    pub(super) acknowledgements: Vec<(u32, u32)>,
    pub(super) joins: Vec<TransferJoin>,
    /// The size of the largest message.
    chunk: u64,
    channel: u32,
    lane: u32,
    /// The number of unacknowledged chunks of a transfer.
    max_chunks_ahead: usize,
    /// The current channel's connections by lane, sender and receiver.
    open_connections: BTreeMap<(u32, u32, u32), u32>,
    /// What each rank has received in the current channel.
    received: Vec<Segments>,
    /// Messages before this one are part of `received`.
    applied: usize,
    /// Messages before this one belong to finished steps.
    step_end: usize,
}

impl Transfers {
    /// Creates an empty list. Transfers that are larger than a chunk are split into several messages.
    pub(super) fn new(ranks: usize, chunk: Option<Bytes>) -> Self {
        Self {
            messages: Vec::new(),
            connections: Vec::new(),
            dependencies: Vec::new(),
            acknowledgements: Vec::new(),
            joins: Vec::new(),
            chunk: chunk.map_or(u64::MAX, Bytes::get),
            channel: 0,
            lane: 0,
            max_chunks_ahead: usize::MAX,
            open_connections: BTreeMap::new(),
            received: vec![Segments::new(); ranks],
            applied: 0,
            step_end: 0,
        }
    }

    /// Returns the transfers of several groups with this number of ranks each, one group after the other.
    pub(super) fn repeated(mut self, groups: u32, ranks: u32) -> Self {
        self.end_step();
        let [messages, connections, dependencies, acknowledgements, joins] = [
            self.messages.len(),
            self.connections.len(),
            self.dependencies.len(),
            self.acknowledgements.len(),
            self.joins.len(),
        ];
        for group in 1..groups {
            let rank = group * ranks;
            let (message, connection) = (group * count_u32(messages), group * count_u32(connections));
            for index in 0..messages {
                let Transfer { from, to, connection: first, span, kind } = self.messages[index];
                let (from, to) = (from + rank, to + rank);
                self.messages.push(Transfer { from, to, connection: first + connection, span, kind });
            }
            for index in 0..connections {
                let RankConnection { from, to, channel, lane } = self.connections[index];
                self.connections.push(RankConnection { from: from + rank, to: to + rank, channel, lane });
            }
            for index in 0..dependencies {
                let (prerequisite, dependent) = self.dependencies[index];
                self.dependencies.push((prerequisite + message, dependent + message));
            }
            for index in 0..acknowledgements {
                let (prerequisite, dependent) = self.acknowledgements[index];
                self.acknowledgements.push((prerequisite + message, dependent + message));
            }
            for index in 0..joins {
                let shifted = |ids: &[u32]| ids.iter().map(|id| id + message).collect();
                let TransferJoin { prerequisites, dependents } = &self.joins[index];
                let join =
                    TransferJoin { prerequisites: shifted(prerequisites), dependents: shifted(dependents) };
                self.joins.push(join);
            }
        }
        self
    }

    /// Starts a channel, which has its own data and its own connections.
    pub(super) fn begin_channel(&mut self, channel: u32) {
        self.end_step();
        self.applied = self.step_end;
        self.received.iter_mut().for_each(Segments::clear);
        self.open_connections.clear();
        (self.channel, self.lane) = (channel, 0);
    }

    /// Selects one of several connections between the same ranks. A connection sends its messages in order, so parts of
    /// the data that must not wait for each other need different lanes.
    pub(super) fn use_lane(&mut self, lane: u32) {
        self.lane = lane;
    }

    /// Limits the number of chunks that a sender is ahead of its receiver. A chunk waits until the chunk that many
    /// chunks before it is acknowledged.
    pub(super) fn limit_chunks_ahead(&mut self, chunks: usize) {
        self.max_chunks_ahead = chunks;
    }

    /// Sends a range of bytes from one rank to another. The sender waits for what it received in earlier steps.
    pub(super) fn send(&mut self, from: usize, to: usize, span: Span, kind: TransferKind) {
        self.apply_finished_steps();
        let connection = self.find_or_add_connection(count_u32(from), count_u32(to));
        let first = self.messages.len();
        let mut start = span.start;
        while start < span.end {
            let piece = Span { start, end: start + self.chunk.min(span.end - start) };
            if kind != TransferKind::Exchange {
                self.add_dependencies(count_u32(self.messages.len()), from, piece);
            }
            let message = self.messages.len();
            if let Some(earlier) =
                message.checked_sub(self.max_chunks_ahead).filter(|earlier| *earlier >= first)
            {
                self.acknowledgements.push((count_u32(earlier), count_u32(message)));
            }
            let (from, to) = (count_u32(from), count_u32(to));
            self.messages.push(Transfer { from, to, connection, span: piece, kind });
            start = piece.end;
        }
    }

    /// Ends a step. Messages of later steps wait for the messages of this step.
    pub(super) fn end_step(&mut self) {
        self.step_end = self.messages.len();
    }

    /// Returns whether each message waits for another message.
    pub(super) fn dependent_mask(&self) -> Vec<bool> {
        let mut is_dependent = vec![false; self.messages.len()];
        let joined = self.joins.iter().flat_map(|join| &join.dependents);
        let waiting = self.dependencies.iter().chain(&self.acknowledgements);
        for message in waiting.map(|(_, dependent)| dependent).chain(joined) {
            is_dependent[*message as usize] = true;
        }
        is_dependent
    }

    fn find_or_add_connection(&mut self, from: u32, to: u32) -> u32 {
        *self.open_connections.entry((self.lane, from, to)).or_insert_with(|| {
            self.connections.push(RankConnection { from, to, channel: self.channel, lane: self.lane });
            count_u32(self.connections.len() - 1)
        })
    }

    /// Makes a new message wait for all messages that have written to these bytes at its sender.
    fn add_dependencies(&mut self, message: u32, sender: usize, span: Span) {
        let segments = &mut self.received[sender];
        let before =
            segments.range(..=span.start).next_back().filter(|(_, segment)| segment.end > span.start);
        let first = before.map_or(span.start, |(start, _)| *start);
        let mut overlapping = segments.range_mut(first..span.end);
        let Some((_, segment)) = overlapping.next() else { return };
        let mut other_writers: Vec<u32> =
            overlapping.flat_map(|(_, segment)| segment.writers.iter().copied()).collect();
        if other_writers.is_empty() && segment.writers.len() > MAX_DIRECT_DEPENDENCIES {
            let join = *segment.join.get_or_insert_with(|| {
                let prerequisites = segment.writers.clone();
                self.joins.push(TransferJoin { prerequisites, dependents: Vec::new() });
                count_u32(self.joins.len() - 1)
            });
            self.joins[join as usize].dependents.push(message);
            return;
        }
        if other_writers.is_empty() {
            self.dependencies.extend(segment.writers.iter().map(|writer| (*writer, message)));
            return;
        }
        other_writers.extend(&segment.writers);
        other_writers.sort_unstable();
        other_writers.dedup();
        self.dependencies.extend(other_writers.into_iter().map(|writer| (writer, message)));
    }

    /// Records at the receivers what the messages of finished steps have written.
    fn apply_finished_steps(&mut self) {
        for index in self.applied..self.step_end {
            let Transfer { to, span, kind, .. } = self.messages[index];
            let segments = &mut self.received[to as usize];
            match kind {
                TransferKind::Copy => copy_segment(segments, span, count_u32(index)),
                TransferKind::Reduce => reduce_segment(segments, span, count_u32(index)),
                TransferKind::Exchange => {}
            }
        }
        self.applied = self.step_end;
    }
}

/// Records that a message has replaced a range of bytes.
fn copy_segment(segments: &mut Segments, span: Span, writer: u32) {
    split_segment(segments, span.start);
    split_segment(segments, span.end);
    while let Some(start) = segments.range(span.start..span.end).next().map(|(start, _)| *start) {
        segments.remove(&start);
    }
    segments.insert(span.start, Segment::new(span.end, writer));
}

/// Records that a message has added to a range of bytes.
fn reduce_segment(segments: &mut Segments, span: Span, writer: u32) {
    split_segment(segments, span.start);
    split_segment(segments, span.end);
    let mut gaps = Vec::new();
    let mut next = span.start;
    for (start, segment) in segments.range_mut(span.start..span.end) {
        gaps.extend((next < *start).then_some(Span { start: next, end: *start }));
        segment.writers.push(writer);
        segment.join = None;
        next = segment.end;
    }
    gaps.extend((next < span.end).then_some(Span { start: next, end: span.end }));
    segments.extend(gaps.into_iter().map(|gap| (gap.start, Segment::new(gap.end, writer))));
}

/// Splits the segment that contains this byte, unless the segment starts there.
fn split_segment(segments: &mut Segments, offset: u64) {
    let Some((_, segment)) = segments.range_mut(..offset).next_back() else { return };
    if segment.end > offset {
        let tail = segment.clone();
        segment.end = offset;
        segments.insert(offset, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::TransferKind::{Copy, Reduce};
    use super::*;

    #[test]
    fn parts_are_contiguous_and_differ_by_at_most_one_byte() {
        let span = Span { start: 5, end: 15 };
        let parts: Vec<_> =
            (0..4).map(|index| span.part(4, index)).map(|part| (part.start, part.end)).collect();
        assert_eq!(parts, [(5, 8), (8, 11), (11, 13), (13, 15)]);
        assert_eq!(span.part_range(4, 1, 2), Span { start: 8, end: 13 });
    }

    #[test]
    fn message_waits_for_overlapping_bytes_of_earlier_steps() {
        let mut transfers = Transfers::new(3, None);
        let span = |start, end| Span { start, end };
        transfers.send(0, 1, span(0, 10), Reduce); // message 0
        transfers.send(2, 1, span(5, 15), Reduce); // message 1
        transfers.send(1, 0, span(0, 15), Copy); // message 2: same step, no dependency
        transfers.end_step();
        transfers.send(1, 2, span(0, 5), Copy); // message 3 waits for 0
        transfers.send(1, 2, span(4, 6), Copy); // message 4 waits for 0 and 1
        transfers.send(1, 2, span(10, 15), Copy); // message 5 waits for 1
        transfers.send(1, 2, span(15, 20), Copy); // message 6 waits for nothing
        transfers.send(0, 1, span(6, 8), Copy); // message 7 waits for 2
        transfers.end_step();
        transfers.send(1, 2, span(4, 10), Copy); // message 8 waits for 0, 1 and the copy, message 7
        assert_eq!(transfers.dependencies, [(0, 3), (0, 4), (1, 4), (1, 5), (2, 7), (0, 8), (1, 8), (7, 8)]);
        let expected = [false, false, false, true, true, true, false, true, true];
        assert_eq!(transfers.dependent_mask(), expected);
    }

    #[test]
    fn chunk_waits_only_for_the_same_chunk_of_the_previous_step() {
        let mut transfers = Transfers::new(3, Some(Bytes::new(4)));
        transfers.send(0, 1, Span::new(10), Copy);
        transfers.end_step();
        transfers.send(1, 2, Span::new(10), Copy);
        let sizes: Vec<u64> = transfers.messages.iter().map(|message| message.span.len()).collect();
        assert_eq!(sizes, [4, 4, 2, 4, 4, 2]);
        assert_eq!(transfers.dependencies, [(0, 3), (1, 4), (2, 5)]);
    }

    #[test]
    fn chunk_waits_for_the_acknowledgement_of_an_earlier_chunk() {
        let mut transfers = Transfers::new(3, Some(Bytes::new(2)));
        transfers.limit_chunks_ahead(3);
        transfers.send(0, 1, Span::new(10), Copy);
        transfers.send(0, 2, Span::new(7), Copy);
        assert_eq!(transfers.acknowledgements, [(0, 3), (1, 4), (5, 8)]);
        let expected = [false, false, false, true, true, false, false, false, true];
        assert_eq!(transfers.dependent_mask(), expected);
    }

    #[test]
    fn many_prerequisites_are_shared_through_a_join() {
        let mut transfers = Transfers::new(12, None);
        (1..=10).for_each(|from| transfers.send(from, 0, Span::new(10), Reduce));
        transfers.end_step();
        (1..=10).for_each(|to| transfers.send(0, to, Span::new(10), Copy));
        let [join] = &transfers.joins[..] else { panic!("expected one join: {:?}", transfers.joins) };
        assert_eq!(join.prerequisites, (0..10).collect::<Vec<_>>());
        assert_eq!(join.dependents, (10..20).collect::<Vec<_>>());
        assert!(transfers.dependencies.is_empty());
        // Another contribution needs another join.
        transfers.send(11, 0, Span::new(10), Reduce);
        transfers.end_step();
        transfers.send(0, 11, Span::new(10), Copy);
        assert_eq!(transfers.joins[1].prerequisites.len(), 11);
    }
}
