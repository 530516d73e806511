//! The rows of a run in files, written as they come: one file per kind of row, in Parquet or as text.
//!
//! A file is made when its first row comes, so a run without drops has no file of drops. Memory does not grow with the rows.
//! [`Tables::finish`] closes the files and gives them their names, and must be called after a run that was broken off too: its rows up
//! to there are then as readable as those of a whole one. Without it nothing is left. [`TABLES`] says what each column holds.

mod csv;
mod info;
mod parquet;

pub use info::{ColumnInfo, Kind, TABLES, TableInfo, Unit};

use core::fmt;
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

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// In columns, compressed: what every tool for data reads, and small.
    Parquet,
    /// As text: what every eye reads.
    Csv,
}

impl Format {
    /// What it is called, and how its files end.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name in the folder.
    pub name: String,
    /// How many rows it has.
    pub rows: u64,
}

/// Why rows were not written.
#[derive(Debug)]
pub enum Error {
    /// A file could not be made.
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file could not be written.
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: Box<dyn core::error::Error + Send + Sync>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, error } => write!(f, "cannot make {}: {error}", path.display()),
            Self::Write { path, error } => write!(f, "cannot write {}: {error}", path.display()),
        }
    }
}

impl core::error::Error for Error {}

/// A sink that writes every row to the file of its kind.
///
/// After an error it takes rows without writing them, and breaks the run off the next time it is told of progress.
pub struct Tables<'p> {
    folder: PathBuf,
    format: Format,
    plan: &'p Plan,
    /// Per message of the plan: which of `names` its group has.
    groups: Vec<u32>,
    /// The names of the groups, behind that of no group.
    names: Vec<Option<&'p str>>,
    /// The files, as [`TABLES`] lists them.
    files: Vec<Option<Written>>,
    error: Option<Error>,
}

/// A file that rows go to. Fields are dropped in their order: the file is closed before its part is removed.
struct Written {
    file: Box<dyn RowFile>,
    rows: u64,
    part: Part,
}

/// What a file is called until it is whole; one that never gets its own name is removed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // A file that has its own name is no longer here.
        let _ = fs::remove_file(&self.0);
    }
}

impl<'p> Tables<'p> {
    /// Writes into `folder`, which is made with the first file. The rows are those of a run of `plan`, whose messages belong to `groups`;
    /// a message of several belongs to the first.
    pub fn new(folder: &Path, format: Format, plan: &'p Plan, groups: &'p [Group]) -> Self {
        let mut names = vec![None];
        let mut of_message = vec![0; plan.messages.len()];
        for (place, group) in (1..).zip(groups) {
            names.push(Some(group.name.as_str()));
            for message in &group.messages {
                if let Some(none @ 0) = of_message.get_mut(*message as usize) {
                    *none = place;
                }
            }
        }
        let files = TABLES.iter().map(|_| None).collect();
        Self { folder: folder.into(), format, plan, groups: of_message, names, files, error: None }
    }

    /// Closes the files and lists those that there are. The first error of the run, if there was one, is returned here; files that it did not
    /// concern are whole.
    pub fn finish(mut self) -> Result<Vec<FileInfo>, Error> {
        let mut made = Vec::new();
        for (info, written) in TABLES.iter().zip(core::mem::take(&mut self.files)) {
            let Some(Written { mut file, rows, part }) = written else { continue };
            let path = self.path(info);
            let closed = file.close();
            drop(file);
            if let Err(error) = closed.and_then(|()| Ok(fs::rename(&part.0, &path)?)) {
                self.error.get_or_insert(Error::Write { path, error });
            }
            made.push(FileInfo { name: self.file_name(info), rows });
        }
        self.error.map_or(Ok(made), Err)
    }

    fn file_name(&self, info: &TableInfo) -> String {
        format!("{}.{}", info.name, self.format.name())
    }

    fn path(&self, info: &TableInfo) -> PathBuf {
        self.folder.join(self.file_name(info))
    }

    /// Where a file is until it is closed. Another process that runs the same plan writes to another file.
    fn part(&self, info: &TableInfo) -> Part {
        Part(self.folder.join(format!(".{}.{}.part", self.file_name(info), std::process::id())))
    }

