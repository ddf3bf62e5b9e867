//! Kafka's `network`.
