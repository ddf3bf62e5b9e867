//! A follower's log is truncated, and the checkpoints of the broker follow.

use super::*;
use crate::faulty_storage::Fault;
use bytes::Bytes;
use kafkalite_log::LogEnd;

/// The records of the log before it is truncated; all of them were committed.
const RECORDS: i64 = 8;
const NOTE: &str = "truncation-checkpoint";

/// How a follower truncates.
#[derive(Clone, Copy, Debug)]
enum Act {
    Cut(i64),
    Restart(i64),
}

const ACTS: [Act; 4] = [Act::Cut(6), Act::Cut(3), Act::Restart(2), Act::Restart(20)];

impl Act {
    fn run(self, partition: &Partition) -> Result<LogEnd, LogError> {
        let epoch = partition.leader_epoch();
        match self {
            Self::Cut(offset) => partition.truncate_as_follower(Offset(offset), epoch, NOW_MS),
            Self::Restart(offset) => partition.restart_as_follower(Offset(offset), epoch, NOW_MS),
        }
    }

    /// Where the log ends then.
    fn end(self) -> i64 {
        match self {
            Self::Cut(offset) | Self::Restart(offset) => offset,
        }
    }
}

/// A follower whose log has [`RECORDS`], as the checkpoints say too.
fn follower() -> House {
    let mut house = House::new(&[ME, OTHER]);
    house.reassign(&[ME]);
    (0..RECORDS).for_each(|_| house.append());
    assert_eq!(house.offsets(), [0, RECORDS, RECORDS]);
    for which in Checkpoint::ALL {
        house.replicas.checkpoint(which).unwrap();
    }
    house.reassign(&[OTHER, ME]);
    house
}

/// One record as the leader has it.
fn followed(partition: &Partition, base_offset: i64, high_watermark: i64) -> Result<(), LogError> {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, None, Some(b"another"), &[]);
    let epoch = partition.leader_epoch();
    let bytes: Bytes = builder.build(Offset(base_offset), epoch).unwrap();
    partition.append_as_follower(&bytes, epoch, Offset(high_watermark), NOW_MS).map(drop)
}

impl House {
    fn has_note(&self) -> bool {
        self.path().join(NOTE).exists()
    }
}

/// The topic was compacted once, and its policy is another one now. No replica that was new, or
/// behind, ever came beyond the first gap.
#[test]
fn a_follower_takes_the_gaps_of_committed_records_whatever_the_policy_is_now() {
    let house = follower();
    let partition = house.find().unwrap();
    assert!(!partition.log_config().cleanup_compact);
    followed(&partition, 12, 20).unwrap();
    assert_eq!(house.offsets(), [0, 13, 13]);
    // Records that are not committed were not compacted.
    let refused = followed(&partition, 20, 20);
    assert!(matches!(refused, Err(LogError::NotContiguous { .. })), "{refused:?}");
    assert_eq!(house.offsets(), [0, 13, 13]);
}

#[test]
fn the_high_watermark_follows_a_truncation_and_a_new_start() {
    for act in ACTS {
        let house = follower();
        let end = act.run(&house.find().unwrap()).unwrap();
        assert_eq!(end.offset, Offset(act.end()), "{act:?}");
        let start = if matches!(act, Act::Cut(_)) { 0 } else { act.end() };
        assert_eq!(house.offsets(), [start, act.end(), act.end()], "{act:?}");
    }
}

/// The checkpoint of before the truncation named records that were cut: those in their place were
/// taken for committed.
#[test]
fn the_high_watermark_of_an_older_checkpoint_ends_at_the_truncation() {
    let mut house = follower();
    let partition = house.find().unwrap();
    Act::Cut(3).run(&partition).unwrap();
    for offset in 3..12 {
        followed(&partition, offset, 4).unwrap();
    }
    partition.flush().unwrap();
    drop(partition);
    house.cut_power();
    assert_eq!(house.offsets(), [0, 12, 3]);
    assert!(house.has_note());
    // From the next checkpoint on it is known again.
    let partition = house.find().unwrap();
    followed(&partition, 12, 9).unwrap();
    partition.flush().unwrap();
    house.replicas.forget_truncations().unwrap();
    assert!(!house.has_note());
    house.cut_power();
    assert_eq!(house.offsets(), [0, 13, 9]);
}

