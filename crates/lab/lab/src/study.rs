//! Studies: scenarios with all their cells and seeds, run side by side, each run kept under the hash of its plan and the program.

use crate::analytic;
use crate::canonical::{closed_form_hash, plan_hash};
use crate::check::check;
use crate::judge::Ran;
use crate::reduce::Reducer;
use crate::resolve::{Resolved, resolve};
use crate::samples::SamplesError;
use crate::scenario::{Cell, Label, Scenario, ScenarioError, cells, grouped, key_line, place};
use crate::store::{Manifest, Store, hex, run_name};
use crate::summary::Summary;
use crate::tables::{Format, Tables};
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, Ordering};
use poseidon_plan::Backend;
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_types::Picos;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex};

/// The most runs of a study. The list of them takes 40 MB; at a second each they would take eleven days.
pub const MAX_RUNS: usize = 1_000_000;

/// A scenario and its cells.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its file, as it was named.
    pub file: String,
    /// What it is called: its file without ending, and without folders but those below one called `scenarios`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its cells, in the order of the file.
    pub cells: Vec<Cell>,
    /// Whether it is cut.
    pub is_quick: bool,
}

impl Study {
    /// Reads a scenario.
    pub fn read(file: &str, text: &str, quick: bool) -> Result<Self, ScenarioError> {
        let cells = cells(file, text, quick)?;
        let study = Self {
            file: file.to_owned(),
            name: name_of(file),
            text: text.to_owned(),
            cells,
            is_quick: quick,
        };
        study.check_runs(None)?;
        Ok(study)
    }

    /// Refuses more runs than [`MAX_RUNS`]; `asked` are seeds per cell, where it is not the scenario that says.
    pub fn check_runs(&self, asked: Option<u32>) -> Result<(), ScenarioError> {
        let runs = self.runs(asked);
        if runs <= MAX_RUNS {
            return Ok(());
        }
        let (key, line) = match asked {
            Some(_) => ("--seeds", None),
            None => ("seeds", key_line(&self.text, "seeds", 1)),
        };
        let (cells, runs, most) = (self.cells.len(), grouped(runs as u64), grouped(MAX_RUNS as u64));
        let what =
            format!("{key} asks for {runs} runs of {cells} cells; a study has at most {most}: lower {key}");
        Err(ScenarioError { file: self.file.clone(), line, what })
    }

    /// The scenario without its sweeps: titles, claims, figures.
    pub fn scenario(&self) -> &Scenario {
        &self.cells[0].scenario
    }

    /// Reads a scenario from the bytes of a file.
    pub fn read_bytes(file: &str, bytes: &[u8], quick: bool) -> Result<Self, ScenarioError> {
        let text =
            core::str::from_utf8(bytes).map_err(|error| ScenarioError::not_text(file, bytes, &error))?;
        Self::read(file, text, quick)
    }

    /// How many seeds a cell is run with.
    pub fn seeds(&self, cell: &Cell, asked: Option<u32>) -> u32 {
        match &cell.scenario {
            Scenario { withdrawn: Some(_), .. } => 0,
            Scenario { analytic: Some(_), .. } => 1,
            scenario => asked.unwrap_or(scenario.seeds),
        }
    }

    /// How many runs it has.
    pub fn runs(&self, asked: Option<u32>) -> usize {
        self.cells.iter().fold(0, |runs, cell| runs.saturating_add(self.seeds(cell, asked) as usize))
    }

