//! How much memory an idle log keeps: a broker has thousands of unused partitions.
//!
//! The allocator counts, so nothing here depends on the machine. One test in a process of its own.
#![allow(clippy::unwrap_used)]

#[path = "../../testing/counting.rs"]
mod counting;

use counting::peak_of;
use kafkalite_log::storage::RealStorage;
use kafkalite_log::{CommitLog, LogConfig, LogDir, OpenState};
use kafkalite_protocol::types::LeaderEpoch;
use std::sync::Arc;

const LOGS: usize = 500;
/// What one log may keep, in bytes.
const MOST: usize = 800;

#[test]
fn an_empty_log_keeps_little_memory_when_it_is_new_and_when_it_is_opened_again() {
    let temp = tempfile::tempdir().unwrap();
    let config = Arc::new(LogConfig::default());
    for epoch in [LeaderEpoch(0), LeaderEpoch(1)] {
        let dir = LogDir::open(temp.path(), Arc::new(RealStorage), 10).unwrap();
        let open = |index| {
            let name = format!("topic-{index}");
            let state = OpenState::default();
            let (log, _) = CommitLog::open(&dir, &name, config.clone(), state, 1_000).unwrap();
            log.become_leader(epoch).unwrap();
            log
        };
        let (bytes, logs) = peak_of(|| (0..LOGS).map(open).collect::<Vec<CommitLog>>());
        let each = bytes / LOGS;
        assert!(each <= MOST, "{each} bytes a log, epoch {}", epoch.0);
        drop(logs);
    }
}
