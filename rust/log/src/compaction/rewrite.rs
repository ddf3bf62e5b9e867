//! Rewrites a group of segments, batch by batch, without the records that go.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use kafkalite_protocol::compression::{Codec, compress};
use kafkalite_protocol::record_batch::{
    BatchHeader, NO_TIMESTAMP, RecordBatch, TimestampType, write_record,
};
use kafkalite_protocol::types::{Offset, Position};

use super::{Compacted, KeyOffsets, held};
use crate::batch_scan::BatchReader;
use crate::commit_log::CommitLog;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::log_dir::PartitionDir;
use crate::recovery::CLEANED_SUFFIX;
use crate::segment::{Indexes, LOG_SUFFIX, Segment};
use crate::storage::{OpenMode, StorageFile};

/// Neighbours that fit into one segment together; the last of all ends at `end`.
pub(super) fn groups<'a>(
    segments: &'a [Arc<Segment>],
    end: Offset,
    config: &LogConfig,
) -> impl Iterator<Item = &'a [Arc<Segment>]> {
    let limit = u64::from(config.segment_bytes);
    let mut rest = segments;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut bytes = 0;
        let ends = rest[1..].iter().map(|next| next.base_offset()).chain([end]);
        let fits = |(segment, end): &(&Arc<Segment>, Offset)| {
            bytes += u64::from(segment.size());
            // Every offset of the whole group must fit into 31 bits.
            bytes <= limit && first.relative(*end).is_some()
        };
        let count = rest.iter().zip(ends).take_while(fits).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

/// The segment being written.
pub(super) struct Cleaned {
    pub(super) segment: Segment,
    file: Box<dyn StorageFile>,
    name: String,
    indexes: Indexes,
    size: u32,
    kept_whole: bool,
    records_removed: u64,
}

/// What becomes of one batch.
enum Outcome {
    /// Its bytes stay.
    Keep,
    /// These bytes take its place.
    Replace(BatchHeader, Vec<u8>),
    /// Nothing of it stays.
    Drop,
}

/// What a compaction goes by, from the log's start on.
pub(super) struct Rules<'a> {
    pub(super) keys: &'a KeyOffsets,
    pub(super) config: &'a LogConfig,
    pub(super) now_ms: i64,
    /// How often the log had been truncated when the compaction began.
    pub(super) truncations: u64,
    /// A batch was left as it is, without a look at its keys. It may hold a value that a later
    /// tombstone deletes, so from here on tombstones stay.
    pub(super) left_alone: bool,
}

impl CommitLog {
    /// Rewrites a group, if that saves anything. `false` if some of it went meanwhile.
    pub(super) fn rewrite_group(
        &self,
        group: &[Arc<Segment>],
        rules: &mut Rules<'_>,
        result: &mut Compacted,
    ) -> Result<bool, LogError> {
        let config = rules.config;
        let dir = self.dir();
        let mut cleaned = Cleaned::create(&dir, group)?;
        // The last batch of all stays, if only its header: it tells where the group ends.
        let last_batch = last_batch(group)?;
        for segment in group {
            let file = segment.file()?;
            let mut reader = BatchReader::new(file.storage(), segment.size());
            while let Some((_, batch)) = segment.scanned(reader.next())? {
                batch.verify_crc()?;
                let header = batch.header();
                let marks_end = Some(header.base_offset) == last_batch
                    || (header.has_producer_id()
                        && self.writer.lock().producers.is_last_batch(header));
                let outcome = filter(&batch, rules, marks_end)?;
                cleaned.add(&batch, outcome, config)?;
            }
        }
        let before: u64 = group.iter().map(|segment| u64::from(segment.size())).sum();
        result.bytes_before += before;
        if cleaned.kept_whole && group.len() == 1 {
            result.bytes_after += before;
            return cleaned.discard(&dir).map(|()| true);
        }
        result.bytes_after += u64::from(cleaned.size);
        result.records_removed += cleaned.records_removed;
        let segment = cleaned.finish(&dir)?;
        self.swap(group, segment, rules)
    }
}

/// The base offset of the group's last batch.
fn last_batch(group: &[Arc<Segment>]) -> Result<Option<Offset>, LogError> {
    for segment in group.iter().rev() {
        if segment.size() > 0 {
            let (_, end) = segment.end_below(Offset(i64::MAX))?;
            let found = segment.locate(Offset(end.0 - 1))?;
            return Ok(found.map(|(_, header)| header.base_offset));
        }
    }
    Ok(None)
}

