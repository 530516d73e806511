//! Writes a run as a Perfetto trace, which `ui.perfetto.dev` opens in the browser without uploading it.
//!
//! | in the trace | rows |
//! |---|---|
//! | processes | hosts and switches |
//! | counters of a switch port | queue, delay and rate of each sample |
//! | counters of a connection, at its sender | window, in flight, RTT, target, hop delay, pacing rate and goodput |
//! | slices | messages, at their sender; PFC pauses, at the paused port |
//! | arrows | from a message to a message that it released, such as the next step of a collective |
//! | instants | drops; marks, one per port and sampling interval |
//!
//! Times are rounded down to nanoseconds. A counter has a value only where it changes. Each kind of row has a share of
//! the file's size limit. Rows beyond it are counted, not written.

mod budget;
mod dependencies;
mod messages;
mod names;
mod proto;
mod sink;
mod writer;

pub use budget::TraceSummary;
pub use sink::PerfettoSink;
