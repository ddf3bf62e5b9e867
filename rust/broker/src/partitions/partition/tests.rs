#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{LogDir, OpenState, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::RecordBatchBuilder;

use super::*;
use crate::clock::ManualClock;
use crate::metrics::Metrics;
use crate::purgatory::{Completion, DelayedOperation, Purgatory, RunExpired, Timer};

const NOW_MS: i64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
const KEY: u64 = 7;

fn config(flush_messages: u64) -> Arc<LogConfig> {
    Arc::new(LogConfig { flush_messages, ..LogConfig::default() })
}

fn batch() -> ValidatedBatch {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, None, Some(b"value"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    validation::validate(&bytes, &LogConfig::default(), NOW_MS, 9).unwrap()
}

/// A produce that waits here for a batch that ends at `end`.
struct Waits {
    partition: Arc<Partition>,
    end: Offset,
    acks: i16,
    done: mpsc::Sender<Completion>,
}

impl DelayedOperation for Waits {
    fn is_satisfied(&self) -> bool {
        self.partition.is_acknowledged(self.end, self.acks)
    }

    fn complete(self: Arc<Self>, how: Completion) {
        // The test may have failed before.
        let _ = self.done.send(how);
    }

    fn timeout_ms(&self) -> u64 {
        u64::MAX
    }
}

/// A partition that is led here, with nobody who flushes it until the committer is started.
struct House {
    partition: Arc<Partition>,
    committer: Arc<GroupCommit>,
    produces: Purgatory<u64>,
    _directory: tempfile::TempDir,
}

fn house(flush_messages: u64) -> House {
    let directory = tempfile::tempdir().unwrap();
    let log_dir = LogDir::open(directory.path(), Arc::new(RealStorage), 10).unwrap();
    let state = OpenState { clean: true, ..OpenState::default() };
    let config = config(flush_messages);
    let (log, _) = CommitLog::open(&log_dir, "t-0", config.clone(), state, NOW_MS).unwrap();
    let run: RunExpired = Arc::new(|task| task());
    let timer = Timer::start(Arc::new(ManualClock::new(0)), run).unwrap();
    let produces = Purgatory::new("produce", timer, &Metrics::new());
    let committer = GroupCommit::new();
    let identity = PartitionIdentity {
        key: KEY,
        topic: "t".into(),
        topic_id: Uuid([1; 16]),
        index: 0,
        internal: false,
        fetch_waiters: produces.new_list(),
        produce_waiters: produces.watch_list(&KEY),
        committer: committer.clone(),
    };
    let partition = Arc::new(Partition::new(identity, 1, Arc::new(log), Offset(0)));
    partition.set_config(config, 1);
    partition.follow_image(&PartitionImage {
        leader: 1,
        leader_epoch: LeaderEpoch(3),
        partition_epoch: 0,
        replicas: vec![1],
        isr: vec![1],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
    });
    House { partition, committer, produces, _directory: directory }
}

impl House {
    /// What a produce is told that waits for all that was appended.
    fn wait(&self, acks: i16) -> mpsc::Receiver<Completion> {
        let (done, told) = mpsc::channel();
        let (partition, end) = (self.partition.clone(), self.partition.log_end_offset());
        let waits = Arc::new(Waits { partition, end, acks, done });
        self.produces.watch(waits, &[KEY]);
        told
    }
}

/// An append under `flush.messages=1` left the high watermark to the flush, which found another
/// setting and left it to the append: acks=all was never answered.
#[test]
fn the_high_watermark_moves_when_flush_messages_is_taken_back() {
    let house = house(1);
    house.partition.append(&batch(), true, NOW_MS).unwrap();
    assert_eq!(house.partition.high_watermark(), Offset(0), "it is not on the disk");
    let told = house.wait(-1);
    house.partition.set_config(config(u64::MAX), 1);
    assert_eq!(told.try_recv(), Ok(Completion::Satisfied));
    assert_eq!(house.partition.high_watermark(), Offset(1));
}

/// The same in the moment between the two steps of an append: its batch is in the log, and it did
/// not count it yet. Whoever comes second counts it, by the settings that hold then.
#[test]
fn an_append_beside_a_change_of_flush_messages_is_counted_by_who_comes_second() {
    for (before, after, counted) in [(1, u64::MAX, 1), (u64::MAX, 1, 0)] {
        let house = house(before);
        house.partition.log().append(&batch(), LeaderEpoch(3), NOW_MS).unwrap();
        house.partition.set_config(config(after), 1);
        assert_eq!(house.partition.high_watermark(), Offset(counted), "{before} to {after}");
        // The next append and the next flush take along what is left, in either order.
        house.partition.append(&batch(), true, NOW_MS).unwrap();
        house.partition.flush().unwrap();
        assert_eq!(house.partition.high_watermark(), Offset(2), "{before} to {after}");
    }
}

/// A flush that began under `flush.messages=1` and ended without it moved nothing.
#[test]
fn a_flush_counts_whatever_the_setting_is_when_it_ends() {
    let house = house(1);
    house.partition.append(&batch(), true, NOW_MS).unwrap();
    // Past the partition, so that the flush is the first to come after the change.
    house.partition.log().set_config(config(u64::MAX));
    house.partition.flush().unwrap();
    assert_eq!(house.partition.high_watermark(), Offset(1));
}

/// A batch that was appended before `flush.messages=1` waits for the disk from then on: nobody
/// asked for the flush.
#[test]
fn what_waits_for_the_disk_after_flush_messages_is_set_is_flushed() {
    let house = house(u64::MAX);
    let appended = house.partition.append(&batch(), false, NOW_MS).unwrap();
    house.partition.set_config(config(1), 1);
    assert!(!house.partition.is_acknowledged(appended.end_offset, 1), "it is not on the disk");
    let told = house.wait(1);
    let partition = house.partition.clone();
    let flush = move |key| {
        assert_eq!(key, KEY);
        partition.flush().unwrap();
    };
    house.committer.start(flush).unwrap();
    let how = told.recv_timeout(PATIENCE).expect("the flush that acks=1 waits for");
    assert_eq!(how, Completion::Satisfied);
    house.committer.stop();
}

#[test]
fn an_epoch_is_known_to_the_log_before_anybody_is_told_of_it() {
    let house = house(u64::MAX);
    let epoch = house.partition.leader_epoch();
    assert_eq!(house.partition.end_of_epoch(epoch), Some((epoch, Offset(0))));
    assert_eq!(house.partition.log().latest_epoch(), Some(epoch));
}
