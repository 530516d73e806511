//! The state of a ring during a run.

use super::{RingLayout, RingPlace};
use core::ops::Range;

/// The messages of a ring that have been received, and the repetitions that its ranks have started.
///
/// A backend that simulates only some of the ranks reports only the messages that these ranks receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingProgress {
    /// The number of messages that have been received on each connection.
    received: Vec<u32>,
    /// The number of repetitions that each rank has started.
    started: Vec<u32>,
}

/// What happens when a message of a ring has been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingEvent {
    /// The place and the index of the message that starts now.
    pub starts: Option<(RingPlace, u32)>,
    /// The receiving rank.
    pub rank: u32,
    /// The repetition to which the message belongs.
    pub repetition: u32,
    /// Whether the rank has now received all messages of the repetition.
    pub finishes_repetition: bool,
}

impl RingProgress {
    /// Creates the state at the start of the ring: every rank has started the first repetition.
    pub fn new(layout: &RingLayout) -> Self {
        let ring = &layout.ring;
        Self {
            received: vec![0; ring.channels as usize * ring.ranks as usize],
            started: vec![1; ring.ranks as usize],
        }
    }

    /// Records that the next message of a connection has been received. Each connection delivers its messages in order.
    pub fn on_received(&mut self, layout: &RingLayout, place: RingPlace) -> RingEvent {
        let ring = &layout.ring;
        let received = &mut self.received[(place.channel * ring.ranks + place.position) as usize];
        let index = *received;
        *received += 1;
        let per_repetition = layout.repetition_messages_at(place);
        let (repetition, index) = (index / per_repetition, index % per_repetition);
        let next = ring.next(place);
        let rank = ring.rank(next);
        // The receiver sends the block on in its next step, after the blocks of its first step.
        let dependent = layout.first_messages_at(next) + index;
        let next_per_repetition = layout.repetition_messages_at(next);
        let is_due = dependent < next_per_repetition && repetition < self.started[rank as usize];
        RingEvent {
            starts: is_due.then_some((next, repetition * next_per_repetition + dependent)),
            rank,
            repetition,
            finishes_repetition: index + 1 == per_repetition && self.has_received(layout, rank, repetition),
        }
    }

    /// Returns whether a rank has received all messages of a repetition, in all channels.
    fn has_received(&self, layout: &RingLayout, rank: u32, repetition: u32) -> bool {
        let ring = &layout.ring;
        (0..ring.channels).all(|channel| {
            let place = ring.previous(ring.place_of(channel, rank));
            self.received_at(layout, place) >= (repetition + 1) * layout.repetition_messages_at(place)
        })
    }

    fn received_at(&self, layout: &RingLayout, place: RingPlace) -> u32 {
        self.received[(place.channel * layout.ring.ranks + place.position) as usize]
    }

    /// Starts the next repetition of a rank. Returns the messages that start now, as indices of each of the rank's
    /// connections.
    pub fn start_repetition(&mut self, layout: &RingLayout, rank: u32) -> Vec<(RingPlace, Range<u32>)> {
        let ring = layout.ring;
        let repetition = self.started[rank as usize];
        self.started[rank as usize] += 1;
        let messages = |channel: u32| {
            let place = ring.place_of(channel, rank);
            let previous = ring.previous(place);
            let before = repetition * layout.repetition_messages_at(previous);
            // The previous rank can be ahead by one repetition.
            let received = self.received_at(layout, previous).saturating_sub(before);
            let per_repetition = layout.repetition_messages_at(place);
            let count = (layout.first_messages_at(place) + received).min(per_repetition);
            let first = repetition * per_repetition;
            (place, first..first + count)
        };
        (0..ring.channels).map(messages).collect()
    }
}
