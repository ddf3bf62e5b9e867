//! `_native.Record`: one record that was read.
//!
//! Key, value and headers are Python's own objects, made when the record is: a record that is kept
//! keeps nothing else alive.

use std::sync::Arc;

use kafkalite_client::TopicPartition;
use kafkalite_client::consumer::cursor::{Cursor, NO_TENURE};
use kafkalite_client::consumer::record_block::{RecordSlice, RecordView, TimestampType};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

use super::in_python;
use crate::error::deserialization_error;

/// Name and value; the value may be null.
type Header = (Py<PyString>, Py<PyAny>);

/// A record of a topic.
#[pyclass(frozen, generic, module = "kafkalite.records", name = "Record")]
pub struct Record {
    #[pyo3(get)]
    topic: Py<PyString>,
    #[pyo3(get)]
    partition: i32,
    #[pyo3(get)]
    offset: i64,
    #[pyo3(get)]
    timestamp_ms: i64,
    log_append_time: bool,
    #[pyo3(get)]
    leader_epoch: i32,
    #[pyo3(get)]
    key: Py<PyAny>,
    #[pyo3(get)]
    value: Py<PyAny>,
    headers: Option<Py<PyTuple>>,
    /// The tenure in which it was read, see `Cursor::tenure`; it is not part of what it is.
    tenure: u64,
}

const CREATE_TIME: &str = "CreateTime";
const LOG_APPEND_TIME: &str = "LogAppendTime";

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (topic, partition, offset, *, value=None, key=None, headers=None,
        timestamp_ms=-1, timestamp_type="CreateTime", leader_epoch=-1))]
    #[allow(clippy::too_many_arguments, reason = "one for each field, by name")]
    fn new(
        py: Python<'_>,
        topic: Py<PyString>,
        partition: i32,
        offset: i64,
        value: Option<Py<PyAny>>,
        key: Option<Py<PyAny>>,
        headers: Option<Py<PyTuple>>,
        timestamp_ms: i64,
        timestamp_type: &str,
        leader_epoch: i32,
    ) -> Self {
        Self {
            topic,
            partition,
            offset,
            timestamp_ms,
            log_append_time: timestamp_type == LOG_APPEND_TIME,
            leader_epoch,
            key: key.unwrap_or_else(|| py.None()),
            value: value.unwrap_or_else(|| py.None()),
            headers: headers.filter(|headers| !headers.bind(py).is_empty()),
            tenure: NO_TENURE,
        }
    }

    /// What to commit after it: topic, number, offset, leader epoch, metadata and tenure.
    #[getter]
    fn _claim(&self, py: Python<'_>) -> (Py<PyString>, i32, i64, i32, &'static str, u64) {
        let topic = self.topic.clone_ref(py);
        (topic, self.partition, self.offset.saturating_add(1), self.leader_epoch, "", self.tenure)
    }

    /// Who set the timestamp: `CreateTime` is the producer, `LogAppendTime` the broker.
    #[getter]
    fn timestamp_type(&self) -> &'static str {
        if self.log_append_time { LOG_APPEND_TIME } else { CREATE_TIME }
    }

    /// Names and values, in order; names may repeat.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.headers.as_ref().map_or_else(|| PyTuple::empty(py), |all| all.bind(py).clone())
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "record")
    }

    /// A table for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "record_table")
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        let other = other.get();
        let same = self.partition == other.partition
            && self.offset == other.offset
            && self.timestamp_ms == other.timestamp_ms
            && self.log_append_time == other.log_append_time
            && self.leader_epoch == other.leader_epoch;
        Ok(same
            && self.topic.bind(py).as_any().eq(&other.topic)?
            && self.key.bind(py).eq(&other.key)?
            && self.value.bind(py).eq(&other.value)?
            && self.headers(py).eq(other.headers(py))?)
    }

    /// Where it stands in its cluster tells records apart.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.topic.bind(py), self.partition, self.offset).into_pyobject(py)?.hash()
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        let py = slf.py();
        let this = slf.get();
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("value", &this.value)?;
        keywords.set_item("key", &this.key)?;
        keywords.set_item("headers", this.headers(py))?;
        keywords.set_item("timestamp_ms", this.timestamp_ms)?;
        keywords.set_item("timestamp_type", this.timestamp_type())?;
        keywords.set_item("leader_epoch", this.leader_epoch)?;
        let class: Bound<'_, PyType> = slf.get_type();
        let partial =
            py.import("functools")?.getattr("partial")?.call((class,), Some(&keywords))?;
        let place = (&this.topic, this.partition, this.offset).into_pyobject(py)?;
        Ok((partial.unbind(), place.into_any().unbind()))
    }
}

