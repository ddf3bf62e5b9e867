//! Reports the outcomes of records to Python: on one thread for each producer, many at a time.
//!
//! The thread takes all reports there are, takes the GIL once, and calls callbacks in order; of an
//! event loop's futures it makes one `call_soon_threadsafe`. It starts with the first record that
//! has a callback or a waiting caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kafkalite_client::ClientError;
use kafkalite_client::producer::accumulator::{Failure, RecordMetadata as Metadata, Report, Sink};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::bulk::Watch;
use super::delivery::{Delivery, RecordMetadata, exception};
use crate::client::callback_thread::CallbackThread;
use crate::client::interpreter;
use crate::error::ends_something;

/// A caller that waits for the outcome of a record.
pub struct Token {
    /// Who that is.
    pub who: Who,
    /// Held until they got the outcome.
    pub waits: Waits,
}

/// The receiver of a record's outcome.
pub enum Who {
    /// `callback(error, metadata)`.
    Callback(Py<PyAny>),
    /// `callback(delivery)`.
    Done { callback: Py<PyAny>, delivery: Py<Delivery> },
    /// A future of an event loop.
    Future { future: Py<PyAny>, event_loop: Py<EventLoop> },
    /// A batch of which this is one record.
    Batch(Arc<Watch>),
}

/// An event loop that gets the results of several futures at once.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct EventLoop {
    event_loop: Py<PyAny>,
}

#[pymethods]
impl EventLoop {
    #[new]
    fn new(event_loop: Py<PyAny>) -> Self {
        Self { event_loop }
    }
}

/// A callback, and its argument.
type Woken = (Py<PyAny>, Option<ClientError>);

/// A result for an event loop: future, result, whether it is an exception.
type Settled = (Py<PyAny>, Py<PyAny>, bool);

/// Sets the results of futures; runs on their loop. Those that were cancelled are left alone.
///
/// # Errors
/// The first that one of them raises, when all were set. Ctrl-C may come anywhere in here, and must
/// not leave the others without a result.
#[pyfunction]
pub fn settle(py: Python<'_>, settled: Vec<Settled>) -> PyResult<()> {
    let mut outcome = Ok(());
    for one in settled {
        outcome = outcome.and(settle_one(py, one));
    }
    outcome
}

fn settle_one(py: Python<'_>, (future, result, is_error): Settled) -> PyResult<()> {
    if !future.call_method0(py, "done")?.is_truthy(py)? {
        let method = if is_error { "set_exception" } else { "set_result" };
        future.call_method1(py, method, (result,))?;
    }
    Ok(())
}

/// Work of the thread.
enum Job {
    Report(Report<Token>),
    Wake(Woken),
}

/// How many were not told yet of those who asked between two flushes.
type Crowd = Arc<AtomicU64>;

/// One of a crowd, until dropped.
pub struct Waits(Crowd);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The crowds: a flush waits for all that are there, and not for those who come after it.
#[derive(Default)]
struct Crowds {
    now: Crowd,
    /// Crowds before a flush with receivers that wait for an outcome.
    before: Vec<Crowd>,
}

/// The thread that reports outcomes, and the receivers that wait.
#[derive(Default)]
pub struct Callbacks {
    callback_thread: Arc<CallbackThread<Job>>,
    crowds: Mutex<Crowds>,
}

impl Sink<Token> for Callbacks {
    fn reports(&self, reports: Vec<Report<Token>>) {
        // If the thread has ended, no receiver waits.
        self.callback_thread.push(reports.into_iter().map(Job::Report));
    }
}

impl Callbacks {
    /// A caller is about to wait: the thread must run. A flush that begins after this waits too.
    pub fn expect(self: &Arc<Self>) -> Waits {
        self.start();
        let crowds = self.crowds.lock();
        crowds.now.fetch_add(1, Ordering::SeqCst);
        Waits(Arc::clone(&crowds.now))
    }

    /// Starts the thread, if it does not run.
    pub fn start(self: &Arc<Self>) {
        let callbacks = Arc::clone(self);
        self.callback_thread.start(move |jobs| callbacks.tell(jobs));
    }

    /// Calls `callback(error)` on the thread, `error` being an exception or `None`.
    pub fn wake(&self, callback: Py<PyAny>, error: Option<ClientError>) {
        self.callback_thread.push([Job::Wake((callback, error))]);
    }

    /// All receivers that wait now; see [`Self::wait_reported`].
    pub fn waiting(&self) -> Vec<Arc<AtomicU64>> {
        let mut crowds = self.crowds.lock();
        let last = std::mem::take(&mut crowds.now);
        crowds.before.push(last);
        crowds.before.retain(|crowd| crowd.load(Ordering::SeqCst) > 0);
        crowds.before.clone()
    }

    /// Whether this is the thread that calls callbacks.
    pub fn is_here(&self) -> bool {
        self.callback_thread.is_here()
    }

    /// Waits until all of `waiting` got their outcomes; `false` if not by `until`.
    pub fn wait_reported(&self, waiting: &[Arc<AtomicU64>], until: Instant) -> bool {
        let told = || waiting.iter().all(|crowd| crowd.load(Ordering::SeqCst) == 0);
        self.callback_thread.wait(until, told)
    }

