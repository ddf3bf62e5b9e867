//! The codecs of record batches, each in the framing that Kafka's clients write.
//!
//! | id | codec  | framing                                                                    |
//! |----|--------|----------------------------------------------------------------------------|
//! | 1  | gzip   | RFC 1952, members may follow each other                                    |
//! | 2  | snappy | xerial: 16 bytes of head, then blocks of i32 length and raw snappy; or raw |
//! | 3  | lz4    | LZ4 frame with independent blocks (Java refuses linked ones)               |
//! | 4  | zstd   | zstandard frames                                                           |
//!
//! Nothing here believes a length before the bytes are there: output is produced as it is read and
//! ends with an error at a cap. Source: Kafka's `CompressionType`; xerial's `SnappyInputStream`.

use std::io::{self, Read, Write};

use bytes::Bytes;
use thiserror::Error;

#[cfg(test)]
mod tests;
mod zstd_reader;

/// Why a payload cannot be decompressed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CompressionError {
    /// More came out than the caller allows.
    #[error("decompressed records exceed {cap} bytes")]
    TooLarge {
        /// The bound, in bytes.
        cap: usize,
    },
    /// The bytes are not what the codec writes.
    #[error("compressed records are damaged: {reason}")]
    Damaged {
        /// What the codec says.
        reason: String,
    },
}

impl From<io::Error> for CompressionError {
    fn from(error: io::Error) -> Self {
        // The cap travels through `Read`, which knows only `io::Error`.
        match error.get_ref().and_then(|inner| inner.downcast_ref::<OverCap>()) {
            Some(over) => Self::TooLarge { cap: over.0 },
            None => Self::Damaged { reason: error.to_string() },
        }
    }
}

fn damaged(reason: impl ToString) -> CompressionError {
    CompressionError::Damaged { reason: reason.to_string() }
}

#[derive(Debug, Error)]
#[error("more than {0} bytes")]
struct OverCap(usize);

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// Every codec there is, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this number in a batch's attributes.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Its number in a batch's attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Its name in `compression.type`; `None` is called "uncompressed" there.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["uncompressed", "gzip", "snappy", "lz4", "zstd"][self as usize]
    }
}

/// Bytes that a ratio may reach whatever the input's size, so that small batches of zeros pass.
const RATIO_FLOOR_BYTES: usize = 16 << 20;
/// Above that, output per input byte. Deflate cannot pass 1,032; zstd on constant bytes can.
const RATIO_CAP: usize = 2_048;

/// A stream of the decompressed bytes, with an error once more than `cap` bytes came out.
///
/// The cap is lowered for tiny inputs that inflate beyond all reason.
///
/// # Errors
/// If the head of the stream is not the codec's.
pub fn reader<'a>(
    codec: Codec,
    compressed: &'a [u8],
    cap: usize,
) -> Result<Box<dyn Read + 'a>, CompressionError> {
    let cap = cap.min(compressed.len().saturating_mul(RATIO_CAP).max(RATIO_FLOOR_BYTES));
    let inner: Box<dyn Read + 'a> = match codec {
        Codec::None => Box::new(compressed),
        Codec::Gzip => Box::new(flate2::read::MultiGzDecoder::new(compressed)),
        Codec::Snappy => Box::new(SnappyReader::new(compressed, cap)),
        Codec::Lz4 => {
            require_independent_blocks(compressed)?;
            Box::new(lz4_flex::frame::FrameDecoder::new(compressed))
        }
        Codec::Zstd => Box::new(zstd_reader::ZstdReader::new(compressed)),
    };
    Ok(Box::new(Capped { inner, left: cap, cap }))
}

/// The decompressed bytes, at most `cap` of them.
///
/// # Errors
/// If the bytes are damaged or inflate beyond the cap.
pub fn decompress(codec: Codec, compressed: &[u8], cap: usize) -> Result<Bytes, CompressionError> {
    if codec == Codec::None {
        return Ok(Bytes::copy_from_slice(compressed));
    }
    let mut out = Vec::with_capacity(compressed.len().saturating_mul(2).min(cap));
    reader(codec, compressed, cap)?.read_to_end(&mut out)?;
    Ok(Bytes::from(out))
}

/// Compresses `payload` at the codec's default level.
///
/// # Errors
/// If the codec fails, which it does only out of memory.
pub fn compress(codec: Codec, payload: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let mut out = Vec::with_capacity(payload.len() / 2);
    compress_into(codec, None, payload, &mut out)?;
    Ok(out)
}

