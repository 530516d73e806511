//! Writes a law's decisions in qlog format: a JSON text sequence (RFC 7464) with custom events.
//!
//! ```text
//! <RS>{"time":12.482,"name":"poseidon:decision","group_id":"1","data":{"cause":"ack","mode":"telemetry","rtt_ns":…}}
//! ```
//!
//! Connections must not wait for the disk, so decisions pass through a queue to a writer thread. If the queue is full,
//! decisions are lost. The writer skips ACK decisions that follow the previous decision too closely. The last record
//! contains the number of lost decisions and the number of skipped decisions.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::{Cause, DecisionEvent, Mode, Observer};
use poseidon_types::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// The queue capacity, which is enough for one second of a fast connection.
const QUEUE_CAPACITY: usize = 1 << 16;

enum Message {
    Decision(DecisionEvent),
    End,
}

pub(super) struct QlogWriter {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl QlogWriter {
    pub(super) fn open(path: &Path, interval: Duration) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let (queue, messages) = sync_channel(QUEUE_CAPACITY);
        let lost = Arc::new(AtomicU64::new(0));
        let lost_counter = Arc::clone(&lost);
        let interval = Nanos::new(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        let sampler = Sampler::new(interval);
        let thread = thread::spawn(move || write_log(file, &messages, sampler, &lost_counter));
        Ok(Self { queue, lost, thread })
    }

    pub(super) fn observer(&self) -> Observer {
        let (queue, lost) = (self.queue.clone(), Arc::clone(&self.lost));
        Observer(Arc::new(move |decision| {
            if let Err(TrySendError::Full(_)) = queue.try_send(Message::Decision(*decision)) {
                lost.fetch_add(1, Relaxed);
            }
        }))
    }

    pub(super) fn close(self) -> io::Result<()> {
        // Sending fails if the writer has ended. In that case, `join` returns the writer's error.
        let _ = self.queue.send(Message::End);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the log writer panicked")))
    }
}

/// Selects the decisions to write.
struct Sampler {
    interval: Nanos,
    /// The time and the mode of the last written decision, by flow.
    last_written: BTreeMap<u64, (Nanos, Mode)>,
    skipped: u64,
}

impl Sampler {
    const fn new(interval: Nanos) -> Self {
        Self { interval, last_written: BTreeMap::new(), skipped: 0 }
    }

    /// Selects a flow's first decision, losses, mode changes, and decisions at least one interval after the last
    /// written decision.
    fn should_write(&mut self, decision: &DecisionEvent) -> bool {
        let should_write = self.last_written.get(&decision.flow).is_none_or(|(time, mode)| {
            decision.cause != Cause::Ack || decision.mode != *mode || decision.time - *time >= self.interval
        });
        if should_write {
            self.last_written.insert(decision.flow, (decision.time, decision.mode));
        } else {
            self.skipped += 1;
        }
        should_write
    }
}

fn write_log(
    mut file: BufWriter<File>,
    messages: &Receiver<Message>,
    mut sampler: Sampler,
    lost: &AtomicU64,
) -> io::Result<()> {
    write_record(&mut file, &header())?;
    let mut last_time = Nanos::ZERO;
    while let Ok(Message::Decision(decision)) = messages.recv() {
        last_time = last_time.max(decision.time);
        if sampler.should_write(&decision) {
            write_record(&mut file, &decision_record(&decision))?;
        }
    }
    let omitted = json!({ "lost": lost.load(Relaxed), "skipped": sampler.skipped });
    let end = json!({ "time": milliseconds(last_time), "name": "poseidon:end", "data": omitted });
    write_record(&mut file, &end)?;
    file.flush()
}

/// Returns the first record, as in the sequential form of the qlog main schema (draft-ietf-quic-qlog-main-schema).
fn header() -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": "poseidon",
        "trace": {
            "vantage_point": { "type": "client" },
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "event_schemas": [EVENT_SCHEMA],
        },
    })
}

/// The name of the events in this file. A private schema may have any URI.
const EVENT_SCHEMA: &str = "tag:poseidon,2026:qlog-events";

/// Writes one record of the sequence.
fn write_record(file: &mut impl io::Write, value: &Value) -> io::Result<()> {
    writeln!(file, "\u{1e}{value}")
}

fn milliseconds(time: Nanos) -> f64 {
    time.get() as f64 / 1e6
}

fn decision_record(decision: &DecisionEvent) -> Value {
    json!({
        "time": milliseconds(decision.time),
        "name": "poseidon:decision",
        "group_id": decision.flow.to_string(),
        "data": {
            "flow": decision.flow,
            "cause": decision.cause.name(),
            "mode": decision.mode.name(),
            "rtt_ns": decision.rtt.get(),
            "told_ns": decision.echoed_delay.map(|delay| delay.get()),
            "max_hop_delay_ns": decision.max_hop_delay.map(|delay| delay.get()),
            "acked_bytes": decision.acked.get(),
            "in_flight_bytes": decision.in_flight.map(|bytes| bytes.get()),
            "law_window_packets": decision.law_window.q24() as f64 / f64::from(1 << 24),
            "window_bytes": decision.window.get(),
        }
    })
}
