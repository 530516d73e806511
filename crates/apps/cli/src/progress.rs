//! Shows progress bars on a terminal, and handles signals that stop the program.

use core::sync::atomic::{AtomicBool, Ordering};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use poseidon_lab::manifest::Manifest;
use poseidon_lab::runner::RunObserver;
use poseidon_lab::study::RunId;
use poseidon_plan::records::Progress;
use poseidon_types::Picos;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

/// Progress bars: one for all runs, and one per active run.
pub(crate) struct ProgressBars {
    display: MultiProgress,
    total: ProgressBar,
    /// The bar of each active run, by run index.
    active: Mutex<BTreeMap<usize, ProgressBar>>,
    interrupted: Arc<AtomicBool>,
}

impl ProgressBars {
    /// Creates the bars for this number of runs. They are hidden if `quiet` is set or stderr is not a terminal.
    pub(crate) fn new(runs: usize, quiet: bool) -> Self {
        let display = MultiProgress::new();
        if quiet || !std::io::stderr().is_terminal() {
            display.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} elapsed, {eta} left");
        let total = display.add(ProgressBar::new(runs as u64));
        total.set_style(style.expect("the template is valid"));
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        // Handle Ctrl-C, SIGTERM and SIGHUP. If the handler cannot be set, these signals terminate the program
        // immediately.
        let _ = ctrlc::set_handler(move || interrupt(&flag));
        Self { display, total, active: Mutex::new(BTreeMap::new()), interrupted }
    }

    /// Removes the bars.
    pub(crate) fn finish(&self) {
        self.total.finish_and_clear();
        let _ = self.display.clear();
    }
}

/// Asks the runs to stop. A second signal terminates the program.
fn interrupt(flag: &AtomicBool) {
    if flag.swap(true, Ordering::SeqCst) {
        std::process::exit(130);
    }
}

const NOT_POISONED: &str = "no thread panics while holding this lock";

impl RunObserver for ProgressBars {
    fn on_start(&self, run: &RunId) {
        let bar = self.display.add(ProgressBar::new(1_000));
        let style =
            ProgressStyle::with_template("  {bar:20} {prefix}  {msg}").expect("the template is valid");
        bar.set_style(style);
        bar.set_prefix(run.to_string());
        self.active.lock().expect(NOT_POISONED).insert(run.index, bar);
    }

    fn on_progress(&self, run: &RunId, progress: Progress, stop: Picos) {
        if let Some(bar) = self.active.lock().expect(NOT_POISONED).get(&run.index) {
            let share = progress.now.get() as f64 / stop.get() as f64;
            #[expect(clippy::cast_possible_truncation, reason = "the position is at most 1000")]
            bar.set_position((share * 1_000.0) as u64);
            let seconds = bar.elapsed().as_secs_f64();
            let rate = progress.packet_hops as f64 / seconds / 1e6;
            let remaining = seconds / share.max(1e-9) - seconds;
            bar.set_message(format!(
                "{} of {stop}, {rate:.1} M packet-hops/s, {} messages finished, {remaining:.0} s left",
                progress.now, progress.finished
            ));
        }
    }

    fn on_end(&self, run: &RunId, _: &Manifest, _: bool) {
        if let Some(bar) = self.active.lock().expect(NOT_POISONED).remove(&run.index) {
            bar.finish_and_clear();
        }
        self.total.inc(1);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn on_warning(&self, text: &str) {
        self.display.suspend(|| eprintln!("poseidon: {text}"));
    }
}
