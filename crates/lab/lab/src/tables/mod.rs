//! Writes a run's rows to Parquet or CSV files as they occur, with one file per kind of row.
//!
//! The first row creates the file, so a run without drops has no drops file. Memory use does not grow with the number
//! of rows. [`TableSink::finish`] closes the files and renames them to their final names. Call it after an interrupted
//! run too, so that the rows written so far can be read. Without this call, all files are removed. [`TABLES`] describes
//! the columns.

mod csv;
mod info;
mod memory;
mod parquet;
mod parquet_labels;

pub use info::{ColumnInfo, ColumnKind, TABLES, TableInfo, Unit};
pub use memory::{Column, ColumnValues, TableColumns};

use crate::reduce::ideal_latency;
use crate::resolve::ResolvedRun;
use core::ops::{ControlFlow, Range};
use info::Table;
use memory::MemoryTable;
use poseidon_plan::patterns::collectives::MAX_EXPANDED_MESSAGES;
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow,
    Sink,
};
use poseidon_plan::rings::{RingSamples, RingTable};
use poseidon_plan::{Plan, SwitchPort};
use poseidon_types::{ConnectionId, MessageId, Packets};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file format for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Compressed columns, readable by most data tools.
    Parquet,
    /// Plain text.
    Csv,
}

impl Format {
    /// Returns the format name, which is also the file extension.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

/// A written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The file name.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
}

/// An error while writing rows.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A file cannot be created.
    #[error("cannot create {}: {error}", .path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: Cause,
    },
}

/// The cause of a write error, in either format.
type Cause = Box<dyn core::error::Error + Send + Sync>;

/// The names that the rows of a run contain, so that a row explains itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLabels<'a> {
    /// The cell of the run.
    pub cell: &'a str,
    /// The traffic patterns, in the order of their connections.
    pub traffic: Vec<TrafficLabel<'a>>,
    /// The watched queues. A port may have several names.
    pub queues: Vec<(SwitchPort, &'a str)>,
}

/// The names for the connections of a traffic pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficLabel<'a> {
    /// The name of the pattern.
    pub name: &'a str,
    /// The scenario's name for the law of the connections.
    pub law: &'a str,
    /// The range of connection IDs.
    pub connections: Range<u32>,
}

impl<'a> RowLabels<'a> {
    /// Returns the labels of a run.
    pub fn new(resolved: &'a ResolvedRun, cell: &'a str) -> Self {
        let groups = resolved.groups.iter();
        let traffic = groups.map(|group| TrafficLabel {
            name: &group.name,
            law: &group.law,
            connections: group.connections.clone(),
        });
        let queues = resolved.queues.iter().map(|queue| (queue.port, queue.name.as_str()));
        Self { cell, traffic: traffic.collect(), queues: queues.collect() }
    }

    /// Returns the index of a connection's traffic pattern.
    fn traffic_index(&self, connection: ConnectionId) -> Option<usize> {
        let connection = connection.get();
        let index = self.traffic.partition_point(|traffic| traffic.connections.end <= connection);
        self.traffic.get(index).filter(|traffic| traffic.connections.contains(&connection)).map(|_| index)
    }
}

/// The values of a row's first columns, which name its cell, seed, connection or queue.
struct LabelSet<'a> {
    /// A number that identifies the values within a table.
    id: usize,
    values: &'a [Value<'a>],
}

/// A sink that writes each row to the file for its kind of row.
///
/// After an error, the sink discards rows and interrupts the run at the next progress report.
pub struct TableSink<'p> {
    folder: PathBuf,
    format: Format,
    plan: &'p Plan,
    labels: RowLabels<'p>,
    /// The messages that have rows.
    samples: RingSamples,
    /// The files, in the order of [`TABLES`].
    files: Vec<Option<OpenFile>>,
    /// The rows, if they are kept in memory instead of in files.
    memory: Option<Vec<MemoryTable>>,
    error: Option<TableError>,
}

/// An open file. Fields are dropped in declaration order, so the file is closed before the temporary file is removed.
struct OpenFile {
    file: Box<dyn RowFile>,
    rows: u64,
    temporary: TemporaryFile,
}

/// The path of an incomplete file. On drop, a file that was not renamed is removed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A renamed file no longer exists under this path.
        let _ = fs::remove_file(&self.0);
    }
}

impl<'p> TableSink<'p> {
    /// Creates a sink for a run of `plan`. `folder` is created along with the first file.
    pub fn new(folder: &Path, format: Format, plan: &'p Plan, labels: RowLabels<'p>) -> Self {
        let files = TABLES.iter().map(|_| None).collect();
        let rings = RingTable::new(&plan.rings, plan.transport.mtu);
        let samples = RingSamples::new(&rings, MAX_EXPANDED_MESSAGES);
        Self { folder: folder.into(), format, plan, labels, samples, files, memory: None, error: None }
    }

