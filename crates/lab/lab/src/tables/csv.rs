//! Writes rows as CSV: a header and one line per row. A missing value is an empty field. Floats are written with enough
//! digits to be read back exactly.

use super::{Cause, LabelSet, RowFile, TableInfo, Value};
use ::csv::Writer;
use core::fmt::Write;
use std::fs::File;

/// A CSV file of rows.
pub(super) struct Csv {
    writer: Writer<File>,
    /// A buffer for one field, reused to avoid allocations.
    field: String,
}

impl Csv {
    /// Creates a table and writes its header.
    pub(super) fn new(file: File, info: &TableInfo) -> Result<Self, Cause> {
        let mut writer = Writer::from_writer(file);
        writer.write_record(info.columns.iter().map(|column| column.name))?;
        Ok(Self { writer, field: String::new() })
    }
}

impl RowFile for Csv {
    fn write_row(&mut self, labels: &LabelSet<'_>, values: &[Value<'_>]) -> Result<(), Cause> {
        for value in labels.values.iter().chain(values) {
            self.field.clear();
            match value {
                Value::Integer(integer) => write!(self.field, "{integer}")?,
                Value::Real(real) => write!(self.field, "{real}")?,
                Value::Flag(flag) => write!(self.field, "{flag}")?,
                Value::Text(text) => self.field.push_str(text),
                Value::Missing => {}
            }
            self.writer.write_field(&self.field)?;
        }
        // The fields are already written; an empty record ends the line.
        self.writer.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Cause> {
        Ok(self.writer.flush()?)
    }
}
