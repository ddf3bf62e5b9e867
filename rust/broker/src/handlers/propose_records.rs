//! ProposeRecords: records that another broker decided, for the leader of the controller quorum.

use super::{Call, Rooms};
use crate::cluster::Cluster;
use crate::cluster::peers::outcome;
use crate::metadata::MetadataError;
use crate::metadata::quorum::{Accepted, Outcome};
use kafkalite_protocol::messages::propose_records::{
    ProposeRecordsRequest, ProposeRecordsResponse,
};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ProposeRecordsRequest>) {
    answer(&rooms.cluster, call);
}

/// Handles one request; the rooms may not be there yet.
pub fn answer(cluster: &Cluster, call: Call<ProposeRecordsRequest>) {
    let Call { request, reply } = call;
    let ProposeRecordsRequest { cluster_id, expected, batch, .. } = request;
    cluster.accept(&cluster_id, expected, batch, move |accepted| reply.send(&told(accepted)));
}

fn told(accepted: Accepted) -> ProposeRecordsResponse {
    let told = |outcome, offset, error: Option<MetadataError>| ProposeRecordsResponse {
        error_code: 0,
        error_message: error.map(|error| error.to_string()),
        outcome,
        offset,
    };
    match accepted {
        Accepted::NotLeader => told(outcome::NOT_LEADER, -1, None),
        Accepted::Outcome(Outcome::Committed(offset)) => told(outcome::COMMITTED, offset, None),
        Accepted::Outcome(Outcome::Rejected(MetadataError::Overtaken { found, .. })) => {
            told(outcome::OVERTAKEN, found, None)
        }
        Accepted::Outcome(Outcome::Rejected(error)) => told(outcome::REFUSED, -1, Some(error)),
        Accepted::Outcome(Outcome::Unknown(error)) => told(outcome::UNKNOWN, -1, Some(error)),
    }
}
