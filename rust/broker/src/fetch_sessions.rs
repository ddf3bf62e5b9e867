//! Kafka's `fetch_sessions`.