/// Decides about every record of a batch.
fn filter(
    batch: &RecordBatch<'_>,
    rules: &mut Rules<'_>,
    marks_end: bool,
) -> Result<Outcome, LogError> {
    let Rules { keys, config, now_ms, .. } = *rules;
    let header = batch.header();
    if header.is_control() || header.record_count == 0 {
        return Ok(if header.is_control() || marks_end { Outcome::Keep } else { Outcome::Drop });
    }
    let Some(records) = held(batch)? else {
        rules.left_alone = true;
        return Ok(Outcome::Keep);
    };
    let horizon_passed =
        !rules.left_alone && header.delete_horizon_ms().is_some_and(|horizon| horizon <= now_ms);
    let mut kept = Vec::new();
    let mut tombstones = false;
    for record in &records {
        let record = record?;
        // Not in the map's reach: too young to be judged.
        let judged = record.offset < keys.end();
        let stays = match record.key {
            Some(key) if judged => {
                !keys.is_replaced(key, record.offset) && (record.value.is_some() || !horizon_passed)
            }
            // Without a key it can never be replaced; a compacted topic accepts none.
            None => !judged,
            Some(_) => true,
        };
        if stays {
            tombstones |= record.value.is_none() && judged;
            kept.push(record);
        }
    }
    let new_horizon = tombstones && header.delete_horizon_ms().is_none();
    if kept.len() == header.record_count as usize && !new_horizon {
        return Ok(Outcome::Keep);
    }
    if kept.is_empty() && !marks_end {
        return Ok(Outcome::Drop);
    }
    let mut changed = *header;
    if new_horizon {
        changed.set_delete_horizon_ms(now_ms.saturating_add(config.delete_retention_ms));
    }
    changed.record_count = kept.len() as i32;
    if header.timestamp_type() == TimestampType::CreateTime && !kept.is_empty() {
        let newest = kept.iter().map(|record| record.timestamp_ms).max();
        changed.max_timestamp = newest.unwrap_or(NO_TIMESTAMP);
    }
    let mut payload = Vec::with_capacity(records.payload().len());
    for record in kept {
        let delta = record.timestamp_ms.wrapping_sub(changed.base_timestamp);
        let offset_delta = (record.offset.0 - header.base_offset.0) as i32;
        let headers = record.raw_headers();
        write_record(&mut payload, delta, offset_delta, record.key, record.value, headers);
    }
    let codec = header.codec()?;
    if payload.is_empty() {
        // Nothing is compressed to nothing by no codec but this.
        changed.set_codec(Codec::None);
    } else if codec != Codec::None {
        payload = compress(codec, &payload).map_err(LogError::from_compression)?;
    }
    changed.seal(&payload);
    Ok(Outcome::Replace(changed, payload))
}

/// A suffix as it is while the segment is being written.
fn aside(suffix: &str) -> String {
    format!("{suffix}{CLEANED_SUFFIX}")
}

impl Cleaned {
    fn create(dir: &Arc<PartitionDir>, group: &[Arc<Segment>]) -> Result<Self, LogError> {
        // As old as what it replaces: retention goes by that where records have no timestamps.
        let modified_ms = group.last().map_or(0, |segment| segment.modified_ms());
        let segment = Segment::new(dir.clone(), group[0].base_offset(), 0, modified_ms);
        let name = segment.name(&aside(LOG_SUFFIX));
        let opened = dir.at(&name, |path| {
            // A topic of this name that is made while this one goes must not get the file.
            if dir.is_leaving() {
                return Err(ErrorKind::NotFound.into());
            }
            let file = dir.storage().open(path, OpenMode::Create)?;
            file.set_len(0).map(|()| file)
        });
        let file = opened.map_err(|error| dir.failed(dir.file(&name), error))?;
        let indexes = segment.begin_recovery();
        Ok(Self { segment, file, name, indexes, size: 0, kept_whole: true, records_removed: 0 })
    }

    fn add(
        &mut self,
        batch: &RecordBatch<'_>,
        outcome: Outcome,
        config: &LogConfig,
    ) -> Result<(), LogError> {
        let before = batch.header().record_count;
        match outcome {
            Outcome::Keep => self.write(batch.header(), &[IoSlice::new(batch.bytes())], config),
            Outcome::Replace(header, payload) => {
                self.kept_whole = false;
                self.records_removed += u64::from((before - header.record_count).unsigned_abs());
                let head = header.to_bytes();
                self.write(&header, &[IoSlice::new(&head), IoSlice::new(&payload)], config)
            }
            Outcome::Drop => {
                self.kept_whole = false;
                self.records_removed += u64::from(before.unsigned_abs());
                Ok(())
            }
        }
    }

    fn write(
        &mut self,
        header: &BatchHeader,
        buffers: &[IoSlice<'_>],
        config: &LogConfig,
    ) -> Result<(), LogError> {
        let mut buffers = buffers.to_vec();
        let written = self.file.write_all_at(&mut buffers, self.size.into());
        written.map_err(|error| self.segment.failed(&aside(LOG_SUFFIX), error))?;
        let at = Position(self.size);
        self.segment.note_batch(&mut self.indexes, header, at, config.index_interval_bytes);
        self.size += header.size() as u32;
        Ok(())
    }

    /// Nothing changed: the old segment stays.
    fn discard(self, dir: &PartitionDir) -> Result<(), LogError> {
        let removed = dir.at(&self.name, |path| dir.storage().remove_file(path));
        removed.map_err(|error| dir.failed(dir.file(&self.name), error))
    }

    /// Puts the file and its indexes on the disk, still under names that recovery throws away.
    fn finish(mut self, dir: &PartitionDir) -> Result<Segment, LogError> {
        // Its time is what a later start finds.
        let dated = self.file.set_modified_ms(self.segment.modified_ms());
        let synced = dated.and_then(|()| self.file.sync_data());
        synced.map_err(|error| dir.failed(dir.file(&self.name), error))?;
        self.segment.write_indexes_aside(&mut self.indexes, CLEANED_SUFFIX)?;
        self.segment.end_recovery(self.size, self.indexes)?;
        self.segment.mark_sealed();
        Ok(self.segment)
    }
}
