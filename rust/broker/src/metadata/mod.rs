//! Kafka's `metadata`.
