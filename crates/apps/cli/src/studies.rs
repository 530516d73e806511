//! Running studies and saying what they showed.

use crate::args::{How, On};
use crate::backend::{self, identity, simulator};
use crate::catalog::{PAPERS, natural};
use crate::watch::Bars;
use crate::{Failure, print, published};
use poseidon_lab::canonical::plan_hash;
use poseidon_lab::compare;
use poseidon_lab::judge::{Outcome, named};
use poseidon_lab::report::{self, Shown};
use poseidon_lab::store::Store;
use poseidon_lab::study::{self, Finished, Options, Study, StudyError, Watch};
use poseidon_lab::tables::Format;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn run(
    studies: &[Study],
    how: &How,
    records: Option<Format>,
    shard: (usize, usize),
    is_suite: bool,
    on: On,
) -> Result<(), Failure> {
    let options = Options {
        seeds: how.seeds,
        jobs: backend::jobs(on, how.jobs),
        records,
        shard,
        identity: identity(on),
        code_hash: backend::code_hash(on),
    };
    let runs = studies.iter().map(|study| study.runs(how.seeds)).sum::<usize>() / shard.1;
    let bars = Bars::new(runs, how.quiet || how.json);
    let store = Store::new(&how.output);
    let finished = study::run(studies, backend::of(on)?.as_ref(), &store, &options, &bars).map_err(
        |error| match error {
            StudyError::Scenario(error) => Failure::Scenario(error),
            StudyError::Store(_) | StudyError::Panicked { .. } => Failure::Run(error.to_string()),
        },
    )?;
    bars.finish();
    let shown = show(studies, &finished, &store)?;
    if is_suite || studies.len() > 1 {
        page(&shown, &store, &options.identity)?;
    }
    let hash = study::result_hash(&finished);
    if how.json {
        print::json(&shown, &finished, &hash)?;
    } else if is_suite {
        print::verdicts(&shown);
        say!("\nresult {hash}; the page about it: {}", store.root().join("report.html").display());
    } else {
        print::study(&shown[0], &finished)?;
        say!("\nresult {hash}; kept in {}", store.study(&studies[0].name).display());
    }
    if bars.is_interrupted() {
        return Err(Failure::Interrupted("what was finished is kept, and `poseidon report` reads it"));
    }
    gate(&shown, shard == (0, 1))
}

/// A gate that was not measured is not passed, unless its cells were cut or are another part's to run.
fn gate(shown: &[Shown], is_whole: bool) -> Result<(), Failure> {
    let is_shut = |study: &Shown, outcome: Outcome| match outcome {
        Outcome::Fails => true,
        Outcome::NotRun => is_whole && study.cut.is_none(),
        Outcome::Holds | Outcome::NotComparable => false,
    };
    let failed = shown
        .iter()
        .flat_map(|study| study.verdicts.iter().map(move |verdict| (study, verdict)))
        .filter(|(study, verdict)| verdict.gating && is_shut(study, verdict.outcome))
        .count();
    if failed > 0 { Err(Failure::Gate(failed)) } else { Ok(()) }
}

fn show(studies: &[Study], finished: &[Finished], store: &Store) -> Result<Vec<Shown>, Failure> {
    let one = |(place, study): (usize, &Study)| {
        let own: Vec<&Finished> = finished.iter().filter(|run| run.study == place).collect();
        let mut shown = report::show(study, &own)?;
        report::keep(&mut shown, store)?;
        Ok(shown)
    };
    studies.iter().enumerate().map(one).collect::<Result<_, String>>().map_err(Failure::Run)
}

pub(crate) fn page(shown: &[Shown], store: &Store, tool: &str) -> Result<(), Failure> {
    let page = report::page("What was reproduced", shown, PAPERS, tool);
    let path = store.root().join("report.html");
    std::fs::write(&path, page).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
}

/// Judges and draws what a folder holds; of one that was published, only the page is made anew.
pub(crate) fn report(folder: &Path, json: bool, publish: Option<&Path>) -> Result<(), Failure> {
    let store = Store::new(folder);
    let said = |error: std::io::Error| Failure::Run(format!("{}: {error}", folder.display()));
    let mut names = store.studies("scenario.toml").map_err(said)?;
    names.sort_by_key(|name| natural(name));
    if names.is_empty() && !store.studies("verdicts.json").map_err(said)?.is_empty() {
        let shown = published::index(folder)?;
        print::verdicts(&shown);
        say!("\nthe page about it: {}", store.root().join("report.html").display());
        return gate(&shown, false);
    }
    if names.is_empty() {
        return Err(Failure::Run(format!(
            "{}: there are no results; `poseidon run` and `repro` make some",
            folder.display()
        )));
    }
    let (mut studies, mut finished) = (Vec::new(), Vec::new());
    for name in names {
        let (study, runs) = load(&store, studies.len(), &name)?;
        finished.extend(runs);
        studies.push(study);
    }
    let shown = show(&studies, &finished, &store)?;
    let tool = finished.first().map_or("", |run| run.manifest.tool.as_str()).to_owned();
    page(&shown, &store, &tool)?;
    if let Some(to) = publish {
        let source = published::source(&studies, &finished)?;
        report::publish(&studies, &shown, &finished, to, &source).map_err(Failure::Run)?;
        published::index(to)?;
    }
    let hash = study::result_hash(&finished);
    if json {
        print::json(&shown, &finished, &hash)?;
    } else {
        print::verdicts(&shown);
        say!("\nresult {hash}; the page about it: {}", store.root().join("report.html").display());
    }
    gate(&shown, false)
}