    /// Ends the thread when it has told all it has; `false` if it has not by `until`.
    pub fn close(&self, until: Instant) -> bool {
        self.callback_thread.close(until)
    }

    fn tell(&self, jobs: Vec<Job>) {
        let (mut reports, mut wakes) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            match job {
                Job::Report(report) => reports.push(report),
                Job::Wake(woken) => wakes.push(woken),
            }
        }
        // Without an interpreter there is no receiver left.
        interpreter::enter(|py| tell(py, reports, wakes));
    }
}

fn tell(py: Python<'_>, reports: Vec<Report<Token>>, wakes: Vec<Woken>) {
    for (callback, error) in wakes {
        let error = error.map_or_else(|| py.None(), |error| exception(py, &error));
        call(py, &callback, (error,));
    }
    let mut loops: Vec<(Py<EventLoop>, Vec<Settled>)> = Vec::new();
    // Event loops get their results last, and all at once.
    let mut told_last: Vec<Waits> = Vec::new();
    for report in reports {
        // From here on the memory of the batch is free: callbacks may send.
        drop(report.memory);
        for token in report.tokens {
            let Some(fate) = report.handle.result(token.index, token.timestamp_ms) else {
                continue;
            };
            let Token { who, waits } = token.value;
            match who {
                Who::Callback(callback) => tell_one(py, &callback, fate),
                Who::Done { callback, delivery } => call(py, &callback, (delivery,)),
                Who::Future { future, event_loop } => {
                    told_last.push(waits);
                    let Some(settled) = settled(py, future, fate) else { continue };
                    match loops.iter_mut().find(|(known, _)| known.is(&event_loop)) {
                        Some((_, all)) => all.push(settled),
                        None => loops.push((event_loop, vec![settled])),
                    }
                }
                Who::Batch(watch) => {
                    watch.look(py, waits).unwrap_or_else(|raised| raised.write(py));
                }
            }
        }
    }
    for (event_loop, settled) in loops {
        if let Err(error) = tell_loop(py, &event_loop, settled) {
            // A closed loop has no waiting tasks.
            tracing_closed(py, &error);
        }
    }
    drop(told_last);
}

/// `callback(error, None)` or `callback(None, metadata)`.
fn tell_one(py: Python<'_>, callback: &Py<PyAny>, fate: Result<Metadata, Failure>) {
    match fate {
        Ok(metadata) => match Py::new(py, RecordMetadata::from(metadata)) {
            Ok(metadata) => call(py, callback, (py.None(), metadata)),
            Err(error) => error.write_unraisable(py, Some(callback.bind(py))),
        },
        Err(failure) => call(py, callback, (exception(py, &failure), py.None())),
    }
}

/// What a callback raises goes to `sys.unraisablehook`.
fn call<'py>(py: Python<'py>, callback: &Py<PyAny>, arguments: impl pyo3::call::PyCallArgs<'py>) {
    Raised::by(py, callback, arguments).unwrap_or_else(|raised| raised.write(py));
}

/// What a callback raised.
pub struct Raised {
    callback: Py<PyAny>,
    error: PyErr,
}

impl Raised {
    /// Calls it.
    ///
    /// # Errors
    /// What it raises.
    pub fn by<'py>(
        py: Python<'py>,
        callback: &Py<PyAny>,
        arguments: impl pyo3::call::PyCallArgs<'py>,
    ) -> Result<(), Self> {
        let called = callback.call1(py, arguments);
        called.map(drop).map_err(|error| Self { callback: callback.clone_ref(py), error })
    }

    /// Gives it to `sys.unraisablehook`.
    fn write(self, py: Python<'_>) {
        self.error.write_unraisable(py, Some(self.callback.bind(py)));
    }

    /// The same for a callback that its program's own thread called: what ends the program or its
    /// task goes on there, as in `concurrent.futures`.
    ///
    /// # Errors
    /// What is no `Exception`.
    pub fn here(self, py: Python<'_>) -> PyResult<()> {
        if ends_something(py, &self.error) {
            return Err(self.error);
        }
        self.write(py);
        Ok(())
    }
}

fn settled(py: Python<'_>, future: Py<PyAny>, fate: Result<Metadata, Failure>) -> Option<Settled> {
    match fate {
        Ok(metadata) => {
            let metadata = Py::new(py, RecordMetadata::from(metadata)).ok()?;
            Some((future, metadata.into_any(), false))
        }
        Err(failure) => Some((future, exception(py, &failure), true)),
    }
}

fn tell_loop(py: Python<'_>, event_loop: &Py<EventLoop>, all: Vec<Settled>) -> PyResult<()> {
    let list = PyList::new(py, all)?;
    let settle = wrap_pyfunction!(settle, py)?;
    let event_loop = &event_loop.get().event_loop;
    event_loop.call_method1(py, "call_soon_threadsafe", (settle, list)).map(|_| ())
}

/// Any other error than that of a closed loop is worth telling.
fn tracing_closed(py: Python<'_>, error: &PyErr) {
    if !error.is_instance_of::<pyo3::exceptions::PyRuntimeError>(py) {
        error.clone_ref(py).write_unraisable(py, None);
    }
}
