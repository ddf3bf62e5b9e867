//! Batches that the disk changed: found, and written again from another copy.

use super::*;
use crate::commit_log::{Checked, Damage};
use crate::faulty_storage::{Fault, FaultyStorage};
use bytes::Bytes;
use std::os::unix::fs::FileExt;

/// A leader's log of several segments, and a follower's copy of it.
struct Copies {
    leader: CommitLog,
    follower: CommitLog,
    _fixtures: [Fixture; 2],
}

impl Copies {
    fn new() -> Self {
        let fixtures = [Fixture::new(small_segments()), Fixture::new(small_segments())];
        let [leader, follower] = [fixtures[0].fresh(), fixtures[1].fresh()];
        for _ in 0..40 {
            append(&leader, 2);
        }
        follower.become_follower(EPOCH).unwrap();
        let mut copies = Self { leader, follower, _fixtures: fixtures };
        copies.follow();
        assert!(copies.follower.segment_count() > 2);
        copies
    }

    /// A follower that got what compaction had left, of a topic that is not compacted any more.
    fn with_a_gap() -> Self {
        let fixtures = [Fixture::new(small_segments()), Fixture::new(small_segments())];
        let [leader, follower] = [fixtures[0].fresh(), fixtures[1].fresh()];
        for _ in 0..40 {
            append(&leader, 2);
        }
        let policy = |cleanup_compact| Arc::new(LogConfig { cleanup_compact, ..small_segments() });
        follower.become_follower(EPOCH).unwrap();
        follower.set_config(policy(true));
        let copies = Self { leader, follower, _fixtures: fixtures };
        for offset in (0..80).step_by(2).filter(|offset| !(20..30).contains(offset)) {
            copies
                .follower
                .append_as_follower(&copies.at(Offset(offset)), EPOCH, Offset(0), NOW_MS)
                .unwrap();
        }
        copies.follower.set_config(policy(false));
        copies
    }

    fn follow(&mut self) {
        while self.follower.log_end_offset() < self.leader.log_end_offset() {
            let records = self.at(self.follower.log_end_offset());
            self.follower.append_as_follower(&records, EPOCH, Offset(0), NOW_MS).unwrap();
        }
    }

    /// The leader's batch that holds `offset`.
    fn at(&self, offset: Offset) -> Bytes {
        let read = self.leader.read(offset, 1, self.leader.log_end_offset(), true).unwrap();
        bytes_of(&read).into()
    }

    /// Flips a bit of the follower's file, so many bytes from the start of a batch.
    fn flip(&self, batch: i64, byte: u64) {
        let end = self.follower.log_end_offset();
        let read = self.follower.read(Offset(batch), 1, end, true).unwrap();
        let (segment, _) = self.follower.segment_at(Offset(batch)).unwrap();
        let path = segment.path(crate::segment::LOG_SUFFIX);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut one = [0];
        file.read_exact_at(&mut one, read.slices[0].position + byte).unwrap();
        file.write_all_at(&[one[0] ^ 4], read.slices[0].position + byte).unwrap();
    }

    /// The first damage in the follower's log.
    fn damage(&self) -> Option<Damage> {
        let mut from = Offset(0);
        loop {
            let checked = self.follower.check(from, &|_| true).unwrap();
            match (checked.damage, checked.next) {
                (None, Some(next)) => from = next,
                (damage, _) => return damage,
            }
        }
    }

    fn bytes(log: &CommitLog) -> Vec<u8> {
        let segments = log.segments.read();
        let path = |segment: &Arc<Segment>| segment.path(crate::segment::LOG_SUFFIX);
        segments.iter().flat_map(|segment| std::fs::read(path(segment)).unwrap()).collect()
    }
}

