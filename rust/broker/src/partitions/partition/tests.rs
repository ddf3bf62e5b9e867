#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use kafkalite_log::storage::RealStorage;
use kafkalite_log::{LogDir, OpenState, ValidatedBatch, validation};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::produce::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kafkalite_protocol::record_batch::RecordBatchBuilder;

use super::*;
use crate::clock::ManualClock;
use crate::fetch_sessions::{FetchTarget, TopicRef};
use crate::handlers::produce::delayed_produce::{DelayedProduce, Pending};
use crate::metrics::Metrics;
use crate::partitions::CommitStatus;
use crate::purgatory::{Completion, DelayedOperation, Purgatory, RunExpired, Timer};

const NOW_MS: i64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
const KEY: u64 = 7;
const DIRECTORY: Uuid = Uuid([5; 16]);
const EPOCH: LeaderEpoch = LeaderEpoch(3);

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
        let (partition, epoch) = (&self.partition, self.partition.leader_epoch());
        let status = match self.acks {
            -1 => partition.commit_status(self.end, epoch),
            _ => partition.local_status(self.end, epoch),
        };
        status == CommitStatus::Committed
    }

    fn complete(self: Arc<Self>, how: Completion) {
        // The test may have failed before.
        let _ = self.done.send(how);
    }

    fn timeout_ms(&self) -> u64 {
        u64::MAX
    }
}

/// A partition that is led here. It is not flushed until the committer is started.
struct House {
    partition: Arc<Partition>,
    committer: Arc<GroupCommit>,
    produces: Purgatory,
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
        directory: DIRECTORY,
        internal: false,
        fetch_waiters: produces.new_list(),
        produce_waiters: produces.new_list(),
        committer: committer.clone(),
        brokers: Arc::default(),
        max_lag_ms: 30_000,
        producer_ids: Arc::default(),
    };
    let partition = Arc::new(Partition::new(identity, 1, Arc::new(log), Offset(0)));
    partition.set_config(config, 1);
    partition.follow_image(&PartitionImage {
        leader: 1,
        leader_epoch: EPOCH,
        partition_epoch: 0,
        replicas: vec![1],
        isr: vec![1],
        directories: vec![DIRECTORY],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        last_leader: -1,
    });
    House { partition, committer, produces, _directory: directory }
}

impl House {
    /// The answer to a produce that waits for all that was appended.
    fn wait(&self, acks: i16) -> mpsc::Receiver<Completion> {
        let (done, told) = mpsc::channel();
        let (partition, end) = (self.partition.clone(), self.partition.log_end_offset());
        let waits = Arc::new(Waits { partition, end, acks, done });
        self.produces.watch(waits, || [self.partition.produce_waiters().clone()]);
        told
    }
}

/// An append under `flush.messages=1` left the high watermark to the flush. The flush found another
/// setting and left it to the append, so acks=all was never answered.
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

/// The same between the two steps of an append: its batch is in the log and not yet reported. The
/// state counts by the settings that hold when the end is reported.
#[test]
fn an_append_beside_a_change_of_flush_messages_counts_by_the_newer_setting() {
    for (before, after, counted) in [(1, u64::MAX, 1), (u64::MAX, 1, 0)] {
        let house = house(before);
        let appended = house.partition.log().append_as_leader(&batch(), EPOCH, NOW_MS).unwrap();
        house.partition.set_config(config(after), 1);
        house.partition.after_append(&appended, EPOCH, true);
        assert_eq!(house.partition.high_watermark(), Offset(counted), "{before} to {after}");
        // The next append and the next flush take along what is left, in either order.
        house.partition.append(&batch(), true, NOW_MS).unwrap();
        house.partition.flush().unwrap();
        assert_eq!(house.partition.high_watermark(), Offset(2), "{before} to {after}");
    }
}

/// The same between the two steps of a flush.
#[test]
fn a_flush_counts_whatever_the_setting_is_when_it_ends() {
    for (before, after) in [(1, u64::MAX), (u64::MAX, 1)] {
        let house = house(before);
        house.partition.append(&batch(), true, NOW_MS).unwrap();
        let durable = house.partition.log().flush().unwrap();
        house.partition.set_config(config(after), 1);
        house.partition.state.lock().flushed(durable);
        assert_eq!(house.partition.state.lock().high_watermark(), Offset(1), "{before} to {after}");
    }
}

