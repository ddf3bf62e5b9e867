//! From slices of records to the columns that Spark's Kafka source has, those that are asked for.
//!
//! | column | type |
//! |---|---|
//! | key, value | binary |
//! | topic | utf8, plain: Spark takes no dictionaries |
//! | partition | int32 |
//! | offset | int64 |
//! | timestamp | timestamp[us, UTC]; 1 ms before 1970 for a record without one, as in Spark |
//! | timestampType | int32: 0 set by the producer, 1 by the broker |
//! | headers | list of struct { key: utf8, value: binary }; null without any |
//!
//! All may be null as far as their types say: Spark compares that too.

use arrow_array::builder::StringBuilder;
use arrow_array::{Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use kafkalite_client::consumer::record_block::{RecordSlice, RecordView, TimestampType};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::client::columns::{Column, Part, bytes_builder, column, headers, part, table_of};

/// A column that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Headers,
}

/// Every column with its name.
const NAMES: [(&str, Field); 8] = [
    ("key", Field::Key),
    ("value", Field::Value),
    ("topic", Field::Topic),
    ("partition", Field::Partition),
    ("offset", Field::Offset),
    ("timestamp", Field::Timestamp),
    ("timestampType", Field::TimestampType),
    ("headers", Field::Headers),
];

impl Field {
    /// The column of this name.
    pub fn named(name: &str) -> PyResult<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().map(|(known, _)| *known).collect();
            PyValueError::new_err(format!("no column `{name}`: there are {}", known.join(", ")))
        })
    }
}

/// The columns `fields` of all records in `slices`.
///
/// # Errors
/// If a column's bytes pass what its type can count.
pub fn table(slices: &[RecordSlice], fields: &[Field]) -> PyResult<RecordBatch> {
    let rows = slices.iter().map(RecordSlice::len).sum();
    let columns = fields.iter().map(|field| column_of(slices, rows, *field));
    Ok(table_of(rows, columns.collect::<PyResult<_>>()?))
}

fn column_of(slices: &[RecordSlice], rows: usize, field: Field) -> PyResult<Column> {
    Ok(match field {
        Field::Key => part(slices, rows, Part::Key)?,
        Field::Value => part(slices, rows, Part::Value)?,
        Field::Topic => topics(slices, rows)?,
        Field::Partition => {
            let number = |slice: &RecordSlice| slice.block.cursor().partition().partition;
            column("partition", true, Int32Array::from(by_slice(slices, rows, number)))
        }
        Field::Offset => {
            let offsets = by_record(slices, rows, |view| view.offset());
            column("offset", true, Int64Array::from(offsets))
        }
        Field::Timestamp => {
            let micros = |view: RecordView<'_>| view.timestamp_ms().saturating_mul(1_000);
            let times = TimestampMicrosecondArray::from(by_record(slices, rows, micros));
            column("timestamp", true, times.with_timezone("UTC"))
        }
        Field::TimestampType => {
            let kind = |view: RecordView<'_>| match view.timestamp_type() {
                TimestampType::CreateTime => 0,
                TimestampType::LogAppendTime => 1,
            };
            column("timestampType", true, Int32Array::from(by_record(slices, rows, kind)))
        }
        Field::Headers => headers(slices, rows, "element", true)?,
    })
}

fn by_record<T>(slices: &[RecordSlice], rows: usize, of: impl Fn(RecordView<'_>) -> T) -> Vec<T> {
    let mut all = Vec::with_capacity(rows);
    for slice in slices {
        all.extend(slice.iter().map(&of));
    }
    all
}

fn by_slice<T: Clone>(
    slices: &[RecordSlice],
    rows: usize,
    of: impl Fn(&RecordSlice) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(rows);
    for slice in slices {
        all.resize(all.len() + slice.len(), of(slice));
    }
    all
}

fn topics(slices: &[RecordSlice], rows: usize) -> PyResult<Column> {
    let name = |slice: &RecordSlice| slice.block.cursor().partition().topic.clone();
    let total = slices.iter().map(|slice| name(slice).len() * slice.len()).sum();
    let mut names: StringBuilder = bytes_builder(rows, total)?;
    for slice in slices {
        names.append_value_n(name(slice), slice.len());
    }
    Ok(column("topic", true, names.finish()))
}
