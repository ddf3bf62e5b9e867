//! `_native.Consumer`: what `Consumer` and `AsyncConsumer` are made of.
//!
//! `poll`, `consume` and `next_batch` wait with the GIL released and look for Ctrl-C ten times a
//! second. Changes of partitions are returned in place of records, as a [`Handover`]: the caller
//! shows it to the listener, then calls `finish_event`. All that asks a broker starts an operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_client::consumer::commits::Committed;
use kafkalite_client::consumer::cursor::Position;
use kafkalite_client::consumer::group_state::GroupEvent;
use kafkalite_client::consumer::subscription::Wish;
use kafkalite_client::consumer::{Due, Lease, Limits, Next, calls};
use kafkalite_client::fork::ForkGuard;
use kafkalite_client::{ClientError, ConsumerConfig, TopicPartition};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::arguments::Seconds;
use super::doorbell::Doorbell;
use super::handover::{CommitRow, Handover, Place, claim, partition, place, places};
use super::interpreter;
use super::operation::{Callbacks, Operation};
use super::record::{Deserializers, Record, TopicNames};
use super::record_batch::RecordBatch;
use super::shell::{LONGEST_CLOSE, begin_on, none};
use super::waiting::{SIGNALS_EVERY, is_hurried};
use crate::error::{client_error, ends_something};

/// How long the drop of a consumer that was not closed may take.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A consumer.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Consumer {
    inside: ForkGuard<kafkalite_client::Consumer>,
    callbacks: Callbacks,
    deserializers: Arc<Deserializers>,
    names: Mutex<TopicNames>,
    /// What was returned and not finished yet.
    event: Mutex<Option<GroupEvent>>,
    warnings: Vec<String>,
    /// Wakes event loops.
    doorbell: Doorbell,
}

impl Drop for Consumer {
    /// It was not closed: its thread ends, and may need the interpreter for its last callback.
    fn drop(&mut self) {
        if let Ok(consumer) = self.inside.get() {
            Python::attach(|py| py.detach(|| consumer.runtime().shutdown(DROP_TIMEOUT)));
            self.callbacks.close(Instant::now());
        }
    }
}

/// What a call of a consumer found.
enum Found<'a> {
    Records(Lease<'a>),
    Event(Py<PyAny>),
    Nothing,
}

impl Consumer {
    fn get(&self, py: Python<'_>) -> PyResult<&kafkalite_client::Consumer> {
        self.inside.get().map_err(|error| client_error(py, &error))
    }

