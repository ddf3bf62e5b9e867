//! Kafka's `replication`.
