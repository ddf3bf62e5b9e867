//! Whether an alteration may be made: which keys, which values, which together.
//!
//! Source: Kafka's `LogConfig.validate` and `DynamicBrokerConfig.validate`, for the rules and the
//! sentences; an alteration that fails is answered with InvalidConfig and such a sentence.

use std::collections::BTreeMap;

use super::broker_config::BrokerConfig;
use super::error::ConfigError;
use super::key::Dynamic;
use super::topic_config::inherited;
use super::value::parse;
use super::{broker_key, broker_keys, kafka_keys, nearest, topic_key, topic_keys};

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

/// May `changes` (keys with dots) be made to this broker, or with `for_all` to all of them, while
/// it runs? `None` takes an earlier alteration back.
///
/// # Errors
/// [`ConfigError::UnknownKey`] or [`ConfigError::InvalidValue`].
pub fn check_broker_alteration(
    broker: &BrokerConfig,
    changes: &BTreeMap<String, Option<String>>,
    for_all: bool,
) -> Result<(), ConfigError> {
    for (name, text) in changes {
        let Some(key) = broker_key(name) else {
            if kafka_keys::is_kafka_key(name) {
                return Err(invalid(cannot_update(name)));
            }
            let names = broker_keys().map(|key| key.name);
            return Err(unknown(name, nearest(name, names)));
        };
        match key.dynamic {
            Dynamic::ReadOnly => return Err(invalid(cannot_update(name))),
            Dynamic::PerBroker if for_all => {
                return Err(invalid(format!(
                    "Cannot update these configs at default cluster level, \
                     broker id must be specified: [{name}]"
                )));
            }
            Dynamic::PerBroker | Dynamic::ClusterWide => {}
        }
        if let Some(text) = text {
            parse(key, text).map_err(invalid)?;
        }
    }
    let altered = changes.iter().filter_map(|(name, text)| Some((name.clone(), text.clone()?)));
    broker.with_dynamic(&BTreeMap::new(), &altered.collect()).map(drop)
}

fn cannot_update(name: &str) -> String {
    format!("Cannot update these configs dynamically: [{name}]")
}

fn invalid(message: String) -> ConfigError {
    ConfigError::InvalidValue { message, origin: "altered".to_owned() }
}

fn unknown(name: &str, suggestion: Option<&'static str>) -> ConfigError {
    ConfigError::UnknownKey { key: name.to_owned(), origin: "altered".to_owned(), suggestion }
}
