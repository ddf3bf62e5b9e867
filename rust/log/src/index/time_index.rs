//! The time index: from a timestamp to an offset to start looking from.
//!
//! An entry is 12 bytes, big-endian, and promises that no batch before its own holds a later
//! timestamp. Timestamps rise strictly from entry to entry.
//! ```text
//! | timestamp: i64                 | relative offset: u32                             |
//! | largest so far in the segment  | last offset of the batch that holds it, relative |
//! ```
//! A segment that rolls gets one more entry, so that the last one is the segment's largest.
//! Source: the bytes are those of Kafka's `TimeIndex`.

use super::{Entries, prefix};

const LENGTH: usize = 12;

/// The offsets in it are relative to the segment's base offset.
#[derive(Debug, Default)]
pub(crate) struct TimeIndex {
    pub(crate) entries: Entries<LENGTH>,
}

fn decode(entry: &[u8; LENGTH]) -> (i64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *entry;
    (i64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([i, j, k, l]))
}

impl TimeIndex {
    /// One entry as it lies in the file.
    pub(crate) fn decode(entry: &[u8; LENGTH]) -> (i64, u32) {
        decode(entry)
    }

    pub(crate) fn new(entries: Entries<LENGTH>) -> Self {
        Self { entries }
    }

    /// The entry from whose batch on to look for the first record at or after `timestamp_ms`.
    pub(crate) fn floor(&self, timestamp_ms: i64) -> Option<(i64, u32)> {
        let all = self.entries.all();
        // Strictly smaller: a record with this very timestamp may stand in an entry's own batch.
        let count = prefix(all, |entry| decode(entry).0 < timestamp_ms);
        all[..count].last().map(decode)
    }

    /// Adds the largest timestamp so far, unless it is the one that stands there already.
    pub(crate) fn push(&mut self, timestamp_ms: i64, relative: u32) {
        let rises =
            self.last().is_none_or(|(last, offset)| timestamp_ms > last && relative >= offset);
        if rises && timestamp_ms >= 0 {
            let mut entry = [0; LENGTH];
            entry[..8].copy_from_slice(&timestamp_ms.to_be_bytes());
            entry[8..].copy_from_slice(&relative.to_be_bytes());
            self.entries.push(entry);
        }
    }

    pub(crate) fn last(&self) -> Option<(i64, u32)> {
        self.entries.last().map(decode)
    }

    /// Drops the entries of `relative` and of what follows it.
    pub(crate) fn truncate_to(&mut self, relative: u32) {
        self.entries.truncate(prefix(self.entries.all(), |entry| decode(entry).1 < relative));
    }

    /// Drops a tail that does not rise (zeros of a preallocated file).
    pub(crate) fn trim(&mut self) {
        let all = self.entries.all();
        let fine = match all {
            [] => true,
            [one] => decode(one).0 > 0,
            [.., before, last] => decode(before).0 < decode(last).0,
        };
        if fine {
            return;
        }
        let mut previous = (i64::MIN, 0);
        let count = all
            .iter()
            .map(decode)
            .take_while(|entry| {
                let rises = previous.0 < entry.0 && previous.1 <= entry.1 && entry.0 > 0;
                previous = *entry;
                rises
            })
            .count();
        self.entries.truncate(count);
    }
}

#[cfg(test)]
mod tests;
