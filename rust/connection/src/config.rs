//! The settings of a connection, a pool and a cluster, as values.
//!
//! No default stands here: the caller reads them from its own table of keys.

use crate::address::HostPort;
use crate::backoff::Backoff;
use std::time::Duration;

/// How brokers are reached, and for how long what they tell is believed. Each field names the key
/// of Kafka's clients whose meaning it has.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// `bootstrap.servers`, where [`crate::Cluster`] begins; a [`crate::Pool`] does not look at it.
    pub bootstrap_servers: Vec<HostPort>,
    /// `client.id`, sent with every request.
    pub client_id: String,
    /// `request.timeout.ms`: a request without a limit of its own is answered within it.
    pub request_timeout: Duration,
    /// `kafkalite.bootstrap.timeout.ms`: a search for any broker ends after it.
    pub bootstrap_timeout: Duration,
    /// `socket.connection.setup.timeout.ms` and its maximum.
    pub setup_timeout: Backoff,
    /// `reconnect.backoff.ms` and its maximum.
    pub reconnect_backoff: Backoff,
    /// `retry.backoff.ms` and its maximum.
    pub retry_backoff: Backoff,
    /// `metadata.max.age.ms`; zero never asks again by itself.
    pub metadata_max_age: Duration,
    /// `metadata.max.idle.ms`: topics that were not used for this time are forgotten.
    pub metadata_max_idle: Duration,
    /// `metadata.recovery.strategy=rebootstrap`.
    pub rebootstrap: bool,
    /// `connections.max.idle.ms`; `None` is no limit.
    pub connections_max_idle: Option<Duration>,
    /// `send.buffer.bytes`; `None` is the system's.
    pub send_buffer: Option<usize>,
    /// `receive.buffer.bytes`; `None` is the system's.
    pub receive_buffer: Option<usize>,
    /// `kafkalite.response.max.bytes`: a response that claims more ends its connection.
    pub response_max_bytes: usize,
    /// `allow.auto.create.topics`: whether asking for a topic may create it.
    pub allow_auto_create_topics: bool,
}
