//! Merges and sorts result rows.
//!
//! Each shard collects rows during a window. The first shard sorts the rows from all shards, so the row order
//! does not depend on the number of shards.

use poseidon_plan::records::{MemorySink, RecordedRows, Sink};
use poseidon_types::Picos;

/// Sorts a window's rows by time and moves them to the sink. A captured packet can arrive in a later window than the
/// one that ends at `end`. Its row stays until then.
pub(crate) fn drain_to_sink(rows: &mut MemorySink, sink: &mut dyn Sink, end: Picos) {
    rows.messages.sort_unstable_by_key(|row| (row.acknowledged, row.message));
    rows.received.sort_unstable_by_key(|row| (row.time, row.message));
    rows.drops.sort_unstable_by_key(|row| (row.time, row.switch, row.connection, row.packet, row.cause));
    rows.trims.sort_unstable_by_key(|row| (row.switch, row.port));
    rows.pause_times.sort_unstable_by_key(|row| row.port);
    rows.pause_waits.sort_unstable();
    rows.queues.sort_unstable_by_key(|row| (row.time, row.switch, row.port));
    rows.senders.sort_unstable_by_key(|row| (row.time, row.connection));
    rows.receivers.sort_unstable_by_key(|row| (row.time, row.connection));
    rows.decisions.sort_unstable_by_key(|row| (row.time, row.connection, row.packet));
    rows.messages.drain(..).for_each(|row| sink.record_message(row));
    rows.received.drain(..).for_each(|row| sink.record_received(row));
    rows.drops.drain(..).for_each(|row| sink.record_drop(row));
    rows.trims.drain(..).for_each(|row| sink.record_trims(row));
    rows.pause_times.drain(..).for_each(|row| sink.record_pause_time(row));
    rows.pause_waits.drain(..).for_each(|row| sink.record_pause_wait(row));
    rows.queues.drain(..).for_each(|row| sink.record_queue(row));
    rows.senders.drain(..).for_each(|row| sink.record_sender(row));
    rows.receivers.drain(..).for_each(|row| sink.record_receiver(row));
    rows.decisions.drain(..).for_each(|row| sink.record_decision(row));
    if !is_empty_recording(&rows.recorded) {
        drain_recorded(&mut rows.recorded, sink, end);
    }
}

/// Sorts the rows of a recording and moves them to the sink, up to `end`.
fn drain_recorded(rows: &mut RecordedRows, sink: &mut dyn Sink, end: Picos) {
    rows.marks.sort_unstable_by_key(|row| (row.time, row.switch, row.port, row.connection, row.packet));
    rows.pauses.sort_unstable_by_key(|row| (row.time, row.port, row.priority, row.paused));
    rows.law_states.sort_unstable_by_key(|row| (row.time, row.connection, row.packet));
    // Two packets at one port, at one time and with one direction differ in at least one of these fields.
    rows.packets.sort_unstable_by_key(|row| {
        let packet = &row.packet;
        (
            row.time,
            row.port,
            row.event,
            packet.connection,
            packet.kind,
            packet.number,
            packet.cumulative_ack,
            packet.priority,
        )
    });
    rows.marks.drain(..).for_each(|row| sink.record_mark(row));
    rows.pauses.drain(..).for_each(|row| sink.record_pause(row));
    rows.law_states.drain(..).for_each(|row| sink.record_law_state(row));
    let ready = rows.packets.partition_point(|row| row.time < end);
    rows.packets.drain(..ready).for_each(|row| sink.record_packet(row));
}

/// Moves all rows from `from` to the end of `to`.
pub(crate) fn append(to: &mut MemorySink, from: &mut MemorySink) {
    to.messages.append(&mut from.messages);
    to.received.append(&mut from.received);
    to.drops.append(&mut from.drops);
    to.trims.append(&mut from.trims);
    to.pause_times.append(&mut from.pause_times);
    to.pause_waits.append(&mut from.pause_waits);
    to.queues.append(&mut from.queues);
    to.senders.append(&mut from.senders);
    to.receivers.append(&mut from.receivers);
    to.decisions.append(&mut from.decisions);
    to.recorded.marks.append(&mut from.recorded.marks);
    to.recorded.pauses.append(&mut from.recorded.pauses);
    to.recorded.law_states.append(&mut from.recorded.law_states);
    to.recorded.packets.append(&mut from.recorded.packets);
}

pub(crate) fn is_empty(rows: &MemorySink) -> bool {
    rows.messages.is_empty()
        && rows.received.is_empty()
        && rows.drops.is_empty()
        && rows.trims.is_empty()
        && rows.pause_times.is_empty()
        && rows.pause_waits.is_empty()
        && rows.queues.is_empty()
        && rows.senders.is_empty()
        && rows.receivers.is_empty()
        && rows.decisions.is_empty()
        && is_empty_recording(&rows.recorded)
}

const fn is_empty_recording(rows: &RecordedRows) -> bool {
    rows.marks.is_empty() && rows.pauses.is_empty() && rows.law_states.is_empty() && rows.packets.is_empty()
}
