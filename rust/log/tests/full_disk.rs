//! A disk that is full at any single change of a compaction or a deletion.
#![allow(clippy::unwrap_used)]

#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use faulty_storage::{Fault, FaultyStorage};
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{Batches, RecordBatchBuilder};
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use tempfile::TempDir;

const NOW_MS: i64 = 1_700_000_000_000;

/// The offset and the number of the last record of each key.
type LastValues = BTreeMap<u8, (Offset, u8)>;

struct Fixture {
    temp: TempDir,
    storage: FaultyStorage,
    log: CommitLog,
}

/// 40 batches in four segments, of four keys and four leader epochs, all on the disk.
fn filled(config: &LogConfig) -> Fixture {
    let temp = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    // Few open files, so that names matter.
    let log_dir = LogDir::open(temp.path(), Arc::new(storage.clone()), 1).unwrap();
    let (state, shared) = (OpenState::default(), Arc::new(config.clone()));
    let (log, _) = CommitLog::open(&log_dir, "t-0", shared, state, NOW_MS).unwrap();
    for number in 0..40_u8 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        builder.append(NOW_MS, Some(&[number % 4]), Some(&[number]), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validation::validate(&bytes, config, NOW_MS, 9).unwrap();
        let epoch = LeaderEpoch(i32::from(number / 10));
        log.become_leader(epoch).unwrap();
        log.append_as_leader(&batch, epoch, NOW_MS).unwrap();
    }
    log.flush().unwrap();
    Fixture { temp, storage, log }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 700, index_interval_bytes: 100, ..LogConfig::default() }
}

impl Fixture {
    /// What one fetch of a batch after the other finds. Nothing if they do not come to the end: a
    /// read that never finds its segment looks for it for ever.
    fn last_values(&self) -> LastValues {
        let read_all = || {
            let mut found = LastValues::new();
            let end = self.log.log_end_offset();
            let mut from = self.log.log_start_offset();
            while from < end {
                let read = self.log.read(from, 1, end, true).ok()?;
                let bytes = read.slices.first()?.read().ok()?;
                let batch = Batches::new(&bytes).next()?.ok()?;
                for record in &batch.records(1 << 20).ok()? {
                    let record = record.ok()?;
                    found.insert(record.key?[0], (record.offset, record.value?[0]));
                }
                from = batch.header().next_offset();
            }
            Some(found)
        };
        let (sent, received) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sent.send(read_all()));
            let found = received.recv_timeout(std::time::Duration::from_secs(30));
            // Ends a read that goes on for ever.
            found.unwrap_or_else(|_| {
                self.storage.crash();
                self.log.close(false).unwrap();
                None
            })
        })
        .unwrap_or_default()
    }

    fn names(&self, suffix: &str) -> usize {
        let names = std::fs::read_dir(self.temp.path().join("t-0")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(suffix)).count()
    }
}

/// Where a rename found the disk full, the old files were removed all the same when their time had
/// come: their records were gone until a restart, and who fetched them never got an answer.
#[test]
fn a_compaction_that_finds_the_disk_full_hides_no_record() {
    let config = LogConfig { cleanup_compact: true, cleanup_delete: false, ..config() };
    for at in 0.. {
        let fixture = filled(&config);
        let (before, end) = (fixture.last_values(), fixture.log.log_end_offset());
        assert_eq!(before.len(), 4);
        let changes = fixture.storage.changes();
        fixture.storage.plan(changes + at, Fault::Full);
        let outcome = fixture.log.compact(end, NOW_MS, 100);
        let struck = fixture.storage.changes() > changes + at;
        fixture.storage.plan(u64::MAX, Fault::Full);
        for when in ["once", "again"] {
            let what = format!("full at change {at}, {when}: {outcome:?}");
            assert_eq!(fixture.last_values(), before, "{what}");
            fixture.log.remove_deleted(NOW_MS + config.file_delete_delay_ms).unwrap();
            assert_eq!(fixture.last_values(), before, "{what}, removed");
            fixture.log.compact(end, NOW_MS, 100).unwrap();
        }
        if !struck {
            assert!(at > 60, "a compaction makes {at} changes");
            return;
        }
    }
}

/// Segments whose names stayed were forgotten, and so were files that could not be removed: a full
/// disk stayed full.
#[test]
fn a_deletion_that_finds_the_disk_full_goes_on_at_the_next_turn() {
    let config = LogConfig { retention_bytes: 700, ..config() };
    for at in 0.. {
        let fixture = filled(&config);
        let (log, changes) = (&fixture.log, fixture.storage.changes());
        fixture.storage.plan(changes + at, Fault::Full);
        let turn = || {
            let retained = log.retain(NOW_MS, log.log_end_offset()).map(|_| 0);
            retained.and(log.remove_deleted(NOW_MS + config.file_delete_delay_ms))
        };
        let first = turn();
        let struck = fixture.storage.changes() > changes + at;
        turn().unwrap();
        let left = (fixture.names(".log"), fixture.names(".index"), fixture.names(".deleted"));
        assert_eq!(left, (1, 0, 0), "full at change {at}: {first:?}");
        assert_eq!(log.active_base_offset(), log.log_start_offset(), "full at change {at}");
        if !struck {
            assert!(at > 20, "a deletion makes {at} changes");
            return;
        }
    }
}
