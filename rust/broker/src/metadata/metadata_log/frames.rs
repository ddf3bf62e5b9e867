//! A file of frames, each one batch of metadata records.
//!
//! All numbers are big-endian. The header is 32 bytes:
//! ```text
//! | "KLMETA\n" | format: u8 | offset: i64 | epoch: i32 | committed: u64 | crc: u32 |
//! offset     of a log its first one; of a snapshot the end of what it holds
//! committed  bytes from the start of the file that were fsynced and acknowledged
//! crc        CRC-32 of the 28 bytes before it
//! ```
//! A frame is `| length: u32 | crc: u32 | batch: length bytes |`; the CRC-32 covers length and batch, and the batch
//! is postcard. `committed` is written after each fsync and is itself fsynced by the next one. So it lags behind
//! the truth by at most one frame, is never ahead of it, and tells a torn tail from damage.

use super::super::error::MetadataError;
use super::super::records::RecordsBatch;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 7] = b"KLMETA\n";
const FORMAT: u8 = 1;
const HEADER_LEN: u64 = 32;
const COMMITTED_AT: usize = 20;
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
pub struct AppendFailure {
    /// Why.
    pub error: MetadataError,
    /// Whether the file is what it was before.
    pub taken_back: bool,
}

/// An open file of frames.
#[derive(Debug)]
pub struct FramesFile {
    path: PathBuf,
    file: File,
    header: Header,
    /// The end of the frames that count, in bytes.
    len: u64,
    /// Bytes that the file's header says were committed.
    committed: u64,
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
    pub fn create(path: &Path, header: Header) -> Result<Self, MetadataError> {
        let mut file = Self::create_unnamed(path, header)?;
        file.commit_whole()?;
        file.take_name(path)?;
        Ok(file)
    }

    /// Makes a file under a temporary name, to be filled, committed and named.
    pub fn create_unnamed(path: &Path, header: Header) -> Result<Self, MetadataError> {
        let path = path.with_extension("tmp");
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = open.map_err(io_error("create", &path))?;
        Ok(Self { path, file, header, len: HEADER_LEN, committed: HEADER_LEN })
    }

    /// Writes the header with everything committed, and fsyncs.
    pub fn commit_whole(&mut self) -> Result<(), MetadataError> {
        self.committed = self.len;
        self.file
            .write_all_at(&encode_header(self.header, self.committed), 0)
            .and_then(|()| self.file.sync_all())
            .map_err(io_error("write", &self.path))
    }

    /// Gives a whole file its name.
    pub fn take_name(&mut self, path: &Path) -> Result<(), MetadataError> {
        fs::rename(&self.path, path).map_err(io_error("rename", &self.path))?;
        path.clone_into(&mut self.path);
        Ok(())
    }

