//! JoinCluster: a broker wants to belong to this one's cluster.

use super::parked_change::park;
use super::{Call, Rooms};
use crate::cluster::join::joining;
use crate::metadata::ApiError;
use crate::metadata::controller::{Joined, OnAnswer};
use kafkalite_protocol::messages::join_cluster::{JoinClusterRequest, JoinClusterResponse};
use std::sync::Arc;

/// How long a request waits at most; the broker asks again.
const TIMEOUT_MS: u64 = 25_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<JoinClusterRequest>) {
    let Call { request, reply } = call;
    let (cluster, joining) = (Arc::clone(&rooms.cluster), joining(request));
    let ask = |done: OnAnswer<Joined>| cluster.join(joining, done);
    park(rooms, reply.memory_bytes, TIMEOUT_MS, ask, move |answer| {
        reply.send(&told(answer.and_then(|answer| answer)));
    });
}

fn told(answer: Result<Joined, ApiError>) -> JoinClusterResponse {
    match answer {
        Ok(Joined { cluster_id, broker_id }) => {
            JoinClusterResponse { cluster_id, node_id: broker_id, ..Default::default() }
        }
        Err(error) => JoinClusterResponse {
            error_code: error.code.code(),
            error_message: error.message,
            node_id: -1,
            ..Default::default()
        },
    }
}
