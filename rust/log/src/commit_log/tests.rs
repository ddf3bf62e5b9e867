//! A log in a directory of its own and batches for it; and what the logs of one directory share.

#![allow(clippy::unwrap_used)]

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::Position;
use tempfile::TempDir;

use super::*;
use crate::storage::RealStorage;
use crate::validation::{ValidatedBatch, validate};

mod appending;
mod copying;
mod cutting;
mod damage;
mod figures;
mod healing;
mod moving;
mod names;
mod reading;
mod recovering;
mod role_model;
mod roles;

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

/// Appends a batch as the leader of the present epoch; one that follows leads in the next.
pub(crate) fn append(log: &CommitLog, records: i32) -> Appended {
    let epoch = match log.role() {
        Role::Leader(epoch) => epoch,
        role => EPOCH.max(LeaderEpoch(role.epoch().0 + 1)),
    };
    append_in(log, &batch_at(records, NOW_MS), epoch, NOW_MS).unwrap()
}

/// Appends a batch as the leader of `epoch`, which begins if it did not yet.
pub(crate) fn append_in(
    log: &CommitLog,
    batch: &ValidatedBatch,
    epoch: LeaderEpoch,
    now_ms: i64,
) -> Result<Appended, LogError> {
    log.become_leader(epoch)?;
    log.append_as_leader(batch, epoch, now_ms)
}

/// Truncates as the follower of the next epoch's leader.
pub(crate) fn truncate(log: &CommitLog, offset: i64) -> LogEnd {
    let epoch = LeaderEpoch(log.role().epoch().0 + 1);
    log.become_follower(epoch).unwrap();
    log.truncate_as_follower(Offset(offset), epoch, NOW_MS).unwrap()
}

/// Base offsets of all whole batches that a read from `from` gives.
pub(crate) fn read_all(log: &CommitLog, from: i64) -> Vec<i64> {
    let read = log.read(Offset(from), u32::MAX, log.log_end_offset(), true).unwrap();
    bases(&read)
}

fn bytes_of(read: &ReadResult) -> Vec<u8> {
    read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect()
}

/// What is in the log, by as many reads as it takes.
pub(crate) fn all_bytes(log: &CommitLog) -> Vec<u8> {
    let (mut all, mut from, end) = (Vec::new(), log.log_start_offset(), log.log_end_offset());
    while from < end {
        let bytes = bytes_of(&log.read(from, u32::MAX, end, true).unwrap());
        let last = Batches::new(&bytes).last().unwrap().unwrap();
        from = last.header().next_offset();
        all.extend_from_slice(&bytes);
    }
    all
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
