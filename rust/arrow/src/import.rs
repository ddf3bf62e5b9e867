//! Reads arrays that somebody else made: bytes, texts, numbers and times, by column.
//!
//! A stream, or one array, is a row of [`Chunk`]s; a chunk of type struct has named columns, any
//! other has one without a name. Values are borrowed where they lie.

use std::ffi::CStr;
use std::sync::Arc;

use crate::ffi::{ArrowArray, ArrowArrayStream, ArrowSchema};

mod column;
#[cfg(test)]
mod tests;

pub use column::Column;
use column::{Shape, is_null_in};

/// Why arrays cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A column of a type that has no meaning here.
    #[error("column `{name}` has Arrow type {}, expected {expected}", type_name(format))]
    Type {
        /// The column.
        name: String,
        /// Its type, as the interface spells it.
        format: String,
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
    /// What was handed over contradicts itself.
    #[error("an Arrow array that cannot be: {0}")]
    Invalid(&'static str),
}

/// Arrow's name of a type that the interface spells `format`; one with parameters as it is spelled.
fn type_name(format: &str) -> String {
    let name = match format {
        "b" => "bool",
        "c" => "int8",
        "C" => "uint8",
        "s" => "int16",
        "S" => "uint16",
        "i" => "int32",
        "I" => "uint32",
        "l" => "int64",
        "L" => "uint64",
        "e" => "float16",
        "f" => "float32",
        "g" => "float64",
        "n" => "null",
        "tdD" | "tdm" => "date",
        "+s" => "struct",
        "+l" | "+L" => "list",
        other => return format!("`{other}`"),
    };
    name.to_owned()
}

/// A type that is kept for all chunks of it.
struct Type(ArrowSchema);

// SAFETY: nothing changes a schema while it is shared; it is freed when the last owner drops it.
unsafe impl Sync for Type {}

/// Arrays of one type.
pub struct Stream {
    schema: Arc<Type>,
    source: Source,
}

enum Source {
    One(Option<ArrowArray>),
    Many(Box<ArrowArrayStream>),
}

impl Stream {
    /// Takes over a stream.
    ///
    /// # Errors
    /// If it does not tell its type.
    ///
    /// # Safety
    /// `stream` must be as the interface says, and not released.
    pub unsafe fn of_stream(stream: &mut ArrowArrayStream) -> Result<Self, ImportError> {
        let mut stream = Box::new(stream.take());
        let mut schema = ArrowSchema::empty();
        let get_schema = stream.get_schema.ok_or(ImportError::Invalid("no get_schema"))?;
        // SAFETY: both structs are ours and valid; the caller vouches for the function.
        let code = unsafe { get_schema(&mut *stream, &mut schema) };
        if code != 0 {
            return Err(last_error(&mut stream, code));
        }
        Ok(Self { schema: Arc::new(Type(schema)), source: Source::Many(stream) })
    }

    /// Takes over one array and its type.
    ///
    /// # Safety
    /// Both must be as the interface says, and not released.
    pub unsafe fn of_array(schema: &mut ArrowSchema, array: &mut ArrowArray) -> Self {
        let source = Source::One(Some(array.take()));
        Self { schema: Arc::new(Type(schema.take())), source }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// If the maker reports one, or what it made cannot be.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, ImportError> {
        let array = match &mut self.source {
            Source::One(array) => array.take(),
            Source::Many(stream) => {
                let get_next = stream.get_next.ok_or(ImportError::Invalid("no get_next"))?;
                let mut array = ArrowArray::empty();
                // SAFETY: both structs are ours and valid; `of_stream`'s caller vouched for it.
                let code = unsafe { get_next(&mut **stream, &mut array) };
                if code != 0 {
                    return Err(last_error(stream, code));
                }
                Some(array).filter(|array| array.release.is_some())
            }
        };
        array.map(|array| Chunk::new(Arc::clone(&self.schema), array)).transpose()
    }
}

fn last_error(stream: &mut ArrowArrayStream, code: i32) -> ImportError {
    let words = stream.get_last_error.map(|get| {
        // SAFETY: the stream is not released; the text is the maker's, valid until the next call.
        unsafe { text(get(stream)) }
    });
    let words = words.filter(|words| !words.is_empty());
    ImportError::Stream(words.unwrap_or_else(|| format!("error {code}")))
}

/// A C string as text; empty for null.
///
/// # Safety
/// It must be null, or end with a zero byte.
unsafe fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Some rows.
pub struct Chunk {
    array: ArrowArray,
    rows: usize,
    shapes: Vec<Shape>,
    is_struct: bool,
    _schema: Arc<Type>,
}

// SAFETY: nothing changes an array while it is shared.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(schema: Arc<Type>, array: ArrowArray) -> Result<Self, ImportError> {
        let rows =
            usize::try_from(array.length).map_err(|_| ImportError::Invalid("a negative length"))?;
        // SAFETY: the maker vouched for the schema.
        let format = unsafe { text(schema.0.format) };
        let is_struct = format == "+s";
        let mut shapes = Vec::new();
        if is_struct {
            if array.n_children != schema.0.n_children {
                return Err(ImportError::Invalid("children that its type does not have"));
            }
            for index in 0..usize::try_from(array.n_children).unwrap_or(0) {
                // SAFETY: there are `n_children` children, of the array and of its type.
                let (child, of) =
                    unsafe { (&**array.children.add(index), &**schema.0.children.add(index)) };
                if child.length < array.offset.saturating_add(array.length) {
                    return Err(ImportError::Invalid("a column with too few rows"));
                }
                shapes.push(Shape::new(of, child, array.offset)?);
            }
            let skipped = usize::try_from(array.offset).unwrap_or(0);
            if let Some(row) = (0..rows).find(|row| is_null_in(&array, skipped + row)) {
                return Err(ImportError::NullRow { row });
            }
        } else {
            shapes.push(Shape::new(&schema.0, &array, 0)?);
        }
        Ok(Self { array, rows, shapes, is_struct, _schema: schema })
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it has named columns; else it has one without a name.
    #[must_use]
    pub fn has_columns(&self) -> bool {
        self.is_struct
    }

    /// The columns' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().map(|shape| shape.name.as_str())
    }

    /// The column with this name; of a chunk without columns, all of it, whatever the name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Column<'_>> {
        let index = match self.is_struct {
            true => self.shapes.iter().position(|shape| shape.name == name)?,
            false => 0,
        };
        let array = if self.is_struct {
            // SAFETY: `new` saw that there is such a child.
            unsafe { &**self.array.children.add(index) }
        } else {
            &self.array
        };
        Some(Column::new(&self.shapes[index], array, self.rows))
    }
}
