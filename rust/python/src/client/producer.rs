//! `_native.Producer`: Python's records into open batches.
//!
//! The fast path of one record holds the GIL and takes some hundred nanoseconds. It reads the
//! arguments, picks a partition, and copies the bytes into the open batch. Calls that wait for
//! metadata, memory or a delivery release the GIL and look for Ctrl-C. So do calls that handle many
//! records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_client::fork::{ForkGuard, Home};
use kafkalite_client::producer::accumulator::{Sink, TopicQueues};
use kafkalite_client::{ClientError, Producer as Core, ProducerConfig};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};
use std::collections::BTreeMap;

use super::arguments::{Seconds, TimestampMs, refuse};
use super::interpreter;
use super::waiting::{timed_out, wait};
use crate::error::client_error;
use callbacks::{Callbacks, EventLoop, Token, Who};
use delivery::Delivery;
use inside::{Arguments, Inside};

mod batch;
mod bulk;
mod callbacks;
mod data;
mod delivery;
mod elements;
mod inside;
mod turn;

/// A topic's queues.
type Topic = Arc<TopicQueues<Token>>;

/// How long callbacks may take after the last record is delivered, where no time is left.
const CALLBACKS_TIMEOUT: Duration = Duration::from_millis(200);

/// The binary's half of a producer.
#[pyclass(frozen, subclass, module = "kafkalite._native")]
pub struct Producer {
    inside: ForkGuard<Inside>,
}

impl Producer {
    #[inline]
    fn inside(&self, py: Python<'_>) -> PyResult<&Inside> {
        self.inside.get_cheaply().map_err(|error| client_error(py, &error))
    }
}

#[pymethods]
impl Producer {
    #[new]
    #[pyo3(signature = (pairs, key_serializer=None, value_serializer=None))]
    fn new(
        py: Python<'_>,
        pairs: BTreeMap<String, String>,
        key_serializer: Option<Py<PyAny>>,
        value_serializer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let failed = |error: ClientError| client_error(py, &error);
        interpreter::watch(py)?;
        let config = ProducerConfig::from_pairs(&pairs).map_err(failed)?;
        let callbacks = Arc::new(Callbacks::default());
        let sink: Arc<dyn Sink<Token>> = callbacks.clone();
        let producer = py.detach(|| Core::start(config, sink)).map_err(failed)?;
        let inside = Inside {
            producer,
            callbacks,
            key_serializer,
            value_serializer,
            last_topic: Mutex::new(None),
            closed: AtomicBool::new(false),
            home: Home::here(),
        };
        Ok(Self { inside: ForkGuard::new(inside) })
    }

