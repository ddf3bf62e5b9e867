//! What DescribeConfigs tells: every key with its value, where it comes from, and what else was
//! said about it.
//!
//! Source: Kafka's `ConfigHelper.createTopicConfigEntry` and `createBrokerConfigEntry`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::key::{ConfigKey, Dynamic, Kind, Synonym, TopicKey};
use super::topic_values::TopicValues;
use super::value::parse;
use super::values::{ConfigSource, Setting};
use super::{broker_key, broker_keys, kept_key, topic_keys};

/// One thing that was said about a key, weaker than those before it in its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SynonymValue {
    /// The key it was said under: a topic's key may be set by a broker's.
    pub name: Cow<'static, str>,
    /// The value, of a broker's key as it was written; `None` is null, or a secret.
    pub value: Option<String>,
    /// Where it was said.
    pub source: ConfigSource,
}

/// One key as described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The key.
    pub name: Cow<'static, str>,
    /// Its value as it is understood; `None` is null, or a secret.
    pub value: Option<String>,
    /// The key cannot be altered while the broker runs.
    pub read_only: bool,
    /// Where its value comes from.
    pub source: ConfigSource,
    /// Its value is a secret and is not shown.
    pub sensitive: bool,
    /// Everything said about it, strongest first, itself included.
    pub synonyms: Vec<SynonymValue>,
    /// The type of its value; `None` for an unknown key.
    pub kind: Option<Kind>,
    /// What it means, if that is known.
    pub documentation: Option<&'static str>,
}

/// Every key of the broker, and those of no table that were altered, in alphabetical order.
#[must_use]
pub fn describe_broker(broker: &BrokerConfig) -> Vec<Described> {
    let known = broker_keys().map(|key| broker_entry(broker, key));
    let kept = broker.values.kept().map(|(name, settings)| kept_entry(name, settings));
    let mut described: Vec<_> = known.chain(kept).collect();
    described.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    described
}

/// Every key of a topic that sets `overrides` for itself, in alphabetical order.
#[must_use]
pub fn describe_topic(
    broker: &BrokerConfig,
    overrides: &BTreeMap<String, String>,
) -> Vec<Described> {
    let values = TopicValues::new(&broker.values, overrides);
    // As Kafka: an internal key is listed where it is set, as it is obeyed.
    let listed = |topic: &&'static TopicKey| {
        !topic.key.name.starts_with("internal.") || values.is_own(topic.key.name)
    };
    let listed = topic_keys().filter(listed);
    let mut described: Vec<_> = listed.map(|topic| topic_entry(broker, &values, topic)).collect();
    described.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    described
}

fn broker_entry(broker: &BrokerConfig, key: &'static ConfigKey) -> Described {
    let of_topics = topic_keys().find_map(|topic| {
        let place = topic.synonyms.iter().position(|synonym| synonym.name == key.name)?;
        Some(said_of_first(broker, &topic.synonyms[place..]))
    });
    let mut synonyms = of_topics.unwrap_or_else(|| said(broker, key));
    // Both names of the node's id tell it, whichever it was set by.
    if matches!(key.name, "broker.id" | "node.id") {
        let source = ConfigSource::StaticBroker;
        synonyms.retain(|synonym| key.name == "broker.id" && synonym.source != source);
        let value = Some(broker.node_id.to_string());
        synonyms.insert(0, SynonymValue { name: key.name.into(), value, source });
    }
    let first = synonyms.first();
    Described {
        name: key.name.into(),
        value: first.and_then(|synonym| Some(told(key, synonym.value.as_deref()?))),
        read_only: key.dynamic == Dynamic::ReadOnly,
        source: first.map_or(ConfigSource::Default, |synonym| synonym.source),
        sensitive: key.kind == Kind::Password,
        synonyms,
        kind: Some(key.kind),
        documentation: Some(key.doc),
    }
}

/// The value of an unknown key may be a secret.
fn kept_entry(name: &str, settings: &[Setting]) -> Described {
    let known = kept_key(name);
    let sensitive = known.is_none_or(|key| key.kind == Kind::Password);
    let said = settings.iter().rev().map(|setting| SynonymValue {
        name: name.to_owned().into(),
        value: (!sensitive).then(|| setting.value.clone()),
        source: setting.source,
    });
    let synonyms: Vec<_> = said.collect();
    let first = synonyms.first();
    Described {
        name: name.to_owned().into(),
        value: known.and_then(|key| Some(told(key, first?.value.as_deref()?))),
        read_only: known.is_none(),
        source: first.map_or(ConfigSource::Default, |synonym| synonym.source),
        sensitive,
        synonyms,
        kind: known.map(|key| key.kind),
        documentation: known.map(|key| key.doc),
    }
}

/// The value is the one that the topic's logs obey.
fn topic_entry(broker: &BrokerConfig, values: &TopicValues, topic: &'static TopicKey) -> Described {
    let mut synonyms = Vec::new();
    let value = values.value(topic.key.name).map(ToString::to_string);
    if values.is_own(topic.key.name) {
        let (value, source) = (value.clone(), ConfigSource::DynamicTopic);
        synonyms.push(SynonymValue { name: topic.key.name.into(), value, source });
    }
    synonyms.extend(said_of_first(broker, topic.synonyms));
    Described {
        name: topic.key.name.into(),
        value,
        read_only: false,
        source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
        sensitive: topic.key.kind == Kind::Password,
        synonyms,
        kind: Some(topic.key.kind),
        documentation: Some(topic.key.doc),
    }
}

/// A value as it is understood: blanks, capitals and leading zeros of who wrote it are gone.
fn told(key: &ConfigKey, text: &str) -> String {
    parse(key, text).map_or_else(|_| text.to_owned(), |value| value.to_string())
}

/// The settings of the first of these keys, followed by those of the other keys. As in Kafka, the
/// list begins with the strongest setting of the first key.
fn said_of_first(broker: &BrokerConfig, keys: &[Synonym]) -> Vec<SynonymValue> {
    let all = keys.iter().filter_map(|synonym| broker_key(synonym.name));
    let mut said: Vec<_> = all.flat_map(|key| said(broker, key)).collect();
    said.sort_by_key(|synonym| Reverse(synonym.source));
    let first = keys.first().map(|synonym| synonym.name);
    said.into_iter().skip_while(|synonym| Some(synonym.name.as_ref()) != first).collect()
}

/// Everything said about a broker key, strongest first, its default last.
fn said(broker: &BrokerConfig, key: &'static ConfigKey) -> Vec<SynonymValue> {
    let shown = |value: String| (key.kind != Kind::Password).then_some(value);
    let settings = broker.values.settings(key.name).iter().rev();
    let mut said: Vec<_> = settings
        .map(|setting| SynonymValue {
            name: key.name.into(),
            value: shown(setting.value.clone()),
            source: setting.source,
        })
        .collect();
    if let Some(default) = key.default.text() {
        let source = ConfigSource::Default;
        said.push(SynonymValue { name: key.name.into(), value: shown(default), source });
    }
    said
}
