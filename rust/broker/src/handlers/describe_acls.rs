//! DescribeAcls: there is no authorizer, and the answer says so.
//!
//! Source: Kafka's `AclApis.handleDescribeAcls` without an authorizer.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<DescribeAclsRequest>) {
    call.reply.send(&DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured on the broker".to_owned()),
        ..DescribeAclsResponse::default()
    });
}
