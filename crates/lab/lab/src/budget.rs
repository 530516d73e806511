//! Estimates the time and memory of a list of runs, and rejects a list that exceeds a limit.

use crate::cost::Cost;
use crate::rate_mismatch::RateMismatch;
use core::fmt::{self, Display};
use core::ops::ControlFlow;
use core::time::Duration;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::{Backend, Plan};
use poseidon_types::Bytes;
use std::collections::BTreeMap;
use std::time::Instant;

/// The limits on a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum memory.
    pub memory: Option<Bytes>,
    /// The maximum duration.
    pub time: Option<Duration>,
}

/// How to estimate the duration of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeEstimation {
    /// From the packet-hops of the runs and the speed of the backend.
    FromSpeed,
    /// A run with real packets takes as long as its plan says.
    RealTime,
    /// Not at all.
    Off,
}

/// The source of an estimated duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedSource {
    /// The speed of this many stored runs of the same program.
    StoredRuns(usize),
    /// The speed of the most expensive run, measured over its first 0.1 s.
    Measurement,
    /// The run times in the plans.
    RealTime,
}

impl Display for SpeedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoredRuns(1) => f.write_str("at the speed of the stored run"),
            Self::StoredRuns(count) => write!(f, "at the speed of {count} stored runs"),
            Self::Measurement => f.write_str("at the speed of a 0.1 s measurement"),
            Self::RealTime => f.write_str("in real time"),
        }
    }
}

/// The speed of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed {
    pub(crate) packet_hops_per_second: f64,
    /// The time in seconds that a run needs before its first packets, if it is not part of the speed.
    pub(crate) start_up: f64,
    pub(crate) source: SpeedSource,
}

/// A run that has no stored result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRun {
    /// The index of the run among all runs.
    pub(crate) index: usize,
    pub(crate) cost: Cost,
}

/// The estimated cost of all runs that have no stored result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuiteEstimate {
    /// The number of runs, including runs with a stored result.
    pub runs: usize,
    /// The number of runs to compute.
    pub pending: usize,
    /// The number of runs to compute again only because their stored results have no rows.
    pub without_rows: usize,
    /// The number of parallel runs.
    pub jobs: usize,
    /// The messages of the runs to compute.
    pub messages: u64,
    /// The data packets of the runs to compute.
    pub packets: u64,
    /// The packet-hops of the runs to compute.
    pub packet_hops: u64,
    /// The additional packet-hops if the runs need their whole drain.
    pub drain_packet_hops: u64,
    /// The memory of the runs that execute at the same time.
    pub memory: Bytes,
    /// The duration and its source; `None` if it is not estimated.
    pub time: Option<(Duration, SpeedSource)>,
    /// The additional time if the runs need their whole drain.
    pub drain_time: Duration,
    /// A law that does not fit the rate of the network.
    pub rate_mismatch: Option<RateMismatch>,
    /// The share of each pending run in the work, in packet-hops, by run index. Every weight is positive.
    pub weights: BTreeMap<usize, u64>,
}

impl SuiteEstimate {
    /// Estimates the cost of the pending runs, out of `runs` runs in total.
    pub(crate) fn new(runs: usize, pending: &[PendingRun], jobs: usize) -> Self {
        let sum = |value: fn(&Cost) -> u64| {
            pending.iter().fold(0, |sum: u64, run| sum.saturating_add(value(&run.cost)))
        };
        let jobs = jobs.min(pending.len()).max(1);
        let mut memory: Vec<u64> = pending.iter().map(|run| run.cost.memory.get()).collect();
        memory.sort_unstable_by(|a, b| b.cmp(a));
        let running = memory.iter().take(jobs).fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        Self {
            runs,
            pending: pending.len(),
            without_rows: 0,
            jobs,
            messages: sum(|cost| cost.messages),
            packets: sum(|cost| cost.packets),
            packet_hops: sum(|cost| cost.packet_hops),
            drain_packet_hops: sum(|cost| cost.drain_packet_hops),
            memory: Bytes::new(running.max(sum(|cost| cost.sample_memory.get()))),
            time: None,
            drain_time: Duration::ZERO,
            rate_mismatch: None,
            weights: pending.iter().map(|run| (run.index, run.cost.packet_hops.max(1))).collect(),
        }
    }

