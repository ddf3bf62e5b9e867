//! `_native.AdminClient`: every call starts an operation and returns it.

use super::operation::Operation;
use super::shell::Shell;
use crate::error::client_error;
use kafkalite_client::admin::Admin;
use kafkalite_client::{ClientConfig, ClientKind, Cluster};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// An admin client; results are tuples, in the order of the fields of Python's classes.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct AdminClient {
    shell: Shell<Admin>,
    warnings: Vec<String>,
}

/// A time limit in seconds; none is the client's own.
fn limit(timeout: Option<f64>) -> Option<Duration> {
    timeout.map(|timeout| Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX))
}

#[pymethods]
impl AdminClient {
    #[new]
    fn new(py: Python<'_>, pairs: BTreeMap<String, String>) -> PyResult<Self> {
        let config = ClientConfig::from_pairs(ClientKind::Admin, &pairs);
        let config = config.map_err(|error| client_error(py, &error))?;
        let warnings = config.warnings.clone();
        let shell = Shell::start(py, "admin client", Admin::new(Cluster::new(config)))?;
        Ok(Self { shell, warnings })
    }

    /// What the configuration has that changes nothing.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shell.is_closed()
    }

    /// Ends its thread and connections; whether that took no longer than `timeout` seconds.
    fn close(&self, py: Python<'_>, timeout: f64) -> bool {
        self.shell.close(py, timeout)
    }

    fn describe_cluster(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Operation> {
        let limit = limit(timeout);
        self.shell.begin(
            py,
            "describing the cluster",
            |admin| {
                let admin = admin.clone();
                async move { admin.describe_cluster(limit).await }
            },
            |py, told| {
                let brokers = told.brokers.into_iter();
                let brokers: Vec<_> =
                    brokers.map(|b| (b.id, b.place.host, b.place.port, b.rack, b.fenced)).collect();
                Ok((told.cluster_id, told.controller, brokers)
                    .into_pyobject(py)?
                    .into_any()
                    .unbind())
            },
        )
    }
}
