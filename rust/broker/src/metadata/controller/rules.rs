//! The rules of the config table, as the controller asks for them.
//!
//! Source: Kafka's `ControllerConfigurationValidator` and `ConfigAdminManager`, their codes and
//! their words.

use super::super::error::ApiError;
use super::super::image::{BrokerImage, Configs, MetadataImage};
use super::super::records::{ConfigResource, ConfigResourceType};
use super::configs::ConfigRules;
use crate::config::{
    AlteredConfig, BrokerConfig, ConfigError, Kind, SubscriptionError, broker_key,
    check_broker_alteration, check_client_metrics, check_results, check_topic_alteration,
    check_topic_change, describe_topic, kept_key, list, topic_key,
};
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules of one broker. Altered values come from the image that a change is decided on, never
/// from an earlier look. A topic's configs and its broker's may change at the same time.
///
/// A change is judged for every broker that it reaches. The image tells what was altered for each,
/// and no broker knows what another one was started with: others count as started like this one.
#[derive(Clone, Debug)]
pub struct TableRules {
    broker: Arc<BrokerConfig>,
    /// What was worked out last. It takes about a millisecond for each broker, and one request may
    /// ask for thousands of topics while all other changes wait.
    known: Arc<Mutex<Option<Known>>>,
}

/// What is set in an image on all but topics, whose it is, and what is in force by it.
#[derive(Debug)]
struct Known {
    configs: Arc<BTreeMap<ConfigResource, Configs>>,
    brokers: Arc<BTreeMap<i32, BrokerImage>>,
    in_force: Arc<InForce>,
}

/// What is in force by an image.
#[derive(Debug)]
struct InForce {
    here: AlteredConfig,
    /// At the other brokers that have configs of their own.
    others: Vec<(i32, AlteredConfig)>,
}

impl TableRules {
    /// The rules of the broker that was started with this configuration.
    pub fn new(broker: Arc<BrokerConfig>) -> Self {
        Self { broker, known: Arc::default() }
    }

    /// The broker's configuration.
    pub fn broker(&self) -> &BrokerConfig {
        &self.broker
    }

    /// What is in force by `image`.
    fn in_force(&self, image: &MetadataImage) -> Arc<InForce> {
        let mut known = self.known.lock();
        if let Some(Known { configs, brokers, in_force }) = &*known
            && Arc::ptr_eq(configs, &image.configs)
            && Arc::ptr_eq(brokers, &image.brokers)
        {
            return Arc::clone(in_force);
        }
        let others = self.others(image).into_iter();
        let others = others.map(|id| (id, altered_at(&self.broker, image, id))).collect();
        let in_force = Arc::new(InForce { here: altered_config(&self.broker, image), others });
        let (configs, brokers) = (Arc::clone(&image.configs), Arc::clone(&image.brokers));
        *known = Some(Known { configs, brokers, in_force: Arc::clone(&in_force) });
        in_force
    }

    /// The other brokers that have configs of their own; of those with the same ones the first. A
    /// broker that was unregistered may have left some, which nothing obeys.
    fn others(&self, image: &MetadataImage) -> Vec<i32> {
        let own = |id: &i32| Some((image.configs_of(&ConfigResource::broker(*id))?, *id));
        let others = image.brokers.keys().filter(|id| **id != self.broker.node_id).rev();
        let first: BTreeMap<&Configs, i32> = others.filter_map(own).collect();
        first.into_values().collect()
    }
}

/// What is in force by `image` at the broker that was started with `broker`.
pub fn altered_config(broker: &BrokerConfig, image: &MetadataImage) -> AlteredConfig {
    altered_at(broker, image, broker.node_id)
}

/// What is in force by `image` at broker `id`, if it was started with `config`.
fn altered_at(config: &BrokerConfig, image: &MetadataImage, id: i32) -> AlteredConfig {
    let nothing = Configs::new();
    let of = |resource: &ConfigResource| image.configs_of(resource).unwrap_or(&nothing);
    config.with_dynamic(of(&ConfigResource::cluster()), of(&ConfigResource::broker(id)))
}

impl ConfigRules for TableRules {
    fn new_topic_configs(
        &self,
        image: &MetadataImage,
        asked: &[(String, Option<String>)],
    ) -> Result<Configs, ApiError> {
        let nulls: Vec<&str> = (asked.iter().filter(|(_, value)| value.is_none()))
            .map(|(key, _)| key.as_str())
            .collect();
        if !nulls.is_empty() {
            let message =
                format!("Null value not supported for topic configs: {}", nulls.join(","));
            return Err(ApiError::new(ErrorCode::InvalidConfig, message));
        }
        let set = asked.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        let configs: Configs = set.collect();
        if !configs.is_empty() {
            self.validate_topic(image, &Configs::new(), &configs)?;
        }
        Ok(configs)
    }

