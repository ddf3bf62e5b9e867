//! Numbers as Python gives them: what is none is refused in words that say what would be one.

use std::time::{Duration, Instant};

use kafkalite_client::ClientError;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{client_error, ends_something};

/// A time limit in seconds, not below 0.
#[derive(Clone, Copy)]
pub struct Seconds(f64);

impl Seconds {
    /// The same; what is too long for one is as long as can be.
    pub fn duration(self) -> Duration {
        Duration::try_from_secs_f64(self.0).unwrap_or(Duration::MAX)
    }

    /// When that is over, from now; `None` is never.
    pub fn deadline(self) -> Option<Instant> {
        Instant::now().checked_add(self.duration())
    }
}

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<f64>() {
            Ok(seconds) if !seconds.is_nan() => Ok(Self(seconds.max(0.0))),
            Ok(_) => {
                let (what, why) = ("timeout".to_owned(), "nan is no number of seconds".to_owned());
                Err(client_error(given.py(), &ClientError::InvalidArgument { what, why }))
            }
            // Of `__float__`, or of a signal's handler that ran in it.
            Err(error) if ends_something(given.py(), &error) => Err(error),
            Err(_) => Err(mistaken(
                &given,
                "a time limit is a number of seconds",
                "total_seconds",
                "pass timeout.total_seconds().",
            )),
        }
    }
}

/// A record's time in ms since 1970, UTC; not below 0.
#[derive(Clone, Copy)]
pub struct TimestampMs(pub i64);

impl<'py> FromPyObject<'_, 'py> for TimestampMs {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<i64>() {
            Ok(ms) => checked_ms(given.py(), ms).map(Self),
            Err(error) if ends_something(given.py(), &error) => Err(error),
            Err(_) => Err(mistaken(
                &given,
                "a timestamp is a whole number of milliseconds since 1970",
                "timestamp",
                "pass int(when.timestamp() * 1000).",
            )),
        }
    }
}

/// A record's time, which Kafka's clients take from 0 on: what is below says "no time" on the wire.
#[inline]
pub fn checked_ms(py: Python<'_>, ms: i64) -> PyResult<i64> {
    if ms >= 0 { Ok(ms) } else { Err(negative(py, ms)) }
}

#[cold]
fn negative(py: Python<'_>, ms: i64) -> PyErr {
    let (what, why) = ("timestamp".to_owned(), format!("{ms} is negative; leave it out for now"));
    client_error(py, &ClientError::InvalidArgument { what, why })
}

/// Refuses keywords that a call does not have, with a hint for those of other clients. Python's own
/// error would have none.
#[inline]
pub fn refuse(unexpected: Option<&Bound<'_, PyDict>>, call: &str) -> PyResult<()> {
    match unexpected {
        None => Ok(()),
        Some(given) => {
            let arguments = given.py().import("kafkalite.arguments")?;
            let error =
                arguments.call_method1("unexpected", (format!("Producer.{call}"), given))?;
            Err(PyErr::from_value(error))
        }
    }
}

/// The error for an attribute that is not there, with a hint where others have it.
pub fn absent(py: Python<'_>, class: &str, name: &str) -> PyErr {
    let text = format!("'{class}' object has no attribute '{name}'");
    let error = PyAttributeError::new_err(text);
    let hinted = py
        .import("kafkalite.arguments")
        .and_then(|arguments| arguments.call_method1("absent_hint", (error.value(py), name)));
    match hinted {
        Ok(hinted) => PyErr::from_value(hinted),
        Err(other) if ends_something(py, &other) => other,
        Err(_) => error,
    }
}

/// A `TypeError` that names what was given; with `hint` if that has `attribute`, as what people
/// have in place of a number may.
#[cold]
fn mistaken(given: &Bound<'_, PyAny>, text: &str, attribute: &str, hint: &str) -> PyErr {
    let py = given.py();
    let kind = given.get_type();
    let name = kind.name();
    let name = name.as_ref().map_or("that".into(), |name| name.to_string_lossy());
    let error = PyTypeError::new_err(format!("{text}, not {name}"));
    let method = given.getattr(attribute);
    if let Err(other) = &method
        && ends_something(py, other)
    {
        return other.clone_ref(py);
    }
    if method.is_ok_and(|method| method.is_callable()) {
        // Without the note the error still says what is wrong.
        let _ = error.value(py).call_method1("add_note", (format!("hint: {hint}"),));
    }
    error
}
