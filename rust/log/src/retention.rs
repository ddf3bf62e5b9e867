//! Deleting old segments: by time, by size, and below the log's start.
//!
//! Whole segments only, oldest first, never one that holds a record at or above the high watermark.
//! Run by a thread of the broker; the clock is handed in. Source: Kafka's
//! `UnifiedLog.deleteOldSegments`.

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
            let segments = self.segments.read().clone();
            self.retention_bound(&segments, &config, now_ms, high_watermark)?
        } else {
            self.log_start_offset()
        };
        let mut writer = self.writer.lock();
        self.check_open()?;
        writer.producers.expire(now_ms, config.producer_id_expiration_ms);
        if bound > self.log_start_offset() {
            // All of it may go; a log is never without an active segment.
            if bound == self.log_end_offset() && writer.active.size() > 0 {
                match self.roll_locked(&mut writer, now_ms) {
                    // What is sealed goes all the same, and makes room for the next turn's roll.
                    Err(LogError::DiskFull { .. }) => bound = writer.active.base_offset(),
                    rolled => rolled?,
                }
            }
            let bound = bound.min(self.log_end_offset());
            if bound > self.log_start_offset() {
                self.raise_log_start(bound)?;
            }
        }
        let deleted_segments = self.delete_below_start(&mut writer, now_ms)?;
        Ok(Retained { deleted_segments, log_start_offset: self.log_start_offset() })
    }

    /// The end of the last segment, from the oldest on, that time or size lets go.
    fn retention_bound(
        &self,
        segments: &[Arc<Segment>],
        config: &LogConfig,
        now_ms: i64,
        high_watermark: Offset,
    ) -> Result<Offset, LogError> {
        let mut bound = self.log_start_offset();
        let total: i64 = segments.iter().map(|segment| i64::from(segment.size())).sum();
        let mut excess = match config.retention_bytes {
            ..0 => 0,
            bytes => total.saturating_sub(bytes),
        };
        for (index, segment) in segments.iter().enumerate() {
            let end =
                segments.get(index + 1).map_or(self.log_end_offset(), |next| next.base_offset());
            let size = i64::from(segment.size());
            if size == 0 || end > high_watermark {
                break;
            }
            let too_large = excess >= size;
            if !too_large && !is_expired(segment, config.retention_ms, now_ms)? {
                break;
            }
            excess -= size;
            bound = bound.max(end);
        }
        Ok(bound)
    }
}

/// Whether the newest record of `segment` is older than `retention_ms`. A timestamp in the future
/// must not keep a segment for ever: then the time of the last write counts.
fn is_expired(segment: &Segment, retention_ms: i64, now_ms: i64) -> Result<bool, LogError> {
    if retention_ms < 0 {
        return Ok(false);
    }
    let largest = segment.newest()?.timestamp_ms;
    let newest = if (0..=now_ms).contains(&largest) { largest } else { segment.modified_ms() };
    Ok(now_ms.saturating_sub(newest) > retention_ms)
}

#[cfg(test)]
mod tests;
