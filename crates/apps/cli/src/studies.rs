//! Runs studies and prints their reports.

use crate::backend::{self, simulator};
use crate::backend_kind::BackendKind;
use crate::catalog::PAPERS;
use crate::cloud::Output;
use crate::failure::RESULTS_KEPT;
use crate::progress::ProgressBars;
use crate::recording::CheckedRecording;
use crate::study_args::StudyArgs;
use crate::{Failure, figures, print, published};
use core::time::Duration;
use poseidon_lab::budget::{Limits, ShortCount, SuiteEstimate, TimeEstimation, short_bytes};
use poseidon_lab::canonical::plan_hash;
use poseidon_lab::compare::{DEFAULT_METRICS, FolderComparison, compare_folders};
use poseidon_lab::cost::{Cost, estimate_cost};
use poseidon_lab::judge::cell_name;
use poseidon_lab::report::{self, ReportError, Results, StudyReport};
use poseidon_lab::runner::{self, RunEnvironment, RunOptions, Shard, TaskReport, TaskShare};
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use poseidon_lab::tables::Format;
use std::path::Path;

/// Runs one study and prints its report.
pub(crate) fn run_one(
    study: Study,
    args: &StudyArgs,
    records: Option<Format>,
    backend: BackendKind,
    recording: Option<&CheckedRecording>,
) -> Result<(), Failure> {
    let name = study.name.clone();
    let suite = Suite::run(vec![study], args, records, Shard::WHOLE, backend)?;
    let folder = suite.store.study_folder(&name);
    // The page of the study links to the recordings. Interrupted runs are not recorded.
    let recording = recording.filter(|_| suite.stop.is_none());
    let recorded = recording.map_or_else(|| Ok(Vec::new()), |recording| recording.write(&suite.store));
    let page = report::write_study_page(&suite.reports[0], &folder, suite.results.program())?;
    if args.json {
        print::print_json(&suite.reports, &suite.results.runs, &suite.result_hash)?;
    } else {
        print::print_study(&suite.reports[0], &suite.results.runs)?;
        outln!("\nresult {}; stored in {}", suite.result_hash, folder.display());
        outln!("report: {}", page.display());
    }
    for line in recorded? {
        if args.json {
            eprintln!("{line}");
        } else {
            outln!("{line}");
        }
    }
    suite.finish(true)
}

/// Runs several studies and prints a table of their verdicts.
pub(crate) fn run_suite(
    studies: Vec<Study>,
    args: &StudyArgs,
    records: Option<Format>,
    shard: Shard,
) -> Result<(), Failure> {
    let suite = Suite::run(studies, args, records, shard, BackendKind::Sim)?;
    let identity = backend::identity(BackendKind::Sim);
    let page = report::write_page(&suite.reports, suite.store.root(), PAPERS, &identity)?;
    if args.json {
        print::print_json(&suite.reports, &suite.results.runs, &suite.result_hash)?;
    } else {
        print::print_verdicts(&suite.reports);
        outln!("\nresult {}; report: {}", suite.result_hash, page.display());
    }
    suite.finish(shard == Shard::WHOLE)
}

/// Runs a task, and prints what it did.
pub(crate) fn run_task(
    study: Study,
    args: &StudyArgs,
    records: Option<Format>,
    task: TaskShare,
    expiry: Duration,
) -> Result<(), Failure> {
    let options = RunOptions {
        seeds: args.seeds,
        jobs: backend::jobs(BackendKind::Sim, args.jobs),
        records,
        shard: Shard::WHOLE,
        program: backend::program(BackendKind::Sim),
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    let Shard { index, count } = task.shard;
    let runs = study.run_count(args.seeds).div_ceil(count);
    let progress = ProgressBars::new(runs, args.quiet)
        .without_bars(true)
        .with_max_time(args.max_time)
        .with_run_lines(!args.quiet);
    let output = Output::for_task(args, expiry)?;
    let store = &output.store;
    let simulator = simulator();
    let environment = RunEnvironment { backend: &simulator, store, options: &options, observer: &progress };
    let report = runner::run_task(&[study], task, output.shared(), &environment);
    progress.finish();
    let report = report?;
    if args.json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        let TaskReport { share, computed, helped, found, elsewhere, failed } = &report;
        outln!(
            "task {index} of {count}: a share of {share} runs; computed {computed}, {helped} of them for other tasks; \
             {found} were there, {elsewhere} run elsewhere, {} failed",
            failed.len()
        );
        failed.iter().for_each(|(run, error)| eprintln!("poseidon: {run}: {error}"));
    }
    if let Some(limit) = progress.exceeded_time() {
        return Err(Failure::OverTime(limit));
    }
    if progress.has_signal() {
        return Err(Failure::Interrupted(RESULTS_KEPT));
    }
    match report.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} runs failed; `poseidon status` lists them"))),
    }
}