    /// Creates a sink that keeps the rows in memory and writes no files.
    pub fn in_memory(plan: &'p Plan, labels: RowLabels<'p>) -> Self {
        let memory = (0..TABLES.len()).map(MemoryTable::new).collect();
        Self { memory: Some(memory), ..Self::new(Path::new(""), Format::Parquet, plan, labels) }
    }

    /// Returns the rows in memory, in the order of [`TABLES`]. Leaves out tables without rows.
    pub fn take_columns(&mut self) -> Vec<TableColumns> {
        let tables = self.memory.take().unwrap_or_default();
        tables.into_iter().map(MemoryTable::finish).filter(|table| table.rows > 0).collect()
    }

    /// Closes the files and lists them, or returns the first error of the run. After an error, the other files are
    /// still complete.
    pub fn finish(mut self) -> Result<Vec<FileInfo>, TableError> {
        let mut files = Vec::new();
        for (info, open) in TABLES.iter().zip(core::mem::take(&mut self.files)) {
            let Some(OpenFile { mut file, rows, temporary }) = open else { continue };
            let path = self.path(info);
            let closed = file.close();
            drop(file);
            if let Err(error) = closed.and_then(|()| Ok(fs::rename(&temporary.0, &path)?)) {
                self.error.get_or_insert(TableError::Write { path, error });
            }
            files.push(FileInfo { name: self.file_name(info), rows });
        }
        self.error.map_or(Ok(files), Err)
    }

    fn file_name(&self, info: &TableInfo) -> String {
        format!("{}.{}", info.name, self.format.name())
    }

    fn path(&self, info: &TableInfo) -> PathBuf {
        self.folder.join(self.file_name(info))
    }

    /// Returns a file's temporary path, which is used until the file is closed. The path contains the process ID,
    /// because several processes may run the same plan.
    fn temporary_file(&self, info: &TableInfo) -> TemporaryFile {
        TemporaryFile(self.folder.join(format!(".{}.{}.part", self.file_name(info), std::process::id())))
    }

    /// Writes a row that belongs to a connection.
    fn write_for_connection(&mut self, table: Table, connection: ConnectionId, values: &[Value<'_>]) {
        let labels = &self.labels;
        let (id, name, law) = match labels.traffic_index(connection) {
            Some(index) => {
                let TrafficLabel { name, law, .. } = labels.traffic[index];
                (index, Value::Text(name), law)
            }
            None => {
                let (index, law) = self.law_of(connection);
                (labels.traffic.len() + index, Value::Missing, law)
            }
        };
        let values_of_labels = [Value::Text(labels.cell), self.plan.seed.into(), name, Value::Text(law)];
        self.write(table, &LabelSet { id, values: &values_of_labels }, values);
    }

    /// Returns the index and the name of a connection's built-in law. The name of an unknown law is empty.
    fn law_of(&self, connection: ConnectionId) -> (usize, &'p str) {
        let connection = self.plan.connections.get(connection.index());
        let index = connection.map_or(self.plan.laws.len(), |connection| connection.law as usize);
        (index, self.plan.laws.get(index).map_or("", |law| law.law_name()))
    }

    /// Returns the connection of a message.
    fn connection_of(&self, message: MessageId) -> ConnectionId {
        self.plan.connection_of(message).expect("a backend records only messages of its plan")
    }

    /// Writes a row, or stores the first error.
    fn write(&mut self, table: Table, labels: &LabelSet<'_>, values: &[Value<'_>]) {
        if self.error.is_none()
            && let Err(error) = self.try_write(table, labels, values)
        {
            self.error = Some(error);
        }
    }

