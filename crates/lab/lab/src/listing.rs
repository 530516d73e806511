//! Lists the names that scenarios use: laws, policies, workloads, traffic kinds, collectives, topologies, metrics and series.

use crate::scenario::Scenario;
use crate::summary::{METRICS, MetricInfo};
use poseidon_laws::LAWS;
use poseidon_plan::impairments::IMPAIR_POLICIES;
use poseidon_plan::patterns::{ALGORITHMS, Algorithm, WORKLOADS};
use poseidon_plan::switch::{BUFFER_POLICIES, MARK_POLICIES};
use poseidon_plan::transport::PATH_POLICIES;
use serde::Serialize;
use serde_json::Value;

/// A kind of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Congestion control laws.
    Laws,
    /// Published size distributions, for the key `sizes` of traffic.
    Workloads,
    /// Policies of switches, links and hosts, for the keys `buffer` and `mark` of `[switch]`, `impair` of
    /// `[[impairment]]` and `paths` of `[transport]`.
    Policies,
    /// Kinds of traffic, for the key `kind` of `[[traffic]]`.
    Traffic,
    /// Algorithms of collectives, for the key `algorithm` of `[[traffic]]`.
    Collectives,
    /// Kinds of networks, for the key `kind` of `[topology]`.
    Topologies,
    /// Metrics, for claims and for figures with bars or lines.
    Metrics,
    /// Time series, for figures of the kind `series`.
    Series,
}

impl NameKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Laws,
        Self::Workloads,
        Self::Policies,
        Self::Traffic,
        Self::Collectives,
        Self::Topologies,
        Self::Metrics,
        Self::Series,
    ];

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Laws => "laws",
            Self::Workloads => "workloads",
            Self::Policies => "policies",
            Self::Traffic => "traffic",
            Self::Collectives => "collectives",
            Self::Topologies => "topologies",
            Self::Metrics => "metrics",
            Self::Series => "series",
        }
    }

    /// Returns the place where a scenario uses these names.
    pub const fn usage(self) -> &'static str {
        match self {
            Self::Laws => "law = \"NAME\", or base = \"NAME\" in [laws.YOURS]",
            Self::Workloads => "sizes = \"NAME\" in [[traffic]]",
            Self::Policies => "buffer, mark or impair = { policy = \"NAME\" }",
            Self::Traffic => "kind = \"NAME\" in [[traffic]]",
            Self::Collectives => "algorithm = \"NAME\" in a [[traffic]] of the kind \"collective\"",
            Self::Topologies => "kind = \"NAME\" in [topology]",
            Self::Metrics => "metric = \"OWNER.NAME\" in [[claim]] and [[figure]]",
            Self::Series => "metric = \"OWNER.rate_gbps\" in a [[figure]] of the kind \"series\"",
        }
    }

    /// Lists the names of this kind.
    pub fn entries(self) -> Vec<NameEntry> {
        match self {
            Self::Laws => LAWS.iter().map(|law| NameEntry::new(law.name, "", law.source)).collect(),
            Self::Workloads => {
                let entry = |workload: &poseidon_plan::patterns::Workload| {
                    NameEntry::new(workload.name, "", workload.description)
                };
                WORKLOADS.iter().map(entry).collect()
            }
            Self::Policies => policies(),
            Self::Traffic => variants("TrafficKind"),
            Self::Collectives => {
                let entry = |algorithm: &Algorithm| {
                    NameEntry::new(algorithm.name, algorithm.operation.name(), algorithm.description)
                };
                ALGORITHMS.iter().map(entry).collect()
            }
            Self::Topologies => variants("TopologySpec"),
            Self::Metrics => METRICS.iter().map(metric_entry).collect(),
            Self::Series => SERIES.iter().map(metric_entry).collect(),
        }
    }
}

/// A name that a scenario can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameEntry {
    /// The name.
    pub name: String,
    /// What the name applies to; empty if the kind says it.
    #[serde(rename = "of", skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The meaning or the source.
    pub description: String,
}

impl NameEntry {
    fn new(name: &str, subject: &str, description: &str) -> Self {
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { name: name.to_owned(), subject: subject.to_owned(), description }
    }
}

fn metric_entry(metric: &MetricInfo) -> NameEntry {
    NameEntry::new(metric.name, metric.subject, metric.description)
}

