//! The role under the writer's lock: what may be appended and cut, in which epoch.

use bytes::{Bytes, BytesMut};
use kafkalite_protocol::record_batch::{RecordBatch, RecordBatchError};

use super::*;
use crate::faulty_storage::{Fault, FaultyStorage};

const OLD: LeaderEpoch = LeaderEpoch(5);
const NEW: LeaderEpoch = LeaderEpoch(6);
const UNKNOWN: LeaderEpoch = LeaderEpoch::UNKNOWN;

/// A batch as a leader of `epoch` has it.
pub(super) fn led(base_offset: i64, records: i32, epoch: i32) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(9, 0, base_offset as i32);
    for _ in 0..records {
        builder.append(NOW_MS, Some(b"key"), Some(b"0123456789"), &[]);
    }
    builder.build(Offset(base_offset), LeaderEpoch(epoch)).unwrap()
}

pub(super) fn joined(batches: &[Bytes]) -> Bytes {
    let mut all = BytesMut::new();
    batches.iter().for_each(|batch| all.extend_from_slice(batch));
    all.freeze()
}

fn follower(fixture: &Fixture, epoch: LeaderEpoch) -> CommitLog {
    let log = fixture.fresh();
    log.become_follower(epoch).unwrap();
    log
}

/// An append looked at its epoch, let go of the lock, and came to the log when another broker led.
#[test]
fn a_leader_that_lost_its_partition_appends_nothing_in_its_old_epoch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    log.become_leader(OLD).unwrap();
    log.append_as_leader(&batch_at(1, NOW_MS), OLD, NOW_MS).unwrap();
    log.become_follower(NEW).unwrap();
    let late = log.append_as_leader(&batch_at(1, NOW_MS), OLD, NOW_MS);
    let expected = (Role::Leader(OLD), Role::Follower(NEW));
    assert!(
        matches!(late, Err(LogError::WrongRole { wanted, role }) if (wanted, role) == expected)
    );
    assert_eq!(log.log_end_offset(), Offset(1));
}

#[test]
fn epochs_never_go_back_and_one_epoch_has_one_leader() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let stale = |taken: Result<LogEnd, LogError>| {
        assert!(matches!(taken, Err(LogError::StaleLeaderEpoch { .. })), "{taken:?}");
    };
    stale(log.become_leader(UNKNOWN));
    log.become_follower(OLD).unwrap();
    stale(log.become_leader(OLD));
    stale(log.become_leader(LeaderEpoch(4)));
    stale(log.become_follower(LeaderEpoch(4)));
    log.become_follower(OLD).unwrap();
    log.become_leader(NEW).unwrap();
    log.become_leader(NEW).unwrap();
    stale(log.become_leader(OLD));
    stale(log.become_follower(OLD));
    // An image that contradicts itself takes the leader away rather than keep two.
    log.become_follower(NEW).unwrap();
    stale(log.become_leader(NEW));
    assert_eq!(log.role(), Role::Follower(NEW));
}

#[test]
fn a_log_that_was_just_opened_takes_nothing() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    for epoch in [UNKNOWN, LeaderEpoch(0)] {
        let led_here = log.append_as_leader(&batch_at(1, NOW_MS), epoch, NOW_MS);
        assert!(matches!(led_here, Err(LogError::WrongRole { .. })));
    }
    let followed = log.append_as_follower(&led(0, 1, 0), LeaderEpoch(0), Offset(0), NOW_MS);
    assert!(matches!(followed, Err(LogError::WrongRole { .. })));
}

#[test]
fn a_deleted_partition_takes_nothing_in_any_role() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    log.become_leader(OLD).unwrap();
    log.become_gone();
    let is_gone = |error: LogError| matches!(error, LogError::WrongRole { role: Role::Gone, .. });
    assert!(is_gone(log.append_as_leader(&batch_at(1, NOW_MS), OLD, NOW_MS).unwrap_err()));
    assert!(is_gone(log.become_leader(NEW).unwrap_err()));
    assert!(is_gone(log.become_follower(NEW).unwrap_err()));
    assert!(is_gone(log.append_as_follower(&led(0, 1, 6), NEW, Offset(0), NOW_MS).unwrap_err()));
    assert!(is_gone(log.truncate_as_follower(Offset(0), NEW, NOW_MS).unwrap_err()));
}

#[test]
fn only_a_follower_of_the_epoch_truncates() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    log.become_leader(OLD).unwrap();
    log.append_as_leader(&batch_at(2, NOW_MS), OLD, NOW_MS).unwrap();
    let refused = log.truncate_as_follower(Offset(0), OLD, NOW_MS);
    assert!(matches!(refused, Err(LogError::WrongRole { .. })), "a leader takes nothing back");
    log.become_follower(NEW).unwrap();
    let refused = log.truncate_as_follower(Offset(0), OLD, NOW_MS);
    assert!(matches!(refused, Err(LogError::WrongRole { .. })), "an answer of the leader before");
    assert_eq!(log.log_end_offset(), Offset(2));
    assert_eq!(log.truncate_as_follower(Offset(0), NEW, NOW_MS).unwrap().offset, Offset(0));
}