    /// Opens a file and reads its header; `replay` must follow.
    pub fn open(path: &Path) -> Result<Self, MetadataError> {
        let open = OpenOptions::new().read(true).write(true).open(path);
        let file = open.map_err(io_error("open", path))?;
        let mut bytes = [0_u8; HEADER_LEN as usize];
        let corrupt = |reason: &str| MetadataError::Corrupt {
            path: path.to_owned(),
            position: 0,
            reason: reason.to_owned(),
        };
        file.read_exact_at(&mut bytes, 0).map_err(|_| corrupt("the header is cut short"))?;
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt("this is no metadata log"));
        }
        if bytes[7] != FORMAT {
            let (found, supported) = (bytes[7], FORMAT);
            return Err(MetadataError::Format { path: path.to_owned(), found, supported });
        }
        let (header, committed) = decode_header(&bytes).ok_or_else(|| corrupt("bad header CRC"))?;
        Ok(Self { path: path.to_owned(), file, header, len: HEADER_LEN, committed })
    }

    /// Where the file begins in the metadata log.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The end of the frames that count, in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Hands every batch with its position to `each`, in order, then cuts a torn tail off; `may_be_torn` is false
    /// for files that were closed before the newest one began.
    pub fn replay(
        &mut self,
        may_be_torn: bool,
        mut each: impl FnMut(u64, RecordsBatch) -> Result<(), MetadataError>,
    ) -> Result<(), MetadataError> {
        let file_len = self.file.metadata().map_err(io_error("read", &self.path))?.len();
        self.file.seek(SeekFrom::Start(HEADER_LEN)).map_err(io_error("read", &self.path))?;
        let mut reader = BufReader::new(&self.file);
        let mut position = HEADER_LEN;
        let bad = loop {
            if position == file_len {
                break (position < self.committed).then(|| "the file is cut short".to_owned());
            }
            match read_frame(&mut reader, file_len - position) {
                Ok((batch, frame_len)) => {
                    each(position, batch)?;
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
        let cut = self.file.set_len(position).and_then(|()| self.file.sync_all());
        cut.map_err(io_error("truncate", &self.path))
    }

    /// Appends one batch, fsyncs, and says so in the header. Returns the frame's length.
    pub fn append(&mut self, batch: &RecordsBatch) -> Result<u64, AppendFailure> {
        let written = self.append_unsynced(batch)?;
        if let Err(source) = self.file.sync_data() {
            let error = io_error("fsync", &self.path)(source);
            return Err(AppendFailure { error, taken_back: false });
        }
        self.committed = self.len;
        // Only a hint for recovery: that it is missing or old loses nothing, so its failure is nobody's.
        let header = encode_header(self.header, self.committed);
        let _ = self.file.write_all_at(&header[COMMITTED_AT..], COMMITTED_AT as u64);
        Ok(written)
    }

    /// Writes one batch behind the others. Returns the frame's length.
    pub fn append_unsynced(&mut self, batch: &RecordsBatch) -> Result<u64, AppendFailure> {
        let frame = encode_frame(batch).map_err(|reason| AppendFailure {
            error: MetadataError::Replay { offset: batch.base_offset, reason },
            taken_back: true,
        })?;
        if let Err(source) = self.file.write_all_at(&frame, self.len) {
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

fn read_frame(reader: &mut impl Read, remaining: u64) -> Result<(RecordsBatch, u64), FrameError> {
    let bad = |reason: &str| FrameError::Bad(reason.to_owned());
    if remaining < FRAME_HEADER_LEN {
        return Err(bad("a frame's header is cut short"));
    }
    let (mut length, mut crc) = ([0_u8; 4], [0_u8; 4]);
    reader.read_exact(&mut length).map_err(FrameError::Io)?;
    reader.read_exact(&mut crc).map_err(FrameError::Io)?;
    let payload_len = u64::from(u32::from_be_bytes(length));
    // Checked against the file before memory is taken for it.
    if payload_len > remaining - FRAME_HEADER_LEN {
        return Err(bad("a frame is longer than the file"));
    }
    let mut payload = vec![0_u8; payload_len as usize];
    reader.read_exact(&mut payload).map_err(FrameError::Io)?;
    if frame_crc(length, &payload) != u32::from_be_bytes(crc) {
        return Err(bad("bad CRC"));
    }
    let batch = postcard::from_bytes(&payload)
        .map_err(|error| FrameError::Bad(format!("unreadable records: {error}")))?;
    Ok((batch, FRAME_HEADER_LEN + payload_len))
}

fn encode_frame(batch: &RecordsBatch) -> Result<Vec<u8>, String> {
    let payload = postcard::to_stdvec(batch).map_err(|error| error.to_string())?;
    let length = u32::try_from(payload.len()).map_err(|error| error.to_string())?.to_be_bytes();
    let mut frame = Vec::with_capacity(payload.len() + FRAME_HEADER_LEN as usize);
    frame.extend_from_slice(&length);
    frame.extend_from_slice(&frame_crc(length, &payload).to_be_bytes());
    frame.extend_from_slice(&payload);
    Ok(frame)
}

fn frame_crc(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

fn encode_header(header: Header, committed: u64) -> [u8; HEADER_LEN as usize] {
    let mut bytes = [0_u8; HEADER_LEN as usize];
    bytes[..7].copy_from_slice(MAGIC);
    bytes[7] = FORMAT;
    bytes[8..16].copy_from_slice(&header.offset.to_be_bytes());
    bytes[16..20].copy_from_slice(&header.epoch.to_be_bytes());
    bytes[20..28].copy_from_slice(&committed.to_be_bytes());
    let crc = crc32fast::hash(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode_header(bytes: &[u8; HEADER_LEN as usize]) -> Option<(Header, u64)> {
    let offset = i64::from_be_bytes(bytes[8..16].try_into().ok()?);
    let epoch = i32::from_be_bytes(bytes[16..20].try_into().ok()?);
    let committed = u64::from_be_bytes(bytes[20..28].try_into().ok()?);
    let crc = u32::from_be_bytes(bytes[28..].try_into().ok()?);
    (crc32fast::hash(&bytes[..28]) == crc).then_some((Header { offset, epoch }, committed))
}

/// The bytes of a file whose header says that `committed` bytes count.
#[cfg(test)]
pub fn with_committed(bytes: &[u8], committed: u64) -> Vec<u8> {
    let header: &[u8; 32] = bytes[..32].try_into().expect("a header has 32 bytes");
    let (header, _) = decode_header(header).expect("the header is whole");
    [&encode_header(header, committed), &bytes[32..]].concat()
}

#[cfg(test)]
impl FramesFile {
    pub fn path(&self) -> &Path {
        &self.path
    }
}