/// Lists the policies with their parameters.
fn policies() -> Vec<NameEntry> {
    let mut entries = Vec::new();
    for (subject, policies) in [
        ("buffer", BUFFER_POLICIES),
        ("mark", MARK_POLICIES),
        ("impair", IMPAIR_POLICIES),
        ("paths", PATH_POLICIES),
    ] {
        for policy in policies {
            let names: Vec<String> = policy.params.iter().map(|param| param.name.replace('_', "-")).collect();
            let keys =
                if names.is_empty() { String::new() } else { format!(". Keys: {}.", names.join(", ")) };
            entries.push(NameEntry::new(policy.name, subject, &format!("{}{keys}", policy.source)));
        }
    }
    entries
}

/// Lists the variants of an enum in the scenario's schema. A variant is a word, or a table with a `kind`.
fn variants(type_name: &str) -> Vec<NameEntry> {
    let schema = schemars::schema_for!(Scenario).to_value();
    let variants = schema.pointer(&format!("/$defs/{type_name}/oneOf")).and_then(Value::as_array);
    let mut entries = Vec::new();
    for variant in variants.into_iter().flatten() {
        let description = variant.get("description").and_then(Value::as_str).unwrap_or("");
        let word = variant.get("const").or_else(|| variant.pointer("/properties/kind/const"));
        let words = variant.get("enum").and_then(Value::as_array).into_iter().flatten();
        let words = word.into_iter().chain(words).filter_map(Value::as_str);
        entries.extend(words.map(|word| NameEntry::new(word, "", description)));
    }
    entries
}

/// The subject of series for traffic whose rates are measured.
pub(crate) const RATES: &str = "flows with rates";
/// The subject of series for long flows.
pub(crate) const LONG_FLOWS: &str = "long flows";
/// The subject of series for watched queues.
pub(crate) const QUEUES: &str = "queues";

/// All time series. The name follows the name of the traffic, the queue or the message class. Only the first seed has
/// time series.
pub const SERIES: &[MetricInfo] = &[
    series("[*].rate_gbps", RATES, "payload rate of each flow, per bin; `[2]` selects one flow"),
    series(".rate_gbps", RATES, "its mean over flows"),
    series(".total_gbps", RATES, "its sum over flows"),
    series(".jain", RATES, "Jain's index of the active flows, per bin"),
    series(".window_packets", LONG_FLOWS, "congestion window of the first flow"),
    series(".srtt_us", LONG_FLOWS, "smoothed RTT of the first flow"),
    series(".delay_us", QUEUES, "queueing delay, per sample"),
    series(".waiting_bytes", QUEUES, "queue length, per sample"),
    series(".sent_gbps", QUEUES, "rate at which the port sends, per bin"),
    series(".slowdown_p50_by_size", "messages", "median slowdown by message size, over all seeds"),
    series(".slowdown_p99_by_size", "messages", "its 99th percentile"),
    series(".slowdown_p999_by_size", "messages", "its 99.9th percentile"),
];

const fn series(name: &'static str, subject: &'static str, description: &'static str) -> MetricInfo {
    MetricInfo { name, subject, description }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_size;

    #[test]
    fn every_kind_has_distinct_names_with_descriptions() {
        for kind in NameKind::ALL {
            let entries = kind.entries();
            assert!(entries.len() >= 3, "{kind:?}: {entries:?}");
            for (index, entry) in entries.iter().enumerate() {
                assert!(!entry.description.is_empty(), "{kind:?}: {entry:?}");
                let is_same =
                    |other: &NameEntry| (&other.name, &other.subject) == (&entry.name, &entry.subject);
                assert!(!entries[..index].iter().any(is_same), "{kind:?}: {entry:?}");
            }
        }
    }

    #[test]
    fn names_come_from_the_registries_and_the_schema() {
        let has = |kind: NameKind, name: &str| kind.entries().iter().any(|entry| entry.name == name);
        for (kind, name) in [
            (NameKind::Laws, "theta-powertcp"),
            (NameKind::Workloads, "websearch-hpcc"),
            (NameKind::Collectives, "ring-all-reduce"),
            (NameKind::Policies, "shared"),
            (NameKind::Policies, "red"),
            (NameKind::Traffic, "poisson-flows"),
            (NameKind::Topologies, "fat-tree"),
            (NameKind::Metrics, "finish_last_us"),
            (NameKind::Series, ".waiting_bytes"),
        ] {
            assert!(has(kind, name), "{name} is missing in {:?}", kind.entries());
        }
    }

    #[test]
    fn series_by_size_match_their_parser() {
        let listed: Vec<String> = SERIES
            .iter()
            .filter(|series| series.subject == "messages")
            .map(|series| format!("name{}", series.name))
            .collect();
        assert_eq!(listed, by_size::curve_names("name").collect::<Vec<_>>());
    }
}
