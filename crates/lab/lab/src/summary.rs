//! The summary of a run: metrics by name and phase, time series and distributions.

use crate::bound::Bounds;
use crate::samples::MessageStorage;
use crate::scenario::Label;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The summary of one run. Metric names end with their unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The phases. A run without phases has a single phase named `all`.
    pub phases: Vec<PhaseSummary>,
    /// Time series as pairs of a time in microseconds and a value. Only the first seed has time series.
    #[serde(default)]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Distributions as pairs of a value and the share of samples that do not exceed this value.
    #[serde(default)]
    pub distributions: BTreeMap<String, Vec<(f64, f64)>>,
    /// The start and finish times of each message in microseconds. Only the first seed has these times.
    #[serde(default)]
    pub finishes: BTreeMap<String, Vec<(f64, f64)>>,
    /// The repetitions of each collective.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collectives: BTreeMap<String, CollectiveSummary>,
}

/// The repetitions of a collective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveSummary {
    /// The algorithm.
    pub algorithm: String,
    /// The operation.
    pub operation: String,
    /// The number of ranks.
    pub ranks: u32,
    /// The size from which nccl-tests computes bandwidths.
    pub size_bytes: u64,
    /// The ratio of bus bandwidth to algorithm bandwidth.
    pub bus_factor: f64,
    /// The completion time of each finished repetition in microseconds.
    pub times_us: Vec<f64>,
}

/// The result of one run: its cell, seed, summary and message times.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The cell labels, which the runs of a cell share.
    pub labels: Arc<[Label]>,
    /// The seed.
    pub seed: u64,
    /// The metrics.
    pub summary: Arc<Summary>,
    /// The completion times of the messages.
    pub messages: MessageStorage,
}

/// The metrics of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// The phase name.
    pub name: String,
    /// The start of the phase in microseconds.
    pub begins_us: f64,
    /// The end of the phase in microseconds.
    pub ends_us: f64,
    /// The start of the rate and queue measurement in microseconds.
    #[serde(default)]
    pub measured_from_us: f64,
    /// The time in microseconds from which messages count. Messages that start earlier are ignored.
    #[serde(default)]
    pub messages_from_us: f64,
    /// The values, keyed by metric name.
    pub values: BTreeMap<String, f64>,
    /// Metrics without a value: too few samples, or messages that never finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, MissingValue>,
}

impl PhaseSummary {
    /// Returns what is known about a metric: its value, or a lower bound.
    pub fn bounds(&self, name: &str) -> Option<Bounds> {
        let at_least = || self.missing.get(name)?.at_least.map(Bounds::at_least);
        self.values.get(name).copied().map(Bounds::exact).or_else(at_least)
    }
}

/// A metric without a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissingValue {
    /// The reason: `not reached (3.5 % unfinished)`, `p99 needs 1,000 messages, there are 820`.
    pub reason: String,
    /// A lower bound, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

/// A metric and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// The part of the metric name that follows the traffic name, the queue name or `run`.
    pub name: &'static str,
    /// What the metric describes: messages, queues, ...
    pub subject: &'static str,
    /// The meaning of the metric.
    pub description: &'static str,
}

/// The metrics that tables show first. The summaries contain all metrics.
pub const MAIN_METRICS: &[&str] = &[
    "completion_us",
    "algbw_gb_per_s",
    "busbw_gb_per_s",
    "straggler",
    "messages",
    "unfinished",
    "unfinished_share",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "finish_last_us",
    "rate_gbps",
    "fair_share_gbps",
    "jain",
    "slowdown_p50",
    "slowdown_p99",
    "link_bytes_max",
    "delay_mean_us",
    "utilisation",
];

