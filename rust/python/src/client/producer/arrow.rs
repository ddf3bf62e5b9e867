//! Opens the capsules of Arrow's PyCapsule interface. A marked room of unsafe code: a capsule is a
//! pointer and a name.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

#![allow(unsafe_code)]

use std::ffi::CStr;

use kafkalite_arrow::{ArrowArray, ArrowArrayStream, ArrowSchema, ImportError, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The stream that `object` offers; `None` if it offers none.
///
/// # Errors
/// What it raises, or `ValueError` for a capsule of another name.
pub fn stream(object: &Bound<'_, PyAny>) -> PyResult<Option<Stream>> {
    let py = object.py();
    if let Some(export) = object.getattr_opt(pyo3::intern!(py, "__arrow_c_stream__"))? {
        let capsule = export.call0()?;
        let stream = open::<ArrowArrayStream>(&capsule, c"arrow_array_stream")?;
        // SAFETY: the capsule's name says what it points to, and the GIL keeps others away; what is
        // moved out leaves it released, as the interface asks.
        return unsafe { Stream::of_stream(&mut *stream) }.map(Some).map_err(refused);
    }
    if let Some(export) = object.getattr_opt(pyo3::intern!(py, "__arrow_c_array__"))? {
        let (schema, array) = export.call0()?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let schema = open::<ArrowSchema>(&schema, c"arrow_schema")?;
        let array = open::<ArrowArray>(&array, c"arrow_array")?;
        // SAFETY: as above; these are two structs of their own.
        return Ok(Some(unsafe { Stream::of_array(&mut *schema, &mut *array) }));
    }
    Ok(None)
}

fn open<T>(capsule: &Bound<'_, PyAny>, name: &'static CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("Arrow's PyCapsule interface gives capsules, and this is none")
    })?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

/// The exception of an array that cannot be read.
pub fn refused(error: ImportError) -> PyErr {
    match error {
        ImportError::Type { .. } => PyTypeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
