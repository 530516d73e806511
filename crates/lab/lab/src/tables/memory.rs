//! Rows in memory, column by column, for programs that use the lab as a library.

use super::{LabelSet, TABLES, TableInfo, Value};
use crate::tables::ColumnKind;
use std::collections::BTreeMap;

/// The rows of one table of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumns {
    /// The table.
    pub info: &'static TableInfo,
    /// The number of rows.
    pub rows: usize,
    /// The columns, in the order of `info.columns`.
    pub columns: Vec<Column>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The values. A missing value is zero, `false` or the first name.
    pub values: ColumnValues,
    /// For an optional column, one bit per row, starting at the least significant bit of the first byte. The bit of a
    /// missing value is zero. `None` if no value is missing.
    pub validity: Option<Vec<u8>>,
}

/// The values of a column, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues {
    /// Integers.
    Integer(Vec<i64>),
    /// Floats.
    Real(Vec<f64>),
    /// One bit per row, starting at the least significant bit of the first byte.
    Flag(Vec<u8>),
    /// An index into a list of distinct names per row.
    Text {
        /// The index of each row.
        codes: Vec<u32>,
        /// The names.
        names: Vec<String>,
    },
}

impl ColumnValues {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Integer => Self::Integer(Vec::new()),
            ColumnKind::Real => Self::Real(Vec::new()),
            ColumnKind::Flag => Self::Flag(Vec::new()),
            ColumnKind::Text => Self::Text { codes: Vec::new(), names: Vec::new() },
        }
    }
}

/// Returns the code of a name, and adds the name if it is new. A column has few names.
fn code_of(names: &mut Vec<String>, text: &str) -> u32 {
    let index = names.iter().position(|name| name == text).unwrap_or_else(|| {
        names.push(text.to_owned());
        names.len() - 1
    });
    u32::try_from(index).expect("a column has less than 2^32 names")
}

/// Appends a bit to a list of bits.
fn push_bit(bits: &mut Vec<u8>, row: usize, bit: bool) {
    if row.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(bit) << (row % 8);
    }
}

impl Column {
    fn push(&mut self, row: usize, value: Value<'_>) {
        let is_missing = value == Value::Missing;
        if is_missing && self.validity.is_none() {
            let mut bits = Vec::new();
            (0..row).for_each(|earlier| push_bit(&mut bits, earlier, true));
            self.validity = Some(bits);
        }
        if let Some(bits) = &mut self.validity {
            push_bit(bits, row, !is_missing);
        }
        match (&mut self.values, value) {
            (ColumnValues::Integer(values), Value::Integer(value)) => values.push(value),
            (ColumnValues::Integer(values), _) => values.push(0),
            (ColumnValues::Real(values), Value::Real(value)) => values.push(value),
            (ColumnValues::Real(values), _) => values.push(0.0),
            (ColumnValues::Flag(bits), value) => push_bit(bits, row, value == Value::Flag(true)),
            (ColumnValues::Text { codes, names }, Value::Text(text)) => codes.push(code_of(names, text)),
            (ColumnValues::Text { codes, names }, _) => {
                // The code of a missing value must be valid, too.
                if names.is_empty() {
                    names.push(String::new());
                }
                codes.push(0);
            }
        }
    }
}

/// A growing table.
pub(super) struct MemoryTable {
    table: TableColumns,
    /// The codes of the text columns of a set of labels, by its number, so that names are compared once.
    label_codes: BTreeMap<usize, Vec<Option<u32>>>,
}

impl MemoryTable {
    pub(super) fn new(index: usize) -> Self {
        let info = &TABLES[index];
        let column = |kind| Column { values: ColumnValues::new(kind), validity: None };
        let columns = info.columns.iter().map(|info| column(info.kind)).collect();
        Self { table: TableColumns { info, rows: 0, columns }, label_codes: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, labels: &LabelSet<'_>, values: &[Value<'_>]) {
        let row = self.table.rows;
        self.table.rows += 1;
        let (label_columns, value_columns) = self.table.columns.split_at_mut(labels.values.len());
        if let Some(known) = self.label_codes.get(&labels.id) {
            for ((column, value), code) in label_columns.iter_mut().zip(labels.values).zip(known) {
                match (&mut column.values, code) {
                    (ColumnValues::Text { codes, .. }, Some(code)) if column.validity.is_none() => {
                        codes.push(*code);
                    }
                    _ => column.push(row, *value),
                }
            }
        } else {
            let mut new_codes = Vec::with_capacity(label_columns.len());
            for (column, value) in label_columns.iter_mut().zip(labels.values) {
                column.push(row, *value);
                new_codes.push(match (&column.values, value) {
                    (ColumnValues::Text { codes, .. }, Value::Text(_)) => codes.last().copied(),
                    _ => None,
                });
            }
            self.label_codes.insert(labels.id, new_codes);
        }
        for (column, value) in value_columns.iter_mut().zip(values) {
            column.push(row, *value);
        }
    }

    pub(super) fn finish(self) -> TableColumns {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::info::Table;

    #[test]
    fn missing_values_have_a_cleared_bit() {
        let mut table = MemoryTable::new(Table::Queues as usize);
        for (id, name) in
            [(0, Value::Text("a")), (1, Value::Text("b")), (2, Value::Missing), (1, Value::Text("b"))]
        {
            let labels = [Value::Text("law x"), Value::Integer(7), name];
            let values = [1, 2, 3, 4, 5, 6].map(Value::Integer);
            table.push(&LabelSet { id, values: &labels }, &values);
        }
        let table = table.finish();
        assert_eq!(table.rows, 4);
        assert_eq!(
            table.columns[2],
            Column {
                values: ColumnValues::Text { codes: vec![0, 1, 0, 1], names: vec!["a".into(), "b".into()] },
                validity: Some(vec![0b1011]),
            }
        );
        assert_eq!(table.columns[1].values, ColumnValues::Integer(vec![7; 4]));
        assert_eq!(table.columns[1].validity, None);
    }

    #[test]
    fn flags_are_packed_into_bits() {
        let mut bits = Vec::new();
        for row in 0..10 {
            push_bit(&mut bits, row, row % 3 == 0);
        }
        assert_eq!(bits, [0b0100_1001, 0b10]);
    }
}
