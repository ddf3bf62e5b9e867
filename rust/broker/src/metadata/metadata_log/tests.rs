#![allow(clippy::unwrap_used)]
use super::super::records::MetadataRecord;
use super::*;

fn ids(base_offset: i64) -> RecordsBatch {
    let next_producer_id = base_offset * 1_000;
    let records = vec![MetadataRecord::ProducerIds { broker_id: 1, next_producer_id }];
    RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records }
}

/// A log of `count` batches, and the bytes of its one file.
fn written(dir: &Path, count: i64) -> (PathBuf, Vec<u8>) {
    let (mut log, _) = MetadataLog::open(dir).unwrap();
    for base_offset in 0..count {
        log.append(&ids(base_offset)).unwrap();
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
    let mut ends = vec![32];
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
        let (mut log, image) = MetadataLog::open(dir.path()).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() as i64 - 1;
        assert_eq!(image.offset, whole - 1, "cut at {cut}");
        log.append(&ids(whole)).unwrap();
        drop(log);
        let (_, image) = MetadataLog::open(dir.path()).unwrap();
        assert_eq!(image.offset, whole, "after an append on what was cut at {cut}");
    }
}

#[test]
fn a_log_cut_at_any_byte_below_the_committed_end_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 3);
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let opened = MetadataLog::open(dir.path());
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
        assert!(MetadataLog::open(dir.path()).is_err(), "bit {bit}");
    }
}

#[test]
fn garbage_and_zeros_behind_the_committed_end_are_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 2);
    let tails: [&[u8]; 4] = [&[0; 4_096], &[0xff; 100], b"\0\0\0\x05", &[0x7f; 8]];
    for tail in tails {
        fs::write(&path, [&bytes, tail].concat()).unwrap();
        let (_, image) = MetadataLog::open(dir.path()).unwrap();
        assert_eq!(image.offset, 1, "{tail:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{tail:?}");
    }
}

#[test]
fn a_newer_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut bytes) = written(dir.path(), 1);
    bytes[7] = 2;
    fs::write(&path, &bytes).unwrap();
    let opened = MetadataLog::open(dir.path());
    assert!(matches!(opened, Err(MetadataError::Format { found: 2, supported: 1, .. })));
}

#[test]
fn a_snapshot_takes_the_place_of_what_lies_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, mut image) = MetadataLog::open(dir.path()).unwrap();
    log.snapshot_after_bytes = 1;
    for base_offset in 0..3 {
        log.append(&ids(base_offset)).unwrap();
        image = image.with_batch(&ids(base_offset)).unwrap();
        log.snapshot_if_due(&image, 0);
        log.snapshot_after_bytes = 1;
    }
    log.append(&ids(3)).unwrap();
    drop(log);
    let files = list(dir.path()).unwrap();
    assert_eq!((files.logs.len(), files.checkpoints.len()), (1, 1));
    let (_, again) = MetadataLog::open(dir.path()).unwrap();
    assert_eq!((again.offset, again.next_producer_id), (3, 3_000));
}

#[test]
fn a_crash_between_snapshot_and_new_log_goes_on_in_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = written(dir.path(), 3);
    let (_, image) = MetadataLog::open(dir.path()).unwrap();
    snapshot::write(&dir.path().join("00000000000000000003-0000000001.checkpoint"), &image, 0)
        .unwrap();
    fs::write(dir.path().join("half.tmp"), b"half").unwrap();
    let (mut log, again) = MetadataLog::open(dir.path()).unwrap();
    assert_eq!(again, image);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    log.append(&ids(3)).unwrap();
    let (_, last) = MetadataLog::open(dir.path()).unwrap();
    assert_eq!(last.offset, 3);
}