/// The results and reports of several studies.
pub(crate) struct Suite {
    pub(crate) store: Store,
    pub(crate) results: Results,
    pub(crate) reports: Vec<StudyReport>,
    pub(crate) result_hash: String,
    /// Why the runs were stopped, if they were.
    pub(crate) stop: Option<Failure>,
}

impl Suite {
    /// Runs studies, and writes their reports.
    pub(crate) fn run(
        studies: Vec<Study>,
        args: &StudyArgs,
        records: Option<Format>,
        shard: Shard,
        backend: BackendKind,
    ) -> Result<Self, Failure> {
        let options = RunOptions {
            seeds: args.seeds,
            jobs: backend::jobs(backend, args.jobs),
            records,
            shard,
            program: backend::program(backend),
            limits: Limits { memory: args.max_memory, time: args.max_time },
            time_estimation: match backend {
                BackendKind::Linux => TimeEstimation::RealTime,
                BackendKind::Sim if args.quiet && args.max_time.is_none() => TimeEstimation::Off,
                BackendKind::Sim => TimeEstimation::FromSpeed,
            },
        };
        let run_count = studies.iter().map(|study| study.run_count(args.seeds)).sum::<usize>() / shard.count;
        let progress =
            ProgressBars::new(run_count, args.quiet).without_bars(args.json).with_max_time(args.max_time);
        let backend = backend::create(backend)?;
        let output = Output::for_studies(args, &studies)?;
        let environment = RunEnvironment {
            backend: backend.as_ref(),
            store: &output.store,
            options: &options,
            observer: &progress,
        };
        let runs = runner::run_shared_studies(&studies, output.shared(), &environment);
        let store = output.store.clone();
        progress.finish();
        let mut results = Results { studies, runs: runs? };
        if let [_] = results.studies.as_slice() {
            // The message times of a whole suite can take more memory than there is.
            results.load_messages()?;
        }
        progress.print_reuse();
        let mut reports = results.write_reports(&store)?;
        reports.iter_mut().try_for_each(|report| figures::export(report, &args.figures))?;
        let result_hash = runner::result_hash(&results.runs);
        let stop = match progress.exceeded_time() {
            Some(limit) => Some(Failure::OverTime(limit)),
            None => progress.has_signal().then_some(Failure::Interrupted(RESULTS_KEPT)),
        };
        Ok(Self { store, results, reports, result_hash, stop })
    }

    /// Returns an error if the runs were stopped or gating claims failed.
    fn finish(self, is_complete: bool) -> Result<(), Failure> {
        leave_allocated(self.results);
        match self.stop {
            Some(failure) => Err(failure),
            None => check_gates(&self.reports, is_complete),
        }
    }
}

/// Leaves the memory of results to the system, because the command ends. To free 10^5 runs takes half a second.
fn leave_allocated(results: Results) {
    core::mem::forget(results);
}

/// Returns an error if a gating claim failed.
fn check_gates(reports: &[StudyReport], is_complete: bool) -> Result<(), Failure> {
    match report::failed_gates(reports, is_complete) {
        0 => Ok(()),
        failed => Err(Failure::Gate(failed)),
    }
}

/// Judges the claims and draws the figures in a results folder again. For published results, refreshes the table and
/// the page.
pub(crate) fn report(folder: &Path, json: bool, publish: Option<&Path>) -> Result<(), Failure> {
    let store = Store::new(folder);
    let results = Results::load(&store, &backend::identity(BackendKind::Sim))?;
    if results.studies.is_empty() {
        if !published::has_results(folder)? {
            return Err(ReportError::NoResults(folder.to_owned()).into());
        }
        let reports = published::refresh_index(folder)?;
        print::print_verdicts(&reports);
        outln!("\nreport: {}", folder.join("report.html").display());
        return check_gates(&reports, false);
    }
    let reports = results.write_reports(&store)?;
    let page = report::write_page(&reports, store.root(), PAPERS, results.program())?;
    if let Some(target) = publish {
        published::publish(&results, &reports, target)?;
    }
    let hash = runner::result_hash(&results.runs);
    if json {
        print::print_json(&reports, &results.runs, &hash)?;
    } else {
        print::print_verdicts(&reports);
        outln!("\nresult {hash}; report: {}", page.display());
    }
    leave_allocated(results);
    check_gates(&reports, false)
}

