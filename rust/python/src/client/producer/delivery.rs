//! `Delivery`: the outcome of one record. `RecordMetadata`: its place.

use std::sync::Arc;
use std::time::Instant;

use kafkalite_client::ClientError;
use kafkalite_client::fork::Home;
use kafkalite_client::producer::accumulator::{
    Failure, Handle, RecordMetadata as Metadata, Token as Watched,
};
use pyo3::prelude::*;

use super::callbacks::{Callbacks, Raised, Token, Who};
use crate::client::arguments::{Seconds, absent};
use crate::client::in_python;
use crate::client::waiting::{timed_out, wait};
use crate::error::{client_error, client_exception};

/// Where a record was written.
///
/// Attributes:
///     topic: The topic's name.
///     partition: The partition, from 0.
///     offset: The record's place in the partition; -1 if the broker did not send it. That is so
///         with ``acks=0``, or for a repeated batch that was written long before.
///     timestamp_ms: In ms since 1970 (UTC): the record's own, or that of the append where the
///         topic has ``message.timestamp.type=LogAppendTime``.
#[pyclass(frozen, eq, hash, get_all, module = "kafkalite")]
#[derive(PartialEq, Hash)]
pub struct RecordMetadata {
    topic: String,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
}

impl From<Metadata> for RecordMetadata {
    fn from(metadata: Metadata) -> Self {
        let Metadata { topic, partition, offset, timestamp_ms } = metadata;
        Self { topic: topic.to_string(), partition, offset, timestamp_ms }
    }
}

#[pymethods]
impl RecordMetadata {
    #[new]
    fn new(topic: String, partition: i32, offset: i64, timestamp_ms: i64) -> Self {
        Self { topic, partition, offset, timestamp_ms }
    }

    /// Another process can rebuild it: it can be pickled and copied.
    fn __getnewargs__(&self) -> (&str, i32, i64, i64) {
        (&self.topic, self.partition, self.offset, self.timestamp_ms)
    }

    fn __repr__(&self) -> String {
        let Self { topic, partition, offset, timestamp_ms } = self;
        format!(
            "RecordMetadata(topic='{topic}', partition={partition}, offset={offset}, \
             timestamp_ms={timestamp_ms})"
        )
    }
}

/// The exception of a record that failed.
pub fn exception(py: Python<'_>, failure: &ClientError) -> Py<PyAny> {
    match client_exception(py, failure) {
        Ok(exception) => exception.unbind(),
        Err(other) => other.into_value(py).into_any(),
    }
}

/// A record on its way.
///
/// It is delivered even if no call asks for its delivery.
#[pyclass(frozen, module = "kafkalite")]
pub struct Delivery {
    handle: Arc<Handle<Token>>,
    callbacks: Arc<Callbacks>,
    index: u32,
    timestamp_ms: i64,
    home: Home,
}

impl Delivery {
    pub fn new(
        handle: Arc<Handle<Token>>,
        callbacks: Arc<Callbacks>,
        index: u32,
        timestamp_ms: i64,
        home: Home,
    ) -> Self {
        Self { handle, callbacks, index, timestamp_ms, home }
    }

    fn fate(&self, py: Python<'_>) -> PyResult<Option<Result<Metadata, Failure>>> {
        self.home.check_cheaply().map_err(|error| client_error(py, &error))?;
        Ok(self.handle.result(self.index, self.timestamp_ms))
    }

    fn wait(
        &self,
        py: Python<'_>,
        timeout: Option<Seconds>,
    ) -> PyResult<Result<Metadata, Failure>> {
        if let Some(fate) = self.fate(py)? {
            return Ok(fate);
        }
        self.home.check().map_err(|error| client_error(py, &error))?;
        let step = |until: Instant| self.handle.wait(self.index, self.timestamp_ms, until);
        wait(py, timeout.and_then(Seconds::deadline), step)?
            .ok_or_else(|| timed_out(py, "the delivery of a record", timeout))
    }
}

#[pymethods]
impl Delivery {
    /// Wait until the record is delivered, and return where it is.
    ///
    /// Args:
    ///     timeout: Seconds to wait; ``None`` is as long as it takes, which is
    ///         ``delivery_timeout_ms`` at most.
    ///
    /// Raises:
    ///     KafkaliteError: As the record failed.
    ///     RequestTimedOut: Nothing is known after ``timeout`` seconds; the record may yet be
    ///         delivered.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<RecordMetadata> {
        match self.wait(py, timeout)? {
            Ok(metadata) => Ok(metadata.into()),
            Err(failure) => Err(client_error(py, &failure)),
        }
    }

    /// Wait until the record's fate is known, and return what it failed with, or ``None``.
    ///
    /// Args:
    ///     timeout: Seconds to wait; ``None`` is as long as it takes.
    ///
    /// Raises:
    ///     RequestTimedOut: Nothing is known after ``timeout`` seconds.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.wait(py, timeout)?.err().map(|failure| exception(py, &failure)))
    }

    /// Says what to do in place of what other clients' futures have.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        Err(absent(py, "kafkalite.Delivery", name))
    }

    /// Whether the record's fate is known.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.fate(py)?.is_some())
    }

    /// Call ``callback(delivery)`` once the record's fate is known; at once if it is known now.
    ///
    /// Callbacks are called on a thread of the producer, one after the other; what one raises goes
    /// to ``sys.unraisablehook``. So does an ``Exception`` of one that is called at once; anything
    /// else, as of Ctrl-C, is raised here.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.home.check_cheaply().map_err(|error| client_error(py, &error))?;
        let called = callback.clone_ref(py);
        let who = Who::Done { callback, delivery: slf.clone().unbind() };
        let value = Token { who, waits: this.callbacks.expect() };
        let token = Watched { index: this.index, timestamp_ms: this.timestamp_ms, value };
        // Its outcome is known, so no other call reports it.
        if this.handle.watch(token).is_err() {
            return Raised::by(py, &called, (slf,)).or_else(|raised| raised.here(py));
        }
        Ok(())
    }

    /// The partition the record goes to.
    #[getter]
    fn partition(&self) -> i32 {
        self.handle.partition()
    }

    /// The topic the record goes to.
    #[getter]
    fn topic(&self) -> &str {
        self.handle.topic()
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "delivery")
    }
}
