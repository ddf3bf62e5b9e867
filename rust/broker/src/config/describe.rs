//! What DescribeConfigs tells: every key with its value, where it comes from, and what else was
//! said about it.
//!
//! Source: Kafka's `ConfigHelper.createTopicConfigEntry` and `createBrokerConfigEntry`.

use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::key::{ConfigKey, Dynamic, Kind, TopicKey};
use super::topic_config::inherited;
use super::values::ConfigSource;
use super::{broker_key, broker_keys, topic_keys};

/// One thing that was said about a key, weaker than those before it in its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SynonymValue {
    /// The key it was said under: a topic's key may be set by a broker's.
    pub name: &'static str,
    /// The value; `None` is null, or a secret.
    pub value: Option<String>,
    /// Where it was said.
    pub source: ConfigSource,
}

/// One key as described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The key.
    pub name: &'static str,
    /// Its value; `None` is null, or a secret.
    pub value: Option<String>,
    /// Nobody may alter it while the broker runs.
    pub read_only: bool,
    /// Where its value comes from.
    pub source: ConfigSource,
    /// Its value is a secret and is not shown.
    pub sensitive: bool,
    /// Everything said about it, strongest first, itself included.
    pub synonyms: Vec<SynonymValue>,
    /// The type of its value.
    pub kind: Kind,
    /// What it means.
    pub documentation: &'static str,
}

impl Described {
    /// Nobody set it: versions of DescribeConfigs before 1 ask so.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.source == ConfigSource::Default
    }
}

/// Every key of the broker, in alphabetical order.
#[must_use]
pub fn describe_broker(broker: &BrokerConfig) -> Vec<Described> {
    let mut described: Vec<_> = broker_keys().map(|key| broker_entry(broker, key)).collect();
    described.sort_unstable_by_key(|entry| entry.name);
    described
}

/// Every key of a topic that sets `overrides` for itself, in alphabetical order.
#[must_use]
pub fn describe_topic(
    broker: &BrokerConfig,
    overrides: &BTreeMap<String, String>,
) -> Vec<Described> {
    let listed = topic_keys().filter(|topic| !topic.key.name.starts_with("internal."));
    let mut described: Vec<_> = listed.map(|topic| topic_entry(broker, overrides, topic)).collect();
    described.sort_unstable_by_key(|entry| entry.name);
    described
}

fn broker_entry(broker: &BrokerConfig, key: &'static ConfigKey) -> Described {
    let synonyms = said(broker, key);
    let first = synonyms.first();
    Described {
        name: key.name,
        value: first.and_then(|synonym| synonym.value.clone()),
        read_only: key.dynamic == Dynamic::ReadOnly,
        source: first.map_or(ConfigSource::Default, |synonym| synonym.source),
        sensitive: key.kind == Kind::Password,
        synonyms,
        kind: key.kind,
        documentation: key.doc,
    }
}

fn topic_entry(
    broker: &BrokerConfig,
    overrides: &BTreeMap<String, String>,
    topic: &'static TopicKey,
) -> Described {
    let mut synonyms = Vec::new();
    let own = overrides.get(topic.key.name).map(|text| match topic.key.kind {
        Kind::Boolean => text.trim().to_ascii_lowercase(),
        _ => text.trim().to_owned(),
    });
    if let Some(value) = own.clone() {
        let source = ConfigSource::DynamicTopic;
        synonyms.push(SynonymValue { name: topic.key.name, value: Some(value), source });
    }
    let inheritance = topic.synonyms.iter().filter_map(|synonym| broker_key(synonym.name));
    // Of the keys behind the first one Kafka tells what was set, and not their defaults.
    let told = |(place, key)| {
        let said = said(broker, key).into_iter();
        said.filter(move |synonym| place == 0 || synonym.source != ConfigSource::Default)
    };
    synonyms.extend(inheritance.enumerate().flat_map(told));
    Described {
        name: topic.key.name,
        value: own.or_else(|| inherited(broker, topic)),
        read_only: false,
        source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
        sensitive: topic.key.kind == Kind::Password,
        synonyms,
        kind: topic.key.kind,
        documentation: topic.key.doc,
    }
}

/// Everything said about a broker key, strongest first, its default last.
fn said(broker: &BrokerConfig, key: &'static ConfigKey) -> Vec<SynonymValue> {
    let shown = |value: String| (key.kind != Kind::Password).then_some(value);
    let settings = broker.values.settings(key.name).iter().rev();
    let mut said: Vec<_> = settings
        .map(|setting| SynonymValue {
            name: key.name,
            value: shown(setting.value.clone()),
            source: setting.source,
        })
        .collect();
    if let Some(default) = key.default.text() {
        let source = ConfigSource::Default;
        said.push(SynonymValue { name: key.name, value: shown(default), source });
    }
    said
}
