//! Merges and sorts result rows.
//!
//! Each shard collects rows during a window. The first shard sorts the rows from all shards, so the row order
//! does not depend on the number of shards.

use poseidon_plan::records::{MemorySink, Sink};

/// Sorts a window's rows by time and moves them to the sink.
pub(crate) fn drain_to_sink(rows: &mut MemorySink, sink: &mut dyn Sink) {
    rows.messages.sort_unstable_by_key(|row| (row.acknowledged, row.message));
    rows.received.sort_unstable_by_key(|row| (row.time, row.message));
    rows.drops.sort_unstable_by_key(|row| (row.time, row.switch, row.connection, row.packet, row.cause));
    rows.queues.sort_unstable_by_key(|row| (row.time, row.switch, row.port));
    rows.senders.sort_unstable_by_key(|row| (row.time, row.connection));
    rows.receivers.sort_unstable_by_key(|row| (row.time, row.connection));
    rows.decisions.sort_unstable_by_key(|row| (row.time, row.connection, row.packet));
    rows.messages.drain(..).for_each(|row| sink.record_message(row));
    rows.received.drain(..).for_each(|row| sink.record_received(row));
    rows.drops.drain(..).for_each(|row| sink.record_drop(row));
    rows.queues.drain(..).for_each(|row| sink.record_queue(row));
    rows.senders.drain(..).for_each(|row| sink.record_sender(row));
    rows.receivers.drain(..).for_each(|row| sink.record_receiver(row));
    rows.decisions.drain(..).for_each(|row| sink.record_decision(row));
}

/// Moves all rows from `from` to the end of `to`.
pub(crate) fn append(to: &mut MemorySink, from: &mut MemorySink) {
    to.messages.append(&mut from.messages);
    to.received.append(&mut from.received);
    to.drops.append(&mut from.drops);
    to.queues.append(&mut from.queues);
    to.senders.append(&mut from.senders);
    to.receivers.append(&mut from.receivers);
    to.decisions.append(&mut from.decisions);
}

pub(crate) fn is_empty(rows: &MemorySink) -> bool {
    rows.messages.is_empty()
        && rows.received.is_empty()
        && rows.drops.is_empty()
        && rows.queues.is_empty()
        && rows.senders.is_empty()
        && rows.receivers.is_empty()
        && rows.decisions.is_empty()
}
