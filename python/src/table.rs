//! Tables of rows, which other libraries read through Arrow's C interface without copies.

use crate::error::failure;
use arrow_array::builder::{Float64Builder, StringDictionaryBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    RecordBatchIterator, StringArray, UInt32Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Metadata, Schema, SchemaRef};
use poseidon_lab::store::FinishedRun;
use poseidon_lab::tables::{Column, ColumnKind, ColumnValues, TableColumns, TableInfo};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows in columns, one batch per run.
#[pyclass(frozen, module = "poseidon_cc")]
#[derive(Clone, Debug)]
pub(crate) struct Table {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Integer => DataType::Int64,
        ColumnKind::Real => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
        ColumnKind::Text => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
    }
}

fn schema_of(info: &TableInfo) -> SchemaRef {
    let field = |column: &poseidon_lab::tables::ColumnInfo| {
        let metadata: Metadata = [("description", column.description)].into();
        Field::new(column.name, data_type(column.kind), column.is_optional).with_metadata(metadata)
    };
    Arc::new(Schema::new(info.columns.iter().map(field).collect::<Vec<_>>()))
}

/// Moves a column into an Arrow array. The values are not copied.
fn array_of(column: Column, rows: usize) -> ArrayRef {
    let nulls =
        column.validity.map(|bits| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows)));
    match column.values {
        ColumnValues::Integer(values) => Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls)),
        ColumnValues::Real(values) => Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls)),
        ColumnValues::Flag(bits) => {
            Arc::new(BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows), nulls))
        }
        ColumnValues::Text { codes, names } => {
            let codes = UInt32Array::new(ScalarBuffer::from(codes), nulls);
            Arc::new(DictionaryArray::<UInt32Type>::new(codes, Arc::new(StringArray::from(names))))
        }
    }
}

impl Table {
    /// Returns an empty table.
    pub(crate) fn empty(info: &TableInfo) -> Self {
        Self { name: info.name.to_owned(), schema: schema_of(info), batches: Vec::new() }
    }

    /// Returns the table of several runs.
    pub(crate) fn new(info: &TableInfo, batches: Vec<RecordBatch>) -> Self {
        Self { batches, ..Self::empty(info) }
    }

    /// Moves the rows of one run into a batch.
    pub(crate) fn batch(table: TableColumns) -> PyResult<RecordBatch> {
        let rows = table.rows;
        let columns = table.columns.into_iter().map(|column| array_of(column, rows)).collect();
        RecordBatch::try_new(schema_of(table.info), columns).map_err(failure)
    }

    /// Returns the metrics of runs: one row per cell, seed, phase and metric.
    pub(crate) fn metrics(runs: &[&FinishedRun]) -> PyResult<Self> {
        let mut cells = StringDictionaryBuilder::<UInt32Type>::new();
        let mut phases = StringDictionaryBuilder::<UInt32Type>::new();
        let mut metrics = StringDictionaryBuilder::<UInt32Type>::new();
        let (mut seeds, mut values) = (UInt64Builder::new(), Float64Builder::new());
        // The labels of the sweeps, as text.
        let mut labels: BTreeMap<&str, StringDictionaryBuilder<UInt32Type>> = BTreeMap::new();
        for label in runs.iter().flat_map(|run| run.run.labels.iter()) {
            labels.entry(&label.sweep).or_default();
        }
        for run in runs {
            let cell = poseidon_lab::judge::cell_name(&run.run.labels);
            for phase in &run.run.summary.phases {
                let known = phase.values.iter().map(|(name, value)| (name, Some(*value)));
                let missing = phase.missing.keys().map(|name| (name, None));
                for (name, value) in known.chain(missing) {
                    cells.append_value(&cell);
                    seeds.append_value(run.run.seed);
                    phases.append_value(&phase.name);
                    metrics.append_value(name);
                    values.append_option(value);
                    for (sweep, builder) in &mut labels {
                        let label = run.run.labels.iter().find(|label| label.sweep == *sweep);
                        builder.append_option(label.map(|label| label.value.as_str()));
                    }
                }
            }
        }
        let names: Vec<String> = labels.keys().map(|sweep| (*sweep).to_owned()).collect();
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("cell".into(), Arc::new(cells.finish())),
            ("seed".into(), Arc::new(seeds.finish())),
            ("phase".into(), Arc::new(phases.finish())),
            ("metric".into(), Arc::new(metrics.finish())),
            ("value".into(), Arc::new(values.finish())),
        ];
        for (name, mut builder) in names.into_iter().zip(labels.into_values()) {
            // A sweep may have the name of another column.
            let is_taken = columns.iter().any(|(other, _)| *other == name);
            columns.push((if is_taken { format!("sweep {name}") } else { name }, Arc::new(builder.finish())));
        }
        let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(failure)?;
        Ok(Self { name: "metrics".to_owned(), schema, batches: vec![batch] })
    }

    fn column_index(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let known: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("there is no column {name:?}; there are {}", known.join(", ")))
        })
    }
}

/// Appends the values of an array to a list.
fn append_values(array: &ArrayRef, list: &Bound<'_, PyList>) -> PyResult<()> {
    let any = array.as_any();
    for row in 0..array.len() {
        if array.is_null(row) {
            list.append(list.py().None())?;
        } else if let Some(array) = any.downcast_ref::<Int64Array>() {
            list.append(array.value(row))?;
        } else if let Some(array) = any.downcast_ref::<arrow_array::UInt64Array>() {
            list.append(array.value(row))?;
        } else if let Some(array) = any.downcast_ref::<Float64Array>() {
            list.append(array.value(row))?;
        } else if let Some(array) = any.downcast_ref::<BooleanArray>() {
            list.append(array.value(row))?;
        } else if let Some(array) = any.downcast_ref::<DictionaryArray<UInt32Type>>() {
            let code = array.keys().value(row) as usize;
            let names = array.values().as_any().downcast_ref::<StringArray>();
            list.append(names.map(|names| names.value(code)))?;
        }
    }
    Ok(())
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The memory of the table in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Returns the values of a column as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let index = self.column_index(name)?;
        let list = PyList::empty(py);
        self.batches.iter().try_for_each(|batch| append_values(batch.column(index), &list))?;
        Ok(list)
    }

    /// Returns the columns as a dictionary of lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.columns() {
            dict.set_item(name, self.__getitem__(py, name)?)?;
        }
        Ok(dict)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(failure)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Exports the rows. A consumer may ask for another schema; this producer always uses its own, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<Table {:?}: {} rows, columns {}>", self.name, self.__len__(), self.columns().join(", "))
    }
}
