//! Kafka's `broker`.
