//! Reduces the messages of a ring while the run is in progress. Memory grows with the ranks and repetitions of the ring,
//! not with its messages.

use crate::resolve::ResolvedRun;
use poseidon_plan::patterns::collectives::MAX_EXPANDED_MESSAGES;
use poseidon_plan::patterns::{RankFinish, RepetitionTimes};
use poseidon_plan::records::{MessageRow, ReceivedRow};
use poseidon_plan::rings::{RingLayout, RingPlace, RingProgress, RingSample};
use poseidon_types::{Bytes, ConnectionId, MessageId, Picos};

const NEVER: Picos = Picos::MAX;

/// The measurements of a ring.
#[derive(Debug)]
pub(super) struct RingLog {
    layout: RingLayout,
    progress: RingProgress,
    /// The time at which each rank started its latest repetition.
    rank_starts: Vec<Picos>,
    /// The time at which the first rank started each repetition; [`NEVER`] if none has started it.
    repetition_starts: Vec<Picos>,
    /// The time at which each rank finished each repetition, sorted by repetition; [`NEVER`] if it has not finished.
    finishes: Vec<Picos>,
    sample: RingSample,
    /// For each message of the sample, its start, arrival and acknowledgement.
    times: Vec<[Picos; 3]>,
    phases: Vec<PhaseCounts>,
    /// The messages that count for the drain, minus those that have finished.
    unfinished: i64,
    measured: (Picos, Picos),
}

/// The times of a sampled message.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledMessage {
    pub(super) connection: ConnectionId,
    pub(super) size: Bytes,
    pub(super) start: Picos,
    pub(super) arrival: Option<Picos>,
    pub(super) acknowledged: Option<Picos>,
}

/// The number of messages that started in a phase, by size.
#[derive(Debug)]
struct PhaseCounts {
    from: Picos,
    until: Picos,
    by_size: Vec<SizeCount>,
}

#[derive(Clone, Copy, Debug)]
struct SizeCount {
    size: Bytes,
    started: u64,
    finished: u64,
}

impl PhaseCounts {
    /// Returns the counts of a size if a message with this start belongs to the phase. A ring has only a few sizes.
    fn count_of(&mut self, start: Picos, size: Bytes) -> Option<&mut SizeCount> {
        if start < self.from || start >= self.until {
            return None;
        }
        let index = self.by_size.iter().position(|count| count.size == size).unwrap_or_else(|| {
            self.by_size.push(SizeCount { size, started: 0, finished: 0 });
            self.by_size.len() - 1
        });
        Some(&mut self.by_size[index])
    }
}

impl RingLog {
    pub(super) fn new(resolved: &ResolvedRun, layout: &RingLayout) -> Self {
        let ring = layout.ring;
        let sample = RingSample::new(layout, MAX_EXPANDED_MESSAGES);
        let mut log = Self {
            progress: RingProgress::new(layout),
            rank_starts: vec![ring.start; ring.ranks as usize],
            repetition_starts: vec![NEVER; ring.repetitions as usize],
            finishes: vec![NEVER; ring.repetitions as usize * ring.ranks as usize],
            times: vec![[NEVER; 3]; sample.len()],
            sample,
            phases: (resolved.phases.iter())
                .map(|window| PhaseCounts {
                    from: resolved.messages_from(window),
                    until: window.end,
                    by_size: Vec::new(),
                })
                .collect(),
            unfinished: 0,
            measured: (resolved.messages_from, resolved.measured_until),
            layout: layout.clone(),
        };
        log.repetition_starts[0] = ring.start;
        for place in ring.places() {
            for index in 0..log.layout.first_messages_at(place) {
                log.on_start(place, index, ring.start);
            }
        }
        log
    }

    /// Returns the number of the ring's first message.
    pub(super) const fn first_message(&self) -> MessageId {
        self.layout.ring.first_message
    }

    /// Returns whether only some of the messages are in the sample.
    pub(super) const fn is_sampled(&self) -> bool {
        !self.sample.is_complete()
    }

    /// Returns whether every counted message has finished.
    pub(super) const fn has_drained(&self) -> bool {
        self.unfinished == 0
    }