/// A study of a folder and its results. What was run in full counts; only where nothing was, what was run quickly.
fn load(store: &Store, place: usize, name: &str) -> Result<(Study, Vec<Finished>), Failure> {
    let path = store.study(name).join("scenario.toml");
    let text = std::fs::read(&path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    let read =
        |quick| Study::read_bytes(&format!("scenarios/{name}.toml"), &text, quick).map_err(Failure::Scenario);
    let runs = |study: &Study| store.load(place, study, &identity(On::Sim)).map_err(Failure::Run);
    let full = read(false)?;
    let found = runs(&full)?;
    if !found.is_empty() {
        return Ok((full, found));
    }
    let quick = read(true)?;
    let found = runs(&quick)?;
    Ok((quick, found))
}

/// Puts two folders side by side.
pub(crate) fn compare(first: &Path, second: &Path, metrics: &[String], json: bool) -> Result<(), Failure> {
    let stores = [Store::new(first), Store::new(second)];
    let mut names = stores[0]
        .studies("scenario.toml")
        .map_err(|error| Failure::Run(format!("{}: {error}", first.display())))?;
    names.sort_by_key(|name| natural(name));
    names.retain(|name| stores[1].study(name).join("scenario.toml").is_file());
    let asked: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let metrics = if asked.is_empty() { compare::METRICS } else { asked.as_slice() };
    let mut rows = Vec::new();
    let mut known = BTreeSet::new();
    for name in &names {
        let [one, other] = [load(&stores[0], 0, name)?.1, load(&stores[1], 0, name)?.1];
        let [one, other] = [&one, &other].map(|runs| runs.iter().map(|run| &run.ran).collect::<Vec<_>>());
        rows.extend(compare::compare(name, &one, &other, metrics));
        known.extend(compare::metrics_of(&one).intersection(&compare::metrics_of(&other)).cloned());
    }
    let (first_name, second_name) = (first.display(), second.display());
    if known.is_empty() {
        let what = "have no scenario with results in common";
        return Err(Failure::Run(format!("{first_name} and {second_name} {what}")));
    }
    let absent: Vec<&str> = metrics.iter().copied().filter(|metric| !known.contains(*metric)).collect();
    let list: Vec<&str> = known.iter().map(String::as_str).collect();
    let what = format!(
        "no scenario has the metric {} in both {first_name} and {second_name}; there are {}",
        absent.join(" or "),
        list.join(", ")
    );
    match (rows.is_empty(), absent.is_empty()) {
        (true, false) => return Err(Failure::Run(what)),
        (true, true) => {
            let what = "have no cell with the same metric in common";
            return Err(Failure::Run(format!("{first_name} and {second_name} {what}")));
        }
        // Those that nobody asked for by name may be absent.
        (false, false) if !asked.is_empty() => eprintln!("poseidon: {what}"),
        (false, _) => {}
    }
    print::side_by_side(&rows, [first, second], json)
}

pub(crate) fn explain(study: &Study, all: bool, seed: u64) -> Result<(), Failure> {
    // Every cell is worked out, also those that are not printed: a scenario that `run` refuses is refused here.
    study.check(&simulator()).map_err(Failure::Scenario)?;
    let shown = if all { study.cells.len() } else { 1 };
    for cell in &study.cells[..shown] {
        if cell.scenario.analytic.is_some() {
            say!("{} is a closed form: nothing runs", study.name);
            continue;
        }
        if let Some(why) = &cell.scenario.withdrawn {
            say!("{} is withdrawn, and nothing runs: {why}", study.name);
            continue;
        }
        let resolved = study.resolve(cell, seed, &simulator()).map_err(Failure::Scenario)?;
        say!("{:<22} {}", "cell", named(&cell.labels));
        say!("{:<22} {}", "plan", plan_hash(&resolved));
        say!("{}", poseidon_lab::explain::plan(&resolved));
    }
    if !all && study.cells.len() > 1 {
        eprintln!("the first of {} cells; --all prints every one", study.cells.len());
    }
    Ok(())
}
