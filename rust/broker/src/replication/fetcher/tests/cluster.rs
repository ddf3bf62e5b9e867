//! A leader and a follower in memory; a record is nothing but its epoch.

use super::super::*;
use bytes::Bytes;
use kafkalite_protocol::messages::fetch::{EpochEndOffset, FetchableTopicResponse};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafkalite_protocol::messages::offset_for_leader_epoch as for_epoch;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

pub const KEY: ReplicaKey = key(0);
/// The leader's epoch: above all in the logs.
pub const EPOCH: LeaderEpoch = LeaderEpoch(99);
const ID: Uuid = Uuid([4; 16]);
/// Questions that a follower needs at the most.
const PATIENCE: usize = 60;

pub const fn key(partition: i32) -> ReplicaKey {
    ReplicaKey { topic_id: ID, partition }
}

pub fn config() -> FetcherConfig {
    FetcherConfig { replica_id: 2, broker_epoch: 70, ..FetcherConfig::default() }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLog {
    pub start: i64,
    /// Of each record.
    pub epochs: Vec<i32>,
}

pub fn log(start: i64, epochs: &[i32]) -> MemoryLog {
    MemoryLog { start, epochs: epochs.to_vec() }
}

impl MemoryLog {
    fn end(&self) -> i64 {
        self.start + self.epochs.len() as i64
    }

    fn position(&self) -> Position {
        let latest_epoch = LeaderEpoch(self.epochs.last().copied().unwrap_or(-1));
        Position { start: Offset(self.start), end: Offset(self.end()), latest_epoch }
    }

    /// As the log crate's `LeaderEpochs`; `current` began at the end.
    fn end_of_epoch(&self, epoch: i32, current: Option<i32>) -> Option<(LeaderEpoch, Offset)> {
        let found = |epoch, end| Some((LeaderEpoch(epoch), Offset(end)));
        let latest = current.or(self.epochs.last().copied())?;
        if epoch == latest {
            return found(epoch, self.end());
        }
        if epoch > latest || epoch < 0 {
            return None;
        }
        let after = self.epochs.partition_point(|one| *one <= epoch);
        let floor = self.epochs[..after].last().copied().unwrap_or(epoch);
        found(floor, self.start + after as i64)
    }
}

/// The logs of the follower, and whether they are throttled.
#[derive(Default)]
pub struct Logs(RefCell<BTreeMap<ReplicaKey, (MemoryLog, bool)>>, pub Cell<bool>);

impl Logs {
    pub fn replace(&self, key: ReplicaKey, log: MemoryLog) {
        self.0.borrow_mut().insert(key, (log, true));
    }

    pub fn set_ready(&self, key: ReplicaKey, is_ready: bool) {
        self.0.borrow_mut().get_mut(&key).unwrap().1 = is_ready;
    }

    fn change(&self, key: ReplicaKey, change: impl FnOnce(&mut MemoryLog)) -> Option<Position> {
        let mut logs = self.0.borrow_mut();
        let (log, _) = logs.get_mut(&key)?;
        change(log);
        Some(log.position())
    }
}

impl LocalReplicas for Logs {
    fn position(&self, key: ReplicaKey) -> Option<Position> {
        let logs = self.0.borrow();
        logs.get(&key).filter(|(_, is_ready)| *is_ready).map(|(log, _)| log.position())
    }

    fn end_of_epoch(&self, key: ReplicaKey, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.0.borrow().get(&key)?.0.end_of_epoch(epoch.0, None)
    }

    fn is_throttled(&self, _: ReplicaKey) -> bool {
        self.1.get()
    }

    fn append(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        fetched: &FetchedRecords,
    ) -> Option<Position> {
        assert_eq!(epoch, EPOCH);
        self.change(key, |log| {
            log.epochs.extend(fetched.records.iter().map(|epoch| i32::from(*epoch)));
        })
    }

    fn truncate(&self, key: ReplicaKey, _: LeaderEpoch, to: Offset) -> Option<Position> {
        self.change(key, |log| log.epochs.truncate((to.0 - log.start).max(0) as usize))
    }

    fn restart(&self, key: ReplicaKey, _: LeaderEpoch, start: Offset) -> Option<Position> {
        self.change(key, |log| *log = MemoryLog { start: start.0, epochs: Vec::new() })
    }
}

pub struct Cluster {
    pub fetcher: Fetcher,
    pub logs: Logs,
    pub now_ms: u64,
    /// What the leader calls its session; 0: it keeps none.
    pub session_id: i32,
    leader: BTreeMap<i32, MemoryLog>,
    refused: BTreeMap<ReplicaKey, ErrorCode>,
}

impl Cluster {
    /// Partition 0 of topic `t` with these epochs in the logs.
    pub fn new(leader: &[i32], follower: &[i32]) -> Self {
        let mut cluster = Self {
            fetcher: Fetcher::new(config()),
            logs: Logs::default(),
            now_ms: 1_000,
            session_id: 0,
            leader: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        cluster.add(0, log(0, leader), log(0, follower));
        cluster
    }

    pub fn add(&mut self, partition: i32, leader: MemoryLog, follower: MemoryLog) {
        self.leader.insert(partition, leader);
        self.logs.replace(key(partition), follower);
        self.fetcher.follow(key(partition), &"t".into(), EPOCH);
    }

    pub fn leader_log(&mut self) -> &mut MemoryLog {
        self.leader.get_mut(&0).unwrap()
    }

    pub fn follower(&self) -> MemoryLog {
        self.log(KEY)
    }

    pub fn log(&self, key: ReplicaKey) -> MemoryLog {
        self.logs.0.borrow()[&key].0.clone()
    }

    pub fn refuse(&mut self, key: ReplicaKey, error: ErrorCode) {
        self.refused.insert(key, error);
    }

    pub fn allow(&mut self, key: ReplicaKey) {
        self.refused.remove(&key);
    }

    pub fn next(&mut self) -> Next {
        self.fetcher.next(self.now_ms, &self.logs)
    }

    pub fn ask(&mut self) -> Question {
        match self.next() {
            Next::Ask(question) => question,
            Next::Wait(until) => panic!("nothing to ask before {until:?}"),
        }
    }

    pub fn take(&mut self, answer: Answer) {
        self.fetcher.answered(self.now_ms, answer, &self.logs);
    }

    /// One question and its answer.
    pub fn exchange(&mut self) {
        let question = self.ask();
        let answer = self.answer(&question);
        self.take(answer);
    }

    /// Until nothing changes any more.
    pub fn converge(&mut self) {
        for _ in 0..PATIENCE {
            match self.next() {
                Next::Ask(question) => {
                    let before = self.follower();
                    let answer = self.answer(&question);
                    self.take(answer);
                    let end = self.leader[&0].end();
                    let is_fetch = matches!(question, Question::Fetch(_));
                    if is_fetch && before == self.follower() && before.end() == end {
                        return;
                    }
                }
                Next::Wait(until) => self.now_ms = until.unwrap(),
            }
        }
        panic!("no end after {PATIENCE} questions: {:?} {:?}", self.leader, self.follower());
    }

    /// What the leader answers.
    pub fn answer(&self, question: &Question) -> Answer {
        match question {
            Question::Fetch(request) => {
                let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
                let partitions = asked.map(|asked| self.fetched(asked)).collect();
                let topic =
                    FetchableTopicResponse { topic_id: ID, partitions, ..Default::default() };
                let (session_id, responses) = (self.session_id, vec![topic]);
                Answer::Fetch(FetchResponse { session_id, responses, ..Default::default() })
            }
            Question::Epochs(request) => {
                let asked = &request.topics[0];
                let end = |one: &for_epoch::OffsetForLeaderPartition| {
                    let log = &self.leader[&one.partition];
                    let end = log.end_of_epoch(one.leader_epoch, Some(EPOCH.0));
                    for_epoch::EpochEndOffset {
                        partition: one.partition,
                        leader_epoch: end.map_or(-1, |(epoch, _)| epoch.0),
                        end_offset: end.map_or(-1, |(_, end)| end.0),
                        ..Default::default()
                    }
                };
                let topic = asked.topic.clone();
                let partitions = asked.partitions.iter().map(end).collect();
                let topics = vec![for_epoch::OffsetForLeaderTopicResult { topic, partitions }];
                Answer::Epochs(OffsetForLeaderEpochResponse { topics, ..Default::default() })
            }
            Question::Starts(request) => {
                let asked = &request.topics[0];
                let start = |partition_index| ListOffsetsPartitionResponse {
                    partition_index,
                    offset: self.leader[&partition_index].start,
                    ..Default::default()
                };
                let partitions = asked.partitions.iter().map(|one| start(one.partition_index));
                let (name, partitions) = (asked.name.clone(), partitions.collect());
                let topics = vec![ListOffsetsTopicResponse { name, partitions }];
                Answer::Starts(ListOffsetsResponse { topics, ..Default::default() })
            }
        }
    }

    fn fetched(
        &self,
        asked: &kafkalite_protocol::messages::fetch::FetchPartition,
    ) -> PartitionData {
        let partition_index = asked.partition;
        let log = &self.leader[&partition_index];
        let log_start_offset = log.start;
        let told = PartitionData { partition_index, log_start_offset, ..PartitionData::default() };
        if let Some(error) = self.refused.get(&key(partition_index)) {
            return PartitionData { error_code: error.code(), ..told };
        }
        let out_of_range = ErrorCode::OffsetOutOfRange.code();
        if asked.last_fetched_epoch >= 0 {
            let known = log.end_of_epoch(asked.last_fetched_epoch, Some(EPOCH.0));
            let Some((epoch, end)) = known else {
                return PartitionData { error_code: out_of_range, ..told };
            };
            let parts = epoch.0 < asked.last_fetched_epoch || end.0 < asked.fetch_offset;
            // As the log crate's `LeaderEpochs`.
            let first = log.epochs.first().copied().unwrap_or(EPOCH.0);
            let has_older = asked.log_start_offset < asked.fetch_offset;
            if parts || (asked.last_fetched_epoch < first && has_older) {
                let diverging_epoch = EpochEndOffset { epoch: epoch.0, end_offset: end.0 };
                return PartitionData { diverging_epoch, ..told };
            }
        }
        if asked.fetch_offset < log.start || asked.fetch_offset > log.end() {
            return PartitionData { error_code: out_of_range, ..told };
        }
        let from = (asked.fetch_offset - log.start) as usize;
        let records: Vec<u8> = log.epochs[from..].iter().map(|epoch| *epoch as u8).collect();
        PartitionData {
            high_watermark: log.end(),
            records: Some(Records::Bytes(Bytes::from(records))),
            ..told
        }
    }
}
