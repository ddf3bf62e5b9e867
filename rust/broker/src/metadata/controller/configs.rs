//! Changing configs at run time.
//!
//! What a key means, and which values it may have, is the config table's business; it comes in as
//! [`ConfigRules`].
//! Source: Kafka's `ConfigurationControlManager`.

use super::super::error::ApiError;
use super::super::image::{Configs, MetadataImage};
use super::super::records::{ConfigResource, ConfigResourceType, MetadataRecord};
use super::Decision;
use super::elections::Elections;
use super::names::invalid_topic_name;
use kafkalite_protocol::ErrorCode;
use std::collections::HashSet;

/// The longest value a config may have, in bytes; as in Kafka.
const MAX_VALUE_LEN: usize = i16::MAX as usize;

/// What is done to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// Give it this value.
    Set(String),
    /// Go back to the default.
    Delete,
    /// Add these to the list that it is.
    Append(String),
    /// Take these out of the list that it is.
    Subtract(String),
}

/// What is done to one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The resource.
    pub resource: ConfigResource,
    /// Forget everything set before (AlterConfigs), or keep what is not named
    /// (IncrementalAlterConfigs).
    pub replace: bool,
    /// Key -> what is done to it.
    pub operations: Vec<(String, ConfigOperation)>,
}

/// What the config table knows of keys and values.
pub trait ConfigRules: Send + Sync {
    /// The configs that a new topic gets from a request.
    ///
    /// # Errors
    /// `INVALID_CONFIG`: an unknown key, or a value it cannot have.
    fn new_topic_configs(
        &self,
        image: &MetadataImage,
        asked: &[(String, Option<String>)],
    ) -> Result<Configs, ApiError>;

    /// Whether a resource of `image` may have `after` as its configs, having had `before`, whatever
    /// depends on them.
    ///
    /// # Errors
    /// `INVALID_CONFIG`, `INVALID_REQUEST`: an unknown key, a value it cannot have, a key that
    /// needs a restart.
    fn validate(
        &self,
        image: &MetadataImage,
        resource: &ConfigResource,
        before: &Configs,
        after: &Configs,
    ) -> Result<(), ApiError>;

    /// The elements of a list-valued key where nothing was set; `None` if the key is no list.
    fn list_default(
        &self,
        image: &MetadataImage,
        resource_type: ConfigResourceType,
        key: &str,
    ) -> Option<Vec<String>>;
}

/// Rules that let everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl ConfigRules for NoRules {
    fn new_topic_configs(
        &self,
        _: &MetadataImage,
        asked: &[(String, Option<String>)],
    ) -> Result<Configs, ApiError> {
        let set = asked.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        Ok(set.collect())
    }

    fn validate(
        &self,
        _: &MetadataImage,
        _: &ConfigResource,
        _: &Configs,
        _: &Configs,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    fn list_default(
        &self,
        _: &MetadataImage,
        _: ConfigResourceType,
        _: &str,
    ) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

/// Decides which of `changes` are made, each on top of those before it.
pub fn alter_configs(
    image: &MetadataImage,
    changes: &[ConfigChange],
    rules: &dyn ConfigRules,
) -> Decision<()> {
    let mut records = Vec::new();
    let mut image = image.clone();
    let answers = changes.iter().map(|change| {
        let after = altered(&image, change, rules)?;
        let before = configs_of(&image, &change.resource);
        records.extend(difference(&change.resource, &before, &after));
        image.replace_configs(&change.resource, after);
        Ok(())
    });
    let answers = answers.collect();
    if records.iter().any(sets_min_insync_replicas) {
        let is_alive = |id| image.is_alive(id);
        records.extend(Elections { image: &image, is_alive: &is_alive }.without_eligible());
    }
    (records, answers)
}

fn sets_min_insync_replicas(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::SetConfig(config) if config.name == MIN_INSYNC_REPLICAS)
}

/// What is set on a resource; nothing on a topic that is not there.
fn configs_of(image: &MetadataImage, resource: &ConfigResource) -> Configs {
    match resource.resource_type {
        ConfigResourceType::Topic => {
            let topic = image.topic(&resource.name);
            topic.map(|topic| (*topic.configs).clone()).unwrap_or_default()
        }
        _ => image.configs_of(resource).cloned().unwrap_or_default(),
    }
}

/// The configs of a resource after `change`.
fn altered(
    image: &MetadataImage,
    change: &ConfigChange,
    rules: &dyn ConfigRules,
) -> Result<Configs, ApiError> {
    let resource = &change.resource;
    let before = configs_of(image, resource);
    let mut after = if change.replace { Configs::new() } else { before.clone() };
    for (key, operation) in &change.operations {
        let list_default = || rules.list_default(image, resource.resource_type, key);
        apply(&mut after, key, operation, list_default)?;
    }
    if let Some(key) = after.iter().find(|(_, value)| value.len() > MAX_VALUE_LEN) {
        let message = format!(
            "The configuration value of {} cannot be added because it exceeds the maximum value \
             size of {MAX_VALUE_LEN} bytes.",
            key.0
        );
        return Err(ApiError::new(ErrorCode::InvalidConfig, message));
    }
    // As Kafka: whether a key is a list was asked before whose it would be.
    expect_name(resource)?;
    rules.validate(image, resource, &before, &after)?;
    keep_min_insync_replicas(change, &before, &after)?;
    // As in Kafka: errors of keys and values are reported for a missing topic too.
    if resource.resource_type == ConfigResourceType::Topic && image.topic(&resource.name).is_none()
    {
        let message = format!("The topic '{}' does not exist.", resource.name);
        return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, message));
    }
    Ok(after)
}

