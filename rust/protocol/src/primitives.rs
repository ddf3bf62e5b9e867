//! The smallest pieces of the wire: numbers, strings, arrays, tags, in their old and compact
//! spellings.
//!
//! "Flexible" versions (KIP-482) write lengths as unsigned varints, one more than the length so
//! that 0 is null, and end every struct with tagged fields.

mod reader;
mod writer;

use bytes::Bytes;

pub use reader::{DecodeError, MAX_MEMORY_BYTES, MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES, Reader};
pub use writer::{WirePiece, Writer};

/// The record batches of a produce request or a fetch response.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    /// In memory.
    Bytes(Bytes),
    /// Elsewhere, in a file: the sender of the frame knows the meaning of `token`.
    External {
        /// The sender's own name for the bytes.
        token: u32,
        /// How many bytes there are.
        len: u32,
    },
}

impl Default for Records {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl Records {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::External { len, .. } => *len as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes; empty where they are elsewhere. Whatever was decoded from a frame is in memory.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::External { .. } => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests;
