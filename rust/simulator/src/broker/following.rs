//! The followers on a simulated broker: production's `Fetcher` for each leader, over logs in
//! memory.
//!
//! The network may lose a question or its answer: after a while the fetcher learns that it failed.

use super::Broker;
use super::replica::Replica;
use crate::io::Io;
use crate::log::Checks;
use crate::message::{Fetch, Message, Node};
use crate::planted::Planted;
use kafkalite_broker::replication::{
    Answer, FetchedRecords, Fetcher, FetcherConfig, LocalReplicas, Next, Position, Question,
    ReplicaKey,
};
use kafkalite_log::Role;
use kafkalite_protocol::messages::fetch::{
    EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse,
    PartitionData,
};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use kafkalite_protocol::messages::offset_for_leader_epoch as for_epoch;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Records, Uuid};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A question without an answer is given up after this, ms.
const ANSWER_MS: u64 = 40;
/// Between two questions after a failure, ms.
const BACKOFF_MS: u64 = 5;
/// Stands for both topics of the run: partitions have numbers of their own.
const TOPIC: Uuid = Uuid([8; 16]);

fn key(partition: usize) -> ReplicaKey {
    ReplicaKey { topic_id: TOPIC, partition: i32::try_from(partition).unwrap_or(0) }
}

fn place(partition: i32) -> usize {
    usize::try_from(partition).unwrap_or(0)
}

/// What follows one leader.
pub struct Following {
    fetcher: Fetcher,
    /// The question under way, and when it was sent.
    asked: Option<(u64, u64)>,
}

impl Following {
    fn new(replica_id: i32, broker_epoch: i64) -> Self {
        let ids = FetcherConfig { replica_id, broker_epoch, ..FetcherConfig::default() };
        let fetcher = Fetcher::new(FetcherConfig { backoff_ms: BACKOFF_MS, ..ids });
        Self { fetcher, asked: None }
    }
}

/// The logs of a broker.
struct Logs<'a> {
    replicas: RefCell<&'a mut [Replica]>,
    planted: Option<Planted>,
    /// Some log is another one than before.
    moved: Cell<bool>,
    /// Where logs begin that were emptied, by partition.
    restarted: RefCell<Vec<(usize, Offset)>>,
}

impl<'a> Logs<'a> {
    fn new(replicas: &'a mut [Replica], io: &Io<'_>) -> Self {
        let (replicas, moved) = (RefCell::new(replicas), Cell::new(false));
        Self { replicas, planted: io.planted, moved, restarted: RefCell::default() }
    }

    /// Changes a log that follows in `epoch`.
    fn change(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        change: impl FnOnce(&mut Replica) -> Option<()>,
    ) -> Option<Position> {
        {
            let mut replicas = self.replicas.borrow_mut();
            let replica = replicas.get_mut(place(key.partition))?;
            let is_current = replica.log.role() == Role::Follower(epoch);
            if !is_current && self.planted != Some(Planted::EpochFenceDropped) {
                return None;
            }
            change(replica)?;
        }
        self.position(key)
    }
}

impl LocalReplicas for Logs<'_> {
    fn position(&self, key: ReplicaKey) -> Option<Position> {
        let mut replicas = self.replicas.borrow_mut();
        let replica = replicas.get_mut(place(key.partition)).filter(|one| one.is_here())?;
        let is_forgotten = self.planted == Some(Planted::FollowerAcknowledgesUnflushed);
        if replica.settings.flush_messages && !is_forgotten {
            replica.make_durable();
        }
        let (end, latest_epoch) = (replica.log.end(), replica.log.latest_epoch());
        Some(Position { start: replica.log.start(), end, latest_epoch })
    }

    fn end_of_epoch(&self, key: ReplicaKey, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let replicas = self.replicas.borrow();
        let end = replicas.get(place(key.partition))?.log.end_of_epoch(epoch)?;
        Some((end.epoch, end.end_offset))
    }

    fn append(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        fetched: &FetchedRecords,
    ) -> Option<Position> {
        let has_fence = self.planted != Some(Planted::EpochFenceDropped);
        let crc = self.planted != Some(Planted::CrcSkipped);
        self.change(key, epoch, |replica| {
            let FetchedRecords { records, high_watermark, log_start } = fetched;
            let checks = Checks { crc, epochs: has_fence };
            let end = replica.log.append_as_follower(records, epoch, checks).ok()?;
            replica.state.followed(end, *high_watermark);
            replica.follow_log_start(*log_start);
            self.moved.set(self.moved.get() || !records.is_empty());
            Some(())
        })
    }

    fn truncate(&self, key: ReplicaKey, epoch: LeaderEpoch, to: Offset) -> Option<Position> {
        let is_skipped = self.planted == Some(Planted::TruncationSkipped);
        self.change(key, epoch, |replica| {
            if !is_skipped {
                replica.truncate_to(to);
                self.moved.set(true);
            }
            Some(())
        })
    }

    fn restart(&self, key: ReplicaKey, epoch: LeaderEpoch, start: Offset) -> Option<Position> {
        if self.planted == Some(Planted::LateFollowerKeepsItsLog) {
            return None;
        }
        self.change(key, epoch, |replica| {
            replica.restart_at(start);
            self.moved.set(true);
            self.restarted.borrow_mut().push((replica.partition, start));
            Some(())
        })
    }
}

impl Broker {
    /// Follows the leader that a partition has by its newest image.
    pub(super) fn follow_leader(&mut self, partition: usize) {
        let Some(image) = &self.replicas[partition].image else { return };
        let (leader, epoch, me) = (image.leader, image.leader_epoch, self.id);
        let is_here = self.replicas[partition].is_here();
        let others = self.following.iter_mut().filter(|(id, _)| !is_here || **id != leader);
        others.for_each(|(_, other)| other.fetcher.unfollow(key(partition)));
        if is_here && leader >= 0 && leader != me {
            let broker_epoch = self.epoch.unwrap_or(-1);
            let new = || Following::new(me, broker_epoch);
            let following = self.following.entry(leader).or_insert_with(new);
            following.fetcher.follow(key(partition), &Arc::from("t"), epoch);
        }
    }

