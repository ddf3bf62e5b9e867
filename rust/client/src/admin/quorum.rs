//! The controller quorum: who votes on metadata, and how far each has come.

use super::Admin;
use crate::error::ClientError;
use kafkalite_connection::NodeId;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionData, ReplicaState, TopicData,
};
use std::time::Duration;

const METADATA_TOPIC: &str = "__cluster_metadata";

/// The controller quorum, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumDescription {
    /// Who leads.
    pub leader: NodeId,
    /// Since which epoch.
    pub leader_epoch: i32,
    /// Everything below is committed.
    pub high_watermark: i64,
    /// Those that vote.
    pub voters: Vec<QuorumReplica>,
    /// Those that follow without a vote.
    pub observers: Vec<QuorumReplica>,
}

/// A replica of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumReplica {
    /// On which node.
    pub id: NodeId,
    /// How far it has come, where the leader knows.
    pub log_end_offset: Option<i64>,
    /// When it asked last, in milliseconds since 1970, where the leader tells.
    pub last_fetch_ms: Option<i64>,
    /// When it had everything last, in milliseconds since 1970, where the leader tells.
    pub last_caught_up_ms: Option<i64>,
}

impl Admin {
    /// The controller quorum.
    pub async fn describe_quorum(
        &self,
        limit: Option<Duration>,
    ) -> Result<QuorumDescription, ClientError> {
        let what = "describing the quorum";
        self.retry(what, self.deadline(limit), || async {
            let partition = PartitionData { partition_index: 0 };
            let topic =
                TopicData { topic_name: METADATA_TOPIC.to_owned(), partitions: vec![partition] };
            let request = DescribeQuorumRequest { topics: vec![topic] };
            described(self.to_controller(|_| request).await?)
        })
        .await
    }
}

fn described(response: DescribeQuorumResponse) -> Result<QuorumDescription, ClientError> {
    let about = || "describing the quorum".to_owned();
    ClientError::check(response.error_code, response.error_message.as_deref(), about)?;
    let told = response.topics.into_iter().flat_map(|topic| topic.partitions).next();
    let told = told.ok_or_else(|| ClientError::left_out("the controller", METADATA_TOPIC))?;
    ClientError::check(told.error_code, told.error_message.as_deref(), about)?;
    if told.leader_id < 0 {
        // It is being elected.
        ClientError::check(ErrorCode::LeaderNotAvailable.code(), None, about)?;
    }
    let replica = |state: ReplicaState| {
        let known = |number: i64| Some(number).filter(|number| *number >= 0);
        QuorumReplica {
            id: state.replica_id,
            log_end_offset: known(state.log_end_offset),
            last_fetch_ms: known(state.last_fetch_timestamp),
            last_caught_up_ms: known(state.last_caught_up_timestamp),
        }
    };
    let sorted = |states: Vec<ReplicaState>| {
        let mut replicas: Vec<_> = states.into_iter().map(replica).collect();
        replicas.sort_by_key(|replica| replica.id);
        replicas
    };
    Ok(QuorumDescription {
        leader: told.leader_id,
        leader_epoch: told.leader_epoch,
        high_watermark: told.high_watermark,
        voters: sorted(told.current_voters),
        observers: sorted(told.observers),
    })
}
