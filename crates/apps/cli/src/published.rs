//! Publishes results, refreshes their index, judges changed claims and verifies numbers.

use crate::backend::{self, simulator};
use crate::backend_kind::BackendKind;
use crate::catalog::{self, PAPERS, SCENARIOS};
use crate::code_hash::{CODE, LINUX_CODE, LOCK, code_hash};
use crate::failure::RESULTS_KEPT;
use crate::progress::ProgressBars;
use crate::study_args::StudyArgs;
use crate::{Failure, location, repository};
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::report::{
    self, JudgeCounts, NumberComparison, NumberDifference, NumberKey, Provenance, PublicationSource,
    PublishedFolder, PublishedNumber, PublishedStudy, Results, StudyReport,
};
use poseidon_lab::runner::{self, RunObserver, RunOptions, Shard};
use poseidon_lab::store::Store;
use poseidon_sim::Simulator;
use std::path::Path;

/// Returns whether a folder contains published results.
pub(crate) fn has_results(folder: &Path) -> Result<bool, Failure> {
    let backend = simulator();
    Ok(published_folder(folder, &backend).has_studies()?)
}

/// Refreshes the table and the page in a folder of published results.
pub(crate) fn refresh_index(folder: &Path) -> Result<Vec<StudyReport>, Failure> {
    let backend = simulator();
    Ok(published_folder(folder, &backend).refresh_index(PAPERS)?)
}

/// Publishes reports into a folder.
pub(crate) fn publish(results: &Results, reports: &[StudyReport], target: &Path) -> Result<(), Failure> {
    let source = publication_source(results)?;
    report::publish(results, reports, target, &source)?;
    refresh_index(target)?;
    Ok(())
}

fn published_folder<'a>(folder: &'a Path, backend: &'a Simulator) -> PublishedFolder<'a> {
    let jobs = backend::jobs(BackendKind::Sim, None);
    PublishedFolder { folder, scenarios: &scenario_text, backend, jobs }
}

/// Returns the current text of a scenario: the file below the current directory, or the built-in scenario.
fn scenario_text(study: &str) -> Option<String> {
    let built_in = || SCENARIOS.iter().find(|(name, _)| *name == study).map(|(_, text)| (*text).to_owned());
    std::fs::read_to_string(format!("scenarios/{study}.toml")).ok().or_else(built_in)
}

/// Returns the commit and the program to record with published results. Rejects results that no commit can reproduce:
/// runs by another program, code or scenarios that differ from the repository, and uncommitted changes.
fn publication_source(results: &Results) -> Result<PublicationSource, Failure> {
    let reject = |reason: String| Err(Failure::Run(format!("cannot publish: {reason}")));
    let built = [backend::code_hash(BackendKind::Sim), backend::code_hash(BackendKind::Linux)];
    if let Some(run) = results.runs.iter().find(|run| !built.contains(&run.manifest.code_hash)) {
        let (study, program) = (&results.studies[run.study].name, &run.manifest.program);
        return reject(format!("{study} was run by {program}, not by this program; run it again"));
    }
    let repository = repository::find()?;
    let is_on_linux = results.runs.iter().any(|run| run.manifest.code_hash == built[1]);
    let hash_of =
        |paths: &[&str]| code_hash(&repository, paths).map_err(|error| Failure::Run(error.to_string()));
    let checked_out = match is_on_linux {
        false => hash_of(CODE)?,
        true => format!("{}-{}", hash_of(CODE)?, hash_of(LINUX_CODE)?),
    };
    let built = &built[usize::from(is_on_linux)];
    if checked_out != *built {
        return reject(format!(
            "the code in {} has the hash {checked_out}, but this program was built from {built}; build it again",
            repository.display()
        ));
    }
    let mut files: Vec<String> = CODE.iter().chain([&LOCK]).map(|file| (*file).to_owned()).collect();
    files.extend(LINUX_CODE.iter().filter(|_| is_on_linux).map(|file| (*file).to_owned()));
    for study in &results.studies {
        let file = format!("scenarios/{}.toml", study.name);
        if std::fs::read_to_string(repository.join(&file)).ok().as_ref() != Some(&study.text) {
            return reject(format!(
                "{file} does not exist or is not the scenario that was run; run {} again",
                study.name
            ));
        }
        files.push(file);
    }
    let commit = repository::commit_of(&repository, &files)?;
    Ok(PublicationSource { commit, program: backend::program(BackendKind::Sim) })
}

