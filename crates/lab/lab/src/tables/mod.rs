//! Writes a run's rows to Parquet or CSV files as they occur, with one file per kind of row.
//!
//! The first row creates the file, so a run without drops has no drops file. Memory use does not grow with the number
//! of rows. [`TableSink::finish`] closes the files and renames them to their final names. Call it after an interrupted
//! run too, so that the rows written so far can be read. Without this call, all files are removed. [`TABLES`] describes
//! the columns.

mod csv;
mod info;
mod parquet;

pub use info::{ColumnInfo, ColumnKind, TABLES, TableInfo, Unit};

use core::ops::ControlFlow;
use info::Table;
use poseidon_plan::Plan;
use poseidon_plan::patterns::Group;
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow, SenderRow,
    Sink,
};
use poseidon_types::Packets;
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

/// A sink that writes each row to the file for its kind of row.
///
/// After an error, the sink discards rows and interrupts the run at the next progress report.
pub struct TableSink<'p> {
    folder: PathBuf,
    format: Format,
    plan: &'p Plan,
    /// For each message in the plan, the index of its group in `group_names`.
    message_groups: Vec<u32>,
    /// The group names. The first entry is for messages without a group.
    group_names: Vec<Option<&'p str>>,
    /// The files, in the order of [`TABLES`].
    files: Vec<Option<OpenFile>>,
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
    /// Creates a sink for a run of `plan`. `folder` is created along with the first file. A message that is in several
    /// `groups` is assigned to the first of these groups.
    pub fn new(folder: &Path, format: Format, plan: &'p Plan, groups: &'p [Group]) -> Self {
        let mut group_names = vec![None];
        let mut message_groups = vec![0; plan.messages.len()];
        for (index, group) in (1..).zip(groups) {
            group_names.push(Some(group.name.as_str()));
            for message in &group.messages {
                if let Some(group @ 0) = message_groups.get_mut(message.index()) {
                    *group = index;
                }
            }
        }
        let files = TABLES.iter().map(|_| None).collect();
        Self { folder: folder.into(), format, plan, message_groups, group_names, files, error: None }
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

    /// Writes a row, or stores the first error.
    fn write<const COLUMNS: usize>(&mut self, table: Table, values: [Value<'_>; COLUMNS]) {
        if self.error.is_none()
            && let Err(error) = self.try_write(table, &values)
        {
            self.error = Some(error);
        }
    }

    fn try_write(&mut self, table: Table, values: &[Value<'_>]) -> Result<(), TableError> {
        let index = table as usize;
        let info = &TABLES[index];
        debug_assert_eq!(values.len(), info.columns.len(), "{} needs one value per column", info.name);
        if self.files[index].is_none() {
            let temporary = self.temporary_file(info);
            self.files[index] = Some(OpenFile { file: self.create(info, &temporary)?, rows: 0, temporary });
        }
        let Some(open) = &mut self.files[index] else { return Ok(()) };
        open.rows += 1;
        open.file.write_row(values).map_err(|error| TableError::Write { path: self.path(info), error })
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
        let plan = self.plan;
        let connection = plan.messages[row.message.index()].connection;
        let endpoints = plan.connections[connection.index()];
        let group = self.group_names[self.message_groups[row.message.index()] as usize];
        self.write(
            Table::Messages,
            [
                row.message.get().into(),
                group.map_or(Value::Missing, Value::Text),
                connection.get().into(),
                endpoints.from.get().into(),
                endpoints.to.get().into(),
                Value::Text(plan.laws[endpoints.law as usize].law_name()),
                row.start.get().into(),
                row.acknowledged.get().into(),
                (row.acknowledged - row.start).get().into(),
                row.size.get().into(),
                row.retransmitted.into(),
            ],
        );
    }

    fn record_received(&mut self, row: ReceivedRow) {
        self.write(Table::Received, [row.message.get().into(), row.time.get().into()]);
    }

    fn record_drop(&mut self, row: DropRow) {
        let cause = match row.cause {
            DropCause::Buffer => "buffer",
            DropCause::Link => "link",
        };
        self.write(
            Table::Drops,
            [
                row.time.get().into(),
                row.switch.get().into(),
                row.connection.get().into(),
                row.packet.into(),
                Value::Text(cause),
            ],
        );
    }

    fn record_queue(&mut self, row: QueueRow) {
        self.write(
            Table::Queues,
            [
                row.time.get().into(),
                row.switch.get().into(),
                row.port.get().into(),
                row.queued.get().into(),
                row.delay.get().into(),
                row.sent.get().into(),
            ],
        );
    }

    fn record_sender(&mut self, row: SenderRow) {
        self.write(
            Table::Senders,
            [
                row.time.get().into(),
                row.connection.get().into(),
                row.window.into(),
                row.in_flight.into(),
                row.srtt.get().into(),
            ],
        );
    }

    fn record_receiver(&mut self, row: ReceiverRow) {
        self.write(
            Table::Receivers,
            [row.time.get().into(), row.connection.get().into(), row.received.get().into()],
        );
    }

    fn record_decision(&mut self, row: DecisionRow) {
        self.write(
            Table::Decisions,
            [
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
    /// Writes a row, with one value per column.
    fn write_row(&mut self, values: &[Value<'_>]) -> Result<(), Cause>;

    /// Writes buffered rows and the footer. No more rows may be written.
    fn close(&mut self) -> Result<(), Cause>;
}
