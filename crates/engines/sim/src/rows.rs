//! Rows on their way to the sink: collected while a window runs, handed over in an order that does not depend on who wrote them.

use poseidon_plan::records::{Kept, Sink};

/// Hands over the rows of a window, in order of time, and leaves none.
pub(crate) fn hand_over(rows: &mut Kept, sink: &mut dyn Sink) {
    rows.messages.sort_unstable_by_key(|row| (row.acknowledged, row.message));
    rows.received.sort_unstable_by_key(|row| (row.at, row.message));
    rows.drops.sort_unstable_by_key(|row| (row.at, row.switch, row.connection, row.packet, row.cause));
    rows.queues.sort_unstable_by_key(|row| (row.at, row.switch, row.port));
    rows.senders.sort_unstable_by_key(|row| (row.at, row.connection));
    rows.receivers.sort_unstable_by_key(|row| (row.at, row.connection));
    rows.decisions.sort_unstable_by_key(|row| (row.at, row.connection, row.packet));
    rows.messages.drain(..).for_each(|row| sink.message(row));
    rows.received.drain(..).for_each(|row| sink.received(row));
    rows.drops.drain(..).for_each(|row| sink.drop(row));
    rows.queues.drain(..).for_each(|row| sink.queue(row));
    rows.senders.drain(..).for_each(|row| sink.sender(row));
    rows.receivers.drain(..).for_each(|row| sink.receiver(row));
    rows.decisions.drain(..).for_each(|row| sink.decision(row));
}

/// Moves rows from one place to another.
pub(crate) fn append(to: &mut Kept, from: &mut Kept) {
    to.messages.append(&mut from.messages);
    to.received.append(&mut from.received);
    to.drops.append(&mut from.drops);
    to.queues.append(&mut from.queues);
    to.senders.append(&mut from.senders);
    to.receivers.append(&mut from.receivers);
    to.decisions.append(&mut from.decisions);
}

/// Whether there are none.
pub(crate) fn is_empty(rows: &Kept) -> bool {
    rows.messages.is_empty()
        && rows.received.is_empty()
        && rows.drops.is_empty()
        && rows.queues.is_empty()
        && rows.senders.is_empty()
        && rows.receivers.is_empty()
        && rows.decisions.is_empty()
}
