//! Decisions of a law as qlog: a sequence of JSON texts (RFC 7464), each behind a record separator, with an event of our own.
//!
//! ```text
//! <RS>{"time":12.482,"name":"poseidon:decision","group_id":"1","data":{"cause":"ack","mode":"telemetry","rtt_ns":…}}
//! ```
//!
//! Connections must not wait for a disk: decisions go through a queue to a thread of their own. Where the queue is full, decisions are lost.
//! Of those on ACKs at most one per connection and interval is written. The last record says how many were lost and how many were skipped.

use crate::config::{Cause, Decided, Observer};
use crate::signal::Mode;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_types::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// Decisions that may wait: a second of a fast connection.
const QUEUE: usize = 1 << 16;

enum Word {
    Decided(Decided),
    End,
}

pub(super) struct Log {
    queue: SyncSender<Word>,
    lost: Arc<AtomicU64>,
    writer: JoinHandle<io::Result<()>>,
}

impl Log {
    pub(super) fn open(path: &Path, interval: Duration) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let (queue, words) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let interval = Nanos::new(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        let writer = thread::spawn(move || write(file, &words, Sampling::new(interval), &count));
        Ok(Self { queue, lost, writer })
    }

    pub(super) fn observer(&self) -> Observer {
        let (queue, lost) = (self.queue.clone(), Arc::clone(&self.lost));
        Observer(Arc::new(move |decided| {
            if let Err(TrySendError::Full(_)) = queue.try_send(Word::Decided(*decided)) {
                lost.fetch_add(1, Relaxed);
            }
        }))
    }

    pub(super) fn close(self) -> io::Result<()> {
        // Who does not listen any more has ended with an error of its own.
        let _ = self.queue.send(Word::End);
        self.writer
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes the log panicked")))
    }
}

/// Which decisions are written.
struct Sampling {
    interval: Nanos,
    /// By connection: when one was written, and what it steered by.
    last: BTreeMap<u64, (Nanos, Mode)>,
    skipped: u64,
}

impl Sampling {
    const fn new(interval: Nanos) -> Self {
        Self { interval, last: BTreeMap::new(), skipped: 0 }
    }

    /// The first, losses, changes of mode, and what comes an interval after the last one.
    fn should_write(&mut self, decided: &Decided) -> bool {
        let should_write = self.last.get(&decided.flow).is_none_or(|(at, mode)| {
            decided.cause != Cause::Ack || decided.mode != *mode || decided.at - *at >= self.interval
        });
        if should_write {
            self.last.insert(decided.flow, (decided.at, decided.mode));
        } else {
            self.skipped += 1;
        }
        should_write
    }
}

fn write(
    mut file: BufWriter<File>,
    words: &Receiver<Word>,
    mut sampling: Sampling,
    lost: &AtomicU64,
) -> io::Result<()> {
    let head = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": "poseidon",
        "trace": {
            "vantage_point": { "type": "client" },
            "common_fields": { "time_format": "relative", "reference_time": 0 },
        },
    });
    record(&mut file, &head)?;
    let mut last = Nanos::ZERO;
    while let Ok(Word::Decided(decided)) = words.recv() {
        last = last.max(decided.at);
        if sampling.should_write(&decided) {
            record(&mut file, &event(&decided))?;
        }
    }
    let left_out = json!({ "lost": lost.load(Relaxed), "skipped": sampling.skipped });
    record(&mut file, &json!({ "time": milliseconds(last), "name": "poseidon:end", "data": left_out }))?;
    file.flush()
}

/// One text of the sequence.
fn record(file: &mut impl io::Write, value: &Value) -> io::Result<()> {
    writeln!(file, "\u{1e}{value}")
}

fn milliseconds(time: Nanos) -> f64 {
    time.get() as f64 / 1e6
}

fn event(decided: &Decided) -> Value {
    json!({
        "time": milliseconds(decided.at),
        "name": "poseidon:decision",
        "group_id": decided.flow.to_string(),
        "data": {
            "flow": decided.flow,
            "cause": decided.cause.name(),
            "mode": decided.mode.name(),
            "rtt_ns": decided.rtt.get(),
            "told_ns": decided.told.map(|delay| delay.get()),
            "max_hop_delay_ns": decided.max_hop_delay.map(|delay| delay.get()),
            "acked_bytes": decided.acked.get(),
            "in_flight_bytes": decided.in_flight.map(|bytes| bytes.get()),
            "law_window_packets": decided.law_window.q24() as f64 / f64::from(1 << 24),
            "window_bytes": decided.window.get(),
        }
    })
}
