//! Makes a produce request from batches, and an answer for each batch from its response.

use std::sync::Arc;

use kafkalite_connection::{Cluster, LeaderNews};
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Records, Uuid};

use super::dispatch::{Answer, Outgoing};

/// The newest version that names topics by their names; later ones by id.
const LAST_WITH_NAMES: i16 = 12;

/// Topics of a request, in the order of its batches.
pub(super) struct Manifest {
    /// Topic name, topic id and partition of each batch.
    batches: Vec<(Arc<str>, Uuid, i32)>,
}

impl Manifest {
    /// Of a request, with the topics' ids as far as they are known.
    pub(super) fn new(outgoing: &Outgoing) -> Self {
        let batches = outgoing
            .batches
            .iter()
            .map(|batch| (Arc::clone(&batch.topic), batch.leader.topic_id, batch.partition));
        Self { batches: batches.collect() }
    }

    /// The newest version that the request can be written in.
    pub(super) fn newest_version(&self) -> i16 {
        if self.batches.iter().any(|(_, id, _)| id.is_zero()) { LAST_WITH_NAMES } else { i16::MAX }
    }

    /// The request, in any version.
    pub(super) fn request(&self, outgoing: Outgoing, acks: i16, timeout_ms: i32) -> ProduceRequest {
        let mut topic_data: Vec<TopicProduceData> = Vec::new();
        for (batch, (name, topic_id, index)) in outgoing.batches.into_iter().zip(&self.batches) {
            let records = Some(Records::Bytes(batch.bytes));
            let partition = PartitionProduceData { index: *index, records };
            match topic_data.iter_mut().find(|topic| topic.name == **name) {
                Some(topic) => topic.partition_data.push(partition),
                None => topic_data.push(TopicProduceData {
                    name: name.to_string(),
                    topic_id: *topic_id,
                    partition_data: vec![partition],
                }),
            }
        }
        ProduceRequest { transactional_id: None, acks, timeout_ms, topic_data }
    }

    /// The answer for each batch; `None` if the response has none.
    pub(super) fn answers(
        &self,
        version: i16,
        response: &mut ProduceResponse,
    ) -> Vec<Option<Answer>> {
        let by_id = version > LAST_WITH_NAMES;
        let answer = |(name, id, index): &(Arc<str>, Uuid, i32)| {
            let is_topic = |topic: &&mut TopicProduceResponse| {
                if by_id { topic.topic_id == *id } else { topic.name == **name }
            };
            let topic = response.responses.iter_mut().find(is_topic)?;
            let partition = topic.partition_responses.iter_mut().find(|p| p.index == *index)?;
            Some(read(partition))
        };
        self.batches.iter().map(answer).collect()
    }

    /// Tells the cluster of leaders that the response names (KIP-951).
    pub(super) fn learn_leaders(
        &self,
        version: i16,
        response: &ProduceResponse,
        cluster: &Cluster,
    ) {
        for topic in &response.responses {
            let by_id = version > LAST_WITH_NAMES;
            let is_it = |(name, id, _): &&(Arc<str>, Uuid, i32)| {
                if by_id { topic.topic_id == *id } else { topic.name == **name }
            };
            let Some((name, id, _)) = self.batches.iter().find(is_it) else { continue };
            for partition in &topic.partition_responses {
                let leader = partition.current_leader.leader_id;
                if partition.error_code == 0 || leader < 0 {
                    continue;
                }
                let endpoints = &response.node_endpoints;
                let endpoint = endpoints.iter().find(|endpoint| endpoint.node_id == leader);
                cluster.learn_leader(&LeaderNews {
                    topic: name,
                    topic_id: *id,
                    partition: partition.index,
                    leader,
                    leader_epoch: LeaderEpoch(partition.current_leader.leader_epoch),
                    endpoint: endpoint.map(|endpoint| (endpoint.host.as_str(), endpoint.port)),
                });
            }
        }
    }
}

/// Whether a leader waited too long for replicas: it may not lead any more.
pub(super) fn is_late(response: &ProduceResponse) -> bool {
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    partitions.any(|partition| partition.error_code == ErrorCode::RequestTimedOut.code())
}

fn read(partition: &mut PartitionProduceResponse) -> Answer {
    let errors = std::mem::take(&mut partition.record_errors).into_iter();
    Answer {
        code: ErrorCode::from_code(partition.error_code),
        message: partition.error_message.take(),
        base_offset: partition.base_offset,
        log_append_time_ms: partition.log_append_time_ms,
        record_errors: errors
            .map(|error| (error.batch_index, error.batch_index_error_message))
            .collect(),
    }
}
