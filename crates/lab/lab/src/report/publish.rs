//! A folder of results that can be published: verdicts, figures and numbers of each study, without runs and rows. What is published later is
//! added, so that a suite of hours can be run in parts; each study says what it comes from.
//!
//! ```text
//! docs/results/README.md                      every claim with its verdict, as a table
//! docs/results/report.html                    the page
//! docs/results/poseidon/fig14b/verdicts.json  what the study showed, and what it comes from
//! docs/results/poseidon/fig14b/figures.json   the charts that its figures are drawn from
//! docs/results/poseidon/fig14b/summary.csv    every number: cell, phase, name, mean over seeds, half the 95 % interval, seeds
//! docs/results/poseidon/fig14b/seeds.csv      the numbers that claims are about, seed by seed
//! ```
//!
//! Studies that share all of their runs share `summary.csv`: it is stored with the first of them, and the others name that one as
//! `numbers_in`. Studies that were published before charts were stored have `figure-1.svg` and so on instead of `figures.json`.

use super::figures::{read_figures, write_figures};
use super::numbers::{
    Key, Number, claimed_numbers_of, numbers_of, read_numbers, write_by_seed, write_numbers,
};
use super::provenance::{OLDER, Provenance, plans_of_runs};
use super::{Shown, ours, seeds, word};
use crate::draw;
use crate::judge::Ran;
use crate::store::{hash, write};
use crate::study::{Finished, Study};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const VERDICTS: &str = "verdicts.json";
pub(super) const NUMBERS: &str = "summary.csv";
pub(super) const BY_SEED: &str = "seeds.csv";
const FIGURES: &str = "figures.json";

/// Where published results come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The commit of the code and the scenarios.
    pub commit: String,
    /// The program, where a study has no runs that say so.
    pub tool: String,
    /// The hash of the code that simulates: a run of other code ran on real packets.
    pub code_hash: String,
}

/// Writes what studies showed, beside what the folder has of others.
pub fn publish(
    studies: &[Study],
    shown: &[Shown],
    finished: &[Finished],
    folder: &Path,
    source: &Source,
) -> Result<(), String> {
    let names: Vec<&str> = shown.iter().map(|study| study.name.as_str()).collect();
    give_back_numbers(folder, &names)?;
    for (place, (study, shown)) in studies.iter().zip(shown).enumerate() {
        let own = folder.join(&shown.name);
        let whole = || finished.iter().filter(|run| run.study == place && !run.manifest.interrupted);
        let runs = whole().map(Finished::with_messages).collect::<Result<Vec<Ran>, _>>();
        let runs = runs.map_err(|error| error.to_string())?;
        let made_by = whole().next().map(|run| &run.manifest);
        let code_hash = made_by.map_or(&source.code_hash, |run| &run.code_hash);
        let provenance = Provenance {
            commit: source.commit.clone(),
            tool: made_by.map_or(&source.tool, |run| &run.tool).clone(),
            code_hash: code_hash.clone(),
            scenario_hash: hash(study.text.as_bytes()),
            plans: plans_of_runs(whole().map(|run| &run.manifest)),
            quick: study.is_quick,
            on_linux: *code_hash != source.code_hash,
            judged_at: None,
        };
        for file in [NUMBERS, BY_SEED, FIGURES] {
            remove(&own.join(file))?;
        }
        old_figures(&own).iter().try_for_each(|file| remove(file))?;
        if !runs.is_empty() {
            write(&own, NUMBERS, write_numbers(&numbers_of(&runs))?.as_bytes())?;
            let claimed = claimed_numbers_of(study.scenario(), &runs);
            write(&own, BY_SEED, write_by_seed(&claimed)?.as_bytes())?;
            write(&own, FIGURES, write_figures(&shown.figures)?.as_bytes())?;
        }
        let plain = Shown {
            figure_files: Vec::new(),
            from: String::new(),
            provenance: Some(provenance),
            numbers_in: None,
            ..shown.clone()
        };
        write_verdicts(folder, &plain)?;
    }
    Ok(())
}

pub(super) fn write_verdicts(folder: &Path, shown: &Shown) -> Result<(), String> {
    let json = serde_json::to_vec_pretty(shown).map_err(|error| error.to_string())?;
    write(&folder.join(&shown.name), VERDICTS, &json)
}

fn remove(file: &Path) -> Result<(), String> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Figures of a study that was published before charts were stored.
fn old_figures(own: &Path) -> Vec<PathBuf> {
    (1..).map(|n| own.join(format!("figure-{n}.svg"))).take_while(|file| file.is_file()).collect()
}

/// Studies that share the table of one that is about to change get a copy of their own.
fn give_back_numbers(folder: &Path, about_to_change: &[&str]) -> Result<(), String> {
    for mut study in all_verdicts(folder)? {
        let Some(of) = study.numbers_in.take().filter(|of| about_to_change.contains(&of.as_str())) else {
            continue;
        };
        let table = folder.join(of).join(NUMBERS);
        let text = fs::read(&table).map_err(|error| format!("{}: {error}", table.display()))?;
        write(&folder.join(&study.name), NUMBERS, &text)?;
        write_verdicts(folder, &study)?;
    }
    Ok(())
}

