//! One column: where its buffers are, and how a row is read.

use super::{ImportError, text};
use crate::ffi::{ArrowArray, ArrowSchema};

/// What a type says of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Every row is null.
    Null,
    /// Bytes or text with offsets of 32 bits.
    Binary,
    /// The same with offsets of 64 bits.
    LargeBinary,
    /// The same as 16-byte views: length, and the bytes or where they are.
    BinaryView,
    /// As many bytes in each row.
    FixedBinary(usize),
    /// A signed number of so many bytes.
    Signed(usize),
    /// An unsigned number of so many bytes.
    Unsigned(usize),
    /// Lists of the child's rows, with offsets of 32 bits; a map is one too.
    List,
    /// The same with offsets of 64 bits.
    LargeList,
    /// Named children.
    Struct,
    /// Whatever else: it may stand in a table, and is refused when it is read.
    Other,
}

/// What values of a number column are times in: milliseconds are `value * multiply / divide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    multiply: i64,
    divide: i64,
}

/// A column's type and place, checked once for a chunk.
pub(super) struct Shape {
    pub(super) name: String,
    format: String,
    kind: Kind,
    unit: Option<Unit>,
    /// Of a column of dictionary indices: the dictionary.
    dictionary: Option<Box<Shape>>,
    /// Of a list or a struct.
    children: Vec<Shape>,
    /// First row in the buffers.
    start: usize,
}

impl Shape {
    /// Checks what can be checked; `skipped` rows of a parent come before the first.
    pub(super) fn new(
        schema: &ArrowSchema,
        array: &ArrowArray,
        skipped: i64,
    ) -> Result<Self, ImportError> {
        // SAFETY: the maker vouched for the schema.
        let (name, format) = unsafe { (text(schema.name), text(schema.format)) };
        let (kind, unit) = kind_of(&format).unwrap_or((Kind::Other, None));
        let buffers = match kind {
            Kind::Null | Kind::Struct | Kind::Other => 0,
            Kind::Binary | Kind::LargeBinary | Kind::BinaryView => 3,
            Kind::FixedBinary(_) | Kind::Signed(_) | Kind::Unsigned(_) => 2,
            Kind::List | Kind::LargeList => 2,
        };
        // A view has as many data buffers as it likes, between its views and their lengths.
        let enough = array.n_buffers >= buffers;
        let start = array.offset.checked_add(skipped).and_then(|rows| usize::try_from(rows).ok());
        let (true, Some(start)) = (enough, start) else {
            return Err(ImportError::Invalid("too few buffers, or a negative offset"));
        };
        let dictionary = if schema.dictionary.is_null() {
            None
        } else if array.dictionary.is_null() {
            return Err(ImportError::Invalid("a dictionary's indices without the dictionary"));
        } else {
            // SAFETY: neither is null, and the maker vouched for both.
            let (schema, array) = unsafe { (&*schema.dictionary, &*array.dictionary) };
            Some(Box::new(Self::new(schema, array, 0)?))
        };
        let children = match kind {
            Kind::List | Kind::LargeList => Self::children(schema, array, 0)?,
            Kind::Struct => Self::children(schema, array, array.offset)?,
            _ => Vec::new(),
        };
        Ok(Self { name, format, kind, unit, dictionary, children, start })
    }

    fn children(
        schema: &ArrowSchema,
        array: &ArrowArray,
        skipped: i64,
    ) -> Result<Vec<Self>, ImportError> {
        if array.n_children != schema.n_children {
            return Err(ImportError::Invalid("children that its type does not have"));
        }
        let indices = 0..usize::try_from(array.n_children).unwrap_or(0);
        let child = |index| {
            // SAFETY: there are `n_children` children, of the array and of its type.
            let (array, of) =
                unsafe { (&**array.children.add(index), &**schema.children.add(index)) };
            Self::new(of, array, skipped)
        };
        indices.map(child).collect()
    }
}

