//! Zstandard with a decompression context that is used again: making one costs more than most
//! batches take to decompress.

use std::cell::RefCell;
use std::io::{self, Read};

use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name};

/// A context that grew beyond this, for a frame with a huge window, is not kept.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static IDLE: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses the frames of a slice, one after the other.
pub(super) struct ZstdReader<'a> {
    /// `None` only while it is dropped.
    context: Option<DCtx<'static>>,
    input: InBuffer<'a>,
    /// The last call ended a frame, so the input may end here.
    at_border: bool,
}

impl<'a> ZstdReader<'a> {
    pub(super) fn new(compressed: &'a [u8]) -> Self {
        let context = IDLE.take().unwrap_or_else(DCtx::create);
        Self { context: Some(context), input: InBuffer::around(compressed), at_border: true }
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}

impl Read for ZstdReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(context) = &mut self.context else { return Ok(0) };
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let ended = self.input.pos == self.input.src.len();
            if ended && self.at_border {
                return Ok(0);
            }
            let mut output = OutBuffer::around(&mut *buffer);
            // 0 means that a frame is complete and flushed; otherwise more input is wanted.
            let hint = context.decompress_stream(&mut output, &mut self.input).map_err(failed)?;
            let written = output.pos();
            self.at_border = hint == 0;
            if written > 0 {
                return Ok(written);
            }
            if ended && hint != 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Drop for ZstdReader<'_> {
    fn drop(&mut self) {
        if let Some(mut context) = self.context.take()
            && context.sizeof() <= KEPT_BYTES
            && context.reset(ResetDirective::SessionOnly).is_ok()
        {
            IDLE.set(Some(context));
        }
    }
}
