//! Who leads and who replicates a partition: elections and reassignments.

use super::doubtful::Doubtful;
use super::offsets::by_topic;
use super::{Admin, Each, complete, timeout_ms};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::NodeId;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use kafkalite_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use kafkalite_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A partition whose replicas move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// The partition.
    pub partition: TopicPartition,
    /// All replicas while it lasts.
    pub replicas: Vec<NodeId>,
    /// Those that come.
    pub adding: Vec<NodeId>,
    /// Those that go.
    pub removing: Vec<NodeId>,
}

impl Admin {
    /// Lets partitions elect their preferred leaders, or any replica with `unclean`, which may lose
    /// records; all partitions for `None`. Only those of which there was something to say are
    /// returned.
    pub async fn elect_leaders(
        &self,
        unclean: bool,
        partitions: Option<Vec<TopicPartition>>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = partitions.as_deref();
        self.retry("electing leaders", deadline, || async move {
            let topics = partitions.map(|partitions| by_topic(partitions, |p| p.partition));
            let topic = |(topic, partitions)| TopicPartitions { topic, partitions };
            let request = ElectLeadersRequest {
                election_type: i8::from(unclean),
                topic_partitions: topics.map(|topics| topics.into_iter().map(topic).collect()),
                timeout_ms: timeout_ms(deadline),
            };
            let response = self.to_controller(|_| request).await?;
            ClientError::check(response.error_code, None, || "electing leaders".to_owned())?;
            let mut results = Vec::new();
            for topic in response.replica_election_results {
                let name: Arc<str> = topic.topic.into();
                for told in topic.partition_result {
                    let key = TopicPartition::new(Arc::clone(&name), told.partition_id);
                    let message = told.error_message.as_deref();
                    let result = ClientError::check(told.error_code, message, || key.to_string());
                    results.push((key, result));
                }
            }
            Ok(complete(results, partitions))
        })
        .await
    }

    /// Gives partitions other replicas, the preferred leader first; `None` ends a move.
    pub async fn alter_reassignments(
        &self,
        targets: Vec<(TopicPartition, Option<Vec<NodeId>>)>,
        limit: Option<Duration>,
    ) -> Result<Each<TopicPartition, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = targets.iter().map(|(partition, _)| partition.clone()).collect();
        let targets: HashMap<TopicPartition, Option<Vec<NodeId>>> = targets.into_iter().collect();
        let targets = &targets;
        let doubtful = &Doubtful::new();
        let once = |partitions| async move {
            let once = self.alter_reassignments_once(partitions, targets, doubtful, deadline);
            doubtful.removed(once.await, ErrorCode::NoReassignmentInProgress)
        };
        self.each("moving replicas", deadline, partitions, once).await
    }

    async fn alter_reassignments_once(
        &self,
        partitions: Vec<TopicPartition>,
        targets: &HashMap<TopicPartition, Option<Vec<NodeId>>>,
        doubtful: &Doubtful<TopicPartition>,
        deadline: Instant,
    ) -> Result<Each<TopicPartition, ()>, ClientError> {
        let topics = by_topic(&partitions, |partition| ReassignablePartition {
            partition_index: partition.partition,
            replicas: targets[partition].clone(),
        });
        let topic = |(name, partitions)| ReassignableTopic { name, partitions };
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: timeout_ms(deadline),
            topics: topics.into_iter().map(topic).collect(),
            ..AlterPartitionReassignmentsRequest::default()
        };
        let response = self.to_controller(|_| {
            doubtful.leaves(&partitions);
            request
        });
        let response = response.await?;
        let message = response.error_message.as_deref();
        ClientError::check(response.error_code, message, || "moving replicas".to_owned())?;
        let mut results = Vec::new();
        for topic in response.responses {
            let name: Arc<str> = topic.name.into();
            for told in topic.partitions {
                let key = TopicPartition::new(Arc::clone(&name), told.partition_index);
                let message = told.error_message.as_deref();
                let result = ClientError::check(told.error_code, message, || key.to_string());
                results.push((key, result));
            }
        }
        Ok(results)
    }

    /// The partitions whose replicas move now; of those given alone, if any are.
    pub async fn list_reassignments(
        &self,
        partitions: Option<Vec<TopicPartition>>,
        limit: Option<Duration>,
    ) -> Result<Vec<Reassignment>, ClientError> {
        let deadline = self.deadline(limit);
        let partitions = partitions.as_deref();
        self.retry("listing moving replicas", deadline, || async move {
            let topics = partitions.map(|partitions| by_topic(partitions, |p| p.partition));
            let topic = |(name, partition_indexes)| ListPartitionReassignmentsTopics {
                name,
                partition_indexes,
            };
            let request = ListPartitionReassignmentsRequest {
                timeout_ms: timeout_ms(deadline),
                topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
            };
            let response = self.to_controller(|_| request).await?;
            let message = response.error_message.as_deref();
            let about = || "listing moving replicas".to_owned();
            ClientError::check(response.error_code, message, about)?;
            let mut moving = Vec::new();
            for topic in response.topics {
                let name: Arc<str> = topic.name.into();
                moving.extend(topic.partitions.into_iter().map(|told| Reassignment {
                    partition: TopicPartition::new(Arc::clone(&name), told.partition_index),
                    replicas: told.replicas,
                    adding: told.adding_replicas,
                    removing: told.removing_replicas,
                }));
            }
            moving.sort_by(|a, b| a.partition.cmp(&b.partition));
            Ok(moving)
        })
        .await
    }
}