    /// Adds the duration at this speed. The jobs share the work, but the longest run sets a lower bound.
    #[must_use]
    pub(crate) fn with_speed(self, speed: Speed) -> Self {
        let longest = self.weights.values().copied().max().unwrap_or(0);
        let seconds = |packet_hops: u64, runs: usize| {
            packet_hops as f64 / speed.packet_hops_per_second + runs as f64 * speed.start_up
        };
        let seconds = (seconds(self.packet_hops, self.pending) / self.jobs as f64).max(seconds(longest, 1));
        let drain_seconds = self.drain_packet_hops as f64 / speed.packet_hops_per_second / self.jobs as f64;
        let [time, drain_time] = [seconds, drain_seconds]
            .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        Self { time: Some((time, speed.source)), drain_time, ..self }
    }

    /// Adds the duration of runs with real packets, which run one after the other.
    #[must_use]
    pub(crate) fn with_real_time(self, pending: &[PendingRun]) -> Self {
        let picos = pending.iter().fold(0, |sum: u64, run| sum.saturating_add(run.cost.duration.get()));
        Self { time: Some((Duration::from_nanos(picos / 1_000), SpeedSource::RealTime)), ..self }
    }

    /// Returns an error if the runs exceed a limit.
    pub fn check(&self, limits: &Limits) -> Result<(), LimitError> {
        if let Some(limit) = limits.memory.filter(|limit| self.memory > *limit) {
            return Err(LimitError::Memory { estimate: Box::new(self.clone()), limit });
        }
        let time = self.time.map(|(time, _)| time);
        match limits.time.zip(time) {
            Some((limit, time)) if time > limit => {
                Err(LimitError::Time { estimate: Box::new(self.clone()), limit })
            }
            _ => Ok(()),
        }
    }
}

/// Formats the estimate on one line: `9 runs, 1.2 M messages, 340 M packet-hops, about 40 s on 2 cores, 300 MB`.
impl Display for SuiteEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        match self.runs - self.pending.min(self.runs) {
            0 => write!(f, "{} run{}", self.runs, plural(self.runs))?,
            _ => write!(f, "{} of {} runs to compute", self.pending, self.runs)?,
        }
        let [messages, hops] = [self.messages, self.packet_hops].map(|count| ShortCount { count, unit: "" });
        write!(f, ", {messages} messages, {hops} packet-hops")?;
        if let Some((time, source)) = self.time {
            let most = time.saturating_add(self.drain_time);
            write!(f, ", about {}", ShortDuration(time))?;
            // A shorter drain is within the error of the estimate.
            if self.drain_time > time / 4 {
                write!(f, " without the drain and at most {} with it", ShortDuration(most))?;
            }
            write!(f, " on {} core{} ({source})", self.jobs, plural(self.jobs))?;
        }
        write!(f, ", {}", short_bytes(self.memory))
    }
}

/// An error for runs that would exceed a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The runs need too much memory.
    #[error(
        "{estimate}; this is more than --max-memory {}; use fewer --jobs, --quick or a smaller scenario",
        short_bytes(*.limit)
    )]
    Memory {
        /// The estimate.
        estimate: Box<SuiteEstimate>,
        /// The limit.
        limit: Bytes,
    },
    /// The runs take too long.
    #[error(
        "{estimate}; this is more than --max-time {}; use --quick, fewer --seeds or a shorter scenario",
        ShortDuration(*.limit)
    )]
    Time {
        /// The estimate.
        estimate: Box<SuiteEstimate>,
        /// The limit.
        limit: Duration,
    },
}

/// Formats a size with two or three digits: `300 MB`.
pub fn short_bytes(size: Bytes) -> impl Display {
    ShortCount { count: size.get(), unit: "B" }
}

/// A count with two or three digits and a decimal prefix: `1.2 M`.
#[derive(Clone, Copy, Debug)]
pub struct ShortCount {
    /// The count.
    pub count: u64,
    /// The unit; empty for a plain number.
    pub unit: &'static str,
}