#[test]
fn a_follower_keeps_offsets_epochs_producers_and_bytes_of_its_leader() {
    let fixture = Fixture::new(small_segments());
    let log = follower(&fixture, NEW);
    let batches: Vec<_> = (0..40).map(|i| led(2 * i, 2, [1, 4, 6][i as usize / 15])).collect();
    let sent = joined(&batches);
    let appended = log.append_as_follower(&sent, NEW, Offset(0), NOW_MS).unwrap();
    assert_eq!((appended.batches, appended.bytes), (40, sent.len() as u64));
    assert_eq!(appended.log_end.offset, Offset(80));
    assert!(appended.starts_segment && log.segment_count() > 3);
    let read = log.read(Offset(0), u32::MAX, Offset(80), true).unwrap();
    assert_eq!(bytes_of(&read), sent);
    let epochs: Vec<_> = log.epochs().iter().map(|e| (e.epoch.0, e.start_offset.0)).collect();
    assert_eq!(epochs, [(1, 0), (4, 30), (6, 60)]);
    assert_eq!(log.producers()[0].last_sequence, 79);
    // And after a kill, from the files.
    drop(log);
    let again = fixture.fresh();
    let epochs: Vec<_> = again.epochs().iter().map(|e| (e.epoch.0, e.start_offset.0)).collect();
    assert_eq!(epochs, [(1, 0), (4, 30), (6, 60)]);
    assert_eq!(again.producers()[0].last_sequence, 79);
}

#[test]
fn of_a_fetch_with_one_wrong_batch_a_follower_appends_nothing() {
    let good = led(0, 2, 5);
    let mut flipped = led(2, 2, 5).to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let wrong = [
        ("a flipped bit", Bytes::from(flipped)),
        ("a gap", led(3, 2, 5)),
        ("an offset that is there", led(1, 2, 5)),
        ("an epoch above that of the fetch", led(2, 2, 6)),
        ("an epoch below that before", led(2, 2, 4)),
        ("no records and no offsets", {
            let mut header = *RecordBatch::parse(&led(2, 1, 5)).unwrap().header();
            header.last_offset_delta = -1;
            let payload = led(2, 1, 5).slice(61..);
            header.seal(&payload);
            joined(&[Bytes::copy_from_slice(&header.to_bytes()), payload])
        }),
        ("garbage", Bytes::from_static(&[0x33; 70])),
    ];
    let fixture = Fixture::new(LogConfig::default());
    let log = follower(&fixture, OLD);
    for (what, second) in wrong {
        let sent = joined(&[good.clone(), second, led(4, 2, 5)]);
        let refused = log.append_as_follower(&sent, OLD, Offset(0), NOW_MS);
        let told = matches!(refused, Err(LogError::Batch(_) | LogError::NotContiguous { .. }));
        assert!(told, "{what}: {refused:?}");
        assert_eq!((log.log_end_offset(), log.size_bytes()), (Offset(0), 0), "{what}");
        assert_eq!((log.epochs().len(), log.producers().len()), (0, 0), "{what}");
    }
    assert_eq!(
        log.append_as_follower(&good, OLD, Offset(0), NOW_MS).unwrap().log_end.offset,
        Offset(2)
    );
}

#[test]
fn a_batch_that_is_cut_short_at_the_end_is_left_to_the_next_fetch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = follower(&fixture, OLD);
    let sent = joined(&[led(0, 2, 5), led(2, 2, 5)]);
    let whole = led(0, 2, 5).len();
    for cut in [sent.len() - 1, whole + 61, whole + 5, whole] {
        let appended = log.append_as_follower(&sent.slice(..cut), OLD, Offset(0), NOW_MS).unwrap();
        assert_eq!((appended.batches, appended.log_end.offset), (1, Offset(2)), "cut at {cut}");
        log.truncate_as_follower(Offset(0), OLD, NOW_MS).unwrap();
    }
    assert_eq!(log.append_as_follower(&Bytes::new(), OLD, Offset(0), NOW_MS).unwrap().batches, 0);
}

#[test]
fn a_follower_of_a_compacted_topic_takes_the_gaps_of_its_leader() {
    let fixture = Fixture::new(LogConfig { cleanup_compact: true, ..LogConfig::default() });
    let log = follower(&fixture, OLD);
    let sent = joined(&[led(3, 2, 5), led(100, 2, 5)]);
    assert_eq!(
        log.append_as_follower(&sent, OLD, Offset(0), NOW_MS).unwrap().log_end.offset,
        Offset(102)
    );
    assert_eq!(read_all(&log, 4), [3, 100]);
    let far = led(103 + i64::from(i32::MAX), 1, 5);
    let refused = log.append_as_follower(&far, OLD, Offset(0), NOW_MS);
    assert!(matches!(refused, Err(LogError::NotContiguous { .. })), "no segment can hold it");
}