/// All metrics, for the reference page and for suggestions when a name is misspelled.
pub const METRICS: &[MetricInfo] = &[
    metric("flows", "long flows", "number of flows that run during the measured part of the phase"),
    metric("rate_gbps", "long flows", "payload rate at the receiver, mean over flows"),
    metric("rate_min_gbps", "long flows", "payload rate of the slowest flow"),
    metric("rate_max_gbps", "long flows", "payload rate of the fastest flow"),
    metric("total_gbps", "long flows", "sum of the rates of all flows"),
    metric("fair_share_gbps", "long flows", "max-min fair share of the payload rate, mean over flows"),
    metric("share", "long flows", "rate divided by fair share, mean over flows"),
    metric("share_min", "long flows", "rate divided by fair share, smallest over flows"),
    metric("fairness_gap", "long flows", "largest relative deviation of a flow's rate from its fair share"),
    metric("jain", "long flows", "Jain's index of the rates"),
    metric("rate_sd_gbps", "long flows", "standard deviation of rates over flows and bins"),
    metric("rate_sd_share", "long flows", "rate_sd_gbps divided by the mean fair share"),
    metric("wobble_gbps", "long flows", "standard deviation of one flow's rate over bins, mean over flows"),
    metric(
        "t90_us",
        "long flows that start in the phase",
        "time from the start until the rate over a bin reaches 90 % of the fair share, slowest flow",
    ),
    metric(
        "t90_reached",
        "long flows that start in the phase",
        "share of flows that reach 90 %; the others count in t90_us with the time they had",
    ),
    metric("cuts_to_t90", "long flows with decisions", "window cuts until t90_us, mean over flows"),
    metric(
        "converged_us",
        "long flows",
        "time from the start of the phase until Jain's index stays at or above 0.95",
    ),
    metric(
        "fair_us",
        "flows with rates",
        "time from the start of the phase until Jain's index of the active flows, over a sliding bin, stays at or above 0.95 for one bin; the time they had if it never does",
    ),
    metric("fair_reached", "flows with rates", "1 if fair_us was reached, else 0"),
    metric("jain_mean", "flows with rates", "Jain's index of the active flows, mean over bins"),
    metric("window_packets", "long flows", "congestion window, mean"),
    metric(
        "window_sd_packets",
        "long flows",
        "its standard deviation over flows and samples, in fractions of a packet; unlike rate_sd_gbps, it does not depend on how many packets a bin holds",
    ),
    metric("srtt_us", "long flows", "smoothed RTT, mean"),
    metric("rtt_mean_us", "traffic with decisions", "RTT of ACKs, mean"),
    metric("rtt_p50_us", "traffic with decisions", "its median"),
    metric("rtt_p99_us", "traffic with decisions", "its 99th percentile"),
    metric("rtt_p999_us", "traffic with decisions", "its 99.9th percentile"),
    metric("queueing_us", "traffic with decisions", "mean RTT minus the RTT of an empty network"),
    metric("signal_us", "traffic with decisions", "largest hop delay that the law received, mean over ACKs"),
    metric("target_us", "traffic with decisions under Poseidon", "target delay T of Eq. 3 at the mean rate"),
    metric("cuts", "traffic with decisions", "window cuts, mean over flows"),
    metric("messages", "messages", "number of counted messages that finished"),
    metric(
        "unfinished",
        "messages",
        "number of messages that had started but not finished when the run ended",
    ),
    metric("unfinished_share", "messages", "share of started messages that did not finish"),
    metric("latency_mean_us", "messages", "time from submission to the ACK of the last byte, mean"),
    metric("latency_p50_us", "messages", "its median"),
    metric("latency_p99_us", "messages", "its 99th percentile"),
    metric("latency_p999_us", "messages", "its 99.9th percentile"),
    metric("arrival_p50_us", "messages", "time from submission until the receiver has the last byte, median"),
    metric("arrival_p999_us", "messages", "its 99.9th percentile"),
    metric("slowdown_p50", "messages", "latency divided by the latency of an empty network, median"),
    metric("slowdown_p99", "messages", "its 99th percentile"),
    metric("slowdown_p999", "messages", "its 99.9th percentile"),
    metric("finish_spread_us", "messages", "time between the first and the last finish"),
    metric("finish_last_us", "messages", "time from the start of the phase to the last finish"),
    metric(
        "finish_order",
        "messages",
        "rank correlation of start and finish times: 1 if messages finish in the order they start, -1 in reverse order",
    ),
    metric("delay_mean_us", "queues", "queueing delay, mean over samples"),
    metric("delay_p50_us", "queues", "its median"),
    metric("delay_p95_us", "queues", "its 95th percentile"),
    metric("delay_p99_us", "queues", "its 99th percentile"),
    metric("waiting_mean_bytes", "queues", "queue length, mean over samples"),
    metric("waiting_p50_bytes", "queues", "its median"),
    metric("waiting_p95_bytes", "queues", "its 95th percentile"),
    metric("waiting_p99_bytes", "queues", "its 99th percentile"),
    metric("waiting_max_bytes", "queues", "queue length, largest sample"),
    metric("waiting_swing_bytes", "queues", "largest minus smallest queue length"),
    metric(
        "waiting_ripple_bytes",
        "queues",
        "largest minus smallest queue length within a bin, mean over bins; it excludes slow drift",
    ),
    metric("trimmed_packets", "queues", "packets that the port trimmed in the whole run"),
    metric("utilisation", "queues", "bytes sent divided by the capacity of the link"),
    metric("utilisation_min", "queues", "utilisation of the least utilised bin"),
    metric(
        "buffer_mean_bytes",
        "buffers",
        "bytes buffered in a switch: the largest sample of each bin, mean over bins",
    ),
    metric("buffer_p50_bytes", "buffers", "its median"),
    metric("buffer_p99_bytes", "buffers", "its 99th percentile"),
    metric("buffer_max_bytes", "buffers", "its largest value"),
    metric("link_bytes_max", "links", "bytes sent on the busiest link until the last sample of the run"),
    metric("link_bytes_mean", "links", "bytes sent per link until the last sample of the run"),
    metric("links_used", "links", "number of links that sent at least one packet"),
    metric(
        "completion_us",
        "collectives",
        "time from the start of a repetition until the slowest rank has its data, mean",
    ),
    metric("completion_max_us", "collectives", "its largest value"),
    metric(
        "algbw_gb_per_s",
        "collectives",
        "size divided by completion time, in GB/s, as nccl-tests defines it",
    ),
    metric(
        "busbw_gb_per_s",
        "collectives",
        "algbw_gb_per_s times the factor of the operation, as nccl-tests defines it",
    ),
    metric(
        "straggler",
        "collectives",
        "completion time of the slowest rank divided by that of the median rank, mean",
    ),
    metric(
        "exposed_us",
        "repeated collectives with computation",
        "exposed communication: time per repetition without the computation",
    ),
    metric("repetitions", "collectives", "number of repetitions that finished"),
    metric("drops", "run", "dropped packets in the whole run"),
    metric("trimmed", "run", "packets that switches trimmed to their headers in the whole run"),
    metric(
        "trimmed_last_hop",
        "run",
        "packets that the last switch before the receiver trimmed in the whole run",
    ),
    metric(
        "trimmed_port_max",
        "run",
        "packets that the port with the most trimmed packets trimmed in the whole run",
    ),
    metric("nacks", "run", "NACKs that receivers sent in the whole run"),
    metric("retransmitted", "run", "retransmitted data packets in the whole run"),
    metric("retransmitted_share", "run", "share of sent data packets that are retransmissions"),
    metric("timeouts", "run", "retransmission timeouts in the whole run"),
    metric("marks", "run", "congestion marks in the whole run"),
    metric("marks_taken_share", "run", "share of marks that a packet or an ACK carried"),
    metric("repaths", "run", "path changes in the whole run"),
    metric("pauses", "run", "pause frames that stopped a node in the whole run"),
    metric("paused_ports", "run", "ports of switches and hosts that PFC paused (`observe.pauses`)"),
    metric(
        "paused_us",
        "run",
        "time for which PFC paused them, sum over ports; for a queue, the time of its port",
    ),
    metric("paused_port_max_us", "run", "pause time of the port with the longest"),
    metric("deadlocked_ports", "run", "ports that wait for each other in a cycle when the run ends"),
    metric("decisions", "run", "ACKs that laws processed in the whole run"),
    metric("telemetry_share", "run", "share of decisions with telemetry from at least one hop"),
    metric("packet_hops", "run", "packets that crossed a link in the whole run"),
    metric("late_ms", "run", "real packets only: largest scheduling delay of the machine"),
];

const fn metric(name: &'static str, subject: &'static str, description: &'static str) -> MetricInfo {
    MetricInfo { name, subject, description }
}
