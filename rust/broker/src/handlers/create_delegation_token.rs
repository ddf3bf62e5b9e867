//! CreateDelegationToken: who has not logged in gets no token to log in with.
//!
//! Source: Kafka's `KafkaApis.handleCreateTokenRequest` on a PLAINTEXT listener.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::create_delegation_token::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<CreateDelegationTokenRequest>) {
    let Call { request, reply } = call;
    let anonymous = || ("User".to_owned(), "ANONYMOUS".to_owned());
    // Before version 3 there is no owner in the request.
    let owner = request.owner_principal_type.zip(request.owner_principal_name);
    let owner = owner.filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
    let (principal_type, principal_name) = owner.unwrap_or_else(anonymous);
    let (token_requester_principal_type, token_requester_principal_name) = anonymous();
    reply.send(&CreateDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        principal_type,
        principal_name,
        token_requester_principal_type,
        token_requester_principal_name,
        issue_timestamp_ms: -1,
        expiry_timestamp_ms: -1,
        max_timestamp_ms: -1,
        ..CreateDelegationTokenResponse::default()
    });
}
