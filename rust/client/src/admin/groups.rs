//! Consumer groups: listed, described, removed. Each is asked for at its coordinator.

use super::doubtful::Doubtful;
use super::{Admin, Each, failed, side_by_side};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;
use bytes::Bytes;
use kafkalite_connection::{ConnectionError, CoordinatorKind, NodeId, Wanted};
use kafkalite_protocol::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription,
};
use kafkalite_protocol::messages::delete_groups::DeleteGroupsRequest;
use kafkalite_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribedGroup, DescribedGroupMember,
};
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::{ErrorCode, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A group as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupListing {
    /// Its id.
    pub group_id: String,
    /// `consumer` for consumers; empty for a group that only commits.
    pub protocol_type: String,
    /// `Stable`, `Empty`, …; empty before Kafka 2.6.
    pub state: String,
    /// `Classic`, `Consumer`, …; empty before Kafka 3.8.
    pub kind: String,
    /// The broker that looks after it.
    pub coordinator: NodeId,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id of this session.
    pub member_id: String,
    /// Its id over sessions, if it has one.
    pub instance_id: Option<String>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is.
    pub host: String,
    /// The topics it asked for, where it speaks the consumers' protocol.
    pub topics: Vec<String>,
    /// The partitions it was given, where it speaks the consumers' protocol.
    pub assignment: Vec<TopicPartition>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// `Stable`, `Empty`, …
    pub state: String,
    /// `consumer` for consumers; empty for a group that only commits.
    pub protocol_type: String,
    /// The protocol its members agreed upon: the assignor, for consumers.
    pub protocol: String,
    /// The broker that looks after it.
    pub coordinator: NodeId,
    /// In the broker's order.
    pub members: Vec<MemberDescription>,
}

impl Admin {
    /// All groups, by id; those in one of `states` and of one of `kinds` alone, if any are named.
    pub async fn list_groups(
        &self,
        states: Vec<String>,
        kinds: Vec<String>,
        limit: Option<Duration>,
    ) -> Result<Vec<GroupListing>, ClientError> {
        let deadline = self.deadline(limit);
        let mut all = self
            .retry("listing groups", deadline, || self.list_groups_once(&states, &kinds))
            .await?;
        all.sort();
        all.dedup();
        Ok(all)
    }

    async fn list_groups_once(
        &self,
        states: &[String],
        kinds: &[String],
    ) -> Result<Vec<GroupListing>, ClientError> {
        let image = self.cluster.refresh(Wanted::Brokers).await?;
        let asked = image.brokers().map(|broker| {
            let (admin, node) = (self.clone(), broker.id);
            let request =
                ListGroupsRequest { states_filter: states.to_vec(), types_filter: kinds.to_vec() };
            async move { admin.list_groups_of(node, request).await }
        });
        let mut all = Vec::new();
        for listed in side_by_side(asked.collect::<Vec<_>>()).await {
            all.extend(listed?);
        }
        Ok(all)
    }

    async fn list_groups_of(
        &self,
        coordinator: NodeId,
        request: ListGroupsRequest,
    ) -> Result<Vec<GroupListing>, ClientError> {
        let (_, response) = self.cluster.send(coordinator, |_| request).await?;
        let about = || format!("groups of broker {coordinator}");
        ClientError::check(response.error_code, None, about)?;
        let listing =
            |group: kafkalite_protocol::messages::list_groups::ListedGroup| GroupListing {
                group_id: group.group_id,
                protocol_type: group.protocol_type,
                state: group.group_state,
                kind: group.group_type,
                coordinator,
            };
        Ok(response.groups.into_iter().map(listing).collect())
    }

    /// Groups with their members.
    pub async fn describe_groups(
        &self,
        groups: Vec<String>,
        limit: Option<Duration>,
    ) -> Result<Each<String, GroupDescription>, ClientError> {
        let deadline = self.deadline(limit);
        self.each("describing groups", deadline, groups, |groups| {
            self.at_coordinators(groups, |admin, coordinator, groups| async move {
                let request =
                    DescribeGroupsRequest { groups, include_authorized_operations: false };
                let (_, response) = admin.cluster.send(coordinator, |_| request).await?;
                let groups = response.groups.into_iter();
                Ok(groups.map(|group| described(group, coordinator)).collect())
            })
        })
        .await
    }

    /// Removes groups without members, and what they committed.
    pub async fn delete_groups(
        &self,
        groups: Vec<String>,
        limit: Option<Duration>,
    ) -> Result<Each<String, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let doubtful = &Arc::new(Doubtful::new());
        self.each("deleting groups", deadline, groups, |groups| async move {
            let once = self.at_coordinators(groups, |admin, coordinator, groups| {
                let doubtful = Arc::clone(doubtful);
                async move {
                    let request = |_| {
                        doubtful.leaves(&groups);
                        DeleteGroupsRequest { groups_names: groups }
                    };
                    let (_, response) = admin.cluster.send(coordinator, request).await?;
                    let results = response.results.into_iter().map(|told| {
                        let about = || format!("group {}", told.group_id);
                        let result = ClientError::check(told.error_code, None, about);
                        (told.group_id, result)
                    });
                    Ok(results.collect())
                }
            });
            doubtful.removed(once.await, ErrorCode::GroupIdNotFound)
        })
        .await
    }

    /// Runs `ask` for the groups of each coordinator, side by side.
    pub(super) async fn at_coordinators<F, T>(
        &self,
        groups: Vec<String>,
        ask: impl Fn(Self, NodeId, Vec<String>) -> F,
    ) -> Result<Each<String, T>, ClientError>
    where
        F: Future<Output = Result<Each<String, T>, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let mut coordinators: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        let mut results = Vec::new();
        for group in groups {
            match self.cluster.coordinator(CoordinatorKind::Group, &group).await {
                Ok(node) => coordinators.entry(node).or_default().push(group),
                Err(error @ ConnectionError::NoBrokerReachable { .. }) => return Err(error.into()),
                Err(error) => results.push((group, Err(error.into()))),
            }
        }
        let asked = coordinators.into_iter().map(|(node, groups)| {
            let told = ask(self.clone(), node, groups.clone());
            async move { told.await.unwrap_or_else(|error| failed(&groups, &error)) }
        });
        for each in side_by_side(asked.collect::<Vec<_>>()).await {
            results.extend(each);
        }
        for (group, result) in &results {
            if result.as_ref().is_err_and(|error| self.helps(error)) {
                self.cluster.forget_coordinator(CoordinatorKind::Group, group);
            }
        }
        Ok(results)
    }
}

