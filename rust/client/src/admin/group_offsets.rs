//! What groups have committed: listed, changed, removed, and compared with the ends of partitions.

use super::offsets::{EARLIEST, LATEST, by_topic};
use super::{Admin, Each, complete};
use crate::config::IsolationLevel;
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::CoordinatorKind;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafkalite_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// In later versions topics have ids instead of names.
const NAMES_UP_TO: i16 = 9;
/// From this version on several groups are asked for at once.
const GROUPS_FROM: i16 = 8;

/// What a group committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record to read.
    pub offset: i64,
    /// Leader epoch of the record before it, if the group has it.
    pub leader_epoch: LeaderEpoch,
    /// The group's own words.
    pub metadata: String,
}

/// How far a group is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// What it committed.
    pub committed: i64,
    /// The partition's first offset.
    pub start: i64,
    /// The partition's end.
    pub end: i64,
}

impl Admin {
    /// What a group committed, of `partitions` alone if any are given; partitions without a commit
    /// are left out.
    pub async fn list_group_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, CommittedOffset>, ClientError> {
        let deadline = self.deadline(limit);
        let once = || self.list_group_offsets_once(group, partitions.as_deref());
        self.retry("listing a group's offsets", deadline, once).await
    }

    async fn list_group_offsets_once(
        &self,
        group: &str,
        partitions: Option<&[TopicPartition]>,
    ) -> Result<Each<TopicPartition, CommittedOffset>, ClientError> {
        let told = self.at_coordinator(group, |version| offset_fetch(group, partitions, version));
        let (version, response) = told.await?;
        let (code, told) = committed(version, response, group);
        self.checked_group(group, code)?;
        let checked = told.into_iter().map(|(partition, code, committed)| {
            let result = ClientError::check(code, None, || format!("{group} at {partition}"));
            (partition, result.map(|()| committed))
        });
        let mut results = complete(checked, partitions);
        // An offset of -1 is none.
        results.retain(|(_, told)| !told.as_ref().is_ok_and(|committed| committed.offset < 0));
        results.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(results)
    }

    /// Commits offsets for a group without members.
    pub async fn alter_group_offsets(
        &self,
        group: &str,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = offsets.iter().map(|(partition, _)| partition.clone()).collect();
        let offsets: HashMap<TopicPartition, CommittedOffset> = offsets.into_iter().collect();
        let offsets = &offsets;
        self.each("changing a group's offsets", deadline, partitions, |partitions| async move {
            let topics = by_topic(&partitions, |partition| OffsetCommitRequestPartition {
                partition_index: partition.partition,
                committed_offset: offsets[partition].offset,
                committed_leader_epoch: offsets[partition].leader_epoch.0,
                committed_metadata: Some(offsets[partition].metadata.clone()),
            });
            let topic = |(name, partitions)| OffsetCommitRequestTopic {
                name,
                partitions,
                ..OffsetCommitRequestTopic::default()
            };
            let request = OffsetCommitRequest {
                group_id: group.to_owned(),
                topics: topics.into_iter().map(topic).collect(),
                ..OffsetCommitRequest::default()
            };
            let (_, response) = self.at_coordinator(group, |_| request).await?;
            let mut results = Vec::new();
            for topic in response.topics {
                let name: Arc<str> = topic.name.into();
                for told in topic.partitions {
                    let key = TopicPartition::new(Arc::clone(&name), told.partition_index);
                    let result = self.checked_group(group, commit_code(told.error_code));
                    results.push((key, result));
                }
            }
            Ok(results)
        })
        .await
    }

