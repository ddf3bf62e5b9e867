//! DeleteAcls: there is no authorizer, and the answer says so for every filter.
//!
//! Source: Kafka's `AclApis.handleDeleteAcls` without an authorizer.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::delete_acls::{
    DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<DeleteAclsRequest>) {
    let refused = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured.".to_owned()),
        ..DeleteAclsFilterResult::default()
    };
    let results = (0..call.request.filters.len()).map(|_| refused.clone());
    call.reply.send_each(&DeleteAclsResponse::default(), results);
}
