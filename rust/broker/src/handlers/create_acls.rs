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
    let results = vec![refused; call.request.creations.len()];
    call.reply.send(&CreateAclsResponse { results, ..CreateAclsResponse::default() });
}
