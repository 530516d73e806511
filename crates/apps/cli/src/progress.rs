//! Shows progress on stderr, and handles signals and time limits that stop the program.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use poseidon_lab::budget::SuiteEstimate;
use poseidon_lab::manifest::Manifest;
use poseidon_lab::runner::RunObserver;
use poseidon_lab::study::RunId;
use poseidon_plan::records::Progress;
use poseidon_types::Picos;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// The progress of all runs. On a terminal, there is a bar for all runs and one per active run. Otherwise, a line is
/// printed every 30 s.
pub(crate) struct ProgressBars {
    display: MultiProgress,
    total: ProgressBar,
    /// The bar of each active run, by run index.
    active: Mutex<BTreeMap<usize, ProgressBar>>,
    work: Arc<Mutex<Work>>,
    interrupted: Arc<AtomicBool>,
    /// The longest time that the runs may take.
    max_time: Option<Duration>,
    is_over_time: AtomicBool,
    is_quiet: bool,
    /// Whether a line is printed for each computed run.
    has_run_lines: bool,
    heartbeat: Mutex<Option<Heartbeat>>,
}

/// The number of steps of a bar.
const STEPS: u64 = 1_000;

/// The time between two lines if there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);

impl ProgressBars {
    /// Creates the progress of this number of runs. If `quiet` is set, nothing is printed.
    pub(crate) fn new(runs: usize, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let display = MultiProgress::new();
        if quiet || !is_terminal {
            display.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {msg}").expect("the template is valid");
        let total = display.add(ProgressBar::new(STEPS));
        total.set_style(style);
        let work = Arc::new(Mutex::new(Work { runs, ..Work::default() }));
        let heartbeat = (!quiet && !is_terminal).then(|| Heartbeat::start(HEARTBEAT, beat(&total, &work)));
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        // Handle Ctrl-C, SIGTERM and SIGHUP. If the handler cannot be set, these signals terminate the program
        // immediately.
        let _ = ctrlc::set_handler(move || interrupt(&flag));
        // Schedulers announce the end of a job with SIGUSR1.
        #[cfg(unix)]
        let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&interrupted));
        Self {
            display,
            total,
            active: Mutex::new(BTreeMap::new()),
            work,
            interrupted,
            max_time: None,
            is_over_time: AtomicBool::new(false),
            is_quiet: quiet,
            has_run_lines: false,
            heartbeat: Mutex::new(heartbeat),
        }
    }

    /// Limits the duration of all runs. After that time, the runs stop as after a signal.
    #[must_use]
    pub(crate) fn with_max_time(self, max_time: Option<Duration>) -> Self {
        Self { max_time, ..self }
    }

    /// Prints a line for each computed run, for the log of a job.
    #[must_use]
    pub(crate) fn with_run_lines(self, has_run_lines: bool) -> Self {
        Self { has_run_lines, ..self }
    }

    /// Hides the bars, but still prints lines.
    #[must_use]
    pub(crate) fn without_bars(self, is_hidden: bool) -> Self {
        if is_hidden {
            self.display.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// Returns whether a signal stopped the runs.
    pub(crate) fn has_signal(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Returns the time limit if it stopped the runs.
    pub(crate) fn exceeded_time(&self) -> Option<Duration> {
        self.max_time.filter(|_| self.is_over_time.load(Ordering::SeqCst))
    }

    /// Prints a line to stderr, above the bars.
    pub(crate) fn print_line(&self, text: &str) {
        self.display.suspend(|| eprintln!("poseidon: {text}"));
    }

    /// Removes the bars.
    pub(crate) fn finish(&self) {
        drop(self.heartbeat.lock().expect(NOT_POISONED).take());
        self.total.finish_and_clear();
        let _ = self.display.clear();
    }

    /// States how many runs had a stored result, unless all were computed.
    pub(crate) fn print_reuse(&self) {
        let text = self.work.lock().expect(NOT_POISONED).describe_reuse();
        if let Some(text) = text.filter(|_| !self.is_quiet) {
            eprintln!("{text}");
        }
    }

    fn update_total(&self) {
        if self.total.is_hidden() {
            return;
        }
        let elapsed = self.total.elapsed();
        let work = self.work.lock().expect(NOT_POISONED);
        #[expect(clippy::cast_possible_truncation, reason = "the position is at most the number of steps")]
        self.total.set_position((work.share() * STEPS as f64) as u64);
        self.total.set_message(work.describe(elapsed));
    }
}

/// Returns a function that prints the progress line.
fn beat(total: &ProgressBar, work: &Arc<Mutex<Work>>) -> impl Fn() + Send + 'static {
    let (total, work) = (total.clone(), Arc::clone(work));
    move || eprintln!("{}", work.lock().expect(NOT_POISONED).describe(total.elapsed()))
}

/// Asks the runs to stop. A second signal terminates the program.
fn interrupt(flag: &AtomicBool) {
    if flag.swap(true, Ordering::SeqCst) {
        std::process::exit(130);
    }
}

const NOT_POISONED: &str = "no thread panics while holding this lock";

/// A thread that calls a function at fixed intervals until it is dropped.
struct Heartbeat {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    fn start(interval: Duration, beat: impl Fn() + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (flag, changed) = &*shared;
            let mut is_stopped = flag.lock().expect(NOT_POISONED);
            while !*is_stopped {
                let (guard, wait) = changed.wait_timeout(is_stopped, interval).expect(NOT_POISONED);
                is_stopped = guard;
                if wait.timed_out() && !*is_stopped {
                    beat();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        *self.stop.0.lock().expect(NOT_POISONED) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The amount of work, and how much of it is done.
#[derive(Debug, Default)]
struct Work {
    /// The number of runs.
    runs: usize,
    computed: usize,
    reused: usize,
    /// The estimated packet-hops of each run to compute. If the map is empty, all runs count the same.
    weights: BTreeMap<usize, u64>,
    /// The sum of the weights of computed runs.
    done: f64,
    /// The completed share of each active run.
    active: BTreeMap<usize, f64>,
    /// The elapsed time when the first run started.
    started: Option<Duration>,
    /// The estimated duration of all runs.
    expected: Option<Duration>,
}

impl Work {
    fn on_estimate(&mut self, estimate: &SuiteEstimate) {
        self.runs = estimate.runs;
        self.weights.clone_from(&estimate.weights);
        self.expected = estimate.time.map(|(time, _)| time);
    }

    /// Updates the completed share of a run and returns it. A run can end long before its planned end, and it can need
    /// more packets than estimated, so the larger of both shares counts. An active run is never complete.
    fn on_progress(&mut self, run: usize, time_share: f64, progress: Progress) -> f64 {
        const MAX_ACTIVE_SHARE: f64 = 0.99;
        let estimate = self.weights.get(&run).map_or(f64::INFINITY, |weight| *weight as f64);
        let share = time_share.max(progress.packet_hops as f64 / estimate).min(MAX_ACTIVE_SHARE);
        self.active.insert(run, share);
        share
    }

    fn on_end(&mut self, run: usize, is_reused: bool) {
        self.active.remove(&run);
        if is_reused {
            self.reused += 1;
            // The estimate expected this run to be computed.
            self.weights.remove(&run);
        } else {
            self.computed += 1;
            self.done += self.weight(run);
        }
    }

    fn weight(&self, run: usize) -> f64 {
        if self.weights.is_empty() {
            1.0
        } else {
            self.weights.get(&run).map_or(0.0, |weight| *weight as f64)
        }
    }

    /// Returns the completed share of the work.
    fn share(&self) -> f64 {
        let total = match self.weights.is_empty() {
            true => self.runs.saturating_sub(self.reused) as f64,
            false => self.weights.values().map(|weight| *weight as f64).sum(),
        };
        let active: f64 = self.active.iter().map(|(run, share)| self.weight(*run) * share).sum();
        match total > 0.0 {
            true => ((self.done + active) / total).clamp(0.0, 1.0),
            false => f64::from(u8::from(self.computed + self.reused >= self.runs)),
        }
    }

    /// Returns the remaining time. At the start, it follows from the estimate, and later from the completed share.
    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        const RELIABLE_SHARE: f64 = 0.05;
        let running = elapsed.saturating_sub(self.started?);
        let share = self.share();
        match self.expected {
            Some(expected) if share < RELIABLE_SHARE => expected.checked_sub(running),
            _ if share > 0.0 => {
                Duration::try_from_secs_f64(running.as_secs_f64() * (1.0 - share) / share).ok()
            }
            _ => None,
        }
    }

    /// Describes the progress on one line: `120 s: 4 of 9 runs, 45 %, about 150 s left`.
    fn describe(&self, elapsed: Duration) -> String {
        let (ended, percent) = (self.computed + self.reused, self.share() * 100.0);
        let left = self.remaining(elapsed).map(|left| format!(", about {:.0} s left", left.as_secs_f64()));
        format!(
            "{:.0} s: {ended} of {} runs, {percent:.0} %{}",
            elapsed.as_secs_f64(),
            self.runs,
            left.unwrap_or_default()
        )
    }

    /// Describes how many runs were computed, if some had a stored result.
    fn describe_reuse(&self) -> Option<String> {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let Self { computed, reused, .. } = *self;
        match (computed, reused) {
            (_, 0) => None,
            (0, 1) => Some("nothing computed, the run was there".to_owned()),
            (0, reused) => Some(format!("nothing computed, all {reused} runs were there")),
            (computed, 1) => Some(format!("computed {computed} run{}, 1 was there", plural(computed))),
            (computed, reused) => {
                Some(format!("computed {computed} run{}, {reused} were there", plural(computed)))
            }
        }
    }
}

/// Says why runs with a stored result are computed again.
fn describe_missing_rows(runs: usize) -> String {
    format!("{runs} stored runs have no rows and are computed again; --records none keeps them")
}

impl RunObserver for ProgressBars {
    fn on_estimate(&self, estimate: &SuiteEstimate) {
        self.work.lock().expect(NOT_POISONED).on_estimate(estimate);
        if estimate.pending > 0 && !self.is_quiet {
            self.display.suspend(|| {
                eprintln!("{estimate}");
                if estimate.without_rows > 0 {
                    eprintln!("note: {}", describe_missing_rows(estimate.without_rows));
                }
                if let Some(mismatch) = estimate.rate_mismatch {
                    eprintln!("note: {mismatch}");
                }
            });
        }
    }

    fn on_start(&self, run: &RunId) {
        let elapsed = self.total.elapsed();
        self.work.lock().expect(NOT_POISONED).started.get_or_insert(elapsed);
        let bar = self.display.add(ProgressBar::new(STEPS));
        let style =
            ProgressStyle::with_template("  {bar:20} {prefix}  {msg}").expect("the template is valid");
        bar.set_style(style);
        bar.set_prefix(run.to_string());
        self.active.lock().expect(NOT_POISONED).insert(run.index, bar);
    }

    fn on_progress(&self, run: &RunId, progress: Progress, stop: Picos) {
        let time_share = progress.now.get() as f64 / stop.get().max(1) as f64;
        let share = self.work.lock().expect(NOT_POISONED).on_progress(run.index, time_share, progress);
        self.update_total();
        if let Some(bar) = self.active.lock().expect(NOT_POISONED).get(&run.index) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the position is at most the number of steps"
            )]
            bar.set_position((share * STEPS as f64) as u64);
            let rate = progress.packet_hops as f64 / bar.elapsed().as_secs_f64() / 1e6;
            let time = if progress.now > stop {
                format!("{}, draining after {stop}", progress.now)
            } else {
                format!("{} of {stop}", progress.now)
            };
            let finished = progress.finished;
            bar.set_message(format!("{time}, {rate:.1} M packet-hops/s, {finished} messages finished"));
        }
    }

    fn on_end(&self, run: &RunId, manifest: &Manifest, is_reused: bool) {
        if self.has_run_lines && !is_reused && !manifest.interrupted {
            self.print_line(&format!("computed {run} in {:.3} s", manifest.wall_s));
        }
        if let Some(bar) = self.active.lock().expect(NOT_POISONED).remove(&run.index) {
            bar.finish_and_clear();
        }
        self.work.lock().expect(NOT_POISONED).on_end(run.index, is_reused);
        self.update_total();
    }

    fn is_interrupted(&self) -> bool {
        if self.has_signal() {
            return true;
        }
        let is_over_time = self.max_time.is_some_and(|max_time| self.total.elapsed() > max_time);
        if is_over_time {
            self.is_over_time.store(true, Ordering::SeqCst);
        }
        is_over_time
    }

    fn on_warning(&self, text: &str) {
        self.print_line(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn work(weights: &[u64], reused: usize) -> Work {
        let runs = reused + weights.len();
        let weights = weights.iter().copied().enumerate().collect();
        Work { runs, weights, reused, started: Some(Duration::ZERO), ..Work::default() }
    }

    #[test]
    fn the_remaining_time_follows_the_packet_hops() {
        // The first run is nine times as long as the second.
        let mut work = work(&[900, 100], 0);
        work.on_end(1, false);
        assert!((work.share() - 0.1).abs() < 1e-9, "half of the runs, but a tenth of the work");
        work.active.insert(0, 0.5);
        assert!((work.share() - 0.55).abs() < 1e-9);
        let elapsed = Duration::from_secs(110);
        assert_eq!(work.describe(elapsed), "110 s: 1 of 2 runs, 55 %, about 90 s left");
        work.on_end(0, false);
        assert_eq!(work.describe(elapsed), "110 s: 2 of 2 runs, 100 %, about 0 s left");
    }

    #[test]
    fn the_estimate_gives_the_remaining_time_at_the_start() {
        let mut work = Work { expected: Some(Duration::from_secs(40)), ..work(&[1, 1], 7) };
        assert_eq!(work.describe(Duration::from_secs(1)), "1 s: 7 of 9 runs, 0 %, about 39 s left");
        work.started = None;
        assert_eq!(work.describe(Duration::from_secs(1)), "1 s: 7 of 9 runs, 0 %");
    }

    #[test]
    fn an_active_run_counts_by_time_or_by_packet_hops_and_is_never_complete() {
        let mut work = work(&[1_000], 0);
        let progress = |packet_hops| Progress { now: Picos::ZERO, packet_hops, finished: 0 };
        // A collective ends long before the end of the scenario.
        assert!((work.on_progress(0, 0.01, progress(500)) - 0.5).abs() < 1e-9);
        assert!((work.on_progress(0, 0.8, progress(600)) - 0.8).abs() < 1e-9);
        // A run drains, or needs more packets than estimated.
        assert!((work.on_progress(0, 1.5, progress(5_000)) - 0.99).abs() < 1e-9);
        // The estimate was too short and says nothing.
        let late = Work { expected: Some(Duration::from_secs(40)), ..self::work(&[1], 0) };
        assert_eq!(late.describe(Duration::from_secs(60)), "60 s: 0 of 1 runs, 0 %");
    }

    #[test]
    fn without_an_estimate_all_runs_count_the_same() {
        let mut work = Work { runs: 4, started: Some(Duration::ZERO), ..Work::default() };
        work.on_end(0, true);
        work.on_end(1, false);
        assert_eq!(work.describe(Duration::from_secs(10)), "10 s: 2 of 4 runs, 33 %, about 20 s left");
    }

    #[test]
    fn a_run_that_is_found_unexpectedly_is_no_work() {
        let mut work = work(&[900, 100], 0);
        work.on_end(0, true);
        work.active.insert(1, 0.5);
        assert!((work.share() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn reused_runs_are_stated() {
        let describe = |computed, reused| Work { computed, reused, ..Work::default() }.describe_reuse();
        assert_eq!(describe(9, 0), None);
        assert_eq!(describe(0, 9).as_deref(), Some("nothing computed, all 9 runs were there"));
        assert_eq!(describe(0, 1).as_deref(), Some("nothing computed, the run was there"));
        assert_eq!(describe(3, 6).as_deref(), Some("computed 3 runs, 6 were there"));
        assert_eq!(describe(1, 1).as_deref(), Some("computed 1 run, 1 was there"));
    }

    #[test]
    fn a_heartbeat_repeats_until_it_is_dropped() {
        let (sender, receiver) = mpsc::channel();
        let heartbeat = Heartbeat::start(Duration::from_millis(1), move || {
            let _ = sender.send(());
        });
        for _ in 0..3 {
            receiver.recv_timeout(Duration::from_secs(60)).expect("the heartbeat continues");
        }
        drop(heartbeat);
        // The thread has ended, so the channel is closed after the last beat.
        while receiver.try_recv().is_ok() {}
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        // A long interval does not delay the end.
        drop(Heartbeat::start(Duration::from_secs(3_600), || panic!("there is no beat")));
    }
}
