//! Quorum: a call of another voter of the controller quorum.

use super::{Call, Rooms};
use crate::cluster::Cluster;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::quorum::{QuorumRequest, QuorumResponse};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<QuorumRequest>) {
    answer(&rooms.cluster, call);
}

/// Handles one request; the rooms may not be there yet.
pub fn answer(cluster: &Cluster, call: Call<QuorumRequest>) {
    let Call { request, reply } = call;
    cluster.answer(request.body, move |body| {
        let error = if body.is_some() { ErrorCode::None } else { ErrorCode::NotController };
        let (error_code, body) = (error.code(), body.unwrap_or_default());
        reply.send(&QuorumResponse { error_code, body });
    });
}
