#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::LeaderEpoch;
use proptest::prelude::*;

use super::*;
use crate::commit_log::OpenState;
use crate::commit_log::tests::{Fixture, all_bytes, append, append_in, read_all, truncate};
use crate::faulty_storage::FaultyStorage;
use crate::log_dir::LogDir;
use crate::validation::{ValidatedBatch, validate};

mod crashes;

const NOW_MS: i64 = 1_700_000_000_000;
const MAX_KEYS: usize = 1_000;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 600,
        index_interval_bytes: 100,
        cleanup_delete: false,
        cleanup_compact: true,
        delete_retention_ms: 1_000,
        ..LogConfig::default()
    }
}

type Pair<'a> = (&'a str, Option<&'a str>);

fn keyed(codec: Codec, records: &[Pair<'_>]) -> ValidatedBatch {
    let mut builder = RecordBatchBuilder::new(codec);
    for (i, (key, value)) in records.iter().enumerate() {
        let timestamp_ms = NOW_MS + i as i64;
        builder.append(
            timestamp_ms,
            Some(key.as_bytes()),
            value.map(str::as_bytes),
            &[("h", None)],
        );
    }
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validate(&bytes, &config(), NOW_MS, 9).unwrap()
}

fn put(log: &CommitLog, records: &[Pair<'_>]) -> i64 {
    append_in(log, &keyed(Codec::None, records), LeaderEpoch(0), NOW_MS).unwrap().base_offset.0
}

/// Offset, key and value of every record.
fn records(log: &CommitLog) -> Vec<(i64, String, Option<String>)> {
    let bytes = all_bytes(log);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut all = Vec::new();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        for record in &batch.records(1 << 20).unwrap() {
            let record = record.unwrap();
            assert_eq!(record.headers().count(), 1);
            all.push((record.offset.0, text(record.key.unwrap()), record.value.map(text)));
        }
    }
    all
}

/// The log without its active segment's records, as the last value of each key.
fn last_values(
    records: &[(i64, String, Option<String>)],
) -> BTreeMap<String, (i64, Option<String>)> {
    records.iter().map(|(o, k, v)| (k.clone(), (*o, v.clone()))).collect()
}

fn compact(log: &CommitLog, first_dirty: i64, now_ms: i64) -> Compacted {
    log.cleaned_to.store(first_dirty, Ordering::Release);
    log.compact(log.log_end_offset(), now_ms, MAX_KEYS).unwrap()
}

#[test]
fn the_last_value_of_each_key_stays_at_its_offset() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for round in 0..20 {
        let value = format!("{round}");
        put(&log, &[("a", Some(&value)), ("b", Some(&value))]);
    }
    put(&log, &[("only once", Some("x"))]);
    log.roll(NOW_MS).unwrap();
    let before = last_values(&records(&log));
    let done = compact(&log, 0, NOW_MS);
    assert_eq!(done.cleaned_to, Offset(41));
    assert_eq!(done.records_removed, 38);
    assert!(done.bytes_after < done.bytes_before);
    let after = records(&log);
    assert_eq!(after.len(), 3);
    assert_eq!(last_values(&after), before);
    assert_eq!(log.log_end_offset(), Offset(41));
    put(&log, &[("a", Some("new"))]);
    assert_eq!(records(&log).last().unwrap().0, 41);
}

#[test]
fn a_tombstone_stays_for_delete_retention_and_then_goes() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    put(&log, &[("a", Some("1")), ("b", Some("1"))]);
    put(&log, &[("a", None)]);
    put(&log, &[("c", Some("1"))]);
    log.roll(NOW_MS).unwrap();
    let first = compact(&log, 0, NOW_MS);
    let keys = |log: &CommitLog| records(log).into_iter().map(|r| r.1).collect::<Vec<_>>();
    assert_eq!(keys(&log), ["b", "a", "c"]);
    // Each compaction needs something dirty; "d" and "e" are that.
    for (key, now_ms, expected) in [
        ("d", NOW_MS + 999, vec!["b", "a", "c", "d"]),
        ("e", NOW_MS + 1_000, vec!["b", "c", "d", "e"]),
    ] {
        put(&log, &[(key, Some("1"))]);
        log.roll(NOW_MS).unwrap();
        compact(&log, first.cleaned_to.0, now_ms);
        assert_eq!(keys(&log), expected, "at {now_ms}");
    }
}

