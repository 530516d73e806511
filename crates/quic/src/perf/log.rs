//! Every decision of a law, one JSON value per line: the shape of qlog's text sequences, with an event of our own.
//!
//! ```text
//! {"time":12.482,"name":"poseidon:decision","data":{"flow":1,"cause":"ack","mode":"telemetry","rtt_ns":…}}
//! ```
//!
//! Connections must not wait for a disk: lines go through a queue to a thread of their own. Where the queue is full, decisions are left
//! out, and the last line says how many.

use crate::config::{Decided, Observer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use serde_json::json;
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
    left_out: Arc<AtomicU64>,
    writer: JoinHandle<io::Result<()>>,
}

impl Log {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let (queue, words) = sync_channel(QUEUE);
        let left_out = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&left_out);
        let writer = thread::spawn(move || write(file, &words, &count));
        Ok(Self { queue, left_out, writer })
    }

    pub(super) fn observer(&self) -> Observer {
        let (queue, left_out) = (self.queue.clone(), Arc::clone(&self.left_out));
        Observer(Arc::new(move |decided| {
            if let Err(TrySendError::Full(_)) = queue.try_send(Word::Decided(*decided)) {
                left_out.fetch_add(1, Relaxed);
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

fn write(mut file: BufWriter<File>, words: &Receiver<Word>, left_out: &AtomicU64) -> io::Result<()> {
    let head = json!({ "qlog_version": "0.3", "qlog_format": "NDJSON", "title": "poseidon" });
    writeln!(file, "{head}")?;
    while let Ok(Word::Decided(decided)) = words.recv() {
        writeln!(file, "{}", line(&decided))?;
    }
    writeln!(file, "{}", json!({ "name": "poseidon:end", "data": { "left_out": left_out.load(Relaxed) } }))?;
    file.flush()
}

fn line(decided: &Decided) -> serde_json::Value {
    json!({
        "time": decided.at.get() as f64 / 1e6,
        "name": "poseidon:decision",
        "data": {
            "flow": decided.flow,
            "tag": decided.tag,
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