    /// What a quick run leaves out, in words; `None` where nothing is.
    pub fn cut(&self) -> Option<String> {
        let whole = cells(&self.file, &self.text, false).ok()?;
        let scenario = self.scenario();
        let mut words = Vec::new();
        if let Some(why) = scenario.quick.skip.as_ref().filter(|_| self.is_quick) {
            return Some(format!("not run: {why}"));
        }
        let before = &whole[0].scenario;
        if scenario.seeds != before.seeds {
            words.push(format!("{} of {} seeds", scenario.seeds, before.seeds));
        }
        if scenario.stop != before.stop {
            words.push(format!("{} of {}", scenario.stop.0, before.stop.0));
        }
        if scenario.drain != before.drain {
            words.push(format!("a drain of {} instead of {}", scenario.drain.0, before.drain.0));
        }
        if self.cells.len() != whole.len() {
            words.push(format!("{} of {} cells", self.cells.len(), whole.len()));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Works out every cell with its first seed, so that whatever is wrong is said before anything runs.
    pub fn check(&self, backend: &dyn Backend) -> Result<(), ScenarioError> {
        // What a quick run leaves out may still be named.
        let whole = cells(&self.file, &self.text, false)?;
        let labels: Vec<&[Label]> = whole.iter().map(|cell| cell.labels.as_slice()).collect();
        for cell in &self.cells {
            if cell.scenario.analytic.is_none() && cell.scenario.withdrawn.is_none() {
                self.resolve(cell, 1, backend)?;
            }
            check(&cell.scenario, &labels).map_err(|what| self.refusal(cell, what))?;
        }
        Ok(())
    }

    /// Works out a cell with a seed.
    pub fn resolve(&self, cell: &Cell, seed: u64, backend: &dyn Backend) -> Result<Resolved, ScenarioError> {
        resolve(&cell.scenario, seed, backend).map_err(|what| self.refusal(cell, what))
    }

    fn refusal(&self, cell: &Cell, what: String) -> ScenarioError {
        let line = place(&self.text, &what);
        let cell = crate::judge::named(&cell.labels);
        let what = if self.cells.len() > 1 { format!("{what} (in the cell {cell})") } else { what };
        ScenarioError { file: self.file.clone(), line, what }
    }
}

/// `any/scenarios/powertcp/fig2.toml` is `powertcp/fig2`; a file elsewhere goes by its own name.
fn name_of(file: &str) -> String {
    let parts: Vec<&str> = file.split(['/', '\\']).collect();
    let last = parts.len() - 1;
    let first = parts[..last].iter().rposition(|part| *part == "scenarios").map_or(last, |at| at + 1);
    let name = parts[first..].join("/");
    name.strip_suffix(".toml").unwrap_or(&name).to_owned()
}

/// How studies are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds, where it is not the scenario that says.
    pub seeds: Option<u32>,
    /// Runs at a time.
    pub jobs: usize,
    /// Whether rows are kept, and how.
    pub records: Option<Format>,
    /// Which part of all runs, of how many: for a scheduler that runs the parts.
    pub shard: (usize, usize),
    /// What the program is: results of another are not taken for its own.
    pub identity: String,
    /// The hash of the code that makes its results, without the compiler.
    pub code_hash: String,
}

/// Told how runs go; from several threads.
pub trait Watch: Sync {
    /// A run begins.
    fn begins(&self, run: &RunName);
    /// How far it is.
    fn progress(&self, run: &RunName, at: Progress, stop: Picos);
    /// It has ended, or its result was there already.
    fn ended(&self, run: &RunName, manifest: &Manifest, was_there: bool);
    /// Whether to go on.
    fn is_interrupted(&self) -> bool;
    /// Something that does not stop the studies but that people must know, such as a result that cannot be read.
    fn warn(&self, text: &str) {
        eprintln!("poseidon: {text}");
    }
}

/// Which run.
#[derive(Clone, Debug)]
pub struct RunName {
    /// The study.
    pub study: String,
    /// The cell.
    pub labels: Vec<Label>,
    /// The seed.
    pub seed: u64,
    /// Its number among all, from zero, and how many there are.
    pub number: usize,
    /// See `number`.
    pub of: usize,
}

/// A run and its result.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The study, as a place in the list that was given.
    pub study: usize,
    /// What it came down to.
    pub ran: Ran,
    /// What really happened.
    pub manifest: Manifest,
}

impl Finished {
    /// The run with the times of its messages, which are read from their file.
    pub fn with_messages(&self) -> Result<Ran, SamplesError> {
        Ok(Ran { messages: self.ran.messages.load()?, ..self.ran.clone() })
    }
}

/// Why studies stop.
#[derive(Clone, Debug)]
pub enum StudyError {
    /// A scenario cannot be run.
    Scenario(ScenarioError),
    /// A result cannot be written or read.
    Store(String),
    /// A run panicked.
    Panicked {
        /// Which: study, cell and seed.
        run: String,
        /// What the panic said.
        why: String,
    },
}

impl core::fmt::Display for StudyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Scenario(error) => error.fmt(f),
            Self::Store(why) => f.write_str(why),
            Self::Panicked { run, why } => {
                write!(f, "the run {run} panicked: {why}; this is a bug in the program: please report it")
            }
        }
    }
}

impl core::error::Error for StudyError {}

