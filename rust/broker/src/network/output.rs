//! What a connection still has to send: pieces of response frames, in order.
//!
//! Memory goes out in one gathering write, many responses at once. A file range of `sendfile_min`
//! bytes or more goes from the page cache with sendfile. Memory before it is sent with `MSG_MORE`,
//! so that both share packets. A smaller range is read into memory when its turn comes, so a client
//! that does not read costs no copies of files.
//!
//! Source: the crossing point of sendfile and one write was measured at 16 KiB.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;
use kafkalite_log::FileSlice;
use smallvec::SmallVec;

use crate::metrics::Passed;
use crate::response_queue::{Piece, Slot};

#[cfg(test)]
mod tests;

/// Buffers of one gathering write.
const MAX_SLICES: usize = 64;

/// Where bytes go: a socket, or a test's record of it.
pub trait Sink {
    /// Sends some of `slices`; `more` says that a file range follows at once.
    ///
    /// # Errors
    /// As `sendmsg(2)`; `WouldBlock` when nothing fits now.
    fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// Sends up to `count` bytes of `slice` from its start.
    ///
    /// # Errors
    /// As `sendfile(2)`.
    fn send_file(&mut self, slice: &FileSlice, count: usize) -> io::Result<usize>;

    /// Reads a whole small range.
    ///
    /// # Errors
    /// As `pread(2)`; `UnexpectedEof` if the file is shorter.
    fn read_file(&mut self, slice: &FileSlice) -> io::Result<Bytes>;
}

/// A response frame on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// The request it answers.
    pub slot: Slot,
    /// When it passed the stages up to the response queue.
    pub passed: Passed,
    /// Bytes sent on this connection when its last byte is out.
    ends_at: u64,
}

/// How a flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Everything is out.
    All,
    /// The socket takes no more now.
    Blocked,
    /// The budget of this turn is spent: others first.
    Budget,
}

/// Bytes sent by one flush.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentBytes {
    /// From memory.
    pub copied: u64,
    /// Straight from the page cache.
    pub zero_copy: u64,
}

/// The sending half of one connection.
pub struct Output {
    pieces: VecDeque<Piece>,
    frames: VecDeque<Sending>,
    /// Bytes of memory in `pieces`.
    held_bytes: usize,
    queued_total: u64,
    sent_total: u64,
    sendfile_min_bytes: usize,
}

impl Output {
    /// Nothing to send.
    #[must_use]
    pub fn new(sendfile_min_bytes: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            frames: VecDeque::new(),
            held_bytes: 0,
            queued_total: 0,
            sent_total: 0,
            sendfile_min_bytes,
        }
    }

    /// Whether everything is out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes still to send.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.queued_total - self.sent_total
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Response frames not yet out.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Adds one response frame.
    pub fn push(&mut self, pieces: SmallVec<[Piece; 4]>, slot: Slot, passed: Passed) {
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            self.queued_total += piece.len() as u64;
            if let Piece::Mem(bytes) = &piece {
                self.held_bytes += bytes.len();
            }
            self.pieces.push_back(piece);
        }
        self.frames.push_back(Sending { slot, passed, ends_at: self.queued_total });
    }

    /// The next response frame whose last byte is out.
    pub fn pop_sent(&mut self) -> Option<Sending> {
        let sent_total = self.sent_total;
        self.frames.pop_front_if(|frame| frame.ends_at <= sent_total)
    }

    /// Sends until everything is out, the socket is full or about `budget` bytes went.
    ///
    /// # Errors
    /// Whatever ends the connection: a broken socket, or a file shorter than promised, after which
    /// the frame cannot be completed.
    pub fn flush(
        &mut self,
        sink: &mut impl Sink,
        budget: usize,
        sent: &mut SentBytes,
    ) -> io::Result<Flushed> {
        let mut left = budget;
        loop {
            let result = match self.pieces.front() {
                None => return Ok(Flushed::All),
                Some(_) if left == 0 => return Ok(Flushed::Budget),
                Some(Piece::File(slice)) if slice.length as usize >= self.sendfile_min_bytes => {
                    // Not a few bytes for the next turn, which would be copied.
                    let length = slice.length as usize;
                    let rest = length.saturating_sub(left);
                    let count = if rest < self.sendfile_min_bytes { length } else { left };
                    self.send_file(sink, count).inspect(|&n| sent.zero_copy += n as u64)
                }
                Some(_) => self.send_memory(sink).inspect(|&n| sent.copied += n as u64),
            };
            match result {
                Ok(bytes) => left = left.saturating_sub(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flushed::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn send_file(&mut self, sink: &mut impl Sink, count: usize) -> io::Result<usize> {
        let Some(Piece::File(slice)) = self.pieces.front_mut() else { return Ok(0) };
        let bytes = sink.send_file(slice, count)?;
        if bytes == 0 {
            let message = "a segment is shorter than the range a response promised";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        // A u32 range cannot send more than a u32.
        slice.position += bytes as u64;
        slice.length -= u32::try_from(bytes).unwrap_or(slice.length);
        let done = slice.length == 0;
        self.sent_total += bytes as u64;
        if done {
            self.pieces.pop_front();
        }
        Ok(bytes)
    }

    fn send_memory(&mut self, sink: &mut impl Sink) -> io::Result<usize> {
        let more = self.load_small_ranges(sink)?;
        let mut slices: SmallVec<[IoSlice<'_>; MAX_SLICES]> = SmallVec::new();
        for piece in self.pieces.iter().take(MAX_SLICES) {
            let Piece::Mem(bytes) = piece else { break };
            slices.push(IoSlice::new(bytes));
        }
        let sent = sink.send(&slices, more)?;
        drop(slices);
        self.advance_memory(sent);
        Ok(sent)
    }

    /// Reads the small file ranges among the next pieces into memory. Returns whether a range that
    /// goes by sendfile follows them.
    fn load_small_ranges(&mut self, sink: &mut impl Sink) -> io::Result<bool> {
        for piece in self.pieces.iter_mut().take(MAX_SLICES) {
            if let Piece::File(slice) = piece {
                if slice.length as usize >= self.sendfile_min_bytes {
                    return Ok(true);
                }
                let bytes = sink.read_file(slice)?;
                self.held_bytes += bytes.len();
                *piece = Piece::Mem(bytes);
            }
        }
        Ok(false)
    }

    fn advance_memory(&mut self, mut sent: usize) {
        self.sent_total += sent as u64;
        self.held_bytes -= sent;
        while let Some(Piece::Mem(bytes)) = self.pieces.front_mut() {
            if sent < bytes.len() {
                bytes::Buf::advance(bytes, sent);
                return;
            }
            sent -= bytes.len();
            self.pieces.pop_front();
        }
    }
}