/// Compresses `payload` at the end of `out`; `level` is that of gzip or zstd, `None` the default.
///
/// # Errors
/// If the codec fails, which it does only out of memory or with a level that is none.
pub fn compress_into(
    codec: Codec,
    level: Option<i32>,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    match codec {
        Codec::None => out.extend_from_slice(payload),
        Codec::Gzip => {
            let level = level.and_then(|level| u32::try_from(level).ok());
            let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder.write_all(payload)?;
            encoder.finish()?;
        }
        Codec::Snappy => compress_xerial(payload, out)?,
        Codec::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
            encoder.write_all(payload)?;
            encoder.finish().map_err(damaged)?;
        }
        Codec::Zstd => {
            let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            let start = out.len();
            out.resize(start + zstd::zstd_safe::compress_bound(payload.len()), 0);
            let written = zstd::bulk::compress_to_buffer(payload, &mut out[start..], level);
            out.truncate(start + written.as_ref().copied().unwrap_or(0));
            written?;
        }
    }
    Ok(())
}

struct Capped<R> {
    inner: R,
    left: usize,
    cap: usize,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left =
            self.left.checked_sub(read).ok_or_else(|| io::Error::other(OverCap(self.cap)))?;
        Ok(read)
    }
}

/// Java's reader fails on blocks that refer to earlier ones, and with it every consumer in Java.
fn require_independent_blocks(compressed: &[u8]) -> Result<(), CompressionError> {
    const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
    const BLOCK_INDEPENDENCE: u8 = 0x20;
    match compressed.get(..5) {
        Some(head) if head[..4] != MAGIC => Err(damaged("not an LZ4 frame")),
        Some(head) if head[4] & BLOCK_INDEPENDENCE == 0 => Err(damaged("LZ4 blocks are linked")),
        Some(_) => Ok(()),
        None => Err(damaged("LZ4 frame is cut short")),
    }
}

const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEAD_LENGTH: usize = 16;
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

fn compress_xerial(payload: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
    out.extend_from_slice(&XERIAL_MAGIC);
    // Version and the oldest version that can read it.
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in payload.chunks(XERIAL_BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block).map_err(damaged)?;
        out.extend_from_slice(&(compressed.len() as i32).to_be_bytes());
        out.extend_from_slice(&compressed);
    }
    Ok(())
}

/// Decompresses block by block. Raw snappy (librdkafka writes it) is one block without a head.
struct SnappyReader<'a> {
    rest: &'a [u8],
    framed: bool,
    cap: usize,
    block: Vec<u8>,
    at: usize,
}

impl<'a> SnappyReader<'a> {
    fn new(compressed: &'a [u8], cap: usize) -> Self {
        let framed =
            compressed.len() >= XERIAL_HEAD_LENGTH && compressed.starts_with(&XERIAL_MAGIC);
        let rest = if framed { &compressed[XERIAL_HEAD_LENGTH..] } else { compressed };
        Self { rest, framed, cap, block: Vec::new(), at: 0 }
    }

    fn next_block(&mut self) -> io::Result<&'a [u8]> {
        if !self.framed {
            return Ok(std::mem::take(&mut self.rest));
        }
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "snappy block is cut short");
        let (head, rest) = self.rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = usize::try_from(i32::from_be_bytes(*head))
            .map_err(|_| io::Error::other("negative snappy block length"))?;
        let block = rest.get(..length).ok_or_else(cut)?;
        self.rest = &rest[length..];
        Ok(block)
    }
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if self.rest.is_empty() {
                return Ok(0);
            }
            let compressed = self.next_block()?;
            let length = snap::raw::decompress_len(compressed).map_err(io::Error::other)?;
            // A copy turns 2 bytes into at most 64, so a larger claim cannot be true.
            if length > compressed.len().saturating_mul(64) {
                return Err(io::Error::other("snappy block claims more than it can hold"));
            }
            if length > self.cap {
                return Err(io::Error::other(OverCap(self.cap)));
            }
            self.block.resize(length, 0);
            let written = snap::raw::Decoder::new()
                .decompress(compressed, &mut self.block)
                .map_err(io::Error::other)?;
            self.block.truncate(written);
            self.at = 0;
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
