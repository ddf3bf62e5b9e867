//! Snapshots of the state on the disk, of which the newest counts.
//!
//! ```text
//! 00000000000000004711-0000000007.snapshot     all up to the entry with index 4711, of term 7
//! ```
//! The first frame says what the snapshot holds, the others are its bytes. A file has its name only
//! when it is whole and on the disk.

use crate::codec::{decode, encode, kind_of, malformed, snapshot_in, snapshot_out};
use crate::error::QuorumError;
use crate::types::{SnapshotMeta, State};
use kafkalite_log::frames::{FramesFile, FramesFormat, FramesHeader, io_error};
use kafkalite_log::storage::Storage;
use kafkalite_protocol::messages::quorum_records::QuorumSnapshotRecord;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: FramesFormat = FramesFormat { magic: *b"KLSNAP\n", written: 1, oldest: 1 };
const EXTENSION: &str = "snapshot";
const HEAD: u16 = 1;
/// Bytes of the state that a frame holds.
const FRAME_BYTES: usize = 1 << 20;

/// The snapshots of one voter.
#[derive(Clone, Debug)]
pub struct Snapshots {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
}

impl Snapshots {
    pub fn new(storage: Arc<dyn Storage>, dir: &Path) -> Self {
        Self { storage, dir: dir.to_owned() }
    }

    /// Writes a snapshot, and deletes those before.
    pub fn write(&self, meta: &SnapshotMeta, state: &State) -> Result<(), QuorumError> {
        let Some(last) = meta.last_log_id else {
            return malformed("a snapshot of nothing");
        };
        let disk = self.storage.as_ref();
        let (index, term) = (last.index(), last.committed_leader_id().term);
        let path = self.dir.join(format!("{index:020}-{term:010}.{EXTENSION}"));
        let epoch = i32::try_from(term).unwrap_or(i32::MAX);
        let header = FramesHeader { offset: index as i64, epoch };
        let mut file = FramesFile::create_unnamed(disk, &path, FORMAT, header)?;
        let head = encode(HEAD, &snapshot_out(meta, state.end));
        for payload in std::iter::once(&head[..]).chain(state.bytes.chunks(FRAME_BYTES)) {
            file.append_unsynced(payload).map_err(|failure| failure.error)?;
        }
        file.commit_whole()?;
        file.take_name(disk, &path)?;
        let mut files = self.list()?;
        files.pop();
        for stale in files {
            // A stale one that stays is deleted after the next snapshot.
            if let Err(error) = disk.remove_file(&stale) {
                tracing::warn!(%error, path = %stale.display(), "an old snapshot stays");
            }
        }
        Ok(())
    }

    /// The newest snapshot, if there is any.
    pub fn newest(&self) -> Result<Option<(SnapshotMeta, State)>, QuorumError> {
        let Some(path) = self.list()?.pop() else { return Ok(None) };
        let mut file = FramesFile::open(self.storage.as_ref(), &path, FORMAT)?;
        let mut head = None;
        let mut bytes = Vec::new();
        file.replay(false, |_, payload| {
            if head.is_some() {
                bytes.extend_from_slice(&payload);
                return Ok(());
            }
            let (HEAD, reader) = kind_of(payload.into())? else {
                return malformed("a snapshot without a head");
            };
            head = Some(snapshot_in(&decode::<QuorumSnapshotRecord>(reader)?)?);
            Ok(())
        })?;
        match head {
            Some((meta, end)) => Ok(Some((meta, State { end, bytes: bytes.into() }))),
            None => malformed("a snapshot without a head"),
        }
    }

    /// The snapshots there are, oldest first.
    fn list(&self) -> Result<Vec<PathBuf>, QuorumError> {
        let names = self.storage.list(&self.dir).map_err(io_error("read", &self.dir))?;
        let paths = names.into_iter().map(|entry| self.dir.join(entry.name));
        Ok(paths.filter(|path| path.extension().is_some_and(|end| end == EXTENSION)).collect())
    }
}