    /// A serializer may refer to whatever has the producer, and keep it alive.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(inside) = self.inside.get_cheaply() else { return Ok(()) };
        visit.call(&inside.key_serializer)?;
        visit.call(&inside.value_serializer)
    }

    /// Add one record to the open batch of its partition, and return at once.
    ///
    /// Args:
    ///     topic: Name of the topic, 1 to 249 characters. The first record for a topic waits for
    ///         its metadata; brokers may create it then.
    ///     value: The record's value; ``None`` is a tombstone. A text is written as UTF-8. With a
    ///         ``value_serializer``, whatever that takes.
    ///     key: The record's key. With a key the partition is
    ///         ``(murmur2(key) & 0x7fffffff) % partition_count``. Records without a key stick to
    ///         one partition for 16 KiB, or ``batch_size`` if that is less, and then move on.
    ///     partition: The partition, from 0; wins over the key.
    ///     headers: A mapping, or pairs of a name and bytes, text or ``None``.
    ///     timestamp_ms: In ms since 1970 (UTC); now, if not given.
    ///
    /// Returns:
    ///     A delivery whose ``result()`` is where the record was written.
    ///
    /// Raises:
    ///     BufferFullError: ``buffer_memory`` stayed full for ``max_block_ms``.
    ///     MessageTooLarge: The record alone exceeds ``max_request_size`` bytes.
    ///     UnknownTopicError: There is no such topic after ``max_block_ms``, or no such partition.
    ///     InvalidArgumentError: A partition or a time below 0.
    ///     NoBrokerReachable: No broker answers at any address.
    ///     ClosedError: The producer was closed.
    ///     ForkedClientError: The producer was made before a fork.
    ///
    /// Source:
    ///     Kafka protocol, Produce (key 0); KIP-794 for the sticky partitioner.
    #[pyo3(
        signature = (
            topic, value=None, *, key=None, partition=None, headers=None, timestamp_ms=None,
            **unexpected
        ),
        text_signature = "($self, topic, value=None, *, key=None, partition=None, headers=None, \
                          timestamp_ms=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn send(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<i32>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_ms: Option<TimestampMs>,
        unexpected: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Delivery> {
        refuse(unexpected, "send")?;
        let inside = self.inside(py)?;
        let arguments = Arguments { topic, value, key, partition, headers, timestamp_ms };
        let (place, timestamp_ms) = inside.append(py, &arguments, None)?;
        let callbacks = Arc::clone(&inside.callbacks);
        Ok(Delivery::new(place.handle, callbacks, place.index, timestamp_ms, inside.home))
    }

    /// Add one record like :meth:`send`, without a delivery to ask; the fastest way for one record.
    ///
    /// Args:
    ///     topic: As of :meth:`send`.
    ///     value: As of :meth:`send`.
    ///     key: As of :meth:`send`.
    ///     partition: As of :meth:`send`.
    ///     headers: As of :meth:`send`.
    ///     timestamp_ms: As of :meth:`send`.
    ///     on_delivery: Called as ``on_delivery(error, metadata)``, one of which is ``None``, on a
    ///         thread of the producer; nothing needs to be polled. What it raises goes to
    ///         ``sys.unraisablehook``.
    ///
    /// Raises:
    ///     KafkaliteError: As of :meth:`send`.
    #[pyo3(
        signature = (
            topic, value=None, *, key=None, partition=None, headers=None, timestamp_ms=None,
            on_delivery=None, **unexpected
        ),
        text_signature = "($self, topic, value=None, *, key=None, partition=None, headers=None, \
                          timestamp_ms=None, on_delivery=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn produce(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<i32>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_ms: Option<TimestampMs>,
        on_delivery: Option<Py<PyAny>>,
        unexpected: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        refuse(unexpected, "produce")?;
        let inside = self.inside(py)?;
        if let Some(callback) = &on_delivery
            && !callback.bind(py).is_callable()
        {
            return Err(PyTypeError::new_err("on_delivery must be something to call"));
        }
        let arguments = Arguments { topic, value, key, partition, headers, timestamp_ms };
        inside.append(py, &arguments, on_delivery.map(Who::Callback)).map(drop)
    }

    /// Add many records at once; no Python object is made for any of them.
    ///
    /// Args:
    ///     topic: As of :meth:`send`.
    ///     values: A list of bytes, texts or ``None``; or an object with ``__arrow_c_stream__`` or
    ///         ``__arrow_c_array__`` (pyarrow, polars, pandas, duckdb, ...). Such an object is an
    ///         array of bytes or texts, or a table with a column ``value``. The columns ``key``,
    ///         ``partition``, ``timestamp`` and ``headers`` are optional; others are ignored.
    ///     keys: A list, or an Arrow array, as long as ``values``.
    ///     headers: A mapping for all records, or a list with one for each.
    ///     timestamps: In ms since 1970 (UTC): one for all, a list or an Arrow array; now, if not
    ///         given. Arrow's timestamps may have any unit.
    ///     partitions: One for all, a list or an Arrow array.
    ///
    /// Returns:
    ///     One delivery for all of them.
    ///
    /// Raises:
    ///     KafkaliteError: As of :meth:`send`. No record of a list was added then. The exception
    ///         is BufferFullError: a part of a batch larger than ``buffer_memory`` was added.
    ///     ValueError: Columns are not of one length, or a table has no ``value``.
    ///     TypeError: A column is of a type that has no meaning here.
    #[pyo3(signature = (
        topic, values, *, keys=None, headers=None, timestamps=None, partitions=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn send_batch(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyString>,
        values: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamps: Option<&Bound<'_, PyAny>>,
        partitions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bulk::BatchDelivery> {
        let inside = self.inside(py)?;
        inside.producer.check().map_err(|error| client_error(py, &error))?;
        let topic = inside.topic(topic)?;
        let arguments = batch::Arguments { keys, headers, timestamps, partitions };
        let sent = batch::send_all(py, inside, &topic, values, &arguments)?;
        Ok(bulk::BatchDelivery::new(sent, Arc::clone(&inside.callbacks), inside.home))
    }

    /// Send everything that was added so far at once, and wait until the fate of all is known and
    /// their callbacks were called.
    ///
    /// Args:
    ///     timeout: Seconds to wait; ``None`` is as long as it takes, which is
    ///         ``delivery_timeout_ms`` at most.
    ///
    /// Raises:
    ///     RequestTimedOut: It took longer; what is on its way may yet be delivered.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<()> {
        match self.inside(py)?.flush(py, timeout.and_then(Seconds::deadline))? {
            true => Ok(()),
            false => Err(timed_out(py, "the flush of a producer", timeout)),
        }
    }

    /// Takes no more records; calls that wait for memory end now.
    fn _begin_close(&self) {
        if let Ok(inside) = self.inside.get() {
            inside.producer.begin_close();
        }
    }

    /// Delivers for `timeout` seconds at most, ends the threads, and returns how many records were
    /// not delivered. Closing again does nothing.
    fn _close(&self, py: Python<'_>, timeout: Seconds) -> PyResult<u64> {
        let Ok(inside) = self.inside.get() else { return Ok(0) };
        if inside.closed.swap(true, Ordering::SeqCst) {
            return Ok(0);
        }
        let lost = inside.count("record-error-total");
        let deadline = timeout.deadline();
        inside.producer.begin_close();
        let flushed = inside.flush(py, deadline);
        let end = deadline.unwrap_or_else(Instant::now).max(Instant::now() + CALLBACKS_TIMEOUT);
        py.detach(|| {
            inside.producer.end();
            inside.callbacks.close(end);
        });
        drop(inside.last_topic.lock().take());
        flushed?;
        Ok((inside.count("record-error-total") - lost) as u64)
    }

    /// Ends what a call of `_close` on another thread still waits for.
    fn _hurry(&self, py: Python<'_>) {
        if let Ok(inside) = self.inside.get() {
            py.detach(|| inside.producer.end());
        }
    }

    /// Whether the producer was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.inside.get_cheaply().map_or(true, |inside| inside.closed.load(Ordering::SeqCst))
    }

    /// Return the topic's partitions, in order; asks the cluster if they are not known.
    ///
    /// Args:
    ///     topic: Name of the topic; brokers may create it.
    ///
    /// Raises:
    ///     UnknownTopicError: There is no such topic after ``max_block_ms``.
    fn partitions_for(&self, topic: &Bound<'_, PyString>) -> PyResult<Vec<i32>> {
        let py = topic.py();
        let inside = self.inside(py)?;
        let failed = |error: ClientError| client_error(py, &error);
        inside.producer.check().map_err(failed)?;
        let deadline = Instant::now() + inside.producer.config().max_block;
        let call = inside.producer.partitions(topic.to_str()?, deadline).map_err(failed)?;
        let step = |until: Instant| call.wait(until.saturating_duration_since(Instant::now()));
        let partitions = wait(py, None, step)?.unwrap_or(Err(ClientError::Forked));
        Ok(partitions.map_err(failed)?.iter().map(|partition| partition.index).collect())
    }

    /// Return what the producer counts, by the names of Kafka's metrics; times in ms, sizes in
    /// bytes.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = PyDict::new(py);
        for (name, value) in self.inside(py)?.producer.metrics() {
            metrics.set_item(name, value)?;
        }
        Ok(metrics)
    }

    /// What the configuration has that changes nothing.
    #[getter]
    fn _warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.inside(py)?.producer.config().client.warnings.clone())
    }

    /// What a record holds that waits for those that were sent to its topic before.
    fn _queue_up(slf: &Bound<'_, Self>, topic: &Bound<'_, PyString>) -> PyResult<Py<turn::Turn>> {
        turn::queue_up(slf, topic.to_str()?)
    }

    /// Adds a record whose delivery settles `future`, if that needs no wait; else returns what to
    /// wait for. `turn` is what was waited for before.
    #[pyo3(signature = (
        event_loop, future, topic, value, key, partition, headers, timestamp_ms, turn
    ))]
    #[allow(clippy::too_many_arguments)]
    fn _try_send(
        slf: &Bound<'_, Self>,
        event_loop: Py<EventLoop>,
        future: Py<PyAny>,
        topic: &Bound<'_, PyString>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<i32>,
        headers: Option<&Bound<'_, PyAny>>,
        timestamp_ms: Option<TimestampMs>,
        turn: Option<&Bound<'_, turn::Turn>>,
    ) -> PyResult<Option<Py<turn::Turn>>> {
        let arguments = Arguments { topic, value, key, partition, headers, timestamp_ms };
        let who = Who::Future { future, event_loop };
        turn::try_send(slf, &arguments, who, turn)
    }
}

/// Adds the producer to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Producer>()?;
    module.add_class::<delivery::Delivery>()?;
    module.add_class::<delivery::RecordMetadata>()?;
    module.add_class::<bulk::BatchDelivery>()?;
    module.add_class::<bulk::DeliveredRange>()?;
    module.add_class::<EventLoop>()?;
    module.add_class::<turn::Turn>()
}
