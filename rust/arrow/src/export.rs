//! Hands columns of our own to whoever reads the interface, without copying them.
//!
//! A [`Column`] owns its buffers; [`Column::export`] gives them away as an array and its type,
//! [`Column::into_stream`] as a stream of that one array. Each buffer is freed when its reader
//! releases the array. A column whose buffers contradict its rows is not made.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::ffi::{ArrowArray, ArrowArrayStream, ArrowSchema};

#[cfg(test)]
mod tests;

/// The interface's flag for columns that may have nulls.
const NULLABLE: i64 = 2;

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Integers of four bytes.
    Int32(Vec<i32>),
    /// Integers of eight bytes.
    Int64(Vec<i64>),
    /// Milliseconds since 1970, UTC.
    TimestampMs(Vec<i64>),
    /// Microseconds since 1970, UTC.
    TimestampUs(Vec<i64>),
    /// Bytes: value `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Binary {
        /// One more than there are rows.
        offsets: Vec<i32>,
        /// All values, one after the other.
        bytes: Vec<u8>,
    },
    /// UTF-8 text, laid out alike.
    Utf8 {
        /// One more than there are rows.
        offsets: Vec<i32>,
        /// All values, one after the other.
        bytes: Vec<u8>,
    },
    /// Words by their place in a column of words.
    Dictionary {
        /// Places.
        indices: Vec<i32>,
        /// The words.
        words: Box<Column>,
    },
    /// Lists: list `i` is the items `offsets[i]..offsets[i + 1]`.
    List {
        /// One more than there are rows.
        offsets: Vec<i32>,
        /// All items, one after the other.
        items: Box<Column>,
    },
    /// Named columns of as many rows.
    Struct(Vec<Column>),
}

/// Which rows are null: a bit for each, 1 for a value, the lowest bit first.
#[derive(Clone, Debug, Default)]
pub struct Validity {
    bits: Vec<u8>,
    rows: usize,
    nulls: usize,
}

impl Validity {
    /// Of no rows yet.
    #[must_use]
    pub fn with_capacity(rows: usize) -> Self {
        Self { bits: Vec::with_capacity(rows.div_ceil(8)), rows: 0, nulls: 0 }
    }

    /// Of `rows` rows, none of them null: a column whose type allows nulls all the same.
    #[must_use]
    pub fn all(rows: usize) -> Self {
        Self { bits: vec![0xff; rows.div_ceil(8)], rows, nulls: 0 }
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, valid: bool) {
        if self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if valid {
            // There is a byte for the row: it was pushed with the first of its eight.
            self.bits[self.rows / 8] |= 1 << (self.rows % 8);
        } else {
            self.nulls += 1;
        }
        self.rows += 1;
    }
}

/// A column that can be handed out.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    rows: usize,
    validity: Option<Validity>,
    values: Values,
}

impl Column {
    /// A column without nulls.
    ///
    /// # Panics
    /// If the buffers do not hold `rows` values: whoever reads them would run past their end.
    #[must_use]
    pub fn new(name: &str, rows: usize, values: Values) -> Self {
        let column = Self { name: name.to_owned(), rows, validity: None, values };
        column.check();
        column
    }

    /// A column that may have nulls; without any, no bits are handed out.
    ///
    /// # Panics
    /// As [`Column::new`], or if `validity` is of another number of rows.
    #[must_use]
    pub fn nullable(name: &str, validity: Validity, values: Values) -> Self {
        let rows = validity.rows;
        let column = Self { name: name.to_owned(), rows, validity: Some(validity), values };
        column.check();
        column
    }

