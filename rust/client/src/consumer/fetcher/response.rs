//! What a fetch response means for each of its partitions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafkalite_connection::LeaderNews;
use kafkalite_protocol::messages::fetch::{
    FetchResponse, FetchableTopicResponse, NodeEndpoint, PartitionData,
};
use kafkalite_protocol::record_batch::Batches;
use kafkalite_protocol::{ErrorCode, LeaderEpoch};

use super::session::{FetchSession, Wanted};
use crate::consumer::cursor::{Cursor, Position};
use crate::consumer::fetched::buffer::Content;
use crate::consumer::fetched::decode::Aborted;
use crate::consumer::shared::Shared;
use crate::consumer::subscription::{Subscription, Watermarks};

/// What goes into the buffer.
type Brought = Vec<(Arc<Cursor>, Position, Content)>;

/// Takes over a response without an error of its own. Partitions outside the request are left out.
pub fn take(shared: &Shared, session: &FetchSession, response: FetchResponse) {
    let mut brought = Vec::new();
    let mut outdated = false;
    let endpoints = response.node_endpoints;
    let (now, age) = (Instant::now(), shared.config.client.connection.metadata_max_age);
    {
        let mut subscription = shared.subscription.lock();
        for topic in response.responses {
            let FetchableTopicResponse { topic, topic_id, partitions } = topic;
            for data in partitions {
                let Some(told) = session.told(&topic, topic_id, data.partition_index) else {
                    continue;
                };
                let moment = (now, age);
                let passing = take_partition(&mut subscription, told, data, moment, &mut brought);
                if let Some(news) = passing {
                    outdated = true;
                    subscription.retry_later(told.cursor.partition(), shared.retry_at());
                    learn(shared, told, news, &endpoints);
                }
            }
        }
    }
    shared.buffer.push_all(brought);
    if outdated {
        shared.cluster.request_refresh();
        shared.settle.notify_one();
    }
}

/// The leader that a refusal named: its id and epoch, -1 where it named none.
type NamedLeader = (i32, i32);

/// Takes one partition; returns the leader it names if it is refused for a reason that passes. What
/// a leader says of another replica counts for `age`.
fn take_partition(
    subscription: &mut Subscription,
    told: &Wanted,
    data: PartitionData,
    (now, age): (Instant, Duration),
    brought: &mut Brought,
) -> Option<NamedLeader> {
    let state = subscription.get_mut(told.cursor.partition())?;
    let code = ErrorCode::from_code(data.error_code);
    let named = (data.current_leader.leader_id, data.current_leader.leader_epoch);
    if passes(code) {
        state.nearby().leave();
        return Some(named);
    }
    // Another leader was asked for the same place meanwhile, and answered first.
    if state.next_fetch().offset != told.from.offset {
        return None;
    }
    // Only the leader knows what is in range.
    if code == ErrorCode::OffsetOutOfRange && !told.at_leader {
        state.nearby().leave();
        return Some(named);
    }
    if code.is_none() && data.preferred_read_replica >= 0 {
        state.nearby().name(data.preferred_read_replica, now, age);
        return None;
    }
    if !code.is_none() {
        if state.stall(&told.cursor) {
            brought.push((Arc::clone(&told.cursor), told.from, Content::Refused(code)));
        }
        return None;
    }
    let marks = Watermarks {
        log_start: data.log_start_offset,
        high: data.high_watermark,
        last_stable: data.last_stable_offset,
    };
    let bytes = data.records.map(|records| records.into_bytes()).unwrap_or_default();
    match end_of(&bytes, told.from) {
        Ok(None) => {
            state.fetched(&told.cursor, told.from, marks);
        }
        Ok(Some(next)) => {
            if state.fetched(&told.cursor, next, marks) {
                state.brought(now, told.at_leader);
                let aborted = data.aborted_transactions.unwrap_or_default().into_iter();
                let aborted = aborted.map(|one| Aborted {
                    producer_id: one.producer_id,
                    first_offset: one.first_offset,
                });
                let content = Content::Batches { bytes, aborted: aborted.collect() };
                brought.push((Arc::clone(&told.cursor), told.from, content));
            }
        }
        Err(why) => {
            if state.stall(&told.cursor) {
                brought.push((Arc::clone(&told.cursor), told.from, Content::Unreadable(why)));
            }
        }
    }
    None
}

/// Errors that may pass when the same or another broker is asked again.
fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::KafkaStorageError
            | ErrorCode::OffsetNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::UnknownServerError
            | ErrorCode::BrokerNotAvailable
            | ErrorCode::ThrottlingQuotaExceeded
    )
}

/// Where the batches in `bytes` end, of which the decoder makes records later. `None` if there are
/// none.
fn end_of(bytes: &Bytes, from: Position) -> Result<Option<Position>, String> {
    let mut end: Option<Position> = None;
    for batch in Batches::new(bytes) {
        match batch {
            Ok(batch) => {
                let header = batch.header();
                let leader_epoch = header.leader_epoch.0;
                end = Some(Position { offset: header.next_offset().0, leader_epoch });
            }
            // What is good before it is handed out first; the next fetch begins with it.
            Err(_) if end.is_some() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    match end {
        Some(end) if end.offset <= from.offset => {
            Err(format!("batches up to offset {} came for {}", end.offset, from.offset))
        }
        None if !bytes.is_empty() => Err("the first batch is cut short".to_owned()),
        end => Ok(end),
    }
}

fn learn(shared: &Shared, told: &Wanted, named: NamedLeader, endpoints: &[NodeEndpoint]) {
    let (leader, epoch) = named;
    if leader < 0 || epoch <= told.leader_epoch {
        return;
    }
    let partition = told.cursor.partition();
    let endpoint = endpoints.iter().find(|endpoint| endpoint.node_id == leader);
    shared.cluster.learn_leader(&LeaderNews {
        topic: &partition.topic,
        topic_id: told.topic_id,
        partition: partition.partition,
        leader,
        leader_epoch: LeaderEpoch(epoch),
        endpoint: endpoint.map(|endpoint| (endpoint.host.as_str(), endpoint.port)),
    });
}
