//! `BatchDelivery`: the outcomes of the records of one `send_batch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kafkalite_client::fork::Home;
use kafkalite_client::producer::accumulator::{Failure, Landed, Token as Watched};
use kafkalite_client::producer::bulk::BulkRun;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::callbacks::{Callbacks, Raised, Token, Waits, Who};
use super::delivery::exception;
use crate::client::arguments::Seconds;
use crate::client::in_python;
use crate::client::waiting::{timed_out, wait};
use crate::error::{client_error, client_exception};

/// Records next to each other in one partition.
///
/// Attributes:
///     topic: The topic's name.
///     partition: The partition, from 0.
///     base_offset: Offset of the first of them; -1 where the broker did not say.
///     count: How many there are; their offsets have no gaps.
#[pyclass(frozen, eq, hash, get_all, module = "kafkalite")]
#[derive(Clone, PartialEq, Hash)]
pub struct DeliveredRange {
    topic: String,
    partition: i32,
    base_offset: i64,
    count: u32,
}

#[pymethods]
impl DeliveredRange {
    #[new]
    fn new(topic: String, partition: i32, base_offset: i64, count: u32) -> Self {
        Self { topic, partition, base_offset, count }
    }

    /// As of `RecordMetadata`.
    fn __getnewargs__(&self) -> (&str, i32, i64, u32) {
        (&self.topic, self.partition, self.base_offset, self.count)
    }

    fn __repr__(&self) -> String {
        let Self { topic, partition, base_offset, count } = self;
        format!(
            "DeliveredRange(topic='{topic}', partition={partition}, base_offset={base_offset}, \
             count={count})"
        )
    }
}

/// First record of a chunk, the order its records were appended in, where they went.
type Appended = (usize, Option<Vec<u32>>, Vec<BulkRun<Token>>);

/// Records that were appended by one call, chunk by chunk.
pub struct Sent {
    chunks: Vec<Appended>,
    count: usize,
    /// So many of the first runs are known to be complete: they are not looked at again.
    complete: AtomicUsize,
}

/// Records at places of a chunk's order, and their outcome.
type Outcome = (std::ops::Range<usize>, Result<Landed, Failure>);

impl Sent {
    pub fn new() -> Self {
        Self { chunks: Vec::new(), count: 0, complete: AtomicUsize::new(0) }
    }

    /// Adds the outcomes of the next `rows` records.
    pub fn push(&mut self, rows: usize, order: Option<Vec<u32>>, runs: Vec<BulkRun<Token>>) {
        self.chunks.push((self.count, order, runs));
        self.count += rows;
    }

    fn runs(&self) -> impl Iterator<Item = &BulkRun<Token>> {
        self.chunks.iter().flat_map(|(_, _, runs)| runs)
    }

    /// Outcomes of a run, in order.
    fn outcomes(run: &BulkRun<Token>) -> Vec<Outcome> {
        let mut outcomes = run.handle.outcomes(run.indices.start, run.indices.end);
        outcomes.sort_by_key(|(first, _, _)| *first);
        let place = |index: u32| run.at + (index - run.indices.start) as usize;
        outcomes
            .into_iter()
            .map(|(first, end, outcome)| (place(first)..place(end), outcome))
            .collect()
    }

    /// Waits for all; `None` if something is not known at `until`.
    fn wait(&self, until: Instant) -> Option<()> {
        let all =
            self.runs().all(|run| run.handle.wait_run(run.indices.start, run.indices.end, until));
        all.then_some(())
    }

    /// A record whose fate is not known.
    fn first_unknown(&self) -> Option<(&BulkRun<Token>, u32)> {
        let complete = self.complete.load(Ordering::Relaxed);
        self.runs().enumerate().skip(complete).find_map(|(at, run)| {
            self.complete.fetch_max(at, Ordering::Relaxed);
            let mut next = run.indices.start;
            for (places, _) in Self::outcomes(run) {
                let first = run.indices.start + (places.start - run.at) as u32;
                if first != next {
                    break;
                }
                next += places.len() as u32;
            }
            (next < run.indices.end).then_some((run, next))
        })
    }
}

/// A callback for when the outcomes of all records are known: watches one record without an
/// outcome, and then the next one.
pub struct Watch {
    sent: Arc<Sent>,
    waiting: Mutex<Option<(Py<PyAny>, Py<BatchDelivery>)>>,
}

impl Watch {
    /// Watches the next unknown record, or calls back if there is none.
    ///
    /// # Errors
    /// What the callback raises.
    pub fn look(self: &Arc<Self>, py: Python<'_>, mut waits: Waits) -> Result<(), Raised> {
        while let Some((run, index)) = self.sent.first_unknown() {
            let value = Token { who: Who::Batch(Arc::clone(self)), waits };
            match run.handle.watch(Watched { index, timestamp_ms: 0, value }) {
                Ok(()) => return Ok(()),
                Err(known) => waits = known.value.waits,
            }
        }
        let Some((callback, delivery)) = self.waiting.lock().take() else { return Ok(()) };
        Raised::by(py, &callback, (delivery,))
    }
}

/// The records of one ``send_batch`` on their way.
///
/// ``len()`` is how many there are. They are delivered even if no call asks for the outcome.
#[pyclass(frozen, module = "kafkalite")]
pub struct BatchDelivery {
    sent: Arc<Sent>,
    callbacks: Arc<Callbacks>,
    home: Home,
}

