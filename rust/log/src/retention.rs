//! Deleting old segments: by time, by size, and below the log's start.
//!
//! Whole segments only, oldest first, never one that holds a record at or above the high watermark.
//! Run by a thread of the broker; the clock is handed in.
//! Source: Kafka's `UnifiedLog.deleteOldSegments`.

use std::sync::Arc;

use kafkalite_protocol::types::Offset;

use crate::commit_log::CommitLog;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::segment::Segment;

/// What a turn of retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments that went.
    pub deleted_segments: usize,
    /// Where the log starts now; persist it if it moved.
    pub log_start_offset: Offset,
}

impl CommitLog {
    /// Deletes what `retention.ms`, `retention.bytes` and the log's start let go, and forgets
    /// producers that are silent for too long. Nothing at or above `high_watermark` goes.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn retain(&self, now_ms: i64, high_watermark: Offset) -> Result<Retained, LogError> {
        self.check_open()?;
        let config = self.config();
        // May read indexes from the disk, so not under the append lock.
        let mut bound = if config.cleanup_delete {
            self.look(|| {
                let segments = self.segments.read().clone();
                self.bound(&segments, &config, now_ms, high_watermark)
            })?
        } else {
            Offset::ZERO
        };
        let mut writer = self.writer.lock();
        self.check_open()?;
        writer.producers.expire(now_ms, config.producer_id_expiration_ms);
        // A log always has an active segment. DeleteRecords may have deleted all its records.
        if bound == self.log_end_offset() && writer.active.size() > 0 {
            match self.roll_locked(&mut writer, now_ms) {
                // Sealed segments are still deleted, which makes room for the next turn's roll.
                Err(LogError::DiskFull { .. }) => bound = writer.active.base_offset(),
                rolled => rolled?,
            }
        }
        // Whole segments only: compaction may have joined them since, or the active one grown.
        if bound < self.log_end_offset() {
            bound = self.segment_at(bound).map_or(Offset::ZERO, |(found, _)| found.base_offset());
        }
        if bound.min(self.log_end_offset()) > self.log_start_offset() {
            self.raise_log_start(bound.min(self.log_end_offset()))?;
        }
        let deleted_segments = self.delete_below_start(&mut writer, now_ms)?;
        Ok(Retained { deleted_segments, log_start_offset: self.log_start_offset() })
    }

    /// As [`retention_bound`], for these segments.
    fn bound(
        &self,
        segments: &[Arc<Segment>],
        config: &LogConfig,
        now_ms: i64,
        high_watermark: Offset,
    ) -> Result<Offset, LogError> {
        let extent = |(index, segment): (usize, &Arc<Segment>)| {
            let next = segments.get(index + 1);
            let end = next.map_or(self.log_end_offset(), |next| next.base_offset());
            SegmentExtent { end, size: i64::from(segment.size()) }
        };
        let extents: Vec<SegmentExtent> = segments.iter().enumerate().map(extent).collect();
        // May read an index from the disk.
        let times = |index: usize| {
            let segment = &segments[index];
            let newest_ms = segment.newest()?.timestamp_ms;
            Ok::<_, LogError>(SegmentTimes { newest_ms, modified_ms: segment.modified_ms() })
        };
        let bound = retention_bound(&extents, times, config, now_ms, high_watermark)?;
        Ok(bound.unwrap_or_default())
    }
}

/// A segment as retention by size looks at it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentExtent {
    /// The offset after its last record.
    pub end: Offset,
    /// Its bytes.
    pub size: i64,
}

/// A segment as retention by time looks at it, in ms since 1970.
#[derive(Clone, Copy, Debug)]
pub struct SegmentTimes {
    /// The newest timestamp of a record.
    pub newest_ms: i64,
    /// When it was written last.
    pub modified_ms: i64,
}

/// Where the log starts after retention; `None` if it deletes nothing. Time or size let go of
/// `segments` from the oldest on. Pure. `times` is asked only where time decides.
///
/// # Errors
/// Those of `times`.
pub fn retention_bound<E>(
    segments: &[SegmentExtent],
    times: impl Fn(usize) -> Result<SegmentTimes, E>,
    config: &LogConfig,
    now_ms: i64,
    high_watermark: Offset,
) -> Result<Option<Offset>, E> {
    let total: i64 = segments.iter().map(|segment| segment.size).sum();
    let mut excess = match config.retention_bytes {
        ..0 => 0,
        bytes => total.saturating_sub(bytes),
    };
    let mut bound = None;
    for (index, segment) in segments.iter().enumerate() {
        if segment.size == 0 || segment.end > high_watermark {
            break;
        }
        let too_large = excess >= segment.size;
        let is_kept_by_time = || match config.retention_ms {
            ..0 => Ok(true),
            retention_ms => times(index).map(|times| !is_older(times, retention_ms, now_ms)),
        };
        if !too_large && is_kept_by_time()? {
            break;
        }
        excess -= segment.size;
        bound = Some(segment.end);
    }
    Ok(bound)
}

/// Whether the newest record is older than `retention_ms`. A timestamp in the future must not keep
/// a segment without end: then the time of the last write counts.
fn is_older(times: SegmentTimes, retention_ms: i64, now_ms: i64) -> bool {
    let is_past = (0..=now_ms).contains(&times.newest_ms);
    let newest_ms = if is_past { times.newest_ms } else { times.modified_ms };
    now_ms.saturating_sub(newest_ms) > retention_ms
}

#[cfg(test)]
mod tests;
