//! DescribeUserScramCredentials: none can be set, so no user has any.
//!
//! Source: Kafka's `ScramImage.describe`, its error codes and its words; KIP-554.

use super::messages::Messages;
use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
};
use std::collections::BTreeMap;

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<DescribeUserScramCredentialsRequest>) {
    let Call { request, reply } = call;
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    for user in request.users.unwrap_or_default() {
        *users.entry(user.name).or_default() += 1;
    }
    let mut messages = Messages::new();
    let results = users.into_iter().map(|(user, count)| {
        let (code, words) = match count {
            1 => (
                ErrorCode::ResourceNotFound,
                "Attempt to describe a user credential that does not exist: ",
            ),
            _ => (
                ErrorCode::DuplicateResource,
                "Cannot describe SCRAM credentials for the same user twice in a single request: ",
            ),
        };
        let error = messages.error(code, || format!("{words}{user}"));
        DescribeUserScramCredentialsResult {
            user,
            error_code: error.code.code(),
            error_message: error.message,
            credential_infos: Vec::new(),
        }
    });
    let head = DescribeUserScramCredentialsResponse {
        error_message: Some(String::new()),
        ..DescribeUserScramCredentialsResponse::default()
    };
    reply.send_each(&head, results);
}
