//! What committed entries add up to, and its snapshots.
//!
//! The quorum itself decides one thing when an entry is applied: whether its records stand directly
//! behind those that they were decided upon. Every voter comes to the same answer, so a proposal
//! that was overtaken is in the log and counts nowhere.

use crate::disk::Disk;
use crate::error::QuorumError;
use crate::snapshots::Snapshots;
use crate::types::{
    Applied, Committed, Entry, LogId, Payload, Proposal, Snapshot, SnapshotMeta, State,
    StoredMembership, Types,
};
use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::RaftSnapshotBuilder;
use openraft::storage::{EntryResponder, RaftStateMachine};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Bytes of a state as it was at one moment, made when they are needed.
pub type MakeBytes = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// What committed records add up to. Its calls must not wait: they hold up the quorum.
pub trait StateMachine: Send + 'static {
    /// Takes committed records, the next ones.
    ///
    /// # Errors
    /// The records do not fit. The quorum stops here, and nothing more is applied.
    fn apply(&mut self, committed: Committed) -> Result<(), String>;

    /// The state as it is now. Its bytes are made elsewhere, while records are applied.
    fn snapshot(&self) -> MakeBytes;

    /// Takes a whole state in the place of the present one.
    ///
    /// # Errors
    /// The bytes are not those of a state; the quorum stops.
    fn restore(&mut self, state: &State) -> Result<(), String>;
}

/// Entries of which it is known which offset each of them reaches.
const KNOWN_ENDS: usize = 1_024;

struct Inner {
    machine: Box<dyn StateMachine>,
    last_applied: Option<LogId>,
    membership: StoredMembership,
    /// The offset that the next record gets.
    end: i64,
    /// The same after each of the last entries, and the index of the first of them.
    ends: VecDeque<i64>,
    first_end: u64,
    bytes_since_snapshot: u64,
    /// How many there are to be: as many as the last snapshot has, and never fewer than these.
    snapshot_after_bytes: u64,
    least_bytes: u64,
}

/// The state machine as openraft wants it. Clones share it.
#[derive(Clone)]
pub struct Machine {
    inner: Arc<Mutex<Inner>>,
    snapshots: Snapshots,
    disk: Disk,
}

impl Machine {
    /// Puts `machine` into the state of the newest snapshot. Between two of them `least_bytes` of
    /// payload are applied, or more.
    pub fn open(
        machine: Box<dyn StateMachine>,
        snapshots: Snapshots,
        disk: Disk,
        least_bytes: u64,
    ) -> Result<Self, QuorumError> {
        let mut inner = Inner {
            machine,
            last_applied: None,
            membership: StoredMembership::default(),
            end: 0,
            ends: VecDeque::new(),
            first_end: 0,
            bytes_since_snapshot: 0,
            snapshot_after_bytes: least_bytes,
            least_bytes,
        };
        if let Some((meta, state)) = snapshots.newest()? {
            inner.restore(&meta, &state)?;
        }
        Ok(Self { inner: Arc::new(Mutex::new(inner)), snapshots, disk })
    }

    /// The entry that was applied last.
    pub fn last_applied(&self) -> Option<LogId> {
        self.inner.lock().last_applied
    }

    /// The offset that the next record gets.
    pub fn end(&self) -> i64 {
        self.inner.lock().end
    }

    /// The offset behind the records up to the entry at `index`. Of entries long ago each is taken
    /// for one record.
    pub fn end_at(&self, index: u64) -> i64 {
        let inner = self.inner.lock();
        let Some(first) = inner.ends.front() else { return inner.end };
        match index.checked_sub(inner.first_end) {
            Some(place) => inner.ends.get(place as usize).copied().unwrap_or(inner.end),
            None => first.saturating_sub_unsigned(inner.first_end - index).max(0),
        }
    }

    /// The membership that was applied last.
    pub fn membership(&self) -> StoredMembership {
        self.inner.lock().membership.clone()
    }

    /// Makes a snapshot due.
    #[cfg(test)]
    pub fn want_snapshot(&self) {
        self.inner.lock().bytes_since_snapshot = u64::MAX / 2;
    }

