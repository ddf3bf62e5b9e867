//! A range of a segment's file, on its way into a response.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A file that stays open while a response needs it.
pub trait SegmentFile: Send + Sync {
    /// Its descriptor.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// `length` bytes of `file` from `position`.
#[derive(Clone)]
pub struct FileSlice {
    /// The segment's `.log`; deleting the segment does not close it under us.
    pub file: Arc<dyn SegmentFile>,
    /// First byte.
    pub position: u64,
    /// Length in bytes.
    pub length: u32,
}