/// Runs studies: every cell with every seed that has no result yet. Results come in the order of the files, whatever the number of jobs.
pub fn run(
    studies: &[Study],
    backend: &(dyn Backend + Sync),
    store: &Store,
    options: &Options,
    watch: &dyn Watch,
) -> Result<Vec<Finished>, StudyError> {
    studies
        .iter()
        .try_for_each(|study| study.check_runs(options.seeds).and_then(|()| study.check(backend)))
        .map_err(StudyError::Scenario)?;
    studies.iter().try_for_each(|study| store.begin(study)).map_err(StudyError::Store)?;
    let mut tasks = Vec::new();
    for (index, study) in studies.iter().enumerate() {
        if study.is_quick && study.scenario().quick.skip.is_some() {
            continue;
        }
        for cell in &study.cells {
            for seed in 1..=u64::from(study.seeds(cell, options.seeds)) {
                tasks.push((index, cell, seed));
            }
        }
    }
    let (shard, shards) = options.shard;
    let of = tasks.len();
    let tasks: Vec<_> =
        tasks.into_iter().enumerate().filter(|(number, _)| number % shards == shard).collect();
    let queue = Queue::new(tasks);
    let done: Mutex<Vec<(usize, Result<Finished, StudyError>)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some(task) = queue.next() {
            let (number, (study, cell, seed)) = task;
            if watch.is_interrupted() || queue.busy.has_failed() {
                break;
            }
            let name =
                RunName { study: studies[study].name.clone(), labels: cell.labels.clone(), seed, number, of };
            let Some(result) = one(&studies[study], cell, &name, backend, store, options, watch, &queue.busy)
            else {
                // Another job is running the same plan: its result will do.
                queue.put_back(task);
                continue;
            };
            let result = result.map(|(summary, manifest)| Finished {
                study,
                ran: Ran {
                    labels: cell.labels.clone(),
                    seed,
                    summary,
                    messages: store.messages(&studies[study].name, &manifest.run_name()),
                },
                manifest,
            });
            done.lock().expect(NO_PANIC).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().expect("all runs have ended");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs that wait, and the plans that are being run.
struct Queue<T> {
    tasks: Mutex<VecDeque<T>>,
    busy: Busy,
}

/// The plans that are being run.
#[derive(Default)]
struct Busy {
    plans: Mutex<BTreeSet<String>>,
    one_ended: Condvar,
    failed: AtomicBool,
}

impl Busy {
    /// Whether nobody else is running this plan; then it is the caller's.
    fn take(&self, hash: &str) -> bool {
        self.plans.lock().expect(NO_PANIC).insert(hash.to_owned())
    }

    fn give_back(&self, hash: &str) {
        self.plans.lock().expect(NO_PANIC).remove(hash);
        self.one_ended.notify_all();
    }

    /// A run has failed: no other begins.
    fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

const NO_PANIC: &str = "no run panics while it holds this";

impl<T> Queue<T> {
    fn new(tasks: Vec<T>) -> Self {
        Self { tasks: Mutex::new(tasks.into()), busy: Busy::default() }
    }

    fn next(&self) -> Option<T> {
        self.tasks.lock().expect(NO_PANIC).pop_front()
    }

    /// Behind all others: by then the plan that it shares may be done. Where there are no others, waits for that.
    fn put_back(&self, task: T) {
        let mut tasks = self.tasks.lock().expect(NO_PANIC);
        let nothing_else = tasks.is_empty();
        tasks.push_back(task);
        drop(tasks);
        let plans = self.busy.plans.lock().expect(NO_PANIC);
        if nothing_else && !plans.is_empty() {
            drop(self.busy.one_ended.wait(plans).expect(NO_PANIC));
        }
    }
}

/// One run, or its result from before; `None` while its plan is being run by another job.
#[expect(clippy::too_many_arguments, reason = "each is another part of the work, and there is one caller")]
fn one(
    study: &Study,
    cell: &Cell,
    name: &RunName,
    backend: &dyn Backend,
    store: &Store,
    options: &Options,
    watch: &dyn Watch,
    busy: &Busy,
) -> Option<Result<(Summary, Manifest), StudyError>> {
    if let Some(which) = cell.scenario.analytic {
        let plan_hash = closed_form_hash(which, &cell.labels);
        let manifest = Manifest::of_closed_form(study, name, &plan_hash, options);
        let summary = analytic::work_out(which);
        watch.ended(name, &manifest, false);
        let kept = store.keep(&study.name, &summary, &manifest).map_err(StudyError::Store);
        if kept.is_err() {
            busy.fail();
        }
        return Some(kept.map(|()| (summary, manifest)));
    }
    let resolved = match study.resolve(cell, name.seed, backend) {
        Ok(resolved) => resolved,
        Err(error) => {
            busy.fail();
            return Some(Err(StudyError::Scenario(error)));
        }
    };
    let hash = plan_hash(&resolved);
    if !busy.take(&hash) {
        return None;
    }
    let run = || found_or_run(study, cell, name, backend, store, options, watch, (&resolved, &hash));
    // Whatever happens to the run, those that wait for its plan must wake. Nothing that it has changed is looked at after a panic.
    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let run = format!("{} {} seed {}", name.study, crate::judge::named(&name.labels), name.seed);
        Err(StudyError::Panicked { run, why: panic_text(panic.as_ref()) })
    });
    // First, so that whoever wakes does not run a plan that has just failed.
    if result.is_err() {
        busy.fail();
    }
    busy.give_back(&hash);
    Some(result)
}

/// What a panic said.
fn panic_text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

#[expect(clippy::too_many_arguments, reason = "each is another part of the work, and there is one caller")]
fn found_or_run(
    study: &Study,
    cell: &Cell,
    name: &RunName,
    backend: &dyn Backend,
    store: &Store,
    options: &Options,
    watch: &dyn Watch,
    (resolved, plan_hash): (&Resolved, &str),
) -> Result<(Summary, Manifest), StudyError> {
    let warn = |text: &str| watch.warn(text);
    let run = run_name(plan_hash, &options.identity);
    if let Some((summary, manifest)) = store.find(&study.name, &run, options.records, &warn) {
        let manifest = store.answer(study, name, &summary, manifest).map_err(StudyError::Store)?;
        watch.ended(name, &manifest, true);
        return Ok((summary, manifest));
    }
    watch.begins(name);
    #[expect(clippy::disallowed_methods, reason = "how long a run takes is no part of its result")]
    let began = std::time::Instant::now();
    let folder = store.folder(&study.name, &run);
    let groups: Vec<_> = resolved.groups.iter().map(|group| group.messages.clone()).collect();
    let tables = match options.records {
        Some(format) => {
            std::fs::create_dir_all(&folder)
                .map_err(|error| StudyError::Store(format!("{}: {error}", folder.display())))?;
            Some(Tables::new(&folder, format, &resolved.plan, &groups))
        }
        None => None,
    };
    // The first seed's series are drawn.
    let reducer = Reducer::new(resolved, name.seed == 1);
    let measured_until = resolved.measured_until;
    let mut all =
        All { reducer, tables, watch, name, stop: resolved.plan.stop, measured_until, has_drained: false };
    let mut report = backend
        .run(&resolved.plan, &mut all)
        .map_err(|error| StudyError::Scenario(study.refusal(cell, error.to_string())))?;
    let All { reducer, tables, has_drained, .. } = all;
    // A run that has drained was broken off by us, and lacks nothing.
    report.broken_off &= !has_drained;
    let files = match tables {
        Some(tables) => tables.finish().map_err(|error| StudyError::Store(error.to_string()))?,
        None => Vec::new(),
    };
    let (summary, messages) = reducer.finish(&report);
    let manifest =
        Manifest::of_run(study, name, plan_hash, resolved, &report, began.elapsed(), files, options);
    store.explain(&study.name, &run, &crate::explain::plan(resolved)).map_err(StudyError::Store)?;
    store.keep_messages(&study.name, &run, &messages).map_err(StudyError::Store)?;
    store.keep(&study.name, &summary, &manifest).map_err(StudyError::Store)?;
    watch.ended(name, &manifest, false);
    Ok((summary, manifest))
}

/// All that rows of a run go to.
struct All<'a> {
    reducer: Reducer<'a>,
    tables: Option<Tables<'a>>,
    watch: &'a dyn Watch,
    name: &'a RunName,
    stop: Picos,
    measured_until: Picos,
    has_drained: bool,
}