#[test]
fn a_damaged_batch_has_an_error_of_its_own() {
    let fixture = Fixture::new(LogConfig::default());
    let log = follower(&fixture, OLD);
    let mut bytes = led(0, 1, 5).to_vec();
    bytes[30] ^= 1;
    match log.append_as_follower(&bytes.into(), OLD, Offset(0), NOW_MS) {
        Err(LogError::Batch(error)) => assert!(matches!(*error, RecordBatchError::BadCrc { .. })),
        other => panic!("{other:?}"),
    }
}

/// The leader of the next epoch had records of an older one that this leader never had. They were
/// refused, as this replica knew a newer epoch, which was its own and without a record.
#[test]
fn an_epoch_that_was_led_without_a_record_is_forgotten_by_a_follower() {
    let fixture = Fixture::new(LogConfig::default());
    let log = follower(&fixture, LeaderEpoch(4));
    log.append_as_follower(&led(0, 2, 4), LeaderEpoch(4), Offset(0), NOW_MS).unwrap();
    log.become_leader(OLD).unwrap();
    assert_eq!(log.latest_epoch(), Some(OLD));
    log.become_follower(NEW).unwrap();
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(4)));
    log.append_as_follower(&joined(&[led(2, 2, 4), led(4, 1, 6)]), NEW, Offset(0), NOW_MS).unwrap();
    let end = log.end_offset_for_epoch(OLD).unwrap();
    assert_eq!((end.epoch, end.end_offset), (LeaderEpoch(4), Offset(4)));
}

#[test]
fn what_a_follower_could_not_write_stays_unknown() {
    // Every write of an append fails once: those of the epochs, of a roll and of the records.
    for at in 0.. {
        let temp = tempfile::tempdir().unwrap();
        let storage = FaultyStorage::default();
        let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 10).unwrap();
        let (config, state) = (Arc::new(small_segments()), OpenState::default());
        let (log, _) = CommitLog::open(&log_dir, "t-0", config, state, NOW_MS).unwrap();
        log.become_follower(NEW).unwrap();
        let batches: Vec<_> = (0..40).map(|i| led(2 * i, 2, [4, 6][i as usize / 20])).collect();
        let planned = storage.changes() + at;
        storage.plan(planned, Fault::Full);
        let first = log.append_as_follower(&joined(&batches), NEW, Offset(0), NOW_MS);
        let struck = storage.changes() > planned;
        let end = log.log_end();
        if first.is_err() {
            let told = matches!(first, Err(LogError::DiskFull { .. }));
            assert!(told, "change {at}: {first:?}");
        }
        assert_eq!(end.offset.0 % 2, 0, "change {at}");
        let there = end.offset.0 as usize / 2;
        if there > 0 {
            assert_eq!(read_all(&log, 0).len(), there, "change {at}");
            assert_eq!(i64::from(log.producers()[0].last_sequence), end.offset.0 - 1);
        }
        let latest = log.latest_epoch().map(|epoch| epoch.0);
        assert_eq!(latest, [None, Some(4), Some(6)][there.div_ceil(20)], "change {at}");
        // The rest is fetched again.
        log.append_as_follower(&joined(&batches[there..]), NEW, Offset(0), NOW_MS).unwrap();
        assert_eq!(read_all(&log, 0).len(), 40);
        assert_eq!(log.epochs().len(), 2);
        if !struck {
            assert!(at > 10, "only {at} changes");
            return;
        }
    }
}

#[test]
fn every_change_of_the_end_has_a_greater_version() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let mut versions = vec![log.log_end().version, log.become_leader(OLD).unwrap().version];
    let appended = log.append_as_leader(&batch_at(2, NOW_MS), OLD, NOW_MS).unwrap();
    let end = appended.log_end.unwrap();
    assert_eq!((end.offset, end.durable, end.epoch), (Offset(2), Offset(0), OLD));
    versions.push(end.version);
    let durable = log.flush().unwrap();
    assert_eq!(durable.offset, Offset(2));
    versions.push(durable.version);
    versions.push(log.become_follower(NEW).unwrap().version);
    let end = log.truncate_as_follower(Offset(0), NEW, NOW_MS).unwrap();
    assert_eq!((end.offset, end.durable, end.epoch), (Offset(0), Offset(0), NEW));
    versions.push(end.version);
    versions.push(
        log.append_as_follower(&led(0, 1, 6), NEW, Offset(0), NOW_MS).unwrap().log_end.version,
    );
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
}