fn described(
    group: DescribedGroup,
    coordinator: NodeId,
) -> (String, Result<GroupDescription, ClientError>) {
    let name = group.group_id.clone();
    let about = || format!("group {name}");
    if let Err(error) = ClientError::check(group.error_code, group.error_message.as_deref(), about)
    {
        return (name, Err(error));
    }
    // Before Kafka 4 an unknown group was described as a dead one.
    if group.group_state == "Dead" {
        let error = ClientError::broker(ErrorCode::GroupIdNotFound, format!("group {name}"));
        return (name, Err(error));
    }
    let is_consumer = group.protocol_type == "consumer";
    let members = group.members.into_iter().map(|told| member(told, is_consumer));
    let described = GroupDescription {
        group_id: group.group_id,
        state: group.group_state,
        protocol_type: group.protocol_type,
        protocol: group.protocol_data,
        coordinator,
        members: members.collect(),
    };
    (name, Ok(described))
}

fn member(told: DescribedGroupMember, is_consumer: bool) -> MemberDescription {
    let (mut topics, mut assignment) = (Vec::new(), Vec::new());
    // What members say to each other is theirs; what cannot be read is left out.
    if is_consumer {
        let subscription = read::<ConsumerProtocolSubscription>(told.member_metadata);
        topics = subscription.map(|told| told.topics).unwrap_or_default();
        topics.sort();
        let assigned = read::<ConsumerProtocolAssignment>(told.member_assignment);
        for topic in assigned.map(|told| told.assigned_partitions).unwrap_or_default() {
            let name: Arc<str> = topic.topic.into();
            let partitions = topic.partitions.into_iter();
            assignment.extend(partitions.map(|p| TopicPartition::new(Arc::clone(&name), p)));
        }
        assignment.sort();
    }
    MemberDescription {
        member_id: told.member_id,
        instance_id: told.group_instance_id,
        client_id: told.client_id,
        host: told.client_host,
        topics,
        assignment,
    }
}

/// A record of the consumers' protocol: two bytes of version, and the record in that version. A
/// version we do not know begins with what we do.
fn read<T: kafkalite_protocol::messages::Versioned>(bytes: Bytes) -> Option<T> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16().ok()?.min(T::VERSIONS.max);
    T::decode(&mut reader, version).ok()
}
