//! Batches that a disk changed after they were written: found, and written again from another copy.
//!
//! After a clean stop nothing is read at the start, and after a crash only what was not known to be
//! on the disk. So a bit that flips later is met by a reader at first, or by [`CommitLog::check`].
//! A replica's batches are byte for byte those of its leader. So one of them takes the place of the
//! damaged one, and no record leaves the log meanwhile.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH, RecordBatch};
use kafkalite_protocol::types::{LeaderEpoch, Offset};

use super::{CommitLog, Role};
use crate::batch_scan::{BatchReader, ScanError};
use crate::error::LogError;
use crate::segment::Segment;

/// A place where no batch stands that belongs there.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The first record of the batch that belongs there.
    pub offset: Offset,
    /// What is wrong.
    pub reason: String,
    segment: Arc<Segment>,
    position: u32,
    /// How often the log had been truncated: later its batches may stand elsewhere.
    truncations: u64,
}

/// What a check of one segment found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The first damage in it.
    pub damage: Option<Damage>,
    /// Where the next segment starts; `None` behind the last, and where the caller stopped.
    pub next: Option<Offset>,
}

impl CommitLog {
    /// Reads the batches of the segment that holds `from`, up to the first damage. `go_on` gets the
    /// size of each batch, and says whether to go on.
    ///
    /// # Errors
    /// The disk fails, or the log was closed.
    pub fn check(&self, from: Offset, go_on: &dyn Fn(usize) -> bool) -> Result<Checked, LogError> {
        self.look(|| {
            let Some((segment, following)) = self.segment_at(from) else {
                return Ok(Checked::default());
            };
            let truncations = self.truncations.load(Ordering::Acquire);
            let next = following.map(|following| following.base_offset());
            if segment.size() == 0 {
                // It may have no file yet: a truncation makes it last.
                return Ok(Checked { damage: None, next });
            }
            let file = segment.file()?;
            let mut reader = BatchReader::new(file.storage(), segment.size());
            let mut end = segment.base_offset();
            let mut position = 0;
            loop {
                let found = match reader.next() {
                    Ok(None) => return Ok(Checked { damage: None, next }),
                    Ok(Some((_, batch))) => match self.flaw(&batch, end) {
                        None => Ok(*batch.header()),
                        Some(flaw) => Err(flaw),
                    },
                    Err(ScanError::Invalid(error)) => Err(error.to_string()),
                    Err(error @ ScanError::Io(_)) => return segment.scanned(Err(error)),
                };
                let reason = match found {
                    Ok(header) => {
                        let following = segment.scanned(reader.peek())?;
                        let following = following.map(|(_, following)| following.base_offset);
                        let behind = following.or(next).unwrap_or_else(|| self.log_end_offset());
                        // Compaction leaves a gap before a batch, and never moves one. An offset
                        // that flips to another one in a gap is not found.
                        if header.base_offset == end || header.next_offset() <= behind {
                            (end, position) = (header.next_offset(), position + header.size());
                            if !go_on(header.size()) {
                                return Ok(Checked::default());
                            }
                            continue;
                        }
                        begins_elsewhere(header.base_offset, end)
                    }
                    Err(flaw) => flaw,
                };
                // Not larger than the segment's size, which is one too.
                let position = position as u32;
                let segment = segment.clone();
                let damage = Damage { offset: end, reason, segment, position, truncations };
                return Ok(Checked { damage: Some(damage), next });
            }
        })
    }

    /// What is wrong with a batch that stands where the record at `end` belongs. The checksum does
    /// not cover the offset and the leader epoch.
    fn flaw(&self, batch: &RecordBatch<'_>, end: Offset) -> Option<String> {
        let BatchHeader { base_offset, leader_epoch, .. } = *batch.header();
        if let Err(error) = batch.verify_crc() {
            Some(error.to_string())
        } else if base_offset < end {
            Some(begins_elsewhere(base_offset, end))
        } else if self.epoch_at(base_offset).is_some_and(|epoch| epoch != leader_epoch) {
            Some(format!("the batch has leader epoch {}", leader_epoch.0))
        } else {
            None
        }
    }

    /// Writes the first batch of `records`, as the leader of `epoch` has it, where it belongs.
    /// Whether it was another one. It is not if it stands there already, or does not fit: what
    /// follows has to begin behind it.
    ///
    /// # Errors
    /// - `WrongRole`: the replica does not follow in `epoch` any more
    /// - `Batch`: the leader's batch is damaged too
    /// - the disk fails
    pub fn heal(
        &self,
        damage: &Damage,
        records: &Bytes,
        epoch: LeaderEpoch,
    ) -> Result<bool, LogError> {
        let batch = RecordBatch::parse(records)?;
        batch.verify_crc()?;
        let Damage { offset, segment, position, .. } = damage;
        let writer = self.writer.lock();
        writer.check_role(Role::Follower(epoch))?;
        let (header, after) = (batch.header(), *position as usize + batch.bytes().len());
        let behind = {
            let segments = self.segments.read();
            let place = segments.iter().position(|one| Arc::ptr_eq(one, segment));
            let next = place.map(|place| segments.get(place + 1).map(|next| next.base_offset()));
            next.map(|next| next.unwrap_or_else(|| self.log_end_offset()))
        };
        let is_here = behind.is_some_and(|behind| header.next_offset() <= behind)
            && self.truncations.load(Ordering::Acquire) == damage.truncations;
        if !is_here || self.flaw(&batch, *offset).is_some() || after > segment.size() as usize {
            return Ok(false);
        }
        let file = segment.file()?;
        let failed = |error| segment.failed(crate::segment::LOG_SUFFIX, error);
        let mut stands = vec![0; batch.bytes().len()];
        let read = file.read_at(&mut stands, u64::from(*position)).map_err(failed)?;
        if read == stands.len() && stands == batch.bytes() {
            return Ok(false);
        }
        let mut next = [0; HEADER_LENGTH];
        let read = file.read_at(&mut next, after as u64).map_err(failed)?;
        let follows = BatchHeader::parse(&next[..read]);
        let follows = follows.is_ok_and(|next| next.base_offset >= header.next_offset());
        if after < segment.size() as usize && !follows {
            return Ok(false);
        }
        let written =
            file.storage().write_all_at(&mut [IoSlice::new(batch.bytes())], u64::from(*position));
        written.map_err(failed)?;
        segment.flush_log()?;
        Ok(true)
    }
}

fn begins_elsewhere(at: Offset, end: Offset) -> String {
    format!("the batch begins at offset {}, not at {}", at.0, end.0)
}
