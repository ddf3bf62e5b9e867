//! Kafka's `coordinator`.