#[test]
fn the_active_segment_and_what_is_above_the_high_watermark_stay() {
    for (high_watermark, left) in [(0, 12), (12, 7)] {
        let fixture = Fixture::new(config());
        let log = fixture.fresh();
        for i in 0..6 {
            put(&log, &[("a", Some(&i.to_string()))]);
        }
        log.roll(NOW_MS).unwrap();
        for i in 0..6 {
            put(&log, &[("a", Some(&i.to_string()))]);
        }
        log.compact(Offset(high_watermark), NOW_MS, MAX_KEYS).unwrap();
        assert_eq!(records(&log).len(), left, "high watermark {high_watermark}");
    }
}

#[test]
fn young_records_stay() {
    let lag = LogConfig { min_compaction_lag_ms: 100, ..config() };
    for (now_ms, left) in [(NOW_MS + 99, 6), (NOW_MS + 100, 1)] {
        let fixture = Fixture::new(lag.clone());
        let log = fixture.fresh();
        for i in 0..6 {
            put(&log, &[("a", Some(&i.to_string()))]);
        }
        log.roll(NOW_MS).unwrap();
        compact(&log, 0, now_ms);
        assert_eq!(records(&log).len(), left, "{} ms later", now_ms - NOW_MS);
    }
}

/// Compaction ignored `min.compaction.lag.ms` for records without timestamps.
#[test]
fn young_records_without_a_timestamp_stay() {
    let lag = LogConfig { min_compaction_lag_ms: 100, ..config() };
    for (now_ms, left) in [(NOW_MS + 99, 2), (NOW_MS + 100, 1)] {
        let fixture = Fixture::new(lag.clone());
        let log = fixture.fresh();
        for _ in 0..2 {
            let mut builder = RecordBatchBuilder::new(Codec::None);
            builder.append(-1, Some(b"a"), Some(b"1"), &[("h", None)]);
            let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
            let batch = validate(&bytes, &config(), NOW_MS, 9).unwrap();
            append_in(&log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
        }
        log.roll(NOW_MS).unwrap();
        compact(&log, 0, now_ms);
        assert_eq!(records(&log).len(), left, "{} ms later", now_ms - NOW_MS);
    }
}

#[test]
fn compaction_is_due_by_ratio_or_by_age() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for i in 0..20 {
        put(&log, &[("a", Some(&i.to_string()))]);
    }
    log.roll(NOW_MS).unwrap();
    let due = |first_dirty, now_ms| {
        log.cleaned_to.store(first_dirty, Ordering::Release);
        log.compactable(log.log_end_offset(), now_ms).unwrap().is_due
    };
    assert!(due(0, NOW_MS));
    assert!(!due(19, NOW_MS));
    assert!(!due(20, NOW_MS));
    // No share is above all.
    log.set_config(Arc::new(LogConfig { min_cleanable_dirty_ratio: 1.0, ..config() }));
    assert!(!due(0, NOW_MS));
    log.set_config(Arc::new(LogConfig { max_compaction_lag_ms: 50, ..config() }));
    assert!(due(19, NOW_MS + 51));
    assert!(!due(19, NOW_MS + 50));
}

#[test]
fn a_full_map_leaves_the_rest_for_the_next_time() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 10_000, ..config() });
    let log = fixture.fresh();
    for round in 0..2 {
        for key in ["a", "b", "c", "d"] {
            put(&log, &[(key, Some(&round.to_string()))]);
        }
    }
    log.roll(NOW_MS).unwrap();
    let before = last_values(&records(&log));
    for _ in 0..8 {
        let first_dirty = log.cleaned_to();
        let done = log.compact(Offset(8), NOW_MS, 2).unwrap();
        assert!(done.cleaned_to > first_dirty || first_dirty == Offset(8));
        assert_eq!(last_values(&records(&log)), before);
    }
    assert_eq!(log.cleaned_to(), Offset(8));
}

