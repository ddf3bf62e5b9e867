//! Asking leaders for offsets: by time, at either end, and where a leader epoch ended.
//!
//! One round asks each leader once for all of its partitions, side by side. After an error that may
//! pass, the caller asks again.
//! Source: Kafka's `OffsetFetcher`; KIP-320.

use std::collections::BTreeMap;

use kafkalite_connection::{Cluster, NodeId};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use tokio::task::JoinSet;

use crate::config::IsolationLevel;
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// A consumer's replica id, where a request has one.
const CONSUMER: i32 = -1;

/// What is asked of a partition's leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The partition.
    pub partition: TopicPartition,
    /// A timestamp in ms, or an end as ListOffsets spells it; or a leader epoch.
    pub about: i64,
}

/// An offset, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAnswer {
    /// The offset; -1 if there is none.
    pub offset: i64,
    /// The timestamp of its record; -1 for an end.
    pub timestamp_ms: i64,
    /// The leader epoch of its record; -1 if it is not known.
    pub leader_epoch: i32,
}

/// Each question with its answer.
pub type Answers = Vec<(Question, Result<OffsetAnswer, ClientError>)>;

/// Questions with the leader epoch under which each is asked.
type Asked = Vec<(Question, i32)>;

/// Asks for the offsets of timestamps.
pub async fn list_offsets(
    cluster: &Cluster,
    isolation: IsolationLevel,
    questions: Vec<Question>,
) -> Answers {
    round(cluster, questions, move |cluster, node, asked| async move {
        let timeout = cluster.config().request_timeout;
        let (_, response) = cluster
            .send(node, |version| ListOffsetsRequest {
                replica_id: CONSUMER,
                isolation_level: isolation.code(),
                topics: by_topic(&asked)
                    .into_iter()
                    .map(|(name, partitions)| ListOffsetsTopic {
                        name,
                        partitions: partitions
                            .into_iter()
                            .map(|(question, epoch)| ListOffsetsPartition {
                                partition_index: question.partition.partition,
                                current_leader_epoch: epoch,
                                timestamp: question.about,
                            })
                            .collect(),
                    })
                    .collect(),
                timeout_ms: if version >= 10 { timeout.as_millis() as i32 } else { 0 },
            })
            .await?;
        let told = response.topics.into_iter().flat_map(|topic| {
            let name: std::sync::Arc<str> = topic.name.into();
            topic.partitions.into_iter().map(move |told| {
                let partition = TopicPartition::new(name.clone(), told.partition_index);
                let answer = OffsetAnswer {
                    offset: told.offset,
                    timestamp_ms: told.timestamp,
                    leader_epoch: told.leader_epoch,
                };
                (partition, (told.error_code, answer))
            })
        });
        Ok(told.collect())
    })
    .await
}

/// Asks where leader epochs ended: the answer's offset is that end, its epoch the newest one that
/// is not newer than the epoch asked for.
pub async fn ends_of_epochs(cluster: &Cluster, questions: Vec<Question>) -> Answers {
    round(cluster, questions, move |cluster, node, asked| async move {
        let (_, response) = cluster
            .send(node, |_| OffsetForLeaderEpochRequest {
                replica_id: CONSUMER,
                topics: by_topic(&asked)
                    .into_iter()
                    .map(|(topic, partitions)| OffsetForLeaderTopic {
                        topic,
                        partitions: partitions
                            .into_iter()
                            .map(|(question, epoch)| OffsetForLeaderPartition {
                                partition: question.partition.partition,
                                current_leader_epoch: epoch,
                                leader_epoch: question.about as i32,
                            })
                            .collect(),
                    })
                    .collect(),
            })
            .await?;
        let told = response.topics.into_iter().flat_map(|topic| {
            let name: std::sync::Arc<str> = topic.topic.into();
            topic.partitions.into_iter().map(move |told| {
                let partition = TopicPartition::new(name.clone(), told.partition);
                let answer = OffsetAnswer {
                    offset: told.end_offset,
                    timestamp_ms: -1,
                    leader_epoch: told.leader_epoch,
                };
                (partition, (told.error_code, answer))
            })
        });
        Ok(told.collect())
    })
    .await
}

/// What one leader said of its partitions: Kafka's code, and the answer.
type Told = BTreeMap<TopicPartition, (i16, OffsetAnswer)>;

async fn round<F, Fut>(cluster: &Cluster, questions: Vec<Question>, ask: F) -> Answers
where
    F: Fn(Cluster, NodeId, Asked) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<Told, ClientError>> + Send + 'static,
{
    let image = cluster.image();
    let mut by_node: BTreeMap<NodeId, Asked> = BTreeMap::new();
    let mut answers = Vec::new();
    for question in questions {
        let TopicPartition { topic, partition } = &question.partition;
        match image.leader(topic, *partition) {
            Some((node, epoch)) => by_node.entry(node).or_default().push((question, epoch.0)),
            None => {
                let error = no_leader(&image, &question.partition);
                answers.push((question, Err(error)));
            }
        }
    }
    let mut rounds = JoinSet::new();
    for (node, asked) in by_node {
        let (cluster, ask) = (cluster.clone(), ask.clone());
        rounds.spawn(async move { (ask(cluster, node, asked.clone()).await, node, asked) });
    }
    while let Some(done) = rounds.join_next().await {
        // A task that ended otherwise was aborted with the runtime.
        let Ok((told, node, asked)) = done else { continue };
        for (question, _) in asked {
            let answer = match &told {
                Ok(told) => answer_to(&question.partition, node, told),
                Err(error) => Err(error.clone()),
            };
            answers.push((question, answer));
        }
    }
    if answers.iter().any(|(_, answer)| answer.as_ref().is_err_and(ClientError::retriable)) {
        cluster.request_refresh();
    }
    answers
}

fn answer_to(
    partition: &TopicPartition,
    node: NodeId,
    told: &Told,
) -> Result<OffsetAnswer, ClientError> {
    let Some((code, answer)) = told.get(partition) else {
        return Err(ClientError::left_out(format!("broker {node}"), partition));
    };
    ClientError::check(*code, None, || partition.to_string())?;
    Ok(*answer)
}

fn no_leader(
    image: &kafkalite_connection::ClusterImage,
    partition: &TopicPartition,
) -> ClientError {
    let known = image.topic(&partition.topic);
    match known.map(|topic| topic.partition(partition.partition).is_some()) {
        Some(true) => ClientError::broker(ErrorCode::LeaderNotAvailable, partition.to_string()),
        // It may still come; [`super::missing::check_partitions`] finds out.
        Some(false) => {
            ClientError::broker(ErrorCode::UnknownTopicOrPartition, partition.to_string())
        }
        None => image.topic_error(&partition.topic).into(),
    }
}

fn by_topic(asked: &Asked) -> BTreeMap<String, Vec<(&Question, i32)>> {
    let mut topics: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (question, epoch) in asked {
        topics.entry(question.partition.topic.to_string()).or_default().push((question, *epoch));
    }
    topics
}
