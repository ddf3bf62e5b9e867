//! Takes values from a frame. Strings are copied, bytes are slices of the frame.
//!
//! All memory that decoding one frame takes, the frame itself aside, is charged to one account of
//! [`MAX_MEMORY_BYTES`] before it is allocated. So a false count costs no more than that, and
//! neither does a frame of many tiny elements: one byte can become a struct of a hundred. Each
//! element of a request has an element of the answer, often with more bytes. So a request, unlike
//! an answer, may hold at most [`MAX_REQUEST_ELEMENTS`] of them.

use crate::types::Uuid;
use bytes::Bytes;

/// Most memory that the values of one frame may take. The largest honest request, a fetch of
/// 100,000 partitions, takes about 10 MB.
pub const MAX_MEMORY_BYTES: usize = 64 << 20;
/// What a byte of a record that brokers wrote may take in memory, where that is more. A partition
/// takes some six times its bytes.
const RECORD_WEIGHT: usize = 16;
/// Most elements of all arrays of one request together. An honest one that names every partition of
/// a large broker has a fifth of that.
pub const MAX_REQUEST_ELEMENTS: usize = 1_000_000;
/// Most tagged fields of one struct.
pub const MAX_TAGS: u32 = 10_000;
/// Longest string, in bytes: Kafka refuses longer ones in both spellings.
pub const MAX_STRING_BYTES: usize = i16::MAX as usize;
/// What an allocation costs beyond the bytes asked for.
const ALLOCATION_BYTES: usize = 16;

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
    /// More strings and elements than any honest frame has.
    #[error("the frame's values take more than {MAX_MEMORY_BYTES} bytes of memory")]
    TooMuchMemory,
    /// More elements of arrays than any honest request has.
    #[error("the request's arrays have more than {MAX_REQUEST_ELEMENTS} elements")]
    TooManyElements,
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
    frame: Bytes,
    /// Where the next value starts.
    at: usize,
    /// Where this reader stops: the frame's end, or that of the tagged field that is being read.
    end: usize,
    memory_left: usize,
    elements_left: usize,
    /// What a byte of a string is charged as.
    string_weight: usize,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident -> $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$type> {
            Ok(<$type>::from_be_bytes(self.array()?))
        }
    )*};
}

impl Reader {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        let end = bytes.len();
        let (memory_left, elements_left) = (MAX_MEMORY_BYTES, usize::MAX);
        Self { frame: bytes, at: 0, end, memory_left, elements_left, string_weight: 1 }
    }

    /// Reads what brokers write down, which may be very long: a topic has one record in a snapshot,
    /// however many partitions it has. Its memory is in proportion to bytes that are there.
    pub fn of_record(bytes: Bytes) -> Self {
        let memory_left = MAX_MEMORY_BYTES.max(bytes.len().saturating_mul(RECORD_WEIGHT));
        Self { memory_left, ..Self::new(bytes) }
    }

    /// Reads a request, whose elements are bounded and whose strings weigh double: most answers
    /// repeat them.
    pub fn of_request(bytes: Bytes) -> Self {
        let (elements_left, string_weight) = (MAX_REQUEST_ELEMENTS, 2);
        Self { elements_left, string_weight, ..Self::new(bytes) }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Memory that decoding has taken off the frame's account, in bytes.
    pub fn charged_bytes(&self) -> usize {
        MAX_MEMORY_BYTES.saturating_sub(self.memory_left)
    }

    /// What has not been read.
    pub fn into_rest(self) -> Bytes {
        self.frame.slice(self.at..self.end)
    }

    /// The next `length` bytes.
    #[inline]
    fn next(&mut self, length: usize) -> Result<&[u8]> {
        self.want(length)?;
        let from = self.at;
        self.at += length;
        Ok(&self.frame[from..self.at])
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut value = [0; N];
        value.copy_from_slice(self.next(N)?);
        Ok(value)
    }

    #[inline]
    fn want(&self, needed: usize) -> Result<()> {
        let remaining = self.remaining();
        if needed > remaining {
            return Err(DecodeError::UnexpectedEnd { needed, remaining });
        }
        Ok(())
    }

    /// Takes `bytes`, and what an allocation costs, off the frame's account.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        let cost = bytes.saturating_add(ALLOCATION_BYTES);
        self.memory_left = self.memory_left.checked_sub(cost).ok_or(DecodeError::TooMuchMemory)?;
        Ok(())
    }

    numbers! {
        /// One byte.
        i8 -> i8;
        /// Two bytes.
        i16 -> i16;
        /// Two bytes, unsigned.
        u16 -> u16;
        /// Four bytes.
        i32 -> i32;
        /// Four bytes, unsigned.
        u32 -> u32;
        /// Eight bytes.
        i64 -> i64;
        /// Eight bytes, IEEE 754.
        f64 -> f64;
    }

    /// One byte; everything but 0 is true.
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.i8()? != 0)
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Result<Uuid> {
        Ok(Uuid(self.array()?))
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
        if length > MAX_STRING_BYTES {
            return Err(DecodeError::InvalidLength { length: length as i64 });
        }
        self.charge(length * self.string_weight)?;
        let text = std::str::from_utf8(self.next(length)?);
        Ok(Some(text.map_err(|_| DecodeError::InvalidUtf8)?.to_owned()))
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
        let from = self.at;
        self.at += length;
        Ok(self.frame.slice(from..self.at))
    }

    /// The length of an array, or null.
    pub fn nullable_array_len(&mut self, flexible: bool, nullable: bool) -> Result<Option<usize>> {
        let length = if flexible { self.compact_length()? } else { i64::from(self.i32()?) };
        let Some(count) = self.checked_length(length, nullable)? else { return Ok(None) };
        // Every element takes at least one byte, so a count beyond the frame is a lie.
        self.want(count)?;
        Ok(Some(count))
    }

    /// The length of an array.
    pub fn array_len(&mut self, flexible: bool) -> Result<usize> {
        Ok(self.nullable_array_len(flexible, false)?.unwrap_or(0))
    }

    /// `count` elements: their memory is charged, then taken in one piece.
    pub fn elements<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let left = self.elements_left.checked_sub(count);
        self.elements_left = left.ok_or(DecodeError::TooManyElements)?;
        self.charge(count.saturating_mul(size_of::<T>()))?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// The tagged fields that end a struct: `read` gets each tag, and this reader confined to its
    /// bytes. What
    /// `read` leaves of them is skipped, as are fields it does not know.
    pub fn tags(&mut self, mut read: impl FnMut(u32, &mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..self.tag_count()? {
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.want(size)?;
            let (after, end) = (self.at + size, self.end);
            self.end = after;
            read(tag, self)?;
            (self.at, self.end) = (after, end);
        }
        Ok(())
    }

    /// Skips tagged fields, none of which is known.
    pub fn skip_tags(&mut self) -> Result<()> {
        for _ in 0..self.tag_count()? {
            self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.next(size)?;
        }
        Ok(())
    }

    fn tag_count(&mut self) -> Result<u32> {
        let count = self.unsigned_varint()?;
        if count > MAX_TAGS {
            return Err(DecodeError::TooManyTags { count });
        }
        Ok(count)
    }
}
