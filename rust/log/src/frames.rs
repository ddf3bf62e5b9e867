//! A file of frames: a journal that tells a torn tail from damage.
//!
//! All numbers are big-endian. The header is 48 bytes:
//! ```text
//! | magic: 7 bytes | format: u8 | offset: i64 | epoch: i32 | crc: u32 |
//! | 2 x (committed: u64, crc: u32)                                    |
//! offset     of a log its first one; of a snapshot the end of its contents
//! committed  bytes from the start of the file that were fsynced and acknowledged
//! crc        CRC-32 of what stands before it, from the start or from `committed`
//! ```
//! A frame is `| length: u32 | crc: u32 | payload: length bytes |`; the CRC-32 covers length and
//! payload. `committed` is written after each fsync, and is itself fsynced by the next one. It
//! goes into its two places by turns, so that a torn write spoils only one. So `committed` lags
//! behind the truth by one or two frames, is never ahead, and tells a torn tail from damage.

use crate::storage::{OpenMode, Storage, StorageFile, read_full};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

const START_LEN: usize = 24;
const COMMITTED_LEN: usize = 12;
const HEADER_LEN: usize = START_LEN + 2 * COMMITTED_LEN;
const FRAME_HEADER_LEN: u64 = 8;

/// Whose frames a file holds, and in which formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesFormat {
    /// The first seven bytes of the file.
    pub magic: [u8; 7],
    /// The format of new files; newer ones are refused.
    pub written: u8,
    /// The oldest format that is read.
    pub oldest: u8,
}

/// Where a file begins in the log that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesHeader {
    /// Of a log its first offset; of a snapshot the end of its contents.
    pub offset: i64,
    /// The leader's epoch at that offset.
    pub epoch: i32,
}

/// Why a file of frames cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// Bytes below the committed end are not what was written.
    #[error("{} is damaged at byte {position}: {reason}", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where the damaged frame begins.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has a format that is not read here.
    #[error("{} has format {found}, this kafkalite reads up to {supported}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u8,
        /// The newest format that is understood here.
        supported: u8,
    },
}

/// Turns a system error on `path` into a [`FramesError`].
pub fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> FramesError + 'a {
    move |source| FramesError::Io { action, path: path.to_owned(), source }
}

/// A failed append.
#[derive(Debug)]
pub struct AppendFailure<E = FramesError> {
    /// Why.
    pub error: E,
    /// Whether the file is what it was before. Otherwise the frame may be found there at the next
    /// start, or not.
    pub taken_back: bool,
}

/// An open file of frames.
#[derive(Debug)]
pub struct FramesFile {
    path: PathBuf,
    file: Box<dyn StorageFile>,
    format: u8,
    header: FramesHeader,
    /// The end of the frames that count, in bytes.
    len: u64,
    /// Bytes that the file's header says were committed.
    committed: u64,
    /// Which of the two places the next `committed` goes to.
    place: usize,
    magic: [u8; 7],
}

