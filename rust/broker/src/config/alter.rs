//! Whether an alteration may be made: which keys, and which values each.
//!
//! Source: Kafka's `LogConfig.validate` and `DynamicBrokerConfig.validate`, for the rules and the
//! sentences; an alteration that fails is answered with InvalidConfig and such a sentence.

use std::collections::BTreeMap;

use super::altered::dynamic;
use super::broker_config::BrokerConfig;
use super::error::ConfigError;
use super::key::{ConfigKey, Dynamic};
use super::topic_values::TopicValues;
use super::value::{Value, parse};
use super::{broker_key, kept_key};

/// May a topic of `broker` have just these `overrides`? (Keys with dots; what is not named is
/// inherited.)
///
/// # Errors
/// [`ConfigError::UnknownKey`] or [`ConfigError::InvalidValue`].
pub fn check_topic_alteration(
    broker: &BrokerConfig,
    overrides: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    let values = TopicValues::new(&broker.values, overrides);
    values.problems().first().map_or(Ok(()), |problem| Err(problem.clone()))
}

/// May a topic whose overrides were `before` have `after`, at a broker that did not judge `before`?
///
/// # Errors
/// A problem that `before` does not have.
pub fn check_topic_change(
    broker: &BrokerConfig,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    let [before, after] = [before, after].map(|one| TopicValues::new(&broker.values, one));
    let mut problems = after.problems().iter();
    let problem = problems.find(|problem| !before.problems().contains(problem));
    problem.map_or(Ok(()), |problem| Err(problem.clone()))
}

/// Threads that Kafka lets double or halve in one step, and how many it starts with of those that
/// are not ours.
const THREADS: &[(&str, Option<i64>)] = &[
    ("background.threads", Some(10)),
    ("log.cleaner.threads", None),
    ("num.io.threads", None),
    ("num.network.threads", None),
    ("num.recovery.threads.per.data.dir", None),
    ("num.replica.fetchers", Some(1)),
    ("remote.log.manager.copier.thread.pool.size", Some(10)),
    ("remote.log.manager.expiration.thread.pool.size", Some(10)),
    ("remote.log.manager.follower.thread.pool.size", Some(2)),
    ("remote.log.reader.threads", Some(10)),
];

/// Checks that each of `changes` (keys with dots) may be made to this broker while it runs, or with
/// `for_all` to all brokers. `None` takes an earlier alteration back. An unknown key passes,
/// because Kafka keeps it for plug-ins. [`super::check_results`] checks the result of all changes
/// together.
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
        let value = parse(key, text).map_err(invalid)?;
        if let Value::Number(threads) = value
            && let Some((_, start)) = THREADS.iter().find(|(name, _)| *name == key.name)
        {
            check_threads(broker, key, threads, *start)?;
        }
    }
    Ok(())
}

/// A pool is resized in steps: at most doubled, at most halved.
fn check_threads(
    broker: &BrokerConfig,
    key: &ConfigKey,
    threads: i64,
    start: Option<i64>,
) -> Result<(), ConfigError> {
    let now = match broker.values.value(key).or_else(|| broker.values.kept_value(key)) {
        Some(Value::Number(now)) => now,
        _ => start.unwrap_or(threads),
    };
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

fn invalid(message: String) -> ConfigError {
    ConfigError::InvalidValue { message, origin: "altered".to_owned() }
}