#[test]
fn a_compacted_log_opens_again_cleanly_or_not() {
    for clean in [true, false] {
        let fixture = Fixture::new(config());
        let log = fixture.fresh();
        for i in 0..40 {
            put(&log, &[("a", Some(&i.to_string())), (if i % 7 == 0 { "b" } else { "c" }, None)]);
        }
        log.roll(NOW_MS).unwrap();
        compact(&log, 0, NOW_MS);
        put(&log, &[("z", Some("1"))]);
        let before = records(&log);
        log.close(clean).unwrap();
        drop(log);
        let (log, report) = fixture.open(OpenState { clean, ..OpenState::default() });
        assert_eq!(report.truncated_bytes, 0);
        assert_eq!(records(&log), before);
        for from in 0..log.log_end_offset().0 {
            assert!(log.read(Offset(from), 1, log.log_end_offset(), true).unwrap().bytes > 0);
        }
    }
}

#[test]
fn a_reader_that_holds_an_old_segment_reads_it_to_its_end() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for i in 0..20 {
        put(&log, &[("a", Some(&i.to_string()))]);
    }
    log.roll(NOW_MS).unwrap();
    let (old, _) = log.segment_at(Offset(0)).unwrap();
    old.close_file();
    compact(&log, 0, NOW_MS);
    // Opened again, it is the old file and not the one that took its name.
    let (position, header) = old.locate(Offset(0)).unwrap().unwrap();
    assert_eq!((position.0, header.base_offset, header.record_count), (0, Offset(0), 1));
    log.remove_deleted(i64::MAX).unwrap();
    old.close_file();
    assert!(matches!(old.file(), Err(LogError::Closed { .. })));
    assert_eq!(records(&log).len(), 1);
}

#[test]
fn positions_at_the_tail_are_those_of_the_new_file() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    // The first read makes the ring of the last batches; it then knows all that follow.
    log.read(Offset(0), 1, Offset(0), true).unwrap();
    put(&log, &[("x", Some("0"))]);
    records(&log);
    for i in 1..20 {
        put(&log, &[(if i % 3 == 0 { "a" } else { "b" }, Some(&i.to_string()))]);
    }
    log.roll(NOW_MS).unwrap();
    compact(&log, 0, NOW_MS);
    for from in 0..20 {
        let read = log.read(Offset(from), u32::MAX, log.log_end_offset(), true).unwrap();
        let bytes = read.slices[0].read().unwrap();
        let batch = Batches::new(&bytes).next().unwrap().unwrap();
        batch.verify_crc().unwrap();
        assert!(batch.last_offset() >= Offset(from), "offset {from}");
    }
}