#[test]
fn a_bit_that_flips_anywhere_in_a_batch_is_found_and_healed() {
    let copies = Copies::new();
    assert!(copies.damage().is_none());
    let healthy = Copies::bytes(&copies.leader);
    assert_eq!(Copies::bytes(&copies.follower), healthy);
    let size = copies.at(Offset(20)).len() as u64;
    for batch in [0, 20, 78] {
        for byte in 0..size {
            copies.flip(batch, byte);
            let damage = copies.damage().unwrap_or_else(|| panic!("{batch} {byte}"));
            assert_eq!(damage.offset, Offset(batch), "byte {byte}: {}", damage.reason);
            let records = copies.at(damage.offset);
            assert!(copies.follower.heal(&damage, &records, EPOCH).unwrap(), "{batch} {byte}");
            assert!(Copies::bytes(&copies.follower) == healthy, "{batch} {byte}");
        }
    }
    assert!(copies.damage().is_none());
}

#[test]
fn a_batch_that_does_not_belong_there_heals_nothing() {
    let mut copies = Copies::new();
    copies.flip(20, 70);
    let damaged = Copies::bytes(&copies.follower);
    let damage = copies.damage().unwrap();
    let (right, wrong) = (copies.at(Offset(20)), copies.at(Offset(22)));
    assert!(!copies.follower.heal(&damage, &wrong, EPOCH).unwrap());
    let mut broken = right.to_vec();
    broken[70] ^= 1;
    assert!(copies.follower.heal(&damage, &broken.into(), EPOCH).is_err());
    let other = copies.follower.heal(&damage, &right, LeaderEpoch(EPOCH.0 + 1));
    assert!(matches!(other, Err(LogError::WrongRole { .. })));
    assert!(Copies::bytes(&copies.follower) == damaged);
    // The log was cut and written again: what was found says nothing of it.
    copies.follower.truncate_as_follower(Offset(10), EPOCH, NOW_MS).unwrap();
    copies.follow();
    assert!(!copies.follower.heal(&damage, &right, EPOCH).unwrap());
    assert!(Copies::bytes(&copies.follower) == Copies::bytes(&copies.leader));
}

#[test]
fn a_check_stops_where_its_caller_wants() {
    let copies = Copies::new();
    let checked = copies.follower.check(Offset(0), &|_| false).unwrap();
    assert!(checked.damage.is_none() && checked.next.is_none());
}

/// The topic was compacted once. Each check found damage at the first gap, and read no further.
#[test]
fn a_gap_that_compaction_left_is_no_damage_whatever_the_policy_is_now() {
    let copies = Copies::with_a_gap();
    assert!(copies.damage().is_none());
    // The first byte of an offset, and of a record.
    for (batch, byte) in [(16, 7), (32, 7), (32, 70)] {
        copies.flip(batch, byte);
        let damage = copies.damage().unwrap_or_else(|| panic!("{batch} {byte}"));
        let records = copies.at(Offset(batch));
        assert!(copies.follower.heal(&damage, &records, EPOCH).unwrap(), "{batch} {byte}");
        assert!(copies.damage().is_none());
    }
}

/// A check came when the new segment had no file yet. That took the whole log directory offline.
#[test]
fn a_check_of_a_log_that_begins_again_meets_no_failing_disk() {
    for at in 0.. {
        let (temp, storage) = (tempfile::tempdir().unwrap(), FaultyStorage::default());
        let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
        let (config, state) = (Arc::new(small_segments()), OpenState::default());
        let (log, _) = CommitLog::open(&log_dir, "t-0", config, state, NOW_MS).unwrap();
        append(&log, 2);
        log.become_follower(LeaderEpoch(90)).unwrap();
        let begun = storage.changes();
        storage.plan(begun + at, Fault::Full);
        let restarted = log.restart_as_follower(Offset(50), LeaderEpoch(90), NOW_MS);
        let changes = storage.changes() - begun;
        if log_dir.is_offline() {
            // It was a sync of names that failed.
            continue;
        }
        let checked = log.check(log.log_start_offset(), &|_| true);
        assert!(matches!(&checked, Ok(Checked { damage: None, .. })), "at {at}: {checked:?}");
        if changes <= at {
            assert!(restarted.is_ok() && at > 8, "only {at} changes");
            return;
        }
    }
}