fn kind_of(format: &str) -> Option<(Kind, Option<Unit>)> {
    let time = |multiply, divide| Some((Kind::Signed(8), Some(Unit { multiply, divide })));
    let plain = |kind| Some((kind, None));
    match format {
        "n" => plain(Kind::Null),
        "z" | "u" => plain(Kind::Binary),
        "Z" | "U" => plain(Kind::LargeBinary),
        "vz" | "vu" => plain(Kind::BinaryView),
        "c" => plain(Kind::Signed(1)),
        "s" => plain(Kind::Signed(2)),
        "i" => plain(Kind::Signed(4)),
        "l" => plain(Kind::Signed(8)),
        "C" => plain(Kind::Unsigned(1)),
        "S" => plain(Kind::Unsigned(2)),
        "I" => plain(Kind::Unsigned(4)),
        "L" => plain(Kind::Unsigned(8)),
        "+l" | "+m" => plain(Kind::List),
        "+L" => plain(Kind::LargeList),
        "+s" => plain(Kind::Struct),
        "tdm" => time(1, 1),
        _ if format.starts_with("tss:") => time(1_000, 1),
        _ if format.starts_with("tsm:") => time(1, 1),
        _ if format.starts_with("tsu:") => time(1, 1_000),
        _ if format.starts_with("tsn:") => time(1, 1_000_000),
        _ => plain(Kind::FixedBinary(format.strip_prefix("w:")?.parse().ok()?)),
    }
}

/// The rows of one column.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    shape: &'a Shape,
    array: &'a ArrowArray,
    /// First row in the buffers.
    first: usize,
    rows: usize,
}

