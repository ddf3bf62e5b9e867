//! The one table of keys, and the typed configuration read from it.
//!
//! The table (`config/broker_keys.rs`, `config/log_keys.rs`) is the only place of a key's type,
//! default, valid values, unit and meaning. Files, flags, DescribeConfigs, AlterConfigs and the
//! command line's `config explain` read the table. The typed [`BrokerConfig`] and [`TopicConfig`]
//! come from the table too.
//!
//! ```text
//! weak:    default < profile < server.properties or kafkalite.toml < environment
//! strong:  < flags < altered at run time
//! ```
//! Keys are of three kinds: known; Kafka's but not ours (one warning, so that files written for
//! Kafka start unmodified); unknown, which is an error. At run time Kafka refuses no key that it
//! does not know, and nor do we: such a key is kept.
//!
//! Source: Kafka's `AbstractKafkaConfig`, `LogConfig`, `DynamicBrokerConfig`; KIP-226 for what may
//! change at run time and for the order of synonyms.

mod alter;
mod altered;
mod broker_config;
mod broker_keys;
mod client_metrics;
mod combined;
mod describe;
mod error;
mod kafka_keys;
mod kept_keys;
mod key;
mod listeners;
mod log_keys;
mod properties;
mod sources;
#[cfg(test)]
mod tests;
mod toml_file;
mod topic_config;
mod topic_values;
mod value;
mod values;

pub use alter::{check_broker_alteration, check_topic_alteration, check_topic_change};
pub use altered::{AlteredConfig, check_results};
pub use broker_config::{BatchValidation, BrokerConfig, RequestInline};
pub use client_metrics::{
    ClientAttribute, DEFAULT_INTERVAL_MS, Subscription, SubscriptionError, check_client_metrics,
    describe_client_metrics,
};
pub use describe::{Described, SynonymValue, describe_broker, describe_topic};
pub use error::ConfigError;
pub use kafkalite_protocol::nearest;
pub use key::{ConfigKey, DefaultValue, Dynamic, Importance, Kind, Synonym, TopicKey, Valid};
pub use listeners::{AdvertisedListener, ListenerConfig, parse_host_port, parse_listener};
pub use sources::{BASE, Sources, load};
pub use topic_config::{Throttled, ThrottledPartitions, TopicConfig};
pub use topic_values::TopicValues;
pub use value::{Value, list, parse};
pub use values::{BrokerValues, ConfigSource, Setting, UnknownVariable};

/// Every broker key, part by part.
pub fn broker_keys() -> impl Iterator<Item = &'static ConfigKey> {
    [
        broker_keys::IDENTITY,
        broker_keys::NETWORK,
        broker_keys::TOPICS,
        log_keys::LOG,
        broker_keys::GROUPS,
        broker_keys::OWN,
    ]
    .into_iter()
    .flatten()
}

/// Every topic key.
pub fn topic_keys() -> impl Iterator<Item = &'static TopicKey> {
    log_keys::TOPIC.iter()
}

/// The broker key of that name.
#[must_use]
pub fn broker_key(name: &str) -> Option<&'static ConfigKey> {
    broker_keys().find(|key| key.name == name)
}

/// The key of that name that is kept and has no effect.
#[must_use]
pub fn kept_key(name: &str) -> Option<&'static ConfigKey> {
    kept_keys::KEPT.iter().find(|key| key.name == name)
}

/// The topic key of that name.
#[must_use]
pub fn topic_key(name: &str) -> Option<&'static TopicKey> {
    topic_keys().find(|topic| topic.key.name == name)
}
