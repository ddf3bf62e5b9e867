//! Kafka's `process`.
