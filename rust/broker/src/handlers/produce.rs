//! Produce: record batches into the log.
//!
//! Each partition is validated, appended and answered by itself. With acks=1 the answer comes at
//! once, or with `flush.messages` when the batch is durable. With acks=-1 it comes when the high
//! watermark passed the batch. With acks=0 there is no answer.
//! Source: Kafka's `KafkaApis.handleProduceRequest` and `ReplicaManager.appendRecords`.

use super::{Call, Reply, Rooms};
use crate::error::AppendRefusal;
use crate::metrics::Stage;
use crate::partitions::CommitStatus;
use bytes::Bytes;
use delayed_produce::{DelayedProduce, Pending};
use kafkalite_log::validation::{ValidationError, validate};
use kafkalite_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceResponse,
};
use kafkalite_protocol::record_batch::BatchHeader;
use kafkalite_protocol::{ApiKey, ErrorCode, Records, Uuid};
use std::sync::Arc;

pub(crate) mod delayed_produce;
mod naming;

/// First version that names topics by id.
const TOPIC_ID_VERSION: i16 = 13;
/// Kafka's own tools may write to internal topics under this client id.
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ProduceRequest>) {
    let Call { mut request, reply } = call;
    naming::name_each_once(&mut request.topic_data);
    let acks = request.acks;
    let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
    let (response, pending) = append_all(rooms, request, &reply);
    if acks == 0 {
        let failed = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        if failed.into_iter().any(|partition| partition.error_code != 0) {
            // The client reads no answer; closing the connection is the only signal.
            return reply.close();
        }
        return reply.stay_silent();
    }
    if pending.is_empty() {
        return reply.send(&response);
    }
    let waiters = |waiting: &Pending| waiting.partition().produce_waiters().clone();
    let lists: Vec<_> = pending.iter().map(waiters).collect();
    // What is answered of each partition is kept, also of those that need not wait.
    let named = response.responses.iter().map(|topic| topic.partition_responses.len()).sum();
    let held = rooms.parked.hold_produce(DelayedProduce::bytes_of(pending.len(), named));
    let asker = reply.asker();
    let operation = DelayedProduce::new(asker, pending, timeout_ms, response, move |done| {
        reply.send(done);
        drop(held);
    });
    rooms.produces.watch(Arc::new(operation), || lists);
}

fn append_all(
    rooms: &Rooms,
    request: ProduceRequest,
    reply: &Reply<ProduceRequest>,
) -> (ProduceResponse, Vec<Pending>) {
    let mut response = ProduceResponse::default();
    let mut pending = Vec::new();
    let append = Append::new(rooms, &request, reply);
    // As in Kafka's answers, a topic is there with its partitions or not at all.
    let topics = request.topic_data.into_iter().filter(|topic| !topic.partition_data.is_empty());
    for (topic_place, topic) in topics.enumerate() {
        let mut answers = Vec::with_capacity(topic.partition_data.len());
        for (place, data) in topic.partition_data.into_iter().enumerate() {
            let records = data.records.map(Records::into_bytes);
            let answer = match append.one(&topic.name, topic.topic_id, data.index, records) {
                Ok(appended) => {
                    if let Some(mut waiting) = appended.waiting {
                        waiting.place = (topic_place, place);
                        pending.push(waiting);
                    }
                    appended.answer
                }
                Err(refusal) => refused(data.index, refusal),
            };
            answers.push(answer);
        }
        response.responses.push(TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: answers,
        });
    }
    (response, pending)
}

/// What all partitions of one request share.
struct Append<'a> {
    rooms: &'a Rooms,
    version: i16,
    acks: i16,
    /// Why no partition is written at all.
    refused: Option<ErrorCode>,
    may_write_internal: bool,
    now_ms: i64,
}

struct Appended {
    answer: PartitionProduceResponse,
    waiting: Option<Pending>,
}