impl Display for ShortCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
        let (mut value, mut prefix) = (self.count as f64, 0);
        // 999.5 would be printed as 1000.
        while value >= 999.5 && prefix + 1 < PREFIXES.len() {
            value /= 1_000.0;
            prefix += 1;
        }
        let digits = if prefix > 0 && value < 9.95 { 1 } else { 0 };
        let suffix = format!("{}{}", PREFIXES[prefix], self.unit);
        let space = if suffix.is_empty() { "" } else { " " };
        write!(f, "{value:.digits$}{space}{suffix}")
    }
}

/// A duration with two or three digits: `40 s`, `12 min`, `3.5 h`.
#[derive(Clone, Copy, Debug)]
pub struct ShortDuration(pub Duration);

impl Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (value, unit) = match seconds {
            ..0.95 => return write!(f, "{:.1} s", seconds.max(0.1)),
            ..99.5 => (seconds, "s"),
            ..5_970.0 => (seconds / 60.0, "min"),
            ..356_400.0 => (seconds / 3_600.0, "h"),
            _ => (seconds / 86_400.0, "days"),
        };
        let digits = if value < 9.95 && unit != "s" { 1 } else { 0 };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// The duration of a speed measurement.
const MEASUREMENT: Duration = Duration::from_millis(100);

/// The longest start-up for which the measurement waits.
const MAX_START_UP: Duration = Duration::from_secs(2);

/// Measures the backend's speed over the start of a run. Returns `None` if no packet crosses a link in that time.
pub(crate) fn measure_speed(backend: &dyn Backend, plan: &Plan) -> Option<Speed> {
    let started = now();
    let mut sink = SpeedSink { started, first: None, last: None };
    let report = backend.run(plan, &mut sink).ok()?;
    let whole = (started.elapsed(), report.packet_hops);
    // Before the first progress report, the backend builds the network.
    let (start_up, time, packet_hops) = match (sink.first, sink.last) {
        (Some(first), Some(last)) if last.0 > first.0 + MEASUREMENT / 4 => {
            (first.0, last.0 - first.0, last.1 - first.1)
        }
        _ => (Duration::ZERO, whole.0, whole.1),
    };
    let packet_hops_per_second = packet_hops as f64 / time.as_secs_f64().max(1e-6);
    (packet_hops > 0).then_some(Speed {
        packet_hops_per_second,
        start_up: start_up.as_secs_f64(),
        source: SpeedSource::Measurement,
    })
}

#[expect(clippy::disallowed_methods, reason = "the measured speed is not part of a result")]
fn now() -> Instant {
    Instant::now()
}

/// A sink that ignores all rows, and stops the run [`MEASUREMENT`] after the first progress report.
struct SpeedSink {
    started: Instant,
    /// The time and the packet-hops at the first and the last progress report.
    first: Option<(Duration, u64)>,
    last: Option<(Duration, u64)>,
}

impl Sink for SpeedSink {
    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        let point = (self.started.elapsed(), progress.packet_hops);
        let first = *self.first.get_or_insert(point);
        self.last = Some(point);
        let is_over = point.0 - first.0 >= MEASUREMENT || point.0 >= MAX_START_UP;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Picos;

    fn pending(packet_hops: &[u64]) -> Vec<PendingRun> {
        let run = |(index, hops): (usize, &u64)| PendingRun {
            index,
            cost: Cost {
                messages: 10,
                packets: hops / 4,
                packet_hops: *hops,
                drain_packet_hops: 0,
                duration: Picos::new(2_000_000_000_000),
                memory: Bytes::new(100_000_000),
                sample_memory: Bytes::new(400),
            },
        };
        packet_hops.iter().enumerate().map(run).collect()
    }

    fn speed(packet_hops_per_second: f64) -> Speed {
        Speed { packet_hops_per_second, start_up: 0.0, source: SpeedSource::Measurement }
    }

    #[test]
    fn jobs_share_the_work_but_one_run_has_one_job() {
        let seconds = |hops: &[u64], jobs| {
            let estimate = SuiteEstimate::new(hops.len(), &pending(hops), jobs).with_speed(speed(1e6));
            estimate.time.expect("the duration is estimated").0.as_secs_f64()
        };
        assert!((seconds(&[4_000_000; 4], 1) - 16.0).abs() < 1e-9);
        assert!((seconds(&[4_000_000; 4], 2) - 8.0).abs() < 1e-9);
        assert!((seconds(&[10_000_000, 1, 1], 2) - 10.0).abs() < 1e-9);
        assert!((seconds(&[4_000_000], 8) - 4.0).abs() < 1e-9, "a single run uses one core");
        let slow_start = Speed { start_up: 3.0, ..speed(1e6) };
        let estimate = SuiteEstimate::new(4, &pending(&[4_000_000; 4]), 2).with_speed(slow_start);
        assert_eq!(estimate.time.map(|(time, _)| time), Some(Duration::from_secs(14)));
    }

