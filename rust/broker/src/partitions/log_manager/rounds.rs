//! When each chore of the log manager is due.
//!
//! Pure: time goes in, a chore comes out. A thread carries chores out, or a simulation does.

use super::Maintenance;
use crate::partitions::checkpoints::Checkpoint;

/// One thing that the log manager does for all logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Delete what retention lets go.
    Retain,
    /// Flush what `flush.ms` says.
    FlushOverdue,
    /// Write a checkpoint.
    Note(Checkpoint),
    /// Remove notes of truncations that the checkpoints know of.
    ForgetTruncations,
    /// Remove the files of deleted partitions.
    RemoveDeleted,
    /// Try again to open logs that did not open.
    RetryUnopened,
    /// Propose the log directories of replicas again.
    AssignAgain,
    /// Try flushes again that failed.
    FlushAgain,
    /// See which followers keep up with the leaders here.
    LookAtFollowers,
    /// Compact what is dirty.
    Clean,
    /// Copy replicas that move to another log directory.
    Move,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This chore is due.
    Do(Chore),
    /// Nothing is due before then, in ms of monotonic time.
    SleepUntil(u64),
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    chore: Chore,
    /// `None` for a chore that is due when something says so.
    interval_ms: Option<u64>,
    due_ms: u64,
    /// How many were done before its last time.
    done_at: u64,
}

/// The chores of one thread.
#[derive(Clone, Debug)]
pub struct Rounds {
    turns: Vec<Turn>,
    done: u64,
}

impl Rounds {
    /// The rounds of everything but compaction. Each regular chore is first due an interval after
    /// `start_ms`.
    #[must_use]
    pub fn new(intervals: &Maintenance, start_ms: u64) -> Self {
        let regular = [
            (Chore::Retain, intervals.retention_ms),
            (Chore::FlushOverdue, intervals.flush_ms),
            (Chore::Note(Checkpoint::RecoveryPoint), intervals.recovery_points_ms),
            (Chore::Note(Checkpoint::LogStart), intervals.log_starts_ms),
            (Chore::Note(Checkpoint::HighWatermark), intervals.high_watermarks_ms),
            (Chore::ForgetTruncations, intervals.high_watermarks_ms),
        ];
        let on_demand = [
            Chore::RemoveDeleted,
            Chore::RetryUnopened,
            Chore::AssignAgain,
            Chore::FlushAgain,
            Chore::LookAtFollowers,
        ];
        let regular = regular.map(|(chore, interval_ms)| (chore, Some(interval_ms)));
        let all = regular.into_iter().chain(on_demand.map(|chore| (chore, None)));
        Self::of(all, start_ms)
    }

    /// The rounds of a thread that compacts.
    #[must_use]
    pub fn of_cleaner(intervals: &Maintenance, start_ms: u64) -> Self {
        Self::of([(Chore::Clean, Some(intervals.cleaner_ms))].into_iter(), start_ms)
    }

    /// The rounds of the thread that moves replicas between log directories.
    #[must_use]
    pub fn of_mover(start_ms: u64) -> Self {
        Self::of([(Chore::Move, None)].into_iter(), start_ms)
    }

    fn of(chores: impl Iterator<Item = (Chore, Option<u64>)>, start_ms: u64) -> Self {
        let turn = |(chore, interval_ms): (Chore, Option<u64>)| {
            let due_ms = start_ms.saturating_add(interval_ms.unwrap_or(u64::MAX));
            Turn { chore, interval_ms, due_ms, done_at: 0 }
        };
        Self { turns: chores.map(turn).collect(), done: 0 }
    }

    /// What is to be done at `now_ms`. `deadline_ms` tells when a chore is due that has no
    /// interval. Of several, the one that was done the longest ago comes first: one that is always
    /// due keeps no other waiting.
    pub fn next(&self, now_ms: u64, deadline_ms: impl Fn(Chore) -> Option<u64>) -> Next {
        let due_ms = |turn: &Turn| match turn.interval_ms {
            Some(_) => turn.due_ms,
            None => deadline_ms(turn.chore).unwrap_or(u64::MAX),
        };
        let timed: Vec<(u64, &Turn)> = self.turns.iter().map(|turn| (due_ms(turn), turn)).collect();
        let due = timed.iter().filter(|(due_ms, _)| *due_ms <= now_ms);
        match due.min_by_key(|(_, turn)| turn.done_at) {
            Some((_, turn)) => Next::Do(turn.chore),
            None => Next::SleepUntil(timed.iter().map(|one| one.0).min().unwrap_or(u64::MAX)),
        }
    }

    /// A chore was done, and ended at `now_ms`.
    pub fn done(&mut self, chore: Chore, now_ms: u64) {
        self.done += 1;
        for turn in self.turns.iter_mut().filter(|turn| turn.chore == chore) {
            turn.done_at = self.done;
            turn.due_ms = now_ms.saturating_add(turn.interval_ms.unwrap_or(u64::MAX));
        }
    }
}
