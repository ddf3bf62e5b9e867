//! Appending: offsets, epochs and sequences that are given and refused, and when a segment rolls.

use bytes::Bytes;
use kafkalite_protocol::record_batch::RecordBatch;

use super::*;
use crate::awaited;

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
fn several_batches_are_appended_as_if_one_by_one() {
    let fixture = Fixture::new(small_segments());
    let (one_by_one, together) = (fixture.fresh(), Fixture::new(small_segments()));
    let together_log = together.fresh();
    one_by_one.become_leader(EPOCH).unwrap();
    together_log.become_leader(EPOCH).unwrap();
    let batches: Vec<_> = (1..100).map(|i| batch_at(i % 5 + 1, NOW_MS + i64::from(i))).collect();
    let results = together_log.append_all(&batches, EPOCH, NOW_MS);
    for (batch, result) in batches.iter().zip(results) {
        let single = one_by_one.append_as_leader(batch, EPOCH, NOW_MS).unwrap();
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
    let first = append_in(&log, &batch(0), EPOCH, NOW_MS).unwrap();
    let second = append_in(&log, &batch(2), EPOCH, NOW_MS).unwrap();
    let again = append_in(&log, &batch(0), EPOCH, NOW_MS).unwrap();
    assert_eq!((again.base_offset, again.last_offset), (first.base_offset, first.last_offset));
    assert!(again.duplicate);
    assert_eq!(log.log_end_offset(), second.end_offset());
    let gap = append_in(&log, &batch(6), EPOCH, NOW_MS);
    assert!(matches!(gap, Err(LogError::OutOfOrderSequence { .. })));
}

#[test]
fn appends_of_many_threads_each_get_their_own_result() {
    const THREADS: i64 = 4;
    const BATCHES: i32 = 300;
    let fixture = Fixture::new(LogConfig { segment_bytes: 20_000, ..LogConfig::default() });
    let log = fixture.fresh();
    log.become_leader(EPOCH).unwrap();
    let _ends = awaited::within("the threads append");
    let results: Vec<Vec<(i64, i32, Offset)>> = std::thread::scope(|scope| {
        let append_as = |id: i64| {
            let log = &log;
            let one = move |i: i32| {
                let builder = RecordBatchBuilder::new(Codec::None).producer(id, 0, i);
                let batch = produced(builder, 1, NOW_MS);
                (id, i, log.append_as_leader(&batch, EPOCH, NOW_MS).unwrap().base_offset)
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
    log.become_leader(EPOCH).unwrap();
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
    let stale = append_in(&log, &batch_at(1, NOW_MS), LeaderEpoch(3), NOW_MS);
    assert!(matches!(stale, Err(LogError::StaleLeaderEpoch { .. })));
    append_in(&log, &batch_at(1, NOW_MS), LeaderEpoch(6), NOW_MS).unwrap();
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
        // What is taken off an age is never more than all of it.
        (
            "jitter",
            LogConfig { segment_ms: 1_000, segment_jitter_ms: i64::MAX, ..base.clone() },
            0,
            1,
        ),
        ("index", LogConfig { segment_index_bytes: 12, ..base.clone() }, 0, 2),
        ("nothing", base, 0, 1),
    ];
    for (why, config, step_ms, segments) in table {
        let fixture = Fixture::new(config);
        let log = fixture.fresh();
        for i in 0..3 {
            append_in(&log, &batch_at(1, NOW_MS + i * step_ms), EPOCH, NOW_MS).unwrap();
            append_in(&log, &batch_at(1, NOW_MS + i * step_ms), EPOCH, NOW_MS).unwrap();
        }
        let expected = if why == "index" { log.segment_count().max(segments) } else { segments };
        assert_eq!(log.segment_count(), expected, "{why}");
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
        let at = append_in(&log, &valid, EPOCH, NOW_MS).unwrap().base_offset;
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
