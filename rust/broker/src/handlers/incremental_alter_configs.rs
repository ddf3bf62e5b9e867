//! IncrementalAlterConfigs: change some keys of a resource, key by key.
//!
//! A resource is changed as a whole or not at all, and each is answered for itself.
//! Source: Kafka's `ConfigAdminManager`, its error codes and its words; KIP-339.

use super::parked_change::{NO_TIMEOUT_MS, park};
use super::{Call, Rooms};
use crate::metadata::controller::{ConfigChange, ConfigOperation, TableRules};
use crate::metadata::{ApiError, ConfigResource, ConfigResourceType};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<IncrementalAlterConfigsRequest>) {
    let Call { request, reply } = call;
    let asked: Vec<_> =
        request.resources.iter().map(|one| (key(one), change(rooms, one))).collect();
    let validate_only = request.validate_only;
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
        let responses = responses.collect();
        reply.send(&IncrementalAlterConfigsResponse { responses, throttle_time_ms: 0 });
    });
}

/// A resource as it stands in a request.
pub(super) type ResourceKey = (i8, String);

fn key(resource: &AlterConfigsResource) -> ResourceKey {
    (resource.resource_type, resource.resource_name.clone())
}

fn change(rooms: &Rooms, resource: &AlterConfigsResource) -> Result<ConfigChange, ApiError> {
    let names = resource.configs.iter().map(|config| config.name.as_str());
    let nulls = resource
        .configs
        .iter()
        .filter(|config| config.value.is_none() && config.config_operation != DELETE);
    expect_plain(names, nulls.map(|config| config.name.as_str()))?;
    let owner = owner(rooms, resource.resource_type, &resource.resource_name)?;
    if owner.resource_type == ConfigResourceType::BrokerLogger
        && let Some(config) = resource.configs.first()
    {
        let message = match config.name.as_str() {
            "root" => "The level of all loggers is set when the broker starts.".to_owned(),
            name => format!("Logger {name} does not exist!"),
        };
        return Err(ApiError::new(ErrorCode::InvalidConfig, message));
    }
    let operations = resource.configs.iter().map(operation).collect::<Result<_, _>>()?;
    Ok(ConfigChange { resource: owner, replace: false, operations })
}

const DELETE: i8 = 1;

fn operation(config: &AlterableConfig) -> Result<(String, ConfigOperation), ApiError> {
    let value = config.value.clone().unwrap_or_default();
    let operation = match config.config_operation {
        0 => ConfigOperation::Set(value),
        DELETE => ConfigOperation::Delete,
        2 => ConfigOperation::Append(value),
        3 => ConfigOperation::Subtract(value),
        other => {
            let message = format!("Unknown operation type {other}");
            return Err(ApiError::new(ErrorCode::InvalidRequest, message));
        }
    };
    Ok((config.name.clone(), operation))
}

/// A request names each key of a resource once, and with a value.
pub(super) fn expect_plain<'a>(
    mut names: impl Iterator<Item = &'a str>,
    nulls: impl Iterator<Item = &'a str>,
) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let mut seen = HashSet::new();
    if !names.all(|name| seen.insert(name)) {
        return invalid("Error due to duplicate config keys".to_owned());
    }
    let nulls: Vec<&str> = nulls.collect();
    if !nulls.is_empty() {
        return invalid(format!("Null value not supported for : {}", nulls.join(", ")));
    }
    Ok(())
}

/// Whose configs are meant, if they may be altered here at all.
pub(super) fn owner(rooms: &Rooms, code: i8, name: &str) -> Result<ConfigResource, ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let node_id = rooms.config().node_id;
    let resource_type = match ConfigResourceType::from_code(code) {
        None => return invalid(format!("Unknown resource type {code}")),
        Some(resource_type) => resource_type,
    };
    match (resource_type, name.parse::<i32>()) {
        (ConfigResourceType::Broker, _) if name.is_empty() => {}
        (ConfigResourceType::Broker | ConfigResourceType::BrokerLogger, Err(_)) => {
            return invalid(format!("Node id must be an integer, but it is: {name}"));
        }
        (ConfigResourceType::Broker | ConfigResourceType::BrokerLogger, Ok(id))
            if id != node_id =>
        {
            return invalid(format!(
                "Unexpected broker id, expected {node_id}, but received {name}"
            ));
        }
        _ => {}
    }
    Ok(ConfigResource { resource_type, name: name.to_owned() })
}

/// Makes the changes that can be made; `finish` gets one answer for each resource, in the order of
/// the request.
pub(super) fn alter(
    rooms: &Rooms,
    memory_bytes: usize,
    asked: Vec<(ResourceKey, Result<ConfigChange, ApiError>)>,
    validate_only: bool,
    finish: impl FnOnce(Vec<Result<(), ApiError>>) + Send + 'static,
) {
    let mut seen = HashSet::new();
    let keys = asked.iter().map(|(key, _)| key.clone());
    let twice: HashSet<_> = keys.filter(|key| !seen.insert(key.clone())).collect();
    let mut changes = Vec::new();
    let checked: Vec<_> = (asked.into_iter())
        .map(|(key, change)| {
            if twice.contains(&key) {
                let message = "Each resource must appear at most once.";
                return Err(ApiError::new(ErrorCode::InvalidRequest, message));
            }
            change.map(|change| changes.push(change))
        })
        .collect();
    let rules = Arc::new(TableRules::new(rooms.config()));
    let count = changes.len();
    let ask = |done| rooms.controller.alter_configs(changes, rules, validate_only, done);
    park(rooms, memory_bytes, NO_TIMEOUT_MS, ask, move |made| {
        let made: Vec<Result<(), ApiError>> = made.unwrap_or_else(|error| vec![Err(error); count]);
        let mut made = made.into_iter();
        let missing = || Err(ErrorCode::UnknownServerError.into());
        let answer =
            |one: Result<(), ApiError>| one.and_then(|()| made.next().unwrap_or_else(missing));
        finish(checked.into_iter().map(answer).collect());
    });
}
