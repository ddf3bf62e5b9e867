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

use kafkalite_arrow::export::{Column, Validity, Values};
use kafkalite_client::consumer::record_block::TimestampType;
use kafkalite_client::consumer::record_block::{RecordSlice, RecordView};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::client::columns::{BytesColumn, Part, part};

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

/// The columns `fields` of all records in `slices`, as one struct.
///
/// # Errors
/// If a column's bytes pass what its type can count.
pub fn table(slices: &[RecordSlice], fields: &[Field]) -> PyResult<Column> {
    let rows = slices.iter().map(RecordSlice::len).sum();
    let columns = fields.iter().map(|field| column(slices, rows, *field));
    Ok(Column::new("", rows, Values::Struct(columns.collect::<PyResult<_>>()?)))
}

fn column(slices: &[RecordSlice], rows: usize, field: Field) -> PyResult<Column> {
    let all = |name, values| Ok(Column::nullable(name, Validity::all(rows), values));
    match field {
        Field::Key => part(slices, rows, Part::Key),
        Field::Value => part(slices, rows, Part::Value),
        Field::Topic => topics(slices, rows),
        Field::Partition => {
            let numbers =
                by_slice(slices, rows, |slice| slice.block.cursor().partition().partition);
            all("partition", Values::Int32(numbers))
        }
        Field::Offset => {
            all("offset", Values::Int64(by_record(slices, rows, |view| view.offset())))
        }
        Field::Timestamp => {
            let micros = |view: RecordView<'_>| view.timestamp_ms().saturating_mul(1_000);
            all("timestamp", Values::TimestampUs(by_record(slices, rows, micros)))
        }
        Field::TimestampType => {
            let kind = |view: RecordView<'_>| match view.timestamp_type() {
                TimestampType::CreateTime => 0,
                TimestampType::LogAppendTime => 1,
            };
            all("timestampType", Values::Int32(by_record(slices, rows, kind)))
        }
        Field::Headers => headers(slices, rows),
    }
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
    let mut column = BytesColumn::new(rows, total)?;
    for slice in slices {
        let name = name(slice);
        for _ in 0..slice.len() {
            column.push(Some(name.as_bytes()));
        }
    }
    Ok(column.nullable_text("topic"))
}

fn headers(slices: &[RecordSlice], rows: usize) -> PyResult<Column> {
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0);
    let mut validity = Validity::with_capacity(rows);
    let (mut count, mut key_bytes, mut value_bytes) = (0_usize, 0, 0);
    for view in slices.iter().flat_map(RecordSlice::iter) {
        for (key, value) in view.headers() {
            count += 1;
            // A name that is no UTF-8 grows when it is mended: three bytes for each at most.
            key_bytes += key.len() * 3;
            value_bytes += value.map_or(0, <[u8]>::len);
        }
        validity.push(view.header_count() > 0);
        ends.push(count as i32);
    }
    let mut keys = BytesColumn::new(count, key_bytes)?;
    let mut values = BytesColumn::new(count, value_bytes)?;
    for (key, value) in slices.iter().flat_map(RecordSlice::iter).flat_map(|view| view.headers()) {
        keys.push(Some(String::from_utf8_lossy(key).as_bytes()));
        values.push(value);
    }
    let item = Values::Struct(vec![keys.nullable_text("key"), values.column("value")]);
    let items = Box::new(Column::nullable("element", Validity::all(count), item));
    Ok(Column::nullable("headers", validity, Values::List { offsets: ends, items }))
}
