#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;

use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatch, RecordBatchBuilder};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::batch_scan::READ_BYTES;
use crate::storage::RealStorage;
use crate::validation::{ValidatedBatch, validate};

mod names;
mod recovering;

const NOW_MS: i64 = 1_700_000_000_000;
const EPOCH: LeaderEpoch = LeaderEpoch(4);

pub(crate) struct Fixture {
    pub(crate) temp: TempDir,
    pub(crate) log_dir: Arc<LogDir>,
    pub(crate) config: Arc<LogConfig>,
}

impl Fixture {
    pub(crate) fn new(config: LogConfig) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 100).unwrap();
        Self { temp, log_dir, config: Arc::new(config) }
    }

    pub(crate) fn open(&self, state: OpenState) -> (CommitLog, RecoveryReport) {
        CommitLog::open(&self.log_dir, "t-0", self.config.clone(), state, NOW_MS).unwrap()
    }

    pub(crate) fn fresh(&self) -> CommitLog {
        self.open(OpenState::default()).0
    }
}

/// Segments of 1,000 bytes with an index entry for every 100.
pub(crate) fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 1_000, index_interval_bytes: 100, ..LogConfig::default() }
}

/// A batch as a client sends it: `records` records of 10 bytes each, the last at `timestamp_ms`.
pub(crate) fn batch_at(records: i32, timestamp_ms: i64) -> ValidatedBatch {
    produced(RecordBatchBuilder::new(Codec::None), records, timestamp_ms)
}

pub(crate) fn produced(
    mut builder: RecordBatchBuilder,
    records: i32,
    timestamp_ms: i64,
) -> ValidatedBatch {
    for i in 0..records {
        builder.append(
            timestamp_ms + i64::from(i - records + 1),
            Some(b"key"),
            Some(b"0123456789"),
            &[],
        );
    }
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validate(&bytes, &LogConfig::default(), timestamp_ms, 9).unwrap()
}

pub(crate) fn append(log: &CommitLog, records: i32) -> Appended {
    log.append(&batch_at(records, NOW_MS), EPOCH, NOW_MS).unwrap()
}

/// Base offsets of all whole batches that a read from `from` gives.
pub(crate) fn read_all(log: &CommitLog, from: i64) -> Vec<i64> {
    let read = log.read(Offset(from), u32::MAX, log.log_end_offset(), true).unwrap();
    bases(&read)
}

fn bytes_of(read: &ReadResult) -> Vec<u8> {
    read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect()
}

fn bases(read: &ReadResult) -> Vec<i64> {
    let bytes = bytes_of(read);
    Batches::new(&bytes)
        .map(|batch| {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            batch.base_offset().0
        })
        .collect()
}

#[test]
fn appended_batches_read_back_with_their_offsets_and_epoch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let first = append(&log, 3);
    let second = append(&log, 2);
    assert_eq!((first.base_offset, first.last_offset), (Offset(0), Offset(2)));
    assert_eq!((second.base_offset, second.end_offset()), (Offset(3), Offset(5)));
    assert_eq!(log.log_end_offset(), Offset(5));
    let read = log.read(Offset(0), u32::MAX, Offset(5), true).unwrap();
    let bytes = bytes_of(&read);
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        batch.verify_crc().unwrap();
        assert_eq!(batch.header().leader_epoch, EPOCH);
    }
    assert_eq!(bases(&read), [0, 3]);
    assert_eq!(u64::from(read.bytes), log.size_bytes());
}

#[test]
fn a_read_starts_at_the_batch_that_holds_the_offset() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..50 {
        append(&log, 3);
    }
    assert!(log.segment_count() > 3);
    for from in 0..150 {
        assert_eq!(read_all(&log, from)[0], from / 3 * 3, "offset {from}");
    }
    assert!(read_all(&log, 150).is_empty());
}