macro_rules! to_all {
    ($($row:ident: $type:ty,)*) => {$(
        fn $row(&mut self, row: $type) {
            self.reducer.$row(row);
            if let Some(tables) = &mut self.tables {
                tables.$row(row);
            }
        }
    )*};
}

impl Sink for All<'_> {
    to_all! {
        message: MessageRow,
        received: ReceivedRow,
        drop: DropRow,
        queue: QueueRow,
        sender: SenderRow,
        receiver: ReceiverRow,
        decision: DecisionRow,
    }

    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        self.watch.progress(self.name, at, self.stop);
        if self.watch.is_interrupted() {
            return ControlFlow::Break(());
        }
        let goes_on = self.tables.as_mut().map_or(ControlFlow::Continue(()), |tables| tables.progress(at));
        let is_draining = at.now >= self.measured_until && self.measured_until < self.stop;
        if goes_on.is_continue() && is_draining && self.reducer.has_drained() {
            self.has_drained = true;
            return ControlFlow::Break(());
        }
        goes_on
    }
}

/// A number that two studies share exactly when every run of them ended with the same result.
pub fn result_hash(finished: &[Finished]) -> String {
    let mut hashing = Sha256::new();
    for run in finished {
        hashing.update(run.manifest.plan_hash.as_bytes());
        hashing.update(run.manifest.result_hash.as_bytes());
        let summary = serde_json::to_string(&run.ran.summary).unwrap_or_default();
        hashing.update(summary.as_bytes());
    }
    hex(&hashing.finalize())
}
