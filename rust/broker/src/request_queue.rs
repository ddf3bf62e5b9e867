//! Kafka's `request_queue`.
