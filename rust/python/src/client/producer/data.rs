//! From Python's objects to the bytes of records: keys, values, headers; one by one or in lists.

use std::borrow::Cow;

use kafkalite_client::producer::write_header;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use crate::error::ends_something;

/// Bytes of a record: borrowed if they cannot change.
pub type Data<'a> = Option<Cow<'a, [u8]>>;

/// The bytes of `object`: of bytes, of a text its UTF-8, of anything else its buffer.
///
/// # Errors
/// `TypeError` if it has none; `what` is what the error calls it.
#[inline]
pub fn data<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Data<'a>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Some(Cow::Borrowed(bytes.as_bytes())));
    }
    other_data(object, what)
}

#[cold]
fn other_data<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Data<'a>> {
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(Cow::Borrowed(text.to_str()?.as_bytes())));
    }
    match PyBuffer::<u8>::get(object) {
        Ok(buffer) => Ok(Some(Cow::Owned(buffer.to_vec(object.py())?))),
        Err(error) if ends_something(object.py(), &error) => Err(error),
        Err(_) => {
            let name = object.get_type().name()?;
            let expected = format!("a record's {what} must be bytes, str or None, not {name}");
            let instead = match what {
                "header" => String::new(),
                what => format!("; or pass a {what}_serializer"),
            };
            Err(PyTypeError::new_err(format!("{expected}{instead}")))
        }
    }
}

/// Encodes headers at the end of `out`: a mapping, or pairs of a name and bytes, text or `None`.
/// Returns how many there are.
pub fn headers(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<i32> {
    let items = if is_mapping(object)? { object.call_method0("items")? } else { object.clone() };
    let mut count = 0;
    let refused = |error: PyErr| {
        if ends_something(object.py(), &error) {
            return Ok(error);
        }
        let name = object.get_type().name()?;
        let expected = "headers must be a mapping, or pairs of a text and bytes, str or None";
        Ok::<_, PyErr>(PyTypeError::new_err(format!("{expected}, not {name}")))
    };
    for item in items.try_iter().or_else(|error| Err(refused(error)?))? {
        let pair = item?.extract::<(Bound<'_, PyString>, Bound<'_, PyAny>)>();
        let (name, value) = pair.or_else(|error| Err(refused(error)?))?;
        write_header(out, name.to_str()?, data(&value, "header")?.as_deref());
        count += 1;
    }
    Ok(count)
}

/// Refuses what can be iterated over and is one value, or a mapping of which only keys would count.
///
/// # Errors
/// `TypeError`.
pub fn check_is_many(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let one = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    if !one && !is_mapping(object)? {
        return Ok(());
    }
    let name = object.get_type().name()?;
    let hint = "send and produce take one record";
    Err(PyTypeError::new_err(format!("values must be a list or Arrow, not {name}; {hint}")))
}

/// Whether `object` is a `collections.abc.Mapping`.
///
/// # Errors
/// What the check raises. It runs Python code, so Ctrl-C may come here; `PyMapping` would lose it.
pub fn is_mapping(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static MAPPING: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if object.is_instance_of::<PyDict>() || is_list(object) {
        return Ok(object.is_instance_of::<PyDict>());
    }
    object.is_instance(MAPPING.import(object.py(), "collections.abc", "Mapping")?)
}

/// Whether `object` is a sequence of elements, not one value.
pub fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>()
}
