//! The other end of the wire: a Kafka client, which Python's classes wrap.
//!
//! It speaks to any Kafka broker, over the connections of `kafkalite_connection`. What it decides
//! (which partition, which batch, which member) stands in cores without I/O; thin shells around
//! them run on one thread for each client.
//!
//! | room | what it is |
//! |---|---|
//! | [`producer`] | from a record to its acknowledgement: partitioner, accumulator, sender |
//! | [`consumer`] | from a subscription to records: positions, fetcher, group, commits |
//! | [`admin`] | topics, configs, groups and brokers, described and changed |
//! | [`ranges`] | offset ranges, each read once to its end, by a consumer |
//! | `runtime`, [`fork`] | the one thread of a client, and what a fork makes of it |
//! | [`config`], `error` | the table of keys; what can go wrong, with Kafka's names |
//!
//! Who may use whom stands in `tests/house/test_layers.py`.
//! Source: the Kafka protocol guide; names and defaults are those of Kafka's own clients.

pub mod admin;
#[cfg(test)]
#[path = "../../testing/awaited.rs"]
mod awaited;
mod clock;
pub mod config;
pub mod consumer;
mod error;
pub mod fork;
pub mod producer;
pub mod ranges;
mod runtime;
mod topic_partition;

pub use admin::Admin;
pub use config::{ClientConfig, ClientKind, ConsumerConfig, ProducerConfig};
pub use consumer::Consumer;
pub use error::ClientError;
pub use kafkalite_connection::PartitionImage;
pub use kafkalite_protocol::{ErrorCode, LeaderEpoch, Uuid};
pub use producer::Producer;
pub use runtime::Runtime;
pub use topic_partition::TopicPartition;
