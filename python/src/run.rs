//! Runs scenarios and holds their results.

use crate::convert::{escape_html, from_json};
use crate::error::{failed_study, failure, invalid};
use crate::figure::Figure;
use crate::law::signals_of;
use crate::observer::{Observer, RunTables};
use crate::python_laws::{self, Calls, PYTHON_LAWS};
use crate::scenario::{Scenario, SuppliedLaw};
use crate::table::Table;
use crate::temporary::{TemporaryFolder, copy_folder};
use arrow_array::RecordBatch;
use core::num::NonZeroU32;
use core::sync::atomic::Ordering;
use core::time::Duration;
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::judge::cell_name;
use poseidon_lab::manifest::Program;
use poseidon_lab::report::{self, StudyReport, format_measured, format_seeds, outcome_word};
use poseidon_lab::runner::{
    RunEnvironment, RunOptions, Shard, StudyError, result_hash, run_seeds, run_studies,
};
use poseidon_lab::store::{FinishedRun, Store};
use poseidon_lab::study::Study;
use poseidon_lab::tables::TABLES;
use poseidon_sim::Simulator;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange, PyRangeMethods};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};

/// The time between two checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns a single-threaded simulator. Parallelism comes from running several seeds and cells at once.
pub(crate) fn simulator() -> Simulator {
    Simulator { custom_laws: Some(&PYTHON_LAWS), ..Simulator::with_threads(NonZeroU32::MIN) }
}

/// Returns the name of this program in manifests. It is that of the command with the same code and compiler.
fn program(has_python_laws: bool) -> Program {
    let (version, code, compiler) =
        (env!("CARGO_PKG_VERSION"), env!("POSEIDON_CODE"), env!("POSEIDON_COMPILER"));
    let suffix = if has_python_laws { " with laws in Python" } else { "" };
    let identity = format!("poseidon {version} ({code}, {compiler}){suffix}");
    Program { identity, code_hash: code.to_owned() }
}

/// The seeds of a run.
#[derive(Clone, Copy, Debug)]
enum Seeds {
    /// As many as the scenario says, or this many, starting at 1.
    Count(Option<u32>),
    /// From the first to the last.
    Range(u64, u64),
}

impl Seeds {
    fn read(value: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(value) = value else { return Ok(Self::Count(None)) };
        if let Ok(range) = value.cast::<PyRange>() {
            let (start, stop) = (range.start()?, range.stop()?);
            if range.step()? != 1 || start < 0 || stop <= start {
                return Err(invalid("seeds: write a range of at least one seed, with step 1"));
            }
            return Ok(Self::Range(start.unsigned_abs() as u64, stop.unsigned_abs() as u64 - 1));
        }
        match value.extract::<u32>() {
            Ok(count) if count > 0 => Ok(Self::Count(Some(count))),
            _ => Err(invalid("seeds: write a number above zero or a range, such as range(1, 9)")),
        }
    }
}

/// What to run.
struct Job {
    study: Study,
    seeds: Seeds,
    options: RunOptions,
    store: Store,
}

impl Job {
    fn run(&self, observer: &Observer) -> Result<Vec<FinishedRun>, StudyError> {
        let studies = core::slice::from_ref(&self.study);
        let backend = simulator();
        match self.seeds {
            Seeds::Count(_) => run_studies(studies, &backend, &self.store, &self.options, observer),
            Seeds::Range(first, last) => {
                self.study.check(&backend)?;
                let environment = RunEnvironment {
                    backend: &backend,
                    store: &self.store,
                    options: &self.options,
                    observer,
                };
                run_seeds(studies, first..=last, &environment)
            }
        }
    }
}

