//! The last lines of the process's log, to show them to people who cannot see its stderr.
//!
//! One ring for the process, as there is one `tracing` dispatcher. `process` fills it where it
//! starts the log. Brokers that share a process share its lines.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Lines that are kept.
const ROOM: usize = 1_000;
/// Characters of a line that are kept.
const MOST_CHARS: usize = 2_000;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLine {
    /// Later lines have higher numbers.
    pub number: u64,
    /// When it was written, in ms since 1970.
    pub wall_ms: i64,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The module it comes from.
    pub target: String,
    /// The text, and its fields as `name=value` behind it.
    pub message: String,
}

/// The ring.
#[derive(Debug, Default)]
pub struct KeptLines {
    is_filled: AtomicBool,
    lines: Mutex<VecDeque<KeptLine>>,
}

/// The ring of this process.
pub fn kept_lines() -> &'static KeptLines {
    static LINES: LazyLock<KeptLines> = LazyLock::new(KeptLines::default);
    &LINES
}

impl KeptLines {
    /// From now on lines come.
    pub fn is_filled_now(&self) {
        self.is_filled.store(true, Ordering::Relaxed);
    }

    /// Whether lines come.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Relaxed)
    }

    /// Keeps a line; the oldest makes room.
    pub fn push(&self, wall_ms: i64, level: &'static str, target: &str, message: &str) {
        let message = message.chars().take(MOST_CHARS).collect();
        let target = target.to_owned();
        let mut lines = self.lines.lock();
        let number = lines.back().map_or(0, |last| last.number + 1);
        let left = if lines.len() >= ROOM { lines.pop_front() } else { None };
        lines.push_back(KeptLine { number, wall_ms, level, target, message });
        drop(lines);
        drop(left);
    }

    /// The lines that `wants` accepts, oldest first: the newest `most`, or after number `after` the
    /// first `most`.
    pub fn lines(
        &self,
        after: Option<u64>,
        most: usize,
        wants: impl Fn(&KeptLine) -> bool,
    ) -> Vec<KeptLine> {
        let lines = self.lines.lock();
        let wanted = lines.iter().filter(|line| wants(line));
        match after {
            Some(after) => wanted.filter(|line| line.number > after).take(most).cloned().collect(),
            None => {
                let mut newest: Vec<KeptLine> = wanted.rev().take(most).cloned().collect();
                newest.reverse();
                newest
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_come_in_order() {
        let ring = KeptLines::default();
        for number in 0..ROOM + 5 {
            let level = if number % 2 == 0 { "INFO" } else { "WARN" };
            ring.push(7, level, "here", &format!("line {number}"));
        }
        let numbers = |lines: Vec<KeptLine>| lines.iter().map(|l| l.number).collect::<Vec<_>>();
        assert_eq!(numbers(ring.lines(None, 2, |_| true)), [1_003, 1_004]);
        assert_eq!(numbers(ring.lines(None, 2, |line| line.level == "WARN")), [1_001, 1_003]);
        assert_eq!(numbers(ring.lines(Some(0), 2, |_| true)), [5, 6]);
        assert_eq!(numbers(ring.lines(Some(1_004), 2, |_| true)), [0; 0]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let ring = KeptLines::default();
        ring.push(7, "INFO", "here", &"ä".repeat(MOST_CHARS + 1));
        assert_eq!(ring.lines(None, 1, |_| true)[0].message.chars().count(), MOST_CHARS);
    }
}
