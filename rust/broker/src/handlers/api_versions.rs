//! ApiVersions: which APIs this broker serves, in which versions.
//!
//! The answer lists only what is served, with one exception of the schema: Produce is listed from
//! version 0. Otherwise librdkafka turns compression off. Features that clients look for, of groups
//! and transactions, have no level: clients keep to the classic groups and the first transactions.
//! Source: Kafka's `ApiVersionManager`, KIP-511 for the software's name, KIP-584 for features.

use std::ops::RangeInclusive;

use super::{Call, PRIVATE, Rooms, SERVED, frame};
use crate::cluster::Cluster;
use crate::request_queue::Request;
use crate::response_queue::{Piece, Response};
use kafkalite_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafkalite_protocol::{ApiKey, ErrorCode};

/// The name of kafkalite's own connections, brokers among them: their list has the private APIs.
const SOFTWARE: &str = "kafkalite";

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ApiVersionsRequest>) {
    answer(&rooms.cluster, call);
}

/// Handles one request; the rooms may not be there yet.
pub fn answer(cluster: &Cluster, call: Call<ApiVersionsRequest>) {
    let Call { request, reply } = call;
    let named = is_software_name(&request.client_software_name)
        && is_software_name(&request.client_software_version);
    if reply.version >= 3 && !named {
        let error_code = ErrorCode::InvalidRequest.code();
        return reply.send(&ApiVersionsResponse { error_code, ..ApiVersionsResponse::default() });
    }
    if reply.version >= 3 {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        reply.context.client.is_software(name, version);
    }
    let is_ours = request.client_software_name == SOFTWARE;
    let told = SERVED.iter().filter(|api| is_ours || !PRIVATE.contains(*api));
    let supported = cluster.supported().iter().map(|(name, range)| SupportedFeatureKey {
        name: name.to_owned(),
        min_version: range.min,
        max_version: range.max,
    });
    let image = cluster.controller().image();
    let levels = image.finalized().map(|(name, level)| FinalizedFeatureKey {
        name: name.to_owned(),
        max_version_level: level,
        min_version_level: level,
    });
    reply.send(&ApiVersionsResponse {
        api_keys: told.copied().map(range).collect(),
        supported_features: supported.collect(),
        finalized_features_epoch: image.offset,
        finalized_features: levels.collect(),
        ..ApiVersionsResponse::default()
    });
}

fn range(api: ApiKey) -> ApiVersion {
    let versions = api.advertised();
    ApiVersion { api_key: api as i16, min_version: versions.min, max_version: versions.max }
}

/// Answers a request of a version that is not served. The answer has version 0, which every client
/// reads. It lists the versions of ApiVersions, so that the client can ask again.
pub fn handle_unsupported(request: Request) {
    let all = 0..=i16::MAX;
    request.responder.send(unsupported(request.header.correlation_id, &all));
}

/// That answer of a broker which serves no more versions of ApiVersions than `left`.
pub fn unsupported(correlation_id: i32, left: &RangeInclusive<i16>) -> Response {
    let ApiVersion { api_key, min_version, max_version } = range(ApiKey::ApiVersions);
    let min_version = min_version.max(*left.start());
    let max_version = max_version.min(*left.end());
    let told = ApiVersion { api_key, min_version, max_version };
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: std::iter::once(told).filter(|told| min_version <= told.max_version).collect(),
        ..ApiVersionsResponse::default()
    };
    let frame = frame(ApiKey::ApiVersions, 0, correlation_id, &response);
    Response::Pieces(std::iter::once(Piece::Mem(frame)).collect())
}

/// Letters, digits, dots and dashes; the first and the last a letter or a digit.
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
}
