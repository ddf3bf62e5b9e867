//! What clients and tools ask about the cluster, through a socket: a module per API, named as its
//! schema.
//!
//! Codes and sentences are those that an Apache Kafka 4.3 of one node gave to the same requests.
#![allow(clippy::unwrap_used)]

#[path = "../client/mod.rs"]
mod client;

mod alter_configs;
mod alter_partition_reassignments;
mod api_versions;
mod client_metrics;
mod combined_configs;
mod compression_levels;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod hanging_disks;
mod incremental_alter_configs;
mod join_cluster;
mod list_config_resources;
mod metadata;
mod no_security;
mod update_features;

use client::{Client, awaited};
use kafkalite_broker::broker::Broker;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::Request;

/// A broker, its directory, and one connection to it.
struct Fixture {
    client: Client,
    broker: Broker,
    // Dropped last, so that the broker has stopped by then.
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let broker = client::start(directory.path(), settings);
        let client = Client::connect(&broker);
        Self { client, broker, directory }
    }

    fn with_topics(topics: &[(&str, i32)]) -> Self {
        let fixture = Self::new();
        for (name, partitions) in topics {
            client::create_topic(&fixture.broker, name, *partitions, &[]);
        }
        fixture
    }

    fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.client.call(request, version)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.broker.stop();
    }
}

/// A code with its sentence, as answers carry them.
fn error(code: ErrorCode, message: &str) -> (i16, Option<String>) {
    (code.code(), Some(message.to_owned()))
}
