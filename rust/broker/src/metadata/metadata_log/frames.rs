//! A file of frames, each one batch of metadata records.
//!
//! All numbers are big-endian. The header is 48 bytes:
//! ```text
//! | "KLMETA\n" | format: u8 | offset: i64 | epoch: i32 | crc: u32 | 2 x (committed: u64, crc) |
//! offset     of a log its first one; of a snapshot the end of what it holds
//! committed  bytes from the start of the file that were fsynced and acknowledged
//! crc        CRC-32 of what stands before it, from the start or from `committed`
//! ```
//! A frame is `| length: u32 | crc: u32 | batch: length bytes |`; the CRC-32 covers length and
//! batch, and `records.rs` says what a batch is. `committed` is written after each fsync, into its
//! two places by turns so that a torn write spoils only one, and is itself fsynced by the next one.
//! So it lags behind the truth by one or two frames, is never ahead of it, and tells a torn tail
//! from damage. Files of format 1 differ in their batches alone: they are read, never written.

use super::super::error::MetadataError;
use super::super::records::{RecordError, RecordsBatch};
use super::legacy;
use kafkalite_log::storage::{OpenMode, Storage, StorageFile, read_full};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 7] = b"KLMETA\n";
const FORMAT: u8 = 2;
const START_LEN: usize = 24;
const COMMITTED_LEN: usize = 12;
const HEADER_LEN: usize = START_LEN + 2 * COMMITTED_LEN;
const FRAME_HEADER_LEN: u64 = 8;

/// Where a file begins in the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of a log its first offset; of a snapshot the end of what it holds.
    pub offset: i64,
    /// The controller epoch at that offset.
    pub epoch: i32,
}

/// A failed append.
#[derive(Debug)]
pub struct AppendFailure {
    /// Why.
    pub error: MetadataError,
    /// Whether the file is what it was before. Otherwise the batch may be found there at the next
    /// start, or not.
    pub taken_back: bool,
}

/// An open file of frames.
#[derive(Debug)]
pub struct FramesFile {
    path: PathBuf,
    file: Box<dyn StorageFile>,
    /// How its batches are written.
    format: u8,
    header: Header,
    /// The end of the frames that count, in bytes.
    len: u64,
    /// Bytes that the file's header says were committed.
    committed: u64,
    /// Which of the two places the next `committed` goes to.
    place: usize,
}

/// Turns a system error on `path` into ours.
pub fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> MetadataError + 'a {
    move |source| MetadataError::Io { action, path: path.to_owned(), source }
}

impl FramesFile {
    /// Makes a file without frames. It gets its name when it is whole and on the disk.
    pub fn create(
        storage: &dyn Storage,
        path: &Path,
        header: Header,
    ) -> Result<Self, MetadataError> {
        let mut file = Self::create_unnamed(storage, path, header)?;
        file.commit_whole()?;
        file.take_name(storage, path)?;
        Ok(file)
    }

    /// Makes a file under a temporary name, to be filled, committed and named.
    pub fn create_unnamed(
        storage: &dyn Storage,
        path: &Path,
        header: Header,
    ) -> Result<Self, MetadataError> {
        Self::create_in(storage, path, header, FORMAT)
    }

    fn create_in(
        storage: &dyn Storage,
        path: &Path,
        header: Header,
        format: u8,
    ) -> Result<Self, MetadataError> {
        let path = path.with_extension("tmp");
        let file = storage.open(&path, OpenMode::Create).map_err(io_error("create", &path))?;
        file.set_len(0).map_err(io_error("truncate", &path))?;
        let len = HEADER_LEN as u64;
        Ok(Self { path, file, format, header, len, committed: len, place: 0 })
    }

