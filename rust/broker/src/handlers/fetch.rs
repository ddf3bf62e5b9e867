//! Fetch: record batches out of the log, as byte ranges of its files.
//!
//! The session says which partitions are meant, purgatory holds the request until it is worth
//! answering, and the answer names the ranges that the network thread sends straight from the page
//! cache.
//! Source: Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager.fetchMessages`.

use super::{Call, Rooms};
use crate::fetch_sessions::{FetchContext, Look, Opening, Reader, TopicRef};
use crate::purgatory::WatchList;
use crate::purgatory::delayed_fetch::{DelayedFetch, FetchLimits};
use crate::replication::{FetchReader, Fetched};
use kafkalite_log::FileSlice;
use kafkalite_protocol::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse,
    LeaderIdAndEpoch, PartitionData,
};
use kafkalite_protocol::{ApiKey, ErrorCode, Records, Uuid};
use std::sync::Arc;

/// Isolation level `read_committed`.
const READ_COMMITTED: i8 = 1;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<FetchRequest>) {
    let Call { request, reply } = call;
    let now_ms = rooms.clock.wall_ms();
    // Only a fetch that opens a session needs an id for it; randomness is a system call.
    let opening = || Opening { id: rooms.random_i32(), waiters: rooms.fetches.new_list() };
    let resolved = rooms.sessions.resolve(&request, reply.version, now_ms, opening);
    let (context, looks) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => {
            let error_code = error.code();
            return reply.send(&FetchResponse { error_code, ..FetchResponse::default() });
        }
    };
    let reader = reader(Reader::of(&request, reply.version));
    let most = u64::try_from(rooms.config.load().fetch_max_bytes).unwrap_or(0);
    let max_bytes = u64::try_from(request.max_bytes).unwrap_or(0).min(most);
    let limits = FetchLimits {
        min_bytes: u64::try_from(request.min_bytes).unwrap_or(0).min(max_bytes),
        max_bytes,
        max_wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
        reader,
    };
    let (cold_reads, looked_at) = (Arc::clone(&rooms.cold_reads), rooms.looked_at.clone());
    let (partitions, fetches) = (rooms.partitions.clone(), &rooms.fetches);
    let noted = context.clone();
    DelayedFetch::start(&context, looks, partitions, limits, fetches, move |operation| {
        let lookups = operation.lookup_ranges();
        let pool = Arc::clone(&cold_reads);
        // Looking an old offset up reads the log: this thread must not wait for the disk either.
        pool.when_resident(ApiKey::Fetch as i16, lookups, move || {
            let read = operation.read();
            looked_at.add(read.len() as u64);
            let (response, files) = response(&noted, read, reader);
            reply.send_with_files(&response, &files, &cold_reads);
        });
    });
}

fn reader(reader: Reader) -> FetchReader {
    match reader {
        Reader { replica_id: 0.., .. } => FetchReader::Follower(reader.replica_id),
        Reader { isolation_level: READ_COMMITTED, .. } => FetchReader::ReadCommitted,
        Reader { .. } => FetchReader::ReadUncommitted,
    }
}

/// The answer, and the ranges of files that it refers to.
fn response(
    context: &FetchContext<Arc<WatchList>>,
    read: Vec<(Look, Fetched)>,
    reader: FetchReader,
) -> (FetchResponse, Vec<Vec<FileSlice>>) {
    let mut response = FetchResponse::default();
    let mut files = Vec::new();
    // The session is locked once for the whole answer: its partitions are noted in order.
    let mut session = context.session().map(|session| session.lock());
    let only_news = matches!(context, FetchContext::Incremental(_));
    for (look, fetched) in read {
        let readable_end = fetched.readable_end.0;
        let data = partition_data(&look, fetched, reader, &mut files);
        let news = session.as_mut().is_none_or(|session| session.note(&look, &data, readable_end));
        if news || !only_news {
            push(&mut response, &look.target.topic, data);
        }
    }
    response.session_id = session.as_ref().map_or(0, |session| session.id());
    (response, files)
}

fn partition_data(
    look: &Look,
    fetched: Fetched,
    reader: FetchReader,
    files: &mut Vec<Vec<FileSlice>>,
) -> PartitionData {
    let aborted_transactions = aborted_transactions(&fetched, reader);
    let records = Records::External { token: files.len() as u32, len: fetched.bytes };
    files.push(fetched.slices);
    PartitionData {
        partition_index: look.target.partition,
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
        aborted_transactions,
        records: Some(records),
        ..PartitionData::default()
    }
}

/// There are no transactions to abort; a list without any, or none, as Kafka has it: a list also
/// for partitions that are not there, none for those that could not be read.
fn aborted_transactions(fetched: &Fetched, reader: FetchReader) -> Option<Vec<AbortedTransaction>> {
    let is_listed = match fetched.error {
        ErrorCode::None => reader == FetchReader::ReadCommitted && fetched.diverging.is_none(),
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => true,
        _ => false,
    };
    is_listed.then(Vec::new)
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

#[cfg(test)]
mod tests;