    /// Waits for records or an event.
    fn next(
        &self,
        py: Python<'_>,
        limits: Limits,
        timeout: Option<Seconds>,
    ) -> PyResult<Found<'_>> {
        let consumer = self.get(py)?;
        let deadline = timeout.and_then(Seconds::deadline);
        loop {
            let step = Instant::now() + SIGNALS_EVERY;
            let until = deadline.map_or(step, |deadline| deadline.min(step));
            match py.detach(|| consumer.next(limits, until)) {
                Ok(Next::Records(lease)) => return Ok(Found::Records(lease)),
                Ok(Next::Event(event)) => {
                    let told = Handover::of(&event);
                    *self.event.lock() = Some(event);
                    let told = Py::new(py, told)?;
                    return Ok(Found::Event(told.into_any()));
                }
                Ok(Next::Nothing) => {}
                Err(error) => return Err(client_error(py, &error)),
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Found::Nothing);
            }
        }
    }

    /// When a call to brokers ends: in `timeout` seconds, or as the configuration says.
    fn limit(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Instant> {
        let usual = self.get(py)?.config().client.api_timeout;
        let given = timeout.and_then(Seconds::deadline);
        Ok(given.unwrap_or_else(|| Instant::now() + usual))
    }

    fn begin<F, T>(
        &self,
        py: Python<'_>,
        what: &'static str,
        future: F,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let runtime = self.get(py)?.runtime();
        let begun = begin_on(runtime, &self.callbacks, what, future, convert);
        begun.map_err(|error| client_error(py, &error))
    }

    /// Hands out what `convert` makes of the records in `lease`: all of them, or those before the
    /// first that a deserializer fails for. What is not handed out goes back, all of it where
    /// nothing could be made, or where Ctrl-C ended it. Handlers of signals that came meanwhile run
    /// last here.
    fn hand_out<T>(
        &self,
        py: Python<'_>,
        lease: Lease<'_>,
        convert: impl FnOnce(Vec<Record>) -> PyResult<T>,
    ) -> PyResult<T> {
        let (made, failed) = self.deserializers.records(py, &lease, &self.names);
        if let Some(error) = failed.filter(|error| made.is_empty() || ends_something(py, error)) {
            return Err(error);
        }
        let count = made.len();
        let converted = convert(made)?;
        py.check_signals()?;
        lease.keep_first(count);
        Ok(converted)
    }
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(
        py: Python<'_>,
        pairs: BTreeMap<String, String>,
        key_deserializer: Option<Py<PyAny>>,
        value_deserializer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        interpreter::watch(py)?;
        let consumer = ConsumerConfig::from_pairs(&pairs).and_then(|config| {
            let warnings = config.client.warnings.clone();
            let consumer = py.detach(|| kafkalite_client::Consumer::new(config))?;
            Ok((consumer, warnings))
        });
        let (consumer, warnings) = consumer.map_err(|error| client_error(py, &error))?;
        let deserializers = Deserializers { key: key_deserializer, value: value_deserializer };
        Ok(Self {
            inside: ForkGuard::new(consumer),
            callbacks: Callbacks::default(),
            deserializers: Arc::new(deserializers),
            names: Mutex::default(),
            event: Mutex::default(),
            warnings,
            doorbell: Doorbell::default(),
        })
    }

    /// A deserializer may refer to whatever has the consumer, and keep it alive.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.deserializers.traverse(&visit)
    }

    /// What the configuration has that changes nothing.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.is_closed())
    }

    #[getter]
    fn group_id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.config().group_id.clone())
    }

    #[getter]
    fn max_poll_records(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.config().max_poll_records)
    }

    /// In seconds.
    #[getter]
    fn max_poll_interval(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.get(py)?.config().max_poll_interval.as_secs_f64())
    }

    /// Reads topics by name, or those whose whole name matches `pattern`.
    fn subscribe(
        &self,
        py: Python<'_>,
        topics: BTreeSet<String>,
        pattern: Option<&str>,
    ) -> PyResult<()> {
        let wish = match pattern {
            Some(pattern) => {
                kafkalite_client::consumer::topic_pattern::filter(pattern).map(Wish::Pattern)
            }
            None => Ok(Wish::Topics(topics.into_iter().map(Into::into).collect())),
        };
        let consumer = self.get(py)?;
        let done = wish.and_then(|wish| consumer.subscribe(wish));
        done.map_err(|error| client_error(py, &error))
    }

    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.get(py)?.unsubscribe().map_err(|error| client_error(py, &error))
    }

    fn assign(&self, py: Python<'_>, partitions: Vec<Place>) -> PyResult<()> {
        let partitions = partitions.into_iter().map(partition).collect();
        self.get(py)?.assign(&partitions).map_err(|error| client_error(py, &error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        Ok(places(&self.get(py)?.assignment()))
    }

    fn subscription(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.get(py)?.subscription().iter().map(ToString::to_string).collect())
    }

    fn paused(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        Ok(places(&self.get(py)?.paused()))
    }

    fn set_paused(&self, py: Python<'_>, partitions: Vec<Place>, paused: bool) -> PyResult<()> {
        let partitions: Vec<_> = partitions.into_iter().map(partition).collect();
        let done = self.get(py)?.set_paused(&partitions, paused);
        done.map_err(|error| client_error(py, &error))
    }

    fn seek(&self, py: Python<'_>, to: Place, offset: i64, leader_epoch: i32) -> PyResult<()> {
        let done = self.get(py)?.seek(&partition(to), Position { offset, leader_epoch });
        done.map_err(|error| client_error(py, &error))
    }

    /// Goes to a time in ms; -2 is the beginning and -1 the end.
    fn seek_to(&self, py: Python<'_>, partitions: Vec<Place>, time: i64) -> PyResult<()> {
        let partitions: Vec<_> = partitions.into_iter().map(partition).collect();
        self.get(py)?.seek_to(&partitions, time).map_err(|error| client_error(py, &error))
    }

    /// Whether every change of hands is returned, or only what is given up.
    fn set_listened_to(&self, py: Python<'_>, listened_to: bool) -> PyResult<()> {
        self.get(py)?.set_listened_to(listened_to);
        Ok(())
    }

    /// The next record; or a handover; None after `timeout` seconds.
    fn poll(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<Py<PyAny>>> {
        let cheap = self.inside.get_cheaply().map_err(|error| client_error(py, &error))?;
        let ready = cheap.next_decoded(|cursor, view| {
            let name = self.names.lock().of(py, cursor.partition());
            Py::new(py, self.deserializers.record(py, &name, cursor, &view)?)
        });
        if let Some(made) = ready {
            let (record, lease) = made?;
            // With the lock of the short way released: a handler may call the consumer.
            py.check_signals()?;
            lease.keep();
            return Ok(Some(record.into_any()));
        }
        match self.next(py, Limits { max_records: 1, max_bytes: usize::MAX }, timeout)? {
            Found::Records(lease) => {
                let one = |mut made: Vec<Record>| {
                    made.pop().map(|record| Py::new(py, record)).transpose()
                };
                let record = self.hand_out(py, lease, one)?;
                Ok(record.map(Py::into_any))
            }
            Found::Event(event) => Ok(Some(event)),
            Found::Nothing => Ok(None),
        }
    }

    /// A list of records; or a handover; an empty list after `timeout` seconds.
    fn consume(
        &self,
        py: Python<'_>,
        max_records: usize,
        timeout: Option<Seconds>,
    ) -> PyResult<Py<PyAny>> {
        match self.next(py, Limits { max_records, max_bytes: usize::MAX }, timeout)? {
            Found::Records(lease) => {
                self.hand_out(py, lease, |made| Ok(made.into_pyobject(py)?.into_any().unbind()))
            }
            Found::Event(event) => Ok(event),
            Found::Nothing => Ok(pyo3::types::PyList::empty(py).into_any().unbind()),
        }
    }

    /// A batch of records; or a handover; None after `timeout` seconds.
    fn next_batch(
        &self,
        py: Python<'_>,
        max_records: usize,
        max_bytes: usize,
        timeout: Option<Seconds>,
    ) -> PyResult<Option<Py<PyAny>>> {
        match self.next(py, Limits { max_records, max_bytes }, timeout)? {
            Found::Records(lease) => {
                let batch = RecordBatch::new(lease.to_vec(), Arc::clone(&self.deserializers));
                let batch = Py::new(py, batch)?;
                py.check_signals()?;
                drop(lease.keep());
                Ok(Some(batch.into_any()))
            }
            Found::Event(event) => Ok(Some(event)),
            Found::Nothing => Ok(None),
        }
    }

    /// What is due before the event that was returned is shown: the last commit, if any.
    fn before_event(&self, py: Python<'_>) -> PyResult<Operation> {
        let consumer = self.get(py)?;
        let event = self.event.lock().clone().unwrap_or(GroupEvent::Assign(Vec::new()));
        let deadline = Instant::now() + consumer.config().client.connection.request_timeout;
        let due = calls::before_event(Arc::clone(consumer.shared()), event, deadline);
        self.begin(py, "the last commit of revoked partitions", due, none)
    }

    /// What is due before it is unsubscribed: the last commit, if commits are automatic.
    fn before_unsubscribe(&self, py: Python<'_>) -> PyResult<Operation> {
        let consumer = self.get(py)?;
        py.detach(|| consumer.finish());
        let gone = GroupEvent::Revoke(consumer.assignment());
        let deadline = Instant::now() + consumer.config().client.connection.request_timeout;
        let due = calls::before_event(Arc::clone(consumer.shared()), gone, deadline);
        self.begin(py, "the last commit", due, none)
    }

    /// The event that was returned takes effect.
    fn finish_event(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.get(py)?;
        if let Some(event) = self.event.lock().take() {
            consumer.finish_event(&event);
        }
        Ok(())
    }

    /// A file descriptor that can be read once for each `arm`, when a call would not have to wait.
    /// A read of it never waits. A thread that holds the GIL for long does not delay the client's.
    fn wake_fd(&self) -> PyResult<i32> {
        Ok(self.doorbell.fd()?)
    }

    /// Asks for one byte there, in place of one that was asked for before and has not come.
    fn arm(&self, py: Python<'_>) -> PyResult<()> {
        let consumer = self.get(py)?;
        consumer.wake_when_ready(Box::new(self.doorbell.ringer()?));
        Ok(())
    }

    /// Commits offsets (topic, number, offset, leader epoch, metadata, tenure), or what was handed
    /// out.
    fn commit(
        &self,
        py: Python<'_>,
        offsets: Option<Vec<CommitRow>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let shared = Arc::clone(self.get(py)?.shared());
        // Now, and not when its turn comes: what is lost until then is refused.
        let due = match offsets {
            Some(offsets) => Due::given(&shared, offsets.into_iter().map(claim).collect()),
            None => Due::handed_out(&shared),
        };
        let deadline = self.limit(py, timeout)?;
        let commit = async move { calls::commit(shared, due?, deadline).await };
        self.begin(py, "a commit", commit, none)
    }

    /// What the group committed: topic, number, offset, leader epoch and metadata for each
    /// partition that has an offset.
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Vec<Place>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let shared = Arc::clone(self.get(py)?.shared());
        let partitions = partitions.into_iter().map(partition).collect();
        let asked = calls::committed(shared, partitions, self.limit(py, timeout)?);
        self.begin(py, "committed offsets", asked, |py, told| {
            let rows = told.into_iter().filter_map(|(partition, committed)| {
                let Committed { position, metadata } = committed?;
                let (topic, number) = place(&partition);
                Some((topic, number, position.offset, position.leader_epoch, metadata))
            });
            Ok(rows.collect::<Vec<_>>().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// The next offset that is handed out.
    fn position(&self, py: Python<'_>, of: Place, timeout: Option<Seconds>) -> PyResult<Operation> {
        let shared = Arc::clone(self.get(py)?.shared());
        let asked = calls::position(shared, partition(of), self.limit(py, timeout)?);
        self.begin(py, "a position", asked, |py, position| {
            Ok(position.offset.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Offsets of times (topic, number, ms; -2 and -1 are the ends): (topic, number, offset, ms,
    /// leader epoch) of those that have one.
    fn offsets(
        &self,
        py: Python<'_>,
        times: Vec<(String, i32, i64)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let shared = Arc::clone(self.get(py)?.shared());
        let wanted = times
            .into_iter()
            .map(|(topic, number, time)| (TopicPartition::new(topic, number), time));
        let asked = calls::offsets(shared, wanted.collect(), self.limit(py, timeout)?);
        self.begin(py, "offsets", asked, |py, told| {
            let rows = told.into_iter().filter_map(|(partition, answer)| {
                let answer = answer?;
                let (topic, number) = place(&partition);
                Some((topic, number, answer.offset, answer.timestamp_ms, answer.leader_epoch))
            });
            Ok(rows.collect::<Vec<_>>().into_pyobject(py)?.into_any().unbind())
        })
    }

    /// The partitions of a topic.
    fn partitions(
        &self,
        py: Python<'_>,
        name: String,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let shared = Arc::clone(self.get(py)?.shared());
        let asked = calls::topic(shared, name, self.limit(py, timeout)?);
        self.begin(py, "a topic's partitions", asked, |py, topic| {
            let numbers: Vec<_> = topic.partitions.iter().map(|one| one.index).collect();
            Ok(numbers.into_pyobject(py)?.into_any().unbind())
        })
    }

    fn lag(&self, py: Python<'_>, of: Place) -> PyResult<Option<i64>> {
        Ok(self.get(py)?.lag(&partition(of)))
    }

    /// Commits what was handed out (`abandon` leaves out the last call's), leaves the group, and
    /// ends the thread. After Ctrl-C, or once `hurried()` is true, it waits for none of that.
    #[pyo3(signature = (timeout, abandon, hurried=None))]
    fn close(
        &self,
        py: Python<'_>,
        timeout: Seconds,
        abandon: bool,
        hurried: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let consumer = self.get(py)?;
        let timeout = timeout.duration().min(LONGEST_CLOSE);
        let until = Instant::now() + timeout;
        let mut interrupted = Ok(false);
        let closed = py.detach(|| {
            let closed = consumer.close_patiently(timeout, abandon, || {
                interrupted = is_hurried(hurried.as_ref());
                !matches!(interrupted, Ok(false))
            });
            let in_time = matches!(interrupted, Ok(false));
            self.callbacks.close(if in_time { until } else { Instant::now() });
            closed
        });
        interrupted.and(closed.map_err(|error| client_error(py, &error)))
    }
}
