//! Publishes each study's verdicts, figures and numbers, without its runs and rows. Later publications add to the same
//! folder, so a long suite can run in parts. Each study records its provenance.
//!
//! ```text
//! docs/results/README.md                      a table of all claims and verdicts
//! docs/results/report.html                    the HTML page
//! docs/results/poseidon/fig14b/verdicts.json  the study's report and provenance
//! docs/results/poseidon/fig14b/figures.json   the charts of its figures
//! docs/results/poseidon/fig14b/summary.csv    every metric: its mean over seeds and its 95 % interval
//! docs/results/poseidon/fig14b/seeds.csv      the metrics used in claims, seed by seed
//! ```
//!
//! Studies with the same runs share one `summary.csv`. The file is stored with the first study, and the other studies
//! refer to that study in `numbers_in`. Studies published before charts were stored have `figure-1.svg` and so on
//! instead of `figures.json`.

use super::figures::{read_figures, write_figures};
use super::format::{format_measured, format_seeds, outcome_word};
use super::numbers::{
    NumberKey, PublishedNumber, claim_values_by_seed, numbers_of, parse_numbers, write_by_seed, write_numbers,
};
use super::provenance::{PlanFingerprint, Provenance, STALE_LABEL};
use super::{Figure, ReportError, Results, StudyReport};
use crate::manifest::{Program, content_hash};
use crate::store::{Store, StoreError, complete_runs, write_file, write_json};
use crate::study::Study;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) const VERDICTS_FILE: &str = "verdicts.json";
const NUMBERS_FILE: &str = "summary.csv";
pub(super) const SEEDS_FILE: &str = "seeds.csv";
const FIGURES_FILE: &str = "figures.json";

/// The commit and program that a publication is based on.
#[derive(Clone, Debug)]
pub struct PublicationSource {
    /// The commit that contains the code and the scenarios.
    pub commit: String,
    /// The program with the simulator as its backend, which is recorded for studies without runs. A run with a
    /// different code hash used real packets.
    pub program: Program,
}

/// Adds study reports to a published results folder.
pub fn publish(
    results: &Results,
    reports: &[StudyReport],
    folder: &Path,
    source: &PublicationSource,
) -> Result<(), ReportError> {
    let names: Vec<&str> = reports.iter().map(|report| report.name.as_str()).collect();
    unshare_numbers(folder, &names)?;
    for (index, (study, report)) in results.studies.iter().zip(reports).enumerate() {
        let study_folder = folder.join(&report.name);
        for file in [NUMBERS_FILE, SEEDS_FILE, FIGURES_FILE] {
            remove_file(&study_folder.join(file))?;
        }
        svg_files(&study_folder).iter().try_for_each(|file| remove_file(file))?;
        let runs = complete_runs(results.runs_of(index))?;
        if !runs.is_empty() {
            write_file(&study_folder, NUMBERS_FILE, write_numbers(&numbers_of(&runs))?.as_bytes())?;
            let by_seed = claim_values_by_seed(study.scenario(), &runs);
            write_file(&study_folder, SEEDS_FILE, write_by_seed(&by_seed)?.as_bytes())?;
            let figures = write_figures(&report.figures).map_err(StoreError::from)?;
            write_file(&study_folder, FIGURES_FILE, figures.as_bytes())?;
        }
        let published = StudyReport {
            figure_files: Vec::new(),
            origin: String::new(),
            provenance: Some(provenance(results, index, study, source)),
            numbers_in: None,
            ..report.clone()
        };
        write_verdicts(folder, &published)?;
    }
    Ok(())
}

/// Returns the provenance of a study.
fn provenance(results: &Results, index: usize, study: &Study, source: &PublicationSource) -> Provenance {
    let manifests = || results.runs_of(index).map(|run| &run.manifest).filter(|run| !run.interrupted);
    let first = manifests().next();
    let code_hash = first.map_or(&source.program.code_hash, |run| &run.code_hash);
    Provenance {
        commit: source.commit.clone(),
        program: first.map_or(&source.program.identity, |run| &run.program).clone(),
        code_hash: code_hash.clone(),
        scenario_hash: content_hash(study.text.as_bytes()),
        plans: PlanFingerprint::of_runs(manifests()),
        quick: study.is_quick,
        on_linux: *code_hash != source.program.code_hash,
        judged_at: None,
    }
}

pub(super) fn write_verdicts(folder: &Path, report: &StudyReport) -> Result<(), ReportError> {
    Ok(write_json(&folder.join(&report.name), VERDICTS_FILE, report)?)
}

/// Removes a file, if it exists.
fn remove_file(file: &Path) -> Result<(), StoreError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(file)(error)),
        _ => Ok(()),
    }
}

/// Returns the SVG files of a study that was published before charts were stored.
fn svg_files(study_folder: &Path) -> Vec<PathBuf> {
    let files = (1..).map(|number| study_folder.join(format!("figure-{number}.svg")));
    files.take_while(|file| file.is_file()).collect()
}

/// Copies shared tables back to each study whose numbers are stored with a study that is about to change.
fn unshare_numbers(folder: &Path, changing_studies: &[&str]) -> Result<(), ReportError> {
    for mut report in read_all_verdicts(folder)? {
        let is_changing = |owner: &String| changing_studies.contains(&owner.as_str());
        let Some(owner) = report.numbers_in.take().filter(is_changing) else { continue };
        let table = folder.join(owner).join(NUMBERS_FILE);
        let text = fs::read(&table).map_err(StoreError::io(&table))?;
        write_file(&folder.join(&report.name), NUMBERS_FILE, &text)?;
        write_verdicts(folder, &report)?;
    }
    Ok(())
}