    fn try_write(
        &mut self,
        table: Table,
        labels: &LabelSet<'_>,
        values: &[Value<'_>],
    ) -> Result<(), TableError> {
        let index = table as usize;
        let info = &TABLES[index];
        let count = labels.values.len() + values.len();
        debug_assert_eq!(count, info.columns.len(), "{} needs one value per column", info.name);
        if let Some(memory) = &mut self.memory {
            memory[index].push(labels, values);
            return Ok(());
        }
        if self.files[index].is_none() {
            let temporary = self.temporary_file(info);
            self.files[index] = Some(OpenFile { file: self.create(info, &temporary)?, rows: 0, temporary });
        }
        let Some(open) = &mut self.files[index] else { return Ok(()) };
        open.rows += 1;
        open.file
            .write_row(labels, values)
            .map_err(|error| TableError::Write { path: self.path(info), error })
    }

    fn create(&self, info: &TableInfo, temporary: &TemporaryFile) -> Result<Box<dyn RowFile>, TableError> {
        let path = self.path(info);
        let created = fs::create_dir_all(&self.folder).and_then(|()| File::create(&temporary.0));
        let file = created.map_err(|error| TableError::Create { path: path.clone(), error })?;
        let table: Result<Box<dyn RowFile>, Cause> = match self.format {
            Format::Parquet => parquet::Parquet::new(file, info).map(|file| Box::new(file) as _),
            Format::Csv => csv::Csv::new(file, info).map(|file| Box::new(file) as _),
        };
        table.map_err(|error| TableError::Write { path, error })
    }
}

impl Sink for TableSink<'_> {
    fn record_message(&mut self, row: MessageRow) {
        if !self.samples.contains(row.message) {
            return;
        }
        let connection = self.connection_of(row.message);
        let endpoints = self.plan.connections[connection.index()];
        self.write_for_connection(
            Table::Messages,
            connection,
            &[
                row.message.get().into(),
                connection.get().into(),
                endpoints.from.get().into(),
                endpoints.to.get().into(),
                row.start.get().into(),
                row.acknowledged.get().into(),
                (row.acknowledged - row.start).get().into(),
                ideal_latency(self.plan, endpoints.from, endpoints.to, row.size.get()).get().into(),
                row.size.get().into(),
                row.retransmitted.into(),
            ],
        );
    }

    fn record_received(&mut self, row: ReceivedRow) {
        if !self.samples.contains(row.message) {
            return;
        }
        let connection = self.connection_of(row.message);
        let values = [row.message.get().into(), row.time.get().into()];
        self.write_for_connection(Table::Received, connection, &values);
    }

    fn record_drop(&mut self, row: DropRow) {
        let cause = match row.cause {
            DropCause::Buffer => "buffer",
            DropCause::Link => "link",
            DropCause::Loss => "loss",
        };
        self.write_for_connection(
            Table::Drops,
            row.connection,
            &[
                row.time.get().into(),
                row.switch.get().into(),
                row.connection.get().into(),
                row.packet.into(),
                Value::Text(cause),
            ],
        );
    }

    fn record_queue(&mut self, row: QueueRow) {
        let port = SwitchPort::new(row.switch, row.port);
        let [cell, seed] = [Value::Text(self.labels.cell), self.plan.seed.into()];
        let values = [
            row.time.get().into(),
            row.switch.get().into(),
            row.port.get().into(),
            row.queued.get().into(),
            row.delay.get().into(),
            row.sent.get().into(),
        ];
        let mut has_name = false;
        for id in 0..self.labels.queues.len() {
            let (named_port, name) = self.labels.queues[id];
            if named_port == port {
                has_name = true;
                self.write(
                    Table::Queues,
                    &LabelSet { id, values: &[cell, seed, Value::Text(name)] },
                    &values,
                );
            }
        }
        if !has_name {
            let id = self.labels.queues.len();
            self.write(Table::Queues, &LabelSet { id, values: &[cell, seed, Value::Missing] }, &values);
        }
    }

    fn record_sender(&mut self, row: SenderRow) {
        self.write_for_connection(
            Table::Senders,
            row.connection,
            &[
                row.time.get().into(),
                row.connection.get().into(),
                row.window.into(),
                row.in_flight.into(),
                row.srtt.get().into(),
            ],
        );
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        self.write_for_connection(
            Table::Receivers,
            row.connection,
            &[row.time.get().into(), row.connection.get().into(), row.received.get().into()],
        );
    }

    fn record_decision(&mut self, row: DecisionRow) {
        self.write_for_connection(
            Table::Decisions,
            row.connection,
            &[
                row.time.get().into(),
                row.connection.get().into(),
                row.packet.into(),
                row.rtt.get().into(),
                Value::Flag(row.marked),
                row.hop_delay.map_or(Value::Missing, |delay| delay.get().into()),
                row.hop_queue.map_or(Value::Missing, |queue| queue.get().into()),
                row.window.into(),
            ],
        );
    }

    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Integer(i64),
    Real(f64),
    Flag(bool),
    Text(&'a str),
    Missing,
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<Packets> for Value<'_> {
    fn from(value: Packets) -> Self {
        // The quotient is exact, because windows have fewer than 53 bits and the divisor is a power of two.
        Self::Real(value.q24() as f64 / Packets::ONE.q24() as f64)
    }
}

/// A file of rows.
trait RowFile {
    /// Writes a row, with one value per column. The labels are the values of the first columns.
    fn write_row(&mut self, labels: &LabelSet<'_>, values: &[Value<'_>]) -> Result<(), Cause>;

    /// Writes buffered rows and the footer. No more rows may be written.
    fn close(&mut self) -> Result<(), Cause>;
}
