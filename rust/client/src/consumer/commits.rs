//! A group's committed offsets: written and read at its coordinator.
//!
//! An offset is committed by topic id if the id is known. If the topic was created again meanwhile,
//! the offset must not count for the new topic, whose records would be skipped.
//! Source: OffsetCommit of the Kafka protocol, by id from version 10 on; OffsetFetch up to version
//! 9, by name. Coordinators leave out commits for an earlier topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use kafkalite_connection::{Cluster, ClusterImage, CoordinatorKind, NodeId, Wanted};
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use kafkalite_protocol::{ErrorCode, Uuid};

use crate::consumer::coordinating::{may_pass, retry_or_fail};
use crate::consumer::cursor::Position;
use crate::consumer::group_state::Membership;
use crate::consumer::missing::lacks;
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// The newest version that tells topics by name.
const BY_NAME: i16 = 9;
/// From this version on OffsetCommit tells topics by id.
const BY_ID_FROM: i16 = 10;
/// From this version on several groups are asked for at once.
const BATCHED_FROM: i16 = 8;

/// A committed offset with what the committer wrote beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next record to be read, and the epoch of the one before it.
    pub position: Position,
    /// Free text.
    pub metadata: String,
}

/// Offsets to be committed, by partition.
pub type Offsets = BTreeMap<TopicPartition, Committed>;

/// The topics that offsets belong to, by name, as far as they are known.
pub type TopicIds = BTreeMap<Arc<str>, Uuid>;

/// What came of each partition.
pub type Answers = BTreeMap<TopicPartition, Result<(), ClientError>>;

/// Commits `offsets` of the topics with these ids for `group`, as `member` or without a member.
/// Partitions with a passing error are tried again until `deadline`, and no others. So a removed
/// partition delays no other.
pub async fn commit(
    cluster: &Cluster,
    group: &str,
    member: Option<&Membership>,
    (offsets, ids): (&Offsets, &TopicIds),
    deadline: Instant,
) -> Answers {
    let (mut answers, mut left, mut failures) = (Answers::new(), offsets.clone(), 0);
    while !left.is_empty() {
        let told = match commit_once(cluster, group, member, (&left, ids)).await {
            Ok(told) => told,
            Err(error) => left.keys().map(|one| (one.clone(), Err(error.clone()))).collect(),
        };
        let gone = gone(cluster, &told, ids, deadline).await;
        let mut passing = None;
        for (partition, answer) in told {
            let error = answer.as_ref().err().filter(|error| may_pass(cluster, error));
            match error.filter(|_| !gone.contains(&partition)) {
                Some(error) => passing = Some(error.clone()),
                None => drop(left.remove(&partition)),
            }
            answers.insert(partition, answer);
        }
        let Some(error) = passing else { break };
        if retry_or_fail(cluster, group, error, &mut failures, deadline).await.is_err() {
            break;
        }
    }
    answers
}

/// The partitions that do not exist, among those that the coordinator does not know: a deleted
/// partition does not come back. None if the cluster does not answer.
async fn gone(
    cluster: &Cluster,
    told: &Answers,
    ids: &TopicIds,
    deadline: Instant,
) -> BTreeSet<TopicPartition> {
    let unknown = told.iter().filter(|(_, answer)| {
        let code = answer.as_ref().err().and_then(ClientError::code);
        matches!(code, Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId))
    });
    let mut unknown: BTreeSet<_> = unknown.map(|(partition, _)| partition.clone()).collect();
    if unknown.is_empty() {
        return unknown;
    }
    let names: BTreeSet<_> = unknown.iter().map(|partition| partition.topic.to_string()).collect();
    let wanted = Wanted::Topics(names.into_iter().collect());
    match tokio::time::timeout_at(deadline.into(), cluster.refresh(wanted)).await {
        Ok(Ok(image)) => unknown.retain(|one| is_gone(&image, one, ids)),
        _ => unknown.clear(),
    }
    unknown
}

/// Whether there is no such partition, or another topic has the name now.
fn is_gone(image: &ClusterImage, one: &TopicPartition, ids: &TopicIds) -> bool {
    let is_other = image.topic(&one.topic).is_some_and(|topic| {
        ids.get(&one.topic).is_some_and(|id| !topic.id.is_zero() && topic.id != *id)
    });
    is_other || image.is_missing(&one.topic) || lacks(image, one).is_some()
}

