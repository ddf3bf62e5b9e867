//! From slices of records to Arrow's columns.
//!
//! | column | type |
//! |---|---|
//! | topic | dictionary of int32 and utf8 |
//! | partition | int32 |
//! | offset | int64 |
//! | timestamp | timestamp[ms, UTC], null where a record has none |
//! | key, value | binary, may be null |
//! | headers | list of struct { key: utf8, value: binary } |

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, GenericByteBuilder, StringBuilder};
use arrow_array::types::ByteArrayType;
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{Field, FieldRef, Schema};
use kafkalite_client::consumer::record_block::RecordSlice;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// A column with its name and type.
pub(super) type Column = (FieldRef, ArrayRef);

/// A column; its type says whether it may have nulls.
pub(super) fn column(name: &str, nullable: bool, values: impl Array + 'static) -> Column {
    (Arc::new(Field::new(name, values.data_type().clone(), nullable)), Arc::new(values))
}

/// A table of columns that have `rows` rows.
pub(super) fn table_of(rows: usize, columns: Vec<Column>) -> RecordBatch {
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("each column was made of all rows")
}

/// A column of bytes or texts in the making, with room for `rows` values of `total` bytes.
pub(super) fn bytes_builder<T: ByteArrayType>(
    rows: usize,
    total: usize,
) -> PyResult<GenericByteBuilder<T>> {
    if i32::try_from(total).is_err() {
        let why = "an Arrow column of bytes ends at 2 GiB: take smaller batches";
        return Err(PyOverflowError::new_err(why));
    }
    Ok(GenericByteBuilder::with_capacity(rows, total))
}

/// All columns of the records in `slices`.
///
/// # Errors
/// If a column's bytes pass what its type can count.
pub fn table(slices: &[RecordSlice]) -> PyResult<RecordBatch> {
    let rows = slices.iter().map(RecordSlice::len).sum();
    let columns = vec![
        topics(slices, rows)?,
        partitions(slices, rows),
        numbers(slices, rows),
        timestamps(slices, rows),
        part(slices, rows, Part::Key)?,
        part(slices, rows, Part::Value)?,
        headers(slices, rows, "item", false)?,
    ];
    Ok(table_of(rows, columns))
}

fn topics(slices: &[RecordSlice], rows: usize) -> PyResult<Column> {
    let mut places: HashMap<&str, i32> = HashMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut indices = Vec::with_capacity(rows);
    for slice in slices {
        let topic = &*slice.block.cursor().partition().topic;
        let place = *places.entry(topic).or_insert_with(|| {
            names.push(topic);
            names.len() as i32 - 1
        });
        indices.resize(indices.len() + slice.len(), place);
    }
    let words = Arc::new(StringArray::from(names));
    let topics = DictionaryArray::new(Int32Array::from(indices), words);
    Ok(column("topic", false, topics))
}

fn partitions(slices: &[RecordSlice], rows: usize) -> Column {
    let mut numbers = Vec::with_capacity(rows);
    for slice in slices {
        let number = slice.block.cursor().partition().partition;
        numbers.resize(numbers.len() + slice.len(), number);
    }
    column("partition", false, Int32Array::from(numbers))
}

fn numbers(slices: &[RecordSlice], rows: usize) -> Column {
    let mut offsets = Vec::with_capacity(rows);
    for slice in slices {
        slice.visit(|view| offsets.push(view.offset()));
    }
    column("offset", false, Int64Array::from(offsets))
}

fn timestamps(slices: &[RecordSlice], rows: usize) -> Column {
    let mut times = Vec::with_capacity(rows);
    let mut validity = NullBufferBuilder::new(rows);
    for slice in slices {
        slice.visit(|view| {
            times.push(view.timestamp_ms());
            validity.append(view.timestamp_ms() != -1);
        });
    }
    let times = TimestampMillisecondArray::new(times.into(), validity.finish());
    column("timestamp", true, times.with_timezone("UTC"))
}

/// The half of a record that becomes a column.
#[derive(Clone, Copy)]
pub enum Part {
    Key,
    Value,
}

/// Keys or values: how many bytes there are is known before the first is copied.
pub fn part(slices: &[RecordSlice], rows: usize, part: Part) -> PyResult<Column> {
    let (mut total, mut valid) = (0, 0);
    for totals in slices.iter().map(RecordSlice::totals) {
        let (bytes, count) = match part {
            Part::Key => (totals.key_bytes, totals.keys),
            Part::Value => (totals.value_bytes, totals.values),
        };
        total += bytes;
        valid += count;
    }
    let name = match part {
        Part::Key => "key",
        Part::Value => "value",
    };
    if valid == 0 {
        // Records without keys are common, and nulls take no looking at.
        return Ok(column(name, true, BinaryArray::new_null(rows)));
    }
    let mut values: BinaryBuilder = bytes_builder(rows, total)?;
    for slice in slices {
        match part {
            Part::Key => slice.visit(|view| values.append_option(view.key())),
            Part::Value => slice.visit(|view| values.append_option(view.value())),
        }
    }
    Ok(column(name, true, values.finish()))
}

/// Lists of pairs. Where all of it is `nullable`, a record without headers has a null.
pub(super) fn headers(
    slices: &[RecordSlice],
    rows: usize,
    item: &str,
    nullable: bool,
) -> PyResult<Column> {
    let count = slices.iter().map(|slice| slice.totals().headers).sum();
    let (mut key_bytes, mut value_bytes) = (0, 0);
    let mut ends = vec![0; if count == 0 { rows + 1 } else { 1 }];
    let with_headers = slices.iter().filter(|_| count > 0);
    for slice in with_headers.clone() {
        slice.visit(|view| {
            for (key, value) in view.headers() {
                // A name that is no UTF-8 grows when it is mended: three bytes for each at most.
                key_bytes += key.len() * 3;
                value_bytes += value.map_or(0, <[u8]>::len);
            }
            ends.push(ends[ends.len() - 1] + view.header_count() as i32);
        });
    }
    let mut keys: StringBuilder = bytes_builder(count, key_bytes)?;
    let mut values: BinaryBuilder = bytes_builder(count, value_bytes)?;
    for slice in with_headers {
        slice.visit(|view| {
            for (key, value) in view.headers() {
                keys.append_value(String::from_utf8_lossy(key));
                values.append_option(value);
            }
        });
    }
    let key = column("key", nullable, keys.finish());
    let pairs = StructArray::from(vec![key, column("value", true, values.finish())]);
    let nulls = nullable.then(|| ends.windows(2).map(|of_row| of_row[0] < of_row[1]).collect());
    let (item, pairs) = column(item, nullable, pairs);
    let lists = ListArray::new(item, OffsetBuffer::new(ends.into()), pairs, nulls);
    Ok(column("headers", nullable, lists))
}
