//! A segment's `.log` file: opened when it is first needed, closed when others need the descriptor.
//!
//! Ten thousand idle partitions must not hold ten thousand descriptors. [`OpenFiles`] counts open
//! files and closes one that was not used lately. It is the clock algorithm: a use only sets a
//! flag, so the hot path takes no shared lock. A slice that is being sent keeps its file open.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::storage::{StorageFile, read_full};

/// An open `.log` file.
#[derive(Debug)]
pub struct SegmentFile {
    file: Box<dyn StorageFile>,
}

impl SegmentFile {
    pub(crate) fn storage(&self) -> &dyn StorageFile {
        self.file.as_ref()
    }

    /// Reads up to `buffer.len()` bytes at `position`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        read_full(self.file.as_ref(), buffer, position)
    }
}

impl From<Box<dyn StorageFile>> for SegmentFile {
    fn from(file: Box<dyn StorageFile>) -> Self {
        Self { file }
    }
}

impl AsFd for SegmentFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A range of a segment's file: what a fetch response is made of.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The file; open as long as a slice of it lives, even if the segment is deleted meanwhile.
    pub file: Arc<SegmentFile>,
    /// First byte.
    pub position: u64,
    /// Bytes.
    pub length: u32,
    /// All of it was written then or later, in ms of wall time; `None` is long ago, or unknown.
    pub written_ms: Option<i64>,
}

impl FileSlice {
    /// Copies the slice's bytes; fewer than `length` if the segment was truncated meanwhile.
    ///
    /// # Errors
    /// Whatever the disk says.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        let read = self.file.read_at(&mut bytes, self.position)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// One segment's place for its open file.
#[derive(Debug, Default)]
pub(crate) struct FileSlot {
    file: Mutex<Option<Arc<SegmentFile>>>,
    used: AtomicBool,
}

impl FileSlot {
    /// The open file; `open` is called if it is not, and another one may be closed for it.
    pub(crate) fn get(
        self: &Arc<Self>,
        files: &OpenFiles,
        open: impl FnOnce() -> io::Result<Box<dyn StorageFile>>,
    ) -> io::Result<Arc<SegmentFile>> {
        let mut held = self.file.lock();
        // A plain store to a line that is already ours is cheaper than a swap.
        self.used.store(true, Ordering::Relaxed);
        if let Some(file) = &*held {
            return Ok(file.clone());
        }
        let file = Arc::new(SegmentFile { file: open()? });
        *held = Some(file.clone());
        drop(held);
        files.opened(self);
        Ok(file)
    }

    pub(crate) fn close(&self) {
        self.file.lock().take();
    }
}

/// The files that are open, oldest first.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    capacity: usize,
    queue: Mutex<VecDeque<Weak<FileSlot>>>,
}

impl OpenFiles {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), queue: Mutex::default() }
    }

    fn opened(&self, slot: &Arc<FileSlot>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(slot));
        // Twice round at most: the first turn clears every flag, the second closes one.
        let mut turns = 2 * queue.len();
        while queue.len() > self.capacity && turns > 0 {
            turns -= 1;
            let Some(oldest) = queue.pop_front() else { break };
            let Some(candidate) = oldest.upgrade() else { continue };
            if Arc::ptr_eq(&candidate, slot) || candidate.used.swap(false, Ordering::Relaxed) {
                queue.push_back(oldest);
            } else if let Some(mut file) = candidate.file.try_lock() {
                file.take();
            } else {
                // In use this instant.
                queue.push_back(oldest);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.queue
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|s| s.file.lock().is_some())
            .count()
    }
}
