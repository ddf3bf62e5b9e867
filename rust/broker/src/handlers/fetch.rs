//! Fetch: record batches out of the log, as byte ranges of its files.
//!
//! The session says which partitions are meant, purgatory holds the request until it is worth
//! answering, and the answer names the ranges that the network thread sends straight from the page
//! cache.
//! Source: Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager.fetchMessages`.

use super::{Call, Rooms};
use crate::fetch_sessions::{Opening, Reader};
use crate::partitions::FetchReader;
use crate::purgatory::delayed_fetch::{DelayedFetch, FetchLimits};
use crate::request_queue::Parked;
use answers::Answers;
use kafkalite_protocol::messages::fetch::{FetchRequest, FetchResponse};
use kafkalite_protocol::{ApiKey, ErrorCode};
use std::sync::Arc;

mod answers;

/// Isolation level `read_committed`.
const READ_COMMITTED: i8 = 1;

/// Longest wait of a fetch that takes much memory, in ms: as long as clients wait for any answer.
const MAX_LARGE_WAIT_MS: u64 = 30_000;

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
        max_wait_ms: longest_wait_ms(request.max_wait_ms, looks.len()),
        reader,
    };
    // Decoded, it takes twice its bytes: no longer than until its partitions are known.
    drop(request);
    let (cold_reads, looked_at) = (Arc::clone(&rooms.cold_reads), rooms.looked_at.clone());
    let (partitions, fetches) = (rooms.partitions.clone(), &rooms.fetches);
    let noted = context.clone();
    let held = rooms.parked.hold_fetch(DelayedFetch::bytes_of(looks.len()));
    DelayedFetch::start(&context, looks, partitions, limits, fetches, move |operation| {
        let lookups = operation.lookup_ranges();
        let pool = Arc::clone(&cold_reads);
        // Looking an old offset up reads the log: this thread must not wait for the disk either.
        pool.when_resident(ApiKey::Fetch as i16, lookups, move || {
            let read = operation.read();
            looked_at.add(read.len() as u64);
            let (answers, files) = Answers::new(&noted, read, reader);
            let version = reply.version;
            reply.send_with_files(&files, &cold_reads, |writer| answers.encode(writer, version));
            drop(held);
        });
    });
}

/// How long a fetch may wait, in ms: as long as its client says, but one that takes much memory
/// meanwhile must give it back.
fn longest_wait_ms(asked_ms: i32, looks: usize) -> u64 {
    let asked_ms = u64::try_from(asked_ms).unwrap_or(0);
    if Parked::is_large(DelayedFetch::bytes_of(looks)) {
        asked_ms.min(MAX_LARGE_WAIT_MS)
    } else {
        asked_ms
    }
}

fn reader(reader: Reader) -> FetchReader {
    match reader {
        Reader { replica_id: 0.., .. } => FetchReader::Follower(reader.replica_id),
        Reader { isolation_level: READ_COMMITTED, .. } => FetchReader::ReadCommitted,
        Reader { .. } => FetchReader::ReadUncommitted,
    }
}

/// What a client is told when the handler failed.
#[must_use]
pub fn error_response(error: ErrorCode) -> FetchResponse {
    FetchResponse { error_code: error.code(), ..FetchResponse::default() }
}

#[cfg(test)]
mod tests;
