//! From bytes as they arrive to whole responses.
//!
//! A response is four bytes of size and that many bytes. The size is a claim of the broker, so it
//! is checked against a cap. Memory grows with the bytes that arrive. It is ahead of them by at
//! most [`STEP_BYTES`], or by as much as has arrived.

use bytes::{Bytes, BytesMut};

/// Room for small responses: many fit into one read.
const FIRST_BYTES: usize = 16 << 10;
/// How far memory is ahead of what has arrived.
const STEP_BYTES: usize = 512 << 10;
/// A response larger than this takes its memory with it; smaller ones leave it to the next.
const KEEP_BYTES: usize = 4 << 20;
/// The size before every response.
const SIZE_BYTES: usize = 4;

/// Why what arrives is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No room for a correlation id.
    #[error("a response of {size} bytes")]
    TooSmall {
        /// As it stood on the wire.
        size: i32,
    },
    /// Beyond the cap.
    #[error("a response of {size} bytes, at most {cap} are accepted")]
    TooLarge {
        /// As it stood on the wire.
        size: usize,
        /// The cap.
        cap: usize,
    },
}

/// Cuts a stream of bytes into responses.
#[derive(Debug)]
pub struct Frames {
    /// `filled` bytes that arrived, then zeros to read into.
    memory: BytesMut,
    filled: usize,
    cap: usize,
}

impl Frames {
    /// Takes responses of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { memory: BytesMut::new(), filled: 0, cap }
    }

    /// Where the next bytes go; never empty. [`Frames::arrived`] tells how many came.
    pub fn space(&mut self) -> &mut [u8] {
        let wanted = match self.announced() {
            Some(total) if total > self.filled => {
                total.min(self.filled + self.filled.max(STEP_BYTES)).max(FIRST_BYTES)
            }
            _ => self.filled + FIRST_BYTES,
        };
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        }
        &mut self.memory[self.filled..]
    }

    /// `count` bytes came into the space.
    pub fn arrived(&mut self, count: usize) {
        self.filled += count;
        debug_assert!(self.filled <= self.memory.len());
    }

    /// The next whole response, without its size.
    pub fn cut(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(size) = self.size() else { return Ok(None) };
        let length = usize::try_from(size).unwrap_or(0);
        if length < SIZE_BYTES {
            return Err(FrameError::TooSmall { size });
        }
        if length > self.cap {
            return Err(FrameError::TooLarge { size: length, cap: self.cap });
        }
        let total = SIZE_BYTES + length;
        if self.filled < total {
            return Ok(None);
        }
        let frame = self.memory.split_to(total).freeze();
        self.filled -= total;
        if total > KEEP_BYTES && self.filled == 0 {
            self.memory = BytesMut::new();
        }
        Ok(Some(frame.slice(SIZE_BYTES..)))
    }

    /// The size that the next response claims, once it has arrived.
    fn size(&self) -> Option<i32> {
        let size = self.memory[..self.filled].first_chunk::<SIZE_BYTES>()?;
        Some(i32::from_be_bytes(*size))
    }

    /// Bytes of the next response as it claims, size included; checked by [`Frames::cut`].
    fn announced(&self) -> Option<usize> {
        let length = usize::try_from(self.size()?).ok()?;
        Some(SIZE_BYTES + length)
    }
}

#[cfg(test)]
mod tests;