#[test]
fn the_look_up_range_holds_all_that_a_read_reads_to_find_its_start() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..49 {
        append(&log, 3);
    }
    assert_eq!(read_all(&log, 146), [144], "from the first read on, newest batches are known");
    append(&log, 3);
    assert!(log.lookup_range(Offset(148)).is_none());
    log.close(true).unwrap();
    // The ring of the newest batches begins anew.
    let log = fixture.open(OpenState { clean: true, ..OpenState::default() }).0;
    for from in 0..150 {
        let range = log.lookup_range(Offset(from)).unwrap();
        let start = log.read(Offset(from), 1, Offset(150), true).unwrap().slices.remove(0);
        assert!(Arc::ptr_eq(&range.file, &start.file), "offset {from}");
        let file_end = rustix::fs::fstat(range.file.as_fd()).unwrap().st_size as u64;
        let end = (start.position + READ_BYTES as u64).min(file_end);
        let within =
            range.position <= start.position && end <= range.position + u64::from(range.length);
        assert!(within, "offset {from}: {start:?} is not in {range:?}");
    }
    assert!(log.lookup_range(Offset(150)).is_none(), "nothing is read at the end");
}

#[test]
fn a_slice_says_when_it_was_written_if_it_was_lately() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    append(&log, 3);
    let written = |from| {
        let read = log.read(Offset(from), u32::MAX, log.log_end_offset(), true).unwrap();
        read.slices.iter().map(|slice| slice.written_ms).collect::<Vec<_>>()
    };
    assert_eq!(written(0), [None], "nobody had read yet, so nobody took notes");
    append(&log, 3);
    assert_eq!(written(3), [Some(NOW_MS)]);
    log.roll(NOW_MS).unwrap();
    append(&log, 3);
    assert_eq!(written(3), [Some(NOW_MS); 2], "what follows was written later");
    assert_eq!(written(0), [None; 2]);
}

#[test]
fn a_read_beyond_either_end_is_out_of_range() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 3);
    log.delete_records(Offset(1), NOW_MS).unwrap();
    for from in [-1, 0, 4] {
        let outcome = log.read(Offset(from), 100, Offset(3), true);
        assert!(matches!(outcome, Err(LogError::OffsetOutOfRange { .. })), "offset {from}");
    }
    assert_eq!(log.read(Offset(3), 100, Offset(3), true).unwrap().bytes, 0);
}

#[test]
fn nothing_at_or_above_the_upper_bound_is_read() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..40 {
        append(&log, 2);
    }
    // With and without the ring of the last batches.
    for upper in (0..=80).step_by(2) {
        let read = log.read(Offset(0), u32::MAX, Offset(upper), true).unwrap();
        assert_eq!(bases(&read).len() as i64, upper / 2, "upper {upper}");
    }
    for _ in 0..40 {
        append(&log, 2);
    }
    for upper in (80..=160).step_by(2) {
        let read = log.read(Offset(80), u32::MAX, Offset(upper), true).unwrap();
        assert_eq!(bases(&read).len() as i64, (upper - 80) / 2, "upper {upper}");
    }
}

#[test]
fn max_bytes_cuts_anywhere_but_in_the_first_batch() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let size = append(&log, 3).bytes;
    append(&log, 3);
    let read = |max, min_one| log.read(Offset(0), max, Offset(6), min_one).unwrap().bytes;
    assert_eq!(read(1, true), size);
    assert_eq!(read(1, false), 0);
    assert_eq!(read(size + 10, false), size + 10);
    assert_eq!(read(u32::MAX, false), 2 * size);
}

#[test]
fn several_batches_are_appended_as_if_one_by_one() {
    let fixture = Fixture::new(small_segments());
    let (one_by_one, together) = (fixture.fresh(), Fixture::new(small_segments()));
    let together_log = together.fresh();
    let batches: Vec<_> = (1..100).map(|i| batch_at(i % 5 + 1, NOW_MS + i64::from(i))).collect();
    let results = together_log.append_all(&batches, EPOCH, NOW_MS);
    for (batch, result) in batches.iter().zip(results) {
        let single = one_by_one.append(batch, EPOCH, NOW_MS).unwrap();
        assert_eq!(result.unwrap(), single);
    }
    assert_eq!(read_all(&one_by_one, 0), read_all(&together_log, 0));
    assert_eq!(one_by_one.segment_count(), together_log.segment_count());
}

