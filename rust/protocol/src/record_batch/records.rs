//! The records inside a batch: a walk that only checks, and an iterator that shows keys and values.
//!
//! ```text
//! length varint | attributes i8 | timestamp delta varlong | offset delta varint
//! | key length varint, key | value length varint, value
//! | header count varint, { key length varint, key, value length varint, value }
//! ```
//! Every integer but the attributes is zigzag encoded; the length counts what follows it, and -1
//! stands for null.
//! Source: Kafka's `DefaultRecord`.

use std::io::{self, Read};

use super::{BatchHeader, RecordBatchError};
use crate::types::Offset;

/// What the walk reads of a record; keys and values are skipped, not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordShape {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Whether the record has a key.
    pub has_key: bool,
}

/// A place that records are read from, byte by byte.
trait Source {
    /// The next byte, or `None` at the end.
    fn byte(&mut self) -> io::Result<Option<u8>>;
    /// Steps over `count` bytes; `false` if there are fewer.
    fn skip(&mut self, count: usize) -> io::Result<bool>;
    /// Bytes taken so far.
    fn taken(&self) -> usize;
}

struct Slice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Source for Slice<'_> {
    #[inline]
    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    #[inline]
    fn skip(&mut self, count: usize) -> io::Result<bool> {
        if self.bytes.len() - self.at < count {
            return Ok(false);
        }
        self.at += count;
        Ok(true)
    }

    #[inline]
    fn taken(&self) -> usize {
        self.at
    }
}

impl<'a> Slice<'a> {
    /// The next `length` bytes; `None` (null) for -1.
    fn take(&mut self, length: i32) -> Result<Option<&'a [u8]>, Flaw> {
        if length < 0 {
            return Ok(None);
        }
        let end = self.at + length as usize;
        let taken = self.bytes.get(self.at..end).ok_or(Flaw::End)?;
        self.at = end;
        Ok(Some(taken))
    }

    /// A length and that many bytes; -1 is null, and less is refused.
    #[inline]
    fn take_nullable(&mut self) -> Result<Option<&'a [u8]>, Flaw> {
        let length = varint(self)?;
        if length < -1 {
            return Err(Flaw::Invalid("a negative length"));
        }
        self.take(length)
    }
}

/// Bytes read ahead from a decompressor. What the stream holds is never kept as a whole, so a
/// batch that inflates a thousandfold costs time and no memory.
struct Stream<R> {
    inner: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    before: usize,
}

const STREAM_BUFFER_BYTES: usize = 16 * 1024;

impl<R: Read> Stream<R> {
    fn new(inner: R) -> Self {
        let buffer = vec![0; STREAM_BUFFER_BYTES].into_boxed_slice();
        Self { inner, buffer, at: 0, filled: 0, before: 0 }
    }

    /// Reads more; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        self.before += self.filled;
        self.at = 0;
        self.filled = 0;
        self.filled = self.inner.read(&mut self.buffer)?;
        Ok(self.filled > 0)
    }
}

impl<R: Read> Source for Stream<R> {
    #[inline]
    fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.buffer[self.at - 1]))
    }

    fn skip(&mut self, mut count: usize) -> io::Result<bool> {
        while count > self.filled - self.at {
            count -= self.filled - self.at;
            if !self.fill()? {
                return Ok(false);
            }
        }
        self.at += count;
        Ok(true)
    }

    fn taken(&self) -> usize {
        self.before + self.at
    }
}

