//! A file of frames ([`kafkalite_log::frames`]), each one batch of metadata records.
//!
//! `records.rs` says what a batch is. Files of format 1 differ in their batches alone: they are
//! read, never written.

use super::super::error::MetadataError;
use super::super::records::{RecordError, RecordsBatch};
use super::legacy;
use kafkalite_log::frames::{self, FramesError, FramesFormat};
use kafkalite_log::storage::Storage;
use std::io;
use std::path::Path;

pub use kafkalite_log::frames::FramesHeader as Header;

/// A failed append.
pub type AppendFailure = frames::AppendFailure<MetadataError>;

const FORMAT: FramesFormat =
    FramesFormat { magic: *b"KLMETA\n", written: 2, oldest: legacy::FORMAT };

/// An open file of batches.
#[derive(Debug)]
pub struct FramesFile(frames::FramesFile);

impl From<FramesError> for MetadataError {
    fn from(error: FramesError) -> Self {
        match error {
            FramesError::Io { action, path, source } => Self::Io { action, path, source },
            FramesError::Corrupt { path, position, reason } => {
                Self::Corrupt { path, position, reason }
            }
            FramesError::Format { path, found, supported } => {
                Self::Format { path, found, supported }
            }
        }
    }
}

/// Turns a system error on `path` into ours.
pub fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> MetadataError + 'a {
    move |source| frames::io_error(action, path)(source).into()
}

fn failure(failure: frames::AppendFailure) -> AppendFailure {
    AppendFailure { error: failure.error.into(), taken_back: failure.taken_back }
}

impl FramesFile {
    /// Makes a file without frames. It gets its name when it is whole and on the disk.
    pub fn create(
        storage: &dyn Storage,
        path: &Path,
        header: Header,
    ) -> Result<Self, MetadataError> {
        Ok(Self(frames::FramesFile::create(storage, path, FORMAT, header)?))
    }

    /// Makes a file under a temporary name, to be filled, committed and named.
    pub fn create_unnamed(
        storage: &dyn Storage,
        path: &Path,
        header: Header,
    ) -> Result<Self, MetadataError> {
        Ok(Self(frames::FramesFile::create_unnamed(storage, path, FORMAT, header)?))
    }

    /// Writes the header with everything committed, and fsyncs.
    pub fn commit_whole(&mut self) -> Result<(), MetadataError> {
        Ok(self.0.commit_whole()?)
    }

    /// Gives a whole file its name, and sees the name to the disk.
    pub fn take_name(&mut self, storage: &dyn Storage, path: &Path) -> Result<(), MetadataError> {
        Ok(self.0.take_name(storage, path)?)
    }

    /// Opens a file and reads its header; `replay` must follow.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self, MetadataError> {
        Ok(Self(frames::FramesFile::open(storage, path, FORMAT)?))
    }

    /// Whether an earlier release wrote it, in a format that is not written any more.
    pub const fn is_legacy(&self) -> bool {
        self.0.format() == legacy::FORMAT
    }

    /// Where the file begins in the metadata log.
    pub const fn header(&self) -> Header {
        self.0.header()
    }

    /// The end of the frames that count, in bytes.
    pub const fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was ever appended, whole or torn.
    pub fn has_no_frames(&self) -> bool {
        self.0.has_no_frames()
    }

    /// Hands every batch with its position to `each`, in order, then cuts a torn tail off.
    /// `may_be_torn` is false for files that were closed before the newest one began.
    pub fn replay(
        &mut self,
        may_be_torn: bool,
        mut each: impl FnMut(u64, RecordsBatch) -> Result<(), MetadataError>,
    ) -> Result<(), MetadataError> {
        let (path, is_legacy) = (self.0.path().to_owned(), self.is_legacy());
        self.0.replay(may_be_torn, |position, payload| {
            each(position, decode(&path, is_legacy, position, payload)?)
        })
    }

    /// Appends one batch at this level of records, fsyncs, and says so in the header. Returns the
    /// frame's length.
    pub fn append(&mut self, batch: &RecordsBatch, level: i16) -> Result<u64, AppendFailure> {
        let written = self.append_unsynced(batch, level)?;
        self.0.sync().map_err(failure)?;
        Ok(written)
    }

    /// Writes one batch behind the others. Returns the frame's length.
    pub fn append_unsynced(
        &mut self,
        batch: &RecordsBatch,
        level: i16,
    ) -> Result<u64, AppendFailure> {
        let payload = self.encode(batch, level).map_err(|reason| AppendFailure {
            error: MetadataError::Replay { offset: batch.base_offset, reason },
            taken_back: true,
        })?;
        self.0.append_unsynced(&payload).map_err(failure)
    }

    fn encode(&self, batch: &RecordsBatch, level: i16) -> Result<bytes::Bytes, String> {
        #[cfg(test)]
        if self.is_legacy() {
            return Ok(legacy::tests::encode(batch).into());
        }
        let payload = batch.encode(level);
        // What cannot be read back, like a text that is too long, must not get into the log.
        match RecordsBatch::decode(payload.clone()) {
            Ok(read) if read == *batch => Ok(payload),
            Ok(_) => Err("a record comes back as another".to_owned()),
            Err((offset, error)) => Err(format!("offset {offset}: {error:?}")),
        }
    }
}

fn decode(
    path: &Path,
    is_legacy: bool,
    position: u64,
    payload: Vec<u8>,
) -> Result<RecordsBatch, MetadataError> {
    let corrupt = |reason| MetadataError::Corrupt { path: path.to_owned(), position, reason };
    if is_legacy {
        return legacy::decode(&payload).map_err(corrupt);
    }
    RecordsBatch::decode(payload.into()).map_err(|(offset, error)| {
        let path = path.to_owned();
        match error {
            RecordError::UnknownType(record_type) => {
                MetadataError::UnknownRecord { path, offset, record_type }
            }
            RecordError::UnknownVersion { record_type, version, supported } => {
                MetadataError::NewerRecord { path, offset, record_type, version, supported }
            }
            RecordError::Unreadable(reason) => corrupt(format!("offset {offset}: {reason}")),
        }
    })
}

/// The bytes of a file whose header says that `committed` bytes count.
#[cfg(test)]
pub fn with_committed(bytes: &[u8], committed: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for place in bytes[24..48].chunks_exact_mut(12) {
        place[..8].copy_from_slice(&committed.to_be_bytes());
        let crc = crc32fast::hash(&place[..8]);
        place[8..].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
impl FramesFile {
    /// Makes a file as release 0.1 did, with its name.
    pub fn create_legacy(storage: &dyn Storage, path: &Path, header: Header) -> Self {
        let format = FramesFormat { written: legacy::FORMAT, ..FORMAT };
        Self(frames::FramesFile::create(storage, path, format, header).expect("a file"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
