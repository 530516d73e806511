//! Writes the first columns of a Parquet table, which name a row's cell, seed, connection or queue.
//!
//! Few sets of labels repeat over many rows. The buffer therefore stores runs of equal sets instead of values. A column
//! with one value in a whole row group is encoded once, and the same bytes are appended to every such group.

use super::{ColumnInfo, ColumnKind, LabelSet, Value};
use ::parquet::column::writer::{
    ColumnCloseResult, ColumnWriter, ColumnWriterImpl, get_column_writer, get_typed_column_writer_mut,
};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterPropertiesPtr;
use ::parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;
use std::fs::File;
use std::sync::Arc;

/// The number of rows per row group. A row group of the widest table takes a few MB.
pub(super) const ROWS_PER_GROUP: usize = 65_536;

/// The label columns of a table.
pub(super) struct LabelColumns {
    columns: Vec<LabelColumn>,
    properties: WriterPropertiesPtr,
    /// The values of each set of labels, by its number. A set without rows has no values.
    sets: Vec<Vec<Label>>,
    /// The sets of the buffered rows, and the number of rows of each.
    runs: Vec<(usize, usize)>,
}

/// A label column.
struct LabelColumn {
    descriptor: ColumnDescPtr,
    kind: ColumnKind,
    is_optional: bool,
    /// Encoded columns of a full row group with one value.
    constants: Vec<(Label, Bytes, ColumnCloseResult)>,
}

/// A value of a label column.
#[derive(Clone, Debug, PartialEq)]
enum Label {
    Text(ByteArray),
    Integer(i64),
    Missing,
}

impl From<Value<'_>> for Label {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.into()),
            Value::Integer(integer) => Self::Integer(integer),
            Value::Missing => Self::Missing,
            Value::Real(_) | Value::Flag(_) => unreachable!("a label is a text or an integer"),
        }
    }
}

impl LabelColumns {
    /// Creates the label columns of a file. They are its first columns.
    pub(super) fn new(columns: &[ColumnInfo], file: &SerializedFileWriter<File>) -> Self {
        let column = |(index, info): (usize, &ColumnInfo)| LabelColumn {
            descriptor: file.schema_descr().column(index),
            kind: info.kind,
            is_optional: info.is_optional,
            constants: Vec::new(),
        };
        Self {
            columns: columns.iter().enumerate().map(column).collect(),
            properties: Arc::clone(file.properties()),
            sets: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds the labels of a row.
    #[inline]
    pub(super) fn push(&mut self, labels: &LabelSet<'_>) {
        match self.runs.last_mut() {
            Some((id, rows)) if *id == labels.id => *rows += 1,
            _ => self.begin_run(labels),
        }
    }

    fn begin_run(&mut self, labels: &LabelSet<'_>) {
        if self.sets.len() <= labels.id {
            self.sets.resize(labels.id + 1, Vec::new());
        }
        let set = &mut self.sets[labels.id];
        if set.is_empty() {
            set.extend(labels.values.iter().map(|value| Label::from(*value)));
        }
        self.runs.push((labels.id, 1));
    }

    /// Writes the columns of the buffered rows as the first columns of a row group, and clears the buffer.
    pub(super) fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        let rows: usize = self.runs.iter().map(|(_, rows)| rows).sum();
        for (index, column) in self.columns.iter_mut().enumerate() {
            let runs = || self.runs.iter().map(|(id, rows)| (&self.sets[*id][index], *rows));
            let first = runs().next().map(|(label, _)| label);
            match first {
                Some(label) if rows == ROWS_PER_GROUP && runs().all(|(other, _)| other == label) => {
                    column.append_constant(label, &self.properties, group)?;
                }
                _ => {
                    let Some(mut writer) = group.next_column()? else { break };
                    let runs: Vec<(&Label, usize)> = runs().collect();
                    match column.kind {
                        ColumnKind::Integer => {
                            column.write(writer.typed::<Int64Type>(), &runs, as_integer)?
                        }
                        _ => column.write(writer.typed::<ByteArrayType>(), &runs, as_text)?,
                    }
                    writer.close()?;
                }
            }
        }
        self.runs.clear();
        Ok(())
    }
}

fn as_text(label: &Label) -> Option<ByteArray> {
    if let Label::Text(text) = label { Some(text.clone()) } else { None }
}

fn as_integer(label: &Label) -> Option<i64> {
    if let Label::Integer(integer) = label { Some(*integer) } else { None }
}

/// The number of values that are written at once.
const BATCH: usize = 1_024;

impl LabelColumn {
    /// Writes runs of values.
    fn write<T: DataType>(
        &self,
        writer: &mut ColumnWriterImpl<'_, T>,
        runs: &[(&Label, usize)],
        value_of: impl Fn(&Label) -> Option<T::T>,
    ) -> Result<(), ParquetError> {
        let (mut values, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut write = |values: &[T::T], levels: &[i16]| {
            writer.write_batch(values, self.is_optional.then_some(levels), None).map(drop)
        };
        for (label, rows) in runs {
            let value = value_of(label);
            let mut remaining = *rows;
            while remaining > 0 {
                let count = remaining.min(BATCH - levels.len());
                levels.extend(core::iter::repeat_n(i16::from(value.is_some()), count));
                values.extend(value.iter().cloned().cycle().take(count));
                remaining -= count;
                if levels.len() == BATCH {
                    write(&values, &levels)?;
                    // A batch of one label is written again for the rest of a long run.
                    while count == BATCH && remaining >= BATCH {
                        write(&values, &levels)?;
                        remaining -= BATCH;
                    }
                    values.clear();
                    levels.clear();
                }
            }
        }
        write(&values, &levels)
    }

    /// Appends the column of a full row group with one value.
    fn append_constant(
        &mut self,
        label: &Label,
        properties: &WriterPropertiesPtr,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        if let Some((_, bytes, close)) = self.constants.iter().find(|(known, ..)| known == label) {
            return group.append_column(bytes, close.clone());
        }
        let (bytes, close) = self.encode_constant(label, properties)?;
        group.append_column(&bytes, close.clone())?;
        self.constants.push((label.clone(), bytes, close));
        Ok(())
    }

    /// Encodes the column of a full row group with one value.
    fn encode_constant(
        &self,
        label: &Label,
        properties: &WriterPropertiesPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut buffer = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut buffer));
        let mut writer: ColumnWriter<'_> =
            get_column_writer(Arc::clone(&self.descriptor), Arc::clone(properties), pages);
        let runs = [(label, ROWS_PER_GROUP)];
        match self.kind {
            ColumnKind::Integer => {
                self.write(get_typed_column_writer_mut::<Int64Type>(&mut writer), &runs, as_integer)?
            }
            _ => self.write(get_typed_column_writer_mut::<ByteArrayType>(&mut writer), &runs, as_text)?,
        }
        let close = writer.close()?;
        Ok((buffer.into_inner()?.into(), close))
    }
}