/// Compares two results folders.
pub(crate) fn compare(first: &Path, second: &Path, metrics: &[String], json: bool) -> Result<(), Failure> {
    let requested: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let metrics = if requested.is_empty() { DEFAULT_METRICS } else { requested.as_slice() };
    let stores = [Store::new(first), Store::new(second)];
    let identity = backend::identity(BackendKind::Sim);
    let FolderComparison { mut rows, known_metrics, equal } =
        compare_folders(&stores[0], &stores[1], metrics, &identity)?;
    let folders = format!("{} and {}", first.display(), second.display());
    if known_metrics.is_empty() {
        return Err(Failure::Run(format!("{folders} have no scenario with results in common")));
    }
    let absent: Vec<&str> =
        metrics.iter().copied().filter(|metric| !known_metrics.contains(*metric)).collect();
    let absent_message = || {
        let known: Vec<&str> = known_metrics.iter().map(String::as_str).collect();
        let (absent, known) = (absent.join(" or "), known.join(", "));
        format!("no scenario has the metric {absent} in both {folders}; the common metrics are {known}")
    };
    match (rows.is_empty(), absent.is_empty()) {
        (true, false) => return Err(Failure::Run(absent_message())),
        (true, true) => {
            return Err(Failure::Run(format!("{folders} have no cell with the same metric in common")));
        }
        // Do not warn about absent default metrics.
        (false, false) if !requested.is_empty() => eprintln!("poseidon: {}", absent_message()),
        (false, _) => {}
    }
    if !json {
        equal.iter().for_each(|(study, hash)| outln!("{study}: the same result ({hash})"));
        if requested.is_empty() {
            rows.retain(|row| equal.iter().all(|(study, _)| row.study != *study));
            if rows.is_empty() {
                return Ok(());
            }
        }
    }
    print::print_comparison(&rows, [first, second], json)
}

/// Prints the complete configuration of a study's runs.
pub(crate) fn explain(study: &Study, all: bool, seed: u64) -> Result<(), Failure> {
    // Check all cells, so that `explain` rejects every scenario that `run` rejects.
    let estimate = estimate(study)?;
    let cell_count = if all { study.cells.len() } else { 1 };
    for cell in &study.cells[..cell_count] {
        if cell.scenario.analytic.is_some() {
            outln!("{} is a closed form and needs no runs", study.name);
            continue;
        }
        if let Some(reason) = &cell.scenario.withdrawn {
            outln!("{} is withdrawn and does not run: {reason}", study.name);
            continue;
        }
        let resolved = study.resolve(cell, seed, &simulator())?;
        outln!("{:<22} {}", "cell", cell_name(&cell.labels));
        outln!("{:<22} {}", "plan", plan_hash(&resolved));
        outln!("{:<22} {}", "cost", format_cost(&estimate_cost(&resolved, &simulator())));
        outln!("{}", poseidon_lab::explain::describe_run(&resolved));
    }
    if !all && study.cells.len() > 1 {
        eprintln!("this is the first of {} cells; --all prints every cell", study.cells.len());
    }
    if estimate.pending > 0 {
        eprintln!("{estimate}");
    }
    Ok(())
}

/// Checks a study and estimates the cost of all its runs.
fn estimate(study: &Study) -> Result<SuiteEstimate, Failure> {
    let options = RunOptions {
        seeds: None,
        jobs: backend::jobs(BackendKind::Sim, None),
        records: None,
        shard: Shard::WHOLE,
        program: backend::program(BackendKind::Sim),
        limits: Limits::default(),
        time_estimation: TimeEstimation::FromSpeed,
    };
    Ok(runner::estimate_studies(core::slice::from_ref(study), &simulator(), None, &options)?)
}

fn format_cost(cost: &Cost) -> String {
    let [messages, packets, hops] =
        [cost.messages, cost.packets, cost.packet_hops].map(|count| ShortCount { count, unit: "" });
    let memory = short_bytes(cost.memory);
    format!("{messages} messages, {packets} packets, {hops} packet-hops, {memory} of memory")
}
