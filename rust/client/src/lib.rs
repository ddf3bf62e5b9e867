//! The other end of the wire: a Kafka client, for Python's classes and for brokers among them.
//!
//! It speaks to any Kafka broker: each API's version is agreed upon for every connection. What it
//! decides (which partition, which batch, which member) stands in cores without I/O; thin shells
//! around them run on one thread for each client (`runtime`). A broker is trusted as little as a
//! broker trusts a client: no length is believed before its bytes have arrived.
//! Source: the Kafka protocol guide; names and defaults are those of Kafka's own clients.

pub mod accumulator;
pub mod admin;
mod assignors;
#[cfg(test)]
#[path = "../../testing/awaited.rs"]
mod awaited;
mod backoff;
pub mod cluster;
pub mod commits;
pub mod config;
mod connection;
pub mod consumer;
pub mod cursor;
mod error;
#[cfg(test)]
pub(crate) mod fake_broker;
mod fetcher;
pub mod fork;
mod group;
pub mod group_state;
mod idempotence;
mod offsets;
mod partitioner;
mod positions;
pub mod producer;
pub mod ranges;
pub mod record_block;
mod runtime;
mod sender;
pub mod subscription;
mod topic_partition;
pub mod topic_pattern;

pub use admin::Admin;
pub use cluster::{Cluster, CoordinatorKind, Lane, NodeId, Wanted};
pub use config::{ClientConfig, ClientKind, ConsumerConfig, ProducerConfig};
pub use connection::Connection;
pub use consumer::Consumer;
pub use error::ClientError;
pub use kafkalite_protocol::{ErrorCode, LeaderEpoch};
pub use producer::Producer;
pub use runtime::Runtime;
pub use topic_partition::TopicPartition;
