//! A range of a segment's file, on its way into a response.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A file that stays open while a response needs it.
pub trait SegmentFile: Send + Sync {
    /// Its descriptor.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl SegmentFile for kafkalite_log::SegmentFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(self)
    }
}

impl From<kafkalite_log::FileSlice> for FileSlice {
    fn from(slice: kafkalite_log::FileSlice) -> Self {
        Self { file: slice.file, position: slice.position, length: slice.length }
    }
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
