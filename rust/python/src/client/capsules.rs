//! Opens and makes the capsules of Arrow's PyCapsule interface. A marked room of unsafe code: a
//! capsule is a pointer and a name.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use kafkalite_arrow::{
    FFI_ArrowArray, FFI_ArrowArrayStream, FFI_ArrowSchema, ImportError, Stream, export,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The stream that `object` offers; `None` if it offers none.
///
/// # Errors
/// What it raises, or `ValueError` for a capsule of another name.
pub fn open(object: &Bound<'_, PyAny>) -> PyResult<Option<Stream>> {
    let py = object.py();
    if let Some(export) = object.getattr_opt(pyo3::intern!(py, "__arrow_c_stream__"))? {
        let capsule = export.call0()?;
        let stream = pointer::<FFI_ArrowArrayStream>(&capsule, STREAM)?;
        // SAFETY: the name of the capsule says what it points to, the capsule is alive, and the GIL
        // keeps other threads away. The move leaves a released struct, as the interface asks.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        return Stream::of_stream(stream).map(Some).map_err(refused);
    }
    if let Some(export) = object.getattr_opt(pyo3::intern!(py, "__arrow_c_array__"))? {
        let capsules = export.call0()?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let schema = pointer::<FFI_ArrowSchema>(&capsules.0, SCHEMA)?;
        let array = pointer::<FFI_ArrowArray>(&capsules.1, ARRAY)?;
        // SAFETY: as above, and the capsules point to different structs.
        let (schema, array) =
            unsafe { (FFI_ArrowSchema::from_raw(schema), FFI_ArrowArray::from_raw(array)) };
        return Stream::of_array(&schema, array).map(Some).map_err(refused);
    }
    Ok(None)
}

/// Where a capsule of this name points. The capsule must live as long as the pointer is used.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &'static CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("Arrow's PyCapsule interface gives capsules, and this is none")
    })?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

/// The exception of an array that cannot be read.
pub fn refused(error: ImportError) -> PyErr {
    match error {
        ImportError::Type { .. } => PyTypeError::new_err(error.to_string()),
        ImportError::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// A table's type.
pub fn schema<'py>(py: Python<'py>, of: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, export::schema(of).map_err(unexportable)?, SCHEMA)
}

/// A table's type and the table as one array: the reader owns them afterwards.
pub fn array(
    py: Python<'_>,
    table: RecordBatch,
) -> PyResult<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)> {
    let (schema, array) = export::array(table).map_err(unexportable)?;
    Ok((
        PyCapsule::new_with_value(py, schema, SCHEMA)?,
        PyCapsule::new_with_value(py, array, ARRAY)?,
    ))
}

/// A stream of the table as its one array: the reader owns it afterwards.
pub fn stream(py: Python<'_>, table: RecordBatch) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, export::stream(table), STREAM)
}

fn unexportable(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