/// What can be wrong with one record, before it is known which record it is.
enum Flaw {
    End,
    Invalid(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Flaw {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Flaw {
    fn at(self, index: i32, declared: i32) -> RecordBatchError {
        match self {
            Self::End => RecordBatchError::CountMismatch { declared },
            Self::Invalid(reason) => RecordBatchError::BadRecord { index, reason },
            Self::Io(error) => RecordBatchError::Compression(error.into()),
        }
    }
}

#[inline]
fn unsigned<S: Source>(source: &mut S, max_bytes: u32) -> Result<u64, Flaw> {
    let mut value = 0_u64;
    for i in 0..max_bytes {
        let byte = source.byte()?.ok_or(Flaw::End)?;
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Flaw::Invalid("a variable-length integer is too long"))
}

#[inline]
fn varint<S: Source>(source: &mut S) -> Result<i32, Flaw> {
    // Five bytes carry 35 bits; Kafka drops the upper three as well.
    let raw = unsigned(source, 5)? as u32;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

#[inline]
fn varlong<S: Source>(source: &mut S) -> Result<i64, Flaw> {
    let raw = unsigned(source, 10)?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

/// Steps over a length and that many bytes; whether they are there at all (-1 is null).
#[inline]
fn skip_nullable<S: Source>(source: &mut S) -> Result<bool, Flaw> {
    let length = varint(source)?;
    if length < -1 {
        return Err(Flaw::Invalid("a negative length"));
    }
    if length > 0 && !source.skip(length as usize)? {
        return Err(Flaw::End);
    }
    Ok(length >= 0)
}

#[inline]
fn record_shape<S: Source>(source: &mut S) -> Result<RecordShape, Flaw> {
    let length = varint(source)?;
    if length < 0 {
        return Err(Flaw::Invalid("a negative length"));
    }
    let start = source.taken();
    source.byte()?.ok_or(Flaw::End)?;
    let timestamp_delta = varlong(source)?;
    let offset_delta = varint(source)?;
    let has_key = skip_nullable(source)?;
    skip_nullable(source)?;
    let headers = varint(source)?;
    // A header takes two bytes at least, so a count that lies ends here and not after 2^31 turns.
    if headers < 0 || headers > length {
        return Err(Flaw::Invalid("a header count that its length cannot hold"));
    }
    for _ in 0..headers {
        if !skip_nullable(source)? {
            return Err(Flaw::Invalid("a header without a key"));
        }
        skip_nullable(source)?;
    }
    if source.taken() - start != length as usize {
        return Err(Flaw::Invalid("its fields do not fill its length"));
    }
    Ok(RecordShape { timestamp_delta, offset_delta, has_key })
}

fn walk<S: Source>(
    source: &mut S,
    declared: i32,
    mut visit: impl FnMut(i32, RecordShape),
) -> Result<(), RecordBatchError> {
    for index in 0..declared {
        let shape = record_shape(source).map_err(|flaw| flaw.at(index, declared))?;
        visit(index, shape);
    }
    match source.byte() {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(RecordBatchError::CountMismatch { declared }),
        Err(error) => Err(Flaw::Io(error).at(declared, declared)),
    }
}

/// Steps over every record of a batch, compressed or not, and shows the shape of each.
///
/// Allocates nothing for uncompressed batches, a fixed buffer for compressed ones.
///
/// # Errors
/// If a record contradicts its length, or the number of records differs from the header's. Also if
/// more than `cap` bytes come out of the compressed payload.
pub fn walk_records(
    header: &BatchHeader,
    payload: &[u8],
    cap: usize,
    visit: impl FnMut(i32, RecordShape),
) -> Result<(), RecordBatchError> {
    match header.codec()? {
        crate::compression::Codec::None => {
            walk(&mut Slice { bytes: payload, at: 0 }, header.record_count, visit)
        }
        codec => {
            let inner = crate::compression::reader(codec, payload, cap)?;
            walk(&mut Stream::new(inner), header.record_count, visit)
        }
    }
}

/// One record, viewed in its batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it stands in the log.
    pub offset: Offset,
    /// In ms: its own, or that of the append if the batch says so.
    pub timestamp_ms: i64,
    /// `None` is null, unlike an empty key.
    pub key: Option<&'a [u8]>,
    /// `None` is null: a tombstone.
    pub value: Option<&'a [u8]>,
    header_count: i32,
    headers: &'a [u8],
}

impl<'a> Record<'a> {
    /// Its headers, in order; keys may repeat.
    #[must_use]
    pub fn headers(&self) -> HeaderIter<'a> {
        HeaderIter::new(self.header_count, self.headers)
    }

    /// How many headers it has.
    #[must_use]
    pub fn header_count(&self) -> i32 {
        self.header_count
    }

    /// Header count and headers as they lie, to be copied into another record.
    #[must_use]
    pub fn raw_headers(&self) -> (i32, &'a [u8]) {
        (self.header_count, self.headers)
    }
}

/// A record's headers: key and value; ends early if a record was not walked before and lies.
pub struct HeaderIter<'a> {
    rest: Slice<'a>,
    left: i32,
}

impl<'a> HeaderIter<'a> {
    /// Walks `count` headers at the start of `bytes`, as [`Record::raw_headers`] gave them.
    #[must_use]
    pub fn new(count: i32, bytes: &'a [u8]) -> Self {
        Self { rest: Slice { bytes, at: 0 }, left: count }
    }
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let length = varint(&mut self.rest).ok()?;
        let key = self.rest.take(length).ok()??;
        let length = varint(&mut self.rest).ok()?;
        Some((key, self.rest.take(length).ok()?))
    }
}

/// The records of a batch whose payload is decompressed. Ends after the first error.
pub struct RecordIter<'a> {
    header: BatchHeader,
    rest: Slice<'a>,
    index: i32,
}

impl<'a> RecordIter<'a> {
    /// Walks `payload`, the decompressed records of the batch with `header`.
    #[must_use]
    pub fn new(header: &BatchHeader, payload: &'a [u8]) -> Self {
        Self { header: *header, rest: Slice { bytes: payload, at: 0 }, index: 0 }
    }

    /// One look at each byte, checked like [`record_shape`]: consumers spend their time here.
    #[inline]
    fn read(&mut self) -> Result<Record<'a>, Flaw> {
        let length = varint(&mut self.rest)?;
        let start = self.rest.at;
        let end = usize::try_from(length)
            .map(|length| start + length)
            .map_err(|_| Flaw::Invalid("a negative length"))?;
        self.rest.byte()?.ok_or(Flaw::End)?;
        let timestamp_delta = varlong(&mut self.rest)?;
        let offset_delta = varint(&mut self.rest)?;
        let key = self.rest.take_nullable()?;
        let value = self.rest.take_nullable()?;
        let header_count = varint(&mut self.rest)?;
        if header_count < 0 || header_count > length {
            return Err(Flaw::Invalid("a header count that its length cannot hold"));
        }
        let headers_at = self.rest.at;
        for _ in 0..header_count {
            if !skip_nullable(&mut self.rest)? {
                return Err(Flaw::Invalid("a header without a key"));
            }
            skip_nullable(&mut self.rest)?;
        }
        if self.rest.at != end {
            return Err(Flaw::Invalid("its fields do not fill its length"));
        }
        let headers = &self.rest.bytes[headers_at..end];
        let offset = self.header.base_offset.0.wrapping_add(i64::from(offset_delta));
        let timestamp_ms = self.header.record_timestamp(timestamp_delta);
        Ok(Record { offset: Offset(offset), timestamp_ms, key, value, header_count, headers })
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordBatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let declared = self.header.record_count;
        if self.index >= declared {
            return None;
        }
        let index = self.index;
        self.index += 1;
        let record = self.read().map_err(|flaw| flaw.at(index, declared));
        if record.is_err() {
            self.index = declared;
        }
        Some(record)
    }
}