#[test]
fn a_batch_sent_again_gets_its_first_offset_and_is_not_written_again() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let batch = |sequence| {
        produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence), 2, NOW_MS)
    };
    let first = log.append(&batch(0), EPOCH, NOW_MS).unwrap();
    let second = log.append(&batch(2), EPOCH, NOW_MS).unwrap();
    let again = log.append(&batch(0), EPOCH, NOW_MS).unwrap();
    assert_eq!((again.base_offset, again.last_offset), (first.base_offset, first.last_offset));
    assert!(again.duplicate);
    assert_eq!(log.log_end_offset(), second.end_offset());
    let gap = log.append(&batch(6), EPOCH, NOW_MS);
    assert!(matches!(gap, Err(LogError::OutOfOrderSequence { .. })));
}

#[test]
fn appends_of_many_threads_each_get_their_own_result() {
    const THREADS: i64 = 4;
    const BATCHES: i32 = 300;
    let fixture = Fixture::new(LogConfig { segment_bytes: 20_000, ..LogConfig::default() });
    let log = fixture.fresh();
    let results: Vec<Vec<(i64, i32, Offset)>> = std::thread::scope(|scope| {
        let append_as = |id: i64| {
            let log = &log;
            let one = move |i: i32| {
                let builder = RecordBatchBuilder::new(Codec::None).producer(id, 0, i);
                let batch = produced(builder, 1, NOW_MS);
                (id, i, log.append(&batch, EPOCH, NOW_MS).unwrap().base_offset)
            };
            move || (0..BATCHES).map(one).collect()
        };
        let threads: Vec<_> = (0..THREADS).map(|id| scope.spawn(append_as(id))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut expected: Vec<_> = results.into_iter().flatten().collect();
    expected.sort_by_key(|(.., offset)| *offset);
    let end = Offset(THREADS * i64::from(BATCHES));
    let bytes = bytes_of(&log.read(Offset(0), u32::MAX, end, true).unwrap());
    let there: Vec<_> = Batches::new(&bytes)
        .map(|batch| *batch.unwrap().header())
        .map(|header| (header.producer_id, header.base_sequence, header.base_offset))
        .collect();
    assert_eq!(there, expected);
    assert_eq!(log.log_end_offset(), end);
}

#[test]
fn one_bad_batch_of_several_does_not_keep_the_others_out() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    let batch = |sequence| {
        produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence), 2, NOW_MS)
    };
    let results = log.append_all(&[batch(0), batch(7), batch(0), batch(2)], EPOCH, NOW_MS);
    assert_eq!(results[0].as_ref().unwrap().base_offset, Offset(0));
    assert!(matches!(results[1], Err(LogError::OutOfOrderSequence { .. })));
    assert!(results[2].as_ref().unwrap().duplicate);
    assert_eq!(results[3].as_ref().unwrap().base_offset, Offset(2));
}

#[test]
fn an_older_leader_epoch_is_refused() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 1);
    let stale = log.append(&batch_at(1, NOW_MS), LeaderEpoch(3), NOW_MS);
    assert!(matches!(stale, Err(LogError::StaleLeaderEpoch { .. })));
    log.append(&batch_at(1, NOW_MS), LeaderEpoch(6), NOW_MS).unwrap();
    let end = log.end_offset_for_epoch(LeaderEpoch(5)).unwrap();
    assert_eq!((end.epoch, end.end_offset), (EPOCH, Offset(1)));
}

