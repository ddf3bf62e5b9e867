#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::LeaderEpoch;

use super::*;
use crate::commit_log::tests::{Fixture, append_in, produced, small_segments};

const NOW_MS: i64 = 1_700_000_000_000;
const BATCHES: usize = 30;

/// A partition of several segments, two records a batch, in every codec; closed.
fn closed() -> (Fixture, PathBuf) {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    for i in 0..BATCHES {
        let builder = RecordBatchBuilder::new(Codec::ALL[i % 5]);
        let batch = produced(builder, 2, NOW_MS + i as i64);
        append_in(&log, &batch, LeaderEpoch(0), NOW_MS).unwrap();
    }
    log.close(true).unwrap();
    let path = log.path().to_path_buf();
    (fixture, path)
}

fn checks(path: &Path) -> Vec<SegmentCheck> {
    let segments = segments(path).unwrap();
    let last = segments.len() - 1;
    let check = |(at, segment)| check_segment(segment, at == last, &mut |_| true).unwrap();
    segments.iter().enumerate().map(check).collect()
}

fn overwrite(path: &Path, position: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, position).unwrap();
}

#[test]
fn batches_are_read_in_chunks_that_go_on_where_the_last_ended() {
    let (_fixture, path) = closed();
    let mut offsets = Vec::new();
    for segment in segments(&path).unwrap() {
        let mut next = Some(0);
        while let Some(position) = next {
            let chunk = read_batches(&segment.path, position, 1, true).unwrap();
            for batch in chunk.batches {
                assert_eq!((batch.flaw, batch.records.len()), (None, 2));
                offsets.extend(batch.records.iter().map(|record| record.offset.0));
            }
            next = chunk.next;
        }
    }
    assert_eq!(offsets, Vec::from_iter(0..2 * BATCHES as i64));
}

#[test]
fn a_sound_partition_has_no_problems() {
    let (_fixture, path) = closed();
    let checks = checks(&path);
    assert!(checks.len() > 2, "several segments");
    assert_eq!(checks.iter().map(|check| check.batches).sum::<u64>(), BATCHES as u64);
    assert_eq!(checks.iter().map(|check| check.records).sum::<u64>(), 2 * BATCHES as u64);
    assert!(checks.iter().map(|check| check.index_entries).sum::<u64>() > 0);
    assert!(checks.iter().all(|check| check.problems.is_empty()), "{checks:?}");
    assert_eq!(check_epochs(&path), None);
}

#[test]
fn zeros_end_the_newest_segment_and_damage_any_other() {
    let (_fixture, path) = closed();
    let all = segments(&path).unwrap();
    for segment in [&all[0], all.last().unwrap()] {
        overwrite(&segment.path, segment.bytes, &[0; 500]);
    }
    let checks = checks(&path);
    assert_eq!(checks[0].problems.len(), 1, "{:?}", checks[0].problems);
    let newest = checks.last().unwrap();
    assert_eq!((newest.problems.len(), newest.unused_bytes), (0, 500));
    let chunk = read_batches(&all.last().unwrap().path, newest.bytes, 1, false).unwrap();
    assert!(chunk.batches.is_empty() && chunk.next.is_none());
}

#[test]
fn damage_is_reported_with_its_place() {
    type Damage = fn(&SegmentEntry);
    let cases: [(&str, Damage); 4] = [
        ("position 0: ", |segment| overwrite(&segment.path, 70, &[0xff])),
        ("the offset index points here, and no batch starts here", |segment| {
            let entry = [0, 0, 0, 3, 0, 0, 0, 5];
            std::fs::write(segment.path.with_extension("index"), entry).unwrap();
        }),
        ("the offset index does not rise", |segment| {
            let entries = [[0, 0, 0, 9, 0, 0, 0, 9], [0, 0, 0, 8, 0, 0, 0, 8]].concat();
            std::fs::write(segment.path.with_extension("index"), entries).unwrap();
        }),
        ("the time index promises that nothing up to offset 1 is later than 5 ms", |segment| {
            let entry = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1];
            std::fs::write(segment.path.with_extension("timeindex"), entry).unwrap();
        }),
    ];
    for (told, damage) in cases {
        let (_fixture, path) = closed();
        damage(&segments(&path).unwrap()[0]);
        let checks = checks(&path);
        let problems = &checks[0].problems;
        assert!(problems.iter().any(|problem| problem.contains(told)), "{told}: {problems:?}");
        assert!(checks[1..].iter().all(|check| check.problems.is_empty()));
    }
}

