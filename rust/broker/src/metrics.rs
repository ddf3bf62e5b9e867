//! Kafka's `metrics`.
