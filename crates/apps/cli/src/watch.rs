//! Progress on a terminal, and signals that end the program.

use core::sync::atomic::{AtomicBool, Ordering};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use poseidon_lab::judge::named;
use poseidon_lab::store::Manifest;
use poseidon_lab::study::{RunName, Watch};
use poseidon_plan::records::Progress;
use poseidon_types::Picos;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

/// Progress bars: one for all runs, one for each that is running.
pub(crate) struct Bars {
    all: MultiProgress,
    whole: ProgressBar,
    running: Mutex<BTreeMap<usize, ProgressBar>>,
    interrupted: Arc<AtomicBool>,
}

impl Bars {
    /// For so many runs; silent where nobody looks.
    pub(crate) fn new(runs: usize, quiet: bool) -> Self {
        let all = MultiProgress::new();
        if quiet || !std::io::stderr().is_terminal() {
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {elapsed} gone, {eta} to go");
        let whole = all.add(ProgressBar::new(runs as u64));
        whole.set_style(style.expect("a fixed template"));
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        // For Ctrl-C, SIGTERM and SIGHUP. Without the handler they end the program at once.
        let _ = ctrlc::set_handler(move || interrupt(&flag));
        Self { all, whole, running: Mutex::new(BTreeMap::new()), interrupted }
    }

    pub(crate) fn finish(&self) {
        self.whole.finish_and_clear();
        let _ = self.all.clear();
    }
}

/// Asks runs to end; the second time, ends the program.
fn interrupt(flag: &AtomicBool) {
    if flag.swap(true, Ordering::SeqCst) {
        std::process::exit(130);
    }
}

impl Watch for Bars {
    fn begins(&self, run: &RunName) {
        let bar = self.all.add(ProgressBar::new(1_000));
        let style = ProgressStyle::with_template("  {bar:20} {prefix}  {msg}").expect("a fixed template");
        bar.set_style(style);
        bar.set_prefix(format!("{} {} seed {}", run.study, named(&run.labels), run.seed));
        self.running.lock().expect("bars do not panic").insert(run.number, bar);
    }

    fn progress(&self, run: &RunName, at: Progress, stop: Picos) {
        if let Some(bar) = self.running.lock().expect("bars do not panic").get(&run.number) {
            let share = at.now.get() as f64 / stop.get() as f64;
            #[expect(clippy::cast_possible_truncation, reason = "a position among a thousand")]
            bar.set_position((share * 1_000.0) as u64);
            let seconds = bar.elapsed().as_secs_f64();
            let rate = at.packet_hops as f64 / seconds / 1e6;
            let left = seconds / share.max(1e-9) - seconds;
            bar.set_message(format!(
                "{} of {stop}, {rate:.1} M packet-hops/s, {} messages done, {left:.0} s to go",
                at.now, at.finished
            ));
        }
    }

    fn ended(&self, run: &RunName, _: &Manifest, _: bool) {
        if let Some(bar) = self.running.lock().expect("bars do not panic").remove(&run.number) {
            bar.finish_and_clear();
        }
        self.whole.inc(1);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn warn(&self, text: &str) {
        self.all.suspend(|| eprintln!("poseidon: {text}"));
    }
}
