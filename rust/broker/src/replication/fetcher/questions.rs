//! What a follower asks whose offset the leader does not have.
//!
//! Its log may have records that the leader does not: OffsetForLeaderEpoch says where the logs
//! part. Or the leader has deleted what would come next: ListOffsets says where its log starts.
//! Source: Kafka's `AbstractFetcherThread.fetchOffsetAndTruncate`.

use super::{Asked, Fetcher, LocalReplicas, Progress, Question, ReplicaKey};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use std::collections::BTreeMap;
use std::sync::Arc;

/// ListOffsets' name for the first offset there is.
const EARLIEST: i64 = -2;

impl Fetcher {
    /// The next question for partitions whose offset the leader does not have.
    pub(super) fn question_for_lost(
        &mut self,
        now_ms: u64,
        logs: &impl LocalReplicas,
    ) -> Option<Question> {
        self.asked.clear();
        for progress in [Progress::Epochs, Progress::Start] {
            let keys: Vec<ReplicaKey> = self
                .lost
                .iter()
                .copied()
                .filter(|key| self.progress(*key) == Some(progress))
                .collect();
            for key in keys {
                let Some(position) = logs.position(key) else {
                    self.delay(key, now_ms);
                    continue;
                };
                if let Some(followed) = self.partitions.get(&key) {
                    self.asked.insert(key, Asked { epoch: followed.epoch, position });
                }
            }
            if !self.asked.is_empty() {
                return Some(match progress {
                    Progress::Epochs => Question::Epochs(self.epochs_request()),
                    _ => Question::Starts(self.starts_request()),
                });
            }
        }
        None
    }

    fn by_name<T>(&self, of: impl Fn(i32, &Asked) -> T) -> BTreeMap<Arc<str>, Vec<T>> {
        let mut topics: BTreeMap<Arc<str>, Vec<T>> = BTreeMap::new();
        for (key, asked) in &self.asked {
            if let Some(followed) = self.partitions.get(key) {
                let name = Arc::clone(&followed.name);
                topics.entry(name).or_default().push(of(key.partition, asked));
            }
        }
        topics
    }

    fn epochs_request(&self) -> OffsetForLeaderEpochRequest {
        let partition = |partition, asked: &Asked| OffsetForLeaderPartition {
            partition,
            current_leader_epoch: asked.epoch.0,
            leader_epoch: asked.position.latest_epoch.0,
        };
        let topics = self.by_name(partition).into_iter();
        OffsetForLeaderEpochRequest {
            replica_id: self.config.replica_id,
            topics: topics
                .map(|(name, partitions)| OffsetForLeaderTopic {
                    topic: name.to_string(),
                    partitions,
                })
                .collect(),
        }
    }

    fn starts_request(&self) -> ListOffsetsRequest {
        let partition = |partition_index, asked: &Asked| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: asked.epoch.0,
            timestamp: EARLIEST,
        };
        let topics = self.by_name(partition).into_iter();
        ListOffsetsRequest {
            replica_id: self.config.replica_id,
            topics: topics
                .map(|(name, partitions)| ListOffsetsTopic { name: name.to_string(), partitions })
                .collect(),
            ..ListOffsetsRequest::default()
        }
    }

    /// What was asked of the partition of this name, if it is still to be answered.
    fn asked_by_name(&self, name: &str, partition: i32) -> Option<(ReplicaKey, Asked)> {
        let mut asked = self.asked.iter().filter(|(key, _)| key.partition == partition);
        asked.find_map(|(key, asked)| {
            let followed = self.partitions.get(key)?;
            let is_it = &*followed.name == name && followed.epoch == asked.epoch;
            is_it.then_some((*key, *asked))
        })
    }

    pub(super) fn take_epochs(
        &mut self,
        now_ms: u64,
        response: &OffsetForLeaderEpochResponse,
        logs: &impl LocalReplicas,
    ) {
        for topic in &response.topics {
            for end in &topic.partitions {
                let Some((key, asked)) = self.asked_by_name(&topic.topic, end.partition) else {
                    continue;
                };
                if end.error_code != ErrorCode::None.code() {
                    self.delay(key, now_ms);
                    continue;
                }
                let parted = (LeaderEpoch(end.leader_epoch), Offset(end.end_offset));
                let is_known = end.end_offset >= 0;
                let parts = parted.0 < asked.position.latest_epoch || parted.1 < asked.position.end;
                if is_known && parts && self.truncate(key, asked, parted, None, logs) {
                    continue;
                }
                self.set(key, Progress::Start);
            }
        }
        self.give_up_unanswered(now_ms, Progress::Epochs);
    }

    pub(super) fn take_starts(
        &mut self,
        now_ms: u64,
        response: &ListOffsetsResponse,
        logs: &impl LocalReplicas,
    ) {
        for topic in &response.topics {
            for told in &topic.partitions {
                let Some((key, asked)) = self.asked_by_name(&topic.name, told.partition_index)
                else {
                    continue;
                };
                let start = Offset(told.offset);
                let is_behind =
                    told.error_code == ErrorCode::None.code() && start > asked.position.end;
                if is_behind && logs.restart(key, asked.epoch, start).is_some() {
                    self.set(key, Progress::Fetching);
                } else {
                    self.delay(key, now_ms);
                }
            }
        }
        self.give_up_unanswered(now_ms, Progress::Start);
    }

    /// Partitions that were asked for and that the answer leaves out.
    fn give_up_unanswered(&mut self, now_ms: u64, progress: Progress) {
        for key in std::mem::take(&mut self.asked).into_keys() {
            if self.progress(key) == Some(progress) {
                self.delay(key, now_ms);
            }
        }
    }
}
