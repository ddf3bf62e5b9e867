//! DescribeDelegationToken: who has not logged in may not ask.
//!
//! Source: Kafka's `KafkaApis.handleDescribeTokensRequest` on a PLAINTEXT listener.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<DescribeDelegationTokenRequest>) {
    call.reply.send(&DescribeDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        ..DescribeDelegationTokenResponse::default()
    });
}
