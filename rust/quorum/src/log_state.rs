//! What the log of a voter holds: vote, entries, and where they begin. Pure.
//!
//! All entries are in memory: a snapshot takes their place when they outgrow it. The state changes
//! by [`Change`]s alone, and the journal is those same changes on the disk.

use crate::codec::malformed;
use crate::error::QuorumError;
use crate::types::{Entry, LogId, Membership, Payload, Vote, next_index};
use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

/// The most that is read of the log at once for another voter, in bytes of payload.
const READ_BYTES: usize = 1 << 20;

/// One change of a voter's log.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The voter votes, or follows a leader that a quorum voted for.
    Vote(Vote),
    /// Entries behind the last one.
    Append(Vec<Entry>),
    /// The entries behind this one are gone: another leader had others.
    TruncateAfter(Option<LogId>),
    /// The entries up to this one are gone: a snapshot holds them.
    Purge(LogId),
    /// The entries up to this one are committed.
    Committed(Option<LogId>),
}

/// Vote and entries of one voter.
#[derive(Clone, Debug, Default)]
pub struct LogState {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
    entries: VecDeque<Entry>,
}

impl LogState {
    pub fn last_log_id(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// The index of the first entry; of the next one, where there is none.
    fn first_index(&self) -> u64 {
        let next = next_index(self.purged.as_ref());
        self.entries.front().map_or(next, |entry| entry.log_id.index())
    }

    /// The first index of the log, if entries are missing between it and `snapshot`.
    pub fn first_above(&self, snapshot: Option<&LogId>) -> Option<u64> {
        let first = self.first_index();
        (first > next_index(snapshot)).then_some(first)
    }

    /// The memberships that stand in the log.
    pub fn memberships(&self) -> Vec<Membership> {
        let payloads = self.entries.iter().map(|entry| &entry.payload);
        let found = payloads.filter_map(|payload| match payload {
            Payload::Membership(membership) => Some(membership.clone()),
            _ => None,
        });
        found.collect()
    }

    /// Makes `change`, or none of it.
    pub fn apply(&mut self, change: &Change) -> Result<(), QuorumError> {
        match change {
            Change::Vote(vote) => self.vote = Some(*vote),
            Change::Append(entries) => self.append(entries)?,
            Change::TruncateAfter(last) => {
                let keep = next_index(last.as_ref()).saturating_sub(self.first_index());
                self.entries.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
            }
            Change::Purge(upto) => {
                let gone = next_index(Some(upto)).saturating_sub(self.first_index());
                let gone = usize::try_from(gone).unwrap_or(usize::MAX).min(self.entries.len());
                self.entries.drain(..gone);
                self.purged = self.purged.max(Some(*upto));
            }
            Change::Committed(committed) => self.committed = *committed,
        }
        Ok(())
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), QuorumError> {
        let mut last = self.last_log_id();
        for entry in entries {
            // Only a log that never held anything may begin anywhere: behind a snapshot.
            let follows = entry.log_id.index() == next_index(last.as_ref());
            if last.is_some() && !follows {
                return malformed(format!("entry {} behind {last:?}", entry.log_id));
            }
            last = Some(entry.log_id);
        }
        self.entries.extend(entries.iter().cloned());
        Ok(())
    }

    /// The entries in `range`, as far as there are any.
    pub fn read(&self, range: impl RangeBounds<u64>) -> Vec<Entry> {
        let first = self.first_index();
        let end = first + self.entries.len() as u64;
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let (from, to) = (from.clamp(first, end), to.clamp(first, end));
        if from >= to {
            return Vec::new();
        }
        let range = (from - first) as usize..(to - first) as usize;
        self.entries.range(range).cloned().collect()
    }

    /// The first entries of `start..end`: one at least, then as many as fit a message.
    pub fn read_some(&self, start: u64, end: u64) -> Vec<Entry> {
        let mut entries = self.read(start..end);
        let mut bytes = 0;
        let fitting = entries.iter().take_while(|entry| {
            let fits = bytes == 0 || bytes + weight(entry) <= READ_BYTES;
            bytes += weight(entry);
            fits
        });
        let fitting = fitting.count();
        entries.truncate(fitting);
        entries
    }
}

/// About what an entry takes in a message.
fn weight(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Normal(proposal) => 64 + proposal.payload.len(),
        _ => 64,
    }
}