    fn is_measured(&self, start: Picos) -> bool {
        start >= self.measured.0 && start < self.measured.1
    }

    /// Returns the times of a message, or `None` if it is not in the sample.
    fn sampled(&mut self, message: MessageId) -> Option<&mut [Picos; 3]> {
        self.times.get_mut(self.sample.group_of(message)?)
    }

    /// Records that a message has started.
    fn on_start(&mut self, place: RingPlace, index: u32, time: Picos) {
        if let Some(times) = self.sampled(self.layout.message_id(place, index)) {
            times[0] = time;
        }
        let size = self.layout.message(place, index).size;
        self.phases
            .iter_mut()
            .filter_map(|phase| phase.count_of(time, size))
            .for_each(|count| count.started += 1);
        self.unfinished += i64::from(self.is_measured(time));
    }

    pub(super) fn on_acknowledged(&mut self, row: &MessageRow) {
        if let Some(times) = self.sampled(row.message) {
            (times[0], times[2]) = (row.start, row.acknowledged);
        }
        let phases = self.phases.iter_mut();
        phases.filter_map(|phase| phase.count_of(row.start, row.size)).for_each(|count| count.finished += 1);
        self.unfinished -= i64::from(self.is_measured(row.start));
    }

    pub(super) fn on_received(&mut self, row: &ReceivedRow) {
        let Some((place, _)) = self.layout.find_message(row.message) else { return };
        if let Some(times) = self.sampled(row.message) {
            times[1] = row.time;
        }
        let event = self.progress.on_received(&self.layout, place);
        if let Some((place, index)) = event.starts {
            // The rank can still be computing.
            let start = self.rank_starts[event.rank as usize].max(row.time);
            self.on_start(place, index, start);
        }
        if event.finishes_repetition {
            let ring = self.layout.ring;
            self.finishes[event.repetition as usize * ring.ranks as usize + event.rank as usize] = row.time;
            if event.repetition + 1 < ring.repetitions {
                self.start_repetition(event.rank, event.repetition + 1, row.time + ring.compute_gap);
            }
        }
    }

    fn start_repetition(&mut self, rank: u32, repetition: u32, time: Picos) {
        self.rank_starts[rank as usize] = time;
        let first = &mut self.repetition_starts[repetition as usize];
        *first = time.min(*first);
        for (place, messages) in self.progress.start_repetition(&self.layout, rank) {
            messages.for_each(|index| self.on_start(place, index, time));
        }
    }

    /// Returns the times of each repetition.
    pub(super) fn repetition_times(&self) -> Vec<RepetitionTimes> {
        let known = |time: Picos| Some(time).filter(|time| *time != NEVER);
        let finish = |time: &Picos| known(*time).map_or(RankFinish::Unfinished, RankFinish::At);
        let by_repetition = self.finishes.chunks(self.layout.ring.ranks as usize);
        by_repetition
            .zip(&self.repetition_starts)
            .map(|(ranks, start)| RepetitionTimes {
                start: known(*start),
                ranks: ranks.iter().map(finish).collect(),
            })
            .collect()
    }

    /// Returns the messages of the sample that have started.
    pub(super) fn sampled_messages(&self) -> impl Iterator<Item = SampledMessage> + '_ {
        let started = self.times.iter().enumerate().filter(|(_, times)| times[0] != NEVER);
        started.filter_map(|(group, times)| {
            let (place, index) = self.layout.find_message(self.sample.message(group)?)?;
            let known = |time: Picos| Some(time).filter(|time| *time != NEVER);
            Some(SampledMessage {
                connection: self.layout.ring.connection(place),
                size: self.layout.message(place, index).size,
                start: times[0],
                arrival: known(times[1]),
                acknowledged: known(times[2]),
            })
        })
    }

    /// Counts the messages that started in a phase and have a selected size. Returns the number of finished messages
    /// and the number of other messages.
    pub(super) fn counts(&self, phase: usize, includes_size: impl Fn(Bytes) -> bool) -> (u64, u64) {
        let selected = self.phases[phase].by_size.iter().filter(|count| includes_size(count.size));
        selected.fold((0, 0), |(finished, unfinished), count| {
            (finished + count.finished, unfinished + count.started.saturating_sub(count.finished))
        })
    }
}