/// Runs a scenario. `laws` are the names for the sweep `law`; `python_laws` are the name, the factory and the signals of
/// the laws in Python among them.
#[pyfunction]
#[pyo3(signature = (
    scenario, *, laws, python_laws, seeds, overrides, jobs, quick, rows, on_progress
))]
#[expect(clippy::too_many_arguments, reason = "Python has keyword arguments")]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    laws: Vec<String>,
    python_laws: Vec<(String, Py<PyAny>, Py<PyAny>)>,
    seeds: Option<&Bound<'_, PyAny>>,
    overrides: Option<&Bound<'_, PyDict>>,
    jobs: Option<usize>,
    quick: bool,
    rows: bool,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let mut scenario = Scenario::from_argument(scenario, quick)?;
    if let Some(overrides) = overrides {
        scenario = scenario.with_overrides_of(overrides)?;
    }
    let (mut supplied, mut factories) = (Vec::new(), Vec::new());
    for (id, (name, factory, signals)) in (0..).zip(python_laws) {
        supplied.push(SuppliedLaw { name, id, signals: signals_of(signals.bind(py))? });
        factories.push(factory);
    }
    let study = Study::clone(&scenario.with_laws_of(&laws, &supplied)?.study);
    let jobs = match (jobs, factories.is_empty()) {
        (Some(0), _) => return Err(invalid("jobs: write a number above zero")),
        (Some(jobs @ 2..), false) => {
            let text =
                format!("jobs is {jobs}, but laws in Python run on one thread; use jobs=1, or run processes");
            return Err(invalid(text));
        }
        (_, false) => 1,
        (jobs, true) => {
            jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, core::num::NonZero::get))
        }
    };
    let seeds = Seeds::read(seeds)?;
    let folder = TemporaryFolder::new()?;
    let options = RunOptions {
        seeds: if let Seeds::Count(count) = seeds { count } else { None },
        jobs,
        records: None,
        shard: Shard::WHOLE,
        program: program(!factories.is_empty()),
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    let cells = study.cells.iter().map(|cell| cell_name(&cell.labels)).collect();
    let observer = Observer::new(cells, rows, !factories.is_empty());
    let job = Job { study, seeds, options, store: Store::new(folder.path()) };
    let (runs, calls) = run_and_poll(py, &job, &observer, factories, on_progress.as_ref())?;
    let tables = batches_of(observer.take_tables())?;
    let Job { study, store, options, .. } = job;
    for text in observer.take_warnings() {
        let warnings = py.import("warnings")?;
        warnings.call_method1("warn", (text,))?;
    }
    let identity = options.program.identity;
    let results = Results { study, runs, tables, store, calls, identity, _folder: folder };
    Ok(Run { results: Arc::new(results), filter: Vec::new(), report: OnceLock::new() })
}

type RunResult = (Result<Vec<FinishedRun>, StudyError>, Calls, Option<PyErr>);

/// Runs the job on another thread. Meanwhile, this thread checks for Ctrl-C and reports progress.
fn run_and_poll(
    py: Python<'_>,
    job: &Job,
    observer: &Observer,
    factories: Vec<Py<PyAny>>,
    on_progress: Option<&Py<PyAny>>,
) -> PyResult<(Vec<FinishedRun>, Option<Calls>)> {
    let has_python_laws = !factories.is_empty();
    let work = move || -> RunResult {
        let run = || python_laws::with_laws(factories, || job.run(observer));
        // Laws in Python keep the thread attached, so that a call does not have to attach.
        if has_python_laws { Python::attach(|_| run()) } else { run() }
    };
    let poll = |interrupt: &mut Option<PyErr>| {
        let checked = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = on_progress else { return Ok(()) };
            callback.call1(py, observer.progress()).map(drop)
        });
        if let Err(error) = checked {
            interrupt.get_or_insert(error);
            observer.interrupted.store(true, Ordering::Relaxed);
        }
    };
    let (result, interrupt) = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let thread = scope.spawn(move || {
                let result = work();
                // The receiver waits until the thread ends.
                let _ = sender.send(());
                result
            });
            let mut interrupt = None;
            while let Err(mpsc::RecvTimeoutError::Timeout) = receiver.recv_timeout(POLL_INTERVAL) {
                poll(&mut interrupt);
            }
            (thread.join(), interrupt)
        })
    });
    let (runs, calls, law_error) =
        result.map_err(|_| PyRuntimeError::new_err("the run panicked; this is a bug, please report it"))?;
    if let Some(error) = interrupt.or(law_error) {
        return Err(error);
    }
    let runs = runs.map_err(|error| failed_study(&error))?;
    if runs.iter().any(|run| run.manifest.interrupted) {
        return Err(failure("the run was interrupted"));
    }
    Ok((runs, has_python_laws.then_some(calls)))
}