#[test]
fn truncation_during_a_compaction_voids_it() {
    let fixture = Fixture::new(config());
    let log = fixture.fresh();
    for i in 0..20 {
        put(&log, &[("a", Some(&i.to_string()))]);
    }
    log.roll(NOW_MS).unwrap();
    let segments = log.segments.read().clone();
    let mut done = Compacted::default();
    let (keys, config) = (KeyOffsets::new(10), config());
    let mut rules = rewrite::Rules {
        keys: &keys,
        config: &config,
        now_ms: NOW_MS,
        truncations: 0,
        left_alone: false,
    };
    truncate(&log, 1);
    log.rewrite_group(&segments[1..2], &mut rules, &mut done).unwrap();
    // The segment that was cut, and the one that begins there.
    assert_eq!(log.segment_count(), 2);
    assert_eq!(records(&log).len(), 1);
    append(&log, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn compaction_agrees_with_a_map(
        writes in prop::collection::vec((0_u8..12, any::<bool>(), 1_usize..4), 1..120),
        rounds in 1_usize..4, codec in 0_u8..5,
    ) {
        let fixture = Fixture::new(config());
        let log = fixture.fresh();
        let mut expected: BTreeMap<String, (i64, Option<String>)> = BTreeMap::new();
        for round in writes.chunks(writes.len().div_ceil(rounds)) {
            for (key, tombstone, count) in round {
                let key = format!("key {key}");
                let value = (!tombstone).then_some("value");
                let batch = vec![(key.as_str(), value); *count];
                let codec = Codec::from_id(codec).expect("exists");
                let done = append_in(&log, &keyed(codec, &batch), LeaderEpoch(0), NOW_MS);
                let last = done.expect("appends").last_offset.0;
                expected.insert(key.clone(), (last, value.map(str::to_string)));
            }
            log.roll(NOW_MS).expect("rolls");
            // The clock stands still, so tombstones stay.
            log.compact(log.log_end_offset(), NOW_MS, MAX_KEYS).expect("compacts");
            let there = records(&log);
            prop_assert_eq!(there.len(), expected.len());
            prop_assert_eq!(last_values(&there), expected.clone());
        }
    }
}

/// Appends two records of the key `b` that inflate beyond what a compaction holds.
fn put_bomb(log: &CommitLog) {
    let mut bomb = RecordBatchBuilder::new(Codec::Gzip);
    let zeros = vec![0; HELD_BYTES];
    bomb.append(NOW_MS, Some(b"b"), Some(&zeros), &[]);
    bomb.append(NOW_MS, Some(b"b"), Some(b"last"), &[]);
    let bytes = bomb.build(Offset(0), LeaderEpoch(-1)).unwrap();
    assert!(bytes.len() * HELD_RATIO < HELD_BYTES);
    let batch = validate(&bytes, &config(), NOW_MS, 9).unwrap();
    append_in(log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
}

/// Base offsets of batches.
fn batches(log: &CommitLog) -> Vec<i64> {
    let bytes = all_bytes(log);
    Batches::new(&bytes).map(|batch| batch.unwrap().header().base_offset.0).collect()
}

/// A cleaner once held what a batch inflates to, whatever that was.
#[test]
fn a_batch_that_inflates_beyond_what_is_held_stays_and_what_is_around_it_is_compacted() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let log = fixture.fresh();
    put(&log, &[("a", Some("1"))]);
    put(&log, &[("a", Some("2"))]);
    put_bomb(&log);
    put(&log, &[("b", Some("3"))]);
    log.roll(NOW_MS).unwrap();
    let done = compact(&log, 0, NOW_MS);
    assert_eq!((done.cleaned_to, done.records_removed), (Offset(5), 1));
    assert_eq!(batches(&log), [1, 2, 4]);
}

/// The tombstone of a key went while a value of that key stayed, in a batch before it that was left
/// alone: the deleted key came back.
#[test]
fn a_tombstone_above_a_batch_that_is_left_alone_stays() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let log = fixture.fresh();
    put(&log, &[("a", Some("1"))]);
    put(&log, &[("a", None)]); // 1: below the batch
    put_bomb(&log); // 2 and 3
    put(&log, &[("b", None)]); // 4: deletes what the batch holds
    put(&log, &[("z", Some("1"))]); // 5
    log.roll(NOW_MS).unwrap();
    let first = compact(&log, 0, NOW_MS);
    assert_eq!(batches(&log), [1, 2, 4, 5]);
    put(&log, &[("y", Some("1"))]); // 6
    log.roll(NOW_MS).unwrap();
    compact(&log, first.cleaned_to.0, NOW_MS + config().delete_retention_ms);
    assert_eq!(batches(&log), [2, 4, 5, 6]);
}

/// A segment that compaction wrote was as young as the compaction, so that records without
/// timestamps outlived their retention by it.
#[test]
fn a_compacted_segment_is_as_old_as_those_it_replaces() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let log = fixture.fresh();
    put(&log, &[("a", Some("1"))]);
    put(&log, &[("a", Some("2"))]);
    log.roll(NOW_MS).unwrap();
    compact(&log, 0, NOW_MS + YEAR_MS);
    assert_eq!(log.segments.read()[0].modified_ms(), NOW_MS);
    log.close(true).unwrap();
    let (log, _) = fixture.open(OpenState { clean: true, ..OpenState::default() });
    assert_eq!(log.segments.read()[0].modified_ms(), NOW_MS);
}

