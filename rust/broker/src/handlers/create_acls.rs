//! CreateAcls: there is no authorizer, and the answer says so for every entry.
//!
//! Source: Kafka's `AclApis.handleCreateAcls` without an authorizer.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::create_acls::{
    AclCreationResult, CreateAclsRequest, CreateAclsResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<CreateAclsRequest>) {
    let refused = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured.".to_owned()),
    };
    let results = (0..call.request.creations.len()).map(|_| refused.clone());
    call.reply.send_each(&CreateAclsResponse::default(), results);
}
