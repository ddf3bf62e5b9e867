//! Fetch: record batches out of the log, as byte ranges of its files.
//!
//! The session gives the partitions, and purgatory holds the request until it is worth answering.
//! The answer names ranges of files, which the network thread sends straight from the page cache.
//! Source: Kafka's `KafkaApis.handleFetchRequest` and `ReplicaManager.fetchMessages`.

use super::{Call, Reply, Rooms};
use crate::cold_reads::ColdReads;
use crate::fetch_sessions::{ANY_REPLICA_VERSION, FetchContext, Opening, Reader};
use crate::metrics::Counter;
use crate::partitions::FetchReader;
use crate::request_queue::Parked;
use crate::request_queue::parked::ParkedBytes;
use answers::Answers;
use delayed_fetch::{DelayedFetch, FetchLimits};
use kafkalite_log::FileSlice;
use kafkalite_protocol::messages::fetch::{FetchRequest, FetchResponse};
use kafkalite_protocol::{ApiKey, ErrorCode};
use std::sync::Arc;

mod answers;
mod delayed_fetch;
mod followers;

/// Isolation level `read_committed`.
const READ_COMMITTED: i8 = 1;

/// Longest wait of a fetch that takes much memory, in ms: as long as clients wait for any answer.
const MAX_LARGE_WAIT_MS: u64 = 30_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<FetchRequest>) {
    let Call { request, reply } = call;
    let who = Reader::of(&request, reply.version);
    if who.is_follower() && followers::is_ahead(rooms, who) {
        let error_code = ErrorCode::StaleBrokerEpoch as i16;
        return reply.send(&FetchResponse { error_code, ..FetchResponse::default() });
    }
    // Monotonic: a follower must not seem to lag when the clock is set.
    let now_ms = i64::try_from(rooms.clock.monotonic_ms()).unwrap_or(i64::MAX);
    // Only a fetch that opens a session needs an id for it; randomness is a system call.
    let opening = || Opening { id: rooms.random_i32(), waiters: rooms.fetches.new_list() };
    let resolved = rooms.sessions.resolve(&request, reply.version, now_ms, opening);
    let (context, mut looks) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => {
            let error_code = error.code();
            return reply.send(&FetchResponse { error_code, ..FetchResponse::default() });
        }
    };
    let reader = reader(who);
    if who.is_follower() {
        let (image, now_ms) = (rooms.controller.image(), rooms.clock.monotonic_ms());
        followers::note(&image, &rooms.partitions, now_ms, who, &mut looks);
    }
    // As in Kafka `fetch.max.bytes` is for consumers: followers have a key of their own.
    let most = if who.is_follower() { i32::MAX } else { rooms.config.load().fetch_max_bytes };
    let max_bytes = u64::try_from(request.max_bytes.min(most)).unwrap_or(0);
    let limits = FetchLimits {
        asker: reply.asker(),
        min_bytes: u64::try_from(request.min_bytes).unwrap_or(0).min(max_bytes),
        max_bytes,
        max_wait_ms: longest_wait_ms(request.max_wait_ms, looks.len()),
        reader,
        rack: rack(rooms, who, &request, reply.version),
    };
    // Decoded, it takes twice its bytes: no longer than until its partitions are known.
    drop(request);
    let held = rooms.parked.hold_fetch(DelayedFetch::bytes_of(looks.len()));
    let answer = Answering {
        reply,
        context: context.clone(),
        reader,
        cold_reads: Arc::clone(&rooms.cold_reads),
        looked_at: rooms.looked_at.clone(),
        _held: held,
    };
    let (partitions, fetches) = (rooms.partitions.clone(), &rooms.fetches);
    // What a producer's network thread appends must not cost that thread a follower's answer.
    let queue = who.is_follower().then(|| Arc::clone(&rooms.requests));
    DelayedFetch::start(&context, looks, partitions, limits, fetches, move |fetch| {
        let locate = move || answer.take(Step::Locate(fetch));
        match queue {
            Some(queue) => queue.execute_for_brokers(Box::new(locate)),
            None => locate(),
        }
    });
}

/// What is left to do for a fetch that need not wait any longer.
enum Step {
    /// Have the places of old offsets read in: the thread must not wait for the disk to look them
    /// up.
    Locate(Arc<DelayedFetch>),
    /// Look the offsets up, and see which ranges of files answer them.
    Read(Arc<DelayedFetch>),
    /// Have these ranges read in, and send them.
    Send(Answers, Vec<Vec<FileSlice>>),
}

/// A fetch on its way to its answer.
struct Answering {
    reply: Reply<FetchRequest>,
    context: FetchContext,
    reader: FetchReader,
    cold_reads: Arc<ColdReads>,
    looked_at: Counter,
    /// Memory that counts as used until the answer is sent.
    _held: Option<ParkedBytes>,
}

impl Answering {
    /// Takes a step and those that follow it: here, or where the step has to wait for the disk.
    fn take(self, step: Step) {
        match step {
            Step::Locate(fetch) => {
                let (pool, lookups) = (Arc::clone(&self.cold_reads), fetch.lookup_ranges());
                pool.when_resident(ApiKey::Fetch as i16, lookups, move || {
                    self.take(Step::Read(fetch));
                });
            }
            Step::Read(fetch) => {
                let read = fetch.read();
                self.looked_at.add(read.len() as u64);
                let (answers, files) = Answers::new(&self.context, read, self.reader);
                self.take(Step::Send(answers, files));
            }
            Step::Send(answers, files) => {
                let Self { reply, cold_reads, .. } = self;
                let version = reply.version;
                reply.send_with_files(&files, &cold_reads, |writer| {
                    answers.encode(writer, version);
                });
            }
        }
    }
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

/// The rack of a consumer, if leaders send consumers to replicas in their racks (KIP-392).
fn rack(rooms: &Rooms, who: Reader, request: &FetchRequest, version: i16) -> Option<Arc<str>> {
    let may_leave = !who.is_follower() && version >= ANY_REPLICA_VERSION;
    let is_asked = may_leave && !request.rack_id.is_empty();
    let is_on = || rooms.config.load().replica_selector_class.is_some();
    (is_asked && is_on()).then(|| Arc::from(request.rack_id.as_str()))
}

fn reader(reader: Reader) -> FetchReader {
    match reader {
        Reader { replica_id: 0.., .. } => FetchReader::Follower(reader.replica_id),
        Reader { isolation_level: READ_COMMITTED, .. } => FetchReader::ReadCommitted,
        Reader { .. } => FetchReader::ReadUncommitted,
    }
}

#[cfg(test)]
mod tests;
