//! Appending as a follower: batches as the leader has them, with their offsets and epochs.
//!
//! A fetch is checked as a whole before anything is written: after one wrong batch the log is as
//! before. A leader whose file changed during the send may send bytes of another epoch or place. So
//! every part of a batch is checked: its CRC, its offset and its epoch.
//! Source: Kafka's `UnifiedLog.appendAsFollower`.

use bytes::Bytes;
use kafkalite_protocol::record_batch::{BatchHeader, Batches, HEADER_LENGTH, RecordBatch};
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::append::{Group, must_roll};
use super::{CommitLog, LogEnd, Role, Writer};
use crate::config::LogConfig;
use crate::error::LogError;
use crate::segment::{LOG_SUFFIX, Segment, file_name};
use crate::validation::ValidatedBatch;

/// What a follower appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerAppended {
    /// Whole batches; a batch that was cut short at the end is left to the next fetch.
    pub batches: usize,
    /// Bytes written.
    pub bytes: u64,
    /// A segment was started: those before it will not grow any more.
    pub starts_segment: bool,
    /// Where the log ends now.
    pub log_end: LogEnd,
}

impl CommitLog {
    /// Appends what a fetch from the leader of `epoch` brought; `now_ms` is the broker's time.
    ///
    /// Offsets, leader epochs and payloads stay as they are. A batch begins where the log ends. It
    /// may begin later on a compacted topic, as compaction leaves gaps. It may begin later below
    /// `committed` on any topic: its policy may have been another one. The first batch of an empty
    /// log may begin before the log's start, which may lie inside a batch of the leader's.
    ///
    /// # Errors
    /// - `WrongRole`: the replica does not follow in `epoch` any more
    /// - `Batch`, `NotContiguous`: a batch is damaged, begins elsewhere, or is of an epoch above
    ///   `epoch` or below that of the records before it. Nothing was appended
    /// - the disk fails: the log ends after the batches that were written before; see
    ///   [`Self::log_end`]
    pub fn append_as_follower(
        &self,
        records: &Bytes,
        epoch: LeaderEpoch,
        committed: Offset,
        now_ms: i64,
    ) -> Result<FollowerAppended, LogError> {
        // Checksums take time: not under the lock.
        let batches = whole_batches(records)?;
        let mut writer = self.writer.lock();
        if let Some(first) = batches.first()
            && self.starts_inside(&writer, &first.header)
        {
            drop(writer);
            self.begin_at(&first.header, epoch, now_ms)?;
            writer = self.writer.lock();
        }
        writer.check_role(Role::Follower(epoch))?;
        self.check_writable(&mut writer)?;
        let config = self.config.load();
        let gaps_below = if config.cleanup_compact { Offset(i64::MAX) } else { committed };
        self.check_continues(&writer, &batches, epoch, gaps_below)?;
        let active = writer.active.base_offset();
        self.append_followed(&mut writer, &batches, now_ms, &config)?;
        Ok(FollowerAppended {
            batches: batches.len(),
            bytes: batches.iter().map(|batch| batch.size() as u64).sum(),
            starts_segment: writer.active.base_offset() != active,
            log_end: self.end_of(&writer),
        })
    }

