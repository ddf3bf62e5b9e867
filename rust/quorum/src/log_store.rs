//! The log as openraft wants it: memory that is read, and a journal that follows in order.

use crate::disk::Disk;
use crate::error::QuorumError;
use crate::journal::Journal;
use crate::log_state::{Change, LogState};
use crate::types::{Entry, LogId, Types, Vote};
use openraft::storage::{IOFlushed, LogState as LogEnds, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::Arc;

/// The vote and the log of one voter. Clones share them.
#[derive(Clone)]
pub struct LogStore {
    /// What is read. Entries are here before they are on the disk, a vote only afterwards.
    state: Arc<Mutex<LogState>>,
    /// What is on the disk; only jobs of the disk take this lock.
    journal: Arc<Mutex<Journal>>,
    disk: Disk,
}

impl LogStore {
    pub fn new(journal: Journal, state: LogState, disk: Disk) -> Self {
        let (state, journal) = (Arc::new(Mutex::new(state)), Arc::new(Mutex::new(journal)));
        Self { state, journal, disk }
    }

    /// A write of `change`, to be done in its turn.
    fn write(&self, change: Change) -> impl FnOnce() -> Result<(), QuorumError> + Send + 'static {
        let journal = Arc::clone(&self.journal);
        move || journal.lock().write(&change)
    }

    /// Waits until all that was written or noted is on the disk.
    pub async fn close(&self) {
        let journal = Arc::clone(&self.journal);
        let close = move || {
            journal.lock().close();
            Ok(())
        };
        // The thread of a disk that failed is gone, and its notes with it.
        let _ = self.disk.run(close).await;
    }
}

impl<C: Types> RaftLogReader<C> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        Ok(self.state.lock().read(range))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.state.lock().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        Ok(self.state.lock().read_some(start, end))
    }
}

impl<C: Types> RaftLogStorage<C> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogEnds<C>> {
        let state = self.state.lock();
        Ok(LogEnds { last_purged_log_id: state.purged, last_log_id: state.last_log_id() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let change = Change::Vote(*vote);
        self.disk.run(self.write(change.clone())).await?;
        Ok(self.state.lock().apply(&change)?)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let change = Change::Committed(committed);
        self.state.lock().apply(&change)?;
        let write = self.write(change);
        self.disk.submit(move || {
            // Only a note. A journal that cannot be written says so at the next entry.
            if let Err(error) = write() {
                tracing::debug!(%error, "the committed end was not noted");
            }
        });
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.state.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let change = Change::Append(entries.into_iter().collect());
        self.state.lock().apply(&change)?;
        let write = self.write(change);
        self.disk.submit(move || callback.io_completed(write().map_err(io::Error::from)));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let change = Change::TruncateAfter(last);
        self.state.lock().apply(&change)?;
        self.disk.run(self.write(change)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let change = Change::Purge(upto);
        self.state.lock().apply(&change)?;
        self.disk.run(self.write(change)).await
    }
}

#[cfg(test)]
mod tests;