    fn check(&self) {
        let rows = self.rows;
        let fits = |offsets: &[i32], end: usize| {
            offsets.len() == rows + 1
                && offsets.first() == Some(&0)
                && offsets.is_sorted()
                && offsets.last().is_some_and(|last| *last as usize <= end)
        };
        let right = match &self.values {
            Values::Int32(values) => values.len() == rows,
            Values::Int64(values) | Values::TimestampMs(values) | Values::TimestampUs(values) => {
                values.len() == rows
            }
            Values::Binary { offsets, bytes } => fits(offsets, bytes.len()),
            Values::Utf8 { offsets, bytes } => {
                fits(offsets, bytes.len()) && std::str::from_utf8(bytes).is_ok()
            }
            Values::Dictionary { indices, words } => {
                let known = |index: &i32| usize::try_from(*index).is_ok_and(|at| at < words.rows);
                indices.len() == rows && indices.iter().all(known)
            }
            Values::List { offsets, items } => fits(offsets, items.rows),
            Values::Struct(columns) => columns.iter().all(|column| column.rows == rows),
        };
        assert!(right, "column {} has not {rows} rows in its buffers", self.name);
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its type.
    #[must_use]
    pub fn schema(&self) -> ArrowSchema {
        let (format, children, dictionary) = match &self.values {
            Values::Int32(_) => ("i", Vec::new(), None),
            Values::Int64(_) => ("l", Vec::new(), None),
            Values::TimestampMs(_) => ("tsm:UTC", Vec::new(), None),
            Values::TimestampUs(_) => ("tsu:UTC", Vec::new(), None),
            Values::Binary { .. } => ("z", Vec::new(), None),
            Values::Utf8 { .. } => ("u", Vec::new(), None),
            Values::Dictionary { words, .. } => ("i", Vec::new(), Some(words.schema())),
            Values::List { items, .. } => ("+l", vec![items.schema()], None),
            Values::Struct(columns) => ("+s", columns.iter().map(Self::schema).collect(), None),
        };
        let flags = if self.validity.is_some() { NULLABLE } else { 0 };
        make_schema(format, &self.name, flags, children, dictionary)
    }

    /// Its type and its values, to be moved to the reader.
    #[must_use]
    pub fn export(self) -> (ArrowSchema, ArrowArray) {
        (self.schema(), self.into_array())
    }

    fn into_array(self) -> ArrowArray {
        let (mut buffers, mut children, mut dictionary) = (Vec::new(), Vec::new(), None);
        match self.values {
            Values::Int32(values) => buffers.push(Buffer::Int32(values)),
            Values::Int64(values) | Values::TimestampMs(values) | Values::TimestampUs(values) => {
                buffers.push(Buffer::Int64(values));
            }
            Values::Binary { offsets, bytes } | Values::Utf8 { offsets, bytes } => {
                buffers.push(Buffer::Int32(offsets));
                buffers.push(Buffer::Bytes(bytes));
            }
            Values::Dictionary { indices, words } => {
                buffers.push(Buffer::Int32(indices));
                dictionary = Some(words.into_array());
            }
            Values::List { offsets, items } => {
                buffers.push(Buffer::Int32(offsets));
                children.push(items.into_array());
            }
            Values::Struct(columns) => children.extend(columns.into_iter().map(Self::into_array)),
        }
        let nulls = self.validity.as_ref().map_or(0, |validity| validity.nulls);
        // Without nulls there are no bits: a null pointer stands for "all are valid".
        let bits = self.validity.filter(|validity| validity.nulls > 0);
        let bits = bits.map_or(Buffer::None, |validity| Buffer::Bytes(validity.bits));
        buffers.insert(0, bits);
        make_array(self.rows, nulls, buffers, children, dictionary)
    }

    /// A stream that hands it out as its one array.
    #[must_use]
    pub fn into_stream(self) -> ArrowArrayStream {
        // The type is asked for as often as the reader likes, so it is made anew each time.
        let shape = self.emptied();
        let private = Box::new(StreamPrivate { shape, next: Some(self) });
        ArrowArrayStream {
            get_schema: Some(stream_schema),
            get_next: Some(stream_next),
            get_last_error: Some(stream_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(private).cast(),
        }
    }

    /// The same type without rows.
    fn emptied(&self) -> Self {
        let offsets = vec![0];
        let values = match &self.values {
            Values::Int32(_) => Values::Int32(Vec::new()),
            Values::Int64(_) => Values::Int64(Vec::new()),
            Values::TimestampMs(_) => Values::TimestampMs(Vec::new()),
            Values::TimestampUs(_) => Values::TimestampUs(Vec::new()),
            Values::Binary { .. } => Values::Binary { offsets, bytes: Vec::new() },
            Values::Utf8 { .. } => Values::Utf8 { offsets, bytes: Vec::new() },
            Values::Dictionary { words, .. } => {
                Values::Dictionary { indices: Vec::new(), words: Box::new(words.emptied()) }
            }
            Values::List { items, .. } => {
                Values::List { offsets, items: Box::new(items.emptied()) }
            }
            Values::Struct(columns) => Values::Struct(columns.iter().map(Self::emptied).collect()),
        };
        let validity = self.validity.as_ref().map(|_| Validity::default());
        Self { name: self.name.clone(), rows: 0, validity, values }
    }
}

/// Memory that a reader borrows until it releases the array.
enum Buffer {
    None,
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Bytes(Vec<u8>),
}

impl Buffer {
    fn pointer(&self) -> *const c_void {
        match self {
            Self::None => std::ptr::null(),
            Self::Int32(values) => values.as_ptr().cast(),
            Self::Int64(values) => values.as_ptr().cast(),
            Self::Bytes(values) => values.as_ptr().cast(),
        }
    }
}

/// What a schema of ours points to.
struct SchemaPrivate {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

/// What an array of ours points to.
struct ArrayPrivate {
    _buffers: Vec<Buffer>,
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
}

struct StreamPrivate {
    shape: Column,
    next: Option<Column>,
}

fn raw<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

fn make_schema(
    format: &str,
    name: &str,
    flags: i64,
    children: Vec<ArrowSchema>,
    dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    // A name with a zero byte in it ends there.
    let name = name.split('\0').next().unwrap_or_default();
    let format = CString::new(format).expect("formats have no zero byte");
    let name = CString::new(name).expect("it was cut before its zero byte");
    let mut private = Box::new(SchemaPrivate {
        children: children.into_iter().map(raw).collect(),
        dictionary: dictionary.map_or(std::ptr::null_mut(), raw),
        _format: format,
        _name: name,
    });
    ArrowSchema {
        format: private._format.as_ptr(),
        name: private._name.as_ptr(),
        metadata: std::ptr::null(),
        flags,
        n_children: private.children.len() as i64,
        children: private.children.as_mut_ptr(),
        dictionary: private.dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(private).cast(),
    }
}

fn make_array(
    rows: usize,
    nulls: usize,
    buffers: Vec<Buffer>,
    children: Vec<ArrowArray>,
    dictionary: Option<ArrowArray>,
) -> ArrowArray {
    let mut private = Box::new(ArrayPrivate {
        pointers: buffers.iter().map(Buffer::pointer).collect(),
        _buffers: buffers,
        children: children.into_iter().map(raw).collect(),
        dictionary: dictionary.map_or(std::ptr::null_mut(), raw),
    });
    ArrowArray {
        length: rows as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: private.pointers.len() as i64,
        n_children: private.children.len() as i64,
        buffers: private.pointers.as_mut_ptr(),
        children: private.children.as_mut_ptr(),
        dictionary: private.dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(private).cast(),
    }
}

/// Frees a child, unless its reader moved it out; then it is released and empty.
///
/// # Safety
/// `child` must come from [`raw`], and not be freed yet; null is nothing.
unsafe fn free<T>(child: *mut T) {
    if !child.is_null() {
        // SAFETY: as the caller says; dropping it releases what is still in it.
        drop(unsafe { Box::from_raw(child) });
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once on a schema of `make_schema`, whose private data is its box.
    unsafe {
        let private = Box::from_raw((*schema).private_data.cast::<SchemaPrivate>());
        private.children.iter().for_each(|child| free(*child));
        free(private.dictionary);
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once on an array of `make_array`, whose private data is its box.
    unsafe {
        let private = Box::from_raw((*array).private_data.cast::<ArrayPrivate>());
        private.children.iter().for_each(|child| free(*child));
        free(private.dictionary);
        (*array).release = None;
    }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: called once on a stream of `into_stream`, whose private data is its box.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamPrivate>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream is one of ours and not released; `out` is the reader's to be written over,
    // whatever is in it.
    unsafe {
        let private = &*(*stream).private_data.cast::<StreamPrivate>();
        out.write(private.shape.schema());
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as in `stream_schema`; a reader asks from one thread at a time.
    unsafe {
        let private = &mut *(*stream).private_data.cast::<StreamPrivate>();
        out.write(private.next.take().map_or_else(ArrowArray::empty, Column::into_array));
    }
    0
}

unsafe extern "C" fn stream_last_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    // Nothing fails.
    std::ptr::null()
}
