//! Puts values into a frame: memory, with gaps where bytes of a file go.

use super::Records;
use super::reader::MAX_STRING_BYTES;
use crate::types::Uuid;
use bytes::{BufMut, Bytes, BytesMut};

/// A frame is a list of these, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum WirePiece {
    /// Bytes in memory.
    Mem(Bytes),
    /// `len` bytes of what the sender calls `token`.
    External {
        /// As given in [`Records::External`].
        token: u32,
        /// In bytes.
        len: u32,
    },
}

/// Collects one frame.
#[derive(Debug, Default)]
pub struct Writer {
    /// Everything but the records, in one run: a fetch response of a thousand partitions takes one
    /// buffer.
    memory: BytesMut,
    /// What lies between: (bytes of `memory` before it, piece).
    between: Vec<(usize, WirePiece)>,
    /// Bytes in `between`.
    between_bytes: usize,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $put:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, value: $type) {
            self.memory.$put(value);
        }
    )*};
}

impl Writer {
    /// An empty frame.
    pub fn new() -> Self {
        Self::with_capacity(128)
    }

    /// An empty frame with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { memory: BytesMut::with_capacity(capacity), between: Vec::new(), between_bytes: 0 }
    }

    /// Bytes written so far, those of files included.
    pub fn len(&self) -> usize {
        self.between_bytes + self.memory.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame in pieces.
    pub fn into_pieces(self) -> Vec<WirePiece> {
        let memory = self.memory.freeze();
        if self.between.is_empty() {
            // A slice of it would make it shared, which costs an allocation.
            return vec![WirePiece::Mem(memory)];
        }
        let mut pieces = Vec::with_capacity(2 * self.between.len() + 1);
        let mut from = 0;
        for (at, piece) in self.between {
            if at > from {
                pieces.push(WirePiece::Mem(memory.slice(from..at)));
            }
            pieces.push(piece);
            from = at;
        }
        if memory.len() > from {
            pieces.push(WirePiece::Mem(memory.slice(from..)));
        }
        pieces
    }

    /// The frame as one run of bytes. Pieces of files are left out: only for frames without any.
    pub fn into_bytes(self) -> Bytes {
        if self.between.is_empty() {
            return self.memory.freeze();
        }
        let mut all = BytesMut::with_capacity(self.len());
        for piece in self.into_pieces() {
            if let WirePiece::Mem(bytes) = piece {
                all.extend_from_slice(&bytes);
            }
        }
        all.freeze()
    }

    /// Overwrites the first four bytes with the frame's length without them.
    pub fn patch_size(&mut self) {
        let size = u32::try_from(self.len().saturating_sub(4)).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(first) = self.memory.first_chunk_mut() {
            *first = size;
        }
    }

    fn put_between(&mut self, piece: WirePiece, length: usize) {
        self.between.push((self.memory.len(), piece));
        self.between_bytes += length;
    }

    numbers! {
        /// One byte.
        i8(i8) = put_i8;
        /// Two bytes.
        i16(i16) = put_i16;
        /// Two bytes, unsigned.
        u16(u16) = put_u16;
        /// Four bytes.
        i32(i32) = put_i32;
        /// Four bytes, unsigned.
        u32(u32) = put_u32;
        /// Eight bytes.
        i64(i64) = put_i64;
        /// Eight bytes, IEEE 754.
        f64(f64) = put_f64;
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.memory.put_u8(u8::from(value));
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, value: Uuid) {
        self.memory.put_slice(&value.0);
    }

    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.memory.put_slice(bytes);
    }

    /// An unsigned varint.
    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.memory.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.memory.put_u8(value as u8);
    }

    /// A zigzag varint.
    pub fn varint(&mut self, value: i32) {
        self.unsigned_varint(((value << 1) ^ (value >> 31)) as u32);
    }

    /// A string. One longer than [`MAX_STRING_BYTES`], which no client would read, is cut.
    pub fn string(&mut self, value: &str, flexible: bool) {
        let value = &value[..value.floor_char_boundary(MAX_STRING_BYTES)];
        if flexible {
            self.unsigned_varint(value.len() as u32 + 1);
        } else {
            self.memory.put_i16(value.len() as i16);
        }
        self.memory.put_slice(value.as_bytes());
    }

    /// No string.
    pub fn null_string(&mut self, flexible: bool) {
        if flexible { self.unsigned_varint(0) } else { self.memory.put_i16(-1) }
    }

    /// Bytes with their length before them.
    pub fn bytes(&mut self, value: &[u8], flexible: bool) {
        self.bytes_len(value.len(), flexible);
        self.memory.put_slice(value);
    }

    fn bytes_len(&mut self, length: usize, flexible: bool) {
        if flexible {
            self.unsigned_varint(length as u32 + 1);
        } else {
            self.memory.put_i32(length as i32);
        }
    }

    /// No bytes.
    pub fn null_bytes(&mut self, flexible: bool) {
        if flexible { self.unsigned_varint(0) } else { self.memory.put_i32(-1) }
    }

    /// Record batches: bytes in memory are shared and not copied, bytes of files stay where they
    /// are.
    pub fn records(&mut self, records: &Records, flexible: bool) {
        self.bytes_len(records.len(), flexible);
        match records {
            Records::Bytes(bytes) if bytes.len() < 1_024 => self.memory.put_slice(bytes),
            Records::Bytes(bytes) => {
                self.put_between(WirePiece::Mem(bytes.clone()), bytes.len());
            }
            Records::External { len: 0, .. } => {}
            Records::External { token, len } => {
                let piece = WirePiece::External { token: *token, len: *len };
                self.put_between(piece, *len as usize);
            }
        }
    }

    /// The length of an array whose elements follow.
    pub fn array_len(&mut self, count: usize, flexible: bool) {
        self.bytes_len(count, flexible);
    }

    /// No array.
    pub fn null_array(&mut self, flexible: bool) {
        self.null_bytes(flexible);
    }

    /// One tagged field: tag, size, and what `write` writes, which is not [`Writer::records`].
    pub fn tagged(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        self.unsigned_varint(tag);
        let start = self.memory.len();
        // Most fields are short: room for a size of one byte, moved apart where it takes more.
        self.memory.put_u8(0);
        write(self);
        let size = self.memory.len() - start - 1;
        if size < 0x80 {
            self.memory[start] = size as u8;
        } else {
            let field = self.memory.split_off(start);
            self.unsigned_varint(size as u32);
            self.memory.put_slice(&field[1..]);
        }
    }
}