/// What makes values out of bytes.
#[derive(Default)]
pub struct Deserializers {
    pub key: Option<Py<PyAny>>,
    pub value: Option<Py<PyAny>>,
}

impl Deserializers {
    /// Shows them to Python's collector, unless batches share them: it does not know of those.
    pub fn traverse(self: &Arc<Self>, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(self) > 1 {
            return Ok(());
        }
        visit.call(&self.key)?;
        visit.call(&self.value)
    }

    /// Makes records of all of `slices`, up to the first that cannot be made; why it cannot.
    pub fn records(
        &self,
        py: Python<'_>,
        slices: &[RecordSlice],
        names: &Mutex<TopicNames>,
    ) -> (Vec<Record>, Option<PyErr>) {
        let mut made = Vec::with_capacity(slices.iter().map(RecordSlice::len).sum());
        for slice in slices {
            let cursor = slice.block.cursor();
            // Not held while Python's own code may run: it may wait for us.
            let name = names.lock().of(py, cursor.partition());
            for view in slice.iter() {
                match self.record(py, &name, cursor, &view) {
                    Ok(record) => made.push(record),
                    Err(error) => return (made, Some(error)),
                }
            }
        }
        (made, None)
    }

    /// Makes a record of `view`, which was read at `cursor`. `topic` is its topic's name in Python.
    pub fn record(
        &self,
        py: Python<'_>,
        topic: &Py<PyString>,
        cursor: &Cursor,
        view: &RecordView<'_>,
    ) -> PyResult<Record> {
        let partition = cursor.partition().partition;
        let make = |bytes, with: &Option<Py<PyAny>>, what| {
            made(py, bytes, with.as_ref()).map_err(|cause| {
                deserialization_error(py, what, (topic, partition), view.offset(), cause)
            })
        };
        Ok(Record {
            topic: topic.clone_ref(py),
            partition,
            offset: view.offset(),
            timestamp_ms: view.timestamp_ms(),
            log_append_time: view.timestamp_type() == TimestampType::LogAppendTime,
            leader_epoch: view.leader_epoch(),
            key: make(view.key(), &self.key, "key")?,
            value: make(view.value(), &self.value, "value")?,
            headers: headers(py, view)?,
            tenure: cursor.tenure(),
        })
    }
}

fn made(py: Python<'_>, bytes: Option<&[u8]>, with: Option<&Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let Some(bytes) = bytes else { return Ok(py.None()) };
    let bytes = PyBytes::new(py, bytes);
    match with {
        Some(with) => with.call1(py, (bytes,)),
        None => Ok(bytes.into_any().unbind()),
    }
}

/// Headers as a tuple of pairs; `None` without any, which is the common case.
pub fn headers(py: Python<'_>, view: &RecordView<'_>) -> PyResult<Option<Py<PyTuple>>> {
    if view.header_count() == 0 {
        return Ok(None);
    }
    let pairs: PyResult<Vec<Header>> = view
        .headers()
        .map(|(name, value)| Ok((header_name(py, name)?, made(py, value, None)?)))
        .collect();
    Ok(Some(PyTuple::new(py, pairs?)?.unbind()))
}

/// Kafka's names are UTF-8, but brokers do not check that: other bytes come as Python escapes them.
fn header_name(py: Python<'_>, name: &[u8]) -> PyResult<Py<PyString>> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(PyString::new(py, name).unbind()),
        Err(_) => {
            let bytes = PyBytes::new(py, name);
            let text = bytes.call_method1("decode", ("utf-8", "surrogateescape"))?;
            Ok(text.cast_into::<PyString>()?.unbind())
        }
    }
}

/// The names of topics as Python's texts, so that each is made once.
#[derive(Default)]
pub struct TopicNames(std::collections::HashMap<std::sync::Arc<str>, Py<PyString>>);

/// Names are forgotten when there are so many: topics that come and go must not add up.
const MAX_NAMES: usize = 10_000;

impl TopicNames {
    /// The name of a partition's topic.
    pub fn of(&mut self, py: Python<'_>, partition: &TopicPartition) -> Py<PyString> {
        if let Some(name) = self.0.get(&partition.topic) {
            return name.clone_ref(py);
        }
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        let name = PyString::new(py, &partition.topic).unbind();
        self.0.insert(partition.topic.clone(), name.clone_ref(py));
        name
    }
}
