//! Which leader epoch starts at which offset: what a follower needs to find where logs part.
//!
//! Held as entries that rise in both; written to `leader-epoch-checkpoint`. Pure except for that
//! file's text, which `checkpoint` reads and writes. Source: Kafka's `LeaderEpochFileCache`;
//! KIP-101, 279.

use kafkalite_protocol::types::{LeaderEpoch, Offset};

#[cfg(test)]
mod tests;

/// An epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The leader's epoch.
    pub epoch: LeaderEpoch,
    /// First offset appended in it.
    pub start_offset: Offset,
}

/// Where the records of an epoch end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch in the log that is not above the one asked for.
    pub epoch: LeaderEpoch,
    /// The offset after its last record.
    pub end_offset: Offset,
}

/// How far another copy of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// The first offset that it has; a reader that keeps no copy names its `end`.
    pub start: Offset,
    /// The offset that its next record gets.
    pub end: Offset,
    /// The epoch of its last record.
    pub epoch: LeaderEpoch,
}

/// Whether another copy of a log holds what this log holds, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It does.
    Agrees,
    /// It does not, or this log cannot know: the two agree at most up to here.
    Parts(EpochEnd),
    /// This log never was in the copy's epoch.
    UnknownEpoch,
}

/// The epochs of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochStart>,
}

impl LeaderEpochs {
    pub(crate) fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest epoch; `None` in a log that has none.
    #[must_use]
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    /// Notes that `epoch` starts at `start_offset`, if it is newer than all. Whether it was.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if epoch.0 < 0 || self.latest().is_some_and(|latest| latest >= epoch) {
            return false;
        }
        // An epoch in which nothing was appended gives way to the next.
        while self.entries.last().is_some_and(|last| last.start_offset >= start_offset) {
            self.entries.pop();
        }
        if self.entries.is_empty() {
            // Most idle logs never have a second one.
            self.entries.reserve_exact(1);
        }
        self.entries.push(EpochStart { epoch, start_offset });
        true
    }

    /// Notes the epoch of a batch that is in the log. What is known already stays: compaction may
    /// have removed the first batch of an epoch. What contradicts the batch is of an older file.
    pub(crate) fn confirm(&mut self, epoch: LeaderEpoch, offset: Offset) {
        if epoch.0 < 0 || self.epoch_at(offset) == Some(epoch) {
            return;
        }
        let is_before = |entry: &EpochStart| entry.epoch <= epoch && entry.start_offset <= offset;
        self.entries.truncate(self.entries.partition_point(is_before));
        self.assign(epoch, offset);
    }

    /// The epoch of the record at `offset`.
    pub(crate) fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        self.entries[..after].last().map(|entry| entry.epoch)
    }

    /// Where the records of `epoch` end in a log that ends at `log_end_offset`.
    ///
    /// - case A: `epoch` is the newest: at the log's end
    /// - case B: it is newer than all: unknown, `None`
    /// - case C: otherwise at the start of the next epoch. The answer names the largest epoch not
    ///   above the asked one, or the asked one if it is older than all
    #[must_use]
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end_offset: Offset) -> Option<EpochEnd> {
        let latest = self.latest()?;
        if epoch == latest {
            return Some(EpochEnd { epoch, end_offset: log_end_offset });
        }
        if epoch > latest || epoch.0 < 0 {
            return None;
        }
        let after = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries.get(after)?.start_offset;
        match self.entries[..after].last() {
            Some(floor) => Some(EpochEnd { epoch: floor.epoch, end_offset }),
            // Its records, if there were any, ended where the log now starts.
            None => Some(EpochEnd { epoch, end_offset }),
        }
    }

    /// Compares another copy with this log, which ends at `log_end_offset`.
    ///
    /// If the copy's last epoch is older than all epochs here, all its records are older than this
    /// log. In that epoch this log may have had others in their place, and the copy must not count
    /// as one of this log. So it parts where this log starts.
    #[must_use]
    pub fn agreement(&self, copy: &CopyEnd, log_end_offset: Offset) -> Agreement {
        let Some(known) = self.end_offset_for(copy.epoch, log_end_offset) else {
            return Agreement::UnknownEpoch;
        };
        let is_older = self.entries.first().is_some_and(|first| copy.epoch < first.epoch);
        let is_unknown = is_older && copy.start < copy.end;
        match known.epoch < copy.epoch || known.end_offset < copy.end || is_unknown {
            true => Agreement::Parts(known),
            false => Agreement::Agrees,
        }
    }

    /// Forgets epochs that start at or after `offset`. Whether any did.
    pub fn truncate_from_end(&mut self, offset: Offset) -> bool {
        let keep = self.entries.partition_point(|entry| entry.start_offset < offset);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Forgets epochs that end at or before `offset`; the one it falls into starts there now.
    /// Whether anything changed.
    pub fn truncate_from_start(&mut self, offset: Offset) -> bool {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        let Some(current) = after.checked_sub(1) else { return false };
        if current == 0 && self.entries[0].start_offset == offset {
            return false;
        }
        self.entries.drain(..current);
        self.entries[0].start_offset = offset;
        true
    }
}
