//! A process that has as many mappings as the kernel gives. One test in a process of its own.
#![allow(clippy::unwrap_used)]

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use memmap2::MmapOptions;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

const NOW_MS: i64 = 1_700_000_000_000;
const EPOCH: LeaderEpoch = LeaderEpoch(0);
/// More than any kernel allows by default.
const MOST_MAPPINGS: usize = 2_000_000;

/// A sealed segment whose indexes take more than a page, and an empty one.
fn fill(log: &CommitLog, config: &LogConfig) {
    log.become_leader(EPOCH).unwrap();
    for number in 0..600 {
        let mut builder = RecordBatchBuilder::new(Codec::None);
        builder.append(NOW_MS + number, None, Some(b"value"), &[]);
        let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
        let batch = validation::validate(&bytes, config, NOW_MS, 9).unwrap();
        log.append_as_leader(&batch, EPOCH, NOW_MS).unwrap();
    }
    log.roll(NOW_MS).unwrap();
}

/// One look-up by time in a broker of very many segments took the log directory offline.
#[test]
fn an_index_is_read_where_the_kernel_maps_no_more_files() {
    let temp = tempfile::tempdir().unwrap();
    let config = Arc::new(LogConfig { index_interval_bytes: 0, ..LogConfig::default() });
    let dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
    let open = |state| CommitLog::open(&dir, "t-0", config.clone(), state, NOW_MS).unwrap().0;
    let log = open(OpenState::default());
    fill(&log, &config);
    log.close(true).unwrap();
    let log = open(OpenState { clean: true, ..OpenState::default() });

    let mut file = File::create(temp.path().join("page")).unwrap();
    file.write_all(&[0; 4_096]).unwrap();
    let file = File::open(temp.path().join("page")).unwrap();
    let mut mappings = Vec::with_capacity(MOST_MAPPINGS);
    while mappings.len() < MOST_MAPPINGS {
        // SAFETY: the file is this test's, and nothing reads the mapping.
        #[allow(unsafe_code)]
        match unsafe { MmapOptions::new().len(4_096).map(file.as_raw_fd()) } {
            Ok(mapping) => mappings.push(mapping),
            Err(_) => break,
        }
    }
    let found = log.offset_for_timestamp(NOW_MS + 599);
    drop(mappings);
    assert_eq!(found.unwrap().map(|found| found.offset), Some(Offset(599)));
    assert!(!dir.is_offline());
}
