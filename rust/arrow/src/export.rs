//! Hands a table to another library, without a copy.
//!
//! The library owns the table afterwards. A buffer is freed when the last array that uses it is
//! released.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{ArrowError, Schema};

#[cfg(test)]
mod tests;

/// The type of a table: a struct of its columns.
///
/// # Errors
/// If a column has a type that the interface does not have.
pub fn schema(of: &Schema) -> Result<FFI_ArrowSchema, ArrowError> {
    FFI_ArrowSchema::try_from(of)
}

/// The type of a table and the table as one array.
///
/// # Errors
/// As [`schema`].
pub fn array(table: RecordBatch) -> Result<(FFI_ArrowSchema, FFI_ArrowArray), ArrowError> {
    let schema = schema(table.schema_ref())?;
    Ok((schema, FFI_ArrowArray::new(&StructArray::from(table).into_data())))
}

/// A stream of the table as its one array.
#[must_use]
pub fn stream(table: RecordBatch) -> FFI_ArrowArrayStream {
    let schema = table.schema();
    FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(table)], schema)))
}