    fn builder(&self) -> Builder {
        let mut inner = self.inner.lock();
        inner.bytes_since_snapshot = 0;
        Builder {
            meta: inner.meta(),
            end: inner.end,
            make: Mutex::new(Some(inner.machine.snapshot())),
            machine: self.clone(),
        }
    }
}

impl Inner {
    fn meta(&self) -> SnapshotMeta {
        let last_membership = self.membership.clone();
        SnapshotMeta { last_log_id: self.last_applied, last_membership }
    }

    fn restore(&mut self, meta: &SnapshotMeta, state: &State) -> Result<(), QuorumError> {
        self.machine.restore(state).map_err(QuorumError::Malformed)?;
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.end = state.end;
        self.ends.clear();
        self.wrote_snapshot(state.bytes.len());
        Ok(())
    }

    fn wrote_snapshot(&mut self, len: usize) {
        self.bytes_since_snapshot = 0;
        self.snapshot_after_bytes = self.least_bytes.max(len as u64);
    }

    fn apply(&mut self, entry: Entry) -> Result<Applied, QuorumError> {
        let log_id = entry.log_id;
        let applied = match entry.payload {
            Payload::Blank => Applied::Nothing,
            Payload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(log_id), membership);
                Applied::Nothing
            }
            Payload::Normal(proposal) => self.apply_records(log_id, proposal)?,
        };
        self.last_applied = Some(log_id);
        self.note_end(log_id.index());
        Ok(applied)
    }

    fn note_end(&mut self, index: u64) {
        if self.ends.is_empty() {
            self.first_end = index;
        }
        self.ends.push_back(self.end);
        if self.ends.len() > KNOWN_ENDS {
            self.ends.pop_front();
            self.first_end += 1;
        }
    }

    fn apply_records(&mut self, log_id: LogId, proposal: Proposal) -> Result<Applied, QuorumError> {
        let Proposal { expected, records, payload } = proposal;
        self.bytes_since_snapshot += payload.len() as u64;
        if expected + 1 != self.end {
            return Ok(Applied::Overtaken(self.end - 1));
        }
        let term = log_id.committed_leader_id().term;
        let committed = Committed { base_offset: self.end, records, term, payload };
        self.machine.apply(committed).map_err(QuorumError::Malformed)?;
        self.end += i64::from(records);
        Ok(Applied::Counts(self.end - 1))
    }
}

/// Writes a snapshot of the state as it was when this was made.
pub struct Builder {
    meta: SnapshotMeta,
    end: i64,
    /// Taken by the first who builds. The lock only makes it `Sync`.
    make: Mutex<Option<MakeBytes>>,
    machine: Machine,
}

impl<C: Types> RaftSnapshotBuilder<C> for Builder {
    type SnapshotData = State;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let Some(make) = self.make.get_mut().take() else {
            return Err(io::Error::other("the snapshot was built already"));
        };
        let (snapshots, meta, end) = (self.machine.snapshots.clone(), self.meta.clone(), self.end);
        let write = move || {
            let state = State { end, bytes: make().into() };
            // Before the first entry there is nothing that a snapshot could take the place of.
            if meta.last_log_id.is_some() {
                snapshots.write(&meta, &state)?;
            }
            Ok(Snapshot { meta, snapshot: state })
        };
        let snapshot = self.machine.disk.run(write).await?;
        self.machine.inner.lock().wrote_snapshot(snapshot.snapshot.bytes.len());
        Ok(snapshot)
    }
}

impl<C: Types> RaftStateMachine<C> for Machine {
    type SnapshotData = State;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let inner = self.inner.lock();
        Ok((inner.last_applied, inner.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<C>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let applied = self.inner.lock().apply(entry)?;
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let is_due = {
            let inner = self.inner.lock();
            inner.bytes_since_snapshot >= inner.snapshot_after_bytes
        };
        (force || is_due).then(|| self.builder())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, state: State) -> io::Result<()> {
        let (snapshots, head, written) = (self.snapshots.clone(), meta.clone(), state.clone());
        // On the disk before anything of it is in the state: a crash in between repeats nothing.
        self.disk.run(move || snapshots.write(&head, &written)).await?;
        Ok(self.inner.lock().restore(meta, &state)?)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let snapshots = self.snapshots.clone();
        let newest = self.disk.run(move || snapshots.newest()).await?;
        Ok(newest.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}
