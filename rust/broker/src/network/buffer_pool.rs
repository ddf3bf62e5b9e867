//! Read buffers that come back: 64 KiB to 16 MiB, shared by all network threads.
//!
//! A frame lives until its append returns, on any thread; its buffer then returns here. Without the
//! pool every large frame costs the allocator a mapping and the kernel a fault for each page. That
//! is more than the cost of receiving the frame. Unused buffers are bounded in bytes. Buffers in
//! use are counted, so that thousands of connections with a little data each are read in smaller
//! pieces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

#[cfg(test)]
mod tests;

/// The smallest buffer.
pub const MIN_BUFFER_BYTES: usize = 64 << 10;
/// The largest that is kept.
const MAX_BUFFER_BYTES: usize = 16 << 20;
/// Sizes for each doubling: 64, 80, 96, 112, 128, 160, ... KiB. At most a fifth is wasted.
const STEPS: usize = 4;
const CLASSES: usize = STEPS * (MAX_BUFFER_BYTES / MIN_BUFFER_BYTES).ilog2() as usize + 1;

/// The class whose buffers hold `bytes`, and its size; `None` above the largest.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let bytes = bytes.max(MIN_BUFFER_BYTES);
    let doubling = (bytes / MIN_BUFFER_BYTES).ilog2() as usize;
    let base = MIN_BUFFER_BYTES << doubling;
    let step = base / STEPS;
    let steps = (bytes - base).div_ceil(step);
    let class = doubling * STEPS + steps;
    (class < CLASSES).then_some((class, base + steps * step))
}

/// The size of the buffer that a request for `bytes` gets.
#[must_use]
pub fn buffer_bytes(bytes: usize) -> usize {
    class_of(bytes).map_or(bytes, |(_, size)| size)
}

struct Free {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

/// Unused buffers.
pub struct BufferPool {
    free: Mutex<Free>,
    max_unused_bytes: usize,
    used_bytes: AtomicUsize,
    plenty_bytes: usize,
}

impl BufferPool {
    /// An empty pool that keeps at most `max_unused_bytes`, and is tight once buffers of more than
    /// `plenty_bytes` are in use.
    #[must_use]
    pub fn new(max_unused_bytes: usize, plenty_bytes: usize) -> Arc<Self> {
        let free = Free { classes: [const { Vec::new() }; CLASSES], bytes: 0 };
        let (free, used_bytes) = (Mutex::new(free), AtomicUsize::new(0));
        Arc::new(Self { free, max_unused_bytes, used_bytes, plenty_bytes })
    }

    /// A buffer of at least `bytes`; what it holds is of no meaning.
    #[must_use]
    pub fn take(pool: &Arc<Self>, bytes: usize) -> Buffer {
        let reused = class_of(bytes).and_then(|(class, size)| {
            let mut free = pool.free.lock();
            let buffer = free.classes[class].pop()?;
            free.bytes -= size;
            Some(buffer)
        });
        // Zeroed memory of this size comes as untouched pages, which cost nothing until used.
        let bytes = reused.unwrap_or_else(|| vec![0; buffer_bytes(bytes)]);
        pool.used_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        Buffer { bytes, filled: 0, pool: Arc::downgrade(pool) }
    }

    /// Whether so much is in use that reads should be small.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed) > self.plenty_bytes
    }

    /// Bytes lying unused.
    #[must_use]
    pub fn unused_bytes(&self) -> usize {
        self.free.lock().bytes
    }

    fn put_back(&self, buffer: Vec<u8>) {
        self.used_bytes.fetch_sub(buffer.len(), Ordering::Relaxed);
        let Some((class, size)) = class_of(buffer.len()) else { return };
        let mut free = self.free.lock();
        if size == buffer.len() && free.bytes + size <= self.max_unused_bytes {
            free.bytes += size;
            free.classes[class].push(buffer);
        }
    }
}

/// A buffer and how much of it is filled; goes back to its pool when dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    pool: Weak<BufferPool>,
}

impl Buffer {
    /// Its size.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// What it holds.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// The part to read into, at most up to `end`, counted from the buffer's start.
    pub fn spare(&mut self, end: usize) -> &mut [u8] {
        let end = end.min(self.bytes.len());
        &mut self.bytes[self.filled.min(end)..end]
    }

    /// Notes that `bytes` more were read into it.
    ///
    /// # Panics
    /// If that is more than there was room for: the reader is broken.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len() - self.filled, "more was read than fits");
        self.filled += bytes;
    }

    /// Forgets what it holds.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Appends a copy of `bytes`, which must fit.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.bytes[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    /// What it holds, to be sliced and shared; the buffer goes back with the last slice.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.filled()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put_back(std::mem::take(&mut self.bytes));
        }
    }
}
