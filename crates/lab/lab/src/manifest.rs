//! Run manifests, which store run metadata.

use crate::counters::Counters;
use crate::resolve::ResolvedRun;
use crate::scenario::Label;
use crate::study::{RunId, Study};
use crate::tables::FileInfo;
use core::time::Duration;
use poseidon_plan::Report;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The program that produces the results. Results from other programs are not reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The version, code hash, compiler and backend.
    pub identity: String,
    /// The hash of all code that affects results.
    pub code_hash: String,
}

/// A run's metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The program identity.
    #[serde(rename = "tool")]
    pub program: String,
    /// The study name.
    pub scenario: String,
    /// The hash of the scenario text.
    pub scenario_hash: String,
    /// Whether this is a run of the scenario's quick form.
    pub quick: bool,
    /// The cell labels.
    pub cell: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// The hash of the plan and its measurements ([`crate::canonical`]).
    pub plan_hash: String,
    /// The code hash.
    #[serde(default)]
    pub code_hash: String,
    /// The hash of all packet arrivals. Two runs have the same hash if every packet reaches its host at the same time
    /// and in the same order.
    pub result_hash: String,
    /// Whether the run was interrupted. The rows of an interrupted run are valid up to the interruption.
    pub interrupted: bool,
    /// The wall-clock duration of the run in seconds.
    pub wall_s: f64,
    /// The law of each traffic group.
    #[serde(rename = "bound")]
    pub law_bindings: Vec<LawBinding>,
    /// Counts of packets, decisions and switch events.
    #[serde(rename = "account")]
    pub counters: Counters,
    /// The row files, with the number of rows in each.
    pub files: Vec<(String, u64)>,
    /// The study that ran this plan, if it is a different study. That study's folder contains the rows and the
    /// effective configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<String>,
    /// Other requests for the same plan, for example a scenario text with different claims, the quick form, or another
    /// cell.
    #[serde(rename = "also", default, skip_serializing_if = "Vec::is_empty")]
    pub other_requests: Vec<RunRequest>,
}

/// A request to run a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The hash of the scenario text.
    pub scenario_hash: String,
    /// Whether the request is for the scenario's quick form.
    pub quick: bool,
    /// The cell labels.
    pub cell: Vec<Label>,
}

/// A traffic group and its law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LawBinding {
    /// The traffic group's name.
    pub traffic: String,
    /// The law's name in the scenario.
    pub law: String,
    /// The number of connections.
    pub connections: u64,
    /// The number of messages.
    pub messages: u64,
}

impl Manifest {
    /// Creates a run's manifest. Closed-form models need no other metadata.
    pub(crate) fn new(study: &Study, id: &RunId, plan_hash: &str, program: &Program) -> Self {
        Self {
            program: program.identity.clone(),
            scenario: study.name.clone(),
            scenario_hash: content_hash(study.text.as_bytes()),
            quick: study.is_quick,
            cell: id.labels.clone(),
            seed: id.seed,
            plan_hash: plan_hash.to_owned(),
            code_hash: program.code_hash.clone(),
            result_hash: String::new(),
            interrupted: false,
            wall_s: 0.0,
            law_bindings: Vec::new(),
            counters: Counters::default(),
            files: Vec::new(),
            made_in: None,
            other_requests: Vec::new(),
        }
    }

    /// Adds the backend's report on the run.
    pub(crate) fn with_report(
        self,
        resolved: &ResolvedRun,
        report: &Report,
        duration: Duration,
        files: Vec<FileInfo>,
    ) -> Self {
        let binding = |group: &crate::resolve::TrafficGroup| LawBinding {
            traffic: group.name.clone(),
            law: group.law.clone(),
            connections: group.connections.len() as u64,
            messages: group.messages.messages.len() as u64,
        };
        Self {
            result_hash: format!("{:016x}", report.result_hash),
            interrupted: report.interrupted,
            wall_s: duration.as_secs_f64(),
            law_bindings: resolved.groups.iter().map(binding).collect(),
            counters: counters(report),
            files: files.into_iter().map(|file| (file.name, file.rows)).collect(),
            ..self
        }
    }

    /// Returns the name of the run's folder.
    pub fn run_name(&self) -> String {
        run_name(&self.plan_hash, &self.program)
    }

    /// Returns all requests that this run satisfies.
    pub fn requests(&self) -> impl Iterator<Item = RunRequest> + '_ {
        let Self { scenario_hash, quick, cell, .. } = self;
        let first = RunRequest { scenario_hash: scenario_hash.clone(), quick: *quick, cell: cell.clone() };
        core::iter::once(first).chain(self.other_requests.iter().cloned())
    }

    /// Returns the manifest as it applies to one request.
    pub(crate) fn for_request(self, request: RunRequest) -> Self {
        let RunRequest { scenario_hash, quick, cell } = request;
        Self { scenario_hash, quick, cell, other_requests: Vec::new(), ..self }
    }
}

/// Returns a report's counters under their manifest names.
fn counters(report: &Report) -> Counters {
    Counters::new([
        ("ended_ps", report.ended.get().into()),
        ("broken_off", report.interrupted.into()),
        ("late_ps", report.max_lateness.get().into()),
        ("packet_hops", report.packet_hops.into()),
        ("sent_packets", report.sent.into()),
        ("delivered_packets", report.delivered.into()),
        ("replies", report.replies.into()),
        ("dropped_packets", report.dropped.into()),
        ("in_flight_packets", report.in_flight.into()),
        ("retransmitted_packets", report.retransmitted.into()),
        ("timeouts", report.timeouts.into()),
        ("marks", report.marks.into()),
        ("marks_taken", report.marks_carried.into()),
        ("pauses", report.pauses.into()),
        ("repaths", report.repaths.into()),
        ("decisions", report.decisions.into()),
        ("decisions_with_telemetry", report.decisions_with_telemetry.into()),
        ("sent_bytes", report.sent_bytes.get().into()),
        ("delivered_bytes", report.delivered_bytes.get().into()),
    ])
}

/// Returns the name of a run's folder. A plan has one run per program.
pub fn run_name(plan_hash: &str, program: &str) -> String {
    content_hash(format!("{plan_hash}\n{program}").as_bytes())
}

/// Returns the hash of `content` as hexadecimal digits.
pub fn content_hash(content: &[u8]) -> String {
    short_hex(&Sha256::digest(content))
}

/// Returns the first sixteen hexadecimal digits of a digest.
pub(crate) fn short_hex(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
