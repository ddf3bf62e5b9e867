//! Notes in the metadata which log directory each replica here is in.
//!
//! The order is directory, note, acknowledgement. The directory of a new replica is on the disk
//! before the note is proposed, and its partition acknowledges nothing before the note counts. So a
//! replica without a note can be made on any disk, and one that is missing where its note says was
//! lost. All replicas that wait for a note are in one proposal. A proposal that fails is made again
//! after a while.
//! Source: Kafka's `AssignmentsManager`, KIP-858.

use super::opening::retry_wait_ms;
use super::{ReplicaManager, Slot};
use crate::metadata::ApiError;
use crate::metadata::controller::ReplicaDirectories;
use crate::partitions::log_dirs::LogDirectory;
use kafkalite_log::LogError;
use kafkalite_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The replicas that wait for a note.
#[derive(Default)]
pub(super) struct Unassigned {
    /// Those whose directories are on the disk.
    replicas: ReplicaDirectories,
    /// Topics with others: the disk refused a sync.
    unsynced: BTreeSet<Uuid>,
    /// Proposals that failed since the last one that did not.
    attempts: u32,
    /// When the next proposal is due, in ms of monotonic time, if the last one failed.
    retry_at_ms: Option<u64>,
}

impl ReplicaManager {
    /// Has `propose` called whenever there are replicas to note. `propose` proposes what
    /// [`Self::unassigned`] returns, and gives the outcome to [`Self::assigned`]. Only the first
    /// `propose` counts.
    pub fn on_unassigned(&self, propose: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_unassigned.set(Box::new(propose));
    }

    /// The log directories of the replicas that the metadata do not name yet. A directory that
    /// failed is left out: its replicas can be made on another disk.
    #[must_use]
    pub fn unassigned(&self) -> ReplicaDirectories {
        let online = self.dirs.iter().filter(|dir| !dir.log_dir().is_offline());
        let online: Vec<Uuid> = online.map(|dir| dir.id()).collect();
        let mut replicas = self.unassigned.lock().replicas.clone();
        for directories in replicas.values_mut() {
            directories.retain(|_, directory| online.contains(directory));
        }
        replicas.retain(|_, directories| !directories.is_empty());
        replicas
    }

    /// A proposal of [`Self::unassigned`] was published, or refused. A replica that was noted is
    /// taken out when its image comes.
    pub fn assigned(&self, result: Result<(), ApiError>) {
        let Err(error) = result else {
            self.unassigned.lock().attempts = 0;
            return;
        };
        tracing::error!(
            code = error.code.name(),
            message = error.message,
            "log directories of replicas are not noted; tried again"
        );
        self.assign_later();
    }

    fn assign_later(&self) {
        {
            let mut unassigned = self.unassigned.lock();
            unassigned.attempts += 1;
            let wait_ms = retry_wait_ms(unassigned.attempts);
            let at_ms = self.config.clock.monotonic_ms().saturating_add(wait_ms);
            unassigned.retry_at_ms = Some(at_ms);
        }
        self.look_at_deadlines();
    }

    /// Whether replicas wait for a note, and the last proposal failed: one more would wait, too.
    pub(super) fn notes_fail(&self) -> bool {
        let unassigned = self.unassigned.lock();
        unassigned.attempts > 0 && !unassigned.replicas.is_empty()
    }

    /// When the log directories of replicas are proposed again, in ms of monotonic time.
    pub fn next_assignment_ms(&self) -> Option<u64> {
        self.unassigned.lock().retry_at_ms
    }

    /// Proposes the log directories again whose last proposal failed.
    pub fn retry_assignments(&self) {
        let now_ms = self.config.clock.monotonic_ms();
        if self.unassigned.lock().retry_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_none() {
            return;
        }
        {
            let _following = self.following.lock();
            let unsynced = std::mem::take(&mut self.unassigned.lock().unsynced);
            self.follow_unassigned(unsynced);
        }
        self.propose_assignments();
    }

    /// Has the replicas noted that wait for it. Not to be called under a lock.
    pub(super) fn propose_assignments(&self) {
        if let Some(propose) = self.on_unassigned.get() {
            propose();
        }
    }

    /// Finds out which partitions of these topics wait, and puts the names of their directories on
    /// the disk. Whether there is anything to propose. The caller holds the lock `following`.
    pub(super) fn follow_unassigned(&self, topics: impl IntoIterator<Item = Uuid>) -> bool {
        let topics = topics.into_iter().map(|topic| (topic, self.waiting_of(topic)));
        let topics: ReplicaDirectories = topics.collect();
        let synced = self.sync_names(&topics);
        if let Err(error) = &synced {
            tracing::error!(%error, "directories of new replicas are not on the disk yet");
            self.assign_later();
        }
        let mut unassigned = self.unassigned.lock();
        let mut any_waits = false;
        for (topic, waiting) in topics {
            unassigned.forget(topic);
            if waiting.is_empty() {
                continue;
            }
            if synced.is_ok() {
                any_waits = true;
                unassigned.replicas.insert(topic, waiting);
            } else {
                unassigned.unsynced.insert(topic);
            }
        }
        any_waits
    }

    /// The partitions of a topic that wait, and their log directories.
    fn waiting_of(&self, topic: Uuid) -> BTreeMap<i32, Uuid> {
        let partitions = self.maps.read().by_id.get(&topic).map(|topic| topic.partitions.clone());
        let here = partitions.iter().flatten().filter_map(Slot::partition);
        here.filter_map(|one| Some((one.index(), one.unassigned_directory()?))).collect()
    }

    /// Puts the names of the replicas' directories on the disk: one fsync for all in a log
    /// directory. A disk that fails takes its log directory offline.
    fn sync_names(&self, topics: &ReplicaDirectories) -> Result<(), LogError> {
        let named: BTreeSet<Uuid> = topics.values().flat_map(BTreeMap::values).copied().collect();
        let is_named = |dir: &&LogDirectory| named.contains(&dir.id());
        for dir in self.dirs.iter().filter(is_named).filter(|dir| !dir.log_dir().is_offline()) {
            let synced = dir.log_dir().storage().sync_dir(dir.path());
            match synced.map_err(|error| LogError::io(dir.path(), error)) {
                Err(failure) if failure.is_disk_failure() => dir.log_dir().take_offline(&failure),
                synced => synced?,
            }
        }
        Ok(())
    }

    /// The topic is deleted.
    pub(super) fn forget_unassigned(&self, topic: Uuid) {
        self.unassigned.lock().forget(topic);
    }
}

impl Unassigned {
    fn forget(&mut self, topic: Uuid) {
        self.replicas.remove(&topic);
        self.unsynced.remove(&topic);
    }
}
