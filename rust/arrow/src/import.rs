//! Reads arrays that other libraries made: bytes, texts, numbers and times, by column.
//!
//! A stream, or one array, is a series of [`Chunk`]s. A chunk of type struct has named columns, any
//! other chunk has one column without a name. Values are borrowed, not copied. A table may have
//! columns of types that cannot be read: arrow-rs is never given these columns.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_buffer::bit_util::get_bit;
use arrow_data::ArrayData;
use arrow_schema::DataType;

mod buffers;
mod column;
#[cfg(test)]
pub(crate) mod tests;

pub use column::Column;
use column::{readable, type_name};

/// Why arrays cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A column of a type that has no meaning here.
    #[error("column `{name}` has Arrow type {found}, expected {expected}")]
    Type {
        /// The column.
        name: String,
        /// Its type.
        found: String,
        /// What it could be.
        expected: &'static str,
    },
    /// The maker reported an error.
    #[error("the Arrow stream failed: {0}")]
    Stream(String),
    /// A row that is null as a whole, whatever its columns hold.
    #[error(
        "row {row} of the Arrow structs is null, which is no record: leave it out, or let its \
         `value` be null"
    )]
    NullRow {
        /// Counted from 0 in its array.
        row: usize,
    },
    /// More rows than memory can hold. Rows of nulls take no memory of their maker.
    #[error("no memory for {rows} rows of an Arrow array")]
    Memory {
        /// How many rows.
        rows: usize,
    },
    /// What was handed over contradicts itself.
    #[error("an Arrow array that cannot be: {0}")]
    Invalid(&'static str),
}

/// A type, read once for all chunks of it.
struct Shape {
    name: String,
    /// The type's name in errors.
    found: String,
    /// The type that its values are read as; `None` if they cannot be read.
    data_type: Option<DataType>,
    /// The columns of a struct.
    columns: Option<Vec<Shape>>,
}

impl Shape {
    /// Reads a type.
    fn new(schema: &FFI_ArrowSchema) -> Result<Self, ImportError> {
        if schema.release().is_none() {
            return Err(ImportError::Invalid("a type that was released"));
        }
        guarded(|| {
            let mut shape = Self::of_column(schema);
            if schema.format() == "+s" {
                shape.columns = Some(schema.children().map(Self::of_column).collect());
            }
            Ok(shape)
        })
    }

    fn of_column(schema: &FFI_ArrowSchema) -> Self {
        let name = schema.name().unwrap_or_default().to_owned();
        let of = DataType::try_from(schema).ok();
        let found = of.as_ref().map_or_else(|| format!("`{}`", schema.format()), type_name);
        Self { name, found, data_type: of.as_ref().and_then(readable), columns: None }
    }
}

/// Turns a panic into an error: arrow-rs panics if a name is no UTF-8, or if a pointer is null that
/// the interface requires.
fn guarded<T>(look: impl FnOnce() -> Result<T, ImportError>) -> Result<T, ImportError> {
    let missing = ImportError::Invalid("a name that is no UTF-8, or a pointer that is missing");
    catch_unwind(AssertUnwindSafe(look)).unwrap_or(Err(missing))
}

/// Arrays of one type.
pub struct Stream {
    shape: Arc<Shape>,
    source: Source,
}

enum Source {
    One(Option<FFI_ArrowArray>),
    Many(FFI_ArrowArrayStream),
}

