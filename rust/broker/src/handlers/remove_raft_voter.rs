//! RemoveRaftVoter: a broker loses its vote in the controller quorum.
//!
//! The broker keeps the log, as all brokers do, and gets no vote again before an operator says so.
//! Source: Kafka's `RemoveVoterHandler`, KIP-853.

use super::parked_change::park;
use super::{Call, Rooms};
use crate::cluster::VoterRequest;
use crate::metadata::controller::OnAnswer;
use kafkalite_protocol::messages::remove_raft_voter::{
    RemoveRaftVoterRequest, RemoveRaftVoterResponse,
};
use std::sync::Arc;

/// How long a request waits at most: it brings no time of its own.
const TIMEOUT_MS: u64 = 30_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<RemoveRaftVoterRequest>) {
    let Call { request, reply } = call;
    let timeout_ms = TIMEOUT_MS;
    let asked = VoterRequest {
        cluster_id: request.cluster_id,
        broker_id: request.voter_id,
        directory_id: request.voter_directory_id,
        timeout_ms,
    };
    let cluster = Arc::clone(&rooms.cluster);
    let ask = |done: OnAnswer<()>| cluster.remove_voter(asked, done);
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |answer| {
        let error = answer.and_then(|answer| answer).err();
        reply.send(&RemoveRaftVoterResponse {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: error.and_then(|error| error.message),
            ..RemoveRaftVoterResponse::default()
        });
    });
}