#[test]
fn indexes_are_listed_in_offsets_of_the_log() {
    let (_fixture, path) = closed();
    let segment = &segments(&path).unwrap()[1];
    let base = segment.base_offset;
    let file = segment.path.with_extension("index");
    std::fs::write(&file, [[0, 0, 0, 3, 0, 0, 0, 90], [0; 8]].concat()).unwrap();
    let expected = IndexEntries::Offsets(vec![(Offset(base.0 + 3), Position(90))]);
    assert_eq!(index_entries(&file, 0, 9).unwrap(), expected);
    let file = segment.path.with_extension("timeindex");
    std::fs::write(&file, [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0]).unwrap();
    let expected = IndexEntries::Times(vec![(5, Offset(base.0 + 1))]);
    assert_eq!(index_entries(&file, 0, 9).unwrap(), expected);
    assert!(index_entries(&segment.path, 0, 9).is_err());
}

#[test]
fn a_check_ends_when_its_caller_gives_up() {
    let (_fixture, path) = closed();
    let mut told = 0;
    for segment in segments(&path).unwrap() {
        check_segment(&segment, true, &mut |bytes| {
            told += bytes;
            false
        })
        .unwrap();
    }
    let bytes: u64 = segments(&path).unwrap().iter().map(|segment| segment.bytes).sum();
    assert_eq!(told, bytes);
}

#[test]
fn a_place_without_segments_is_refused() {
    let (fixture, path) = closed();
    for (place, why) in [
        (fixture.temp.path(), "no segments here"),
        (&path.join("leader-epoch-checkpoint"), "no segments here"),
        (&path.join("away"), "no such file or directory"),
    ] {
        let refused = segments(place).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(segments(&segments(&path).unwrap()[1].path).unwrap().len(), 1);
}

/// A header may claim 2 GB, and a sparse file of a few blocks is as large: all of it was taken into
/// memory. A batch above the bound is read in pieces, and the walk goes on behind it.
#[test]
fn a_large_batch_is_checked_in_pieces() {
    let (_fixture, path) = closed();
    let segment = segments(&path).unwrap().pop().unwrap();
    let bytes = std::fs::read(&segment.path).unwrap();
    let batch = RecordBatch::parse(&bytes).unwrap().bytes().to_vec();
    let size = LARGE_BYTES + 1;
    for (crc_is_right, problems) in [(true, 0), (false, 1)] {
        let mut large = batch[..batch.len().min(61)].to_vec();
        large[8..12].copy_from_slice(&u32::try_from(size - 12).unwrap().to_be_bytes());
        let mut crc = kafkalite_protocol::record_batch::Crc32c::default();
        crc.update(&large[21..]);
        crc.update(&vec![0; size - large.len()]);
        let crc = if crc_is_right { crc.finish() } else { crc.finish() ^ 1 };
        large[17..21].copy_from_slice(&crc.to_be_bytes());
        let header = *BatchHeader::parse(&large).as_ref().unwrap();
        let mut next = batch.clone();
        next[..8].copy_from_slice(&header.next_offset().0.to_be_bytes());
        let file = std::fs::File::create(&segment.path).unwrap();
        file.set_len((size + next.len()) as u64).unwrap();
        file.write_all_at(&large, 0).unwrap();
        file.write_all_at(&next, size as u64).unwrap();
        for index in ["index", "timeindex"] {
            std::fs::write(segment.path.with_extension(index), []).unwrap();
        }
        let segment = segments(&segment.path).unwrap().remove(0);
        let found = check_segment(&segment, true, &mut |_| true).unwrap();
        assert_eq!((found.batches, found.problems.len()), (2, problems), "{:?}", found.problems);
        let mut chunk = read_batches(&segment.path, 0, u64::MAX, true).unwrap();
        let last = chunk.batches.pop().unwrap();
        let first = chunk.batches.pop().unwrap();
        assert_eq!((first.header.size(), first.records.len()), (size, 0));
        assert_eq!((first.flaw.is_some(), last.flaw), (!crc_is_right, None));
        assert_eq!((last.position, last.records.len()), (size as u64, 2));
    }
}

#[test]
fn an_index_is_read_in_pieces() {
    let (_fixture, path) = closed();
    let file = segments(&path).unwrap()[1].path.with_extension("timeindex");
    let entries: Vec<u8> = (1..=9_000_u32)
        .flat_map(|at| [i64::from(at).to_be_bytes().to_vec(), at.to_be_bytes().to_vec()].concat())
        .collect();
    std::fs::write(&file, entries).unwrap();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(60 << 30).unwrap();
    let mut times = Vec::new();
    loop {
        let IndexEntries::Times(some) = index_entries(&file, times.len() as u64, 2_500).unwrap()
        else {
            panic!("it is a time index");
        };
        let is_last = some.len() < 2_500;
        times.extend(some.iter().map(|(time_ms, _)| *time_ms));
        if is_last {
            break;
        }
    }
    assert_eq!(times, Vec::from_iter(1..=9_000));
}
