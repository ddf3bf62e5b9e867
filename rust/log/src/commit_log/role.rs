//! What a replica is to its log: leader, follower or gone, and in which leader epoch.
//!
//! The writer's lock guards the role. A check of the role and the append that relies on it are one
//! step under that lock. So a leader that lost its partition appends nothing in its old epoch.
//!
//! ```text
//!                 become_leader(newer epoch)
//!   Follower(e) -----------------------------> Leader(e)
//!        ^                                        |
//!        +----------------------------------------+
//!                 become_follower(same or newer epoch)
//!   either one -- become_gone --> Gone, for ever
//! ```
//!
//! Every end that leaves the log carries a version. Append, truncation and change of role each
//! raise the version under the lock, so a receiver of two ends knows which one is older.
//! Source: Kafka's `Partition.makeLeader`, `makeFollower` and `appendRecordsToLeader`.

use std::fmt;
use std::sync::atomic::Ordering;

use kafkalite_protocol::types::{LeaderEpoch, Offset};

use super::{CommitLog, Writer};
use crate::error::LogError;

/// What a replica is to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It appends what producers send, in this epoch.
    Leader(LeaderEpoch),
    /// It appends what the leader of this epoch has. The epoch of a log that was just opened is
    /// unknown, and nothing can be appended.
    Follower(LeaderEpoch),
    /// The partition was deleted: nothing is appended any more.
    Gone,
}

impl Role {
    /// The leader epoch of the role; unknown for a partition that is gone.
    #[must_use]
    pub fn epoch(self) -> LeaderEpoch {
        match self {
            Self::Leader(epoch) | Self::Follower(epoch) => epoch,
            Self::Gone => LeaderEpoch::UNKNOWN,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader(epoch) => write!(f, "leader in epoch {}", epoch.0),
            Self::Follower(epoch) => write!(f, "follower in epoch {}", epoch.0),
            Self::Gone => f.write_str("deleted"),
        }
    }
}

/// Where a log ends, as of one version. Of two ends the one with the greater version is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The offset that the next record gets.
    pub offset: Offset,
    /// Everything below survives a power cut.
    pub durable: Offset,
    /// The leader epoch of the replica's role.
    pub epoch: LeaderEpoch,
    /// Counts the changes of a log since it was opened, from 1.
    pub version: u64,
}

/// Up to where a log is on the disk, as of one version; comparable with that of [`LogEnd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableEnd {
    /// Everything below survives a power cut.
    pub offset: Offset,
    /// Counts the changes of a log since it was opened, from 1.
    pub version: u64,
}

impl Writer {
    /// Refuses what only a replica in the role `wanted` may do.
    pub(super) fn check_role(&self, wanted: Role) -> Result<(), LogError> {
        if self.role == wanted {
            return Ok(());
        }
        Err(LogError::WrongRole { wanted, role: self.role })
    }
}

