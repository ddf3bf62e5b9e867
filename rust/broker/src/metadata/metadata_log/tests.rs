#![allow(clippy::unwrap_used)]
use super::super::records::{MetadataRecord, ProducerIdsRecord};
use super::*;
use crate::faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::storage::RealStorage;
use std::fs;

fn open(dir: &Path) -> Result<(MetadataLog, MetadataImage), MetadataError> {
    MetadataLog::open(Arc::new(RealStorage), dir)
}

fn ids(base_offset: i64) -> RecordsBatch {
    let next_producer_id = base_offset * 1_000;
    let ids = ProducerIdsRecord { broker_id: 1, next_producer_id };
    let records = vec![MetadataRecord::ProducerIds(ids)];
    RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records }
}

/// A log of `count` batches, and the bytes of its one file.
fn written(dir: &Path, count: i64) -> (PathBuf, Vec<u8>) {
    let (mut log, _) = open(dir).unwrap();
    for base_offset in 0..count {
        log.append(&ids(base_offset), 1).unwrap();
    }
    let path = log.active.path().to_owned();
    (path.clone(), fs::read(path).unwrap())
}

/// The header as it is when the last of `ends` counts.
fn committed(bytes: &[u8], end: u64) -> Vec<u8> {
    frames::with_committed(bytes, end)
}

/// Where each frame ends, from the bytes alone.
fn frame_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![48];
    while let Some(length) = bytes.get(ends[ends.len() - 1]..ends[ends.len() - 1] + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        ends.push(ends[ends.len() - 1] + 8 + length);
    }
    ends
}

#[test]
fn a_log_cut_at_any_byte_above_the_committed_end_recovers_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 5);
    let ends = frame_ends(&bytes);
    for cut in ends[3]..bytes.len() {
        fs::write(&path, &committed(&bytes, ends[3] as u64)[..cut]).unwrap();
        let (mut log, image) = open(dir.path()).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() as i64 - 1;
        assert_eq!(image.offset, whole - 1, "cut at {cut}");
        log.append(&ids(whole), 1).unwrap();
        drop(log);
        let (_, image) = open(dir.path()).unwrap();
        assert_eq!(image.offset, whole, "after an append on what was cut at {cut}");
    }
}

#[test]
fn a_log_cut_at_any_byte_below_the_committed_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 3);
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let opened = open(dir.path());
        assert!(matches!(opened, Err(MetadataError::Corrupt { .. })), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_below_the_committed_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 3);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        // Of the two places that say what is committed one may be damaged.
        let harmless = (24..48).contains(&(bit / 8));
        assert_eq!(open(dir.path()).is_ok(), harmless, "bit {bit}");
    }
}

#[test]
fn garbage_and_zeros_behind_the_committed_end_are_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 2);
    let tails: [&[u8]; 4] = [&[0; 4_096], &[0xff; 100], b"\0\0\0\x05", &[0x7f; 8]];
    for tail in tails {
        fs::write(&path, [&bytes, tail].concat()).unwrap();
        let (_, image) = open(dir.path()).unwrap();
        assert_eq!(image.offset, 1, "{tail:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{tail:?}");
    }
}

#[test]
fn a_newer_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut bytes) = written(dir.path(), 1);
    bytes[7] = 3;
    fs::write(&path, &bytes).unwrap();
    let opened = open(dir.path());
    assert!(matches!(opened, Err(MetadataError::Format { found: 3, supported: 2, .. })));
}

/// A record of a newer release is no torn tail, even where nothing says that it was committed.
#[test]
fn a_record_of_a_newer_release_stops_the_start_and_is_not_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 2);
    let ends = frame_ends(&bytes);
    // In a frame: length, CRC, base offset, epoch, time, count, length of the record, its type.
    let record = ends[1] + 8 + 20 + 2;
    for (at, value) in [(record + 1, 99), (record + 3, 1)] {
        let mut newer = committed(&bytes, ends[1] as u64);
        newer[at] = value;
        let crc = [&newer[ends[1]..ends[1] + 4], &newer[ends[1] + 8..]].concat();
        newer[ends[1] + 4..ends[1] + 8].copy_from_slice(&crc32fast::hash(&crc).to_be_bytes());
        fs::write(&path, &newer).unwrap();
        let refused = open(dir.path()).unwrap_err();
        let is_named = match refused {
            MetadataError::UnknownRecord { offset, record_type, .. } => {
                (offset, record_type) == (1, 99) && at == record + 1
            }
            MetadataError::NewerRecord { offset, record_type, version, supported, .. } => {
                (offset, record_type, version, supported) == (1, 10, 1, 0)
            }
            _ => false,
        };
        assert!(is_named, "byte {at}: {refused}");
        assert_eq!(fs::read(&path).unwrap(), newer, "byte {at}");
    }
}

