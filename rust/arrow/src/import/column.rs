//! One column: the types that can be read, and how values are read.
//!
//! Each value is a checked slice of its buffer. An offset that runs backwards or past the end is an
//! error where it is read, so no pass over the data is needed first.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrowNativeTypeOp as _;
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};

use super::ImportError;

const BACKWARDS: ImportError = ImportError::Invalid("a value that ends before it begins");

/// The type that a type is read as: texts are read as bytes, maps as lists, and every child may be
/// null. `None` if records cannot be made of the type.
pub(super) fn readable(of: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date64, Dictionary, FixedSizeBinary, LargeBinary, LargeList, LargeUtf8,
        List, Map, Null, Struct, Timestamp, Utf8, Utf8View,
    };
    let field = |field: &FieldRef| {
        let of = readable(field.data_type())?;
        Some(Arc::new(Field::new(field.name(), of, true)))
    };
    match of {
        Utf8 => Some(Binary),
        LargeUtf8 => Some(LargeBinary),
        Utf8View => Some(BinaryView),
        List(item) | Map(item, _) => Some(List(field(item)?)),
        LargeList(item) => Some(LargeList(field(item)?)),
        Struct(fields) => Some(Struct(fields.iter().map(field).collect::<Option<_>>()?)),
        Dictionary(keys, values) if keys.is_integer() => {
            Some(Dictionary(keys.clone(), Box::new(readable(values)?)))
        }
        Null | Binary | LargeBinary | BinaryView | FixedSizeBinary(0..) => Some(of.clone()),
        Date64 | Timestamp(_, _) => Some(of.clone()),
        integer => integer.is_integer().then(|| of.clone()),
    }
}

/// A type's name without its parameters: `float64`, `list`.
pub(super) fn type_name(of: &DataType) -> String {
    let shown = of.to_string();
    shown.split('(').next().unwrap_or_default().to_lowercase()
}

/// The rows of one column.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    pub(super) name: &'a str,
    /// The name of its type in errors; that of the data's type if `None`.
    pub(super) found: Option<&'a str>,
    /// `None` if its type is not readable.
    pub(super) data: Option<&'a ArrayData>,
    /// First row in `data`.
    pub(super) first: usize,
    pub(super) rows: usize,
}

impl<'a> Column<'a> {
    /// Appends each row's bytes to `out`, `None` where it is null.
    ///
    /// # Errors
    /// If it holds neither bytes nor text.
    pub fn bytes(&self, out: &mut Vec<Option<&'a [u8]>>) -> Result<(), ImportError> {
        let wrong = || self.wrong("bytes or text");
        let data = self.data.ok_or_else(wrong)?;
        self.make_room(out)?;
        match data.data_type() {
            DataType::Null => out.resize(out.len() + self.rows, None),
            DataType::Binary => self.spans::<i32>(data, out)?,
            DataType::LargeBinary => self.spans::<i64>(data, out)?,
            DataType::FixedSizeBinary(width) => {
                let (width, values) = (width.as_usize(), data.buffers()[0].as_slice());
                self.each(data, out, |row| {
                    let from = (data.offset() + row) * width;
                    values.get(from..from + width)
                })?;
            }
            DataType::BinaryView => self.each(data, out, |row| view(data, row))?,
            DataType::Dictionary(keys, _) => self.looked_up(data, keys, out, Self::bytes)?,
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Appends each row's number to `out`, `None` where it is null; times are in milliseconds
    /// since 1970, whatever their unit was.
    ///
    /// # Errors
    /// If it holds no numbers, or one beyond 2^63.
    pub fn numbers(&self, out: &mut Vec<Option<i64>>) -> Result<(), ImportError> {
        let data = self.data.ok_or_else(|| self.wrong("integers or timestamps"))?;
        self.make_room(out)?;
        match data.data_type() {
            DataType::Null => out.resize(out.len() + self.rows, None),
            DataType::Dictionary(keys, _) => self.looked_up(data, keys, out, Self::numbers)?,
            of => self.numbers_as(of, data, out)?,
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
        let wrong = || self.wrong("lists of a name and a value");
        let data = self.data.ok_or_else(wrong)?;
        let bound = |row: usize| match data.data_type() {
            DataType::LargeList(_) => data.buffer::<i64>(0)[self.first + row].to_usize(),
            _ => data.buffer::<i32>(0)[self.first + row].to_usize(),
        };
        let (DataType::List(item) | DataType::LargeList(item)) = data.data_type() else {
            return Err(wrong());
        };
        let DataType::Struct(fields) = item.data_type() else { return Err(wrong()) };
        let ([name, value], items) = (&fields[..], &data.child_data()[0]) else {
            return Err(wrong());
        };
        let (begin, end) = bound(0).zip(bound(self.rows)).ok_or(BACKWARDS)?;
        if begin > end || end > items.len() {
            return Err(BACKWARDS);
        }
        let half = |field: &'a FieldRef, index: usize| {
            let mut all = Vec::new();
            let data = Some(&items.child_data()[index]);
            let (first, rows) = (items.offset() + begin, end - begin);
            Column { name: field.name(), found: None, data, first, rows }.bytes(&mut all)?;
            // The columns of a null pair may hold anything.
            (0..rows).filter(|row| items.is_null(begin + row)).for_each(|row| all[row] = None);
            Ok(all)
        };
        let (all_names, all_values) = (half(name, 0)?, half(value, 1)?);
        for row in 0..self.rows {
            let range = match data.is_null(self.first + row) {
                true => 0..0,
                false => shifted(bound(row)..bound(row + 1), begin).ok_or(BACKWARDS)?,
            };
            let of_row = all_names.get(range.clone()).ok_or(BACKWARDS)?;
            counts.push(of_row.len());
            names.extend_from_slice(of_row);
            values.extend_from_slice(&all_values[range]);
        }
        Ok(())
    }

    /// Reserves memory for the rows: the maker claims their number, and may have none for them.
    fn make_room<T>(&self, out: &mut Vec<T>) -> Result<(), ImportError> {
        out.try_reserve(self.rows).map_err(|_| ImportError::Memory { rows: self.rows })
    }

    fn wrong(&self, expected: &'static str) -> ImportError {
        let of = || self.data.map(|data| type_name(data.data_type())).unwrap_or_default();
        let found = self.found.map_or_else(of, str::to_owned);
        ImportError::Type { name: self.name.to_owned(), found, expected }
    }

    /// Appends the numbers in the first buffer, which are of the type `of`.
    fn numbers_as(
        &self,
        of: &DataType,
        data: &ArrayData,
        out: &mut Vec<Option<i64>>,
    ) -> Result<(), ImportError> {
        let plain = Some;
        match of {
            DataType::Int8 => self.integers::<i8>(data, out, plain),
            DataType::Int16 => self.integers::<i16>(data, out, plain),
            DataType::Int32 => self.integers::<i32>(data, out, plain),
            DataType::UInt8 => self.integers::<u8>(data, out, plain),
            DataType::UInt16 => self.integers::<u16>(data, out, plain),
            DataType::UInt32 => self.integers::<u32>(data, out, plain),
            DataType::UInt64 => self.integers::<u64>(data, out, plain),
            DataType::Int64 | DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.integers::<i64>(data, out, plain)
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                self.integers::<i64>(data, out, |number| number.mul_checked(1_000).ok())
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.integers::<i64>(data, out, |number| Some(number.div_euclid(1_000)))
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.integers::<i64>(data, out, |number| Some(number.div_euclid(1_000_000)))
            }
            _ => Err(self.wrong("integers or timestamps")),
        }
    }

    fn integers<T: ArrowNativeType + TryInto<i64>>(
        &self,
        data: &ArrayData,
        out: &mut Vec<Option<i64>>,
        scale: impl Fn(i64) -> Option<i64>,
    ) -> Result<(), ImportError> {
        let numbers = &data.buffer::<T>(0)[self.first..][..self.rows];
        self.make_room(out)?;
        let nulls = data.nulls();
        for (row, number) in (self.first..).zip(numbers) {
            let scaled = || (*number).try_into().ok().and_then(&scale);
            out.push(match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                true => None,
                false => Some(scaled().ok_or(ImportError::Invalid("a number beyond 2^63"))?),
            });
        }
        Ok(())
    }