    /// Writes a row, or keeps the error.
    fn write<const COLUMNS: usize>(&mut self, table: Table, values: [Value<'_>; COLUMNS]) {
        if self.error.is_none()
            && let Err(error) = self.try_write(table, &values)
        {
            self.error = Some(error);
        }
    }

    fn try_write(&mut self, table: Table, values: &[Value<'_>]) -> Result<(), Error> {
        let place = table as usize;
        let info = &TABLES[place];
        debug_assert_eq!(values.len(), info.columns.len(), "a value per column of {}", info.name);
        if self.files[place].is_none() {
            let part = self.part(info);
            self.files[place] = Some(Written { file: self.make(info, &part)?, rows: 0, part });
        }
        let Some(written) = &mut self.files[place] else { return Ok(()) };
        written.rows += 1;
        written.file.row(values).map_err(|error| Error::Write { path: self.path(info), error })
    }

    fn make(&self, info: &TableInfo, part: &Part) -> Result<Box<dyn RowFile>, Error> {
        let path = self.path(info);
        let made = fs::create_dir_all(&self.folder).and_then(|()| File::create(&part.0));
        let file = made.map_err(|error| Error::Create { path: path.clone(), error })?;
        let begun: Result<Box<dyn RowFile>, Cause> = match self.format {
            Format::Parquet => parquet::Parquet::new(file, info).map(|file| Box::new(file) as _),
            Format::Csv => csv::Csv::new(file, info).map(|file| Box::new(file) as _),
        };
        begun.map_err(|error| Error::Write { path, error })
    }
}

impl Sink for Tables<'_> {
    fn message(&mut self, row: MessageRow) {
        let plan = self.plan;
        let connection = plan.messages[row.message as usize].connection;
        let ends = plan.connections[connection as usize];
        let group = self.names[self.groups[row.message as usize] as usize];
        self.write(
            Table::Messages,
            [
                row.message.into(),
                group.map_or(Value::Missing, Value::Text),
                connection.into(),
                ends.from.into(),
                ends.to.into(),
                Value::Text(plan.laws[ends.law as usize].law()),
                row.start.get().into(),
                row.acknowledged.get().into(),
                (row.acknowledged - row.start).get().into(),
                row.size.get().into(),
                row.retransmitted.into(),
            ],
        );
    }

    fn received(&mut self, row: ReceivedRow) {
        self.write(Table::Received, [row.message.into(), row.at.get().into()]);
    }

    fn drop(&mut self, row: DropRow) {
        let cause = match row.cause {
            DropCause::Buffer => "buffer",
            DropCause::Link => "link",
        };
        self.write(
            Table::Drops,
            [
                row.at.get().into(),
                row.switch.into(),
                row.connection.into(),
                row.packet.into(),
                Value::Text(cause),
            ],
        );
    }

    fn queue(&mut self, row: QueueRow) {
        self.write(
            Table::Queues,
            [
                row.at.get().into(),
                row.switch.into(),
                row.port.into(),
                row.waiting.get().into(),
                row.delay.get().into(),
                row.sent.get().into(),
            ],
        );
    }

    fn sender(&mut self, row: SenderRow) {
        self.write(
            Table::Senders,
            [
                row.at.get().into(),
                row.connection.into(),
                row.window.into(),
                row.in_flight.into(),
                row.srtt.get().into(),
            ],
        );
    }

    fn receiver(&mut self, row: ReceiverRow) {
        self.write(Table::Receivers, [row.at.get().into(), row.connection.into(), row.received.get().into()]);
    }

    fn decision(&mut self, row: DecisionRow) {
        self.write(
            Table::Decisions,
            [
                row.at.get().into(),
                row.connection.into(),
                row.packet.into(),
                row.rtt.get().into(),
                Value::Flag(row.marked),
                row.hop_delay.map_or(Value::Missing, |delay| delay.get().into()),
                row.hop_queue.map_or(Value::Missing, |queue| queue.get().into()),
                row.window.into(),
            ],
        );
    }

    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
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
        // Exact: windows have fewer than 53 bits, and the divisor is a power of two.
        Self::Real(value.q24() as f64 / Packets::ONE.q24() as f64)
    }
}

/// Why a format failed, whichever it is.
type Cause = Box<dyn core::error::Error + Send + Sync>;

/// A file that takes rows.
trait RowFile {
    /// Takes a row: a value per column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Cause>;

    /// Writes what waits, and whatever a reader needs. Nothing comes after.
    fn close(&mut self) -> Result<(), Cause>;
}