async fn commit_once(
    cluster: &Cluster,
    group: &str,
    member: Option<&Membership>,
    (offsets, ids): (&Offsets, &TopicIds),
) -> Result<Answers, ClientError> {
    let node = cluster.coordinator(CoordinatorKind::Group, group).await?;
    // A commit is sent again only when its coordinator left the cluster. What that one still takes
    // counts for nothing, so no later commit is taken back.
    cluster.while_alive(node, commit_at(node, cluster, group, member, (offsets, ids))).await
}

async fn commit_at(
    node: NodeId,
    cluster: &Cluster,
    group: &str,
    member: Option<&Membership>,
    (offsets, ids): (&Offsets, &TopicIds),
) -> Result<Answers, ClientError> {
    let connection = cluster.connection(node).await?;
    let timeout = cluster.config().request_timeout;
    let ids_allowed =
        connection.version::<OffsetCommitRequest>().is_some_and(|version| version >= BY_ID_FROM);
    let has_id = |one: &TopicPartition| ids_allowed && ids.contains_key(&one.topic);
    let mut told = Answers::new();
    for (most, by_id) in [(i16::MAX, true), (BY_NAME, false)] {
        let topics = commit_topics(offsets.iter().filter(|(one, _)| has_id(one) == by_id), ids);
        if topics.is_empty() {
            continue;
        }
        let build = |_| OffsetCommitRequest {
            group_id: group.to_owned(),
            generation_id_or_member_epoch: member.map_or(-1, |member| member.generation),
            member_id: member.map(|member| member.member_id.clone()).unwrap_or_default(),
            group_instance_id: member.and_then(|member| member.instance_id.clone()),
            retention_time_ms: -1,
            topics,
        };
        let (version, response) = connection.send_with(most, timeout, build).await?;
        told.extend(answers_of(response, version, ids));
    }
    let missing = |one: &_| Err(ClientError::left_out(format!("broker {node}"), one));
    let mut answer =
        |one: &TopicPartition| (one.clone(), told.remove(one).unwrap_or_else(|| missing(one)));
    Ok(offsets.keys().map(&mut answer).collect())
}

/// The coordinator's answer for each partition; topics outside the request are left out.
fn answers_of(response: OffsetCommitResponse, version: i16, ids: &TopicIds) -> Answers {
    let mut told = Answers::new();
    for topic in response.topics {
        let name = if version < BY_ID_FROM {
            Some(Arc::from(topic.name))
        } else {
            ids.iter().find(|(_, id)| **id == topic.topic_id).map(|(name, _)| Arc::clone(name))
        };
        let Some(name) = name else { continue };
        for answer in topic.partitions {
            let partition = TopicPartition::new(Arc::clone(&name), answer.partition_index);
            let about = || format!("commit of {partition}");
            told.insert(partition.clone(), ClientError::check(answer.error_code, None, about));
        }
    }
    told
}

fn commit_topics<'a>(
    offsets: impl Iterator<Item = (&'a TopicPartition, &'a Committed)>,
    ids: &TopicIds,
) -> Vec<OffsetCommitRequestTopic> {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for (partition, committed) in offsets {
        let told = OffsetCommitRequestPartition {
            partition_index: partition.partition,
            committed_offset: committed.position.offset,
            committed_leader_epoch: committed.position.leader_epoch,
            committed_metadata: Some(committed.metadata.clone()),
        };
        match topics.last_mut().filter(|last| *last.name == *partition.topic) {
            Some(last) => last.partitions.push(told),
            None => topics.push(OffsetCommitRequestTopic {
                name: partition.topic.to_string(),
                topic_id: ids.get(&partition.topic).copied().unwrap_or(Uuid::ZERO),
                partitions: vec![told],
            }),
        }
    }
    topics
}

