//! DescribeClientQuotas: none can be set, so none is found; a filter that makes no sense is still
//! refused.
//!
//! Source: Kafka's `ClientQuotaCache.describeClientQuotas`, its error codes and its words; KIP-546.

use super::{Call, Rooms};
use crate::metadata::ApiError;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
};
use std::collections::HashSet;

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<DescribeClientQuotasRequest>) {
    let Call { request, reply } = call;
    reply.send(&match refusal(&request.components) {
        None => DescribeClientQuotasResponse {
            error_message: Some(String::new()),
            entries: Some(Vec::new()),
            ..DescribeClientQuotasResponse::default()
        },
        Some(error) => DescribeClientQuotasResponse {
            error_code: error.code.code(),
            error_message: error.message,
            entries: None,
            ..DescribeClientQuotasResponse::default()
        },
    });
}

fn refusal(components: &[ComponentData]) -> Option<ApiError> {
    let mut seen = HashSet::new();
    components.iter().find_map(|component| {
        let entity = component.entity_type.as_str();
        let (code, message) = match entity {
            "" => (ErrorCode::InvalidRequest, "Invalid empty entity type.".to_owned()),
            "user" | "client-id" | "ip" if !seen.insert(entity) => (
                ErrorCode::InvalidRequest,
                format!("Entity type {entity} cannot appear more than once in the filter."),
            ),
            // Exact name, default entity, any name.
            "user" | "client-id" | "ip" if (0..=2).contains(&component.match_type) => return None,
            "user" | "client-id" | "ip" => {
                let message = format!("Unknown match type {}", component.match_type);
                (ErrorCode::InvalidRequest, message)
            }
            other => (ErrorCode::UnsupportedVersion, format!("Unsupported entity type {other}")),
        };
        Some(ApiError::new(code, message))
    })
}
