//! Cuts the bytes of a connection into frames: `size: i32, size bytes`. Pure except for the reads
//! from its source.
//!
//! Small frames are read many at a time into one buffer of the pool and sliced out of it. A small
//! rest is copied out, so an idle connection holds no buffer. A frame that does not fit gets a
//! larger buffer, which grows as bytes arrive and is charged before it grows. So a peer that claims
//! 100 MiB and sends 1 KiB costs 1 KiB. After a large frame the next read expects another one of
//! that size, so a stream of them is received without copies. While a complete frame waits nothing
//! more is read, so a paused connection holds one buffer.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::buffer_pool::{Buffer, BufferPool, MIN_BUFFER_BYTES, buffer_bytes};
use crate::request_queue::{Place, Room};

#[cfg(test)]
mod tests;

/// Below this, what was read is copied out, and the buffer goes back.
const COPY_BELOW_BYTES: usize = 16 << 10;
/// The size before every frame.
const SIZE_BYTES: usize = 4;
/// A buffer is at most this many times as large as what has arrived of its frame.
const GROWTH: usize = 4;
/// What one read takes while buffers are short: a little for each of very many connections.
const TIGHT_READ_BYTES: usize = 4 << 10;
/// What brokers send each other may be as large. `socket.request.max.bytes` is for clients: who
/// lowers it does not know how large a piece of a snapshot is.
const MAX_BROKER_FRAME_BYTES: usize = 100 << 20;
/// No read expects more than this.
const MAX_EXPECTED_BYTES: usize = 4 << 20;

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
    /// Part of a frame too large for the smallest buffer: call [`FrameReader::begin_large`].
    Large {
        /// The first two bytes of it.
        api_key: i16,
    },
    /// A size that is negative, or above `socket.request.max.bytes`.
    BadSize(i32),
    /// A size above `socket.request.max.bytes` that only brokers may send each other; see
    /// [`FrameReader::take_larger`].
    Larger {
        /// That size.
        size: i32,
        /// The first two bytes of the frame.
        api_key: i16,
    },
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

/// The receiving half of one connection.
pub struct FrameReader {
    /// Bytes read and not yet taken; starts with a frame's size.
    buffered: Bytes,
    /// Instead of `buffered`: the beginning of one large frame, in a buffer that may go on.
    arriving: Option<Buffer>,
    /// The room that frame takes; without it, it may not go on.
    place: Option<Place>,
    /// The room a complete large frame takes until it is taken.
    held: Option<Place>,
    /// Length of the last frame taken, with its size, if it was large: the next may be like it.
    expected: usize,
    max_frame_bytes: usize,
    /// The frame at the front may be larger than that.
    takes_larger: bool,
}

/// Length of the frame at the front with its size, as far as the size has arrived and is sane.
fn total_of(bytes: &[u8]) -> Option<usize> {
    let size = i32::from_be_bytes(*bytes.first_chunk::<SIZE_BYTES>()?);
    Some(SIZE_BYTES + usize::try_from(size).ok()?)
}

