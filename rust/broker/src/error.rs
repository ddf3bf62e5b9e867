//! Kafka's `error`.