impl BatchDelivery {
    pub fn new(sent: Sent, callbacks: Arc<Callbacks>, home: Home) -> Self {
        Self { sent: Arc::new(sent), callbacks, home }
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<()> {
        self.home.check().map_err(|error| client_error(py, &error))?;
        wait(py, timeout.and_then(Seconds::deadline), |until| self.sent.wait(until))?
            .ok_or_else(|| timed_out(py, "the delivery of a batch", timeout))
    }

    /// What was delivered, and the failures by index.
    fn fates(&self) -> (Vec<DeliveredRange>, Vec<(usize, Failure)>) {
        let (mut ranges, mut failures): (Vec<DeliveredRange>, _) = (Vec::new(), Vec::new());
        for (base, order, runs) in &self.sent.chunks {
            for run in runs {
                for (places, outcome) in Sent::outcomes(run) {
                    match outcome {
                        Ok(landed) => add(&mut ranges, run, places.len() as u32, landed),
                        Err(failure) => failures.extend(places.map(|place| {
                            let index = order.as_ref().map_or(place, |o| o[place] as usize);
                            (base + index, Arc::clone(&failure))
                        })),
                    }
                }
            }
        }
        failures.sort_by_key(|(index, _)| *index);
        (ranges, failures)
    }
}

/// Adds a range, or makes the last one longer if it goes on there.
fn add(ranges: &mut Vec<DeliveredRange>, run: &BulkRun<Token>, count: u32, landed: Landed) {
    let base_offset = landed.base_offset.unwrap_or(-1);
    let partition = run.handle.partition();
    match ranges.last_mut() {
        Some(last)
            if last.partition == partition
                && base_offset >= 0
                && last.base_offset + i64::from(last.count) == base_offset =>
        {
            last.count += count;
        }
        _ => {
            let topic = run.handle.topic().to_string();
            ranges.push(DeliveredRange { topic, partition, base_offset, count });
        }
    }
}

#[pymethods]
impl BatchDelivery {
    /// Wait until the fate of every record is known, and return where they are.
    ///
    /// Args:
    ///     timeout: Seconds to wait; ``None`` is as long as it takes, which is
    ///         ``delivery_timeout_ms`` at most.
    ///
    /// Returns:
    ///     A list of ranges of records that lie next to each other in a partition, each partition's
    ///     in the order in which they were sent.
    ///
    /// Raises:
    ///     PartialError: Some records failed: ``errors`` has their exceptions by index in the
    ///         batch, ``done`` the ranges of the others by number.
    ///     KafkaliteError: All of them failed with this.
    ///     RequestTimedOut: Not everything is known after ``timeout`` seconds.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Vec<DeliveredRange>> {
        self.wait(py, timeout)?;
        let (ranges, failures) = self.fates();
        let Some((_, first)) = failures.first() else { return Ok(ranges) };
        let alike = failures.iter().all(|(_, failure)| failure == first);
        if alike && failures.len() == self.sent.count {
            return Err(client_error(py, first));
        }
        Err(partial(py, &ranges, &failures, self.sent.count)?)
    }

    /// Wait until the fate of every record is known, and return the exceptions of those that
    /// failed, by their index in the batch.
    ///
    /// Args:
    ///     timeout: Seconds to wait; ``None`` is as long as it takes.
    ///
    /// Raises:
    ///     RequestTimedOut: Not everything is known after ``timeout`` seconds.
    #[pyo3(signature = (timeout=None))]
    fn errors<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<Seconds>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.wait(py, timeout)?;
        by_index(py, &self.fates().1)
    }

    /// Whether the fate of every record is known.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.home.check_cheaply().map_err(|error| client_error(py, &error))?;
        Ok(self.sent.first_unknown().is_none())
    }

    /// Call ``callback(delivery)`` once the fate of every record is known; at once if it is.
    ///
    /// Callbacks are called on a thread of the producer; what one raises goes to
    /// ``sys.unraisablehook``. So does an ``Exception`` of one that is called at once; anything
    /// else, as of Ctrl-C, is raised here.
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.home.check_cheaply().map_err(|error| client_error(py, &error))?;
        let waiting = Mutex::new(Some((callback, slf.clone().unbind())));
        let watch = Arc::new(Watch { sent: Arc::clone(&this.sent), waiting });
        watch.look(py, this.callbacks.expect()).or_else(|raised| raised.here(py))
    }

    fn __len__(&self) -> usize {
        self.sent.count
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "batch_delivery")
    }
}

fn by_index<'py>(py: Python<'py>, failures: &[(usize, Failure)]) -> PyResult<Bound<'py, PyDict>> {
    let errors = PyDict::new(py);
    // One failure is shared by many records; so is its exception.
    let mut last: Option<(&Failure, Py<PyAny>)> = None;
    for (index, failure) in failures {
        let exception = match &last {
            Some((known, made)) if Arc::ptr_eq(known, failure) => made.clone_ref(py),
            _ => exception(py, failure),
        };
        errors.set_item(index, &exception)?;
        last = Some((failure, exception));
    }
    Ok(errors)
}

fn partial(
    py: Python<'_>,
    ranges: &[DeliveredRange],
    failures: &[(usize, Failure)],
    count: usize,
) -> PyResult<PyErr> {
    let done = PyDict::new(py);
    for (number, range) in ranges.iter().enumerate() {
        done.set_item(number, Py::new(py, range.clone())?)?;
    }
    let first = client_exception(py, &failures[0].1)?;
    let text = format!("{first} ({} of {count} records failed)", failures.len());
    let attributes = PyDict::new(py);
    attributes.set_item("done", done)?;
    attributes.set_item("errors", by_index(py, failures)?)?;
    let class = py.import("kafkalite.errors")?.getattr("PartialError")?;
    Ok(PyErr::from_value(class.call((text,), Some(&attributes))?))
}
