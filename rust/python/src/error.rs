//! From Rust's errors to Python's exceptions: the only mapping there is.

use kafkalite_broker::process::Failure;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(kafkalite._native, KafkaliteError, PyException, "Anything kafkalite refuses.");
create_exception!(
    kafkalite._native,
    BrokerStartError,
    KafkaliteError,
    "The broker does not start: a wrong configuration, a taken port, a locked directory."
);

/// The exception for `failure`: its text, and its hint as the attribute `hint`.
pub fn start_error(py: Python<'_>, failure: &Failure) -> PyErr {
    let why = failure.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let error = BrokerStartError::new_err(format!("{}{why}", failure.what));
    match error.value(py).setattr("hint", &failure.hint) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Adds the exceptions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("KafkaliteError", py.get_type::<KafkaliteError>())?;
    module.add("BrokerStartError", py.get_type::<BrokerStartError>())
}
