//! AddRaftVoter: a broker becomes a voter of the controller quorum.
//!
//! Every broker of a cluster has the log of the quorum. So this names a broker that is registered,
//! and its address is the registered one, not that of the request.
//! Source: Kafka's `AddVoterHandler`, KIP-853.

use super::parked_change::park;
use super::{Call, Rooms};
use crate::cluster::VoterRequest;
use crate::metadata::controller::OnAnswer;
use kafkalite_protocol::messages::add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};
use std::sync::Arc;

/// How long a request waits at most: the leader is looked at again and again meanwhile, also when
/// the client is gone.
const MAX_TIMEOUT_MS: u64 = 60_000;

const fn longest_wait_ms(timeout_ms: i32) -> u64 {
    let asked = timeout_ms.unsigned_abs() as u64;
    if asked < MAX_TIMEOUT_MS { asked } else { MAX_TIMEOUT_MS }
}

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<AddRaftVoterRequest>) {
    let Call { request, reply } = call;
    let timeout_ms = longest_wait_ms(request.timeout_ms);
    let asked = VoterRequest {
        cluster_id: request.cluster_id,
        broker_id: request.voter_id,
        directory_id: request.voter_directory_id,
        timeout_ms,
    };
    let cluster = Arc::clone(&rooms.cluster);
    let ask = |done: OnAnswer<()>| cluster.add_voter(asked, done);
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |answer| {
        let error = answer.and_then(|answer| answer).err();
        reply.send(&AddRaftVoterResponse {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: error.and_then(|error| error.message),
            ..AddRaftVoterResponse::default()
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_would_wait_for_weeks_waits_for_a_minute() {
        let waits = [10, MAX_TIMEOUT_MS as i32, i32::MAX, i32::MIN].map(longest_wait_ms);
        assert_eq!(waits, [10, MAX_TIMEOUT_MS, MAX_TIMEOUT_MS, MAX_TIMEOUT_MS]);
    }
}
