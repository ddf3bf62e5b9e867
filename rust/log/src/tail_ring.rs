//! Where the last 1,024 batches start, exactly: a fetch at the tail scans nothing.
//!
//! The offset index has an entry every few KiB, so a look-up there ends with a walk over headers.
//! Consumers that keep up ask for the newest batches only, and those are here. 16 KiB, made at the
//! first fetch of a partition.
//!
//! Two marks that move on show roughly when they were written. Bytes of a moment ago are in the
//! page cache, so no check is needed.

use kafkalite_protocol::types::{Offset, Position};

#[cfg(test)]
mod tests;

const CAPACITY: usize = 1_024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    base_offset: Offset,
    position: Position,
    size: u32,
}

/// The newest batches of a log, oldest first; those of an older segment may stand before.
#[derive(Debug)]
pub(crate) struct TailRing {
    entries: Box<[Entry]>,
    /// Batches ever pushed since the last clear.
    pushed: usize,
    /// The older and the newer mark.
    marks: [Option<Mark>; 2],
}

/// Every batch from `from` on was written at `written_ms` or later.
#[derive(Clone, Copy, Debug)]
struct Mark {
    written_ms: i64,
    from: Offset,
}

/// Time between two marks, in ms: by so much a batch may be younger than it is said to be.
const MARK_MS: i64 = 15_000;

/// A batch that the ring knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) base_offset: Offset,
    pub(crate) position: Position,
    pub(crate) size: u32,
    /// It was written then or later, ms; `None` is long ago, or unknown.
    pub(crate) written_ms: Option<i64>,
}

impl TailRing {
    pub(crate) fn new() -> Self {
        let entries = vec![Entry::default(); CAPACITY].into_boxed_slice();
        Self { entries, pushed: 0, marks: [None; 2] }
    }

    pub(crate) fn push(&mut self, base_offset: Offset, position: Position, size: u32, now_ms: i64) {
        let newest = self.marks[1];
        if newest.is_none_or(|mark| !(0..MARK_MS).contains(&(now_ms - mark.written_ms))) {
            // A clock that was set back says nothing of what came before.
            let older = newest.filter(|mark| mark.written_ms <= now_ms);
            self.marks = [older, Some(Mark { written_ms: now_ms, from: base_offset })];
        }
        self.entries[self.pushed % CAPACITY] = Entry { base_offset, position, size };
        self.pushed += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.pushed = 0;
        self.marks = [None; 2];
    }

    /// The batch that holds `offset`, if it is one of the last; the caller knows that `offset` is
    /// below the log's end.
    pub(crate) fn lookup(&self, offset: Offset) -> Option<Located> {
        let first = self.pushed.saturating_sub(CAPACITY);
        let entry = |index: usize| self.entries[index % CAPACITY];
        let (mut low, mut high) = (first, self.pushed);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle).base_offset <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // `low` is the first batch after the one wanted; there is none before the oldest.
        let found = low.checked_sub(1).filter(|index| *index >= first)?;
        let Entry { base_offset, position, size } = entry(found);
        let mut latest_first = self.marks.iter().rev().flatten();
        let mark = latest_first.find(|mark| mark.from <= base_offset);
        Some(Located { base_offset, position, size, written_ms: mark.map(|mark| mark.written_ms) })
    }
}
