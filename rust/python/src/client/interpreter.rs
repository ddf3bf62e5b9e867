//! Python from threads of ours, while there is one.
//!
//! A thread that asks for the interpreter while it ends never comes back. So the interpreter is
//! closed before that: at exit no thread enters any more, and the hook waits for the threads
//! inside. Clients' threads call Python only through [`enter`]. The same hooks tell a forked child
//! that it is one.

use kafkalite_client::fork;
use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::time::Duration;

/// Whether the interpreter is about to end; held for reading while a thread is inside.
static CLOSED: RwLock<bool> = RwLock::new(false);

/// How long the end of the process waits for callbacks. In a forked child a thread that does not
/// exist may be inside.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `what` with the interpreter; `None` when there is none any more.
pub fn enter<T>(what: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let closed = CLOSED.read();
    if *closed { None } else { Python::try_attach(what) }
}

/// Has the hooks called; the first client of a process does it.
///
/// Python runs meanwhile, and may let other threads run. Another thread that makes a client must
/// not wait here while it holds the GIL, so it registers the hooks too. Hooks that run twice do no
/// harm.
pub fn watch(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    if WATCHED.get(py).is_some() {
        return Ok(());
    }
    let at_fork = PyDict::new(py);
    at_fork.set_item("after_in_child", wrap_pyfunction!(forked, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&at_fork))?;
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(ending, py)?,))?;
    // Another thread may have come first.
    let _ = WATCHED.set(py, ());
    Ok(())
}

/// Called in a forked child.
#[pyfunction]
fn forked() {
    fork::in_child();
}

/// Called before the interpreter ends.
#[pyfunction]
fn ending(py: Python<'_>) {
    py.detach(|| {
        if let Some(mut closed) = CLOSED.try_write_for(PATIENCE) {
            *closed = true;
        }
    });
}
