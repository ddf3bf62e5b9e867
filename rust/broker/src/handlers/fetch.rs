//! Fetch: record batches out of the log, as byte ranges of its files.
//!
//! The session says which partitions are meant, purgatory holds the request until it is worth
//! answering, and the answer names the ranges that the network thread sends straight from the page
//! cache.
//! Source: Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager.fetchMessages`.

use super::{Call, Reply, Rooms};
use crate::cold_reads::ColdReads;
use crate::fetch_sessions::{FetchContext, FetchTarget, INITIAL_EPOCH, TopicRef};
use crate::purgatory::delayed_fetch::{DelayedFetch, FetchLimits, Wanted};
use crate::replication::{FetchReader, Fetched};
use kafkalite_log::FileSlice;
use kafkalite_protocol::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    PartitionData,
};
use kafkalite_protocol::{ErrorCode, Records, Uuid};
use std::sync::Arc;

/// Isolation level `read_committed`.
const READ_COMMITTED: i8 = 1;
/// First version that carries the replica's id in a tagged struct.
const REPLICA_STATE_VERSION: i16 = 15;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<FetchRequest>) {
    let Call { request, reply } = call;
    let now_ms = rooms.clock.wall_ms();
    // Only a fetch that opens a session needs an id for it; randomness is a system call.
    let new_id = if request.session_epoch == INITIAL_EPOCH { rooms.random_i32() } else { 0 };
    let (context, targets) = match rooms.sessions.resolve(&request, reply.version, now_ms, new_id) {
        Ok(resolved) => resolved,
        Err(error) => {
            let error_code = error.code();
            return reply.send(&FetchResponse { error_code, ..FetchResponse::default() });
        }
    };
    let reader = reader(&request, reply.version);
    let wanted: Vec<_> = targets
        .into_iter()
        .map(|target| {
            let partition = rooms.partitions.find(&target.topic, target.partition);
            Wanted { partition, target }
        })
        .collect();
    let most = u64::try_from(rooms.config.load().fetch_max_bytes).unwrap_or(0);
    let max_bytes = u64::try_from(request.max_bytes).unwrap_or(0).min(most);
    let limits = FetchLimits {
        min_bytes: u64::try_from(request.min_bytes).unwrap_or(0).min(max_bytes),
        max_bytes,
        max_wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
        reader,
    };
    let cold_reads = Arc::clone(&rooms.cold_reads);
    let operation = DelayedFetch::new(wanted, limits, move |operation| {
        let lookups = operation.lookup_ranges();
        let pool = Arc::clone(&cold_reads);
        // Looking an old offset up reads the log: this thread must not wait for the disk either.
        pool.when_resident(lookups, move || {
            answer(reply, &context, operation.read(), reader, &cold_reads);
        });
    });
    let keys = operation.keys();
    rooms.fetches.watch(Arc::new(operation), &keys);
}

fn reader(request: &FetchRequest, version: i16) -> FetchReader {
    let replica_id = if version < REPLICA_STATE_VERSION {
        request.replica_id
    } else {
        request.replica_state.replica_id
    };
    match replica_id {
        0.. => FetchReader::Follower(replica_id),
        _ if request.isolation_level == READ_COMMITTED => FetchReader::ReadCommitted,
        _ => FetchReader::ReadUncommitted,
    }
}

fn answer(
    reply: Reply<FetchRequest>,
    context: &FetchContext,
    read: Vec<(FetchTarget, Fetched)>,
    reader: FetchReader,
    cold_reads: &ColdReads,
) {
    let mut response = FetchResponse::default();
    let mut files = Vec::new();
    // The session is locked once for the whole answer: its partitions are noted in order.
    let mut session = match context {
        FetchContext::Sessionless => None,
        FetchContext::Full(session) | FetchContext::Incremental(session) => Some(session.lock()),
    };
    let only_news = matches!(context, FetchContext::Incremental(_));
    for (target, fetched) in read {
        let data = partition_data(&target, fetched, reader, &mut files);
        let news = session.as_mut().is_none_or(|session| session.note(&target.topic, &data));
        if news || !only_news {
            push(&mut response, &target.topic, data);
        }
    }
    response.session_id = session.as_ref().map_or(0, |session| session.id());
    drop(session);
    reply.send_with_files(&response, &files, cold_reads);
}

fn partition_data(
    target: &FetchTarget,
    fetched: Fetched,
    reader: FetchReader,
    files: &mut Vec<Vec<FileSlice>>,
) -> PartitionData {
    let records = Records::External { token: files.len() as u32, len: fetched.bytes };
    files.push(fetched.slices);
    PartitionData {
        partition_index: target.partition,
        error_code: fetched.error.code(),
        high_watermark: fetched.high_watermark.0,
        last_stable_offset: fetched.last_stable_offset.0,
        log_start_offset: fetched.log_start_offset.0,
        diverging_epoch: fetched.diverging.map_or_else(EpochEndOffset::default, |(epoch, end)| {
            EpochEndOffset { epoch: epoch.0, end_offset: end.0 }
        }),
        current_leader: fetched.leader.map_or_else(LeaderIdAndEpoch::default, |(id, epoch)| {
            LeaderIdAndEpoch { leader_id: id, leader_epoch: epoch.0 }
        }),
        aborted_transactions: (reader == FetchReader::ReadCommitted).then(Vec::new),
        records: Some(records),
        ..PartitionData::default()
    }
}

/// Adds a partition to its topic; neighbours of one topic share an entry.
fn push(response: &mut FetchResponse, topic: &TopicRef, data: PartitionData) {
    let (name, id) = match topic {
        TopicRef::Name(name) => (name.as_ref(), Uuid::ZERO),
        TopicRef::Id(id) => ("", *id),
    };
    match response.responses.last_mut() {
        Some(last) if last.topic == name && last.topic_id == id => last.partitions.push(data),
        _ => response.responses.push(FetchableTopicResponse {
            topic: name.to_owned(),
            topic_id: id,
            partitions: vec![data],
        }),
    }
}

/// What a client is told when the handler failed.
#[must_use]
pub fn error_response(error: ErrorCode) -> FetchResponse {
    FetchResponse { error_code: error.code(), ..FetchResponse::default() }
}