impl CommitLog {
    /// What the replica is now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.writer.lock().role
    }

    /// Where the log ends now. Waits for an append that runs.
    #[must_use]
    pub fn log_end(&self) -> LogEnd {
        self.end_of(&self.writer.lock())
    }

    /// The end, with a version of its own. The caller has the writer's lock, and none of the
    /// batches that it staged are unpublished.
    pub(super) fn end_of(&self, writer: &Writer) -> LogEnd {
        self.end_at(self.log_end_offset(), writer)
    }

    pub(super) fn end_at(&self, offset: Offset, writer: &Writer) -> LogEnd {
        // The version first: a flush that took an older one has stored its offset before.
        let version = self.next_version();
        LogEnd { offset, durable: self.durable_offset(), epoch: writer.role.epoch(), version }
    }

    pub(super) fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Begins to lead in `epoch`, which starts at the log's end. A client that knows the epoch can
    /// ask where the epoch ends before the first append.
    ///
    /// The first append writes the epoch. An epoch without records need not outlive the process:
    /// the next one starts at the same offset and takes its place. A leader of `epoch` stays one.
    ///
    /// # Errors
    /// - `StaleLeaderEpoch`: the role or the log knows a newer epoch, or the replica followed
    ///   another leader in this one
    /// - `WrongRole`: the partition is gone
    pub fn become_leader(&self, epoch: LeaderEpoch) -> Result<LogEnd, LogError> {
        // An append of the epoch before publishes its end first.
        let mut writer = self.writer.lock();
        let stale = |current| Err(LogError::StaleLeaderEpoch { epoch, current });
        match writer.role {
            Role::Leader(current) if current == epoch => return Ok(self.end_of(&writer)),
            Role::Leader(current) if current > epoch => return stale(current),
            Role::Follower(current) if current >= epoch => return stale(current),
            Role::Gone => writer.check_role(Role::Leader(epoch))?,
            Role::Leader(_) | Role::Follower(_) => {}
        }
        if let Some(current) = self.latest_epoch().filter(|current| *current > epoch) {
            return stale(current);
        }
        if self.epochs.write().assign(epoch, self.log_end_offset()) {
            self.epochs_unwritten.store(true, Ordering::Release);
        }
        writer.role = Role::Leader(epoch);
        Ok(self.end_of(&writer))
    }

    /// Follows the leader of `epoch` from now on. A follower of `epoch` stays one.
    ///
    /// An epoch that this replica led without a record is forgotten: the leader knows nothing of
    /// it, and may send records of an epoch before.
    ///
    /// # Errors
    /// - `StaleLeaderEpoch`: the role knows a newer epoch
    /// - `WrongRole`: the partition is gone
    pub fn become_follower(&self, epoch: LeaderEpoch) -> Result<LogEnd, LogError> {
        let mut writer = self.writer.lock();
        let current = writer.role.epoch();
        if writer.role == Role::Gone {
            writer.check_role(Role::Follower(epoch))?;
        }
        if current > epoch {
            return Err(LogError::StaleLeaderEpoch { epoch, current });
        }
        if self.epochs.write().truncate_from_end(self.log_end_offset()) {
            self.epochs_unwritten.store(true, Ordering::Release);
        }
        writer.role = Role::Follower(epoch);
        Ok(self.end_of(&writer))
    }

    /// The partition is being deleted: nothing is appended from now on, in any epoch.
    pub fn become_gone(&self) {
        self.writer.lock().role = Role::Gone;
    }

    /// Drops `offset` and every record after it, as the leader of `epoch` has others there. A
    /// batch that holds `offset` goes as a whole. When this returns, no crash brings them back.
    ///
    /// # Errors
    /// - `WrongRole`: the replica does not follow in `epoch`; a leader never takes records back
    /// - the disk is full or fails; [`Self::log_end`] tells where the log ends then: where it ended
    ///   before, or where it was to be cut. In that case the truncation is completed before the
    ///   next append, or by the next start
    ///
    /// Offsets at or above the end change nothing.
    pub fn truncate_as_follower(
        &self,
        offset: Offset,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<LogEnd, LogError> {
        // A flush may not call durable what is being cut.
        let _flushing = self.flushing.lock();
        let mut writer = self.writer.lock();
        writer.check_role(Role::Follower(epoch))?;
        self.check_writable(&mut writer)?;
        self.truncate_locked(&mut writer, offset, now_ms)?;
        Ok(self.end_of(&writer))
    }

    /// Drops every record; the next one gets `start`. For a follower whose leader has no records
    /// below `start` any more. Producers and leader epochs are forgotten.
    ///
    /// # Errors
    /// As [`Self::truncate_as_follower`].
    pub fn restart_as_follower(
        &self,
        start: Offset,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<LogEnd, LogError> {
        let _flushing = self.flushing.lock();
        let mut writer = self.writer.lock();
        writer.check_role(Role::Follower(epoch))?;
        self.check_writable(&mut writer)?;
        self.restart_locked(&mut writer, start, now_ms)?;
        Ok(self.end_of(&writer))
    }
}