    #[test]
    fn memory_is_that_of_the_parallel_runs() {
        let memory =
            |runs: usize, jobs| SuiteEstimate::new(runs, &pending(&vec![1; runs]), jobs).memory.get();
        assert_eq!((memory(4, 1), memory(4, 3), memory(2, 8)), (100_000_000, 300_000_000, 200_000_000));
        assert_eq!(memory(0, 4), 0);
    }

    #[test]
    fn the_estimate_is_one_line() {
        let estimate = SuiteEstimate::new(9, &pending(&[40_000_000; 9]), 2).with_speed(speed(4.5e6));
        let expected = "9 runs, 90 messages, 360 M packet-hops, about 40 s on 2 cores (at the speed of a 0.1 s \
                        measurement), 200 MB";
        assert_eq!(estimate.to_string(), expected);
        let mut draining = pending(&[40_000_000; 9]);
        draining.iter_mut().for_each(|run| run.cost.drain_packet_hops = 120_000_000);
        let estimate = SuiteEstimate::new(9, &draining, 2).with_speed(speed(4.5e6));
        let expected = ", about 40 s without the drain and at most 2.7 min with it on 2 cores (";
        assert!(estimate.to_string().contains(expected), "{estimate}");
        let estimate = SuiteEstimate::new(9, &pending(&[1_500]), 2);
        assert_eq!(estimate.to_string(), "1 of 9 runs to compute, 10 messages, 1.5 k packet-hops, 100 MB");
        let runs = pending(&[5, 5]);
        let estimate = SuiteEstimate::new(2, &runs, 1).with_real_time(&runs);
        assert!(estimate.to_string().contains("about 4 s on 1 core (in real time)"), "{estimate}");
    }

    #[test]
    fn a_limit_rejects_what_exceeds_it() {
        let estimate = SuiteEstimate::new(9, &pending(&[40_000_000; 9]), 2).with_speed(speed(4.5e6));
        let limits = |memory: Option<&str>, time: Option<u64>| Limits {
            memory: memory.map(|text| text.parse().expect("this is a valid size")),
            time: time.map(Duration::from_secs),
        };
        for (memory, time) in
            [(None, None), (Some("200 MB"), None), (None, Some(41)), (Some("1 GB"), Some(60))]
        {
            assert_eq!(estimate.check(&limits(memory, time)), Ok(()), "{memory:?} {time:?}");
        }
        let error = estimate.check(&limits(Some("199 MB"), None)).expect_err("this is too much memory");
        assert!(error.to_string().contains("200 MB; this is more than --max-memory 199 MB"), "{error}");
        let error = estimate.check(&limits(None, Some(30))).expect_err("this is too long");
        assert!(error.to_string().contains("about 40 s on 2 cores"), "{error}");
        assert!(error.to_string().contains("this is more than --max-time 30 s"), "{error}");
    }

    #[test]
    fn short_numbers_have_two_or_three_digits() {
        let counts = [(0, "0"), (999, "999"), (1_000, "1.0 k"), (9_949, "9.9 k"), (12_345, "12 k")];
        for (count, expected) in counts.into_iter().chain([(999_600, "1.0 M"), (u64::MAX, "18447 P")]) {
            assert_eq!(ShortCount { count, unit: "" }.to_string(), expected);
        }
        assert_eq!(short_bytes(Bytes::new(299_999_999)).to_string(), "300 MB");
        let times =
            [(0.01, "0.1 s"), (0.5, "0.5 s"), (40.2, "40 s"), (150.0, "2.5 min"), (3_000.0, "50 min")];
        for (seconds, expected) in times.into_iter().chain([(7_200.0, "2.0 h"), (1e6, "12 days")]) {
            assert_eq!(ShortDuration(Duration::from_secs_f64(seconds)).to_string(), expected);
        }
    }
}
