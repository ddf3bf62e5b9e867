//! Kafka's `cold_reads`.