impl Stream {
    /// Takes over a stream.
    ///
    /// # Errors
    /// If it does not tell its type.
    pub fn of_stream(mut stream: FFI_ArrowArrayStream) -> Result<Self, ImportError> {
        if stream.release().is_none() {
            return Err(ImportError::Invalid("a stream that was released"));
        }
        let mut schema = FFI_ArrowSchema::empty();
        let get_schema = stream.get_schema().ok_or(ImportError::Invalid("no get_schema"))?;
        // SAFETY: the function is the stream's own, and the stream is not released.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(last_error(&mut stream, code));
        }
        Ok(Self { shape: Arc::new(Shape::new(&schema)?), source: Source::Many(stream) })
    }

    /// Takes over one array and its type.
    ///
    /// # Errors
    /// If one of them was released, or the type contradicts itself.
    pub fn of_array(schema: &FFI_ArrowSchema, array: FFI_ArrowArray) -> Result<Self, ImportError> {
        if array.is_released() {
            return Err(ImportError::Invalid("an array that was released"));
        }
        let shape = Arc::new(Shape::new(schema)?);
        Ok(Self { shape, source: Source::One(Some(array)) })
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// If the maker reports one, or what it made cannot be.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, ImportError> {
        let array = match &mut self.source {
            Source::One(array) => array.take(),
            Source::Many(stream) => {
                let get_next = stream.get_next().ok_or(ImportError::Invalid("no get_next"))?;
                let mut array = FFI_ArrowArray::empty();
                // SAFETY: as in `of_stream`.
                let code = unsafe { get_next(&raw mut *stream, &raw mut array) };
                if code != 0 {
                    return Err(last_error(stream, code));
                }
                Some(array).filter(|array| !array.is_released())
            }
        };
        array.map(|array| guarded(|| Chunk::new(Arc::clone(&self.shape), array))).transpose()
    }
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ImportError {
    let words = stream.get_last_error().and_then(|get| {
        // SAFETY: the stream is not released; its text ends with a zero byte, and lives until the
        // next call.
        unsafe {
            let text = get(&raw mut *stream);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    });
    let words = words.filter(|words| !words.is_empty());
    ImportError::Stream(words.unwrap_or_else(|| format!("error {code}")))
}

/// Some rows.
pub struct Chunk {
    shape: Arc<Shape>,
    /// `None` for a column that is not readable.
    columns: Vec<Option<ArrayData>>,
    /// First row in the columns.
    first: usize,
    rows: usize,
    /// Owns the memory of the columns; the last field, so that it is released after them.
    _array: FFI_ArrowArray,
}

impl Chunk {
    fn new(shape: Arc<Shape>, array: FFI_ArrowArray) -> Result<Self, ImportError> {
        let (rows, end) = (array.len(), buffers::end(&array)?);
        let (mut columns, mut first) = (Vec::new(), 0);
        if let Some(shapes) = &shape.columns {
            first = array.offset();
            if array.num_children() != shapes.len() {
                return Err(ImportError::Invalid("children that its type does not have"));
            }
            for (index, shape) in shapes.iter().enumerate() {
                let child = array.child(index);
                if buffers::end(child)? - child.offset() < end {
                    return Err(ImportError::Invalid("a column with too few rows"));
                }
                columns.push(shape.borrow(child)?);
            }
            if let Some(row) = null_row(&array) {
                return Err(ImportError::NullRow { row });
            }
        } else {
            columns.push(shape.borrow(&array)?);
        }
        Ok(Self { shape, columns, first, rows, _array: array })
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it has named columns; else it has one without a name.
    #[must_use]
    pub fn has_columns(&self) -> bool {
        self.shape.columns.is_some()
    }

    /// The columns' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shapes().iter().map(|shape| shape.name.as_str())
    }

    /// The column with this name; of a chunk without columns, all of it, whatever the name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Column<'_>> {
        let shapes = self.shapes();
        let index = match self.has_columns() {
            true => shapes.iter().position(|shape| shape.name == name)?,
            false => 0,
        };
        let Shape { name, found, .. } = &shapes[index];
        let data = self.columns[index].as_ref();
        Some(Column { name, found: Some(found), data, first: self.first, rows: self.rows })
    }

    fn shapes(&self) -> &[Shape] {
        self.shape.columns.as_deref().unwrap_or(std::slice::from_ref(&*self.shape))
    }
}

impl Shape {
    /// The buffers of an array of this type; `None` if it is not readable.
    fn borrow(&self, array: &FFI_ArrowArray) -> Result<Option<ArrayData>, ImportError> {
        // SAFETY: `Chunk` owns the array and the buffers, and lends values for its own lifetime.
        self.data_type.as_ref().map(|of| unsafe { buffers::borrow(of, array) }).transpose()
    }
}

/// The first row that the struct's own bits say is null.
fn null_row(array: &FFI_ArrowArray) -> Option<usize> {
    if array.null_count_opt() == Some(0) || array.num_buffers() == 0 || array.buffer(0).is_null() {
        return None;
    }
    let (first, end) = (array.offset(), array.offset() + array.len());
    // SAFETY: a struct's first buffer has a bit for each of its rows.
    let bits = unsafe { std::slice::from_raw_parts(array.buffer(0), end.div_ceil(8)) };
    (first..end).find(|row| !get_bit(bits, *row)).map(|row| row - first)
}
