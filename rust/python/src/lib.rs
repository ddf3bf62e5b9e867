//! The binding: `kafkalite._native`. It converts and releases the GIL; it decides nothing.
//!
//! The module is built against Python's stable ABI from 3.11 on, so one wheel serves every later
//! release. A panic in Rust becomes an exception in Python; the process lives on.

use pyo3::prelude::*;

mod broker;
mod client;
mod config_table;
mod error;
mod group_records;
mod log_files;

/// Runs `kafkalite serve` with these words and returns its exit code when the broker has stopped.
/// `on_ready` is called with its addresses and the URL of metrics and health when it serves.
#[pyfunction]
#[pyo3(signature = (args, on_ready=None))]
fn serve(py: Python<'_>, args: Vec<String>, on_ready: Option<Py<PyAny>>) -> i32 {
    let before = set_interrupt_handler(py, py.None());
    let ready = |servers: &str, admin_url: Option<&str>| {
        let Some(on_ready) = &on_ready else { return };
        Python::attach(|py| {
            if let Err(error) = on_ready.call1(py, (servers, admin_url)) {
                error.write_unraisable(py, Some(on_ready.bind(py)));
            }
        });
    };
    let exit_code = py.detach(|| kafkalite_broker::process::main(&args, &ready));
    if let Some(before) = before {
        set_interrupt_handler(py, before);
    }
    exit_code
}

/// Gives SIGINT to `handler`, or to the system for `None`, and returns who had it. Python's own
/// handler would raise KeyboardInterrupt after a stop that SIGINT asked for. Only the main thread
/// has handlers; in any other nothing happens.
fn set_interrupt_handler(py: Python<'_>, handler: Py<PyAny>) -> Option<Py<PyAny>> {
    let signal = py.import("_signal").ok()?;
    let number = signal.getattr("SIGINT").ok()?;
    let handler =
        if handler.is_none(py) { signal.getattr("SIG_DFL").ok()?.unbind() } else { handler };
    let before = signal.call_method1("signal", (number, handler)).ok()?;
    Some(before.unbind())
}

/// The compiled half of kafkalite.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", kafkalite_broker::process::VERSION)?;
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_class::<broker::Broker>()?;
    module.add_class::<broker::RecentRequest>()?;
    module.add_function(wrap_pyfunction!(broker::forward_log, module)?)?;
    module.add_function(wrap_pyfunction!(broker::next_log_lines, module)?)?;
    module.add_function(wrap_pyfunction!(broker::stop_log, module)?)?;
    module.add_function(wrap_pyfunction!(error::error_codes, module)?)?;
    client::add_to(module)?;
    config_table::add_to(module)?;
    group_records::add_to(module)?;
    log_files::add_to(module)
}