impl FrameReader {
    /// Nothing read yet. Frames above `max_frame_bytes` are refused.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        let (arriving, place, held) = (None, None, None);
        Self {
            buffered: Bytes::new(),
            arriving,
            place,
            held,
            expected: 0,
            max_frame_bytes,
            takes_larger: false,
        }
    }

    /// The frame at the front is one that a broker sends another one.
    pub fn take_larger(&mut self) {
        self.takes_larger = true;
    }

    fn bytes(&self) -> &[u8] {
        self.arriving.as_ref().map_or(&self.buffered, Buffer::filled)
    }

    /// What stands at the front.
    #[must_use]
    pub fn front(&self) -> Front {
        let Some((size, rest)) = self.bytes().split_first_chunk::<SIZE_BYTES>() else {
            return Front::Incomplete;
        };
        let size = i32::from_be_bytes(*size);
        let most = self.max_frame_bytes.max(MAX_BROKER_FRAME_BYTES);
        let Some(length) = usize::try_from(size).ok().filter(|&n| n <= most) else {
            return Front::BadSize(size);
        };
        let api_key = self.api_key();
        if length > self.max_frame_bytes && !self.takes_larger {
            return match rest.len() {
                0 | 1 => Front::Incomplete,
                _ => Front::Larger { size, api_key },
            };
        }
        if rest.len() >= length {
            let api_key = if length < 2 { -1 } else { api_key };
            Front::Frame { length, api_key }
        } else if SIZE_BYTES + length > MIN_BUFFER_BYTES && rest.len() >= 2 && self.place.is_none()
        {
            Front::Large { api_key }
        } else {
            Front::Incomplete
        }
    }

    /// The first two bytes of the frame at the front; -1 if they have not arrived.
    #[must_use]
    pub fn api_key(&self) -> i16 {
        let key = self.bytes().get(SIZE_BYTES..).and_then(|rest| rest.first_chunk::<2>());
        key.map_or(-1, |key| i16::from_be_bytes(*key))
    }

    /// Whether part of a frame has arrived, and not all of it.
    #[must_use]
    pub fn is_half_sent(&self) -> bool {
        !self.bytes().is_empty() && !matches!(self.front(), Front::Frame { .. })
    }

    /// Bytes of the current frame that have arrived, with its size.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.bytes().len()
    }

    /// Takes the complete frame of `length` bytes at the front.
    #[must_use]
    pub fn take(&mut self, length: usize) -> Bytes {
        let total = SIZE_BYTES + length;
        self.takes_larger = false;
        self.expected = if total > MIN_BUFFER_BYTES { total.min(MAX_EXPECTED_BYTES) } else { 0 };
        self.buffered.advance(SIZE_BYTES);
        let frame = self.buffered.split_to(length);
        if self.buffered.is_empty() {
            // Or an empty slice would pin the buffer it was cut from.
            self.buffered = Bytes::new();
            self.held = None;
        }
        frame
    }

    /// Lets the large frame at the front go on arriving. `false`: no room, try again.
    #[must_use]
    pub fn begin_large(&mut self, room: &Arc<Room>, pool: &Arc<BufferPool>) -> bool {
        let length = self.bytes().len();
        let Some(total) = total_of(self.bytes()) else { return true };
        let wanted = buffer_bytes(total.min(GROWTH * length));
        let size = self.arriving.as_ref().map_or(wanted, |buffer| buffer.size());
        let Some(place) = Room::begin(room, size) else { return false };
        if self.arriving.is_none() {
            self.arriving = Some(copied(&std::mem::take(&mut self.buffered), wanted, pool));
        }
        self.place = Some(place);
        true
    }

    /// Reads once. `spare` is the thread's own buffer for small reads.
    ///
    /// # Errors
    /// What the source says, `WouldBlock` included.
    pub fn read(
        &mut self,
        source: &mut impl Read,
        pool: &Arc<BufferPool>,
        spare: &mut Option<Buffer>,
    ) -> io::Result<Progress> {
        if self.place.is_some() {
            self.read_large(source, pool)
        } else {
            self.read_small(source, pool, spare)
        }
    }

    fn read_large(
        &mut self,
        source: &mut impl Read,
        pool: &Arc<BufferPool>,
    ) -> io::Result<Progress> {
        let (Some(buffer), Some(place)) = (&mut self.arriving, &mut self.place) else {
            return Ok(Progress::NoRoom);
        };
        let total = total_of(buffer.filled()).unwrap_or(SIZE_BYTES);
        if buffer.filled().len() == buffer.size() {
            let size = buffer_bytes(total.min(GROWTH * buffer.size()));
            if !place.grow(size - buffer.size()) {
                return Ok(Progress::NoRoom);
            }
            *buffer = copied(buffer.filled(), size, pool);
        }
        // Not beyond the frame: what follows it goes to a buffer of its own without a copy.
        let rest = buffer.spare(total);
        let offered = rest.len();
        let bytes = source.read(rest)?;
        if bytes == 0 {
            return Ok(Progress::End);
        }
        buffer.advance(bytes);
        if buffer.filled().len() == total {
            self.buffered = self.arriving.take().map_or_else(Bytes::new, Buffer::freeze);
            self.held = self.place.take();
        }
        Ok(Progress::Read { bytes, drained: bytes < offered })
    }

    fn read_small(
        &mut self,
        source: &mut impl Read,
        pool: &Arc<BufferPool>,
        spare: &mut Option<Buffer>,
    ) -> io::Result<Progress> {
        let tight = pool.is_tight();
        let expected = if self.buffered.is_empty() && !tight { self.expected } else { 0 };
        let mut buffer = match spare.take() {
            Some(buffer) if expected == 0 => buffer,
            kept => {
                *spare = kept;
                BufferPool::take(pool, expected)
            }
        };
        buffer.extend(&self.buffered);
        let end = match expected {
            0 if tight => self.buffered.len() + TIGHT_READ_BYTES,
            0 => buffer.size(),
            expected => expected,
        };
        let rest = buffer.spare(end);
        let offered = rest.len();
        let result = source.read(rest);
        let bytes = *result.as_ref().unwrap_or(&0);
        buffer.advance(bytes);
        if bytes == 0 || buffer.filled().len() < COPY_BELOW_BYTES {
            if bytes > 0 {
                self.buffered = Bytes::copy_from_slice(buffer.filled());
            }
            if buffer.size() == MIN_BUFFER_BYTES {
                buffer.clear();
                *spare = Some(buffer);
            }
        } else {
            self.keep(buffer, pool);
        }
        match result? {
            0 => Ok(Progress::End),
            bytes => Ok(Progress::Read { bytes, drained: bytes < offered }),
        }
    }

    /// Keeps what was read in its buffer, which may be larger than what has arrived deserves.
    fn keep(&mut self, mut buffer: Buffer, pool: &Arc<BufferPool>) {
        let length = buffer.filled().len();
        if GROWTH * length < buffer.size() {
            buffer = copied(buffer.filled(), length, pool);
        }
        let is_large = total_of(buffer.filled())
            .is_some_and(|total| total > length && total > MIN_BUFFER_BYTES);
        if is_large {
            self.buffered = Bytes::new();
            self.arriving = Some(buffer);
        } else {
            self.buffered = buffer.freeze();
        }
    }
}

fn copied(bytes: &[u8], size: usize, pool: &Arc<BufferPool>) -> Buffer {
    let mut buffer = BufferPool::take(pool, size.max(bytes.len()));
    buffer.extend(bytes);
    buffer
}
