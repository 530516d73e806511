//! Rows as text: a header and a line per row. What is missing is an empty field; floats have as many digits as say them exactly.

use super::{Cause, RowFile, TableInfo, Value};
use ::csv::Writer;
use core::fmt::Write;
use std::fs::File;

/// A file of rows as text.
pub(super) struct Csv {
    to: Writer<File>,
    /// One field as text, kept so that no field allocates.
    field: String,
}

impl Csv {
    /// Begins a table with its header.
    pub(super) fn new(file: File, info: &TableInfo) -> Result<Self, Cause> {
        let mut to = Writer::from_writer(file);
        to.write_record(info.columns.iter().map(|column| column.name))?;
        Ok(Self { to, field: String::new() })
    }
}

impl RowFile for Csv {
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Cause> {
        for value in values {
            self.field.clear();
            match value {
                Value::Integer(integer) => write!(self.field, "{integer}")?,
                Value::Real(real) => write!(self.field, "{real}")?,
                Value::Flag(flag) => write!(self.field, "{flag}")?,
                Value::Text(text) => self.field.push_str(text),
                Value::Missing => {}
            }
            self.to.write_field(&self.field)?;
        }
        // Ends the record: the fields are written already.
        self.to.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Cause> {
        Ok(self.to.flush()?)
    }
}