/// What `group` has committed for `partitions`; those without an offset are `None`. Retried until
/// `deadline` where that may help.
///
/// # Errors
/// The group's refusal, or that of the first partition.
pub async fn fetch_committed(
    cluster: &Cluster,
    group: &str,
    partitions: &[TopicPartition],
    deadline: Instant,
) -> Result<BTreeMap<TopicPartition, Option<Committed>>, ClientError> {
    let mut failures = 0;
    loop {
        let error = match fetch_once(cluster, group, partitions).await {
            Ok(committed) => return Ok(committed),
            Err(error) => error,
        };
        retry_or_fail(cluster, group, error, &mut failures, deadline).await?;
    }
}

async fn fetch_once(
    cluster: &Cluster,
    group: &str,
    partitions: &[TopicPartition],
) -> Result<BTreeMap<TopicPartition, Option<Committed>>, ClientError> {
    let mut topics: BTreeMap<&Arc<str>, Vec<i32>> = BTreeMap::new();
    // A partition that is named twice is answered once.
    let partitions: BTreeSet<&TopicPartition> = partitions.iter().collect();
    for partition in &partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let node = cluster.coordinator(CoordinatorKind::Group, group).await?;
    let timeout = cluster.config().request_timeout;
    let asked = async {
        let connection = cluster.connection(node).await?;
        let request = |version| fetch_request(version, group, &topics);
        connection.send_with(BY_NAME, timeout, request).await
    };
    let (version, response) = cluster.while_alive(node, asked).await?;
    let mut told = told_by(version, response, group)?;
    let missing = |partition: &_| ClientError::left_out(format!("broker {node}"), partition);
    let answer = |partition: &TopicPartition| {
        let committed = told.remove(partition).ok_or_else(|| missing(partition))?;
        // An offset of -1 is none.
        Ok((partition.clone(), Some(committed).filter(|one| one.position.offset >= 0)))
    };
    partitions.into_iter().map(answer).collect()
}

fn fetch_request(
    version: i16,
    group: &str,
    topics: &BTreeMap<&Arc<str>, Vec<i32>>,
) -> OffsetFetchRequest {
    if version < BATCHED_FROM {
        let topic = |(name, partitions): (&&Arc<str>, &Vec<i32>)| OffsetFetchRequestTopic {
            name: name.to_string(),
            partition_indexes: partitions.clone(),
        };
        return OffsetFetchRequest {
            group_id: group.to_owned(),
            topics: Some(topics.iter().map(topic).collect()),
            require_stable: version >= 7,
            ..OffsetFetchRequest::default()
        };
    }
    let topic = |(name, partitions): (&&Arc<str>, &Vec<i32>)| OffsetFetchRequestTopics {
        name: name.to_string(),
        partition_indexes: partitions.clone(),
        ..OffsetFetchRequestTopics::default()
    };
    OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics: Some(topics.iter().map(topic).collect()),
            ..OffsetFetchRequestGroup::default()
        }],
        require_stable: true,
        ..OffsetFetchRequest::default()
    }
}

/// The answer in one form, whatever its version.
fn told_by(
    version: i16,
    response: OffsetFetchResponse,
    group: &str,
) -> Result<Offsets, ClientError> {
    let about = || format!("committed offsets of group {group}");
    let mut offsets = Offsets::new();
    let mut take =
        |topic: &str, index: i32, code: i16, position: Position, text: Option<String>| {
            let partition = TopicPartition::new(topic, index);
            ClientError::check(code, None, || format!("committed offset of {partition}"))?;
            offsets.insert(partition, Committed { position, metadata: text.unwrap_or_default() });
            Ok::<_, ClientError>(())
        };
    if version < BATCHED_FROM {
        ClientError::check(response.error_code, None, about)?;
        for topic in response.topics {
            for one in topic.partitions {
                let position = Position {
                    offset: one.committed_offset,
                    leader_epoch: one.committed_leader_epoch,
                };
                take(&topic.name, one.partition_index, one.error_code, position, one.metadata)?;
            }
        }
        return Ok(offsets);
    }
    for told in response.groups.into_iter().filter(|told| told.group_id == group) {
        ClientError::check(told.error_code, None, about)?;
        for topic in told.topics {
            for one in topic.partitions {
                let position = Position {
                    offset: one.committed_offset,
                    leader_epoch: one.committed_leader_epoch,
                };
                take(&topic.name, one.partition_index, one.error_code, position, one.metadata)?;
            }
        }
    }
    Ok(offsets)
}
