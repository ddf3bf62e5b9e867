use super::*;
use crate::partitions::checkpoints::Checkpoint;

fn intervals() -> Maintenance {
    Maintenance {
        retention_ms: 300,
        cleaner_ms: 15,
        cleaner_enabled: true,
        cleaner_threads: 1,
        cleaner_max_keys: 10,
        flush_ms: 100,
        recovery_points_ms: 1_000,
        log_starts_ms: 1_000,
        high_watermarks_ms: 250,
    }
}

/// The chores that are done up to `until_ms`, each in no time, with when that was.
fn done(rounds: &mut Rounds, until_ms: u64) -> Vec<(u64, Chore)> {
    let mut now_ms = 0;
    let mut done = Vec::new();
    loop {
        match rounds.next(now_ms, |_| None) {
            Next::Do(chore) => {
                rounds.done(chore, now_ms);
                done.push((now_ms, chore));
            }
            Next::SleepUntil(next_ms) if next_ms > until_ms => return done,
            Next::SleepUntil(next_ms) => now_ms = next_ms,
        }
    }
}

#[test]
fn a_chore_comes_an_interval_after_its_last_time() {
    let mut rounds = Rounds::new(&intervals(), 0);
    let marks = Chore::Note(Checkpoint::HighWatermark);
    let expected = [
        (100, Chore::FlushOverdue),
        (200, Chore::FlushOverdue),
        (250, marks),
        (250, Chore::ForgetTruncations),
        (300, Chore::Retain),
        (300, Chore::FlushOverdue),
    ];
    assert_eq!(done(&mut rounds, 399), expected);
    let mut cleaner = Rounds::of_cleaner(&intervals(), 5);
    assert_eq!(done(&mut cleaner, 40), [(20, Chore::Clean), (35, Chore::Clean)]);
}

#[test]
fn a_chore_that_takes_longer_than_its_interval_keeps_no_other_waiting() {
    let mut rounds = Rounds::new(&intervals(), 0);
    let mut now_ms = 0;
    let mut done = Vec::new();
    while now_ms < 3_000 {
        match rounds.next(now_ms, |_| None) {
            Next::Do(chore) => {
                // Flushes are slow on this disk.
                now_ms += if chore == Chore::FlushOverdue { 400 } else { 0 };
                rounds.done(chore, now_ms);
                done.push(chore);
            }
            Next::SleepUntil(next_ms) => now_ms = next_ms,
        }
    }
    let count = |chore| done.iter().filter(|one| **one == chore).count();
    assert!(count(Chore::Retain) >= 5, "{done:?}");
    assert!(count(Chore::Note(Checkpoint::LogStart)) >= 2, "{done:?}");
}

#[test]
fn a_chore_without_an_interval_is_due_when_its_deadline_is() {
    let mut rounds = Rounds::new(&intervals(), 0);
    let removal = |chore| (chore == Chore::RemoveDeleted).then_some(40);
    assert_eq!(rounds.next(39, removal), Next::SleepUntil(40));
    assert_eq!(rounds.next(40, removal), Next::Do(Chore::RemoveDeleted));
    rounds.done(Chore::RemoveDeleted, 40);
    assert_eq!(rounds.next(40, |_| None), Next::SleepUntil(100));
}

/// A removal or an attempt to open may leave something that stays due.
#[test]
fn a_chore_that_is_always_due_keeps_no_other_waiting() {
    let mut rounds = Rounds::new(&intervals(), 0);
    let always = |chore| (chore == Chore::RetryUnopened).then_some(0);
    let mut done = Vec::new();
    for now_ms in 0..400 {
        if let Next::Do(chore) = rounds.next(now_ms, always) {
            rounds.done(chore, now_ms);
            done.push(chore);
        }
    }
    assert!(done.contains(&Chore::Retain) && done.contains(&Chore::FlushOverdue), "{done:?}");
    assert!(done.iter().filter(|one| **one == Chore::RetryUnopened).count() > 300);
}

#[test]
fn logs_are_flushed_when_their_records_are_as_old_as_flush_ms_says() {
    let mut ages = FlushAges::default();
    let logs = [(1, 50), (2, 200), (3, i64::MAX)];
    assert!(ages.overdue(0, logs.into_iter()).is_empty());
    assert_eq!(ages.overdue(100, logs.into_iter()).into_iter().collect::<Vec<_>>(), [1]);
    // The second was flushed for another reason, and written to again.
    assert!(ages.overdue(150, [(1, 50)].into_iter()).is_empty());
    assert!(ages.overdue(199, logs.into_iter()).is_empty());
    assert_eq!(ages.overdue(200, logs.into_iter()).into_iter().collect::<Vec<_>>(), [1]);
    assert!(ages.overdue(i64::MAX, [(3, i64::MAX)].into_iter()).is_empty(), "never");
}