/// A batch that was appended before `flush.messages=1` waits for the disk from then on. Once no
/// flush was requested.
#[test]
fn what_waits_for_the_disk_after_flush_messages_is_set_is_flushed() {
    let house = house(u64::MAX);
    let appended = house.partition.append(&batch(), false, NOW_MS).unwrap();
    house.partition.set_config(config(1), 1);
    let status = house.partition.local_status(appended.end_offset, EPOCH);
    assert_eq!(status, CommitStatus::Pending, "it is not on the disk");
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

/// The cleaner flushed a batch that was appended and not yet reported. No flush was requested, and
/// acks=all was answered after the next append only.
#[test]
fn a_batch_that_the_cleaner_flushed_first_is_acknowledged() {
    let house = house(1);
    let appended = house.partition.log().append_as_leader(&batch(), EPOCH, NOW_MS).unwrap();
    house.partition.log().flush().unwrap();
    house.partition.after_append(&appended, EPOCH, true);
    house.committer.turn(|_| house.partition.flush().unwrap());
    assert_eq!(house.partition.high_watermark(), Offset(1));
}

#[test]
fn the_log_has_an_epoch_before_any_client_sees_it() {
    let house = house(u64::MAX);
    let epoch = house.partition.leader_epoch();
    assert_eq!(house.partition.end_of_epoch(epoch), Some((epoch, Offset(0))));
    assert_eq!(house.partition.log().latest_epoch(), Some(epoch));
}

/// An image in which this broker, number 1, or number 2 leads.
fn led_by(leader: i32, epoch: LeaderEpoch) -> PartitionImage {
    PartitionImage {
        leader,
        leader_epoch: epoch,
        partition_epoch: epoch.0,
        replicas: vec![1, 2],
        isr: vec![leader],
        directories: vec![DIRECTORY; 2],
        elr: Vec::new(),
        adding_replicas: Vec::new(),
        removing_replicas: Vec::new(),
        last_leader: -1,
    }
}

const NEXT: LeaderEpoch = LeaderEpoch(4);

/// What the leader of the next epoch has at `offset`.
fn of_the_next_leader(offset: i64) -> bytes::Bytes {
    let mut builder = RecordBatchBuilder::new(Codec::None);
    builder.append(NOW_MS, None, Some(b"other"), &[]);
    builder.build(Offset(offset), NEXT).unwrap()
}

/// The epoch was read and the lock released. Then the append came to a log that another broker led,
/// so the batch went into the log in the old epoch.
#[test]
fn a_leader_that_is_demoted_between_its_look_and_its_append_appends_nothing() {
    let house = house(u64::MAX);
    let partition = &house.partition;
    let epoch = partition.state.lock().may_append(true).unwrap();
    partition.follow_image(&led_by(2, NEXT));
    let refusal = partition.append_in(epoch, &batch(), true, NOW_MS).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotLeaderOrFollower);
    assert_eq!(refusal.current_leader, Some((2, NEXT.0)));
    assert_eq!(partition.log_end_offset(), Offset(0));
}

/// A produce waited for the high watermark in its epoch. Its batch was cut away, others came in its
/// place, and this broker led again: the high watermark had passed, and the batch was acknowledged.
#[test]
fn a_batch_that_was_replaced_is_never_committed() {
    let house = house(u64::MAX);
    let partition = &house.partition;
    let appended = partition.append(&batch(), true, NOW_MS).unwrap();
    let (end, epoch) = (appended.end_offset, appended.leader_epoch);
    assert_eq!(appended.status, CommitStatus::Committed);
    partition.follow_image(&led_by(2, NEXT));
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.commit_status(end, epoch), lost);
    partition.truncate_as_follower(Offset(0), NEXT, NOW_MS).unwrap();
    assert_eq!(partition.high_watermark(), Offset(0));
    partition.append_as_follower(&of_the_next_leader(0), NEXT, Offset(1), NOW_MS).unwrap();
    assert_eq!(partition.high_watermark(), Offset(1));
    partition.follow_image(&led_by(1, LeaderEpoch(5)));
    assert_eq!(partition.commit_status(end, epoch), lost);
    assert_eq!(partition.commit_status(end, LeaderEpoch(5)), CommitStatus::Committed);
}

