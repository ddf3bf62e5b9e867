//! Kafka's `admin_http`.
