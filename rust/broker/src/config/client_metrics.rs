//! Subscriptions of client metrics: their keys, and what they ask of which clients.
//!
//! A subscription is a set of configs under a name. It asks the clients that it matches to push
//! metrics with certain prefixes.
//! Source: Kafka's `ClientMetricsConfigs`, its keys, its checks and its sentences; KIP-714.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};

use super::describe::{Described, SynonymValue};
use super::key::DefaultValue::Text;
use super::key::Valid::{Any, NoneEmpty};
use super::key::{ConfigKey, Dynamic, Importance, Kind, keys};
use super::value::{Value, parse};
use super::values::ConfigSource;

/// How often a client pushes that no subscription asks for less, in milliseconds.
pub const DEFAULT_INTERVAL_MS: u32 = 300_000;

const INTERVALS_MS: std::ops::RangeInclusive<i64> = 100..=3_600_000;

/// Memory that a compiled pattern may take, in bytes.
const COMPILED_MAX_BYTES: usize = 1 << 20;

/// In alphabetical order.
const KEYS: &[ConfigKey] = keys! {
    Medium ClusterWide Int "interval.ms" = Text("300000"), Any,
        "Interval between two pushes of a client, 100 ms to 1 hour.";
    Medium ClusterWide List "match" = Text(""), NoneEmpty,
        "Clients that the subscription is for: attribute=pattern, comma-separated. Empty: all.";
    Medium ClusterWide List "metrics" = Text(""), NoneEmpty,
        "Prefixes of names of metrics, comma-separated; * for all metrics.";
};

/// What a subscription may look at to choose its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientAttribute {
    /// `client_id`
    Id,
    /// `client_instance_id`
    InstanceId,
    /// `client_software_name`
    SoftwareName,
    /// `client_software_version`
    SoftwareVersion,
    /// `client_source_address`
    SourceAddress,
    /// `client_source_port`
    SourcePort,
}

impl ClientAttribute {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "client_id" => Self::Id,
            "client_instance_id" => Self::InstanceId,
            "client_software_name" => Self::SoftwareName,
            "client_software_version" => Self::SoftwareVersion,
            "client_source_address" => Self::SourceAddress,
            "client_source_port" => Self::SourcePort,
            _ => return None,
        })
    }
}

/// Why configs are no subscription: what Kafka answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionError {
    /// `INVALID_REQUEST`, with these words.
    Request(String),
    /// `INVALID_CONFIG`, with these words.
    Config(String),
}

/// What a subscription asks of which clients.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// Prefixes of the metrics that it asks for; `*` is all metrics.
    pub metrics: Vec<String>,
    /// The time between two pushes, in milliseconds.
    pub interval_ms: u32,
    /// What a client must be: each pattern matches the whole of its attribute.
    patterns: BTreeMap<ClientAttribute, Regex>,
}

impl Subscription {
    /// The subscription that `configs` are. Keys that are not set have their defaults.
    ///
    /// # Errors
    /// An unknown key, a value that is not valid, or a pattern that is no regular expression.
    pub fn new(configs: &BTreeMap<String, String>) -> Result<Self, SubscriptionError> {
        let is_known = |name: &str| KEYS.iter().any(|key| key.name == name);
        if let Some(name) = configs.keys().find(|name| !is_known(name)) {
            let message = format!("Unknown client metrics configuration: {name}");
            return Err(SubscriptionError::Request(message));
        }
        let mut subscription = Self {
            metrics: Vec::new(),
            interval_ms: DEFAULT_INTERVAL_MS,
            patterns: BTreeMap::new(),
        };
        for key in KEYS {
            let Some(text) = configs.get(key.name) else { continue };
            match (key.name, parse(key, text).map_err(SubscriptionError::Config)?) {
                ("interval.ms", Value::Number(number)) => {
                    subscription.interval_ms = interval(number)?;
                }
                ("metrics", Value::List(metrics)) => subscription.metrics = metrics,
                ("match", Value::List(parts)) => subscription.patterns = patterns(&parts)?,
                _ => {}
            }
        }
        Ok(subscription)
    }

    /// Whether it is for the client with these attributes; one that is unknown never matches.
    pub fn wants<'a>(&self, attribute: impl Fn(ClientAttribute) -> Option<&'a str>) -> bool {
        let matches = |(of, pattern): (&ClientAttribute, &Regex)| {
            attribute(*of).is_some_and(|text| pattern.is_match(text.as_bytes()))
        };
        self.patterns.iter().all(matches)
    }
}

/// Whether `configs` may be those of a subscription of this name.
///
/// # Errors
/// Kafka's code and words for what is wrong.
pub fn check_client_metrics(
    name: &str,
    configs: &BTreeMap<String, String>,
) -> Result<(), SubscriptionError> {
    if name.is_empty() {
        let message = "Subscription name can't be empty".to_owned();
        return Err(SubscriptionError::Request(message));
    }
    Subscription::new(configs).map(drop)
}

/// Every key of a subscription that sets `configs`, in alphabetical order.
#[must_use]
pub fn describe_client_metrics(configs: &BTreeMap<String, String>) -> Vec<Described> {
    let entry = |key: &'static ConfigKey| {
        let told = |text: &str| parse(key, text).map_or_else(|_| text.into(), |v| v.to_string());
        let own = configs.get(key.name).map(|text| told(text));
        let source = match own {
            Some(_) => ConfigSource::DynamicClientMetrics,
            None => ConfigSource::Default,
        };
        // As in Kafka, a default is no synonym.
        let said = own.clone().map(|value| SynonymValue {
            name: key.name.into(),
            value: Some(value),
            source,
        });
        Described {
            name: key.name.into(),
            value: own.or_else(|| key.default.text()),
            read_only: false,
            source,
            sensitive: false,
            synonyms: said.into_iter().collect(),
            kind: Some(key.kind),
            documentation: Some(key.doc),
        }
    };
    KEYS.iter().map(entry).collect()
}

fn interval(number: i64) -> Result<u32, SubscriptionError> {
    match u32::try_from(number) {
        Ok(interval_ms) if INTERVALS_MS.contains(&number) => Ok(interval_ms),
        _ => Err(SubscriptionError::Request(format!(
            "Invalid value {number} for interval.ms, interval must be between 100 and 3600000 \
             (1 hour)"
        ))),
    }
}

fn patterns(parts: &[String]) -> Result<BTreeMap<ClientAttribute, Regex>, SubscriptionError> {
    let pattern = |part: &String| {
        let refuse =
            || SubscriptionError::Config(format!("Illegal client matching pattern: {part}"));
        // As Java splits: nothing comes after the last sign.
        let (name, pattern) = part.trim_end_matches('=').split_once('=').ok_or_else(refuse)?;
        let attribute = ClientAttribute::named(name.trim()).ok_or_else(refuse)?;
        if pattern.contains('=') {
            return Err(refuse());
        }
        Ok((attribute, whole(pattern.trim()).ok_or_else(refuse)?))
    };
    parts.iter().map(pattern).collect()
}

/// A pattern that matches whole texts, in time linear in the text; letters and digits are those of
/// ASCII. Java's look-around and references back would take longer, and are refused.
fn whole(pattern: &str) -> Option<Regex> {
    let compile = |pattern: &str| {
        RegexBuilder::new(pattern).unicode(false).size_limit(COMPILED_MAX_BYTES).build().ok()
    };
    // By itself first: `a)|(b` is no pattern, though it is one between brackets.
    compile(pattern)?;
    compile(&format!(r"\A(?:{pattern})\z"))
}

#[cfg(test)]
mod tests;
