//! Result folders: one per study, one inside it per run, named by the hash of its plan and of the program that ran it.
//!
//! ```text
//! results/poseidon/fig14b/scenario.toml            what was asked
//! results/poseidon/fig14b/runs/3f0a…/summary.json  what it came down to
//! results/poseidon/fig14b/runs/3f0a…/manifest.json what really happened
//! results/poseidon/fig14b/runs/3f0a…/messages.bin  how long each message took
//! results/poseidon/fig14b/runs/3f0a…/plan.txt      the effective configuration
//! results/poseidon/fig14b/runs/3f0a…/*.parquet     the rows, where they were asked for
//! ```
//!
//! A manifest is written last, so a folder that has one is whole. A run that another study has made already, such as the one whose
//! medians this study looks at where that one looks at tails, is not made again: its summary is copied and its manifest says
//! where it was made.

use crate::judge::Ran;
use crate::resolve::Resolved;
use crate::samples::{MessageSamples, Messages};
use crate::scenario::Label;
use crate::study::{Finished, Options, RunName, Study};
use crate::summary::Summary;
use crate::tables::{FileInfo, Format};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use poseidon_plan::Report;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// What really happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The program.
    pub tool: String,
    /// The scenario.
    pub scenario: String,
    /// The hash of its text.
    pub scenario_hash: String,
    /// Whether it was cut.
    pub quick: bool,
    /// The cell.
    pub cell: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// The hash of the plan and of what is measured ([`crate::canonical`]).
    pub plan_hash: String,
    /// The hash of the code that made it.
    #[serde(default)]
    pub code_hash: String,
    /// Shared by two runs exactly when every packet reached every host at the same time in the same order.
    pub result_hash: String,
    /// Whether it was broken off; what it holds is valid up to then.
    pub interrupted: bool,
    /// How long it took.
    pub wall_s: f64,
    /// Which law ran on which traffic.
    pub bound: Vec<Bound>,
    /// What packets, laws and switches did, counted.
    pub account: serde_json::Value,
    /// Files with rows.
    pub files: Vec<(String, u64)>,
    /// The study that made it, where it was another one: there are its rows and its effective configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<String>,
    /// Who else asked for the same plan: another text, such as one with other claims; the other form; another cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Asked>,
}

/// What a run is the answer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The hash of the scenario's text.
    pub scenario_hash: String,
    /// Whether it was cut.
    pub quick: bool,
    /// The cell.
    pub cell: Vec<Label>,
}

/// A traffic and its law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The traffic.
    pub traffic: String,
    /// The law, by its name in the scenario.
    pub law: String,
    /// How many connections.
    pub connections: u64,
    /// How many messages.
    pub messages: u64,
}

impl Manifest {
    /// The name of its folder.
    pub fn run_name(&self) -> String {
        run_name(&self.plan_hash, &self.tool)
    }

    /// All that it is the answer to.
    pub fn asked(&self) -> impl Iterator<Item = Asked> + '_ {
        let Self { scenario_hash, quick, cell, .. } = self;
        let first = Asked { scenario_hash: scenario_hash.clone(), quick: *quick, cell: cell.clone() };
        core::iter::once(first).chain(self.also.iter().cloned())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is another fact about the run, and there is one caller"
    )]
    pub(crate) fn of_run(
        study: &Study,
        name: &RunName,
        plan_hash: &str,
        resolved: &Resolved,
        report: &Report,
        wall: Duration,
        files: Vec<FileInfo>,
        options: &Options,
    ) -> Self {
        let bound = |group: &crate::resolve::GroupOf| Bound {
            traffic: group.name.clone(),
            law: group.law.clone(),
            connections: group.connections.len() as u64,
            messages: group.messages.messages.len() as u64,
        };
        Self {
            result_hash: format!("{:016x}", report.result_hash),
            interrupted: report.broken_off,
            wall_s: wall.as_secs_f64(),
            bound: resolved.groups.iter().map(bound).collect(),
            account: account(report),
            files: files.into_iter().map(|file| (file.name, file.rows)).collect(),
            ..Self::of_closed_form(study, name, plan_hash, options)
        }
    }

    pub(crate) fn of_closed_form(study: &Study, name: &RunName, plan_hash: &str, options: &Options) -> Self {
        Self {
            tool: options.identity.clone(),
            scenario: study.name.clone(),
            scenario_hash: hash(study.text.as_bytes()),
            quick: study.is_quick,
            cell: name.labels.clone(),
            seed: name.seed,
            plan_hash: plan_hash.to_owned(),
            code_hash: options.code_hash.clone(),
            result_hash: String::new(),
            interrupted: false,
            wall_s: 0.0,
            bound: Vec::new(),
            account: serde_json::Value::Null,
            files: Vec::new(),
            made_in: None,
            also: Vec::new(),
        }
    }
}

/// The file with the times of a run's messages.
const MESSAGES: &str = "messages.bin";