/// Stores identical tables of several studies only once, with the first study.
fn share_numbers(folder: &Path, reports: &mut [StudyReport]) -> Result<(), ReportError> {
    let mut owners: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    let mut shared_with: BTreeMap<String, String> = BTreeMap::new();
    for report in reports.iter() {
        let table = folder.join(&report.name).join(NUMBERS_FILE);
        let Ok(text) = fs::read(&table) else { continue };
        if let Some(owner) = owners.get(&text) {
            shared_with.insert(report.name.clone(), owner.clone());
        } else {
            owners.insert(text, report.name.clone());
        }
    }
    for report in reports {
        let current_owner = report.numbers_in.as_ref().unwrap_or(&report.name);
        if let Some(owner) = shared_with.get(current_owner) {
            report.numbers_in = Some(owner.clone());
            write_verdicts(folder, report)?;
        }
    }
    shared_with.keys().try_for_each(|study| remove_file(&folder.join(study).join(NUMBERS_FILE)))?;
    Ok(())
}

/// Reads all reports in a folder, without their figures.
fn read_all_verdicts(folder: &Path) -> Result<Vec<StudyReport>, ReportError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let names = Store::new(folder).studies_with(VERDICTS_FILE)?;
    names.iter().map(|name| read_verdicts(folder, name)).collect()
}

fn read_verdicts(folder: &Path, name: &str) -> Result<StudyReport, ReportError> {
    let file = folder.join(name).join(VERDICTS_FILE);
    let text = fs::read(&file).map_err(StoreError::io(&file))?;
    serde_json::from_slice(&text).map_err(ReportError::json(&file))
}

/// Stores identical tables only once, and writes the table of all published claims.
pub fn write_index(reports: &mut [StudyReport], folder: &Path) -> Result<(), ReportError> {
    share_numbers(folder, reports)?;
    Ok(write_file(folder, "README.md", claims_table(reports).as_bytes())?)
}

/// Describes a study's origin.
fn origin(report: &StudyReport) -> String {
    report.provenance.as_ref().map_or_else(|| report.origin.clone(), Provenance::to_string)
}

/// Describes the studies' origins. Each origin appears once. If there are several origins, each is listed with its
/// papers.
pub fn origins(reports: &[StudyReport]) -> Vec<String> {
    let mut papers_by_origin: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for report in reports {
        let papers = papers_by_origin.entry(origin(report)).or_default();
        let paper = report.paper();
        if papers.last() != Some(&paper) {
            papers.push(paper);
        }
    }
    let is_single = papers_by_origin.len() == 1;
    let describe = |(origin, papers): (String, Vec<&str>)| {
        if is_single { origin } else { format!("{}: {origin}", papers.join(", ")) }
    };
    papers_by_origin.into_iter().map(describe).collect()
}

/// Reads published studies with their figures.
pub fn read_published(folder: &Path, names: &[String]) -> Result<Vec<StudyReport>, ReportError> {
    let read = |name: &String| {
        let mut report = read_verdicts(folder, name)?;
        let study_folder = folder.join(name);
        let figures_file = study_folder.join(FIGURES_FILE);
        match fs::read_to_string(&figures_file) {
            Ok(text) => {
                report.figures = read_figures(&text).map_err(ReportError::json(&figures_file))?;
                report.svg_figures = report.figures.iter().map(Figure::to_svg).collect();
            }
            Err(_) => {
                let files = svg_files(&study_folder);
                report.svg_figures = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
            }
        }
        Ok(report)
    };
    names.iter().map(read).collect()
}

/// Reads a study's published numbers. A study without runs has no numbers.
pub fn read_numbers(
    folder: &Path,
    report: &StudyReport,
) -> Result<Vec<(NumberKey, PublishedNumber)>, ReportError> {
    let file = folder.join(report.numbers_in.as_ref().unwrap_or(&report.name)).join(NUMBERS_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => parse_numbers(&text).map_err(ReportError::table(&file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && report.runs == 0 => Ok(Vec::new()),
        Err(error) => Err(StoreError::io(&file)(error).into()),
    }
}

/// Returns a Markdown table with one row per claim.
fn claims_table(reports: &[StudyReport]) -> String {
    let mut text = String::from("# Results\n");
    let stale = reports.iter().filter(|report| report.stale_reason.is_some()).count();
    text.push_str(&format!(
        "\n{} studies are published here. {stale} of them are marked \"{STALE_LABEL}\": their scenario or a plan has changed since they were run.\n",
        reports.len()
    ));
    origins(reports).iter().for_each(|origin| text.push_str(&format!("\n{origin}\n")));
    let mut current_paper = None;
    for report in reports {
        let paper = report.paper();
        if current_paper != Some(paper) {
            text.push_str(&format!("\n## {paper}\n\n| entry | seeds | claim | the paper | must be | ours | verdict |\n|---|---|---|---|---|---|---|\n"));
            current_paper = Some(paper);
        }
        push_claim_rows(&mut text, report);
    }
    text
}

/// Appends the table rows of one study.
fn push_claim_rows(text: &mut String, report: &StudyReport) {
    let entry = report.name.rsplit('/').next().unwrap_or_default();
    let mark = if report.stale_reason.is_some() { format!(" ({STALE_LABEL})") } else { String::new() };
    let entry = format!("[{entry}]({}/){mark}", report.name);
    if report.verdicts.is_empty() {
        text.push_str(&format!("| {entry} | {} | compared, not judged | | | | |\n", format_seeds(report)));
    }
    for verdict in &report.verdicts {
        let gate = if verdict.gating { " (gate)" } else { "" };
        let cells = [
            entry.clone(),
            format_seeds(report),
            verdict.claim.clone(),
            verdict.paper.clone(),
            verdict.condition.clone(),
            format_measured(verdict),
            format!("{}{gate}", outcome_word(verdict.outcome)),
        ];
        text.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    }
}
