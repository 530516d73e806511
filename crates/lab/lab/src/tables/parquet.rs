//! Rows in columns: Parquet with Snappy, without arrow.
//!
//! Rows wait in memory until they fill a row group; what a group costs after it is written is its line in the footer. The footer comes
//! last, so a file that is not closed cannot be read.

use super::{Cause, Kind, RowFile, TableInfo, Unit, Value};
use ::parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::sync::Arc;

/// Rows of a row group: a few MB of the widest table.
const GROUP: usize = 65_536;

/// A file of rows in columns.
pub(super) struct Parquet {
    to: SerializedFileWriter<File>,
    columns: Vec<Column>,
    /// Rows that wait to be written.
    waiting: usize,
}

impl Parquet {
    /// Begins a table. What its columns say goes into the file too.
    pub(super) fn new(file: File, info: &TableInfo) -> Result<Self, Cause> {
        let to = SerializedFileWriter::new(file, Arc::new(schema(info)?), Arc::new(properties(info)))?;
        let columns = info.columns.iter().map(|column| Column::new(column.kind, column.may_miss)).collect();
        Ok(Self { to, columns, waiting: 0 })
    }

    /// Writes the rows that wait as a group.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.to.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut to) = group.next_column()? else { break };
            column.write(&mut to)?;
            to.close()?;
        }
        group.close()?;
        self.waiting = 0;
        Ok(())
    }
}

impl RowFile for Parquet {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Cause> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.waiting += 1;
        if self.waiting == GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Cause> {
        if self.waiting > 0 {
            self.write_group()?;
        }
        self.to.finish()?;
        Ok(())
    }
}

/// A table's columns as Parquet has them.
fn schema(info: &TableInfo) -> Result<Type, ParquetError> {
    let mut fields = Vec::with_capacity(info.columns.len());
    for column in info.columns {
        let (physical, logical) = match column.kind {
            Kind::Integer => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.may_miss { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        fields.push(Arc::new(field.with_logical_type(logical).with_repetition(repetition).build()?));
    }
    Type::group_type_builder(info.name).with_fields(fields).build()
}

/// How a table is written.
fn properties(info: &TableInfo) -> WriterProperties {
    let says = info.columns.iter().map(|column| KeyValue::new(column.name.into(), column.says.to_string()));
    // Statistics per group are enough to skip groups; those per page would stay in memory until the end.
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(says.collect()));
    // Times hardly repeat, and rows come in order of time: differences are small where a dictionary would be as long as the column.
    for column in info.columns.iter().filter(|column| column.unit == Unit::Picoseconds) {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(column.name), false)
            .set_column_encoding(ColumnPath::from(column.name), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// The values of a column that wait to be written.
struct Column {
    values: Values,
    /// Per row, of a column where values may miss: one if there is a value, zero if there is none.
    present: Option<Vec<i16>>,
}

/// Values that are there.
enum Values {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Column {
    fn new(kind: Kind, may_miss: bool) -> Self {
        let values = match kind {
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Flag => Values::Flag(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        };
        Self { values, present: may_miss.then(Vec::new) }
    }

    fn push(&mut self, value: Value<'_>) {
        if let Some(present) = &mut self.present {
            present.push(i16::from(value != Value::Missing));
        }
        match (&mut self.values, value) {
            (Values::Integer(values), Value::Integer(value)) => values.push(value),
            (Values::Real(values), Value::Real(value)) => values.push(value),
            (Values::Flag(values), Value::Flag(value)) => values.push(value),
            (Values::Text(values), Value::Text(value)) => {
                // Names repeat: rows in a row share one.
                let last = values.last().filter(|last| last.data() == value.as_bytes());
                let shared = last.cloned().unwrap_or_else(|| value.into());
                values.push(shared);
            }
            (_, Value::Missing) if self.present.is_some() => {}
            (_, value) => unreachable!("{value:?} is not of the column's kind"),
        }
    }

    /// Writes the values and forgets them.
    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &mut self.values {
            Values::Integer(values) => {
                to.typed::<Int64Type>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Real(values) => {
                to.typed::<DoubleType>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Flag(values) => {
                to.typed::<BoolType>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Text(values) => {
                to.typed::<ByteArrayType>().write_batch(values, present, None)?;
                values.clear();
            }
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
        Ok(())
    }
}
