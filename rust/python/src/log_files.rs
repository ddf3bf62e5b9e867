//! Segments seen from outside: for `log dump`, `log verify` and `log adopt`.

use std::path::PathBuf;

use kafkalite_broker::process::inspect::{
    self, Codec, FoundBatch, FoundRecord, IndexEntries, SegmentEntry,
};
use kafkalite_broker::process::{self, Failure, LogError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::refused;

/// A record as it lies in its batch.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct LogRecord {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    headers: Vec<(String, Option<Py<PyBytes>>)>,
}

impl LogRecord {
    fn new(py: Python<'_>, record: FoundRecord) -> Self {
        let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes).unbind();
        let headers = record.headers.into_iter();
        let text = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
        Self {
            offset: record.offset.0,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(bytes),
            value: record.value.map(bytes),
            headers: headers.map(|(name, value)| (text(name), value.map(bytes))).collect(),
        }
    }
}

/// A batch as it lies on the disk.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct LogBatch {
    position: u64,
    size: usize,
    base_offset: i64,
    last_offset: i64,
    record_count: i32,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    codec: &'static str,
    is_transactional: bool,
    is_control: bool,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    crc: u32,
    /// What is wrong with its checksum or its records.
    flaw: Option<String>,
    records: Vec<Py<LogRecord>>,
}

impl LogBatch {
    fn new(py: Python<'_>, batch: FoundBatch) -> PyResult<Self> {
        let header = batch.header;
        let records = batch.records.into_iter();
        let records = records.map(|record| Py::new(py, LogRecord::new(py, record)));
        Ok(Self {
            position: batch.position,
            size: header.size(),
            base_offset: header.base_offset.0,
            last_offset: header.last_offset().0,
            record_count: header.record_count,
            leader_epoch: header.leader_epoch.0,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            codec: match header.codec() {
                Ok(Codec::None) => "none",
                Ok(codec) => codec.name(),
                Err(_) => "unknown",
            },
            is_transactional: header.is_transactional(),
            is_control: header.is_control(),
            base_timestamp_ms: header.base_timestamp,
            max_timestamp_ms: header.max_timestamp,
            crc: header.crc,
            flaw: batch.flaw,
            records: records.collect::<PyResult<_>>()?,
        })
    }
}

/// What was found in a segment.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct SegmentCheck {
    batches: u64,
    records: u64,
    bytes: u64,
    unused_bytes: u64,
    next_offset: i64,
    index_entries: u64,
    problems: Vec<String>,
}

/// Path, base offset and bytes of the segments in a partition's directory, or of one `.log` file.
#[pyfunction]
fn log_segments(py: Python<'_>, path: PathBuf) -> PyResult<Vec<(PathBuf, i64, u64)>> {
    let found = py.detach(|| inspect::segments(&path)).map_err(|error| unreadable(py, &error))?;
    Ok(found.into_iter().map(|entry| (entry.path, entry.base_offset.0, entry.bytes)).collect())
}

/// Batches from `position` on that make `most_bytes`, at least one, and where to go on.
#[pyfunction]
fn log_batches(
    py: Python<'_>,
    path: PathBuf,
    position: u64,
    most_bytes: u64,
    with_records: bool,
) -> PyResult<(Vec<LogBatch>, Option<u64>)> {
    let read = py.detach(|| inspect::read_batches(&path, position, most_bytes, with_records));
    let chunk = read.map_err(|error| unreadable(py, &error))?;
    let batches = chunk.batches.into_iter().map(|batch| LogBatch::new(py, batch));
    Ok((batches.collect::<PyResult<_>>()?, chunk.next))
}

/// Checks one segment with its indexes; `newest` tells that no segment follows it. `progress` is
/// called with the bytes that were read since; Ctrl-C ends it.
#[pyfunction]
fn log_check(
    py: Python<'_>,
    path: PathBuf,
    newest: bool,
    progress: Py<PyAny>,
) -> PyResult<SegmentCheck> {
    let mut interrupted = None;
    let mut tell = |bytes: u64| {
        Python::attach(|py| {
            let told = py.check_signals().and_then(|()| progress.call1(py, (bytes,)));
            told.map_err(|error| interrupted = Some(error)).is_ok()
        })
    };
    let checked = py.detach(|| {
        let mut found = inspect::segments(&path)?;
        let segment: SegmentEntry = found.remove(0);
        inspect::check_segment(&segment, newest, &mut tell)
    });
    let found = checked.map_err(|error| unreadable(py, &error))?;
    if let Some(error) = interrupted {
        return Err(error);
    }
    Ok(SegmentCheck {
        batches: found.batches,
        records: found.records,
        bytes: found.bytes,
        unused_bytes: found.unused_bytes,
        next_offset: found.next_offset.0,
        index_entries: found.index_entries,
        problems: found.problems,
    })
}

/// Up to `most` entries of an index after the `first`: (offset, position) of an `.index`, (ms,
/// offset) of a `.timeindex`.
#[pyfunction]
fn log_index(py: Python<'_>, path: PathBuf, first: u64, most: usize) -> PyResult<Vec<(i64, i64)>> {
    let read = py.detach(|| inspect::index_entries(&path, first, most));
    Ok(match read.map_err(|error| unreadable(py, &error))? {
        IndexEntries::Offsets(entries) => {
            entries.into_iter().map(|(offset, position)| (offset.0, position.0.into())).collect()
        }
        IndexEntries::Times(entries) => {
            entries.into_iter().map(|(time_ms, offset)| (time_ms, offset.0)).collect()
        }
    })
}

/// What is wrong with the leader epochs of the partition in `path`, if anything is.
#[pyfunction]
fn log_check_epochs(py: Python<'_>, path: PathBuf) -> Option<String> {
    py.detach(|| inspect::check_epochs(&path))
}

/// Takes over the partition in `source`: records, batches, first offset and end offset.
#[pyfunction]
fn log_adopt(
    py: Python<'_>,
    source: PathBuf,
    topic: &str,
    partition: i32,
    data_dir: PathBuf,
) -> PyResult<(u64, u64, i64, i64)> {
    let adopted = py.detach(|| process::adopt(&source, topic, partition, &data_dir));
    let done = adopted.map_err(|failure| refused(py, &failure))?;
    Ok((done.records, done.batches, done.log_start_offset.0, done.log_end_offset.0))
}

fn unreadable(py: Python<'_>, error: &LogError) -> PyErr {
    let hint = "give a partition's directory, as DATA_DIR/TOPIC-N, or one of its .log, .index or \
                .timeindex files.";
    refused(py, &Failure::refused("cannot read the log".to_owned(), error.to_string(), hint))
}

/// Adds them to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogRecord>()?;
    module.add_class::<LogBatch>()?;
    module.add_class::<SegmentCheck>()?;
    module.add_function(wrap_pyfunction!(log_segments, module)?)?;
    module.add_function(wrap_pyfunction!(log_batches, module)?)?;
    module.add_function(wrap_pyfunction!(log_check, module)?)?;
    module.add_function(wrap_pyfunction!(log_index, module)?)?;
    module.add_function(wrap_pyfunction!(log_check_epochs, module)?)?;
    module.add_function(wrap_pyfunction!(log_adopt, module)?)
}