/// The header that stays of a producer's last batch keeps its timestamp and has no record. So the
/// log found no record with the largest timestamp.
#[test]
fn the_largest_timestamp_is_that_of_a_record() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let log = fixture.fresh();
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0);
    builder.append(NOW_MS + 1_000, Some(b"a"), Some(b"1"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    let batch = validate(&bytes, &config(), NOW_MS, 9).unwrap();
    append_in(&log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
    put(&log, &[("b", Some("1"))]);
    put(&log, &[("a", Some("2"))]);
    log.roll(NOW_MS).unwrap();
    compact(&log, 0, NOW_MS);
    assert_eq!(batches(&log), [0, 1, 2]);
    let newest = |log: &CommitLog| {
        let found = log.offset_of_max_timestamp().unwrap().expect("there are records");
        (found.offset, found.timestamp_ms)
    };
    assert_eq!(newest(&log), (Offset(1), NOW_MS));
    log.close(true).unwrap();
    let (log, _) = fixture.open(OpenState { clean: true, ..OpenState::default() });
    assert_eq!(newest(&log), (Offset(1), NOW_MS));
}

fn snapshots(log: &CommitLog) -> usize {
    let names = std::fs::read_dir(log.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".snapshot")).count()
}

/// Every roll wrote a snapshot of the producers, and none was ever removed in a compacted log.
#[test]
fn compaction_takes_the_snapshots_of_the_segments_it_replaces() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 600, ..config() });
    let log = fixture.fresh();
    for i in 0..60 {
        put(&log, &[("a", Some(&i.to_string()))]);
    }
    log.roll(NOW_MS).unwrap();
    let before = (log.segment_count(), snapshots(&log));
    // The first makes segments small, the second puts them together.
    let first = compact(&log, 0, NOW_MS);
    put(&log, &[("b", Some("1"))]);
    log.roll(NOW_MS).unwrap();
    compact(&log, first.cleaned_to.0, NOW_MS);
    assert!(before.0 > 5 && before.1 > 5 && log.segment_count() < 4, "{before:?}");
    assert!(snapshots(&log) <= log.segment_count() + 1, "{} stay", snapshots(&log));
}

/// Puts a record at the log's end, and so many offsets without one behind it.
fn put_and_skip(log: &CommitLog, key: &str, skipped: i32) {
    let mut batch = keyed(Codec::None, &[(key, Some("1"))]);
    batch.header.last_offset_delta = skipped;
    batch.header.seal(&batch.payload);
    append_in(log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
}

/// The span of a group of segments was bounded by the start of its last segment. Later records
/// could lie farther from the group's start than a segment can express, and no fetch found them.
#[test]
fn segments_that_span_too_many_offsets_together_stay_apart() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 1 << 20, ..config() });
    let log = fixture.fresh();
    put_and_skip(&log, "a", (1 << 30) - 2);
    log.roll(NOW_MS).unwrap();
    put_and_skip(&log, "a", i32::MAX - 10);
    let far = put(&log, &[("b", Some("1"))]);
    log.roll(NOW_MS).unwrap();
    put(&log, &[("c", Some("1"))]);
    let before = last_values(&records(&log));
    compact(&log, 0, NOW_MS);
    assert_eq!(last_values(&records(&log)), before);
    assert_eq!(read_all(&log, far), [far, far + 1]);
}

