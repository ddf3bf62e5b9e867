//! Kafka's `io_threads`.
