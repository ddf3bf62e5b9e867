//! What the segments of a log are, for who looks in from outside.

use kafkalite_protocol::types::Offset;

use super::CommitLog;
use crate::error::LogError;

/// One segment at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFigures {
    /// The offset in the names of its files.
    pub base_offset: Offset,
    /// Where the next segment starts, or the end of the log.
    pub end_offset: Offset,
    /// Bytes of its `.log` file that readers may see.
    pub bytes: u32,
    /// Whether appends go to it.
    pub is_active: bool,
    /// Its largest timestamp, ms; -1 if no batch has one.
    pub newest_timestamp_ms: i64,
    /// When it was written last, ms.
    pub modified_ms: i64,
    /// Entries of its offset index.
    pub offset_index_entries: usize,
    /// Entries of its time index.
    pub time_index_entries: usize,
}

impl CommitLog {
    /// At most `most` segments from the one that holds `from` on. The active segment is the last of
    /// all. Loads their indexes, as a search for a time does.
    ///
    /// # Errors
    /// If the disk fails, or the log is closed.
    pub fn segment_figures(
        &self,
        from: Offset,
        most: usize,
    ) -> Result<Vec<SegmentFigures>, LogError> {
        self.look(|| {
            let segments = self.segments.read().clone();
            let after = segments.partition_point(|segment| segment.base_offset() <= from);
            let first = after.saturating_sub(1);
            let mut figures = Vec::new();
            for (index, segment) in segments.iter().enumerate().skip(first).take(most) {
                let next = segments.get(index + 1);
                let newest = segment.newest()?;
                // An empty segment has no indexes to load, and its files may be left from a crash.
                let entries = match segment.size() {
                    0 => (0, 0),
                    _ => {
                        let indexes = segment.indexes()?;
                        (indexes.offsets.entries.len(), indexes.times.entries.len())
                    }
                };
                figures.push(SegmentFigures {
                    base_offset: segment.base_offset(),
                    end_offset: next.map_or(self.log_end_offset(), |next| next.base_offset()),
                    bytes: segment.size(),
                    is_active: next.is_none(),
                    newest_timestamp_ms: newest.timestamp_ms,
                    modified_ms: segment.modified_ms(),
                    offset_index_entries: entries.0,
                    time_index_entries: entries.1,
                });
            }
            Ok(figures)
        })
    }
}
