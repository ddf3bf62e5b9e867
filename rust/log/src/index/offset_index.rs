//! The offset index: from a record's offset to a byte position in the segment's `.log` file.
//!
//! Sparse: about one entry for every `index_interval_bytes` of log. An entry is 8 bytes,
//! big-endian:
//! ```text
//! | relative offset: u32                 | position: u32                               |
//! | last offset of a batch - base offset | start of that batch in the `.log`, in bytes |
//! ```
//! It has no checksum: after an unclean stop `recovery` rebuilds it from the log.
//! Source: the bytes are those of Kafka's `OffsetIndex`.

use kafkalite_protocol::types::Position;

use super::{Entries, prefix};

const LENGTH: usize = 8;

/// The offsets in it are relative to the segment's base offset.
#[derive(Debug, Default)]
pub(crate) struct OffsetIndex {
    pub(crate) entries: Entries<LENGTH>,
}

fn decode(entry: &[u8; LENGTH]) -> (u32, Position) {
    let [a, b, c, d, e, f, g, h] = *entry;
    (u32::from_be_bytes([a, b, c, d]), Position(u32::from_be_bytes([e, f, g, h])))
}

impl OffsetIndex {
    /// One entry as it lies in the file.
    pub(crate) fn decode(entry: &[u8; LENGTH]) -> (u32, Position) {
        decode(entry)
    }

    pub(crate) fn new(entries: Entries<LENGTH>) -> Self {
        Self { entries }
    }

    /// The last batch that ends at or before `relative`: its last offset and its position.
    pub(crate) fn floor(&self, relative: u32) -> Option<(u32, Position)> {
        let all = self.entries.all();
        let count = prefix(all, |entry| decode(entry).0 <= relative);
        all[..count].last().map(decode)
    }

    /// The position of [`Self::floor`]; the segment's start if there is no such batch.
    pub(crate) fn lookup(&self, relative: u32) -> Position {
        self.floor(relative).map_or(Position(0), |entry| entry.1)
    }

    /// Start of the first batch in the index that ends after `relative`; none after the last entry.
    pub(crate) fn lookup_after(&self, relative: u32) -> Option<Position> {
        let all = self.entries.all();
        let before = prefix(all, |entry| decode(entry).0 <= relative);
        all.get(before).map(|entry| decode(entry).1)
    }

    /// Adds a batch: its last offset and where it starts.
    pub(crate) fn push(&mut self, relative: u32, position: Position) {
        debug_assert!(self.last().is_none_or(|last| last.0 < relative));
        let mut entry = [0; LENGTH];
        entry[..4].copy_from_slice(&relative.to_be_bytes());
        entry[4..].copy_from_slice(&position.0.to_be_bytes());
        self.entries.push(entry);
    }

    pub(crate) fn last(&self) -> Option<(u32, Position)> {
        self.entries.last().map(decode)
    }

    /// Drops the entries of `relative` and of what follows it.
    pub(crate) fn truncate_to(&mut self, relative: u32) {
        self.entries.truncate(prefix(self.entries.all(), |entry| decode(entry).0 < relative));
    }

    /// Drops what cannot be true of a log of `log_length` bytes: a tail of zeros above all.
    pub(crate) fn trim(&mut self, log_length: u32) {
        let plausible = |last: Option<(u32, Position)>| {
            last.is_none_or(|(relative, position)| {
                relative <= i32::MAX as u32 && position.0 > 0 && position.0 < log_length
            })
        };
        if plausible(self.last()) {
            return;
        }
        let mut previous = (None, 0);
        let count = self
            .entries
            .all()
            .iter()
            .map(decode)
            .take_while(|&(relative, position)| {
                let rises = previous.0.is_none_or(|before| before < relative)
                    && previous.1 < position.0
                    && position.0 < log_length;
                previous = (Some(relative), position.0);
                rises
            })
            .count();
        self.entries.truncate(count);
    }
}

#[cfg(test)]
mod tests;