impl<'a> Column<'a> {
    pub(super) fn new(shape: &'a Shape, array: &'a ArrowArray, rows: usize) -> Self {
        Self { shape, array, first: shape.start, rows }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends each row's bytes to `out`, `None` where it is null.
    ///
    /// # Errors
    /// If it holds neither bytes nor text.
    pub fn bytes(&self, out: &mut Vec<Option<&'a [u8]>>) -> Result<(), ImportError> {
        out.reserve(self.rows);
        if self.shape.dictionary.is_some() {
            return self.looked_up(out, |words, values| words.bytes(values));
        }
        match self.shape.kind {
            Kind::Null => out.resize(out.len() + self.rows, None),
            Kind::Binary => {
                let offsets = self.buffer::<i32>(1);
                self.spans(out, |row| {
                    (i64::from(at(offsets, row)), i64::from(at(offsets, row + 1)))
                })?;
            }
            Kind::LargeBinary => {
                let offsets = self.buffer::<i64>(1);
                self.spans(out, |row| (at(offsets, row), at(offsets, row + 1)))?;
            }
            Kind::FixedBinary(width) => {
                let width = width as i64;
                let data = self.buffer::<u8>(1);
                self.each(out, |row| span(data, row as i64 * width, (row as i64 + 1) * width))?;
            }
            Kind::BinaryView => {
                let views = self.buffer::<[u8; 16]>(1);
                self.each(out, |row| self.view(views, row))?;
            }
            _ => return Err(self.wrong("bytes or text")),
        }
        Ok(())
    }

    /// Appends each row's count of pairs to `counts`, and the pairs of all rows to `names` and
    /// `values`: of a column of lists of two-column structs, or of maps. A pair that is null has
    /// neither.
    ///
    /// # Errors
    /// If it holds no such lists, or an item of them is neither bytes nor text.
    pub fn pairs(
        &self,
        counts: &mut Vec<usize>,
        names: &mut Vec<Option<&'a [u8]>>,
        values: &mut Vec<Option<&'a [u8]>>,
    ) -> Result<(), ImportError> {
        let is_list = matches!(self.shape.kind, Kind::List | Kind::LargeList);
        let items =
            self.shape.children.first().filter(|items| is_list && items.children.len() == 2);
        let items = items.ok_or_else(|| self.wrong("lists of a name and a value"))?;
        let bound = |row: usize| match self.shape.kind {
            Kind::LargeList => at(self.buffer::<i64>(1), self.first + row),
            _ => i64::from(at(self.buffer::<i32>(1), self.first + row)),
        };
        let backwards = ImportError::Invalid("a list that ends before it begins");
        for row in 0..self.rows {
            let (from, to) = (usize::try_from(bound(row)), usize::try_from(bound(row + 1)));
            let (Ok(from), Ok(to)) = (from, to) else { return Err(backwards) };
            let count = to.checked_sub(from).ok_or(backwards.clone())?;
            let count = if self.is_null(row) { 0 } else { count };
            counts.push(count);
            for (index, out) in [(0, &mut *names), (1, &mut *values)] {
                let shape = &items.children[index];
                // SAFETY: `Shape::new` saw that the list has a child, and that it has two.
                let array = unsafe { &**(**self.array.children).children.add(index) };
                Column { shape, array, first: shape.start + from, rows: count }.bytes(out)?;
            }
            // SAFETY: as above. What stands in the columns of a pair that is null means nothing.
            let array = unsafe { &**self.array.children };
            let all = Column { shape: items, array, first: items.start + from, rows: count };
            let begun = names.len() - count;
            for index in (0..count).filter(|index| all.is_null(*index)) {
                (names[begun + index], values[begun + index]) = (None, None);
            }
        }
        Ok(())
    }

    /// Appends each row's number to `out`, `None` where it is null; times are in milliseconds
    /// since 1970, whatever their unit was.
    ///
    /// # Errors
    /// If it holds no numbers, or one beyond 2^63.
    pub fn numbers(&self, out: &mut Vec<Option<i64>>) -> Result<(), ImportError> {
        if self.shape.dictionary.is_some() {
            return self.looked_up(out, |words, values| words.numbers(values));
        }
        // Before a buffer of it is looked at: nobody counted them.
        if !matches!(self.shape.kind, Kind::Null | Kind::Signed(_) | Kind::Unsigned(_)) {
            return Err(self.wrong("integers or timestamps"));
        }
        out.reserve(self.rows);
        let unit = self.shape.unit.unwrap_or(Unit { multiply: 1, divide: 1 });
        for row in 0..self.rows {
            let number = if self.is_null(row) { None } else { Some(self.number(row)?) };
            let scaled = number.map(|number| {
                let product = number.checked_mul(unit.multiply);
                product.map(|product| product.div_euclid(unit.divide))
            });
            out.push(match scaled {
                Some(None) => return Err(ImportError::Invalid("a time beyond 2^63 ms")),
                Some(scaled) => scaled,
                None => None,
            });
        }
        Ok(())
    }

    fn wrong(&self, expected: &'static str) -> ImportError {
        let (name, format) = (self.shape.name.clone(), self.shape.format.clone());
        ImportError::Type { name, format, expected }
    }

    fn number(&self, row: usize) -> Result<i64, ImportError> {
        let row = self.first + row;
        Ok(match self.shape.kind {
            Kind::Null => 0,
            Kind::Signed(1) => i64::from(at(self.buffer::<i8>(1), row)),
            Kind::Signed(2) => i64::from(at(self.buffer::<i16>(1), row)),
            Kind::Signed(4) => i64::from(at(self.buffer::<i32>(1), row)),
            Kind::Signed(_) => at(self.buffer::<i64>(1), row),
            Kind::Unsigned(1) => i64::from(at(self.buffer::<u8>(1), row)),
            Kind::Unsigned(2) => i64::from(at(self.buffer::<u16>(1), row)),
            Kind::Unsigned(4) => i64::from(at(self.buffer::<u32>(1), row)),
            Kind::Unsigned(_) => i64::try_from(at(self.buffer::<u64>(1), row))
                .map_err(|_| ImportError::Invalid("a number beyond 2^63"))?,
            _ => return Err(self.wrong("integers or timestamps")),
        })
    }

    /// Appends what each row's index stands for; `read` reads the dictionary.
    fn looked_up<T: Copy>(
        &self,
        out: &mut Vec<Option<T>>,
        read: impl FnOnce(&Self, &mut Vec<Option<T>>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let Some(dictionary) = &self.shape.dictionary else { return Ok(()) };
        // SAFETY: `Shape::new` saw that there is one.
        let array = unsafe { &*self.array.dictionary };
        let rows = usize::try_from(array.length).unwrap_or(0);
        let mut values = Vec::new();
        read(&Column::new(dictionary, array, rows), &mut values)?;
        out.reserve(self.rows);
        for row in 0..self.rows {
            if self.is_null(row) {
                out.push(None);
                continue;
            }
            let index = usize::try_from(self.number(row)?).ok();
            let value = index.and_then(|index| values.get(index)).copied();
            out.push(value.ok_or(ImportError::Invalid("an index beyond its dictionary"))?);
        }
        Ok(())
    }

    /// Values that lie between two offsets in the data.
    fn spans(
        &self,
        out: &mut Vec<Option<&'a [u8]>>,
        bounds: impl Fn(usize) -> (i64, i64),
    ) -> Result<(), ImportError> {
        let data = self.buffer::<u8>(2);
        self.each(out, |row| {
            let (from, to) = bounds(row);
            span(data, from, to)
        })
    }

    /// Reads each row that is not null; `read` gets its place in the buffers.
    fn each(
        &self,
        out: &mut Vec<Option<&'a [u8]>>,
        read: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<(), ImportError> {
        let backwards = ImportError::Invalid("a value that ends before it begins");
        let first = self.first;
        if self.array.null_count == 0 || self.buffer::<u8>(0).is_null() {
            for row in first..first + self.rows {
                out.push(Some(read(row).ok_or(backwards.clone())?));
            }
            return Ok(());
        }
        for row in 0..self.rows {
            let value = match self.is_null(row) {
                true => None,
                false => Some(read(first + row).ok_or(backwards.clone())?),
            };
            out.push(value);
        }
        Ok(())
    }

    /// Up to 12 bytes lie in the view itself; of more it says which buffer they are in, and where.
    fn view(&self, views: *const [u8; 16], row: usize) -> Option<&'a [u8]> {
        // SAFETY: the maker vouched for as many views as rows, and nothing moves them.
        let view: &'a [u8; 16] = unsafe { &*views.add(row) };
        let word = |from: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&view[from..from + 4]);
            i32::from_le_bytes(bytes)
        };
        let length = usize::try_from(word(0)).ok()?;
        if length <= 12 {
            return Some(&view[4..4 + length]);
        }
        let buffer = usize::try_from(word(8)).ok()?;
        let buffers = usize::try_from(self.array.n_buffers).ok()?;
        // The last buffer holds the lengths of the others.
        if buffer + 3 > buffers {
            return None;
        }
        let from = i64::from(word(12));
        span(self.buffer::<u8>(2 + buffer), from, from + length as i64)
    }