/// Stores tables that several studies have once: with the first of them.
fn share_numbers(folder: &Path, shown: &mut [Shown]) -> Result<(), String> {
    let mut first: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    let mut moved: BTreeMap<String, String> = BTreeMap::new();
    for study in shown.iter() {
        let table = folder.join(&study.name).join(NUMBERS);
        let Ok(text) = fs::read(&table) else { continue };
        if let Some(of) = first.get(&text) {
            moved.insert(study.name.clone(), of.clone());
        } else {
            first.insert(text, study.name.clone());
        }
    }
    for study in shown {
        let is_at = study.numbers_in.as_ref().unwrap_or(&study.name);
        if let Some(of) = moved.get(is_at) {
            study.numbers_in = Some(of.clone());
            write_verdicts(folder, study)?;
        }
    }
    moved.keys().try_for_each(|study| remove(&folder.join(study).join(NUMBERS)))
}

/// All studies that are published in a folder, without their figures.
fn all_verdicts(folder: &Path) -> Result<Vec<Shown>, String> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let names = crate::store::Store::new(folder)
        .studies(VERDICTS)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    names.iter().map(|name| read_verdicts(folder, name)).collect()
}

fn read_verdicts(folder: &Path, name: &str) -> Result<Shown, String> {
    let file = folder.join(name).join(VERDICTS);
    let said = |why: String| format!("{}: {why}", file.display());
    let text = fs::read(&file).map_err(|error| said(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| said(error.to_string()))
}

/// Writes the table of all that is published, and stores shared numbers once.
pub fn index(shown: &mut [Shown], folder: &Path) -> Result<(), String> {
    share_numbers(folder, shown)?;
    write(folder, "README.md", overview(shown).as_bytes())
}

/// What a study comes from, in words.
fn origin(study: &Shown) -> String {
    study.provenance.as_ref().map_or_else(|| study.from.clone(), Provenance::to_string)
}

/// From which states of the program studies come: each once, with the papers it was used for where there are several.
pub fn origins(shown: &[Shown]) -> Vec<String> {
    let mut papers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for study in shown {
        let of = papers.entry(origin(study)).or_default();
        let paper = study.paper();
        if of.last() != Some(&paper) {
            of.push(paper);
        }
    }
    let is_one = papers.len() == 1;
    let said = |(from, of): (String, Vec<&str>)| {
        if is_one { from } else { format!("{}: {from}", of.join(", ")) }
    };
    papers.into_iter().map(said).collect()
}

/// Reads what was published: the studies of a folder, in no order.
pub fn published(folder: &Path, names: &[String]) -> Result<Vec<Shown>, String> {
    let read = |name: &String| {
        let own = folder.join(name);
        let mut shown = read_verdicts(folder, name)?;
        match fs::read_to_string(own.join(FIGURES)) {
            Ok(text) => {
                shown.figures =
                    read_figures(&text).map_err(|why| format!("{}: {why}", own.join(FIGURES).display()))?;
                shown.drawn = shown.figures.iter().map(|(_, charts)| draw::svg(charts)).collect();
            }
            Err(_) => {
                shown.drawn =
                    old_figures(&own).iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
            }
        }
        Ok(shown)
    };
    names.iter().map(read).collect()
}

/// The published numbers of a study; none where nothing ran.
pub fn published_numbers(folder: &Path, shown: &Shown) -> Result<Vec<(Key, Number)>, String> {
    let file = folder.join(shown.numbers_in.as_ref().unwrap_or(&shown.name)).join(NUMBERS);
    match fs::read_to_string(&file) {
        Ok(text) => read_numbers(&text).map_err(|why| format!("{}: {why}", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && shown.runs == 0 => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

/// Every claim as a row of Markdown.
fn overview(shown: &[Shown]) -> String {
    let mut text = String::from("# Results\n");
    let older = shown.iter().filter(|study| study.stale.is_some()).count();
    text.push_str(&format!(
        "\n{} studies are published here. {older} of them are marked \"{OLDER}\": their scenario or a plan has changed since they were run.\n",
        shown.len()
    ));
    origins(shown).iter().for_each(|origin| text.push_str(&format!("\n{origin}\n")));
    let mut paper = None;
    for study in shown {
        let folder = study.paper();
        let entry = study.name.rsplit('/').next().unwrap_or_default();
        let mark = if study.stale.is_some() { format!(" ({OLDER})") } else { String::new() };
        let entry = format!("[{entry}]({}/){mark}", study.name);
        if paper != Some(folder) {
            text.push_str(&format!("\n## {folder}\n\n| entry | seeds | claim | the paper | must be | ours | verdict |\n|---|---|---|---|---|---|---|\n"));
            paper = Some(folder);
        }
        if study.verdicts.is_empty() {
            text.push_str(&format!("| {entry} | {} | compared, not judged | | | | |\n", seeds(study)));
        }
        for verdict in &study.verdicts {
            let gate = if verdict.gating { " (gate)" } else { "" };
            let cells = [
                entry.clone(),
                seeds(study),
                verdict.says.clone(),
                verdict.paper.clone(),
                verdict.must.clone(),
                ours(verdict),
                format!("{}{gate}", word(verdict.outcome)),
            ];
            text.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
        }
    }
    text
}
