//! The binding: `kafkalite._native`. It converts and releases the GIL; it decides nothing.
//!
//! The module is built against Python's stable ABI from 3.11 on, so one wheel serves every later
//! release. A panic in Rust becomes an exception in Python; the process lives on.

use pyo3::prelude::*;

mod broker;
mod error;

/// Runs a verb of the command line and returns its exit code; `serve` returns when the broker has
/// stopped.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<String>) -> i32 {
    py.detach(|| kafkalite_broker::process::main(&args))
}

/// `main(["serve", *args])`.
#[pyfunction]
fn serve(py: Python<'_>, args: Vec<String>) -> i32 {
    let words = std::iter::once("serve".to_owned()).chain(args).collect();
    main(py, words)
}

/// The compiled half of kafkalite.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", kafkalite_broker::process::VERSION)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_class::<broker::Broker>()?;
    error::add_to(module)
}