/// A compaction whose first group lost a segment to a deletion went on with the next group, and
/// called both compacted. The tombstone in the next group went when its time was over, and the
/// value in the first came back.
#[test]
fn a_tombstone_stays_as_long_as_the_value_that_a_deletion_kept_from_compaction() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
    let state = OpenState::default();
    let log = CommitLog::open(&log_dir, "t-0", Arc::new(config()), state, NOW_MS).unwrap().0;
    let log = Arc::new(log);
    // The first two fit into one segment together, the third does not.
    for keys in [&["x"][..], &["k", "a", "b", "c"], &["k", "d", "e", "f"]] {
        for (i, key) in keys.iter().enumerate() {
            let is_deleted = i == 0 && keys.contains(&"d");
            put(&log, &[(key, Some("1").filter(|_| !is_deleted))]);
        }
        log.roll(NOW_MS).unwrap();
    }
    let deleting = log.clone();
    storage.beside_next_read(move || {
        deleting.delete_records(Offset(1), NOW_MS).unwrap();
    });
    log.compact(log.log_end_offset(), NOW_MS, MAX_KEYS).unwrap();
    assert_eq!(log.log_start_offset(), Offset(1));
    for now_ms in [NOW_MS + 2_000, NOW_MS + 4_000] {
        put(&log, &[("z", Some("1"))]);
        log.roll(NOW_MS).unwrap();
        log.compact(log.log_end_offset(), now_ms, MAX_KEYS).unwrap();
        let (_, value) = last_values(&records(&log)).remove("k").unwrap_or_default();
        assert_eq!(value, None);
    }
}

/// A compaction joined the segments of a read while the read went on. The read then took the
/// segment after all of them for its next one: the consumer never saw the records in between.
#[test]
fn a_read_beside_a_compaction_skips_no_record() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
    let state = OpenState::default();
    let log = CommitLog::open(&log_dir, "t-0", Arc::new(config()), state, NOW_MS).unwrap().0;
    let log = Arc::new(log);
    for key in ["a", "b", "c", "d"] {
        put(&log, &[(key, Some("1"))]);
        log.roll(NOW_MS).unwrap();
    }
    put(&log, &[("e", Some("1"))]);
    for from in 0..5 {
        let (reading, compacting) = (log.clone(), log.clone());
        storage.beside_next_read(move || {
            compacting.compact(compacting.log_end_offset(), NOW_MS, MAX_KEYS).unwrap();
        });
        let read = reading.read(Offset(from), u32::MAX, Offset(5), true).unwrap();
        let bytes: Vec<u8> = read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
        let got: Vec<_> =
            Batches::new(&bytes).map(|batch| batch.unwrap().base_offset().0).collect();
        assert!(!got.is_empty());
        let expected: Vec<_> = (got[0]..=from.max(*got.last().unwrap())).collect();
        assert_eq!(got, expected, "from {from}");
    }
}

/// Retention moved the log's start into a segment that compaction had just joined. Nothing was
/// deleted, nothing was written, and after a crash the log started lower again.
#[test]
fn retention_beside_a_compaction_deletes_whole_segments() {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 100).unwrap();
    let config = Arc::new(LogConfig { cleanup_delete: true, retention_ms: 1_000, ..config() });
    let open = |state| CommitLog::open(&log_dir, "t-0", config.clone(), state, NOW_MS).unwrap().0;
    let log = open(OpenState::default());
    for i in 0..4 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        builder.append(NOW_MS + 1_000 * i, Some(b"a"), Some(b"1"), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validate(&bytes, &config, NOW_MS + 1_000 * i, 9).unwrap();
        append_in(&log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
        log.roll(NOW_MS).unwrap();
    }
    log.close(true).unwrap();
    let log = Arc::new(open(OpenState { clean: true, ..OpenState::default() }));
    // Their indexes are read already.
    (0..4).for_each(|from| drop(log.lookup_range(Offset(from))));
    let compacting = log.clone();
    storage.beside_next_read(move || {
        compacting.compact(Offset(4), NOW_MS, MAX_KEYS).unwrap();
    });
    // The first two are too old now.
    log.retain(NOW_MS + 2_500, Offset(4)).unwrap();
    assert_eq!(log.segment_count(), 2, "compaction joined four");
    assert_eq!(log.log_start_offset(), Offset(0));
}
