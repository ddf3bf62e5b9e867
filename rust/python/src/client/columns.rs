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

use kafkalite_arrow::export::{Column, Validity, Values};
use kafkalite_client::consumer::record_block::RecordSlice;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// A column of bytes in the making.
pub(super) struct BytesColumn {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    validity: Validity,
}

impl BytesColumn {
    /// Room for `rows` values of `total` bytes.
    pub(super) fn new(rows: usize, total: usize) -> PyResult<Self> {
        if i32::try_from(total).is_err() {
            let why = "an Arrow column of bytes ends at 2 GiB: take smaller batches";
            return Err(PyOverflowError::new_err(why));
        }
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let validity = Validity::with_capacity(rows);
        Ok(Self { offsets, bytes: Vec::with_capacity(total), validity })
    }

    /// A column of `rows` nulls.
    fn nulls(rows: usize) -> Self {
        let mut validity = Validity::with_capacity(rows);
        (0..rows).for_each(|_| validity.push(false));
        Self { offsets: vec![0; rows + 1], bytes: Vec::new(), validity }
    }

    #[inline]
    pub(super) fn push(&mut self, value: Option<&[u8]>) {
        self.push_bytes(value, false);
    }

    /// Adds a value; where all are known to be `valid`, their bits are set later, all at once.
    #[inline]
    fn push_bytes(&mut self, value: Option<&[u8]>, valid: bool) {
        if let Some(value) = value {
            self.bytes.extend_from_slice(value);
        }
        // `new` saw that all of them together fit.
        self.offsets.push(self.bytes.len() as i32);
        if !valid {
            self.validity.push(value.is_some());
        }
    }

    pub(super) fn column(self, name: &str) -> Column {
        let Self { offsets, bytes, validity } = self;
        Column::nullable(name, validity, Values::Binary { offsets, bytes })
    }

    /// Of a type that allows nulls, as Spark wants it.
    pub(super) fn nullable_text(self, name: &str) -> Column {
        let Self { offsets, bytes, validity } = self;
        Column::nullable(name, validity, Values::Utf8 { offsets, bytes })
    }

    fn text_column(self, name: &str) -> Column {
        let Self { offsets, bytes, validity: _ } = self;
        Column::new(name, offsets.len() - 1, Values::Utf8 { offsets, bytes })
    }
}

/// All columns of the records in `slices`, as one struct.
///
/// # Errors
/// If a column's bytes pass what its type can count.
pub fn table(slices: &[RecordSlice]) -> PyResult<Column> {
    let rows = slices.iter().map(RecordSlice::len).sum();
    let columns = vec![
        topics(slices, rows)?,
        partitions(slices, rows),
        numbers(slices, rows),
        timestamps(slices, rows),
        part(slices, rows, Part::Key)?,
        part(slices, rows, Part::Value)?,
        headers(slices, rows)?,
    ];
    Ok(Column::new("", rows, Values::Struct(columns)))
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
    let mut words = BytesColumn::new(names.len(), names.iter().map(|name| name.len()).sum())?;
    for name in names {
        words.push(Some(name.as_bytes()));
    }
    let words = Box::new(words.text_column(""));
    Ok(Column::new("topic", rows, Values::Dictionary { indices, words }))
}

fn partitions(slices: &[RecordSlice], rows: usize) -> Column {
    let mut numbers = Vec::with_capacity(rows);
    for slice in slices {
        let number = slice.block.cursor().partition().partition;
        numbers.resize(numbers.len() + slice.len(), number);
    }
    Column::new("partition", rows, Values::Int32(numbers))
}

fn numbers(slices: &[RecordSlice], rows: usize) -> Column {
    let mut offsets = Vec::with_capacity(rows);
    for slice in slices {
        slice.visit(|view| offsets.push(view.offset()));
    }
    Column::new("offset", rows, Values::Int64(offsets))
}

fn timestamps(slices: &[RecordSlice], rows: usize) -> Column {
    let mut times = Vec::with_capacity(rows);
    let mut validity = Validity::with_capacity(rows);
    for slice in slices {
        slice.visit(|view| {
            times.push(view.timestamp_ms());
            validity.push(view.timestamp_ms() != -1);
        });
    }
    Column::nullable("timestamp", validity, Values::TimestampMs(times))
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
    let mut column = BytesColumn::new(rows, total)?;
    let name = match part {
        Part::Key => "key",
        Part::Value => "value",
    };
    if valid == 0 {
        // Records without keys are common, and nulls take no looking at.
        return Ok(BytesColumn::nulls(rows).column(name));
    }
    let all_valid = valid == rows;
    for slice in slices {
        match part {
            Part::Key => slice.visit(|view| column.push_bytes(view.key(), all_valid)),
            Part::Value => slice.visit(|view| column.push_bytes(view.value(), all_valid)),
        }
    }
    if all_valid {
        column.validity = Validity::all(rows);
    }
    Ok(column.column(name))
}

fn headers(slices: &[RecordSlice], rows: usize) -> PyResult<Column> {
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
    let mut keys = BytesColumn::new(count, key_bytes)?;
    let mut values = BytesColumn::new(count, value_bytes)?;
    for slice in with_headers {
        slice.visit(|view| {
            for (key, value) in view.headers() {
                keys.push(Some(String::from_utf8_lossy(key).as_bytes()));
                values.push(value);
            }
        });
    }
    let item = Values::Struct(vec![keys.text_column("key"), values.column("value")]);
    let items = Box::new(Column::new("item", count, item));
    Ok(Column::new("headers", rows, Values::List { offsets: ends, items }))
}
