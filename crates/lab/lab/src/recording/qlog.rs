//! Writes the states of laws as qlog: one JSON text sequence (RFC 7464) per connection.
//!
//! ```text
//! <RS>{"time":0.012,"name":"recovery:metrics_updated","data":{"congestion_window":65536,"smoothed_rtt":0.011,…}}
//! ```
//!
//! The events have the names and units of draft-ietf-quic-qlog-quic-events, so congestion graphs such as qvis show them:
//! times in milliseconds, windows in bytes, rates in bits per second. The hop delay and the law's target are additional
//! fields.

use super::error::RecordingError;
use crate::resolve::ResolvedRun;
use core::ops::ControlFlow;
use poseidon_plan::records::{LawStateRow, Progress, Sink};
use poseidon_types::{BitRate, Bytes, ConnectionId, Nanos};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// What the files contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QlogSummary {
    /// The number of files, one per connection.
    pub files: usize,
    /// The number of events.
    pub events: u64,
    /// The size of all files.
    pub bytes: u64,
    /// The number of events that exceed the size limit and are not in a file.
    pub omitted: u64,
}

/// Writes the law states of a recording into a folder.
#[derive(Debug)]
pub struct QlogSink<'a> {
    resolved: &'a ResolvedRun,
    folder: PathBuf,
    files: BTreeMap<ConnectionId, BufWriter<File>>,
    max_bytes: u64,
    summary: QlogSummary,
    error: Option<RecordingError>,
}

impl<'a> QlogSink<'a> {
    /// Creates a sink that writes files into an existing folder, at most about `max_bytes` in total.
    pub fn new(folder: &Path, resolved: &'a ResolvedRun, max_bytes: u64) -> Self {
        Self {
            resolved,
            folder: folder.to_owned(),
            files: BTreeMap::new(),
            max_bytes,
            summary: QlogSummary::default(),
            error: None,
        }
    }

    /// Completes the files.
    pub fn finish(self) -> Result<QlogSummary, RecordingError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut summary = self.summary;
        for (connection, mut file) in self.files {
            let path = self.folder.join(file_name(connection));
            file.flush().map_err(RecordingError::file(&path))?;
            summary.files += 1;
        }
        Ok(summary)
    }

    fn write(&mut self, row: &LawStateRow) -> Result<(), RecordingError> {
        let path = self.folder.join(file_name(row.connection));
        if let Entry::Vacant(entry) = self.files.entry(row.connection) {
            let file = File::create(&path).map_err(RecordingError::file(&path))?;
            entry.insert(BufWriter::new(file));
            let header = self.header(row.connection);
            self.write_record(row.connection, &header, &path)?;
        }
        let event = metrics_updated(row, self.resolved.plan.transport.mtu);
        self.write_record(row.connection, &event, &path)?;
        self.summary.events += 1;
        Ok(())
    }

    fn write_record(
        &mut self,
        connection: ConnectionId,
        record: &Value,
        path: &Path,
    ) -> Result<(), RecordingError> {
        let Some(file) = self.files.get_mut(&connection) else { return Ok(()) };
        let text = format!("\u{1e}{record}\n");
        file.write_all(text.as_bytes()).map_err(RecordingError::file(path))?;
        self.summary.bytes += text.len() as u64;
        Ok(())
    }

    /// Returns the first record, as in the sequential form of the qlog main schema (draft-ietf-quic-qlog-main-schema).
    fn header(&self, connection: ConnectionId) -> Value {
        let ends = self.resolved.plan.connections[connection.index()];
        let (from, to) = (ends.from.get(), ends.to.get());
        json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "poseidon",
            "trace": {
                "title": format!("flow {} from host{from} to host{to}", connection.get()),
                "vantage_point": { "type": "client" },
                "common_fields": {
                    "group_id": connection.get().to_string(),
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "event_schemas": ["urn:ietf:params:qlog:events:quic"],
            },
        })
    }
}

/// Returns the name of a connection's file.
fn file_name(connection: ConnectionId) -> String {
    format!("flow{}.sqlog", connection.get())
}

fn metrics_updated(row: &LawStateRow, mtu: Bytes) -> Value {
    json!({
        "time": milliseconds(row.time.to_nanos_floor()),
        "name": "recovery:metrics_updated",
        "data": {
            "congestion_window": row.window.to_bytes_floor(mtu).get(),
            "bytes_in_flight": (mtu * u64::from(row.in_flight)).get(),
            "packets_in_flight": row.in_flight,
            "smoothed_rtt": milliseconds(row.srtt),
            "latest_rtt": milliseconds(row.rtt),
            "pacing_rate": row.pacing_rate.map(BitRate::get),
            "max_hop_delay_ns": row.hop_delay.map(Nanos::get),
            "target_ns": row.target.map(Nanos::get),
            "packet": row.packet,
        }
    })
}

fn milliseconds(time: Nanos) -> f64 {
    time.get() as f64 / 1e6
}

impl Sink for QlogSink<'_> {
    fn record_law_state(&mut self, row: LawStateRow) {
        if self.error.is_some() {
            return;
        }
        if self.summary.bytes >= self.max_bytes {
            self.summary.omitted += 1;
            return;
        }
        if let Err(error) = self.write(&row) {
            self.error = Some(error);
        }
    }

    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