/// Judges published studies by the current claims in their scenarios, and prints the changes.
pub(crate) fn judge_again(folder: &Path) -> Result<(), Failure> {
    let commit = repository::commit_of(&repository::find()?, &["scenarios".to_owned()])?;
    let backend = simulator();
    let published = published_folder(folder, &backend);
    let (changes, counts) = published.judge_again(&commit)?;
    for change in changes {
        let before = change.before.map_or("not judged", report::outcome_word);
        outln!("{}: {}: {before}, now {}", change.study, change.claim, report::outcome_word(change.after));
    }
    published.refresh_index(PAPERS)?;
    let JudgeCounts { by_seeds, by_means, unchanged } = counts;
    outln!(
        "{by_seeds} claims judged by the values of each seed, {by_means} by means over seeds; {unchanged} unchanged"
    );
    Ok(())
}

/// Runs a published study again and compares every number with the published number.
pub(crate) fn verify(name: &str, folder: &Path, args: &StudyArgs) -> Result<(), Failure> {
    let name = catalog::find_study(name, false)?.name;
    let backend = simulator();
    let PublishedStudy { report, study, provenance } =
        published_folder(folder, &backend).load_study(&name)?;
    let run_count = study.run_count(None);
    eprintln!("{name}: {run_count} runs; the published runs took {:.0} s", report.wall_s);
    let options = RunOptions {
        seeds: None,
        jobs: backend::jobs(BackendKind::Sim, args.jobs),
        records: None,
        shard: Shard::WHOLE,
        program: backend::program(BackendKind::Sim),
        limits: Limits::default(),
        time_estimation: if args.quiet { TimeEstimation::Off } else { TimeEstimation::FromSpeed },
    };
    let progress = ProgressBars::new(run_count, args.quiet).without_bars(args.json);
    location::require_folder(&args.output)?;
    let store = Store::new(&args.output);
    let runs = runner::run_studies(&[study], &backend, &store, &options, &progress)?;
    progress.finish();
    if progress.is_interrupted() {
        return Err(Failure::Interrupted(RESULTS_KEPT));
    }
    let comparison = report::compare_with_published(folder, &report, &runs)?;
    if args.json {
        print_comparison_json(&name, &comparison, &provenance)?;
    } else {
        print_comparison(&comparison, &provenance);
    }
    match comparison.differences.len() {
        0 => Ok(()),
        count => Err(Failure::Run(format!("{count} of {} numbers of {name} differ", comparison.compared))),
    }
}

/// The maximum number of differences to print.
const MAX_DIFFERENCES: usize = 10;

fn print_comparison_json(
    study: &str,
    comparison: &NumberComparison,
    provenance: &Provenance,
) -> Result<(), Failure> {
    let value = |number: &Option<PublishedNumber>| {
        number.map(
            |number| serde_json::json!({ "mean": number.mean, "half": number.half, "seeds": number.seeds }),
        )
    };
    let row = |difference: &NumberDifference| {
        let NumberDifference { key: NumberKey { cell, phase, name }, published, rerun } = difference;
        serde_json::json!({
            "cell": cell, "phase": phase, "name": name, "published": value(published), "rerun": value(rerun),
        })
    };
    let first = comparison.differences.iter().take(MAX_DIFFERENCES);
    let output = serde_json::json!({
        "study": study,
        "published": provenance,
        "code_hash": backend::code_hash(BackendKind::Sim),
        "compared": comparison.compared,
        "newer": comparison.newer,
        "differ": comparison.differences.len(),
        "first": first.map(row).collect::<Vec<_>>(),
    });
    outln!("{}", serde_json::to_string_pretty(&output)?);
    Ok(())
}

fn print_comparison(comparison: &NumberComparison, provenance: &Provenance) {
    outln!("published: {provenance}");
    outln!("run again by {}", backend::identity(BackendKind::Sim));
    outln!("{} numbers compared, {} differ", comparison.compared, comparison.differences.len());
    if comparison.newer > 0 {
        outln!("{} numbers not compared: their metrics are newer than the publication", comparison.newer);
    }
    let format_number = |number: &Option<PublishedNumber>| {
        let Some(number) = number else { return "missing".to_owned() };
        let half = number.half.map_or_else(String::new, |half| format!(" ± {half}"));
        format!("{}{half} ({} seeds)", number.mean, number.seeds)
    };
    for difference in comparison.differences.iter().take(MAX_DIFFERENCES) {
        let NumberDifference { key: NumberKey { cell, phase, name }, published, rerun } = difference;
        let (published, rerun) = (format_number(published), format_number(rerun));
        outln!("  {cell}, {phase}, {name}: published {published}, now {rerun}");
    }
}