impl<'a> Append<'a> {
    fn new(rooms: &'a Rooms, request: &ProduceRequest, reply: &Reply<ProduceRequest>) -> Self {
        Self {
            rooms,
            version: reply.version,
            acks: request.acks,
            refused: refusal_of_all(request),
            may_write_internal: reply.client_id.as_deref() == Some(ADMIN_CLIENT_ID),
            now_ms: rooms.clock.wall_ms(),
        }
    }

    fn one(
        &self,
        topic: &str,
        topic_id: Uuid,
        index: i32,
        records: Option<Bytes>,
    ) -> Result<Appended, AppendRefusal> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        let partition = if self.version >= TOPIC_ID_VERSION {
            self.rooms.partitions.find_by_id(topic_id, index)?
        } else {
            self.rooms.partitions.find_by_name(topic, index)?
        };
        if partition.is_internal() && !self.may_write_internal {
            return Err(ErrorCode::InvalidTopicException.into());
        }
        let records = records.unwrap_or_default();
        let log_start = partition.log_start_offset();
        let validated = validate(&records, &partition.log_config(), self.now_ms, self.version);
        if let Err(error @ ValidationError::NotOneBatch { .. }) = validated {
            return Err(error.into());
        }
        if !(-1..=1).contains(&self.acks) {
            return Err(ErrorCode::InvalidRequiredAcks.into());
        }
        let batch = validated.map_err(|error| AppendRefusal::from(error).by_log(log_start))?;
        let begun_ns = self.rooms.clock.monotonic_ns();
        let appended = partition.append(&batch, self.acks == -1, self.now_ms);
        let took_ns = self.rooms.clock.monotonic_ns().saturating_sub(begun_ns);
        self.rooms.metrics.record(Stage::Append, ApiKey::Produce as i16, took_ns);
        let appended = appended.map_err(|refusal| refusal.by_log(log_start))?;
        let waits = match appended.status {
            _ if self.acks == 0 => false,
            CommitStatus::Committed => false,
            CommitStatus::Pending => true,
            CommitStatus::Lost(error) => return Err(error.into()),
        };
        let answer = PartitionProduceResponse {
            index,
            base_offset: appended.base_offset.0,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset.0,
            ..PartitionProduceResponse::default()
        };
        let (end, epoch) = (appended.end_offset, appended.leader_epoch);
        let waiting = waits.then(|| Pending::new(partition, end, epoch, self.acks));
        Ok(Appended { answer, waiting })
    }
}

/// Why no partition of a request can be written, if so.
fn refusal_of_all(request: &ProduceRequest) -> Option<ErrorCode> {
    if request.transactional_id.is_some() {
        // This broker begins no transactions, so no producer can be in one.
        return Some(ErrorCode::InvalidTxnState);
    }
    let mut all = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let transactional = all.any(|partition| match &partition.records {
        Some(Records::Bytes(bytes)) => {
            BatchHeader::parse(bytes).is_ok_and(|header| header.is_transactional())
        }
        _ => false,
    });
    // As in Kafka: a producer without a transactional id is not authorized to one.
    transactional.then_some(ErrorCode::TransactionalIdAuthorizationFailed)
}

/// The answer of a partition nothing was appended to.
fn refused(index: i32, refusal: AppendRefusal) -> PartitionProduceResponse {
    let errors = refusal.record_errors.into_iter().map(|(batch_index, message)| {
        BatchIndexAndErrorMessage { batch_index, batch_index_error_message: Some(message) }
    });
    PartitionProduceResponse {
        index,
        error_code: refusal.code.code(),
        base_offset: -1,
        log_start_offset: refusal.log_start_offset.map_or(-1, |offset| offset.0),
        record_errors: errors.collect(),
        error_message: refusal.message,
        current_leader: refusal.current_leader.map_or_else(LeaderIdAndEpoch::default, |leader| {
            LeaderIdAndEpoch { leader_id: leader.0, leader_epoch: leader.1 }
        }),
        ..PartitionProduceResponse::default()
    }
}
