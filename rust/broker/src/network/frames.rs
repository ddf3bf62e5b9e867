//! Cuts the bytes of a connection into frames: `size: i32, size bytes`. Pure but for the reads it
//! asks of its source.
//!
//! Small frames are read into a buffer the whole thread shares, then sliced or copied out of it, so
//! an idle connection holds no memory and a busy one copies little. A frame that does not fit that
//! buffer gets one of its own, which grows with what has arrived and is charged before it grows:
//! a peer that claims 100 MiB and sends 1 KiB costs 1 KiB. No more is read while a complete frame
//! waits, so what a paused connection holds is one buffer or one frame.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::request_queue::{Place, Room};

#[cfg(test)]
mod tests;

/// Size of the buffer a thread reads into.
pub const READ_BUFFER_BYTES: usize = 64 << 10;
/// Below this, what was read is copied out, and the buffer stays; above, the buffer is given away.
const COPY_BELOW_BYTES: usize = 16 << 10;
/// The size before every frame.
const SIZE_BYTES: usize = 4;
/// A large frame's buffer grows to this many times what has arrived.
const GROWTH: usize = 4;

/// Where bytes come from: a socket, or a test's script.
pub trait Source {
    /// Appends to `buffer` within its spare capacity; 0 is the end of the stream.
    ///
    /// # Errors
    /// As `read(2)`; `WouldBlock` when there is nothing now.
    fn read_into(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
}

/// What stands at the front of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// A complete frame.
    Frame {
        /// Its length without the size before it.
        length: usize,
        /// The first two bytes of it; -1 if it has fewer.
        api_key: i16,
    },
    /// Nothing, or part of a small frame: read more.
    Incomplete,
    /// Part of a frame too large for the shared buffer: call [`FrameReader::begin_large`].
    Large {
        /// The first two bytes of it.
        api_key: i16,
    },
    /// A size that is negative, or above `socket.request.max.bytes`.
    BadSize(i32),
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bytes, and whether they were all there were.
    Read {
        /// How many.
        bytes: usize,
        /// The buffer was not filled: a next read would find nothing.
        drained: bool,
    },
    /// A large frame found no room to grow: try again when some is free.
    NoRoom,
    /// The peer will send no more.
    End,
}

struct Large {
    bytes: Vec<u8>,
    /// Length of the frame with the size before it.
    total: usize,
    place: Place,
}

/// The receiving half of one connection.
pub struct FrameReader {
    /// Bytes read and not yet taken; starts with a frame's size.
    buffered: Bytes,
    large: Option<Large>,
    /// The room a complete large frame still takes, until it is taken.
    held: Option<Place>,
    max_frame_bytes: usize,
}

impl FrameReader {
    /// Nothing read yet. Frames above `max_frame_bytes` are refused.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self { buffered: Bytes::new(), large: None, held: None, max_frame_bytes }
    }

    /// What stands at the front.
    #[must_use]
    pub fn front(&self) -> Front {
        if self.large.is_some() {
            return Front::Incomplete;
        }
        let Some((size, rest)) = self.buffered.split_first_chunk::<SIZE_BYTES>() else {
            return Front::Incomplete;
        };
        let size = i32::from_be_bytes(*size);
        let Some(length) = usize::try_from(size).ok().filter(|&n| n <= self.max_frame_bytes) else {
            return Front::BadSize(size);
        };
        let api_key = rest.first_chunk::<2>().map_or(-1, |key| i16::from_be_bytes(*key));
        if rest.len() >= length {
            let api_key = if length < 2 { -1 } else { api_key };
            Front::Frame { length, api_key }
        } else if SIZE_BYTES + length > READ_BUFFER_BYTES && rest.len() >= 2 {
            Front::Large { api_key }
        } else {
            Front::Incomplete
        }
    }

    /// Whether part of a frame has arrived, and not all of it.
    #[must_use]
    pub fn is_half_sent(&self) -> bool {
        self.large.is_some()
            || !self.buffered.is_empty() && !matches!(self.front(), Front::Frame { .. })
    }

    /// Bytes of the current frame that have arrived, with its size.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.large.as_ref().map_or(self.buffered.len(), |large| large.bytes.len())
    }

    /// Takes the complete frame of `length` bytes at the front.
    #[must_use]
    pub fn take(&mut self, length: usize) -> Bytes {
        self.held = None;
        self.buffered.advance(SIZE_BYTES);
        let frame = self.buffered.split_to(length);
        if self.buffered.is_empty() {
            // Or an empty slice would pin the buffer it was cut from.
            self.buffered = Bytes::new();
        }
        frame
    }

    /// Gives the large frame at the front a buffer of its own. `false`: no room, try again.
    #[must_use]
    pub fn begin_large(&mut self, room: &Arc<Room>) -> bool {
        let Some(size) = self.buffered.first_chunk::<SIZE_BYTES>() else { return true };
        let total = SIZE_BYTES + usize::try_from(i32::from_be_bytes(*size)).unwrap_or(0);
        let capacity = total.min(GROWTH * self.buffered.len().max(READ_BUFFER_BYTES / GROWTH));
        let mut place = Room::open(room);
        if !place.grow(capacity) {
            return false;
        }
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&self.buffered);
        self.buffered = Bytes::new();
        self.large = Some(Large { bytes, total, place });
        true
    }

    /// Reads once. `scratch` is the thread's buffer; it may be another one afterwards.
    ///
    /// # Errors
    /// What the source says, `WouldBlock` included.
    pub fn read(
        &mut self,
        source: &mut impl Source,
        scratch: &mut Vec<u8>,
    ) -> io::Result<Progress> {
        if let Some(large) = &mut self.large {
            let progress = large.read(source)?;
            if large.bytes.len() >= large.total
                && let Some(Large { bytes, place, .. }) = self.large.take()
            {
                self.buffered = Bytes::from(bytes);
                self.held = Some(place);
            }
            return Ok(progress);
        }
        scratch.clear();
        scratch.reserve_exact(READ_BUFFER_BYTES);
        scratch.extend_from_slice(&self.buffered);
        let spare = scratch.capacity() - scratch.len();
        let bytes = source.read_into(scratch)?;
        if bytes == 0 {
            return Ok(Progress::End);
        }
        self.buffered = if scratch.len() < COPY_BELOW_BYTES {
            Bytes::copy_from_slice(scratch)
        } else {
            Bytes::from(std::mem::take(scratch))
        };
        Ok(Progress::Read { bytes, drained: bytes < spare })
    }
}

impl Large {
    fn read(&mut self, source: &mut impl Source) -> io::Result<Progress> {
        if self.bytes.len() == self.bytes.capacity() {
            let length = self.bytes.len();
            let capacity = self.total.min(GROWTH * length);
            if !self.place.grow(capacity - length) {
                return Ok(Progress::NoRoom);
            }
            self.bytes.reserve_exact(capacity - length);
        }
        let spare = self.bytes.capacity() - self.bytes.len();
        match source.read_into(&mut self.bytes)? {
            0 => Ok(Progress::End),
            // A frame that ends with the buffer says nothing about what follows it.
            bytes => Ok(Progress::Read { bytes, drained: bytes < spare }),
        }
    }
}