    fn validate(
        &self,
        image: &MetadataImage,
        resource: &ConfigResource,
        before: &Configs,
        after: &Configs,
    ) -> Result<(), ApiError> {
        match resource.resource_type {
            ConfigResourceType::Topic => self.validate_topic(image, before, after),
            ConfigResourceType::Broker => self.validate_broker(image, resource, before, after),
            ConfigResourceType::Group => refuse_keys("group", after),
            ConfigResourceType::ClientMetrics => {
                check_client_metrics(&resource.name, after).map_err(subscription_error)
            }
            ConfigResourceType::BrokerLogger => {
                let message = format!("Unknown resource type {}", resource.resource_type.code());
                Err(ApiError::new(ErrorCode::InvalidRequest, message))
            }
        }
    }

    fn list_default(
        &self,
        image: &MetadataImage,
        resource_type: ConfigResourceType,
        key: &str,
    ) -> Option<Vec<String>> {
        if resource_type == ConfigResourceType::Topic {
            topic_key(key).filter(|topic| topic.key.kind == Kind::List)?;
            let described = describe_topic(&self.in_force(image).here.config, &Configs::new());
            let value = described.into_iter().find(|entry| entry.name == key)?.value;
            return Some(list(&value.unwrap_or_default()));
        }
        // As in Kafka, whose controller does not know that some of their keys are lists.
        if resource_type == ConfigResourceType::ClientMetrics {
            return None;
        }
        let key = broker_key(key).or_else(|| kept_key(key)).filter(|key| key.kind == Kind::List)?;
        Some(list(&self.in_force(image).here.config.values.text(key).unwrap_or_default()))
    }
}

impl TableRules {
    /// What comes of a topic's configs at every broker: any one may have a replica of it some day.
    fn validate_topic(
        &self,
        image: &MetadataImage,
        before: &Configs,
        after: &Configs,
    ) -> Result<(), ApiError> {
        let now = self.in_force(image);
        check_topic_alteration(&now.here.config, after).map_err(topic_error)?;
        now.others.iter().try_for_each(|(id, there)| {
            check_topic_change(&there.config, before, after)
                .map_err(|error| topic_error(error.at_broker(*id)))
        })
    }

    /// Each key by itself, then what comes of it: for each broker that it is for, and for every
    /// topic.
    fn validate_broker(
        &self,
        image: &MetadataImage,
        resource: &ConfigResource,
        before: &Configs,
        after: &Configs,
    ) -> Result<(), ApiError> {
        let mut changes = BTreeMap::new();
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            changes.insert(key.clone(), None);
        }
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
            changes.insert(key.clone(), Some(value.clone()));
        }
        let refuse = |error| ApiError::new(ErrorCode::InvalidRequest, words(error, "broker"));
        let (here, for_all) = (self.broker.node_id, resource.name.is_empty());
        let judged = resource.name.parse().unwrap_or(here);
        let now = altered_at(&self.broker, image, judged);
        check_broker_alteration(&now.config, &changes, for_all).map_err(refuse)?;
        let mut next = image.clone();
        next.replace_configs(resource, after.clone());
        let topics = || image.topics.iter().map(|topic| (&*topic.name, &*topic.configs));
        check_results(&now, &altered_at(&self.broker, &next, judged), topics()).map_err(refuse)?;
        if !for_all {
            return Ok(());
        }
        self.in_force(image).others.iter().try_for_each(|(id, now)| {
            let next = altered_at(&self.broker, &next, *id);
            check_results(now, &next, topics()).map_err(|error| refuse(error.at_broker(*id)))
        })
    }
}

fn topic_error(error: ConfigError) -> ApiError {
    ApiError::new(ErrorCode::InvalidConfig, words(error, "topic"))
}

fn subscription_error(error: SubscriptionError) -> ApiError {
    match error {
        SubscriptionError::Request(words) => ApiError::new(ErrorCode::InvalidRequest, words),
        SubscriptionError::Config(words) => ApiError::new(ErrorCode::InvalidConfig, words),
    }
}

/// What Kafka says to a client; where the value came from is known to it.
fn words(error: ConfigError, kind: &str) -> String {
    match error {
        ConfigError::InvalidValue { message, .. } => message,
        ConfigError::UnknownKey { key, .. } => format!("Unknown {kind} config name: {key}"),
        other => other.to_string(),
    }
}

/// No key of such a resource is known here.
fn refuse_keys(kind: &str, after: &Configs) -> Result<(), ApiError> {
    match after.keys().next() {
        None => Ok(()),
        Some(key) => {
            let message = format!("Unknown {kind} config name: {key}");
            Err(ApiError::new(ErrorCode::InvalidConfig, message))
        }
    }
}

#[cfg(test)]
mod tests;
