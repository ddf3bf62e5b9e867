//! Clients for Python: what each of them needs of the binding.
//!
//! `shell` holds a client's thread and its cluster, and says no after a fork or a close; an
//! `operation` is something under way that Python waits for, blocking or in asyncio; `interpreter`
//! is the one way for a thread of ours to call Python, `teller` the thread that does.

mod admin;
mod columns;
mod consumer;
mod handover;
pub mod interpreter;
pub mod operation;
mod producer;
mod ranges;
mod record;
mod record_batch;
pub mod shell;
mod teller;
pub mod waiting;

use kafkalite_client::config;
use pyo3::prelude::*;

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
    module.add_function(wrap_pyfunction!(client_keys, module)?)
}