/// Where results are kept.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// In this folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a study.
    pub fn study(&self, study: &str) -> PathBuf {
        self.root.join(study)
    }

    /// The folder of a run.
    pub fn folder(&self, study: &str, hash: &str) -> PathBuf {
        self.study(study).join("runs").join(hash)
    }

    /// Makes room for a study.
    pub fn begin(&self, study: &Study) -> Result<(), String> {
        let folder = self.study(&study.name);
        write(&folder, "scenario.toml", study.text.as_bytes())
    }

    /// A result from before that is whole, of this study or of another; with its rows in this format, where those are wanted.
    /// A result that cannot be read is passed over, and `warn` is told which file and why.
    pub fn find(
        &self,
        study: &str,
        hash: &str,
        rows: Option<Format>,
        warn: &dyn Fn(&str),
    ) -> Option<(Summary, Manifest)> {
        let found = |study: &str| {
            let (summary, manifest) = read(&self.folder(study, hash)).unwrap_or_else(|why| {
                warn(&format!("{why}; the run is made again"));
                None
            })?;
            let has_rows = rows.is_none_or(|format| self.has_rows(study, &manifest, format));
            (!manifest.interrupted && has_rows).then_some((summary, manifest))
        };
        found(study).or_else(|| {
            let others = self.studies("scenario.toml").unwrap_or_default();
            others.iter().filter(|other| *other != study).find_map(|other| {
                let (summary, manifest) = found(other)?;
                let made_in = manifest.made_in.clone().or_else(|| Some(other.clone()));
                Some((summary, Manifest { made_in, ..manifest }))
            })
        })
    }

    /// Whether the rows that a manifest of `study` lists in this format are on disk, in the folder of the study that made them.
    fn has_rows(&self, study: &str, manifest: &Manifest, format: Format) -> bool {
        let folder = self.folder(manifest.made_in.as_deref().unwrap_or(study), &manifest.run_name());
        let ending = format!(".{}", format.name());
        let mut files = manifest.files.iter().filter(|(name, _)| name.ends_with(&ending)).peekable();
        let is_there =
            |name: &str| fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file() && file.len() > 0);
        files.peek().is_some() && files.all(|(name, _)| is_there(name))
    }

    /// The studies that are here, in no order: folders with a file of this name, and such in folders.
    pub fn studies(&self, file: &str) -> std::io::Result<Vec<String>> {
        let mut found = Vec::new();
        let mut look = |folder: &Path, before: &str| -> std::io::Result<Vec<String>> {
            let mut deeper = Vec::new();
            for entry in fs::read_dir(folder)?.flatten().filter(|entry| entry.path().is_dir()) {
                let name = format!("{before}{}", entry.file_name().to_string_lossy());
                if entry.path().join(file).is_file() {
                    found.push(name);
                } else {
                    deeper.push(name);
                }
            }
            Ok(deeper)
        };
        for paper in look(&self.root, "")? {
            look(&self.root.join(&paper), &format!("{paper}/"))?;
        }
        Ok(found)
    }

    /// Keeps the times of a run's messages.
    pub fn keep_messages(&self, study: &str, hash: &str, messages: &MessageSamples) -> Result<(), String> {
        write(&self.folder(study, hash), MESSAGES, &messages.to_bytes())
    }

    /// Where the times of a run's messages are.
    pub fn messages(&self, study: &str, hash: &str) -> Messages {
        let file = self.folder(study, hash).join(MESSAGES);
        if file.is_file() { Messages::File(file) } else { Messages::None }
    }

    /// Keeps a result.
    pub fn keep(&self, study: &str, summary: &Summary, manifest: &Manifest) -> Result<(), String> {
        let folder = self.folder(study, &manifest.run_name());
        write(&folder, "summary.json", &json(summary)?)?;
        write(&folder, "manifest.json", &json(manifest)?)
    }

    /// Notes that a result from before is the answer to another question as well, and gives it as the answer to that.
    pub fn answer(
        &self,
        study: &Study,
        name: &RunName,
        summary: &Summary,
        mut manifest: Manifest,
    ) -> Result<Manifest, String> {
        let (scenario_hash, quick) = (hash(study.text.as_bytes()), study.is_quick);
        let asked = Asked { scenario_hash, quick, cell: name.labels.clone() };
        let own = self.folder(&study.name, &manifest.run_name());
        if manifest.scenario != study.name {
            let Asked { scenario_hash, quick, cell } = asked;
            let scenario = study.name.clone();
            let manifest = Manifest { scenario, scenario_hash, quick, cell, also: Vec::new(), ..manifest };
            // The times of its messages are where it was made; they are looked for in the folder of each study.
            if let Some(made_in) = &manifest.made_in {
                let from = self.folder(made_in, &manifest.run_name()).join(MESSAGES);
                if from.is_file() {
                    let said = |error: std::io::Error| format!("{}: {error}", from.display());
                    let bytes = fs::read(&from).map_err(said)?;
                    write(&own, MESSAGES, &bytes)?;
                }
            }
            return self.keep(&study.name, summary, &manifest).map(|()| manifest);
        }
        if !manifest.asked().any(|known| known == asked) {
            manifest.also.push(asked.clone());
            write(&own, "manifest.json", &json(&manifest)?)?;
        }
        let Asked { scenario_hash, quick, cell } = asked;
        Ok(Manifest { scenario_hash, quick, cell, also: Vec::new(), ..manifest })
    }

    /// Keeps the effective configuration of a run.
    pub fn explain(&self, study: &str, hash: &str, text: &str) -> Result<(), String> {
        write(&self.folder(study, hash), "plan.txt", text.as_bytes())
    }

    /// Every result of a study that is here and belongs to its text, in order of cells and seeds. Where several programs have left
    /// one, that of `own` counts.
    pub fn load(&self, place: usize, study: &Study, own: &str) -> Result<Vec<Finished>, String> {
        let folder = self.study(&study.name).join("runs");
        let wanted = hash(study.text.as_bytes());
        let mut found = Vec::new();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("{}: {error}", folder.display())),
        };
        for entry in entries.flatten() {
            let unreadable = |why| format!("{why}; remove that folder and run the study again");
            let Some((summary, manifest)) = read(&entry.path()).map_err(unreadable)? else { continue };
            for asked in manifest
                .asked()
                .filter(|asked| asked.scenario_hash == wanted && asked.quick == study.is_quick)
            {
                let Some(cell) = study.cells.iter().position(|cell| cell.labels == asked.cell) else {
                    continue;
                };
                let ran = Ran {
                    labels: asked.cell.clone(),
                    seed: manifest.seed,
                    summary: summary.clone(),
                    messages: self.messages(&study.name, &manifest.run_name()),
                };
                let Asked { scenario_hash, quick, cell: labels } = asked;
                let manifest =
                    Manifest { scenario_hash, quick, cell: labels, also: Vec::new(), ..manifest.clone() };
                found.push((cell, manifest.seed, Finished { study: place, ran, manifest }));
            }
        }
        found.sort_by_cached_key(|(cell, seed, run)| {
            let manifest = &run.manifest;
            (*cell, *seed, manifest.interrupted, manifest.tool != own, manifest.tool.clone())
        });
        found.dedup_by_key(|(cell, seed, _)| (*cell, *seed));
        Ok(found.into_iter().map(|(.., finished)| finished).collect())
    }
}