/// The same between the two steps of an append. The log has the batch, and another thread truncates
/// before the append is reported.
#[test]
fn an_append_that_reports_its_end_late_does_not_undo_a_truncation() {
    let house = house(u64::MAX);
    let partition = &house.partition;
    let late = partition.log().append_as_leader(&batch(), EPOCH, NOW_MS).unwrap();
    partition.follow_image(&led_by(2, NEXT));
    partition.truncate_as_follower(Offset(0), NEXT, NOW_MS).unwrap();
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.after_append(&late, EPOCH, true), lost);
    partition.follow_image(&led_by(1, LeaderEpoch(5)));
    assert_eq!(partition.high_watermark(), Offset(0));
    assert_eq!(
        partition.state.lock().commit_status(Offset(1), LeaderEpoch(5)),
        CommitStatus::Pending
    );
}

/// The follower has a record at offset 0 that may be another one than the deleted one here. As a
/// replica in sync it could lead, and show that record.
#[test]
fn a_follower_that_has_only_records_that_were_deleted_here_counts_when_it_dropped_them() {
    let house = house(u64::MAX);
    let partition = &house.partition;
    partition.append(&batch(), true, NOW_MS).unwrap();
    partition.follow_image(&led_by(1, NEXT));
    partition.delete_records(Offset(1), NOW_MS).unwrap();
    let diverging = |log_start_offset: i64, reader| {
        let target = FetchTarget {
            topic: Arc::new(TopicRef::Name("t".into())),
            partition: 0,
            fetch_offset: 1,
            max_bytes: 100,
            current_leader_epoch: NEXT.0,
            last_fetched_epoch: EPOCH.0,
            log_start_offset,
            leader_only: true,
        };
        let fetched = partition.read(&target, 100, true, reader);
        assert_eq!(fetched.log_start_offset, Offset(1));
        fetched.diverging
    };
    assert_eq!(diverging(0, FetchReader::Follower(2)), Some((EPOCH, Offset(1))));
    assert_eq!(diverging(1, FetchReader::Follower(2)), None);
    assert_eq!(diverging(-1, FetchReader::ReadUncommitted), None);
}

#[test]
fn a_coordinator_appends_in_the_epoch_that_it_loaded_and_in_no_other() {
    let house = house(u64::MAX);
    let partition = &house.partition;
    let appended = partition.append_as_leader(&batch(), EPOCH, NOW_MS).unwrap();
    assert_eq!((appended.base_offset, appended.leader_epoch), (Offset(0), EPOCH));
    partition.follow_image(&led_by(1, NEXT));
    let refusal = partition.append_as_leader(&batch(), EPOCH, NOW_MS).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.log_end_offset(), Offset(1));
}

#[test]
fn a_deleted_partition_is_unknown_to_who_appends_and_lost_to_who_waits() {
    let house = house(1);
    let partition = &house.partition;
    let appended = partition.append(&batch(), true, NOW_MS).unwrap();
    assert_eq!(appended.status, CommitStatus::Pending);
    partition.vanish();
    let refusal = partition.append(&batch(), true, NOW_MS).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::UnknownTopicOrPartition);
    // The look at the state may lie before the deletion, and the log says the same.
    let refusal = partition.append_in(EPOCH, &batch(), true, NOW_MS).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::UnknownTopicOrPartition);
    let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.commit_status(appended.end_offset, EPOCH), lost);
}

