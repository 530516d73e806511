//! Observes runs: progress, interrupts, and the rows in memory.

use crate::python_laws;
use core::sync::atomic::{AtomicBool, Ordering};
use poseidon_lab::judge::cell_name;
use poseidon_lab::manifest::Manifest;
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::runner::RunObserver;
use poseidon_lab::study::RunId;
use poseidon_lab::tables::{RowLabels, TableColumns, TableSink};
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_types::Picos;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The rows of the tables of one run.
pub(crate) type RunTables = Vec<TableColumns>;

/// Shared between the thread that runs and the thread that called.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) interrupted: AtomicBool,
    /// Whether rows are kept.
    keeps_rows: bool,
    /// Whether laws in Python run.
    has_python_laws: bool,
    /// The names of all cells.
    cells: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    finished: usize,
    /// The share of each active run that is done.
    active: BTreeMap<usize, f64>,
    warnings: Vec<String>,
    /// The rows by cell name and seed.
    tables: BTreeMap<(String, u64), RunTables>,
}

const NOT_POISONED: &str = "no thread panics while it holds the lock";

impl Observer {
    /// Observes runs of these cells.
    pub(crate) fn new(cells: Vec<String>, keeps_rows: bool, has_python_laws: bool) -> Self {
        Self { keeps_rows, has_python_laws, cells, ..Self::default() }
    }

    /// Returns the number of finished runs, of all runs, and the share of all work that is done.
    pub(crate) fn progress(&self) -> (usize, usize, f64) {
        let state = self.state.lock().expect(NOT_POISONED);
        let done = state.finished as f64 + state.active.values().sum::<f64>();
        (state.finished, state.total, if state.total == 0 { 0.0 } else { done / state.total as f64 })
    }

    pub(crate) fn take_tables(&self) -> BTreeMap<(String, u64), RunTables> {
        core::mem::take(&mut self.state.lock().expect(NOT_POISONED).tables)
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        core::mem::take(&mut self.state.lock().expect(NOT_POISONED).warnings)
    }
}

impl RunObserver for Observer {
    fn on_start(&self, run: &RunId) {
        if self.has_python_laws {
            python_laws::clear_flows();
        }
        let mut state = self.state.lock().expect(NOT_POISONED);
        state.total = run.total;
        state.active.insert(run.index, 0.0);
    }

    fn on_progress(&self, run: &RunId, progress: Progress, stop: Picos) {
        let share = progress.now.get() as f64 / stop.get().max(1) as f64;
        self.state.lock().expect(NOT_POISONED).active.insert(run.index, share.min(1.0));
        if self.has_python_laws {
            // The thread that called checks for Ctrl-C meanwhile.
            pyo3::Python::attach(|py| py.detach(std::thread::yield_now));
        }
    }

    fn on_end(&self, run: &RunId, _: &Manifest, _: bool) {
        let mut state = self.state.lock().expect(NOT_POISONED);
        state.total = run.total;
        state.active.remove(&run.index);
        state.finished += 1;
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || (self.has_python_laws && python_laws::has_failed())
    }

    fn live_sink<'a>(&'a self, run: &RunId, resolved: &'a ResolvedRun) -> Option<Box<dyn Sink + 'a>> {
        if !self.keeps_rows {
            return None;
        }
        let key = (cell_name(&run.labels), run.seed);
        let cell = self.cells.iter().find(|cell| **cell == key.0)?;
        let tables = TableSink::in_memory(&resolved.plan, RowLabels::new(resolved, cell));
        Some(Box::new(RowSink { observer: self, key, tables }))
    }

    fn on_warning(&self, text: &str) {
        self.state.lock().expect(NOT_POISONED).warnings.push(text.to_owned());
    }
}

/// Keeps the rows of one run, and passes them to the observer at its end.
struct RowSink<'a> {
    observer: &'a Observer,
    key: (String, u64),
    tables: TableSink<'a>,
}

impl Drop for RowSink<'_> {
    fn drop(&mut self) {
        let columns = self.tables.take_columns();
        if let Ok(mut state) = self.observer.state.lock() {
            state.tables.insert(self.key.clone(), columns);
        }
    }
}

macro_rules! forward_rows {
    ($($record:ident: $row:ty,)*) => {
        impl Sink for RowSink<'_> {
            $(
                fn $record(&mut self, row: $row) {
                    self.tables.$record(row);
                }
            )*
        }
    };
}

forward_rows! {
    record_message: MessageRow,
    record_received: ReceivedRow,
    record_drop: DropRow,
    record_queue: QueueRow,
    record_sender: SenderRow,
    record_receiver: ReceiverRow,
    record_decision: DecisionRow,
}