#[test]
fn a_segment_rolls_by_size_time_and_index() {
    let base = LogConfig { index_interval_bytes: 0, ..LogConfig::default() };
    let table = [
        ("size", LogConfig { segment_bytes: 200, ..base.clone() }, 0, 3),
        ("time", LogConfig { segment_ms: 9, ..base.clone() }, 10, 3),
        ("not yet", LogConfig { segment_ms: 10, ..base.clone() }, 10, 2),
        ("index", LogConfig { segment_index_bytes: 12, ..base.clone() }, 0, 2),
        ("nothing", base, 0, 1),
    ];
    for (why, config, step_ms, segments) in table {
        let fixture = Fixture::new(config);
        let log = fixture.fresh();
        for i in 0..3 {
            log.append(&batch_at(1, NOW_MS + i * step_ms), EPOCH, NOW_MS).unwrap();
            log.append(&batch_at(1, NOW_MS + i * step_ms), EPOCH, NOW_MS).unwrap();
        }
        let expected = if why == "index" { log.segment_count().max(segments) } else { segments };
        assert_eq!(log.segment_count(), expected, "{why}");
    }
}

#[test]
fn a_timestamp_finds_the_first_record_at_or_after_it() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    // Batch i holds the timestamps i*100-2, -1 and i*100 at offsets 3i-3 to 3i-1.
    for i in 1..=40 {
        log.append(&batch_at(3, i * 100), EPOCH, NOW_MS).unwrap();
    }
    for i in 1..=40 {
        for (timestamp, offset) in
            [(i * 100 - 50, 3 * i - 3), (i * 100 - 1, 3 * i - 2), (i * 100, 3 * i - 1)]
        {
            let found = log.offset_for_timestamp(timestamp).unwrap().unwrap();
            assert_eq!(found.offset, Offset(offset), "timestamp {timestamp}");
            assert!(found.timestamp_ms >= timestamp);
            assert_eq!(found.leader_epoch, EPOCH);
        }
    }
    assert_eq!(log.offset_for_timestamp(4_001).unwrap(), None);
    let max = log.offset_of_max_timestamp().unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp_ms), (Offset(119), 4_000));
}

#[test]
fn bytes_between_is_exact_at_the_tail() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    log.read(Offset(0), 1, Offset(0), true).unwrap();
    let mut ends = vec![(0, 0)];
    append(&log, 1);
    read_all(&log, 0);
    ends.push((1, log.size_bytes()));
    for _ in 0..30 {
        let end = append(&log, 2).end_offset().0;
        ends.push((end, log.size_bytes()));
    }
    for (from, before) in &ends[1..] {
        for (to, after) in &ends[1..] {
            let expected = after.saturating_sub(*before);
            assert_eq!(log.bytes_between(Offset(*from), Offset(*to)), expected, "{from} to {to}");
        }
    }
}

#[test]
fn truncation_drops_the_offset_and_what_follows() {
    let fixture = Fixture::new(small_segments());
    for at in [1, 2, 30, 31, 59, 60, 61, 99] {
        let name = format!("t-{at}");
        let config = fixture.config.clone();
        let (log, _) =
            CommitLog::open(&fixture.log_dir, &name, config, OpenState::default(), NOW_MS).unwrap();
        for _ in 0..50 {
            append(&log, 2);
        }
        read_all(&log, 0);
        log.truncate_to(Offset(at), NOW_MS).unwrap();
        let end = at / 2 * 2;
        assert_eq!(log.log_end_offset(), Offset(end), "truncated to {at}");
        assert_eq!(read_all(&log, 0).len() as i64, end / 2);
        assert_eq!(append(&log, 2).base_offset, Offset(end));
        assert_eq!(*read_all(&log, 0).last().unwrap(), end);
    }
}

#[test]
fn truncation_takes_the_producers_back() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let batch = |sequence| {
        produced(RecordBatchBuilder::new(Codec::None).producer(9, 0, sequence), 2, NOW_MS)
    };
    for i in 0..30 {
        log.append(&batch(2 * i), EPOCH, NOW_MS).unwrap();
    }
    log.truncate_to(Offset(20), NOW_MS).unwrap();
    assert_eq!(log.producers()[0].last_sequence, 19);
    assert_eq!(log.append(&batch(20), EPOCH, NOW_MS).unwrap().base_offset, Offset(20));
}

