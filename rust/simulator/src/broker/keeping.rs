//! A broker's log manager: production's `Rounds` says which chore is due, and the logs in memory
//! carry it out. Between two chores other things happen, crashes too.

use super::{Broker, Replica};
use crate::io::{Io, Tick};
use crate::planted::Planted;
use kafkalite_broker::clock::Clock;
use kafkalite_broker::partitions::{Checkpoint, Chore, Maintenance, Next, Rounds};

/// `flush.ms` of every log that is not flushed at each append.
const FLUSH_MS: i64 = 60;
/// Longer than any run: chores that logs in memory do not need.
const NEVER_MS: u64 = 1_000_000;

/// The rounds of a process that starts at `start_ms`.
pub(super) fn rounds(start_ms: u64) -> Rounds {
    let intervals = Maintenance {
        retention_ms: 70,
        cleaner_ms: NEVER_MS,
        cleaner_enabled: false,
        cleaner_threads: 0,
        cleaner_max_keys: 0,
        flush_ms: 40,
        recovery_points_ms: NEVER_MS,
        log_starts_ms: 110,
        high_watermarks_ms: 90,
    };
    Rounds::new(&intervals, start_ms)
}

impl Broker {
    /// Does one chore, if one is due.
    pub(super) fn keep_logs(&mut self, io: &mut Io<'_>) {
        let pause = match self.rounds.next(io.now_ms, |_| None) {
            Next::Do(chore) => {
                self.carry_out(chore, io);
                self.rounds.done(chore, io.now_ms);
                io.rng.between(0, 4)
            }
            Next::SleepUntil(next_ms) => next_ms - io.now_ms,
        };
        io.after(pause, Tick::Chores);
    }

    fn carry_out(&mut self, chore: Chore, io: &mut Io<'_>) {
        let now_ms = self.clock.wall_ms();
        match chore {
            Chore::Retain => {
                let incarnation = self.incarnation;
                self.replicas.iter_mut().for_each(|one| one.retain(incarnation, now_ms, io));
            }
            Chore::FlushOverdue if !self.settings.flush_messages => {
                let unflushed = self.replicas.iter().filter(|one| one.log().has_unflushed());
                let unflushed = unflushed.map(|one| (one.partition as u64, FLUSH_MS));
                let overdue = self.flush_ages.overdue(now_ms, unflushed);
                let due = |one: &&mut Replica| overdue.contains(&(one.partition as u64));
                self.replicas.iter_mut().filter(due).for_each(Replica::flush);
            }
            Chore::Note(Checkpoint::HighWatermark) => {
                let note = match io.has(Planted::CheckpointNotesLogEnd) {
                    true => Replica::note_log_end,
                    false => Replica::note_high_watermark,
                };
                self.replicas.iter_mut().for_each(note);
            }
            Chore::Note(Checkpoint::LogStart) => {
                self.replicas.iter_mut().for_each(Replica::note_log_start);
            }
            // Flushed at once, or nothing that a log in memory has.
            _ => {}
        }
    }
}
