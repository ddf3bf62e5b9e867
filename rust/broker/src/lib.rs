//! The broker: network threads, request queue, I/O threads, handlers, purgatory, partitions,
//! coordinator.
//!
//! `broker.rs` builds the rooms and hands each what it needs; ARCHITECTURE.md draws who may call
//! whom.

mod admin_api;
mod admin_http;
#[cfg(test)]
#[path = "../../testing/awaited.rs"]
mod awaited;
pub mod broker;
mod client_metrics;
pub mod clock;
pub mod cluster;
mod cold_reads;
pub mod config;
pub mod coordinator;
pub mod error;
#[cfg(test)]
#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;
mod fetch_sessions;
mod figures;
pub mod handlers;
pub mod io_threads;
mod meta_properties;
pub mod metadata;
pub mod metrics;
pub mod network;
pub mod partitions;
pub mod process;
pub mod purgatory;
pub mod replication;
pub mod request_queue;
pub mod response_queue;
pub mod test_control;
mod waiters;