    /// Asks every leader that owes no answer.
    pub(super) fn ask_leaders(&mut self, io: &mut Io<'_>) {
        let leaders: Vec<i32> = self.following.keys().copied().collect();
        leaders.into_iter().for_each(|leader| self.ask_leader(leader, io));
    }

    fn ask_leader(&mut self, leader: i32, io: &mut Io<'_>) {
        let id = self.new_id();
        let Some(following) = self.following.get_mut(&leader) else { return };
        if let Some((_, sent_ms)) = following.asked {
            if io.now_ms < sent_ms + ANSWER_MS {
                return;
            }
            following.asked = None;
            following.fetcher.failed(io.now_ms);
        }
        let logs = Logs::new(&mut self.replicas, io);
        if let Next::Ask(question) = following.fetcher.next(io.now_ms, &logs) {
            following.asked = Some((id, io.now_ms));
            io.send(Node::Broker(leader), id, Message::Ask(Box::new(question)));
        }
    }

    /// Takes the answer of a leader to question `id`.
    pub(super) fn take_answer(&mut self, leader: i32, id: u64, answer: Answer, io: &mut Io<'_>) {
        let Some(following) = self.following.get_mut(&leader) else { return };
        let is_asked = following.asked.take_if(|(asked, _)| *asked == id).is_some();
        if !is_asked && !io.has(Planted::EpochFenceDropped) {
            return;
        }
        let logs = Logs::new(&mut self.replicas, io);
        following.fetcher.answered(io.now_ms, answer, &logs);
        for (partition, start) in logs.restarted.take() {
            io.checker.logs.restarted(partition, start);
        }
        if logs.moved.get() {
            self.ask_leader(leader, io);
        }
    }

    /// Answers a follower.
    pub(super) fn answer(&mut self, follower: i32, id: u64, question: &Question, io: &mut Io<'_>) {
        let answer = match question {
            Question::Fetch(request) => Answer::Fetch(self.fetched(follower, request, io)),
            Question::Epochs(request) => Answer::Epochs(self.epochs(request)),
            Question::Starts(request) => Answer::Starts(self.starts(request)),
        };
        io.send(Node::Broker(follower), id, Message::Answer(Box::new(answer)));
    }

    fn fetched(&mut self, follower: i32, request: &FetchRequest, io: &mut Io<'_>) -> FetchResponse {
        let broker_epoch = Some(request.replica_state.replica_epoch);
        let mut partitions = Vec::new();
        for asked in request.topics.iter().flat_map(|topic| &topic.partitions) {
            let FetchPartition { partition, fetch_offset, .. } = *asked;
            let fetch = Fetch {
                partition: place(partition),
                offset: Offset(fetch_offset),
                claimed: LeaderEpoch(asked.current_leader_epoch),
                last_fetched: LeaderEpoch(asked.last_fetched_epoch),
                log_start: Offset(asked.log_start_offset),
                broker_epoch,
            };
            let told = self.replicas[fetch.partition].read(Some(follower), &fetch, io);
            let diverging = told
                .diverging
                .map(|(epoch, end)| EpochEndOffset { epoch: epoch.0, end_offset: end.0 });
            partitions.push(PartitionData {
                partition_index: partition,
                error_code: told.error.code(),
                high_watermark: told.high_watermark.0,
                log_start_offset: match io.has(Planted::DeletedRecordsTrusted)
                    && diverging.is_some()
                {
                    true => 0,
                    false => told.log_start.0,
                },
                diverging_epoch: diverging.unwrap_or_default(),
                records: Some(Records::Bytes(told.batches)),
                ..PartitionData::default()
            });
        }
        let topic = FetchableTopicResponse { topic_id: TOPIC, partitions, ..Default::default() };
        FetchResponse { responses: vec![topic], ..FetchResponse::default() }
    }

    fn check_leader(&self, partition: i32, claimed: i32) -> ErrorCode {
        let replica = &self.replicas[place(partition)];
        if !replica.is_here() {
            return ErrorCode::NotLeaderOrFollower;
        }
        let checked = replica.state.check_leader(LeaderEpoch(claimed));
        checked.err().unwrap_or(ErrorCode::None)
    }

    fn epochs(
        &self,
        request: &for_epoch::OffsetForLeaderEpochRequest,
    ) -> for_epoch::OffsetForLeaderEpochResponse {
        let end = |asked: &for_epoch::OffsetForLeaderPartition| {
            let log = &self.replicas[place(asked.partition)].log;
            let end = log.end_of_epoch(LeaderEpoch(asked.leader_epoch));
            for_epoch::EpochEndOffset {
                error_code: self.check_leader(asked.partition, asked.current_leader_epoch).code(),
                partition: asked.partition,
                leader_epoch: end.map_or(-1, |end| end.epoch.0),
                end_offset: end.map_or(-1, |end| end.end_offset.0),
            }
        };
        let topics = request.topics.iter().map(|topic| for_epoch::OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic.partitions.iter().map(end).collect(),
        });
        for_epoch::OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
    }

    fn starts(&self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: (topic.partitions.iter())
                .map(|asked| ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: self
                        .check_leader(asked.partition_index, asked.current_leader_epoch)
                        .code(),
                    offset: self.replicas[place(asked.partition_index)].log.start().0,
                    ..ListOffsetsPartitionResponse::default()
                })
                .collect(),
        });
        ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() }
    }
}
