//! What a run comes down to: numbers by name and phase, series, distributions.

use crate::bound::Bounds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run comes down to. Names carry their unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Phase by phase; a run without phases has one, `all`.
    pub phases: Vec<PhaseSummary>,
    /// What was written down over time: microseconds and values. Of the first seed only.
    #[serde(default)]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Distributions: values and the share of samples that do not exceed them.
    #[serde(default)]
    pub distributions: BTreeMap<String, Vec<(f64, f64)>>,
    /// Start and finish of each message, microseconds. Of the first seed only.
    #[serde(default)]
    pub finishes: BTreeMap<String, Vec<(f64, f64)>>,
}

/// The numbers of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// Its name.
    pub name: String,
    /// When it begins and ends, microseconds.
    pub begins_us: f64,
    /// See `begins_us`.
    pub ends_us: f64,
    /// From when on its rates and queues are measured, microseconds.
    #[serde(default)]
    pub measured_from_us: f64,
    /// From when on a message must start to count in it, microseconds.
    #[serde(default)]
    pub messages_from_us: f64,
    /// Numbers by name.
    pub values: BTreeMap<String, f64>,
    /// Numbers that cannot be given, with the reason: too few samples, or messages that never finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, Missing>,
}

impl PhaseSummary {
    /// What is known of a number.
    pub fn bounds(&self, name: &str) -> Option<Bounds> {
        let at_least = || self.missing.get(name)?.at_least.map(Bounds::at_least);
        self.values.get(name).copied().map(Bounds::exact).or_else(at_least)
    }
}

/// Why a number cannot be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// In words: `not reached (3.5 % unfinished)`, `p99 needs 1,000 messages, there are 820`.
    pub reason: String,
    /// What it is greater than, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

/// A metric that summaries have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// What follows the name of a traffic or a queue, or `run`.
    pub name: &'static str,
    /// Whose it is.
    pub of: &'static str,
    /// What it says.
    pub says: &'static str,
}