/// The rows of all runs: for each table, a batch per cell and seed.
type TableBatches = BTreeMap<&'static str, BTreeMap<(String, u64), RecordBatch>>;

fn batches_of(tables: BTreeMap<(String, u64), RunTables>) -> PyResult<TableBatches> {
    let mut batches = TableBatches::new();
    for (key, tables) in tables {
        for table in tables {
            let name = table.info.name;
            batches.entry(name).or_default().insert(key.clone(), Table::batch(table)?);
        }
    }
    Ok(batches)
}

/// The results of a call of `run`.
struct Results {
    study: Study,
    runs: Vec<FinishedRun>,
    tables: TableBatches,
    store: Store,
    /// The calls of laws in Python.
    calls: Option<Calls>,
    identity: String,
    /// Holds the files of the store.
    _folder: TemporaryFolder,
}

/// The results of a scenario.
#[pyclass(frozen, module = "poseidon_cc")]
pub(crate) struct Run {
    results: Arc<Results>,
    /// Only runs with these labels.
    filter: Vec<(String, String)>,
    report: OnceLock<StudyReport>,
}

impl Run {
    /// Returns the selected runs.
    pub(crate) fn selected(&self) -> Vec<&FinishedRun> {
        let has = |run: &FinishedRun, (sweep, value): &(String, String)| {
            run.run.labels.iter().any(|label| label.sweep == *sweep && label.value == *value)
        };
        let is_selected = |run: &&FinishedRun| self.filter.iter().all(|label| has(run, label));
        self.results.runs.iter().filter(is_selected).collect()
    }

    pub(crate) fn study(&self) -> &Study {
        &self.results.study
    }

    /// Returns the verdicts and figures.
    fn report(&self, py: Python<'_>) -> PyResult<&StudyReport> {
        if let Some(report) = self.report.get() {
            return Ok(report);
        }
        let runs = self.selected();
        let report = py.detach(|| StudyReport::new(self.study(), &runs)).map_err(failure)?;
        Ok(self.report.get_or_init(|| report))
    }

    fn table(&self, name: &str) -> Table {
        let info = TABLES.iter().find(|info| info.name == name).expect("the table exists");
        let Some(batches) = self.results.tables.get(name) else { return Table::empty(info) };
        let keys = self.selected().into_iter().map(|run| (cell_name(&run.run.labels), run.run.seed));
        Table::new(info, keys.filter_map(|key| batches.get(&key).cloned()).collect())
    }

    /// States how slow laws in Python were.
    fn describe_calls(&self) -> Option<String> {
        let calls = self.results.calls?;
        let ns = calls.mean_ns()?;
        let wall: f64 = self.results.runs.iter().map(|run| run.manifest.wall_s).sum();
        let share = 100.0 * calls.count as f64 * ns / (wall * 1e9).max(1.0);
        Some(format!(
            "laws in Python: {} calls of {:.1} us on one thread, {share:.0} % of the time of the runs",
            calls.count,
            ns / 1_000.0
        ))
    }
}

#[pymethods]
impl Run {
    #[getter]
    fn scenario(&self) -> Scenario {
        Scenario { study: Arc::new(self.study().clone()) }
    }

    #[getter]
    fn messages(&self) -> Table {
        self.table("messages")
    }

    #[getter]
    fn received(&self) -> Table {
        self.table("received")
    }