    /// Writes the header with everything committed, and fsyncs.
    pub fn commit_whole(&mut self) -> Result<(), MetadataError> {
        self.committed = self.len;
        let header = encode_header(self.format, self.header, self.committed);
        self.file
            .write_all_at(&mut [IoSlice::new(&header)], 0)
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))
    }

    /// Gives a whole file its name, and sees the name to the disk.
    pub fn take_name(&mut self, storage: &dyn Storage, path: &Path) -> Result<(), MetadataError> {
        storage.rename(&self.path, path).map_err(io_error("rename", &self.path))?;
        path.clone_into(&mut self.path);
        // Opened again by its name: whoever keeps books of files by name finds this one.
        self.file = storage.open(path, OpenMode::Write).map_err(io_error("open", path))?;
        let dir = path.parent().unwrap_or(path);
        storage.sync_dir(dir).map_err(io_error("fsync", dir))
    }

    /// Opens a file and reads its header; `replay` must follow.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self, MetadataError> {
        let file = storage.open(path, OpenMode::Write).map_err(io_error("open", path))?;
        let mut bytes = [0_u8; HEADER_LEN];
        let corrupt = |reason: &str| MetadataError::Corrupt {
            path: path.to_owned(),
            position: 0,
            reason: reason.to_owned(),
        };
        let read = read_full(file.as_ref(), &mut bytes, 0).map_err(io_error("read", path))?;
        if read < HEADER_LEN {
            return Err(corrupt("the header is cut short"));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt("this is no metadata log"));
        }
        let format = bytes[7];
        if format != FORMAT && format != legacy::FORMAT {
            let (found, supported) = (format, FORMAT);
            return Err(MetadataError::Format { path: path.to_owned(), found, supported });
        }
        let header = decode_start(&bytes).ok_or_else(|| corrupt("bad header CRC"))?;
        let places = [0, 1].map(|place| decode_committed(&bytes, place));
        let committed = places.into_iter().flatten().max();
        let committed = committed.ok_or_else(|| corrupt("bad header CRC"))?;
        // The place that holds it stays as it is until the other one is written.
        let place = usize::from(places[0] == Some(committed));
        let (path, len) = (path.to_owned(), HEADER_LEN as u64);
        Ok(Self { path, file, format, header, len, committed, place })
    }

    /// Whether an earlier release wrote it, in a format that is not written any more.
    pub const fn is_legacy(&self) -> bool {
        self.format == legacy::FORMAT
    }

    /// Where the file begins in the metadata log.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The end of the frames that count, in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was ever appended, whole or torn.
    pub fn has_no_frames(&self) -> bool {
        self.file.length().is_ok_and(|length| length <= HEADER_LEN as u64)
    }

    /// Hands every batch with its position to `each`, in order, then cuts a torn tail off;
    /// `may_be_torn` is false for files that were closed before the newest one began.
    pub fn replay(
        &mut self,
        may_be_torn: bool,
        mut each: impl FnMut(u64, RecordsBatch) -> Result<(), MetadataError>,
    ) -> Result<(), MetadataError> {
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
                    each(position, self.decode(position, payload)?)?;
                    position += frame_len;
                }
                Err(FrameError::Io(source)) => return Err(io_error("read", &self.path)(source)),
                Err(FrameError::Bad(reason)) => break Some(reason),
            }
        };
        self.len = position;
        let Some(reason) = bad else { return Ok(()) };
        if position < self.committed || !may_be_torn {
            return Err(MetadataError::Corrupt { path: self.path.clone(), position, reason });
        }
        tracing::warn!(path = %self.path.display(), position, reason, "a torn frame is cut off");
        let cut = self.file.set_len(position).and_then(|()| self.file.sync_data());
        cut.map_err(io_error("truncate", &self.path))
    }

    fn decode(&self, position: u64, payload: Vec<u8>) -> Result<RecordsBatch, MetadataError> {
        let corrupt = |reason| MetadataError::Corrupt { path: self.path.clone(), position, reason };
        if self.is_legacy() {
            return legacy::decode(&payload).map_err(corrupt);
        }
        RecordsBatch::decode(payload.into()).map_err(|(offset, error)| {
            let path = self.path.clone();
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

    /// Appends one batch, fsyncs, and says so in the header. Returns the frame's length.
    pub fn append(&mut self, batch: &RecordsBatch) -> Result<u64, AppendFailure> {
        let written = self.append_unsynced(batch)?;
        if let Err(source) = self.file.sync_data() {
            let error = io_error("fsync", &self.path)(source);
            return Err(AppendFailure { error, taken_back: false });
        }
        self.committed = self.len;
        let committed = encode_committed(self.committed);
        let position = START_LEN + self.place * COMMITTED_LEN;
        self.place = 1 - self.place;
        // Only a hint for recovery: that it is missing or old loses nothing, so its failure is
        // nobody's.
        let _ = self.file.write_all_at(&mut [IoSlice::new(&committed)], position as u64);
        Ok(written)
    }

    /// Writes one batch behind the others. Returns the frame's length.
    pub fn append_unsynced(&mut self, batch: &RecordsBatch) -> Result<u64, AppendFailure> {
        let frame = self.encode(batch).map_err(|reason| AppendFailure {
            error: MetadataError::Replay { offset: batch.base_offset, reason },
            taken_back: true,
        })?;
        if let Err(source) = self.file.write_all_at(&mut [IoSlice::new(&frame)], self.len) {
            let taken_back = self.file.set_len(self.len).is_ok();
            return Err(AppendFailure { error: io_error("write", &self.path)(source), taken_back });
        }
        self.len += frame.len() as u64;
        Ok(frame.len() as u64)
    }

    fn encode(&self, batch: &RecordsBatch) -> Result<Vec<u8>, String> {
        #[cfg(test)]
        if self.is_legacy() {
            return encode_frame(&legacy::tests::encode(batch));
        }
        let payload = batch.encode();
        // What cannot be read back, like a text that is too long, must not get into the log.
        match RecordsBatch::decode(payload.clone()) {
            Ok(read) if read == *batch => encode_frame(&payload),
            Ok(_) => Err("a record comes back as another".to_owned()),
            Err((offset, error)) => Err(format!("offset {offset}: {error:?}")),
        }
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

fn encode_frame(payload: &[u8]) -> Result<Vec<u8>, String> {
    let length = u32::try_from(payload.len()).map_err(|error| error.to_string())?.to_be_bytes();
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

fn encode_header(format: u8, header: Header, committed: u64) -> [u8; HEADER_LEN] {
    let mut bytes = [0_u8; HEADER_LEN];
    bytes[..7].copy_from_slice(MAGIC);
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

fn decode_start(bytes: &[u8; HEADER_LEN]) -> Option<Header> {
    let offset = i64::from_be_bytes(bytes[8..16].try_into().ok()?);
    let epoch = i32::from_be_bytes(bytes[16..20].try_into().ok()?);
    let crc = u32::from_be_bytes(bytes[20..24].try_into().ok()?);
    (crc32fast::hash(&bytes[..20]) == crc).then_some(Header { offset, epoch })
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

/// The bytes of a file whose header says that `committed` bytes count.
#[cfg(test)]
pub fn with_committed(bytes: &[u8], committed: u64) -> Vec<u8> {
    let start: &[u8; HEADER_LEN] = bytes[..HEADER_LEN].try_into().expect("a header is there");
    let header = decode_start(start).expect("the header is whole");
    [&encode_header(bytes[7], header, committed), &bytes[HEADER_LEN..]].concat()
}

#[cfg(test)]
impl FramesFile {
    /// Makes a file as release 0.1 did, with its name.
    pub fn create_legacy(storage: &dyn Storage, path: &Path, header: Header) -> Self {
        let mut file = Self::create_in(storage, path, header, legacy::FORMAT).expect("a file");
        file.commit_whole().expect("an fsync");
        file.take_name(storage, path).expect("a name");
        file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
