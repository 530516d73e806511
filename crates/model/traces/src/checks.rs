//! Checks that the flow list formats share.

use crate::error::{Feature, TraceError, TraceErrorKind, WriteError, WriteErrorKind};
use crate::flows::{FlowFile, FlowStart, TraceFlow};
use crate::text::Line;
use poseidon_types::Picos;

/// The number of items for which a reader reserves memory before it has read them.
const MAX_RESERVED: usize = 1 << 16;

/// Returns an error if the file announces more items than the caller allows.
pub(crate) fn check_announced(
    line: Line<'_>,
    items: &'static str,
    announced: u64,
    limit: usize,
) -> Result<(), TraceError> {
    match usize::try_from(announced) {
        Ok(announced) if announced <= limit => Ok(()),
        Ok(_) | Err(_) => Err(line.error(TraceErrorKind::TooMany { items, limit })),
    }
}

/// Appends an item, or returns an error if the list has already reached the limit.
pub(crate) fn push_limited<T>(
    line: Line<'_>,
    items: &'static str,
    list: &mut Vec<T>,
    item: T,
    limit: usize,
) -> Result<(), TraceError> {
    if list.len() >= limit {
        return Err(line.error(TraceErrorKind::TooMany { items, limit }));
    }
    list.push(item);
    Ok(())
}

/// Returns an empty list for an announced number of items. A large number reserves only part of the memory.
pub(crate) fn reserve<T>(announced: u64) -> Vec<T> {
    Vec::with_capacity(
        usize::try_from(announced).map_or(MAX_RESERVED, |announced| announced.min(MAX_RESERVED)),
    )
}

/// Returns an error if a flow that was read is empty or sends to itself.
pub(crate) fn check_read_flow(line: Line<'_>, flow: &TraceFlow) -> Result<(), TraceError> {
    if flow.size.is_zero() {
        return Err(line.error(TraceErrorKind::EmptyFlow));
    }
    if flow.from == flow.to {
        return Err(line.error(TraceErrorKind::SameEnds { node: flow.from }));
    }
    Ok(())
}

/// Returns an error if a reader would refuse a flow because it is empty or sends to itself.
pub(crate) const fn check_written_flow(flow: &TraceFlow) -> Result<(), WriteErrorKind> {
    if flow.size.is_zero() {
        return Err(WriteErrorKind::EmptyFlow);
    }
    if flow.from == flow.to {
        return Err(WriteErrorKind::SameEnds);
    }
    Ok(())
}

/// Returns an error if a file has more than a list of flows.
pub(crate) const fn check_plain_file(file: &FlowFile) -> Result<(), WriteError> {
    let feature = if !file.triggers.is_empty() {
        Feature::Trigger
    } else if !file.failures.is_empty() {
        Feature::Failure
    } else if file.nodes.is_some() {
        Feature::NodeCount
    } else {
        return Ok(());
    };
    Err(WriteError { item: None, kind: WriteErrorKind::Unsupported(feature) })
}

/// Returns the start of a flow that has only ends, size, start and priority. Returns an error for any other flow.
pub(crate) fn check_plain_flow(flow: &TraceFlow) -> Result<Picos, WriteErrorKind> {
    check_written_flow(flow)?;
    let start = match flow.start {
        FlowStart::At(start) => start,
        FlowStart::OnTrigger(_) => return Err(WriteErrorKind::Unsupported(Feature::Trigger)),
    };
    if flow.send_done.is_some() || flow.receive_done.is_some() {
        return Err(WriteErrorKind::Unsupported(Feature::Trigger));
    }
    if flow.message.is_some() {
        return Err(WriteErrorKind::Unsupported(Feature::Message));
    }
    if flow.id.is_some() {
        return Err(WriteErrorKind::Unsupported(Feature::Id));
    }
    Ok(start)
}
