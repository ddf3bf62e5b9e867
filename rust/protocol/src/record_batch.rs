//! Record batches of magic 2: the unit that is produced, stored, replicated and fetched.
//!
//! A batch is viewed where it lies; nothing is copied and no record is materialised.
//! ```text
//!  0 base offset i64             | 23 last offset delta i32 | 43 producer id i64
//!  8 batch length i32            | 27 base timestamp i64    | 51 producer epoch i16
//! 12 partition leader epoch i32  | 35 max timestamp i64     | 53 base sequence i32
//! 16 magic i8 (2)                |                          | 57 record count i32
//! 17 CRC-32C u32, over all from byte 21 on                  | 61 records
//! 21 attributes i16: 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//! ```
//! The length counts what follows it. Base offset and leader epoch stand before the bytes that the
//! CRC covers, so a broker assigns them without a new checksum.
//! Source: the bytes are those of Kafka's `DefaultRecordBatch` and `DefaultRecord`.

use thiserror::Error;

use crate::compression::CompressionError;
use crate::types::Offset;

mod builder;
mod encode;
mod header;
mod records;
#[cfg(test)]
mod tests;

pub use builder::{RecordBatchBuilder, RecordHeader};
pub use encode::{write_header, write_record};
pub use header::{BatchHeader, TimestampType, advance_sequence};
pub use records::{HeaderIter, Record, RecordIter, RecordShape, walk_records};

/// Bytes of a batch before its first record.
pub const HEADER_LENGTH: usize = 61;
/// Bytes of base offset and batch length: what a batch has beyond its batch length.
pub const LOG_OVERHEAD: usize = 12;
/// Bytes needed to see a batch's magic.
pub const MAGIC_END: usize = 17;
/// First byte that the CRC covers.
pub const CRC_START: usize = 21;
/// The only magic that is stored.
pub const MAGIC_V2: i8 = 2;
/// "No timestamp", "no producer id", "no sequence" and "no epoch" are all -1.
pub const NO_TIMESTAMP: i64 = -1;
/// A batch whose producer is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;
/// The producer epoch of such a batch.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// The base sequence of such a batch.
pub const NO_SEQUENCE: i32 = -1;

/// Why bytes are not a record batch, or not one that can be stored.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RecordBatchError {
    /// The bytes end before the batch does.
    #[error("record batch of {needed} bytes is cut short at {available}")]
    Truncated {
        /// Bytes the batch claims, or the smallest batch there is.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// The batch length is smaller than a header.
    #[error("batch length {length} is smaller than a record batch header")]
    BadLength {
        /// The length field as it came.
        length: i32,
    },
    /// Another magic than 2.
    #[error("record batch has magic {magic}, expected 2")]
    BadMagic {
        /// The magic as it came.
        magic: i8,
    },
    /// The bytes changed on their way.
    #[error("record batch CRC is {computed:#010x}, its header says {stored:#010x}")]
    BadCrc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// Attribute bits 0-2 name no codec.
    #[error("unknown compression codec {id}")]
    UnknownCodec {
        /// The codec's number.
        id: u8,
    },
    /// A record contradicts itself or its batch.
    #[error("record {index} of the batch is invalid: {reason}")]
    BadRecord {
        /// Which record, from 0.
        index: i32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The records end before the count in the header is reached, or go on after it.
    #[error("the batch declares {declared} records, but its bytes do not hold exactly that many")]
    CountMismatch {
        /// The count in the header.
        declared: i32,
    },
    /// The compressed records cannot be decompressed within the bounds.
    #[error(transparent)]
    Compression(#[from] CompressionError),
}

/// One record batch, viewed where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> RecordBatch<'a> {
    /// Views the batch at the start of `bytes`; what follows it is left alone.
    ///
    /// Checks lengths and magic, not the CRC (see [`Self::verify_crc`]).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordBatchError> {
        let header = BatchHeader::parse(bytes)?;
        let size = header.size();
        let bytes = bytes
            .get(..size)
            .ok_or(RecordBatchError::Truncated { needed: size, available: bytes.len() })?;
        Ok(Self { header, bytes })
    }

    /// The fields before the records.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch as it lies.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records as they lie: compressed, if the batch is.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LENGTH..]
    }

    /// Offset of the first record.
    #[must_use]
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// Offset of the last record, inclusive.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// Fails if the bytes from the attributes on do not have the CRC-32C in the header.
    pub fn verify_crc(&self) -> Result<(), RecordBatchError> {
        let computed = crc32c(&self.bytes[CRC_START..]);
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(RecordBatchError::BadCrc { stored: self.header.crc, computed })
        }
    }

    /// The records, decompressed if need be into at most `cap` bytes.
    ///
    /// # Errors
    /// If the payload does not decompress within `cap`.
    pub fn records(&self, cap: usize) -> Result<Records<'a>, RecordBatchError> {
        let codec = self.header.codec()?;
        let payload = match codec {
            crate::compression::Codec::None => std::borrow::Cow::Borrowed(self.payload()),
            codec => std::borrow::Cow::Owned(
                crate::compression::decompress(codec, self.payload(), cap)?.into(),
            ),
        };
        Ok(Records { header: self.header, payload })
    }
}

/// The decompressed records of one batch; owns their bytes when the batch was compressed.
#[derive(Debug)]
pub struct Records<'a> {
    header: BatchHeader,
    payload: std::borrow::Cow<'a, [u8]>,
}

impl Records<'_> {
    /// Walks the records from first to last.
    #[must_use]
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter::new(&self.header, &self.payload)
    }

    /// The bytes of the records, decompressed.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl<'a> IntoIterator for &'a Records<'_> {
    type Item = Result<Record<'a>, RecordBatchError>;
    type IntoIter = RecordIter<'a>;
    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

/// Walks the batches that lie one after the other in `bytes`, as in a segment or a fetch response.
///
/// A batch cut short at the end is what `max_bytes` does to a response: the walk just ends there.
/// Any other error is returned once, and ends the walk.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Starts at the first byte, which must be the start of a batch.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not walked yet; after the end, the batch that was cut short.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, RecordBatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match RecordBatch::parse(self.rest) {
            Ok(batch) => {
                self.rest = &self.rest[batch.bytes.len()..];
                Some(Ok(batch))
            }
            Err(RecordBatchError::Truncated { .. }) => None,
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// CRC-32C (Castagnoli) of `bytes`, the checksum of record batches.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of bytes that come in pieces.
pub struct Crc32c(crc_fast::Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The checksum of all pieces.
    #[must_use]
    pub fn finish(self) -> u32 {
        // A CRC-32 in 64 bits: the upper half is zero.
        self.0.finalize() as u32
    }
}

/// CRC-32C of two pieces as if they lay one after the other.
#[must_use]
pub fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    // The algorithm is 32 bits wide; the crate hands every result out in 64.
    digest.finalize() as u32
}
