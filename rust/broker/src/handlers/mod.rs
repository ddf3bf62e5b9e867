//! Kafka's `handlers`.