impl FramesFile {
    /// Makes a file without frames. It gets its name when it is whole and on the disk.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn create(
        storage: &dyn Storage,
        path: &Path,
        format: FramesFormat,
        header: FramesHeader,
    ) -> Result<Self, FramesError> {
        let mut file = Self::create_unnamed(storage, path, format, header)?;
        file.commit_whole()?;
        file.take_name(storage, path)?;
        Ok(file)
    }

    /// Makes a file under a temporary name, to be filled, committed and named.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn create_unnamed(
        storage: &dyn Storage,
        path: &Path,
        format: FramesFormat,
        header: FramesHeader,
    ) -> Result<Self, FramesError> {
        let path = path.with_extension("tmp");
        let file = storage.open(&path, OpenMode::Create).map_err(io_error("create", &path))?;
        file.set_len(0).map_err(io_error("truncate", &path))?;
        let len = HEADER_LEN as u64;
        let FramesFormat { magic, written, .. } = format;
        Ok(Self { path, file, format: written, header, len, committed: len, place: 0, magic })
    }

    /// Writes the header with everything committed, and fsyncs.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn commit_whole(&mut self) -> Result<(), FramesError> {
        self.committed = self.len;
        let header = encode_header(self.magic, self.format, self.header, self.committed);
        self.file
            .write_all_at(&mut [IoSlice::new(&header)], 0)
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))
    }

    /// Gives a whole file its name, and sees the name to the disk.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn take_name(&mut self, storage: &dyn Storage, path: &Path) -> Result<(), FramesError> {
        storage.rename(&self.path, path).map_err(io_error("rename", &self.path))?;
        path.clone_into(&mut self.path);
        // Opened again by its name: a storage that keeps books of files by name finds this one.
        self.file = storage.open(path, OpenMode::Write).map_err(io_error("open", path))?;
        let dir = path.parent().unwrap_or(path);
        storage.sync_dir(dir).map_err(io_error("fsync", dir))
    }

    /// Opens a file and reads its header; `replay` must follow.
    ///
    /// # Errors
    /// The file cannot be read, is not of this kind, or its header is damaged.
    pub fn open(
        storage: &dyn Storage,
        path: &Path,
        known: FramesFormat,
    ) -> Result<Self, FramesError> {
        let file = storage.open(path, OpenMode::Write).map_err(io_error("open", path))?;
        let mut bytes = [0_u8; HEADER_LEN];
        let corrupt = |reason: &str| FramesError::Corrupt {
            path: path.to_owned(),
            position: 0,
            reason: reason.to_owned(),
        };
        let read = read_full(file.as_ref(), &mut bytes, 0).map_err(io_error("read", path))?;
        if read < HEADER_LEN {
            return Err(corrupt("the header is cut short"));
        }
        if !bytes.starts_with(&known.magic) {
            return Err(corrupt("the file begins with other bytes than its kind"));
        }
        let format = bytes[7];
        if !(known.oldest..=known.written).contains(&format) {
            let (found, supported) = (format, known.written);
            return Err(FramesError::Format { path: path.to_owned(), found, supported });
        }
        let header = decode_start(&bytes).ok_or_else(|| corrupt("bad header CRC"))?;
        let places = [0, 1].map(|place| decode_committed(&bytes, place));
        let committed = places.into_iter().flatten().max();
        let committed = committed.ok_or_else(|| corrupt("bad header CRC"))?;
        // The place that holds it stays as it is until the other one is written.
        let place = usize::from(places[0] == Some(committed));
        let (path, len, magic) = (path.to_owned(), HEADER_LEN as u64, known.magic);
        Ok(Self { path, file, format, header, len, committed, place, magic })
    }

    /// The format that the file was written in.
    pub const fn format(&self) -> u8 {
        self.format
    }

    /// Where the file begins in its log.
    pub const fn header(&self) -> FramesHeader {
        self.header
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the frames that count, in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of which the file itself says that they were fsynced; never more than there are.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// Whether no frame counts.
    pub const fn is_empty(&self) -> bool {
        self.len <= HEADER_LEN as u64
    }

    /// Whether nothing was ever appended, whole or torn.
    pub fn has_no_frames(&self) -> bool {
        self.file.length().is_ok_and(|length| length <= HEADER_LEN as u64)
    }

    /// Hands every payload with its position to `each`, in order, then cuts a torn tail off.
    /// `may_be_torn` is false for files that were closed before the newest one began.
    ///
    /// # Errors
    /// A committed frame is not what was written, the file cannot be read, or `each` fails.
    pub fn replay<E: From<FramesError>>(
        &mut self,
        may_be_torn: bool,
        mut each: impl FnMut(u64, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let file_len = self.file.length().map_err(io_error("read", &self.path))?;
        let mut position = HEADER_LEN as u64;
        let bad = loop {
            if position == file_len {
                break (position < self.committed).then(|| "the file is cut short".to_owned());
            }
            match read_frame(self.file.as_ref(), position, file_len - position) {
                Ok(payload) => {
                    let frame_len = FRAME_HEADER_LEN + payload.len() as u64;
                    // Its CRC is good, so it is what was written: never a torn tail.
                    each(position, payload)?;
                    position += frame_len;
                }
                Err(FrameError::Io(source)) => {
                    return Err(io_error("read", &self.path)(source).into());
                }
                Err(FrameError::Bad(reason)) => break Some(reason),
            }
        };
        self.len = position;
        let Some(reason) = bad else { return Ok(()) };
        if position < self.committed || !may_be_torn {
            let path = self.path.clone();
            return Err(FramesError::Corrupt { path, position, reason }.into());
        }
        tracing::warn!(path = %self.path.display(), position, reason, "a torn frame is cut off");
        let cut = self.file.set_len(position).and_then(|()| self.file.sync_data());
        Ok(cut.map_err(io_error("truncate", &self.path))?)
    }

    /// Appends one frame, fsyncs, and says so in the header. Returns the frame's length.
    ///
    /// # Errors
    /// The frame does not count.
    pub fn append(&mut self, payload: &[u8]) -> Result<u64, AppendFailure> {
        let written = self.append_unsynced(payload)?;
        self.sync()?;
        Ok(written)
    }

    /// Sees every frame to the disk, and says so in the header.
    ///
    /// # Errors
    /// The fsync failed: frames behind the last fsync may be on the disk, or not.
    pub fn sync(&mut self) -> Result<(), AppendFailure> {
        if let Err(source) = self.file.sync_data() {
            let error = io_error("fsync", &self.path)(source);
            return Err(AppendFailure { error, taken_back: false });
        }
        self.committed = self.len;
        let committed = encode_committed(self.committed);
        let position = START_LEN + self.place * COMMITTED_LEN;
        self.place = 1 - self.place;
        // Only a hint for recovery: that it is missing or old loses nothing, so its failure is
        // ignored.
        let _ = self.file.write_all_at(&mut [IoSlice::new(&committed)], position as u64);
        Ok(())
    }

    /// Writes one frame behind the others. Returns the frame's length.
    ///
    /// # Errors
    /// The frame does not count.
    pub fn append_unsynced(&mut self, payload: &[u8]) -> Result<u64, AppendFailure> {
        let frame = encode_frame(payload).map_err(|source| AppendFailure {
            error: io_error("write", &self.path)(source),
            taken_back: true,
        })?;
        if let Err(source) = self.file.write_all_at(&mut [IoSlice::new(&frame)], self.len) {
            let taken_back = self.file.set_len(self.len).is_ok();
            return Err(AppendFailure { error: io_error("write", &self.path)(source), taken_back });
        }
        self.len += frame.len() as u64;
        Ok(frame.len() as u64)
    }
}

enum FrameError {
    Io(io::Error),
    Bad(String),
}

/// The payload of the frame at `position`, whose CRC is good.
fn read_frame(
    file: &dyn StorageFile,
    position: u64,
    remaining: u64,
) -> Result<Vec<u8>, FrameError> {
    let bad = |reason: &str| FrameError::Bad(reason.to_owned());
    if remaining < FRAME_HEADER_LEN {
        return Err(bad("a frame's header is cut short"));
    }
    let mut header = [0_u8; FRAME_HEADER_LEN as usize];
    read_full(file, &mut header, position).map_err(FrameError::Io)?;
    let [a, b, c, d, crc @ ..] = header;
    let length = [a, b, c, d];
    let payload_len = u64::from(u32::from_be_bytes(length));
    // Checked against the file before memory is taken for it.
    if payload_len > remaining - FRAME_HEADER_LEN {
        return Err(bad("a frame is longer than the file"));
    }
    let mut payload = vec![0_u8; payload_len as usize];
    read_full(file, &mut payload, position + FRAME_HEADER_LEN).map_err(FrameError::Io)?;
    if frame_crc(length, &payload) != u32::from_be_bytes(crc) {
        return Err(bad("bad CRC"));
    }
    Ok(payload)
}

fn encode_frame(payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut frame = Vec::with_capacity(payload.len() + FRAME_HEADER_LEN as usize);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(&frame_crc(length, payload).to_be_bytes());
    frame.extend_from_slice(payload);
    Ok(frame)
}

fn frame_crc(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

fn encode_header(
    magic: [u8; 7],
    format: u8,
    header: FramesHeader,
    committed: u64,
) -> [u8; HEADER_LEN] {
    let mut bytes = [0_u8; HEADER_LEN];
    bytes[..7].copy_from_slice(&magic);
    bytes[7] = format;
    bytes[8..16].copy_from_slice(&header.offset.to_be_bytes());
    bytes[16..20].copy_from_slice(&header.epoch.to_be_bytes());
    let crc = crc32fast::hash(&bytes[..20]);
    bytes[20..24].copy_from_slice(&crc.to_be_bytes());
    for place in bytes[START_LEN..].chunks_exact_mut(COMMITTED_LEN) {
        place.copy_from_slice(&encode_committed(committed));
    }
    bytes
}

fn decode_start(bytes: &[u8; HEADER_LEN]) -> Option<FramesHeader> {
    let offset = i64::from_be_bytes(bytes[8..16].try_into().ok()?);
    let epoch = i32::from_be_bytes(bytes[16..20].try_into().ok()?);
    let crc = u32::from_be_bytes(bytes[20..24].try_into().ok()?);
    (crc32fast::hash(&bytes[..20]) == crc).then_some(FramesHeader { offset, epoch })
}

fn encode_committed(committed: u64) -> [u8; COMMITTED_LEN] {
    let mut bytes = [0_u8; COMMITTED_LEN];
    bytes[..8].copy_from_slice(&committed.to_be_bytes());
    let crc = crc32fast::hash(&bytes[..8]);
    bytes[8..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode_committed(bytes: &[u8; HEADER_LEN], place: usize) -> Option<u64> {
    let bytes = bytes[START_LEN..].chunks_exact(COMMITTED_LEN).nth(place)?;
    let committed = u64::from_be_bytes(bytes[..8].try_into().ok()?);
    let crc = u32::from_be_bytes(bytes[8..].try_into().ok()?);
    (crc32fast::hash(&bytes[..8]) == crc).then_some(committed)
}
