//! A client's thread and what runs on it, behind one door that says no after a fork or a close.

use super::arguments::Seconds;
use super::interpreter;
use super::operation::{Callbacks, Operation, operation};
use crate::error::client_error;
use kafkalite_client::fork::ForkGuard;
use kafkalite_client::{ClientError, Runtime};
use pyo3::prelude::*;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// No close takes longer.
pub const LONGEST_CLOSE: Duration = Duration::from_secs(3_600);

/// Makes no result into Python's.
pub fn none(py: Python<'_>, (): ()) -> PyResult<Py<PyAny>> {
    Ok(py.None())
}

/// A runtime and the client on it.
pub struct Shell<C> {
    name: &'static str,
    inside: ForkGuard<(Runtime, C)>,
    callbacks: Callbacks,
    closed: AtomicBool,
}

impl<C> Shell<C> {
    /// Starts the thread and makes the client; `name` is what errors call it.
    pub fn start(py: Python<'_>, name: &'static str, client: C) -> PyResult<Self> {
        interpreter::watch(py)?;
        let runtime = py.detach(|| Runtime::start(name));
        let runtime = runtime.map_err(|error| client_error(py, &error))?;
        Ok(Self {
            name,
            inside: ForkGuard::new((runtime, client)),
            callbacks: Callbacks::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The client, if this is its process and it is open.
    pub fn get(&self) -> Result<&(Runtime, C), ClientError> {
        let inside = self.inside.get()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(ClientError::Closed { what: self.name.to_owned() });
        }
        Ok(inside)
    }

    /// Starts `future` on the thread; `convert` makes its result into Python's, where it is taken.
    pub fn begin<F, T>(
        &self,
        py: Python<'_>,
        what: &'static str,
        future: impl FnOnce(&C) -> F,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let begun = self.get().and_then(|(runtime, client)| {
            begin_on(runtime, &self.callbacks, what, future(client), convert)
        });
        begun.map_err(|error| client_error(py, &error))
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends the thread, and waits `timeout` seconds for that; whether it ended. In a forked child
    /// there is nothing to end.
    pub fn close(&self, py: Python<'_>, timeout: Seconds) -> bool {
        self.closed.store(true, Ordering::Release);
        let Ok((runtime, _)) = self.inside.get() else { return true };
        let timeout = timeout.duration();
        let (callbacks, until) = (&self.callbacks, Instant::now() + timeout.min(LONGEST_CLOSE));
        py.detach(|| runtime.shutdown(timeout) & callbacks.close(until))
    }
}

impl<C> Drop for Shell<C> {
    /// It was not closed: the callback thread has no reason to stay. A forked child never had the
    /// thread.
    fn drop(&mut self) {
        if self.inside.get().is_ok() {
            self.callbacks.close(Instant::now());
        }
    }
}

/// Starts `future` on a runtime; `convert` makes its result into Python's, where it is taken.
pub fn begin_on<F, T>(
    runtime: &Runtime,
    callbacks: &Callbacks,
    what: &'static str,
    future: F,
    convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Result<Operation, ClientError>
where
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
    T: Send + 'static,
{
    let (promise, waiter) = operation(what, callbacks);
    let task = runtime.spawn(async move {
        let result = future.await;
        promise.set(result.map(|value| {
            let make = move |py: Python<'_>| convert(py, value);
            Box::new(make) as Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>
        }));
    })?;
    Ok(Operation::new(waiter, task))
}
