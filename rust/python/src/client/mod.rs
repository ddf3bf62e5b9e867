//! Clients for Python: what each of them needs of the binding.
//!
//! `shell` holds a client's thread and its cluster, and refuses calls after a fork or a close. An
//! `operation` is work that Python waits for, blocking or in asyncio. `interpreter` is the only way
//! for our threads to call Python, and `callback_thread` is the thread that calls callbacks.

mod admin;
mod arguments;
mod callback_thread;
mod capsules;
mod columns;
mod consumer;
mod doorbell;
mod handover;
pub mod interpreter;
pub mod operation;
mod producer;
mod ranges;
mod record;
mod record_batch;
pub mod shell;
pub mod waiting;

use std::collections::BTreeMap;

use kafkalite_client::config::{self, ClientKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::client_error;

/// Name, whose it is, type, default, valid values, meaning.
type KeyRow = (&'static str, String, &'static str, Option<&'static str>, String, &'static str);

/// Every key of every client.
#[pyfunction]
fn client_keys() -> Vec<KeyRow> {
    config::keys()
        .map(|key| {
            let owner = format!("{:?}", key.owner).to_lowercase();
            (key.name, owner, key.kind.name(), key.default, key.valid_values(), key.doc)
        })
        .collect()
}

/// Checks keys without making their client; returns what the user should know of.
#[pyfunction]
fn check_client_keys(
    py: Python<'_>,
    client: &str,
    pairs: BTreeMap<String, String>,
) -> PyResult<Vec<String>> {
    let mut kinds = [ClientKind::Producer, ClientKind::Consumer].into_iter();
    let kind = kinds.find(|kind| kind.name() == client);
    let kind = kind.ok_or_else(|| PyValueError::new_err(format!("no client `{client}`")))?;
    config::check(kind, &pairs).map_err(|error| client_error(py, &error))
}

/// What `module.function(object)` of the package returns: what is for people is written in Python.
fn in_python<'py, T>(
    object: &Bound<'py, T>,
    module: &str,
    function: &str,
) -> PyResult<Bound<'py, PyAny>> {
    object.py().import(module)?.call_method1(function, (object.as_any(),))
}

/// Adds the clients to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<operation::Operation>()?;
    module.add_class::<admin::AdminClient>()?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<handover::Handover>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<record_batch::RecordBatch>()?;
    module.add_class::<ranges::ColumnBatch>()?;
    module.add_class::<ranges::RangeReader>()?;
    producer::add_to(module)?;
    module.add_function(wrap_pyfunction!(check_client_keys, module)?)?;
    module.add_function(wrap_pyfunction!(client_keys, module)?)
}