    /// Commits the offsets of a symbol or a time for a group without members, see
    /// [`Admin::list_offsets`]. It covers the given partitions, or all with a commit of the group.
    /// If no record is new enough, the offset is the end. Returns the committed offsets.
    pub async fn reset_group_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
        time: i64,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, CommittedOffset>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = match partitions {
            Some(partitions) => partitions,
            None => {
                let committed = self.list_group_offsets(group, None, left(deadline)).await?;
                committed.into_iter().map(|(partition, _)| partition).collect()
            }
        };
        let mut offsets = Vec::new();
        let mut results = Vec::new();
        for (partition, looked_up) in self.times_or_ends(&partitions, time, deadline).await? {
            match looked_up {
                Ok(committed) => offsets.push((partition, committed)),
                Err(error) => results.push((partition, Err(error))),
            }
        }
        let by_partition: HashMap<_, _> = offsets.iter().cloned().collect();
        for (partition, result) in self.alter_group_offsets(group, offsets, left(deadline)).await? {
            let committed = by_partition[&partition].clone();
            results.push((partition, result.map(|()| committed)));
        }
        results.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(results)
    }

    /// The offsets of a time, or the ends where no record is so new.
    async fn times_or_ends(
        &self,
        partitions: &[TopicPartition],
        time: i64,
        deadline: Instant,
    ) -> Result<Each<TopicPartition, CommittedOffset>, ClientError> {
        let found = self.offsets_at(partitions.iter().cloned(), time, deadline).await?;
        let too_new = |(partition, result): &(TopicPartition, Result<CommittedOffset, _>)| {
            let missing = result.as_ref().is_ok_and(|found| found.offset < 0);
            missing.then(|| partition.clone())
        };
        let late: Vec<TopicPartition> = found.iter().filter_map(too_new).collect();
        let mut found: HashMap<_, _> = found.into_iter().collect();
        found.extend(self.offsets_at(late.into_iter(), LATEST, deadline).await?);
        Ok(found.into_iter().collect())
    }

    async fn offsets_at(
        &self,
        partitions: impl Iterator<Item = TopicPartition>,
        time: i64,
        deadline: Instant,
    ) -> Result<Each<TopicPartition, CommittedOffset>, ClientError> {
        let times: Vec<_> = partitions.map(|partition| (partition, time)).collect();
        if times.is_empty() {
            return Ok(vec![]);
        }
        let isolation = IsolationLevel::ReadUncommitted;
        let listed = self.list_offsets(times, isolation, left(deadline)).await?.into_iter();
        let committed = |listed: super::ListedOffset| CommittedOffset {
            offset: listed.offset,
            leader_epoch: listed.leader_epoch,
            metadata: String::new(),
        };
        Ok(listed.map(|(partition, result)| (partition, result.map(committed))).collect())
    }

    /// Removes commits of a group for partitions that no member reads.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: Vec<TopicPartition>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, ()>, ClientError> {
        let deadline = self.deadline(limit);
        self.each("deleting a group's offsets", deadline, partitions, |partitions| async move {
            let topics = by_topic(&partitions, |partition| OffsetDeleteRequestPartition {
                partition_index: partition.partition,
            });
            let topic = |(name, partitions)| OffsetDeleteRequestTopic { name, partitions };
            let request = OffsetDeleteRequest {
                group_id: group.to_owned(),
                topics: topics.into_iter().map(topic).collect(),
            };
            let (_, response) = self.at_coordinator(group, |_| request).await?;
            self.checked_group(group, response.error_code)?;
            let mut results = Vec::new();
            for topic in response.topics {
                let name: Arc<str> = topic.name.into();
                for told in topic.partitions {
                    let key = TopicPartition::new(Arc::clone(&name), told.partition_index);
                    let about = || format!("{group} at {key}");
                    let result = ClientError::check(told.error_code, None, about);
                    results.push((key, result));
                }
            }
            Ok(results)
        })
        .await
    }

    /// How far a group is behind, on every partition that it committed for.
    pub async fn group_lag(
        &self,
        group: &str,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, PartitionLag>, ClientError> {
        let deadline = self.deadline(limit);
        let committed = self.list_group_offsets(group, None, left(deadline)).await?;
        let partitions = || committed.iter().map(|(partition, _)| partition.clone());
        let ends = self.offsets_at(partitions(), LATEST, deadline).await?;
        let starts = self.offsets_at(partitions(), EARLIEST, deadline).await?;
        let mut ends: HashMap<_, _> = ends.into_iter().collect();
        let mut starts: HashMap<_, _> = starts.into_iter().collect();
        let mut take = |partition: &TopicPartition| {
            let end = ends.remove(partition).transpose()?;
            let start = starts.remove(partition).transpose()?;
            Ok::<_, ClientError>((start.map_or(-1, |at| at.offset), end.map_or(-1, |at| at.offset)))
        };
        let lags = committed.iter().map(|(partition, committed)| {
            let lag = committed.clone().and_then(|committed| {
                let (start, end) = take(partition)?;
                Ok(PartitionLag { committed: committed.offset, start, end })
            });
            (partition.clone(), lag)
        });
        Ok(lags.collect())
    }

    /// Sends a request that names topics to a group's coordinator.
    async fn at_coordinator<R: kafkalite_protocol::messages::Request>(
        &self,
        group: &str,
        build: impl FnOnce(i16) -> R,
    ) -> Result<(i16, R::Response), ClientError> {
        let node = self.cluster.coordinator(CoordinatorKind::Group, group).await?;
        let answer = async {
            let connection = self.cluster.connection(node).await?;
            let timeout = self.cluster.config().request_timeout;
            Ok(connection.send_with(NAMES_UP_TO, timeout, build).await?)
        };
        let answer = self.cluster.while_alive(node, answer).await;
        if answer.as_ref().is_err_and(|error| self.helps(error)) {
            // It may be gone, or not a broker of the cluster any more.
            self.cluster.forget_coordinator(CoordinatorKind::Group, group);
        }
        answer
    }

    /// Refuses `code`; a coordinator that is it no longer is forgotten.
    fn checked_group(&self, group: &str, code: i16) -> Result<(), ClientError> {
        let result = ClientError::check(code, None, || format!("group {group}"));
        if result.as_ref().is_err_and(|error| self.helps(error)) {
            self.cluster.forget_coordinator(CoordinatorKind::Group, group);
        }
        result
    }
}

fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// A group with members takes commits of its members only, and says so in words for them.
fn commit_code(code: i16) -> i16 {
    match ErrorCode::from_code(code) {
        ErrorCode::UnknownMemberId
        | ErrorCode::RebalanceInProgress
        | ErrorCode::IllegalGeneration => ErrorCode::NonEmptyGroup as i16,
        _ => code,
    }
}

fn offset_fetch(
    group: &str,
    partitions: Option<&[TopicPartition]>,
    version: i16,
) -> OffsetFetchRequest {
    let topics = partitions.map(|partitions| by_topic(partitions, |p| p.partition));
    if version < GROUPS_FROM {
        let topic = |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes };
        return OffsetFetchRequest {
            group_id: group.to_owned(),
            topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            ..OffsetFetchRequest::default()
        };
    }
    let topic = |(name, partition_indexes)| OffsetFetchRequestTopics {
        name,
        partition_indexes,
        ..OffsetFetchRequestTopics::default()
    };
    let asked = OffsetFetchRequestGroup {
        group_id: group.to_owned(),
        topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
        ..OffsetFetchRequestGroup::default()
    };
    OffsetFetchRequest { groups: vec![asked], ..OffsetFetchRequest::default() }
}

/// The group's own error, and of each partition its error and what was committed.
type Told = (i16, Vec<(TopicPartition, i16, CommittedOffset)>);

fn committed(version: i16, response: OffsetFetchResponse, group: &str) -> Told {
    let mut told = Vec::new();
    let mut add = |name: &Arc<str>, index, code, offset, epoch, metadata: Option<String>| {
        let committed = CommittedOffset {
            offset,
            leader_epoch: LeaderEpoch(epoch),
            metadata: metadata.unwrap_or_default(),
        };
        told.push((TopicPartition::new(Arc::clone(name), index), code, committed));
    };
    if version < GROUPS_FROM {
        for topic in response.topics {
            let name: Arc<str> = topic.name.into();
            for p in topic.partitions {
                let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
                add(&name, p.partition_index, p.error_code, offset, epoch, p.metadata);
            }
        }
        return (response.error_code, told);
    }
    let mut error_code = 0;
    for answer in response.groups.into_iter().filter(|answer| answer.group_id == group) {
        error_code = answer.error_code;
        for topic in answer.topics {
            let name: Arc<str> = topic.name.into();
            for p in topic.partitions {
                let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
                add(&name, p.partition_index, p.error_code, offset, epoch, p.metadata);
            }
        }
    }
    (error_code, told)
}