/// At any moment of the truncation, of what follows it, and of the checkpoints after both.
#[test]
fn a_crash_at_any_change_leaves_no_offset_of_before_in_force() {
    for act in ACTS {
        for at in 0.. {
            let mut house = follower();
            let partition = house.find().unwrap();
            let struck_at = house.storage.changes() + at;
            house.storage.plan(struck_at, Fault::Crash);
            let cut = act.run(&partition).is_ok();
            let refilled = cut
                && (0..9).all(|more| followed(&partition, act.end() + more, act.end() + 1).is_ok())
                && partition.flush().is_ok();
            let forgotten = refilled && house.replicas.forget_truncations().is_ok();
            let struck = house.storage.changes() > struck_at;
            drop(partition);
            house.cut_power();
            let what = format!("{act:?}, crash at change {at}");
            let [start, end, high_watermark] = house.offsets();
            let as_before = !cut && [start, end] == [0, RECORDS];
            // Of what the leader sent, the power cut takes what was not flushed.
            let is_cut = (act.end()..=act.end() + 9).contains(&end);
            assert!(as_before || is_cut, "{what}: {start} to {end}");
            if refilled {
                assert_eq!(end, act.end() + 9, "{what}");
            }
            let committed = if forgotten { act.end() + 1 } else { act.end() };
            let known = if as_before { RECORDS } else { act.end() + 1 };
            assert!(high_watermark <= known, "{what}: high watermark {high_watermark}");
            assert!(as_before || high_watermark >= committed, "{what}: {high_watermark}");
            if !struck {
                assert!(forgotten && !house.has_note(), "{what}");
                assert!(at > 20, "only {at} changes");
                break;
            }
        }
    }
}

/// A thread that truncated the log had not yet told the state. The checkpoints that were written
/// at that moment had the high watermark of before, and the note that corrects it was removed.
#[test]
fn a_note_stays_until_the_high_watermark_has_followed_the_truncation() {
    let house = follower();
    let partition = house.find().unwrap();
    let epoch = partition.leader_epoch();
    partition.log().truncate_as_follower(Offset(3), epoch, NOW_MS).unwrap();
    assert_eq!(partition.noted_truncation(), None);
    house.replicas.forget_truncations().unwrap();
    assert!(house.has_note());
    followed(&partition, 3, 3).unwrap();
    house.replicas.forget_truncations().unwrap();
    assert!(!house.has_note());
}

/// The truncation came while the checkpoints were written: after the note of the first one was
/// looked at, and before it was removed.
#[test]
fn the_note_of_a_later_truncation_stays() {
    let house = follower();
    let partition = house.find().unwrap();
    Act::Cut(6).run(&partition).unwrap();
    let first = partition.noted_truncation().unwrap();
    Act::Cut(3).run(&partition).unwrap();
    partition.log().forget_truncation(first).unwrap();
    assert_eq!(partition.noted_truncation().map(|noted| noted.lowest), Some(Offset(3)));
    assert!(house.has_note());
}

#[test]
fn checkpoints_that_are_not_written_keep_the_note() {
    let house = follower();
    Act::Cut(3).run(&house.find().unwrap()).unwrap();
    for at in 0..2 {
        house.storage.plan(house.storage.changes() + at, Fault::Full);
        house.replicas.forget_truncations().unwrap_err();
        assert!(house.has_note());
    }
    house.storage.plan(u64::MAX, Fault::Full);
    house.replicas.forget_truncations().unwrap();
    assert!(!house.has_note());
}
