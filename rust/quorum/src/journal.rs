//! The journal of a voter: every change of its vote and its log, in order, in one file of frames.
//!
//! ```text
//! 00000000000000000003.raft     frames: | kind: u16 | version: i16 | record |
//! ```
//! Nothing in the file is ever overwritten, and only a torn tail is cut. A truncation of the log is
//! a frame as an entry is: there is no half of a truncation. When the file has outgrown what it
//! adds up to, a new file begins with just that. It takes the old one's place when it is whole and
//! on the disk.
//!
//! Vote, entries, truncations and purges are fsynced before the quorum hears that they are done.
//! How far the log is committed is only noted: a later fsync takes it along.

use crate::codec::{
    decode, encode, entries_in, entry_out, kind_of, log_id_in, log_id_out, malformed,
    some_log_id_in, vote_in, vote_out,
};
use crate::error::QuorumError;
use crate::log_state::{Change, LogState};
use bytes::Bytes;
use kafkalite_log::frames::{AppendFailure, FramesFile, FramesFormat, FramesHeader, io_error};
use kafkalite_log::storage::Storage;
use kafkalite_protocol::messages::quorum_records as wire;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: FramesFormat = FramesFormat { magic: *b"KLRAFT\n", written: 1, oldest: 1 };
const EXTENSION: &str = "raft";

const VOTE: u16 = 1;
const ENTRIES: u16 = 2;
const TRUNCATE: u16 = 3;
const PURGE: u16 = 4;
const COMMITTED: u16 = 5;

/// The journal of one voter, open for changes.
#[derive(Debug)]
pub struct Journal {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    file: FramesFile,
    number: i64,
    /// What the file adds up to.
    state: LogState,
    /// The file's length when it was made.
    made_len: u64,
    roll_bytes: u64,
    offline: Option<String>,
}

impl Journal {
    /// Opens the journal in `dir`, and makes it where there is none. When the file has grown by
    /// `roll_bytes`, a new one takes its place.
    ///
    /// # Errors
    /// The disk refuses, or a change that was acknowledged is not what was written.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        roll_bytes: u64,
    ) -> Result<(Self, LogState), QuorumError> {
        let disk = storage.as_ref();
        let mut files = list(disk, dir)?;
        let mut state = LogState::default();
        let file = match files.pop() {
            None => FramesFile::create(disk, &path(dir, 0), FORMAT, header(0))?,
            Some(newest) => {
                let mut file = FramesFile::open(disk, &newest, FORMAT)?;
                file.replay(true, |_, payload| replay(&mut state, payload.into()))?;
                file
            }
        };
        if !files.is_empty() {
            // A crash came before they were deleted. The newest one's name may not be on the disk.
            disk.sync_dir(dir).map_err(io_error("fsync", dir))?;
            delete(disk, &files)?;
        }
        // Frames behind the committed end may be there although their fsync failed. Then they are
        // in memory only, and no later fsync would write them.
        let is_doubtful = file.len() > file.committed();
        // Its first length is not known: the next purge makes a new file if this one is long.
        let (number, dir, made_len) = (file.header().offset, dir.to_owned(), 0);
        let (offline, replayed) = (None, state.clone());
        let mut journal = Self { storage, dir, file, number, state, made_len, roll_bytes, offline };
        if is_doubtful {
            journal.roll()?;
        }
        Ok((journal, replayed))
    }

    /// Sees to the disk what was only noted: for an end without haste.
    pub fn close(&mut self) {
        if self.offline.is_none() && self.file.len() > self.file.committed() {
            // A failure loses notes, which come again from the leader.
            let _ = self.file.sync();
        }
    }

    /// Writes `change`; it is on the disk when this returns, unless it is a mere note.
    ///
    /// # Errors
    /// The change is not in the journal, or after a failed fsync perhaps it is. The journal is
    /// offline until it is opened again: what comes next would stand behind a hole.
    pub fn write(&mut self, change: &Change) -> Result<(), QuorumError> {
        if let Some(reason) = &self.offline {
            return Err(QuorumError::Stopped(format!("an earlier write failed: {reason}")));
        }
        let frame = encode_change(change);
        let written = match change {
            // A note that was taken back is missed by nothing.
            Change::Committed(_) => match self.file.append_unsynced(&frame) {
                Err(failure) if failure.taken_back => return Err(failure.error.into()),
                written => written,
            },
            _ => self.file.append(&frame),
        };
        written.map_err(|failure| self.failed(failure))?;
        self.state.apply(change)?;
        match change {
            Change::Purge(_) if self.file.len() >= self.made_len + self.roll_bytes => self.roll(),
            _ => Ok(()),
        }
    }

    fn failed(&mut self, failure: AppendFailure) -> QuorumError {
        tracing::error!(error = %failure.error, "the quorum's journal is offline");
        self.offline = Some(failure.error.to_string());
        failure.error.into()
    }

    /// Begins a new file. A failure leaves the one that is there, which goes on.
    fn roll(&mut self) -> Result<(), QuorumError> {
        match self.make_next() {
            Ok(file) => self.file = file,
            Err(error) => {
                tracing::warn!(%error, "no new journal of the quorum");
                // The new file may have its name already, and would be the one that is opened.
                let next = path(&self.dir, self.number + 1);
                let removed = self.storage.remove_file(&next);
                let is_gone = match removed {
                    Ok(()) => self.storage.sync_dir(&self.dir).is_ok(),
                    Err(error) => error.kind() == std::io::ErrorKind::NotFound,
                };
                if !is_gone {
                    self.offline = Some(error.to_string());
                    return Err(error);
                }
                // Tried again when as much was written once more.
                self.made_len = self.file.len();
                return Ok(());
            }
        }
        let old = path(&self.dir, self.number);
        self.number += 1;
        self.made_len = self.file.len();
        // It is deleted at the next start if not now.
        if let Err(error) = delete(self.storage.as_ref(), &[old]) {
            tracing::warn!(%error, "an old journal of the quorum stays");
        }
        Ok(())
    }

    /// A file of what the journal adds up to, whole and on the disk.
    fn make_next(&self) -> Result<FramesFile, QuorumError> {
        let (disk, number) = (self.storage.as_ref(), self.number + 1);
        let path = path(&self.dir, number);
        let mut file = FramesFile::create_unnamed(disk, &path, FORMAT, header(number))?;
        let entries = self.state.read(..);
        let changes = [
            self.state.vote.map(Change::Vote),
            self.state.purged.map(Change::Purge),
            (!entries.is_empty()).then_some(Change::Append(entries)),
            Some(Change::Committed(self.state.committed)),
        ];
        for change in changes.into_iter().flatten() {
            file.append_unsynced(&encode_change(&change)).map_err(|failure| failure.error)?;
        }
        file.commit_whole()?;
        file.take_name(disk, &path)?;
        Ok(file)
    }
}