/// The result in a folder; `None` where no run has ended yet, for a manifest is written last.
fn read(folder: &Path) -> Result<Option<(Summary, Manifest)>, String> {
    let path = folder.join("manifest.json");
    let manifest = match fs::read(&path) {
        Ok(manifest) => manifest,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let manifest = from_json(&path, &manifest)?;
    let path = folder.join("summary.json");
    let summary = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some((from_json(&path, &summary)?, manifest)))
}

fn from_json<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| format!("{} is corrupt: {error}", path.display()))
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    serde_json::to_vec_pretty(value).map_err(|error| format!("a result cannot be written as JSON: {error}"))
}

/// Writes a file and the folders that it is in. It is written under a temporary name first, so that no half of it is ever found. The
/// name is unique, so that processes and threads that write the same file do not disturb each other: the last one counts.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let said = |error: std::io::Error| format!("{}: {error}", folder.join(name).display());
    fs::create_dir_all(folder).map_err(said)?;
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let part = folder.join(format!(".{name}.{}-{number}.part", std::process::id()));
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, folder.join(name)));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        said(error)
    })
}

/// What a report says of a run, for the manifest.
fn account(report: &Report) -> serde_json::Value {
    serde_json::json!({
        "ended_ps": report.ended.get(),
        "broken_off": report.broken_off,
        "late_ps": report.late.get(),
        "packet_hops": report.packet_hops,
        "sent_packets": report.sent,
        "delivered_packets": report.delivered,
        "replies": report.replies,
        "dropped_packets": report.dropped,
        "in_flight_packets": report.in_flight,
        "retransmitted_packets": report.retransmitted,
        "timeouts": report.timeouts,
        "marks": report.marks,
        "marks_taken": report.marks_taken,
        "pauses": report.pauses,
        "repaths": report.repaths,
        "decisions": report.decisions,
        "decisions_with_telemetry": report.decisions_with_telemetry,
        "sent_bytes": report.sent_bytes.get(),
        "delivered_bytes": report.delivered_bytes.get(),
    })
}

/// The name of a run: a plan that another program ran is another run.
pub fn run_name(plan_hash: &str, tool: &str) -> String {
    hash(format!("{plan_hash}\n{tool}").as_bytes())
}

/// The name of something by its content.
pub fn hash(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Sixteen digits of a hash: enough for a name.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
