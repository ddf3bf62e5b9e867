//! Kafka's `purgatory`.