#[test]
fn deleted_records_cannot_be_read_and_their_segments_go_later() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..50 {
        append(&log, 2);
    }
    let before = log.segment_count();
    let held = log.read(Offset(0), 100, Offset(100), true).unwrap();
    assert_eq!(log.delete_records(Offset(51), NOW_MS).unwrap(), Offset(51));
    assert!(log.segment_count() < before);
    assert!(matches!(
        log.read(Offset(50), 1, Offset(100), true),
        Err(LogError::OffsetOutOfRange { .. })
    ));
    assert_eq!(read_all(&log, 51)[0], 50);
    let deleted = |suffix| {
        let names = std::fs::read_dir(log.path()).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(suffix)).count()
    };
    assert!(deleted(".deleted") > 0);
    let delay_ms = fixture.config.file_delete_delay_ms;
    assert_eq!(log.remove_deleted(NOW_MS + delay_ms - 1).unwrap(), 0);
    assert!(log.remove_deleted(NOW_MS + delay_ms).unwrap() > 0);
    assert_eq!(deleted(".deleted"), 0);
    // A slice that is still being sent keeps its bytes.
    assert_eq!(held.slices[0].read().unwrap().len() as u32, held.bytes);
    let beyond = log.delete_records(Offset(101), NOW_MS);
    assert!(matches!(beyond, Err(LogError::OffsetOutOfRange { .. })));
}

#[test]
fn no_more_files_stay_open_than_allowed() {
    let temp = tempfile::tempdir().unwrap();
    let log_dir = LogDir::open(temp.path(), Arc::new(RealStorage), 5).unwrap();
    let config = Arc::new(LogConfig::default());
    let logs: Vec<_> = (0..20)
        .map(|i| {
            let name = format!("t-{i}");
            CommitLog::open(&log_dir, &name, config.clone(), OpenState::default(), NOW_MS)
                .unwrap()
                .0
        })
        .collect();
    for _ in 0..3 {
        for log in &logs {
            append(log, 1);
            assert!(log_dir.files().open_count() <= 5);
        }
    }
    for log in &logs {
        assert_eq!(read_all(log, 0), [0, 1, 2]);
    }
}

#[test]
fn a_second_process_finds_the_directory_locked() {
    let fixture = Fixture::new(LogConfig::default());
    let second = LogDir::open(fixture.temp.path(), Arc::new(RealStorage), 5);
    assert!(matches!(second, Err(LogError::Locked { .. })));
}

#[test]
fn a_closed_log_takes_and_gives_nothing() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    append(&log, 1);
    let path = log.rename_and_close("t-0.0123-delete").unwrap();
    assert!(path.ends_with("t-0.0123-delete") && path.exists());
    assert!(matches!(log.read(Offset(0), 1, Offset(1), true), Err(LogError::Closed { .. })));
    let refused = log.append(&batch_at(1, NOW_MS), EPOCH, NOW_MS);
    assert!(matches!(refused, Err(LogError::Closed { .. })));
}

/// DeleteRecords wrote the leader epochs while a flush did; the one renamed the other's temporary
/// file, "No such file" took the log directory offline, and no topic could be created any more.
#[test]
fn deleting_records_beside_a_flush_keeps_the_directory_online() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    for epoch in 0..300 {
        log.append(&batch_at(1, NOW_MS), LeaderEpoch(epoch), NOW_MS).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                log.flush_all().unwrap();
            }
        });
        for offset in 1..300 {
            log.delete_records(Offset(offset), NOW_MS).unwrap();
        }
    });
    assert!(!fixture.log_dir.is_offline());
    assert_eq!(log.epochs().first().map(|first| first.start_offset), Some(Offset(299)));
}

#[test]
fn a_log_that_is_deleted_beside_a_flush_takes_nothing_offline() {
    let fixture = Fixture::new(small_segments());
    for round in 0..50 {
        let log = fixture.fresh();
        std::thread::scope(|scope| {
            let flushes = scope.spawn(|| {
                loop {
                    match log.flush_all() {
                        Ok(_) => {}
                        Err(LogError::Closed { .. }) => return,
                        Err(error) => panic!("{error}"),
                    }
                    if log.check_open().is_err() {
                        return;
                    }
                }
            });
            for _ in 0..20 {
                append(&log, 10);
            }
            let gone = log.rename_and_close(&format!("t-0.{round}-delete")).unwrap();
            std::fs::remove_dir_all(&*gone).unwrap();
            flushes.join().unwrap();
        });
        assert!(!log.log_dir().is_offline(), "round {round}");
    }
}

