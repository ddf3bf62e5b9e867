//! Whether an alteration may be made: which keys, which values, which together.
//!
//! Source: Kafka's `LogConfig.validate` and `DynamicBrokerConfig.validate`, for the rules and the
//! sentences; an alteration that fails is answered with InvalidConfig and such a sentence.

use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::error::ConfigError;
use super::key::{ConfigKey, Dynamic};
use super::topic_config::inherited;
use super::value::{Value, parse};
use super::{broker_key, kafka_keys, kept_key, nearest, topic_key, topic_keys};

/// May a topic of `broker` have just these `overrides`? (Keys with dots; what is not named is
/// inherited.)
///
/// # Errors
/// [`ConfigError::UnknownKey`] or [`ConfigError::InvalidValue`].
pub fn check_topic_alteration(
    broker: &BrokerConfig,
    overrides: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    for (name, text) in overrides {
        let Some(topic) = topic_key(name) else {
            let names = topic_keys().map(|topic| topic.key.name);
            return Err(unknown(name, nearest(name, names)));
        };
        parse(&topic.key, text).map_err(invalid)?;
    }
    let number = |name: &str| {
        let topic = topic_key(name)?;
        let own = overrides.get(name).cloned();
        own.or_else(|| inherited(broker, topic))?.trim().parse::<i64>().ok()
    };
    let lags = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"));
    if let (Some(min), Some(max)) = lags
        && min > max
    {
        return Err(invalid(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > \
             max.compaction.lag.ms ({max})"
        )));
    }
    let tiered = overrides.get("remote.storage.enable");
    if tiered.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Err(invalid(
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Threads that Kafka lets double or halve in one step.
const THREADS: &[&str] = &[
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

/// May `changes` (keys with dots) be made to this broker, or with `for_all` to all of them, while
/// it runs? `None` takes an earlier alteration back. A key that nobody knows may be: Kafka keeps it
/// for plug-ins.
///
/// # Errors
/// [`ConfigError::InvalidValue`]
pub fn check_broker_alteration(
    broker: &BrokerConfig,
    changes: &BTreeMap<String, Option<String>>,
    for_all: bool,
) -> Result<(), ConfigError> {
    let named = |is: &dyn Fn(&str) -> bool| {
        let names: Vec<&str> = changes.keys().map(String::as_str).filter(|name| is(name)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = named(&|name| dynamic(name) == Dynamic::ReadOnly) {
        return Err(invalid(format!("Cannot update these configs dynamically: [{names}]")));
    }
    if let Some(names) = named(&|name| for_all && dynamic(name) == Dynamic::PerBroker) {
        return Err(invalid(format!(
            "Cannot update these configs at default cluster level, \
             broker id must be specified: [{names}]"
        )));
    }
    for (name, text) in changes {
        let Some(text) = text else { continue };
        let Some(key) = broker_key(name).or_else(|| kept_key(name)) else { continue };
        if let Value::Number(number) = parse(key, text).map_err(invalid)? {
            if THREADS.contains(&key.name) {
                check_threads(broker, key, number)?;
            }
            check_number(broker, key, number)?;
        }
    }
    let altered = changes.iter().filter_map(|(name, text)| Some((name.clone(), text.clone()?)));
    broker.with_dynamic(&BTreeMap::new(), &altered.collect()).map(drop)
}

/// Who may change a key while the broker runs; one that nobody knows, anybody.
fn dynamic(name: &str) -> Dynamic {
    match broker_key(name).or_else(|| kept_key(name)) {
        Some(key) => key.dynamic,
        None if kafka_keys::is_kafka_key(name) => Dynamic::ReadOnly,
        None => Dynamic::ClusterWide,
    }
}

/// A pool is resized in steps: at most doubled, at most halved.
fn check_threads(broker: &BrokerConfig, key: &ConfigKey, threads: i64) -> Result<(), ConfigError> {
    let Some(Value::Number(now)) = broker.values.value(key) else { return Ok(()) };
    let wrong = match threads {
        _ if threads < 1 => "value should be at least 1".to_owned(),
        _ if threads < now / 2 => format!("value should be at least half the current value {now}"),
        _ if threads > now.saturating_mul(2) => {
            format!("value should not be greater than double the current value {now}")
        }
        _ => return Ok(()),
    };
    let name = key.name;
    Err(invalid(format!(
        "Dynamic thread count update validation failed for {name}={threads}, {wrong}"
    )))
}

/// Numbers that the table allows at the start, and that would shut everybody out of a running
/// broker, leave no record in it, or its cleaner no room.
fn check_number(broker: &BrokerConfig, key: &ConfigKey, number: i64) -> Result<(), ConfigError> {
    let cleaners = broker_key("log.cleaner.threads").and_then(|key| broker.values.value(key));
    let Some(Value::Number(cleaners)) = cleaners else { return Ok(()) };
    let wrong = match (key.name, number) {
        ("max.connections", 0) => "Invalid max.connections 0",
        ("max.connections.per.ip", 0) => {
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides \
             property is set."
        }
        ("log.retention.ms", 0) => {
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        }
        ("log.cleaner.dedupe.buffer.size", bytes) if bytes / cleaners.max(1) <= 1 << 20 => {
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
        }
        _ => return Ok(()),
    };
    Err(invalid(wrong.to_owned()))
}

fn invalid(message: String) -> ConfigError {
    ConfigError::InvalidValue { message, origin: "altered".to_owned() }
}

fn unknown(name: &str, suggestion: Option<&'static str>) -> ConfigError {
    ConfigError::UnknownKey { key: name.to_owned(), origin: "altered".to_owned(), suggestion }
}