/// Every metric, for the reference and for advice about names.
pub const METRICS: &[MetricInfo] = &[
    metric("flows", "long flows", "how many run while the phase is measured"),
    metric("rate_gbps", "long flows", "payload that arrives, the mean flow"),
    metric("rate_min_gbps", "long flows", "the slowest flow"),
    metric("rate_max_gbps", "long flows", "the fastest flow"),
    metric("total_gbps", "long flows", "all flows together"),
    metric("fair_share_gbps", "long flows", "max-min fair share in payload, the mean flow"),
    metric("share", "long flows", "rate over fair share, the mean flow"),
    metric("share_min", "long flows", "rate over fair share, the worst flow"),
    metric(
        "fairness_gap",
        "long flows",
        "largest distance of any flow's rate from its fair share, as a part of it",
    ),
    metric("jain", "long flows", "Jain's index of the rates"),
    metric("rate_sd_gbps", "long flows", "standard deviation of rates over flows and bins"),
    metric("rate_sd_share", "long flows", "the same as a part of the mean fair share"),
    metric(
        "wobble_gbps",
        "long flows",
        "standard deviation of a flow's rate over bins around its own mean, the mean flow",
    ),
    metric(
        "t90_us",
        "long flows that begin in the phase",
        "from the start to 90 % of the fair share, averaged over a bin; the slowest flow",
    ),
    metric(
        "t90_reached",
        "long flows that begin in the phase",
        "the part of them that got there; the others count with the time they had",
    ),
    metric("cuts_to_t90", "long flows with decisions", "window cuts until then, the mean flow"),
    metric(
        "converged_us",
        "long flows",
        "from the beginning of the phase until Jain's index of every later bin is at least 0.95",
    ),
    metric(
        "fair_us",
        "flows with rates",
        "from the beginning of the phase until Jain's index of those that send, over a bin that slides, is at least 0.95 for as long as a bin; the time they had, where it never is",
    ),
    metric("fair_reached", "flows with rates", "1 where it ever is, else 0"),
    metric("jain_mean", "flows with rates", "Jain's index of those that send, mean over bins"),
    metric("window_packets", "long flows", "what the law allows in flight, mean"),
    metric("srtt_us", "long flows", "smoothed round-trip time, mean"),
    metric("rtt_mean_us", "traffic with decisions", "round-trip time of ACKs"),
    metric("rtt_p50_us", "traffic with decisions", "its median"),
    metric("rtt_p99_us", "traffic with decisions", "its 99th percentile"),
    metric("rtt_p999_us", "traffic with decisions", "its 99.9th percentile"),
    metric("queueing_us", "traffic with decisions", "mean round-trip time less the unloaded one"),
    metric("signal_us", "traffic with decisions", "mean of the largest hop delay that the law was told"),
    metric("target_us", "traffic with decisions under Poseidon", "T of Eq. 3 at the mean rate"),
    metric("cuts", "traffic with decisions", "window cuts, the mean flow"),
    metric("messages", "messages", "how many finished and count"),
    metric("unfinished", "messages", "how many had begun and not finished when the run ended"),
    metric("unfinished_share", "messages", "those as a part of all that had begun"),
    metric("latency_mean_us", "messages", "from handing over to the last byte acknowledged"),
    metric("latency_p50_us", "messages", "its median"),
    metric("latency_p99_us", "messages", "its 99th percentile"),
    metric("latency_p999_us", "messages", "its 99.9th percentile"),
    metric("arrival_p50_us", "messages", "from handing over to the last byte at the receiver, median"),
    metric("arrival_p999_us", "messages", "its 99.9th percentile"),
    metric("slowdown_p50", "messages", "latency over that of an empty network, median"),
    metric("slowdown_p99", "messages", "its 99th percentile"),
    metric("slowdown_p999", "messages", "its 99.9th percentile"),
    metric("finish_spread_us", "messages", "from the first finish to the last"),
    metric("finish_last_us", "messages", "from the beginning of the phase to the last finish"),
    metric(
        "finish_order",
        "messages",
        "rank correlation of starts and finishes: 1 where who starts first finishes first, -1 the other way",
    ),
    metric("delay_mean_us", "queues", "how long packets wait, mean over samples"),
    metric("delay_p50_us", "queues", "its median"),
    metric("delay_p99_us", "queues", "its 99th percentile"),
    metric("waiting_mean_bytes", "queues", "bytes waiting, mean over samples"),
    metric("waiting_p50_bytes", "queues", "its median"),
    metric("waiting_p99_bytes", "queues", "its 99th percentile"),
    metric("waiting_max_bytes", "queues", "bytes waiting, largest sample"),
    metric("waiting_swing_bytes", "queues", "the largest sample less the smallest"),
    metric(
        "waiting_ripple_bytes",
        "queues",
        "the same within a bin, mean over bins: how it swings, without how it drifts",
    ),
    metric("utilisation", "queues", "bytes sent over what the link could have sent"),
    metric("utilisation_min", "queues", "the same in the bin where it is least"),
    metric("buffer_mean_bytes", "buffers", "bytes in a switch, the largest sample of each bin, mean"),
    metric("buffer_p50_bytes", "buffers", "its median"),
    metric("buffer_p99_bytes", "buffers", "its 99th percentile"),
    metric("buffer_max_bytes", "buffers", "the largest"),
    metric("drops", "run", "packets dropped, whole run"),
    metric("retransmitted", "run", "data packets sent again, whole run"),
    metric("timeouts", "run", "timers that fired after silence, whole run"),
    metric("marks", "run", "congestion marks, whole run"),
    metric("marks_taken_share", "run", "of those, the share that a packet or an ACK took along"),
    metric("repaths", "run", "changes of path, whole run"),
    metric("pauses", "run", "times that a node was told to stop, whole run"),
    metric("decisions", "run", "ACKs that laws saw, whole run"),
    metric("telemetry_share", "run", "of those, with telemetry from a hop"),
    metric("packet_hops", "run", "packets that crossed a link, whole run"),
    metric("late_ms", "run", "on real packets: how late the machine was at worst"),
];

const fn metric(name: &'static str, of: &'static str, says: &'static str) -> MetricInfo {
    MetricInfo { name, of, says }
}
