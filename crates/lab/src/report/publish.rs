//! A folder of results that can be published: verdicts, figures and numbers of each study, without runs and rows. What is published later is
//! added, so that a suite of hours can be run in parts; each study says from which state of the program it comes.
//!
//! ```text
//! docs/results/README.md                      every claim with its verdict, as a table
//! docs/results/report.html                    the page
//! docs/results/poseidon/fig14b/verdicts.json  what the study showed
//! docs/results/poseidon/fig14b/figure-1.svg   what it drew
//! docs/results/poseidon/fig14b/summary.csv    every number: cell, phase, name, mean over seeds, half the 95 % interval, seeds
//! ```

use super::{Shown, ours, seeds, word};
use crate::judge::{Ran, named};
use crate::stats::Estimate;
use crate::store::write;
use crate::study::Finished;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Writes what studies showed, beside what the folder has of others. `from` says which state of the program it comes from.
pub fn publish(shown: &[Shown], finished: &[Finished], folder: &Path, from: &str) -> Result<(), String> {
    for (place, study) in shown.iter().enumerate() {
        let own = folder.join(&study.name);
        let plain = Shown { figure_files: Vec::new(), from: from.to_owned(), ..study.clone() };
        let json = serde_json::to_vec_pretty(&plain).map_err(|error| error.to_string())?;
        write(&own, "verdicts.json", &json)?;
        for (number, drawn) in (1..).zip(&study.drawn) {
            write(&own, &format!("figure-{number}.svg"), drawn.as_bytes())?;
        }
        let whole = finished.iter().filter(|run| run.study == place && !run.manifest.interrupted);
        let runs: Vec<&Ran> = whole.map(|run| &run.ran).collect();
        if !runs.is_empty() {
            write(&own, "summary.csv", table(&runs)?.as_bytes())?;
        }
    }
    Ok(())
}

/// Writes the table of all that is published.
pub fn index(shown: &[Shown], folder: &Path) -> Result<(), String> {
    write(folder, "README.md", overview(shown).as_bytes())
}

/// From which states of the program studies come: each once, with the papers it was used for where there are several.
pub fn origins(shown: &[Shown]) -> Vec<String> {
    let mut papers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for study in shown {
        let of = papers.entry(&study.from).or_default();
        let paper = study.paper();
        if of.last() != Some(&paper) {
            of.push(paper);
        }
    }
    let is_one = papers.len() == 1;
    let said = |(from, of): (&str, Vec<&str>)| {
        if is_one { from.to_owned() } else { format!("{}: {from}", of.join(", ")) }
    };
    papers.into_iter().map(said).collect()
}

/// Reads what was published: the studies of a folder, in no order.
pub fn published(folder: &Path, names: &[String]) -> Result<Vec<Shown>, String> {
    let read = |name: &String| {
        let own = folder.join(name);
        let said = |why: String| format!("{}: {why}", own.join("verdicts.json").display());
        let text = fs::read(own.join("verdicts.json")).map_err(|error| said(error.to_string()))?;
        let mut shown: Shown = serde_json::from_slice(&text).map_err(|error| said(error.to_string()))?;
        shown.drawn =
            (1..).map_while(|n| fs::read_to_string(own.join(format!("figure-{n}.svg"))).ok()).collect();
        Ok(shown)
    };
    names.iter().map(read).collect()
}

/// Every number of a study, over seeds.
fn table(runs: &[&Ran]) -> Result<String, String> {
    let mut order: Vec<(String, String)> = Vec::new();
    let mut all: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        let cell = named(&run.labels);
        for phase in &run.summary.phases {
            let key = (cell.clone(), phase.name.clone());
            let place = order.iter().position(|known| *known == key).unwrap_or_else(|| {
                order.push(key);
                order.len() - 1
            });
            for (name, value) in &phase.values {
                all.entry((place, name)).or_default().push(*value);
            }
        }
    }
    let mut csv = csv::Writer::from_writer(Vec::new());
    let said = |error: csv::Error| error.to_string();
    csv.write_record(["cell", "phase", "name", "mean", "half", "seeds"]).map_err(said)?;
    for ((place, name), values) in all {
        let (cell, phase) = &order[place];
        let Some(estimate) = Estimate::of(&values) else { continue };
        let half = estimate.half.map_or_else(String::new, digits);
        let row = [cell, phase, name, &digits(estimate.mean), &half, &estimate.n.to_string()];
        csv.write_record(row).map_err(said)?;
    }
    let bytes = csv.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Six digits: more than any seed repeats.
fn digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// Every claim as a row of Markdown.
fn overview(shown: &[Shown]) -> String {
    let mut text = String::from("# Results\n");
    origins(shown).iter().for_each(|origin| text.push_str(&format!("\n{origin}\n")));
    let mut paper = None;
    for study in shown {
        let folder = study.paper();
        let entry = study.name.rsplit('/').next().unwrap_or_default();
        if paper != Some(folder) {
            text.push_str(&format!("\n## {folder}\n\n| entry | seeds | claim | the paper | must be | ours | verdict |\n|---|---|---|---|---|---|---|\n"));
            paper = Some(folder);
        }
        if study.verdicts.is_empty() {
            text.push_str(&format!(
                "| [{entry}]({}/) | {} | compared, not judged | | | | |\n",
                study.name,
                seeds(study)
            ));
        }
        for verdict in &study.verdicts {
            let gate = if verdict.gating { " (gate)" } else { "" };
            let cells = [
                format!("[{entry}]({}/)", study.name),
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