#[test]
fn a_record_that_could_not_be_read_back_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path()).unwrap();
    let long = "x".repeat(40_000);
    let resource = super::super::ConfigResource::broker(1);
    let records = vec![MetadataRecord::set_config(&resource, "k", Some(&long))];
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    let failure = log.append(&batch, 1).unwrap_err();
    assert!(matches!(failure.error, MetadataError::Replay { offset: 0, .. }));
    assert!(failure.taken_back);
    log.append(&ids(0), 1).unwrap();
    drop(log);
    assert_eq!(open(dir.path()).unwrap().1.offset, 0);
}

#[test]
fn a_snapshot_takes_the_place_of_what_lies_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, mut image) = open(dir.path()).unwrap();
    log.snapshot_after_bytes = 1;
    for base_offset in 0..3 {
        log.append(&ids(base_offset), 1).unwrap();
        image = image.with_batch(&ids(base_offset)).unwrap();
        log.snapshot_if_due(&image, 0);
        log.snapshot_after_bytes = 1;
    }
    log.append(&ids(3), 1).unwrap();
    drop(log);
    let files = list(&RealStorage, dir.path()).unwrap();
    assert_eq!((files.logs.len(), files.checkpoints.len()), (1, 1));
    let (_, again) = open(dir.path()).unwrap();
    assert_eq!((again.offset, again.next_producer_id), (3, 3_000));
}

#[test]
fn a_crash_between_snapshot_and_new_log_goes_on_in_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 3);
    let (_, image) = open(dir.path()).unwrap();
    snapshot::write(
        &RealStorage,
        &dir.path().join("00000000000000000003-0000000001.checkpoint"),
        &image,
        0,
    )
    .unwrap();
    fs::write(dir.path().join("half.tmp"), b"half").unwrap();
    let (mut log, again) = open(dir.path()).unwrap();
    assert_eq!(again, image);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    log.append(&ids(3), 1).unwrap();
    let (_, last) = open(dir.path()).unwrap();
    assert_eq!(last.offset, 3);
}

/// Runs a log through appends and snapshots on a disk that fails at change `at`; says what was
/// acknowledged.
fn run_until_the_fault(dir: &Path, storage: &FaultyStorage) -> (i64, bool) {
    let Ok((mut log, mut image)) = MetadataLog::open(Arc::new(storage.clone()), dir) else {
        return (-1, false);
    };
    log.snapshot_after_bytes = 80;
    let mut acknowledged = image.offset;
    for _ in 0..8 {
        let batch = ids(image.offset + 1);
        if log.append(&batch, 1).is_err() {
            // What comes next decides whether the log says of itself that it is offline.
            return (acknowledged, log.append(&batch, 1).is_ok());
        }
        image = image.with_batch(&batch).unwrap();
        acknowledged = image.offset;
        log.snapshot_if_due(&image, 0);
        log.snapshot_after_bytes = 80;
    }
    (acknowledged, true)
}

#[test]
fn what_was_acknowledged_survives_a_crash_and_a_power_cut_at_every_change() {
    for power in [false, true] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let storage = FaultyStorage::default();
            storage.plan(at, Fault::Crash);
            let (acknowledged, finished) = run_until_the_fault(dir.path(), &storage);
            if power {
                storage.cut_power().unwrap();
            }
            let (mut log, image) = open(dir.path()).unwrap();
            let unacknowledged = image.offset - acknowledged;
            assert!((0..=1).contains(&unacknowledged), "at {at}, power cut {power}: {image:?}");
            log.append(&ids(image.offset + 1), 1).unwrap();
            if finished {
                assert!(at > 30, "the faults reached the end of the run");
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_costs_one_append_and_a_failed_fsync_all_that_follow() {
    let (enospc, eio) = (28, 5);
    let dir = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let (mut log, _) = MetadataLog::open(Arc::new(storage.clone()), dir.path()).unwrap();
    log.append(&ids(0), 1).unwrap();
    storage.plan(storage.changes(), Fault::Fail(enospc));
    let failure = log.append(&ids(1), 1).unwrap_err();
    assert!(matches!(failure.error, MetadataError::Io { action: "write", .. }));
    assert!(failure.taken_back);
    log.append(&ids(1), 1).unwrap();
    storage.plan(storage.changes() + 1, Fault::Fail(eio));
    let failure = log.append(&ids(2), 1).unwrap_err();
    assert!(matches!(failure.error, MetadataError::Io { action: "fsync", .. }));
    assert!(!failure.taken_back);
    let failure = log.append(&ids(2), 1).unwrap_err();
    assert!(matches!(failure.error, MetadataError::Offline { .. }) && failure.taken_back);
    drop(log);
    // The frame whose fsync failed may be there or not; what was acknowledged is.
    assert!(open(dir.path()).unwrap().1.offset >= 1);
}
