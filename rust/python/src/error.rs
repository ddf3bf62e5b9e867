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

/// The exception for a tool's `failure`: its text, and what a command makes of it as attributes:
/// `what`, `why`, `hint` and `exit_code`.
pub fn refused(py: Python<'_>, failure: &Failure) -> PyErr {
    let why = failure.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let error = KafkaliteError::new_err(format!("{}{why}", failure.what));
    let value = error.value(py);
    let told = [("what", Some(&failure.what)), ("why", failure.why.as_ref())]
        .into_iter()
        .chain([("hint", Some(&failure.hint))])
        .try_for_each(|(name, text)| value.setattr(name, text));
    match told.and_then(|()| value.setattr("exit_code", failure.exit_code)) {
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
