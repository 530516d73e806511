//! Runs the sides of a gate in the simulator, for tests.

use poseidon_gate::gate::{GateOptions, run_gate};
use poseidon_gate::report::GateReport;
use poseidon_gate::rule::Rule;
use poseidon_gate::side::{LabSide, Side};
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::manifest::{Manifest, Program};
use poseidon_lab::runner::{RunEnvironment, RunObserver, RunOptions, Shard};
use poseidon_lab::store::Store;
use poseidon_lab::study::{RunId, Study};
use poseidon_plan::records::Progress;
use poseidon_sim::Simulator;
use poseidon_types::Picos;
use std::path::Path;

/// An observer that prints nothing.
pub(crate) struct SilentObserver;

impl RunObserver for SilentObserver {
    fn on_start(&self, _: &RunId) {}
    fn on_progress(&self, _: &RunId, _: Progress, _: Picos) {}
    fn on_end(&self, _: &RunId, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// A simulator and a results folder.
pub(crate) struct TestLab {
    simulator: Simulator,
    store: Store,
    options: RunOptions,
}

impl TestLab {
    /// Creates an empty results folder.
    pub(crate) fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let program = Program { identity: "test".to_owned(), code_hash: String::new() };
        let options = RunOptions {
            seeds: None,
            jobs: 2,
            records: None,
            shard: Shard::WHOLE,
            program,
            limits: Limits::default(),
            time_estimation: TimeEstimation::Off,
        };
        let simulator = Simulator::with_threads(core::num::NonZeroU32::MIN);
        Self { simulator, store: Store::new(folder), options }
    }

    /// Returns studies as a side.
    pub(crate) fn side<'a>(&'a self, name: &str, studies: &'a [Study], rules: &'a [Rule]) -> LabSide<'a> {
        let environment = RunEnvironment {
            backend: &self.simulator,
            store: &self.store,
            options: &self.options,
            observer: &SilentObserver,
        };
        LabSide { name: name.to_owned(), studies, environment, rules }
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.store.root());
    }
}

/// Runs a gate that must not end with an error.
pub(crate) fn gate(base: &mut dyn Side, head: &mut dyn Side, options: &GateOptions) -> GateReport {
    run_gate(base, head, options, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a study.
pub(crate) fn study(name: &str, text: &str) -> Study {
    Study::read(&format!("{name}.toml"), text, false).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a study whose code differs from that of `base`: the text is the same, but a law has other parameters.
pub(crate) fn mutant(base: &Study, from: &str, to: &str) -> Study {
    assert!(base.text.contains(from), "{from:?} is not in the scenario");
    let changed = study(&base.name, &base.text.replace(from, to));
    Study { text: base.text.clone(), ..changed }
}