    /// Whether the batches continue this log, each the one before it. The caller has the writer's
    /// lock.
    fn check_continues(
        &self,
        writer: &Writer,
        batches: &[ValidatedBatch],
        epoch: LeaderEpoch,
        gaps_below: Offset,
    ) -> Result<(), LogError> {
        let mut next = self.log_end_offset();
        if let Some(first) = batches.first()
            && self.starts_inside(writer, &first.header)
        {
            next = writer.active.base_offset();
        }
        let mut oldest = self.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN);
        for batch in batches {
            let header = &batch.header;
            let wrong = |reason| Err(not_contiguous(header, reason));
            // A segment that begins at `next` has to be able to hold it.
            let is_far = header.last_offset().0 - next.0 > i64::from(i32::MAX);
            let is_gap = header.base_offset > next && header.base_offset >= gaps_below;
            if header.base_offset < next || is_gap || is_far {
                return wrong(format!("the next offset is {}", next.0));
            }
            if header.leader_epoch > epoch {
                return wrong(format!("epoch {} is above {}", header.leader_epoch.0, epoch.0));
            }
            if header.leader_epoch < oldest {
                return wrong(format!("epoch {} follows {}", header.leader_epoch.0, oldest.0));
            }
            (next, oldest) = (header.next_offset(), header.leader_epoch);
        }
        Ok(())
    }

    /// Whether the start of this log, which is empty, lies inside the batch.
    fn starts_inside(&self, writer: &Writer, header: &BatchHeader) -> bool {
        let start = self.log_start_offset();
        start == self.log_end_offset()
            && (header.base_offset < start && start <= header.last_offset())
            && writer.active.size() == 0
            && self.segment_count() == 1
    }

    /// Has the segment of an empty log begin where the batch does. A segment holds whole batches,
    /// and DeleteRecords may have moved the leader's start into one. Start and end of the log stay.
    fn begin_at(
        &self,
        first: &BatchHeader,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<(), LogError> {
        // A flush would look for the file under its old name.
        let _flushing = self.flushing.lock();
        let mut writer = self.writer.lock();
        writer.check_role(Role::Follower(epoch))?;
        self.check_writable(&mut writer)?;
        let base_offset = first.base_offset;
        if !self.starts_inside(&writer, first) || writer.active.base_offset() == base_offset {
            return Ok(());
        }
        let old = file_name(writer.active.base_offset(), LOG_SUFFIX);
        let new = file_name(base_offset, LOG_SUFFIX);
        // One step: a start finds the one segment or the other, and both are empty.
        let renamed =
            self.dir().at("", |dir| self.dir().storage().rename(&dir.join(&old), &dir.join(&new)));
        renamed.map_err(|error| self.dir().failed(self.dir().file(&old), error))?;
        writer.active.close_file();
        let active = Segment::new(self.dir(), base_offset, 0, now_ms);
        active.set_bytes_before(writer.active.bytes_before());
        let active = Arc::new(active);
        *self.segments.write() = vec![active.clone()];
        writer.active = active;
        self.dir_changed.store(true, Ordering::Release);
        Ok(())
    }

    fn append_followed(
        &self,
        writer: &mut Writer,
        batches: &[ValidatedBatch],
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), LogError> {
        let mut group = Group::default();
        for ValidatedBatch { header, payload } in batches {
            let rolls = must_roll(&writer.active, group.bytes(), header, config, now_ms);
            if rolls || group.is_full_for(header) {
                self.write_followed(writer, &mut group, now_ms, config)?;
            }
            if must_roll(&writer.active, group.bytes(), header, config, now_ms) {
                self.roll_locked(writer, now_ms)?;
            }
            group.push(*header, payload);
        }
        self.write_followed(writer, &mut group, now_ms, config)
    }

    /// Writes a group with its epochs and producers. If that fails, nothing of it is known.
    fn write_followed(
        &self,
        writer: &mut Writer,
        group: &mut Group<'_>,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), LogError> {
        let headers: Vec<BatchHeader> = group.headers().copied().collect();
        {
            let mut epochs = self.epochs.write();
            for header in &headers {
                if epochs.assign(header.leader_epoch, header.base_offset) {
                    self.epochs_unwritten.store(true, Ordering::Release);
                }
            }
        }
        let written =
            self.write_new_epoch().and_then(|()| self.write_group(writer, group, now_ms, config));
        match &written {
            // Sequences were checked by the leader.
            Ok(()) => headers.iter().for_each(|header| drop(writer.producers.note(header))),
            Err(_) => {
                if self.epochs.write().truncate_from_end(self.log_end_offset()) {
                    self.epochs_unwritten.store(true, Ordering::Release);
                }
            }
        }
        written
    }
}

/// The whole batches in `records`, each as sound as it says.
fn whole_batches(records: &Bytes) -> Result<Vec<ValidatedBatch>, LogError> {
    let mut batches = Vec::new();
    let mut at = 0;
    for batch in Batches::new(records) {
        let batch: RecordBatch<'_> = batch?;
        batch.verify_crc()?;
        let header = *batch.header();
        header.codec()?;
        let (count, delta) = (i64::from(header.record_count), i64::from(header.last_offset_delta));
        // Compaction takes records out and leaves the offsets of the batch.
        if header.base_offset < Offset::ZERO
            || !(0..=delta + 1).contains(&count)
            || delta < 0
            || header.base_offset.0.checked_add(delta + 1).is_none()
        {
            let counted = format!("{count} records with offsets up to {delta}");
            return Err(not_contiguous(&header, counted));
        }
        let size = header.size();
        batches
            .push(ValidatedBatch { header, payload: records.slice(at + HEADER_LENGTH..at + size) });
        at += size;
    }
    Ok(batches)
}

fn not_contiguous(header: &BatchHeader, reason: String) -> LogError {
    LogError::NotContiguous { base_offset: header.base_offset, reason }
}
