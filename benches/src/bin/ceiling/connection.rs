//! One connection: whole frames out of a stream of bytes, and responses back into it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use kafkalite_benches::frames::i32_at;
use kafkalite_benches::sys;

use crate::network::Mode;
use crate::store::Piece;

const READ_BUFFER_BYTES: usize = 256 * 1024;
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;
/// What one fetch may write in one turn, so that other connections get theirs.
const SENDFILE_TURN_BYTES: usize = 1024 * 1024;

/// Whole frames, each with its length before it, at the front of a buffer.
pub struct Frames {
    buffer: Vec<u8>,
    end: usize,
}

impl Frames {
    /// Runs `each` on every frame, in order.
    pub fn for_each(
        &mut self,
        mut each: impl FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut rest = &mut self.buffer[..self.end];
        while let Some(len) = i32_at(rest, 0) {
            let (frame, after) = rest[4..].split_at_mut(len as usize);
            each(frame)?;
            rest = after;
        }
        Ok(())
    }
}

/// A buffer of at least the usual size. Used ones keep their length: no byte is zeroed twice.
fn new_buffer(spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    spare.pop().unwrap_or_else(|| vec![0; READ_BUFFER_BYTES])
}

pub struct Connection {
    pub socket: TcpStream,
    pub interest: sys::Interest,
    /// Kafka's shape only: its one request is with the I/O thread.
    pub in_flight: bool,
    buffer: Vec<u8>,
    filled: usize,
    out: VecDeque<Piece>,
}

impl Connection {
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let (buffer, out) = (Vec::new(), VecDeque::new());
        let interest = sys::Interest::Read;
        Ok(Self { socket, interest, in_flight: false, buffer, filled: 0, out })
    }

    /// Reads once, and gives the whole frames that are there now.
    ///
    /// # Errors
    /// `UnexpectedEof` when the peer has closed, `InvalidData` for a length beyond all reason.
    pub fn read(&mut self, mode: Mode, spare: &mut Vec<Vec<u8>>) -> io::Result<Option<Frames>> {
        if self.buffer.is_empty() {
            self.buffer = new_buffer(spare);
        }
        loop {
            let wanted = self.frame_end(0)?.unwrap_or(4);
            if wanted > self.buffer.len() {
                self.buffer.resize(wanted, 0);
            }
            // Kafka reads the length, then exactly the frame; the others take what there is.
            let limit = if mode == Mode::Muted { wanted } else { self.buffer.len() };
            match self.socket.read(&mut self.buffer[self.filled..limit]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if mode != Mode::Muted || self.filled < limit || limit > 4 {
                break;
            }
        }
        let mut end = 0;
        while let Some(next) = self.frame_end(end)?.filter(|next| *next <= self.filled) {
            end = next;
        }
        Ok((end > 0).then(|| self.split_off(end, spare)))
    }

    /// Where the frame that begins at `start` ends, once its length has arrived.
    fn frame_end(&self, start: usize) -> io::Result<Option<usize>> {
        let Some(len) = i32_at(&self.buffer[..self.filled], start) else {
            return Ok(None);
        };
        match usize::try_from(len) {
            Ok(len) if len <= MAX_FRAME_BYTES => Ok(Some(start + 4 + len)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The frames leave with their buffer; only the beginning of the next frame is copied.
    fn split_off(&mut self, end: usize, spare: &mut Vec<Vec<u8>>) -> Frames {
        let frames = Frames { buffer: std::mem::take(&mut self.buffer), end };
        let rest = &frames.buffer[end..self.filled];
        if !rest.is_empty() {
            self.buffer = new_buffer(spare);
            self.buffer.resize(self.buffer.len().max(rest.len()), 0);
            self.buffer[..rest.len()].copy_from_slice(rest);
        }
        self.filled = rest.len();
        frames
    }

    pub fn answer(&mut self, pieces: Vec<Piece>) {
        self.out.extend(pieces);
    }

    pub fn has_answers(&self) -> bool {
        !self.out.is_empty()
    }

    /// Writes what the socket takes.
    pub fn write(&mut self, mode: Mode) -> io::Result<()> {
        let mut turn_bytes = 0;
        while turn_bytes < SENDFILE_TURN_BYTES {
            let followed_by_file = matches!(self.out.get(1), Some(Piece::File { .. }));
            let Some(piece) = self.out.front_mut() else {
                break;
            };
            let sent = match piece {
                Piece::Bytes(bytes) if followed_by_file && mode != Mode::Muted => {
                    sys::send_more(&self.socket, bytes)
                }
                Piece::Bytes(bytes) => self.socket.write(bytes),
                Piece::File { file, position, len } => {
                    sys::sendfile(&self.socket, file, *position, *len)
                }
            };
            let sent = match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            turn_bytes += sent;
            let done = match piece {
                Piece::Bytes(bytes) => {
                    bytes.drain(..sent);
                    bytes.is_empty()
                }
                Piece::File { position, len, .. } => {
                    *position += sent as u64;
                    *len -= sent;
                    *len == 0
                }
            };
            if done {
                self.out.pop_front();
            }
        }
        Ok(())
    }

    /// Shaped like Kafka it is deaf until its answer is out.
    pub fn muted(&self, mode: Mode) -> bool {
        mode == Mode::Muted && (self.in_flight || !self.out.is_empty())
    }

    pub fn wanted_interest(&self, mode: Mode) -> sys::Interest {
        match (self.muted(mode), self.out.is_empty()) {
            (false, true) => sys::Interest::Read,
            (false, false) => sys::Interest::ReadWrite,
            (true, true) => sys::Interest::Nothing,
            (true, false) => sys::Interest::Write,
        }
    }
}

impl From<Frames> for Vec<u8> {
    /// The buffer, to be read into again.
    fn from(frames: Frames) -> Self {
        frames.buffer
    }
}
