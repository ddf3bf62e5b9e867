//! What must hold of a log directory and of a produced batch whatever their bytes; see
//! `protocol.rs`.

#![allow(dead_code, reason = "each target uses one of the functions")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, LogError, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};

const NOW_MS: i64 = 1_700_000_000_000;
/// The files of a partition, in the order in which `data` describes them.
const FILES: [&str; 5] = [
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000003.snapshot",
    "leader-epoch-checkpoint",
];

fn open(root: &Path, state: OpenState) -> Result<CommitLog, LogError> {
    let log_dir = LogDir::open(root, Arc::new(RealStorage), 10).expect("the directory is sound");
    let config = LogConfig { segment_bytes: 4_096, index_interval_bytes: 64, ..Default::default() };
    let opened = CommitLog::open(&log_dir, "t-0", Arc::new(config), state, NOW_MS);
    log_dir.unlock();
    opened.map(|(log, _)| log)
}

/// Reads all that a consumer could, and returns the log end offset.
fn read_all(log: &CommitLog) -> Offset {
    let end = log.log_end_offset();
    let mut from = log.log_start_offset();
    while from < end {
        let _ = log.read(from, 1_024, end, true);
        // Offsets may leap by billions in a damaged log: near the start every one, then ever wider.
        from = Offset(from.0.saturating_add(1 + from.0.saturating_sub(log.log_start_offset().0)));
    }
    let _ = log.offset_for_timestamp(NOW_MS);
    let _ = log.offset_of_max_timestamp();
    end
}

/// A partition's directory of arbitrary files: `data` is a byte of flags, then a 2-byte length and
/// that many bytes for each of [`FILES`]; a file whose length is missing does not exist.
///
/// Opening it never panics. After an unclean stop it never fails either, the log takes records
/// again, and what was believed once is believed again.
pub fn recovery(data: &[u8]) {
    let Some((&flags, mut rest)) = data.split_first() else { return };
    let root = tempfile::tempdir().expect("a temporary directory");
    let partition = root.path().join("t-0");
    fs::create_dir(&partition).expect("an empty directory");
    for name in FILES {
        let Some((length, bytes)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes(*length)).min(bytes.len());
        fs::write(partition.join(name), &bytes[..length]).expect("a writable directory");
        rest = &bytes[length..];
    }
    let clean = flags & 1 == 1;
    let recovery_point = Offset(if flags & 2 == 2 { 2 } else { 0 });
    let state = OpenState { clean, recovery_point, ..OpenState::default() };
    let log = match open(root.path(), state) {
        Ok(log) => log,
        Err(error) => {
            // A clean stop promises whole files; one that lied may be refused, after a crash
            // nothing may.
            assert!(clean, "damage is no error: {error}");
            return;
        }
    };
    let end = read_all(&log);
    if clean {
        return;
    }
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, None, Some(b"new"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).expect("nothing to compress");
    let batch = validation::validate(&bytes, &log.config(), NOW_MS, 9).expect("an honest batch");
    let epoch = LeaderEpoch(i32::MAX);
    log.become_leader(epoch).expect("no epoch is greater");
    let appended = log.append_as_leader(&batch, epoch, NOW_MS);
    let expected = if appended.is_ok() { Offset(end.0 + 1) } else { end };
    assert_eq!(log.log_end_offset(), expected);
    log.close(false).expect("the disk is sound");
    drop(log);
    let again = open(root.path(), OpenState::default()).expect("it opened before");
    assert_eq!(again.log_end_offset(), expected, "a second recovery believes the same");
}

/// What a producer sent for one partition: refused, or stored with no byte that was not sent.
pub fn validation(data: &[u8]) {
    let records = Bytes::copy_from_slice(data);
    for version in [3, 9, 13] {
        if let Ok(batch) = validation::validate(&records, &LogConfig::default(), NOW_MS, version) {
            // As in Kafka, what follows and is no whole batch is dropped.
            assert!(batch.size() <= data.len());
        }
    }
}
