//! Takes values from a frame. Strings are copied, bytes are slices of the frame.

use crate::types::Uuid;
use bytes::{Buf, Bytes};

/// Most elements all arrays of one frame may have together.
pub const MAX_ELEMENTS: usize = 1_000_000;
/// Most tagged fields of one struct.
pub const MAX_TAGS: u32 = 10_000;
/// Elements an array has room for before the first one was read.
const FIRST_CAPACITY: usize = 64;

/// Why a frame could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A value wants more bytes than are left.
    #[error("{needed} bytes needed, {remaining} left")]
    UnexpectedEnd {
        /// Bytes the value takes.
        needed: usize,
        /// Bytes the frame still has.
        remaining: usize,
    },
    /// A length below -1, or -1 where null is not allowed.
    #[error("length {length} is not allowed here")]
    InvalidLength {
        /// As it stood on the wire.
        length: i64,
    },
    /// More elements than any honest request has.
    #[error("{count} elements are more than {MAX_ELEMENTS}")]
    TooManyElements {
        /// As it stood on the wire.
        count: usize,
    },
    /// More tagged fields than any honest struct has.
    #[error("{count} tagged fields are more than {MAX_TAGS}")]
    TooManyTags {
        /// As it stood on the wire.
        count: u32,
    },
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    InvalidUtf8,
    /// A varint of more than 5 (10) bytes.
    #[error("a varint does not end")]
    InvalidVarint,
}

type Result<T> = std::result::Result<T, DecodeError>;

/// A cursor over one frame.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    elements_left: usize,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident -> $type:ty = $get:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self) -> Result<$type> {
            self.want(size_of::<$type>())?;
            Ok(self.bytes.$get())
        }
    )*};
}

impl Reader {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, elements_left: MAX_ELEMENTS }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// What has not been read.
    pub fn into_rest(self) -> Bytes {
        self.bytes
    }

    fn want(&self, needed: usize) -> Result<()> {
        let remaining = self.bytes.len();
        if needed > remaining {
            return Err(DecodeError::UnexpectedEnd { needed, remaining });
        }
        Ok(())
    }

    numbers! {
        /// One byte.
        i8 -> i8 = get_i8;
        /// Two bytes.
        i16 -> i16 = get_i16;
        /// Two bytes, unsigned.
        u16 -> u16 = get_u16;
        /// Four bytes.
        i32 -> i32 = get_i32;
        /// Four bytes, unsigned.
        u32 -> u32 = get_u32;
        /// Eight bytes.
        i64 -> i64 = get_i64;
        /// Eight bytes, IEEE 754.
        f64 -> f64 = get_f64;
    }

    /// One byte; everything but 0 is true.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.i8()? != 0)
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Result<Uuid> {
        self.want(16)?;
        let mut value = [0; 16];
        self.bytes.copy_to_slice(&mut value);
        Ok(Uuid(value))
    }

    /// An unsigned varint of at most five bytes.
    pub fn unsigned_varint(&mut self) -> Result<u32> {
        let mut value: u32 = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.i8()? as u8;
            value |= u32::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::InvalidVarint)
    }

    /// A zigzag varint of at most five bytes.
    pub fn varint(&mut self) -> Result<i32> {
        let value = self.unsigned_varint()?;
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zigzag varint of at most ten bytes.
    pub fn varlong(&mut self) -> Result<i64> {
        let mut value: u64 = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.i8()? as u8;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(DecodeError::InvalidVarint)
    }

    /// A compact length; -1 for null.
    fn compact_length(&mut self) -> Result<i64> {
        Ok(i64::from(self.unsigned_varint()?) - 1)
    }

    fn checked_length(&self, length: i64, nullable: bool) -> Result<Option<usize>> {
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 && nullable => Ok(None),
            Err(_) => Err(DecodeError::InvalidLength { length }),
        }
    }

    /// A string or null; null where `nullable` is false is an error.
    pub fn nullable_string(&mut self, flexible: bool, nullable: bool) -> Result<Option<String>> {
        let length = if flexible { self.compact_length()? } else { i64::from(self.i16()?) };
        let Some(length) = self.checked_length(length, nullable)? else { return Ok(None) };
        self.want(length)?;
        let text = std::str::from_utf8(&self.bytes[..length])
            .map_err(|_| DecodeError::InvalidUtf8)?
            .to_owned();
        self.bytes.advance(length);
        Ok(Some(text))
    }

    /// A string.
    pub fn string(&mut self, flexible: bool) -> Result<String> {
        Ok(self.nullable_string(flexible, false)?.unwrap_or_default())
    }

    /// Bytes or null, as a slice of the frame; null where `nullable` is false is an error.
    pub fn nullable_bytes(&mut self, flexible: bool, nullable: bool) -> Result<Option<Bytes>> {
        let length = if flexible { self.compact_length()? } else { i64::from(self.i32()?) };
        let Some(length) = self.checked_length(length, nullable)? else { return Ok(None) };
        self.take(length).map(Some)
    }

    /// Bytes, as a slice of the frame.
    pub fn bytes(&mut self, flexible: bool) -> Result<Bytes> {
        Ok(self.nullable_bytes(flexible, false)?.unwrap_or_default())
    }

    /// The next `length` bytes, as a slice of the frame.
    pub fn take(&mut self, length: usize) -> Result<Bytes> {
        self.want(length)?;
        Ok(self.bytes.split_to(length))
    }

    /// The length of an array, or null.
    pub fn nullable_array_len(&mut self, flexible: bool, nullable: bool) -> Result<Option<usize>> {
        let length = if flexible { self.compact_length()? } else { i64::from(self.i32()?) };
        let Some(count) = self.checked_length(length, nullable)? else { return Ok(None) };
        // Every element takes at least one byte, so a count beyond the frame is a lie.
        self.want(count)?;
        if count > self.elements_left {
            return Err(DecodeError::TooManyElements { count });
        }
        self.elements_left -= count;
        Ok(Some(count))
    }

    /// The length of an array.
    pub fn array_len(&mut self, flexible: bool) -> Result<usize> {
        Ok(self.nullable_array_len(flexible, false)?.unwrap_or(0))
    }

    /// `count` elements. Memory grows with what was read, not with what was promised.
    pub fn elements<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut elements = Vec::with_capacity(count.min(FIRST_CAPACITY));
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// How many tagged fields follow.
    pub fn tag_count(&mut self) -> Result<u32> {
        let count = self.unsigned_varint()?;
        if count > MAX_TAGS {
            return Err(DecodeError::TooManyTags { count });
        }
        Ok(count)
    }

    /// One tagged field: its tag, and a reader of its bytes alone.
    pub fn tag(&mut self) -> Result<(u32, Self)> {
        let tag = self.unsigned_varint()?;
        let size = self.unsigned_varint()? as usize;
        let bytes = self.take(size)?;
        Ok((tag, Self { bytes, elements_left: self.elements_left }))
    }

    /// Skips tagged fields, none of which is known.
    pub fn skip_tags(&mut self) -> Result<()> {
        for _ in 0..self.tag_count()? {
            self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.want(size)?;
            self.bytes.advance(size);
        }
        Ok(())
    }
}