    /// Appends what each row's index stands for; `read` reads the dictionary.
    fn looked_up<T: Copy>(
        &self,
        data: &'a ArrayData,
        keys: &DataType,
        out: &mut Vec<Option<T>>,
        read: impl FnOnce(&Self, &mut Vec<Option<T>>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let (mut words, mut indices) = (Vec::new(), Vec::new());
        let dictionary = &data.child_data()[0];
        let (data_of, rows) = (Some(dictionary), dictionary.len());
        read(&Column { found: None, data: data_of, first: 0, rows, ..*self }, &mut words)?;
        self.numbers_as(keys, data, &mut indices)?;
        for index in indices {
            let word = |index| usize::try_from(index).ok().and_then(|index| words.get(index));
            out.push(match index {
                None => None,
                Some(index) => {
                    *word(index).ok_or(ImportError::Invalid("an index beyond its dictionary"))?
                }
            });
        }
        Ok(())
    }

    /// Values that lie between two offsets in the data.
    fn spans<O: ArrowNativeType>(
        &self,
        data: &'a ArrayData,
        out: &mut Vec<Option<&'a [u8]>>,
    ) -> Result<(), ImportError> {
        let (offsets, values) = (data.buffer::<O>(0), data.buffers()[1].as_slice());
        self.each(data, out, |row| {
            values.get(offsets[row].to_usize()?..offsets[row + 1].to_usize()?)
        })
    }

    /// Reads each row that is not null; `read` gets its place in `data`.
    fn each(
        &self,
        data: &ArrayData,
        out: &mut Vec<Option<&'a [u8]>>,
        read: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<(), ImportError> {
        let nulls = data.nulls();
        for row in self.first..self.first + self.rows {
            let value = match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                true => None,
                false => Some(read(row).ok_or(BACKWARDS)?),
            };
            out.push(value);
        }
        Ok(())
    }
}

/// The bytes of a view: up to 12 lie in the view itself, more in the buffer that it names.
fn view(data: &ArrayData, row: usize) -> Option<&[u8]> {
    let (views, buffers) = data.buffers().split_first()?;
    let (view, _) =
        views.as_slice().get((data.offset() + row) * 16..)?.split_first_chunk::<16>()?;
    let (words, _) = view.as_chunks::<4>();
    let word = |index: usize| usize::try_from(i32::from_le_bytes(words[index])).ok();
    let length = word(0)?;
    if length <= 12 {
        return view.get(4..4 + length);
    }
    let from = word(3)?;
    buffers.get(word(2)?)?.as_slice().get(from..from + length)
}

fn shifted(range: Range<Option<usize>>, by: usize) -> Option<Range<usize>> {
    Some(range.start?.checked_sub(by)?..range.end?.checked_sub(by)?)
}
