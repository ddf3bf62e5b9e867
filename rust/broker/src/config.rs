//! Kafka's `config`.