#[test]
fn readers_beside_a_writer_see_whole_batches_below_the_end_they_saw() {
    let fixture = Fixture::new(LogConfig { segment_bytes: 5_000, ..small_segments() });
    let log = fixture.fresh();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut from = 0;
                    while from < 2_000 {
                        let upper = log.log_end_offset();
                        let read = log.read(Offset(from), u32::MAX, upper, true).unwrap();
                        let bytes = bytes_of(&read);
                        for batch in Batches::new(&bytes) {
                            let batch = batch.unwrap();
                            batch.verify_crc().unwrap();
                            assert_eq!(batch.base_offset(), Offset(from));
                            assert!(batch.last_offset() < upper);
                            from = batch.last_offset().0 + 1;
                        }
                    }
                })
            })
            .collect();
        for i in 0..1_000 {
            append(&log, if i % 2 == 0 { 3 } else { 1 });
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn what_was_appended_is_read_whatever_the_layout(
        sizes in prop::collection::vec(1_i32..6, 1..80),
        segment_bytes in 300_u32..3_000, interval in 0_u32..1_000, max_bytes in 1_u32..2_000,
    ) {
        let base = LogConfig::default();
        let config = LogConfig { segment_bytes, index_interval_bytes: interval, ..base };
        let fixture = Fixture::new(config);
        let log = fixture.fresh();
        let appended = sizes.iter().map(|size| append(&log, *size).base_offset.0);
        let expected: Vec<i64> = appended.collect();
        let end = log.log_end_offset();
        let (mut next, mut seen) = (Offset(0), Vec::new());
        while next < end {
            let read = log.read(next, max_bytes, end, true).expect("in range");
            let bytes = bytes_of(&read);
            for batch in Batches::new(&bytes).flatten() {
                prop_assert_eq!(batch.base_offset(), next);
                seen.push(batch.base_offset().0);
                next = batch.header().next_offset();
            }
        }
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn a_payload_is_written_as_it_came() {
    let fixture = Fixture::new(LogConfig::default());
    let log = fixture.fresh();
    for codec in Codec::ALL {
        let mut builder = RecordBatchBuilder::new(codec);
        builder.append(NOW_MS, Some(b"k"), Some(&[7; 500]), &[("h", Some(b"v"))]);
        let sent: Bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let valid = validate(&sent, &LogConfig::default(), NOW_MS, 9).unwrap();
        let at = log.append(&valid, EPOCH, NOW_MS).unwrap().base_offset;
        let stored = bytes_of(&log.read(at, u32::MAX, log.log_end_offset(), true).unwrap());
        assert_eq!(stored[16..], sent[16..], "{codec:?}: only offset and epoch are ours");
        assert_eq!(RecordBatch::parse(&stored).unwrap().base_offset(), at);
    }
}

/// Blocks of 512 bytes that the active segment's file has.
fn blocks(log: &CommitLog) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let path = log.segments.read().last().unwrap().path(".log");
    std::fs::metadata(path).unwrap().blocks()
}

#[test]
fn reserved_blocks_change_no_length_and_are_given_back() {
    let fixture = Fixture::new(LogConfig { preallocate: true, ..LogConfig::default() });
    let log = fixture.fresh();
    append(&log, 1);
    log.set_config(Arc::new(LogConfig {
        segment_bytes: 8 << 20,
        preallocate: true,
        ..LogConfig::default()
    }));
    log.roll(NOW_MS).unwrap();
    append(&log, 1);
    let file = log.segments.read().last().unwrap().path(".log");
    assert_eq!(std::fs::metadata(&file).unwrap().len() * 2, log.size_bytes());
    // A file system that cannot reserve shows its few written blocks.
    assert!(blocks(&log) <= (8 << 20) / 512 + 16);
    log.close(true).unwrap();
    assert!(blocks(&log) <= 16, "{} blocks for a hundred bytes", blocks(&log));
}
