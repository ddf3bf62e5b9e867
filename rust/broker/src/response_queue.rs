//! Kafka's `response_queue`.