    fn is_null(&self, row: usize) -> bool {
        self.shape.kind == Kind::Null || is_null_in(self.array, self.first + row)
    }

    fn buffer<T>(&self, index: usize) -> *const T {
        // SAFETY: `Shape::new` saw that there are as many buffers as its kind has.
        unsafe { (*self.array.buffers.add(index)).cast() }
    }
}

/// Whether the array's own bits say that the row at this place in its buffers is null.
pub(super) fn is_null_in(array: &ArrowArray, row: usize) -> bool {
    if array.null_count == 0 || array.n_buffers < 1 {
        return false;
    }
    // SAFETY: it has a buffer, and the first of every type that has nulls of its own is the bits.
    let bits: *const u8 = unsafe { (*array.buffers).cast() };
    !bits.is_null() && at(bits, row / 8) >> (row % 8) & 1 == 0
}

/// The element at `index` of a buffer that the maker vouched for.
fn at<T: Copy>(buffer: *const T, index: usize) -> T {
    // SAFETY: rows are counted before they are read, and a buffer has all of them. Buffers are
    // aligned to 8 bytes by most makers, and not by all.
    unsafe { buffer.add(index).read_unaligned() }
}

/// The bytes from `from` to `to`; `None` where that is no span.
fn span<'a>(data: *const u8, from: i64, to: i64) -> Option<&'a [u8]> {
    let (from, length) =
        (usize::try_from(from).ok()?, usize::try_from(to.checked_sub(from)?).ok()?);
    if length == 0 {
        // The data of an empty column may be null.
        return Some(&[]);
    }
    if data.is_null() {
        return None;
    }
    // SAFETY: the offsets are the maker's, of the maker's data; it lives as long as the chunk.
    Some(unsafe { std::slice::from_raw_parts(data.add(from), length) })
}
