//! Offsets of partitions by time, and records removed below one.

use super::{Admin, Each, failed, named_once, side_by_side, timeout_ms};
use crate::config::IsolationLevel;
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::NodeId;
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The end: the high watermark, or under read_committed the last stable offset.
pub const LATEST: i64 = -1;
/// The first offset there is.
pub const EARLIEST: i64 = -2;
/// The record with the newest timestamp.
pub const MAX_TIMESTAMP: i64 = -3;

/// An offset that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 where no record is so new.
    pub offset: i64,
    /// That record's timestamp in milliseconds; -1 where there is none to tell.
    pub timestamp_ms: i64,
    /// Leader epoch of the record.
    pub leader_epoch: LeaderEpoch,
}

/// Partitions by who leads them.
type ByLeader = BTreeMap<NodeId, Vec<TopicPartition>>;

impl Admin {
    /// Looks up an offset for each partition, by a symbol such as [`LATEST`] or by a time. For a
    /// time in milliseconds it is the first record that is not older.
    pub async fn list_offsets(
        &self,
        times: Vec<(TopicPartition, i64)>,
        isolation: IsolationLevel,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, ListedOffset>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = times.iter().map(|(partition, _)| partition.clone()).collect();
        let times: Arc<HashMap<TopicPartition, i64>> = Arc::new(times.into_iter().collect());
        self.each("looking up offsets", deadline, partitions, |partitions| {
            let times = Arc::clone(&times);
            self.at_leaders(partitions, move |admin, node, partitions| {
                let times = Arc::clone(&times);
                async move {
                    admin.list_offsets_of(node, &partitions, &times, isolation, deadline).await
                }
            })
        })
        .await
    }

    async fn list_offsets_of(
        &self,
        node: NodeId,
        partitions: &[TopicPartition],
        times: &HashMap<TopicPartition, i64>,
        isolation: IsolationLevel,
        deadline: Instant,
    ) -> Result<Each<TopicPartition, ListedOffset>, ClientError> {
        let topics = by_topic(partitions, |partition| ListOffsetsPartition {
            partition_index: partition.partition,
            timestamp: times[partition],
            ..ListOffsetsPartition::default()
        });
        let topics =
            topics.into_iter().map(|(name, partitions)| ListOffsetsTopic { name, partitions });
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level: isolation.code(),
            topics: topics.collect(),
            timeout_ms: timeout_ms(deadline),
        };
        let (_, response) = self.cluster.send(node, |_| request).await?;
        let mut results = Vec::new();
        for topic in response.topics {
            let name: Arc<str> = topic.name.into();
            for told in topic.partitions {
                let key = TopicPartition::new(Arc::clone(&name), told.partition_index);
                let checked = ClientError::check(told.error_code, None, || key.to_string());
                let listed = checked.map(|()| ListedOffset {
                    offset: told.offset,
                    timestamp_ms: told.timestamp,
                    leader_epoch: LeaderEpoch(told.leader_epoch),
                });
                results.push((key, listed));
            }
        }
        Ok(results)
    }

    /// Removes the records of each partition below an offset; -1 is the end. Returns the first
    /// offset that is left.
    pub async fn delete_records(
        &self,
        before: Vec<(TopicPartition, i64)>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, i64>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = before.iter().map(|(partition, _)| partition.clone()).collect();
        let before: Arc<HashMap<TopicPartition, i64>> = Arc::new(before.into_iter().collect());
        self.each("deleting records", deadline, partitions, |partitions| {
            let before = Arc::clone(&before);
            self.at_leaders(partitions, move |admin, node, partitions| {
                let before = Arc::clone(&before);
                async move { admin.delete_records_of(node, &partitions, &before, deadline).await }
            })
        })
        .await
    }

    async fn delete_records_of(
        &self,
        node: NodeId,
        partitions: &[TopicPartition],
        before: &HashMap<TopicPartition, i64>,
        deadline: Instant,
    ) -> Result<Each<TopicPartition, i64>, ClientError> {
        let topics = by_topic(partitions, |partition| DeleteRecordsPartition {
            partition_index: partition.partition,
            offset: before[partition],
        });
        let topics =
            topics.into_iter().map(|(name, partitions)| DeleteRecordsTopic { name, partitions });
        let request =
            DeleteRecordsRequest { topics: topics.collect(), timeout_ms: timeout_ms(deadline) };
        let (_, response) = self.cluster.send(node, |_| request).await?;
        let mut results = Vec::new();
        for topic in response.topics {
            let name: Arc<str> = topic.name.into();
            for told in topic.partitions {
                let key = TopicPartition::new(Arc::clone(&name), told.partition_index);
                let checked = ClientError::check(told.error_code, None, || key.to_string());
                results.push((key, checked.map(|()| told.low_watermark)));
            }
        }
        Ok(results)
    }

    /// Runs `ask` for the partitions of each leader, side by side. A broker that cannot be reached
    /// fails its own partitions only.
    async fn at_leaders<F, T>(
        &self,
        partitions: Vec<TopicPartition>,
        ask: impl Fn(Self, NodeId, Vec<TopicPartition>) -> F,
    ) -> Result<Each<TopicPartition, T>, ClientError>
    where
        F: Future<Output = Result<Each<TopicPartition, T>, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let (leaders, mut results) = self.leaders(partitions).await?;
        let asked = leaders.into_iter().map(|(node, partitions)| {
            let told = ask(self.clone(), node, partitions.clone());
            async move { told.await.unwrap_or_else(|error| failed(&partitions, &error)) }
        });
        for each in side_by_side(asked).await {
            results.extend(each);
        }
        Ok(results)
    }

    /// The leader of each partition, and an error for each partition that is missing or has no
    /// leader.
    async fn leaders<T>(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Result<(ByLeader, Each<TopicPartition, T>), ClientError> {
        let mut names: Vec<String> = partitions.iter().map(|p| p.topic.to_string()).collect();
        names.sort();
        names.dedup();
        let told = self.describe_topics_once(names).await?;
        let topics: HashMap<String, _> = told.into_iter().collect();
        let mut leaders = ByLeader::new();
        let mut refused = Vec::new();
        for partition in partitions {
            let leader = match topics.get(&*partition.topic) {
                Some(Err(error)) => Err(error.clone()),
                None => Err(ClientError::left_out("the cluster", &partition)),
                Some(Ok(topic)) => {
                    let found = topic.partitions.iter().find(|p| p.index == partition.partition);
                    let unknown = || ClientError::NoPartition {
                        topic: partition.topic.to_string(),
                        count: topic.partitions.len(),
                        partition: partition.partition,
                    };
                    found.ok_or_else(unknown).and_then(|found| {
                        let nobody = ErrorCode::LeaderNotAvailable;
                        found
                            .leader
                            .ok_or_else(|| ClientError::broker(nobody, partition.to_string()))
                    })
                }
            };
            match leader {
                Ok(node) => leaders.entry(node).or_default().push(partition),
                Err(error) => refused.push((partition, Err(error))),
            }
        }
        Ok((leaders, refused))
    }
}

/// Partitions as requests list them: topic by topic, each once.
pub(super) fn by_topic<T>(
    partitions: &[TopicPartition],
    entry: impl Fn(&TopicPartition) -> T,
) -> BTreeMap<String, Vec<T>> {
    let mut topics: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for partition in named_once(partitions) {
        topics.entry(partition.topic.to_string()).or_default().push(entry(&partition));
    }
    topics
}
