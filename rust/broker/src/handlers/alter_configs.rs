//! AlterConfigs: the configs of a resource are replaced; what is not named goes back to its
//! default.
//!
//! Source: Kafka's `ConfigAdminManager`, its error codes and its words.

use super::incremental_alter_configs::{alter, expect_plain, owner};
use super::{Call, Rooms};
use crate::metadata::controller::{ConfigChange, ConfigOperation};
use crate::metadata::{ApiError, ConfigResourceType};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<AlterConfigsRequest>) {
    let Call { request, reply } = call;
    let asked = request.resources.iter().map(|resource| {
        let key = (resource.resource_type, resource.resource_name.clone());
        (key, change(rooms, resource))
    });
    let (asked, validate_only) = (asked.collect(), request.validate_only);
    alter(rooms, reply.memory_bytes, asked, validate_only, move |answers| {
        let responses = request.resources.into_iter().zip(answers).map(|(resource, answer)| {
            let error = answer.err();
            AlterConfigsResourceResponse {
                error_code: error.as_ref().map_or(0, |error| error.code.code()),
                error_message: error.and_then(|error| error.message),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
            }
        });
        reply.send(&AlterConfigsResponse { responses: responses.collect(), throttle_time_ms: 0 });
    });
}

fn change(rooms: &Rooms, resource: &AlterConfigsResource) -> Result<ConfigChange, ApiError> {
    let nulls = resource.configs.iter().filter(|config| config.value.is_none());
    expect_plain(
        resource.configs.iter().map(|config| config.name.as_str()),
        nulls.map(|config| config.name.as_str()),
    )?;
    let owner = owner(rooms, resource.resource_type, &resource.resource_name)?;
    // Loggers are not replaced as a whole: Kafka does not know them in this request.
    if owner.resource_type == ConfigResourceType::BrokerLogger {
        let message = format!("Unknown resource type {}", resource.resource_type);
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let operations = resource.configs.iter().map(|config| {
        let value = config.value.clone().unwrap_or_default();
        (config.name.clone(), ConfigOperation::Set(value))
    });
    Ok(ConfigChange { resource: owner, replace: true, operations: operations.collect() })
}
