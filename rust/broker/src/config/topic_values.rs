//! What each key of a topic is worth: its own value, the broker's, or the table's.
//!
//! This is the one place that combines them. Logs obey its values, DescribeConfigs tells them, and
//! an alteration is refused if it adds a problem here. It never fails: a value that does not hold
//! gives way to the next weaker one, its key alone, and the problem is reported. So a topic never
//! loses the rest of its configuration, whatever a metadata log or a new static value holds.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ConfigError;
use super::key::{ConfigKey, TopicKey};
use super::value::{Value, parse};
use super::values::BrokerValues;
use super::{broker_key, nearest, topic_key, topic_keys};

const MIN_LAG: &str = "min.compaction.lag.ms";
const MAX_LAG: &str = "max.compaction.lag.ms";

/// The values of a topic's keys, and what is wrong with its own.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicValues {
    values: BTreeMap<&'static str, Value>,
    /// Keys whose own value holds.
    own: BTreeSet<&'static str>,
    problems: Vec<ConfigError>,
}

impl TopicValues {
    /// The values of a topic that sets `overrides` (keys with dots) over a broker's `values`.
    ///
    /// Where min.compaction.lag.ms is above max.compaction.lag.ms the smaller bound gives way: no
    /// record is compacted earlier than the topic or its broker asks for.
    #[must_use]
    pub fn new(broker: &BrokerValues, overrides: &BTreeMap<String, String>) -> Self {
        let mut found =
            Self { values: BTreeMap::new(), own: BTreeSet::new(), problems: Vec::new() };
        for (name, text) in overrides {
            let Some(topic) = topic_key(name) else {
                found.problems.push(unknown(name));
                continue;
            };
            match parse(&topic.key, text) {
                Ok(value) => {
                    found.values.insert(topic.key.name, value);
                    found.own.insert(topic.key.name);
                }
                Err(message) => found.problems.push(invalid(message)),
            }
        }
        for topic in topic_keys() {
            let name = topic.key.name;
            if !found.own.contains(name)
                && let Some(text) = inherited(broker, topic)
            {
                // A broker's configuration is made of values that topics can have.
                found.values.extend(parse(&topic.key, &text).ok().map(|value| (name, value)));
            }
        }
        found.settle_lags();
        found.refuse_tiers();
        found
    }

    /// The value of `name` that holds; `None` is null.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Whether the topic's own value of `name` holds.
    #[must_use]
    pub fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// What is wrong with the overrides, in Kafka's words; empty if every one holds.
    #[must_use]
    pub fn problems(&self) -> &[ConfigError] {
        &self.problems
    }

    fn settle_lags(&mut self) {
        let lags = (self.values.get(MIN_LAG), self.values.get(MAX_LAG));
        let (Some(Value::Number(min)), Some(Value::Number(max))) = lags else { return };
        let (min, max) = (*min, *max);
        if min > max {
            self.problems.push(invalid(format!(
                "conflict topic config setting {MIN_LAG} ({min}) > {MAX_LAG} ({max})"
            )));
            self.values.insert(MAX_LAG, Value::Number(min));
        }
    }

    fn refuse_tiers(&mut self) {
        const TIERED: &str = "remote.storage.enable";
        if self.values.get(TIERED) == Some(&Value::Boolean(true)) {
            self.problems.push(invalid(
                "Tiered Storage functionality is disabled in the broker. \
                 Topic cannot be configured with remote log storage."
                    .to_owned(),
            ));
            self.values.insert(TIERED, Value::Boolean(false));
            self.own.remove(TIERED);
        }
    }
}

/// What a broker's own keys make of `topic` where a topic says nothing, in the topic key's unit;
/// `None` is null.
#[must_use]
pub fn inherited(broker: &BrokerValues, topic: &TopicKey) -> Option<String> {
    match inherited_from(broker, topic) {
        Some((_, text)) => Some(text),
        None => topic.key.default.text(),
    }
}

/// The broker's key that decides about `topic`, and the value in the topic key's unit.
pub(super) fn inherited_from(
    broker: &BrokerValues,
    topic: &TopicKey,
) -> Option<(&'static ConfigKey, String)> {
    topic.synonyms.iter().find_map(|synonym| {
        let key = broker_key(synonym.name).expect("synonyms stand in the table; a test says so");
        Some((key, converted(&broker.text(key)?, synonym.factor)))
    })
}

/// `text` in a unit `factor` times smaller. Negative numbers mean "no bound" in every unit.
fn converted(text: &str, factor: i64) -> String {
    match text.trim().parse::<i64>() {
        Ok(number) if factor != 1 && number >= 0 => number.saturating_mul(factor).to_string(),
        Ok(number) if factor != 1 => number.max(-1).to_string(),
        _ => text.to_owned(),
    }
}

fn invalid(message: String) -> ConfigError {
    ConfigError::InvalidValue { message, origin: "altered".to_owned() }
}

fn unknown(name: &str) -> ConfigError {
    let suggestion = nearest(name, topic_keys().map(|topic| topic.key.name));
    ConfigError::UnknownKey { key: name.to_owned(), origin: "altered".to_owned(), suggestion }
}
