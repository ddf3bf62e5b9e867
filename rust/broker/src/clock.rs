//! Kafka's `clock`.
