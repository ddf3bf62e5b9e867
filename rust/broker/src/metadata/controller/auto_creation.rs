//! Topics that are created because a client asked for them by name.
//!
//! Internal topics get what the broker needs, on at most as many brokers as are registered. With
//! the default of three replicas a single broker would never create them. All others get the
//! defaults.
//! Source: Kafka's `AutoTopicCreationManager`.

use super::super::image::{CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, MetadataImage};
use super::topics::{NewTopic, TopicDefaults};
use crate::config::BrokerConfig;

/// The topic that holds the groups' committed offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

impl TopicDefaults {
    /// What `config` has for -1.
    pub const fn of(config: &BrokerConfig) -> Self {
        Self {
            num_partitions: config.num_partitions,
            replication_factor: config.default_replication_factor,
        }
    }
}

/// The topic to make for `name`; `None` for the internal topics of APIs that are not served, and
/// for the metadata log.
pub fn auto_topic(name: &str, config: &BrokerConfig, image: &MetadataImage) -> Option<NewTopic> {
    if name != OFFSETS_TOPIC {
        let topic = NewTopic {
            name: name.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            ..NewTopic::default()
        };
        let reserved = name == CLUSTER_METADATA_TOPIC || INTERNAL_TOPICS.contains(&name);
        return (!reserved).then_some(topic);
    }
    let registered = i16::try_from(image.brokers.len()).unwrap_or(i16::MAX);
    let own = |(key, value): (&str, String)| (key.to_owned(), Some(value));
    let configs = [
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
    ];
    Some(NewTopic {
        name: name.to_owned(),
        num_partitions: config.offsets_topic_num_partitions,
        replication_factor: config.offsets_topic_replication_factor.min(registered),
        assignments: Vec::new(),
        configs: configs.map(own).to_vec(),
    })
}
