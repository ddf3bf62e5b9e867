//! A broker inside the Python process: the same broker that `serve` runs, without its process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kafkalite_broker::process::Embedded;
use pyo3::prelude::*;

use crate::error::start_error;

/// A broker that runs on threads of this process.
///
/// `config` holds keys with dots. Nothing is read from files or the environment.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Broker {
    config: BTreeMap<String, String>,
    running: Mutex<Option<Embedded>>,
}

#[pymethods]
impl Broker {
    #[new]
    #[pyo3(signature = (config))]
    fn new(config: BTreeMap<String, String>) -> Self {
        Self { config, running: Mutex::new(None) }
    }

    /// Starts it; it serves when this returns. Starting a running broker does nothing.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let started = py.detach(|| {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.is_none() {
                *running = Some(Embedded::start(&self.config)?);
            }
            Ok(())
        });
        started.map_err(|failure| start_error(py, &failure))
    }

    /// Stops it; its records stay in its directory. Stopping a stopped broker does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(running) = running {
                running.stop();
            }
        });
    }

    /// `HOST:PORT` of every listener, comma-separated; `None` while it does not run.
    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().map(Embedded::bootstrap_servers)
        })
    }

    /// URL of metrics and health; `None` if they are off or it does not run.
    #[getter]
    fn admin_url(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().and_then(Embedded::admin_url)
        })
    }
}
