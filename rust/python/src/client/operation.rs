//! Something under way on a client's thread, that Python waits for.
//!
//! Waiting releases the GIL, and looks for Ctrl-C ten times a second. The thread that takes the
//! result makes Python's objects of it, never the client's thread. Callbacks have a thread of their
//! own, because the client's thread has to send heartbeats and must not wait for the GIL. Dropping
//! an operation ends it.

use super::arguments::Seconds;
use super::callback_thread::CallbackThread;
use super::interpreter;
use crate::error::client_error;
use kafkalite_client::ClientError;
use kafkalite_client::fork::ForkGuard;
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// How long Ctrl-C may wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Makes the result for Python.
type Outcome = Result<Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>, ClientError>;

enum State {
    Running { callbacks: Vec<Py<PyAny>> },
    Done(Outcome),
    Taken,
}

/// The thread of a client that calls its operations' callbacks.
#[derive(Clone, Default)]
pub struct Callbacks(Arc<CallbackThread<Py<PyAny>>>);

impl Callbacks {
    fn start(&self) {
        self.0.start(tell);
    }

    /// Calls all of them: on the thread, or here where it has ended.
    fn call(&self, callbacks: Vec<Py<PyAny>>) {
        let left = self.0.push(callbacks);
        if !left.is_empty() {
            tell(left);
        }
    }

    /// Ends the thread when all were called, and waits for that until then at most.
    pub fn close(&self, until: Instant) -> bool {
        self.0.close(until)
    }
}

struct Slot {
    state: Mutex<State>,
    done: Condvar,
    callbacks: Callbacks,
    what: &'static str,
}

/// The side that has the result. Dropped without one, as at the end of its client, it says so.
pub struct Promise(Arc<Slot>);

impl Promise {
    /// Sets the result and wakes the waiting callers.
    pub fn set(self, outcome: Outcome) {
        self.0.set(outcome);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.set(Err(ClientError::Closed { what: "the client".to_owned() }));
    }
}

impl Slot {
    fn set(&self, outcome: Outcome) {
        let before = {
            let mut state = self.state.lock();
            match &*state {
                State::Running { .. } => std::mem::replace(&mut *state, State::Done(outcome)),
                State::Done(_) | State::Taken => return,
            }
        };
        self.done.notify_all();
        if let State::Running { callbacks } = before {
            self.callbacks.call(callbacks);
        }
    }
}

/// Calls each; what one raises goes to `sys.unraisablehook`.
fn tell(callbacks: Vec<Py<PyAny>>) {
    // Without an interpreter there is no caller to wake.
    interpreter::enter(|py| {
        for callback in callbacks {
            if let Err(error) = callback.call0(py) {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        }
    });
}

/// A pair of the side that has the result and the side that waits for it.
pub fn operation(what: &'static str, callbacks: &Callbacks) -> (Promise, Arc<Waiter>) {
    let state = Mutex::new(State::Running { callbacks: Vec::new() });
    let callbacks = callbacks.clone();
    let slot = Arc::new(Slot { state, done: Condvar::new(), callbacks, what });
    (Promise(Arc::clone(&slot)), Arc::new(Waiter { slot: ForkGuard::new(slot) }))
}

/// The side that waits.
pub struct Waiter {
    slot: ForkGuard<Arc<Slot>>,
}

/// Python's handle of an operation.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Operation {
    waiter: Arc<Waiter>,
    task: ForkGuard<AbortHandle>,
}

impl Operation {
    /// An operation whose task can be ended.
    pub fn new(waiter: Arc<Waiter>, task: AbortHandle) -> Self {
        Self { waiter, task: ForkGuard::new(task) }
    }

    fn slot(&self, py: Python<'_>) -> PyResult<&Slot> {
        self.waiter.slot.get().map(|slot| &**slot).map_err(|error| client_error(py, &error))
    }
}

#[pymethods]
impl Operation {
    /// Waits for the result and returns it, once; `timeout` is in seconds.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        let slot = self.slot(py)?;
        let began = Instant::now();
        let deadline = timeout.and_then(Seconds::deadline);
        loop {
            let step = began.elapsed().saturating_add(SIGNALS_EVERY);
            let until = began.checked_add(step).unwrap_or(began);
            let until = deadline.map_or(until, |deadline| until.min(deadline));
            if let Some(outcome) = py.detach(|| slot.take_until(until)) {
                return match outcome {
                    Ok(make) => make(py),
                    Err(error) => Err(client_error(py, &error)),
                };
            }
            py.check_signals().inspect_err(|_| self.end())?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let after_ms = began.elapsed().as_millis() as u64;
                let late = ClientError::Timeout { what: slot.what.to_owned(), after_ms };
                return Err(client_error(py, &late));
            }
        }
    }

    /// Whether there is a result to take.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!matches!(*self.slot(py)?.state.lock(), State::Running { .. }))
    }

    /// Ends it; waiting callers get a ClosedError.
    fn cancel(&self) {
        self.end();
    }

    /// Calls `callback()` when there is a result, on a thread for that: it may take its time.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let slot = self.slot(py)?;
        slot.callbacks.start();
        {
            let mut state = slot.state.lock();
            if let State::Running { callbacks } = &mut *state {
                callbacks.push(callback);
                return Ok(());
            }
        }
        // Quick ends are as many as slow ones: neither may delay the caller.
        py.detach(|| slot.callbacks.call(vec![callback]));
        Ok(())
    }
}

impl Operation {
    fn end(&self) {
        if let Ok(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.end();
    }
}

impl Slot {
    fn take_until(&self, deadline: Instant) -> Option<Outcome> {
        let mut state = self.state.lock();
        while matches!(*state, State::Running { .. }) {
            if self.done.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => Some(outcome),
            State::Taken => {
                let why = "the result was taken already".to_owned();
                Some(Err(ClientError::IllegalState { why }))
            }
            running @ State::Running { .. } => {
                *state = running;
                None
            }
        }
    }
}