/// The key that eligible leader replicas rest upon (KIP-966). As in Kafka the cluster stores it at
/// its first start, and no broker has one of its own.
pub(super) const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// As Kafka with eligible leader replicas: the key is altered for the cluster only, and never taken
/// away from it.
fn keep_min_insync_replicas(
    change: &ConfigChange,
    before: &Configs,
    after: &Configs,
) -> Result<(), ApiError> {
    let ConfigResource { resource_type: ConfigResourceType::Broker, name } = &change.resource
    else {
        return Ok(());
    };
    let is_named = change.operations.iter().any(|(key, _)| key == MIN_INSYNC_REPLICAS);
    let touched = is_named || before.get(MIN_INSYNC_REPLICAS) != after.get(MIN_INSYNC_REPLICAS);
    let message = match name.as_str() {
        "" if touched && !after.contains_key(MIN_INSYNC_REPLICAS) => {
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        }
        "" => return Ok(()),
        _ if touched => "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        _ => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::InvalidConfig, message))
}

/// The records that give a cluster its min.insync.replicas: what its broker had altered for itself,
/// or else `configured`. None if it has one.
pub(super) fn safety_records(
    image: &MetadataImage,
    broker_id: i32,
    configured: i32,
) -> Vec<MetadataRecord> {
    let (cluster, broker) = (ConfigResource::cluster(), ConfigResource::broker(broker_id));
    let set = |resource: &ConfigResource| image.configs_of(resource)?.get(MIN_INSYNC_REPLICAS);
    let record = |resource: &ConfigResource, value: Option<&str>| {
        MetadataRecord::set_config(resource, MIN_INSYNC_REPLICAS, value)
    };
    let mut records = Vec::new();
    let own = set(&broker);
    if own.is_some() || set(&cluster).is_none() {
        let value = own.cloned().unwrap_or_else(|| configured.to_string());
        records.push(record(&cluster, Some(&value)));
    }
    if own.is_some() {
        records.push(record(&broker, None));
    }
    records
}

/// Topics and groups have names, and no configs that hold for all of them.
fn expect_name(resource: &ConfigResource) -> Result<(), ApiError> {
    let refuse = |code: ErrorCode, message: String| Err(ApiError::new(code, message));
    let default = |kind: &str| format!("Default {kind} resources are not allowed.");
    match (resource.resource_type, resource.name.as_str()) {
        (ConfigResourceType::Topic, "") => refuse(ErrorCode::InvalidRequest, default("topic")),
        (ConfigResourceType::Group, "") => refuse(ErrorCode::InvalidRequest, default("group")),
        (ConfigResourceType::Topic, name) => match invalid_topic_name(name) {
            Some(reason) => {
                let message = format!("Topic name is invalid: {reason}");
                refuse(ErrorCode::InvalidTopicException, message)
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn apply(
    configs: &mut Configs,
    key: &str,
    operation: &ConfigOperation,
    list_default: impl Fn() -> Option<Vec<String>>,
) -> Result<(), ApiError> {
    let (value, add) = match operation {
        ConfigOperation::Set(value) => {
            configs.insert(key.to_owned(), value.clone());
            return Ok(());
        }
        ConfigOperation::Delete => {
            configs.remove(key);
            return Ok(());
        }
        ConfigOperation::Append(value) => (value, true),
        ConfigOperation::Subtract(value) => (value, false),
    };
    let Some(default) = list_default() else {
        let word = if add { "APPEND" } else { "SUBTRACT" };
        let message = format!("Can't {word} to key {key} because its type is not LIST.");
        return Err(ApiError::new(ErrorCode::InvalidConfig, message));
    };
    let mut list = match configs.get(key) {
        Some(value) if value.is_empty() => Vec::new(),
        Some(value) => elements(value).collect(),
        None => default,
    };
    // A value may have 16,000 elements: each is looked up, and none compared with all others.
    if add {
        let mut present: HashSet<String> = list.iter().cloned().collect();
        list.extend(elements(value).filter(|element| present.insert(element.clone())));
    } else {
        let gone: HashSet<String> = elements(value).collect();
        list.retain(|element| !gone.contains(element));
    }
    configs.insert(key.to_owned(), list.join(","));
    Ok(())
}

/// A list-valued config's elements, as they were written: an empty one is for the rules to refuse.
/// As in Java, none comes after the last comma.
fn elements(value: &str) -> impl Iterator<Item = String> {
    value.strip_suffix(',').unwrap_or(value).split(',').map(str::to_owned)
}

/// The records that make `before` into `after`.
fn difference(resource: &ConfigResource, before: &Configs, after: &Configs) -> Vec<MetadataRecord> {
    let record = |name: &String, value: Option<&String>| {
        MetadataRecord::set_config(resource, name, value.map(String::as_str))
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| record(key, None));
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    gone.chain(set.map(|(key, value)| record(key, Some(value)))).collect()
}
