//! Checks that a plan's rings are valid.

use super::layout::number_count;
use super::{Ring, RingPlace};
use crate::traffic::{Connection, Message};
use poseidon_types::{Bytes, HostId};

/// A ring that a plan cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRing {
    /// The index of the ring.
    pub(crate) index: usize,
    pub(crate) reason: &'static str,
}

/// Checks the rings of a plan, whose connections and messages are valid.
pub(crate) fn check_rings(
    rings: &[Ring],
    connections: &[Connection],
    messages: &[Message],
) -> Result<(), InvalidRing> {
    if rings.is_empty() {
        return Ok(());
    }
    // Whether each connection already has messages.
    let mut is_used = vec![false; connections.len()];
    messages.iter().for_each(|message| is_used[message.connection.index()] = true);
    let mut next_number = messages.len() as u64;
    let mut next_connection = 0;
    for (index, ring) in rings.iter().enumerate() {
        let reject = |reason| Err(InvalidRing { index, reason });
        if let Some(reason) = invalid_setting(ring) {
            return reject(reason);
        }
        let first_number = next_number;
        next_number = next_number.saturating_add(number_count(ring));
        if next_number > u64::from(u32::MAX) {
            return reject("the plan has more than 2^32 messages; use fewer ranks, channels or repetitions");
        }
        if u64::from(ring.first_message.get()) != first_number {
            return reject("the numbers of its messages must follow those of the other messages");
        }
        let first = ring.first_connection.index();
        let count = ring.channels as usize * ring.ranks as usize;
        let of_ring = connections.get(first..).and_then(|rest| rest.get(..count));
        let Some(of_ring) = of_ring else { return reject("a connection does not exist") };
        if first < next_connection {
            return reject("its connections must come after those of the previous ring");
        }
        next_connection = first + count;
        for is_used in &mut is_used[first..first + count] {
            if core::mem::replace(is_used, true) {
                return reject("other messages use its connections");
            }
        }
        if let Some(reason) = invalid_connections(ring, of_ring) {
            return reject(reason);
        }
    }
    Ok(())
}

/// Returns what is wrong with the numbers of a ring.
fn invalid_setting(ring: &Ring) -> Option<&'static str> {
    let parts = u64::from(ring.ranks).saturating_mul(ring.channels.into());
    let conditions = [
        (ring.ranks < 2, "it has fewer than two ranks"),
        (ring.channels == 0, "it has no channels"),
        (ring.steps == 0 || ring.repetitions == 0, "it has no steps or no repetitions"),
        (ring.lag > 1, "its lag is above 1"),
        (ring.chunk.is_some_and(Bytes::is_zero), "its chunks are empty"),
        (ring.size.get() < parts, "it has less than one byte per rank and channel"),
        (
            ring.ranks_per_server == 0 || !ring.ranks.is_multiple_of(ring.ranks_per_server),
            "its ranks do not form complete servers",
        ),
        (parts > u64::from(u32::MAX), "it has more than 2^32 connections"),
    ];
    conditions.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, reason)| reason)
}

/// Returns what is wrong with the connections of a ring.
fn invalid_connections(ring: &Ring, connections: &[Connection]) -> Option<&'static str> {
    let at = |place: RingPlace| connections[(place.channel * ring.ranks + place.position) as usize];
    let host = |channel: u32, rank: u32| -> HostId { at(ring.place_of(channel, rank)).from };
    for place in ring.places() {
        if at(place).to != at(ring.next(place)).from {
            return Some("a connection does not end where the next connection starts");
        }
        if at(place).from != host(0, ring.rank(place)) {
            return Some("a rank is on different hosts in different channels");
        }
    }
    None
}
