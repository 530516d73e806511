//! The progress of a job, weighted by the estimated packet-hops of its runs.

use core::time::Duration;
use poseidon_lab::budget::SuiteEstimate;
use poseidon_lab::judge::cell_name;
use poseidon_lab::study::{RunId, Study};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run: its cell and its seed.
type RunKey = (String, u64);

/// The runs of a job, and how much of each is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobProgress {
    /// The weight and the completed share of each run.
    runs: BTreeMap<RunKey, (f64, f64)>,
    reused: usize,
    expected: Option<Duration>,
}

/// The progress for the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProgressText {
    /// The completed share of the work.
    share: f64,
    /// The number of ended runs.
    ended: usize,
    total: usize,
    /// The number of runs whose stored result was reused.
    reused: usize,
    elapsed_s: f64,
    remaining_s: Option<f64>,
    /// The runs that execute now, with their completed shares.
    active: Vec<(String, f64)>,
}

impl JobProgress {
    /// Lists the runs of a study with their weights.
    pub(crate) fn new(study: &Study, seeds: Option<u32>, estimate: &SuiteEstimate) -> Self {
        let keys = study.cells.iter().flat_map(|cell| {
            let name = cell_name(&cell.labels);
            (1..=u64::from(study.seed_count(cell, seeds))).map(move |seed| (name.clone(), seed))
        });
        // A run with a stored result has no weight.
        let weight = |index: usize| estimate.weights.get(&index).map_or(0.0, |weight| *weight as f64);
        let runs = keys.enumerate().map(|(index, key)| (key, (weight(index), 0.0))).collect();
        Self { runs, reused: 0, expected: estimate.time.map(|(time, _)| time) }
    }

    /// Records the completed share of a run.
    pub(crate) fn on_progress(&mut self, run: &RunId, share: f64) {
        if let Some((_, done)) = self.runs.get_mut(&key(run)) {
            *done = share.clamp(0.0, 0.999);
        }
    }

    /// Records the end of a run. A run that ends twice counts once.
    pub(crate) fn on_end(&mut self, run: &RunId, is_reused: bool) {
        if let Some((_, done)) = self.runs.get_mut(&key(run))
            && *done < 1.0
        {
            *done = 1.0;
            self.reused += usize::from(is_reused);
        }
    }

    /// Describes the progress after this time.
    pub(crate) fn describe(&self, elapsed: Duration) -> ProgressText {
        let total: f64 = self.runs.values().map(|(weight, _)| weight).sum();
        let done: f64 = self.runs.values().map(|(weight, done)| weight * done).sum();
        let ended = self.runs.values().filter(|(_, done)| *done >= 1.0).count();
        let share = match total > 0.0 {
            true => done / total,
            false => ended as f64 / self.runs.len().max(1) as f64,
        };
        let is_active = |(_, (_, done)): &(&RunKey, &(f64, f64))| *done > 0.0 && *done < 1.0;
        let active = self.runs.iter().filter(is_active);
        let active = active.map(|((cell, seed), (_, done))| (run_name(cell, *seed), *done)).collect();
        ProgressText {
            share,
            ended,
            total: self.runs.len(),
            reused: self.reused,
            elapsed_s: elapsed.as_secs_f64(),
            remaining_s: self.remaining_s(elapsed.as_secs_f64(), share),
            active,
        }
    }

    /// Returns the remaining time: from the estimate at the start, and later from the completed share.
    fn remaining_s(&self, elapsed: f64, share: f64) -> Option<f64> {
        const RELIABLE_SHARE: f64 = 0.1;
        match self.expected {
            Some(expected) if share < RELIABLE_SHARE => Some((expected.as_secs_f64() - elapsed).max(0.0)),
            _ if share > 0.0 => Some(elapsed * (1.0 - share) / share),
            _ => None,
        }
    }
}

fn key(run: &RunId) -> RunKey {
    (cell_name(&run.labels), run.seed)
}

fn run_name(cell: &str, seed: u64) -> String {
    if cell.is_empty() { format!("seed {seed}") } else { format!("{cell}, seed {seed}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_lab::scenario::Label;

    fn run(law: &str, seed: u64) -> RunId {
        let labels = vec![Label { sweep: "law".into(), value: law.into() }];
        RunId { study: "s".into(), labels, seed, index: 0, total: 0 }
    }

    fn progress() -> JobProgress {
        let key = |law: &str, seed| (format!("law {law}"), seed);
        let runs = [(key("a", 1), (900.0, 0.0)), (key("b", 1), (100.0, 0.0)), (key("b", 2), (0.0, 0.0))];
        JobProgress { runs: runs.into(), reused: 0, expected: Some(Duration::from_secs(50)) }
    }

    #[test]
    fn the_share_follows_the_packet_hops() {
        let mut progress = progress();
        assert_eq!(progress.describe(Duration::from_secs(10)).remaining_s, Some(40.0));
        progress.on_end(&run("b", 1), false);
        progress.on_end(&run("b", 2), true);
        progress.on_end(&run("b", 2), true);
        progress.on_progress(&run("a", 1), 0.5);
        let text = progress.describe(Duration::from_secs(11));
        assert!((text.share - 0.55).abs() < 1e-9, "{text:?}");
        assert_eq!((text.ended, text.total, text.reused), (2, 3, 1));
        assert!((text.remaining_s.expect("the share is known") - 9.0).abs() < 1e-9);
        assert_eq!(text.active, [("law a, seed 1".to_owned(), 0.5)]);
        // Progress after the end of a run does not occur, but must not move the share back.
        progress.on_end(&run("a", 1), false);
        assert!((progress.describe(Duration::ZERO).share - 1.0).abs() < 1e-9);
    }
}
