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

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

fn refusal(components: &[ComponentData]) -> Option<ApiError> {
    let mut seen = HashSet::new();
    let wrong = components.iter().find_map(|component| wrong(component, &mut seen));
    let is_combined = seen.contains("ip") && seen.len() > 1;
    let combined = || {
        let message = "Invalid entity filter component combination. IP filter component should \
                       not be used with user or clientId filter component.";
        ApiError::new(ErrorCode::InvalidRequest, message)
    };
    wrong.or_else(|| is_combined.then(combined))
}

fn wrong<'a>(component: &'a ComponentData, seen: &mut HashSet<&'a str>) -> Option<ApiError> {
    let entity = component.entity_type.as_str();
    let invalid = |message: String| Some(ApiError::new(ErrorCode::InvalidRequest, message));
    match entity {
        "user" | "client-id" | "ip" => {}
        "" => return invalid("Invalid empty entity type.".to_owned()),
        other => {
            let message = format!("Unsupported entity type {other}");
            return Some(ApiError::new(ErrorCode::UnsupportedVersion, message));
        }
    }
    if !seen.insert(entity) {
        let message = format!("Entity type {entity} cannot appear more than once in the filter.");
        return invalid(message);
    }
    let and_a_name = |kind| format!("Request specified {kind}, but also specified a match string.");
    match (component.match_type, &component.r#match) {
        (EXACT, Some(_)) | (DEFAULT | ANY, None) => None,
        (EXACT, None) => {
            invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.".to_owned())
        }
        (DEFAULT, Some(_)) => invalid(and_a_name("MATCH_TYPE_DEFAULT")),
        (ANY, Some(_)) => invalid(and_a_name("MATCH_TYPE_SPECIFIED")),
        (other, _) => invalid(format!("Unknown match type {other}")),
    }
}
