//! DescribeConfigs: every key of a topic or a broker, its value, and where that comes from.
//!
//! Groups have no keys here until their APIs are served. A broker's one logger tells its level.
//! Source: Kafka's `ConfigHelper`, its error codes and its words.

use super::{Call, Rooms};
use crate::config::{
    BrokerConfig, ConfigSource, Described, Kind, describe_broker, describe_client_metrics,
    describe_topic,
};
use crate::metadata::controller::invalid_topic_name;
use crate::metadata::image::Configs;
use crate::metadata::{ApiError, ConfigResource, ConfigResourceType, MetadataImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use std::collections::HashSet;

/// The number of `DYNAMIC_BROKER_LOGGER_CONFIG` on the wire.
const DYNAMIC_BROKER_LOGGER: i8 = 6;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeConfigsRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    let config = rooms.config();
    let mut types = request.resources.iter().map(|resource| resource.resource_type);
    // As Kafka: a resource of no known type spoils the whole request.
    let unknown = types.find(|code| ConfigResourceType::from_code(*code).is_none());
    let describe = |resource: &DescribeConfigsResource| {
        let described = match unknown {
            None => configs(&config, &image, resource),
            Some(code) => {
                let message = format!("Unknown resource type {code}");
                Err(ApiError::new(ErrorCode::InvalidRequest, message))
            }
        };
        let error = described.as_ref().err().cloned();
        // No list of keys asks for all, and so does an empty one.
        let keys = resource.configuration_keys.iter().flatten();
        let keys: HashSet<&str> = keys.map(String::as_str).collect();
        let entries = described.unwrap_or_default().into_iter();
        let entries = entries.filter(|entry| keys.is_empty() || keys.contains(&*entry.name));
        let told = entries.map(|mut entry| {
            if !request.include_synonyms {
                entry.synonyms.clear();
            }
            if !request.include_documentation {
                entry.documentation = None;
            }
            entry
        });
        DescribeConfigsResult {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: Some(error.and_then(|error| error.message).unwrap_or_default()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs: told.collect(),
        }
    };
    let mut told = HashSet::new();
    let once = request.resources.iter().filter(|resource| told.insert(identity(resource)));
    let once: Vec<_> = once.collect();
    reply.send_each(&DescribeConfigsResponse::default(), once.into_iter().map(describe));
}

/// The identity of a resource, whatever its spelling. A resource that is named a million times is
/// described once, because its answer is much longer than its name.
fn identity(resource: &DescribeConfigsResource) -> (i8, Result<i32, &str>) {
    let name = resource.resource_name.as_str();
    let is_broker = matches!(
        ConfigResourceType::from_code(resource.resource_type),
        Some(ConfigResourceType::Broker | ConfigResourceType::BrokerLogger)
    );
    let id = if is_broker { name.parse::<i32>().map_err(|_| name) } else { Err(name) };
    (resource.resource_type, id)
}

fn configs(
    config: &BrokerConfig,
    image: &MetadataImage,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
    let name = resource.resource_name.as_str();
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    match ConfigResourceType::from_code(resource.resource_type) {
        Some(ConfigResourceType::Topic) => of_topic(config, image, name),
        Some(ConfigResourceType::Broker) if name.is_empty() => Ok(of_cluster(config, image)),
        Some(ConfigResourceType::Broker) => {
            expect_broker(config.node_id, name, " or empty string,")?;
            Ok(of_broker(config, image))
        }
        Some(ConfigResourceType::BrokerLogger) if name.is_empty() => {
            invalid("Broker id must not be empty".to_owned())
        }
        Some(ConfigResourceType::BrokerLogger) => {
            expect_broker(config.node_id, name, "")?;
            Ok(vec![root_logger()])
        }
        Some(ConfigResourceType::Group) if name.is_empty() => {
            invalid("Group name must not be empty".to_owned())
        }
        Some(ConfigResourceType::ClientMetrics) if name.is_empty() => {
            invalid("Client metrics subscription name must not be empty".to_owned())
        }
        // A name without configs has the defaults, as in Kafka.
        Some(ConfigResourceType::ClientMetrics) => {
            let resource = ConfigResource::client_metrics(name);
            let configs = image.configs_of(&resource).cloned().unwrap_or_default();
            Ok(describe_client_metrics(&configs).into_iter().map(entry).collect())
        }
        Some(ConfigResourceType::Group) => Ok(Vec::new()),
        None => Err(ErrorCode::InvalidRequest.into()),
    }
}

fn of_topic(
    config: &BrokerConfig,
    image: &MetadataImage,
    name: &str,
) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
    if let Some(reason) = invalid_topic_name(name) {
        let message = format!("Topic name is invalid: {reason}");
        return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
    }
    let topic = image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(describe_topic(config, &topic.configs).into_iter().map(entry).collect())
}

