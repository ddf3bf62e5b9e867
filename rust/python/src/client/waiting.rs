//! Waiting for a client from a thread of Python: without the GIL, and with an eye on Ctrl-C.

use std::time::{Duration, Instant};

use kafkalite_client::ClientError;
use pyo3::prelude::*;

use super::arguments::Seconds;
use crate::error::client_error;

/// How long Ctrl-C may wait.
pub const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Calls `step` with times to wait until, the GIL released, until it has something or `deadline`
/// has passed; `None` for the latter.
///
/// # Errors
/// What a signal's handler raises, `KeyboardInterrupt` for one.
pub fn wait<R: Send>(
    py: Python<'_>,
    deadline: Option<Instant>,
    mut step: impl FnMut(Instant) -> Option<R> + Send,
) -> PyResult<Option<R>> {
    loop {
        let now = Instant::now();
        let until = now.checked_add(SIGNALS_EVERY).unwrap_or(now);
        let until = deadline.map_or(until, |deadline| until.min(deadline));
        let done = py.detach(|| step(until));
        if done.is_some() {
            return Ok(done);
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// Whether a wait is to end before its time: `hurried()` says so, on the thread that waits.
///
/// # Errors
/// What a signal's handler raises, `KeyboardInterrupt` for one, or what `hurried` raises.
pub fn is_hurried(hurried: Option<&Py<PyAny>>) -> PyResult<bool> {
    Python::attach(|py| {
        py.check_signals()?;
        hurried.map_or(Ok(false), |ask| ask.call0(py)?.is_truthy(py))
    })
}

/// The exception of a wait that took too long.
pub fn timed_out(py: Python<'_>, what: &str, timeout: Option<Seconds>) -> PyErr {
    let after_ms = timeout.map_or(0, |timeout| timeout.duration().as_millis() as u64);
    client_error(py, &ClientError::Timeout { what: what.to_owned(), after_ms })
}