    #[getter]
    fn drops(&self) -> Table {
        self.table("drops")
    }

    #[getter]
    fn queues(&self) -> Table {
        self.table("queues")
    }

    #[getter]
    fn senders(&self) -> Table {
        self.table("senders")
    }

    #[getter]
    fn receivers(&self) -> Table {
        self.table("receivers")
    }

    #[getter]
    fn decisions(&self) -> Table {
        self.table("decisions")
    }

    /// The metrics: one row per cell, seed, phase and metric.
    #[getter]
    fn metrics(&self) -> PyResult<Table> {
        Table::metrics(&self.selected())
    }

    /// The mean of each metric over the seeds, by cell and phase.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // The sum and the number of values of each metric.
        type Sums<'a> = BTreeMap<&'a str, (f64, u32)>;
        let mut sums: BTreeMap<(usize, usize), (String, String, Sums<'_>)> = BTreeMap::new();
        let mut cells: Vec<String> = Vec::new();
        for run in self.selected() {
            let cell = cell_name(&run.run.labels);
            let index = cells.iter().position(|other| *other == cell).unwrap_or_else(|| {
                cells.push(cell.clone());
                cells.len() - 1
            });
            for (phase_index, phase) in run.run.summary.phases.iter().enumerate() {
                let entry = sums
                    .entry((index, phase_index))
                    .or_insert_with(|| (cell.clone(), phase.name.clone(), BTreeMap::new()));
                for (name, value) in &phase.values {
                    let (sum, count) = entry.2.entry(name).or_default();
                    (*sum, *count) = (*sum + value, *count + 1);
                }
            }
        }
        let summary = PyDict::new(py);
        for (cell, phase, metrics) in sums.into_values() {
            if !summary.contains(&cell)? {
                summary.set_item(&cell, PyDict::new(py))?;
            }
            let means = PyDict::new(py);
            for (name, (sum, count)) in metrics {
                means.set_item(name, sum / f64::from(count))?;
            }
            summary.as_any().get_item(&cell)?.set_item(phase, means)?;
        }
        Ok(summary)
    }