/// Whether `dir` holds a journal.
pub fn is_in(storage: &dyn Storage, dir: &Path) -> Result<bool, QuorumError> {
    Ok(!list(storage, dir)?.is_empty())
}

const fn header(number: i64) -> FramesHeader {
    FramesHeader { offset: number, epoch: 0 }
}

fn path(dir: &Path, number: i64) -> PathBuf {
    dir.join(format!("{number:020}.{EXTENSION}"))
}

/// The journals in `dir`, oldest first.
fn list(disk: &dyn Storage, dir: &Path) -> Result<Vec<PathBuf>, QuorumError> {
    let names = disk.list(dir).map_err(io_error("read", dir))?;
    let paths = names.into_iter().map(|entry| dir.join(entry.name));
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == EXTENSION)).collect())
}

fn delete(disk: &dyn Storage, paths: &[PathBuf]) -> Result<(), QuorumError> {
    for path in paths {
        disk.remove_file(path).map_err(io_error("delete", path))?;
    }
    Ok(())
}

fn encode_change(change: &Change) -> Bytes {
    let log_id = |log_id| wire::QuorumLogIdRecord { log_id };
    match change {
        Change::Vote(vote) => encode(VOTE, &wire::QuorumVoteRecord { vote: vote_out(vote) }),
        Change::Append(entries) => {
            let entries = entries.iter().map(entry_out).collect();
            encode(ENTRIES, &wire::QuorumEntriesRecord { entries })
        }
        Change::TruncateAfter(last) => encode(TRUNCATE, &log_id(log_id_out(last.as_ref()))),
        Change::Purge(upto) => encode(PURGE, &log_id(log_id_out(Some(upto)))),
        Change::Committed(upto) => encode(COMMITTED, &log_id(log_id_out(upto.as_ref()))),
    }
}

fn decode_change(payload: Bytes) -> Result<Change, QuorumError> {
    let (kind, reader) = kind_of(payload)?;
    Ok(match kind {
        VOTE => Change::Vote(vote_in(&decode::<wire::QuorumVoteRecord>(reader)?.vote)?),
        ENTRIES => {
            let entries = decode::<wire::QuorumEntriesRecord>(reader)?.entries;
            Change::Append(entries_in(entries)?)
        }
        TRUNCATE => {
            let record: wire::QuorumLogIdRecord = decode(reader)?;
            Change::TruncateAfter(log_id_in(&record.log_id)?)
        }
        PURGE => {
            let record: wire::QuorumLogIdRecord = decode(reader)?;
            Change::Purge(some_log_id_in(&record.log_id)?)
        }
        COMMITTED => {
            let record: wire::QuorumLogIdRecord = decode(reader)?;
            Change::Committed(log_id_in(&record.log_id)?)
        }
        unknown => return malformed(format!("a change of kind {unknown}")),
    })
}

fn replay(state: &mut LogState, payload: Bytes) -> Result<(), QuorumError> {
    state.apply(&decode_change(payload)?)
}

#[cfg(test)]
mod tests;
