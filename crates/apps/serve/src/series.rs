//! The lines of live plots.

use serde::Serialize;

/// What a series shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeriesKind {
    /// The payload rate per flow in Gbps, as the mean over the flows that receive data.
    Rate,
    /// The longest queue in each interval, in kilobytes.
    Queue,
    /// The number of finished messages.
    Messages,
    /// The number of dropped packets.
    Drops,
}

/// A line of a live plot.
#[derive(Clone, Debug)]
pub(crate) struct LiveSeries {
    pub(crate) info: SeriesInfo,
    /// Pairs of a time in microseconds and a value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The description of a live series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SeriesInfo {
    pub(crate) kind: SeriesKind,
    /// The traffic or the queue; empty for the whole run.
    pub(crate) of: String,
    /// The number of flows, for rates.
    pub(crate) flows: usize,
    /// The cell.
    pub(crate) cell: String,
    /// The law that determines the colour, if there is only one.
    pub(crate) law: Option<String>,
    /// The end of the measured part in microseconds.
    pub(crate) end_us: u64,
    /// The position of the run among all runs, which orders the lines of a plot.
    pub(crate) order: usize,
}
