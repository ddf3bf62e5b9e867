//! A broker inside the Python process: the same broker that `serve` runs, without its process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kafkalite_broker::process::{self, Embedded};
use pyo3::prelude::*;

use crate::error::start_error;

/// A broker that runs on threads of this process.
///
/// `config` holds keys with dots, over the profile `dev`; `topics` are made when it starts: names,
/// and partitions or `None`. Nothing is read from files or the environment.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Broker {
    config: BTreeMap<String, String>,
    topics: Vec<(String, Option<i32>)>,
    running: Mutex<Option<Embedded>>,
}

impl Broker {
    fn running(&self) -> MutexGuard<'_, Option<Embedded>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Broker {
    #[new]
    #[pyo3(signature = (config, topics))]
    fn new(config: BTreeMap<String, String>, topics: Vec<(String, Option<i32>)>) -> Self {
        Self { config, topics, running: Mutex::new(None) }
    }

    /// Starts it; it serves when this returns. Starting a running broker does nothing.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let started = py.detach(|| {
            let mut running = self.running();
            if running.is_none() {
                *running = Some(Embedded::start(&self.config, &self.topics)?);
            }
            Ok(())
        });
        started.map_err(|failure| start_error(py, &failure))
    }

    /// Stops it; its records stay in its directory. Stopping a stopped broker does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let running = self.running().take();
            if let Some(running) = running {
                running.stop();
            }
        });
    }

    /// Ends it as a crash does, as far as threads can: nothing is flushed, nobody is told.
    fn kill(&self, py: Python<'_>) {
        py.detach(|| {
            let running = self.running().take();
            if let Some(running) = running {
                running.kill();
            }
        });
    }

    /// `HOST:PORT` of every listener, comma-separated; `None` while it does not run.
    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.running().as_ref().map(Embedded::bootstrap_servers))
    }

    /// URL of metrics and health; `None` if they are off or it does not run.
    #[getter]
    fn admin_url(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.running().as_ref().and_then(Embedded::admin_url))
    }
}

/// Lines of the log of `level` and graver ones wait for `next_log_lines` from now on.
#[pyfunction]
pub fn forward_log(py: Python<'_>, level: &str) -> PyResult<()> {
    py.detach(|| process::forward_log(level)).map_err(|failure| start_error(py, &failure))
}

/// Waits for lines: level, module, text. `None`: `stop_log` was called.
#[pyfunction]
pub fn next_log_lines(py: Python<'_>, most: usize) -> Option<Vec<(&'static str, String, String)>> {
    let lines = py.detach(|| process::next_log_lines(most))?;
    Some(lines.into_iter().map(|line| (line.level, line.target, line.message)).collect())
}

/// Nothing more is forwarded, and the thread in `next_log_lines` returns.
#[pyfunction]
pub fn stop_log(py: Python<'_>) {
    py.detach(process::stop_log);
}