    /// The verdicts on the claims of the scenario, as dictionaries.
    #[getter]
    fn verdicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.report(py)?.verdicts).map_err(failure)?;
        from_json(py, &text)
    }

    /// The titles of the figures.
    #[getter]
    fn figures(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.report(py)?.figures.iter().map(|figure| figure.title.clone()).collect())
    }

    /// Returns a figure by its title, by a part of it, or by its number, which starts at zero.
    #[pyo3(signature = (name = None))]
    fn figure(&self, py: Python<'_>, name: Option<&Bound<'_, PyAny>>) -> PyResult<Figure> {
        let figures = &self.report(py)?.figures;
        let unknown = || {
            let titles = figures.iter().map(|figure| format!("{:?}", figure.title)).collect::<Vec<_>>();
            let known = if titles.is_empty() { "none".to_owned() } else { titles.join(", ") };
            PyKeyError::new_err(format!(
                "there is no such figure, or the name is ambiguous; there are {known}"
            ))
        };
        let found = match name {
            None => figures.first(),
            Some(name) => match name.extract::<usize>() {
                Ok(number) => figures.get(number),
                Err(_) => {
                    let name: String = name.extract()?;
                    let exact = figures.iter().find(|figure| figure.title == name);
                    let mut parts = figures.iter().filter(|figure| figure.title.contains(&name));
                    let only = parts.next().filter(|_| parts.next().is_none());
                    exact.or(only)
                }
            },
        };
        found.map(|figure| Figure { figure: figure.clone() }).ok_or_else(unknown)
    }

    /// Returns only the runs with these values of sweeps, such as `run.where(law="poseidon")`.
    #[pyo3(name = "where", signature = (**labels))]
    fn select(&self, labels: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut filter = self.filter.clone();
        for (sweep, value) in labels.into_iter().flatten() {
            let (sweep, value): (String, String) = (sweep.extract()?, value.str()?.extract()?);
            let mut values: Vec<&str> = Vec::new();
            for label in self.results.runs.iter().flat_map(|run| run.run.labels.iter()) {
                if label.sweep == sweep && !values.contains(&label.value.as_str()) {
                    values.push(&label.value);
                }
            }
            if !values.contains(&value.as_str()) {
                let known = if values.is_empty() { "no values".to_owned() } else { values.join(", ") };
                return Err(invalid(format!("the sweep {sweep:?} has no value {value:?}; it has {known}")));
            }
            filter.push((sweep, value));
        }
        Ok(Self { results: Arc::clone(&self.results), filter, report: OnceLock::new() })
    }

    /// A hash of all results. Equal runs have equal hashes, also those of the command.
    #[getter]
    fn result_hash(&self) -> String {
        let runs: Vec<FinishedRun> = self.selected().into_iter().cloned().collect();
        result_hash(&runs)
    }

    /// The version, the hash of the code and the compiler.
    #[getter]
    fn program(&self) -> &str {
        &self.results.identity
    }

    /// How often laws in Python were called and how long a call took; `None` without such laws.
    #[getter]
    fn python_law_cost(&self) -> Option<String> {
        self.describe_calls()
    }

    /// The number of packet-hops and the seconds of all runs.
    #[getter]
    fn cost(&self) -> (u64, f64) {
        let runs = self.selected();
        let hops = runs.iter().filter_map(|run| run.manifest.counters.number("packet_hops")).sum();
        (hops, runs.iter().map(|run| run.manifest.wall_s).sum())
    }

    /// Writes the results as the command does: runs, verdicts, figures and a page. Returns the path of the page.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<PathBuf> {
        copy_folder(self.results.store.root(), &folder)?;
        let store = Store::new(&folder);
        let mut report = self.report(py)?.clone();
        report.write(&store).map_err(failure)?;
        let study_folder = store.study_folder(&self.study().name);
        report::write_study_page(&report, &study_folder, &self.results.identity).map_err(failure)
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let report = self.report(py)?;
        let mut html = format!("<b>{}</b>", escape_html(&report.title));
        html.push_str(&format!("<p>{}</p>", escape_html(&self.describe(report))));
        if !report.verdicts.is_empty() {
            html.push_str("<table><tr><th>claim</th><th>must be</th><th>measured</th><th>verdict</th></tr>");
            for verdict in &report.verdicts {
                let cells = [
                    verdict.claim.clone(),
                    format!("{} {}", verdict.metric, verdict.condition),
                    format_measured(verdict),
                    outcome_word(verdict.outcome).to_owned(),
                ];
                let cells: String =
                    cells.iter().map(|cell| format!("<td>{}</td>", escape_html(cell))).collect();
                html.push_str(&format!("<tr>{cells}</tr>"));
            }
            html.push_str("</table>");
        }
        Ok(html)
    }

    fn _mime_(&self, py: Python<'_>) -> PyResult<(&'static str, String)> {
        Ok(("text/html", self._repr_html_(py)?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let report = self.report(py)?;
        Ok(format!("<Run {:?}: {}>", report.name, self.describe(report)))
    }
}

impl Run {
    fn describe(&self, report: &StudyReport) -> String {
        let mut laws: Vec<&str> = Vec::new();
        for binding in self.selected().iter().flat_map(|run| &run.manifest.law_bindings) {
            if !laws.contains(&binding.law.as_str()) {
                laws.push(&binding.law);
            }
        }
        let count =
            |word| report.verdicts.iter().filter(|verdict| outcome_word(verdict.outcome) == word).count();
        let calls = self.describe_calls().map_or_else(String::new, |calls| format!("; {calls}"));
        format!(
            "{} runs, {} seeds, laws {}; {} of {} claims hold{calls}",
            report.runs,
            format_seeds(report),
            laws.join(", "),
            count("holds"),
            report.verdicts.len(),
        )
    }
}
