//! Writes rows as Parquet with Snappy compression, without the `arrow` crate.
//!
//! Rows are buffered until they fill a row group. Once a group is written, only its footer entry stays in memory.
//! The footer comes last, so a file that is not closed cannot be read.

use super::parquet_labels::{LabelColumns, ROWS_PER_GROUP};
use super::{Cause, ColumnInfo, ColumnKind, LabelSet, RowFile, TableInfo, Unit, Value};
use ::parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::sync::Arc;

/// A Parquet file of rows.
pub(super) struct Parquet {
    writer: SerializedFileWriter<File>,
    labels: LabelColumns,
    /// The columns after the labels.
    columns: Vec<Column>,
    /// The number of buffered rows.
    buffered_rows: usize,
}

impl Parquet {
    /// Creates a table and stores the column descriptions in the file metadata.
    pub(super) fn new(file: File, info: &TableInfo) -> Result<Self, Cause> {
        let writer = SerializedFileWriter::new(file, Arc::new(schema(info)?), Arc::new(properties(info)))?;
        let others = &info.columns[info.label_count()..];
        let columns = others.iter().map(|column| Column::new(column.kind, column.is_optional)).collect();
        let labels = LabelColumns::new(&info.columns[..info.label_count()], &writer);
        Ok(Self { writer, labels, columns, buffered_rows: 0 })
    }

    /// Writes the buffered rows as a row group.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        self.labels.write(&mut group)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            column.write(&mut writer)?;
            writer.close()?;
        }
        group.close()?;
        self.buffered_rows = 0;
        Ok(())
    }
}

impl RowFile for Parquet {
    fn write_row(&mut self, labels: &LabelSet<'_>, values: &[Value<'_>]) -> Result<(), Cause> {
        self.labels.push(labels);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.buffered_rows += 1;
        if self.buffered_rows == ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Cause> {
        if self.buffered_rows > 0 {
            self.write_group()?;
        }
        self.writer.finish()?;
        Ok(())
    }
}

/// Returns the Parquet schema of a table.
fn schema(info: &TableInfo) -> Result<Type, ParquetError> {
    let mut fields = Vec::with_capacity(info.columns.len());
    for column in info.columns {
        let (physical, logical) = match column.kind {
            ColumnKind::Integer => (Physical::INT64, None),
            ColumnKind::Real => (Physical::DOUBLE, None),
            ColumnKind::Flag => (Physical::BOOLEAN, None),
            ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        fields.push(Arc::new(field.with_logical_type(logical).with_repetition(repetition).build()?));
    }
    Type::group_type_builder(info.name).with_fields(fields).build()
}

/// Returns the writer properties of a table.
fn properties(info: &TableInfo) -> WriterProperties {
    let description = |column: &ColumnInfo| KeyValue::new(column.name.into(), column.description.to_string());
    // Per-group statistics are enough to skip groups. Per-page statistics would stay in memory until the end.
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(info.columns.iter().map(description).collect()));
    // Times rarely repeat, so a dictionary would be as long as the column. Rows are in chronological order, so
    // differences are small.
    for column in info.columns.iter().filter(|column| column.unit == Unit::Picoseconds) {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(column.name), false)
            .set_column_encoding(ColumnPath::from(column.name), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// The buffered values of a column.
struct Column {
    values: Values,
    /// For an optional column, the definition level of each row: one if the row has a value, otherwise zero.
    definition_levels: Option<Vec<i16>>,
}

/// The values that are not missing.
enum Values {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Column {
    fn new(kind: ColumnKind, is_optional: bool) -> Self {
        let values = match kind {
            ColumnKind::Integer => Values::Integer(Vec::new()),
            ColumnKind::Real => Values::Real(Vec::new()),
            ColumnKind::Flag => Values::Flag(Vec::new()),
            ColumnKind::Text => Values::Text(Vec::new()),
        };
        Self { values, definition_levels: is_optional.then(Vec::new) }
    }

    fn push(&mut self, value: Value<'_>) {
        if let Some(levels) = &mut self.definition_levels {
            levels.push(i16::from(value != Value::Missing));
        }
        match (&mut self.values, value) {
            (Values::Integer(values), Value::Integer(value)) => values.push(value),
            (Values::Real(values), Value::Real(value)) => values.push(value),
            (Values::Flag(values), Value::Flag(value)) => values.push(value),
            (Values::Text(values), Value::Text(value)) => {
                // Names often repeat, so equal names in consecutive rows share the same bytes.
                let last = values.last().filter(|last| last.data() == value.as_bytes());
                let shared = last.cloned().unwrap_or_else(|| value.into());
                values.push(shared);
            }
            (_, Value::Missing) if self.definition_levels.is_some() => {}
            (_, value) => unreachable!("{value:?} does not match the type of the column"),
        }
    }

    /// Writes the values and clears the buffer.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.definition_levels.as_deref();
        match &mut self.values {
            Values::Integer(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Real(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Flag(values) => {
                writer.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        if let Some(levels) = &mut self.definition_levels {
            levels.clear();
        }
        Ok(())
    }
}
