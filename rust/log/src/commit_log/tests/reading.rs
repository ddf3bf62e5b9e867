//! Reading: from offsets and times to batches, beside writers and whatever the layout.

use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;
use crate::awaited;
use crate::batch_scan::READ_BYTES;

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
    // The ring of the newest batches starts empty.
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
    assert_eq!(written(0), [None], "there was no read yet, so there are no notes");
    append(&log, 3);
    assert_eq!(written(3), [Some(NOW_MS)]);
    log.roll(NOW_MS).unwrap();
    append(&log, 3);
    assert_eq!(written(3), [Some(NOW_MS); 2], "what follows was written later");
    assert_eq!(written(0), [None; 2]);
}

/// A read opened all segments that its bytes reach. In a topic of many small ones it found no more
/// descriptors, and failed again each time that it was tried.
#[test]
fn a_read_of_many_small_segments_opens_a_few_of_them() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for _ in 0..100 {
        append(&log, 3);
        log.roll(NOW_MS).unwrap();
    }
    let (mut from, mut most) = (0, 0);
    while from < 300 {
        let read = log.read(Offset(from), u32::MAX, Offset(300), true).unwrap();
        most = most.max(read.slices.len());
        let read = bases(&read);
        assert!(read[0] == from && read.windows(2).all(|pair| pair[0] + 3 == pair[1]));
        from = read.last().unwrap() + 3;
    }
    assert_eq!(most, 16);
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
fn a_timestamp_finds_the_first_record_at_or_after_it() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    // Batch i holds the timestamps i*100-2, -1 and i*100 at offsets 3i-3 to 3i-1.
    for i in 1..=40 {
        let codec = if i % 2 == 0 { Codec::Zstd } else { Codec::None };
        let batch = produced(RecordBatchBuilder::new(codec), 3, i * 100);
        append_in(&log, &batch, EPOCH, NOW_MS).unwrap();
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

/// A fetch whose high watermark stands below the log's end would wait beside its records.
#[test]
fn bytes_between_of_an_unread_log_is_up_to_two_index_intervals_too_high() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let mut ends = vec![(0, 0)];
    for records in (1..=3).cycle().take(40) {
        let end = append(&log, records).end_offset().0;
        ends.push((end, log.size_bytes()));
    }
    let largest = ends.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap();
    let interval = u64::from(small_segments().index_interval_bytes) + largest;
    for (from, before) in &ends {
        for (to, after) in &ends {
            let counted = log.bytes_between(Offset(*from), Offset(*to));
            let exact = after.saturating_sub(*before);
            assert!((exact..=exact + 2 * interval).contains(&counted), "{from} to {to}: {counted}");
        }
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
                    let end = std::time::Instant::now() + awaited::LIMIT;
                    while from < 2_000 {
                        assert!(std::time::Instant::now() < end, "stuck at offset {from}");
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