/// A fetch without an epoch waited until its time was over: it saw an ordinary follower.
#[test]
fn a_replica_that_is_withdrawn_sends_everyone_to_another_one() {
    for leaves in [true, false] {
        let house = house(1);
        let partition = &house.partition;
        let appended = partition.append(&batch(), true, NOW_MS).unwrap();
        match leaves {
            true => partition.leave(&led_by(2, NEXT)),
            false => partition.give_up(),
        }
        let target = |epoch: i32, leader_only| FetchTarget {
            topic: Arc::new(TopicRef::Name("t".into())),
            partition: 0,
            fetch_offset: 1,
            max_bytes: 100,
            current_leader_epoch: epoch,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            leader_only,
        };
        for (epoch, leader_only) in [(-1, true), (-1, false), (EPOCH.0, true), (EPOCH.0, false)] {
            let target = target(epoch, leader_only);
            for reader in [FetchReader::ReadUncommitted, FetchReader::Follower(2)] {
                let refused = partition.plan(&target, reader).err();
                assert_eq!(refused, Some(ErrorCode::NotLeaderOrFollower), "{leaves} {target:?}");
            }
        }
        let fetched = partition.read(&target(-1, false), 100, true, FetchReader::ReadUncommitted);
        let leader = if leaves { (2, NEXT) } else { (1, EPOCH) };
        assert_eq!(fetched.leader, Some(leader), "the answer says whom to ask");
        let lost = CommitStatus::Lost(ErrorCode::NotLeaderOrFollower);
        assert_eq!(partition.commit_status(appended.end_offset, EPOCH), lost);
        // The look at the state may lie before, and the log says the same.
        for refusal in [
            partition.append(&batch(), true, NOW_MS).unwrap_err(),
            partition.append_in(EPOCH, &batch(), true, NOW_MS).unwrap_err(),
        ] {
            assert_eq!(refusal.code, ErrorCode::NotLeaderOrFollower);
        }
    }
}

#[test]
fn a_batch_that_is_sent_again_waits_as_its_first_attempt_does() {
    let house = house(1);
    let mut builder = RecordBatchBuilder::new(Codec::None).producer(9, 0, 0);
    builder.append(NOW_MS, None, Some(b"value"), &[]);
    let bytes = builder.build(Offset(0), LeaderEpoch(-1)).unwrap();
    let batch = ValidatedBatch::trusted(&bytes).unwrap();
    for _ in 0..2 {
        let appended = house.partition.append(&batch, true, NOW_MS).unwrap();
        assert_eq!((appended.base_offset, appended.status), (Offset(0), CommitStatus::Pending));
    }
    house.partition.flush().unwrap();
    let again = house.partition.append(&batch, true, NOW_MS).unwrap();
    assert_eq!(again.status, CommitStatus::Committed);
}

/// The wait ended with an acknowledgement, and the leader was demoted before the answer was made:
/// the answer made the producer send a committed batch again.
#[test]
fn a_produce_is_answered_with_what_ended_its_wait() {
    let house = house(1);
    let partition = &house.partition;
    let appended = partition.append(&batch(), true, NOW_MS).unwrap();
    let (end, epoch) = (appended.end_offset, appended.leader_epoch);
    let one = || Pending::new(partition.clone(), end, epoch, -1);
    let (sent, answers) = mpsc::channel();
    let waits = |pending| {
        let mut response = ProduceResponse::default();
        let topic = TopicProduceResponse {
            partition_responses: vec![PartitionProduceResponse::default()],
            ..TopicProduceResponse::default()
        };
        response.responses.push(topic);
        let sent = sent.clone();
        let answer = move |response: &ProduceResponse| {
            sent.send(response.responses[0].partition_responses[0].error_code).unwrap();
        };
        let asker = crate::purgatory::Asker { connection_id: 1, correlation_id: 1 };
        Arc::new(DelayedProduce::new(asker, vec![pending], 1_000, response, answer))
    };
    let (committed, lost) = (waits(one()), waits(one()));
    assert!(!committed.is_satisfied());
    partition.flush().unwrap();
    assert!(committed.is_satisfied());
    partition.follow_image(&led_by(2, NEXT));
    committed.complete(Completion::Satisfied);
    assert_eq!(answers.try_recv(), Ok(ErrorCode::None.code()));
    assert!(lost.is_satisfied());
    lost.complete(Completion::Satisfied);
    assert_eq!(answers.try_recv(), Ok(ErrorCode::NotLeaderOrFollower.code()));
}