/// All of this broker's keys. Its addresses are those that clients are sent to. The configured ones
/// may have port 0, or no address at all.
fn of_broker(config: &BrokerConfig, image: &MetadataImage) -> Vec<DescribeConfigsResourceResult> {
    let mut entries: Vec<_> = describe_broker(config).into_iter().map(entry).collect();
    let registered = image.brokers.get(&config.node_id).map(|broker| &broker.listeners[..]);
    let told = registered.unwrap_or_default().iter();
    let told = told.map(|one| format!("{}://{}", one.name, host_port(&one.host, one.port)));
    let told = told.collect::<Vec<_>>().join(",");
    let is_asked = |entry: &&mut DescribeConfigsResourceResult| match entry.name.as_str() {
        "advertised.listeners" => true,
        "listeners" => config.listeners.iter().any(|listener| listener.port == 0),
        _ => false,
    };
    for entry in entries.iter_mut().filter(is_asked).filter(|_| !told.is_empty()) {
        entry.value = Some(told.clone());
        entry.config_source = ConfigSource::StaticBroker.code();
        entry.synonyms.retain(|synonym| synonym.source != entry.config_source);
        let synonym = DescribeConfigsSynonym {
            name: entry.name.clone(),
            value: entry.value.clone(),
            source: entry.config_source,
        };
        entry.synonyms.insert(0, synonym);
    }
    entries
}

/// An IPv6 address stands in brackets before its port.
fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What was altered for all brokers, as it was written, and nothing else: the defaults are each
/// broker's own.
fn of_cluster(config: &BrokerConfig, image: &MetadataImage) -> Vec<DescribeConfigsResourceResult> {
    let Some(for_all) = image.configs_of(&ConfigResource::cluster()) else {
        return Vec::new();
    };
    let config = config.with_dynamic(for_all, &Configs::new()).config;
    let altered = ConfigSource::DynamicDefaultBroker;
    let entries = describe_broker(&config).into_iter();
    let entries = entries.filter(|described| described.source == altered).map(entry);
    entries
        .map(|mut entry| {
            entry.synonyms.retain(|synonym| synonym.source == altered.code());
            entry.value = entry.synonyms.first().and_then(|synonym| synonym.value.clone());
            entry
        })
        .collect()
}

/// Only this broker's own configs can be described; clients ask each broker for its own.
fn expect_broker(node_id: i32, name: &str, or: &str) -> Result<(), ApiError> {
    let message = match name.parse::<i32>() {
        Ok(id) if id == node_id => return Ok(()),
        Ok(id) => format!("Unexpected broker id, expected {node_id}{or} but received {id}"),
        Err(_) => format!("Broker id must be an integer, but it is: {name}"),
    };
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

fn entry(described: Described) -> DescribeConfigsResourceResult {
    let synonyms = described.synonyms.into_iter().map(|synonym| DescribeConfigsSynonym {
        name: synonym.name.into_owned(),
        value: synonym.value,
        source: synonym.source.code(),
    });
    DescribeConfigsResourceResult {
        name: described.name.into_owned(),
        value: described.value,
        read_only: described.read_only,
        config_source: described.source.code(),
        is_sensitive: described.sensitive,
        synonyms: synonyms.collect(),
        config_type: described.kind.map_or(0, Kind::code),
        documentation: described.documentation.map(str::to_owned),
    }
}

/// All of the broker's log lines have one level, which is set when it is started.
fn root_logger() -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult {
        name: "root".to_owned(),
        value: Some(tracing::level_filters::LevelFilter::current().to_string().to_uppercase()),
        read_only: true,
        config_source: DYNAMIC_BROKER_LOGGER,
        documentation: Some(String::new()),
        ..DescribeConfigsResourceResult::default()
    }
}
