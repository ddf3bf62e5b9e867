//! The sender.
use crate::backoff::Backoff;
use kafkalite_protocol::compression::Codec;
use std::time::Duration;
pub mod dispatch;
mod track;

/// What of a producer's configuration concerns the sender.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// `linger.ms`.
    pub linger: Duration,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `max.request.size`, in bytes.
    pub max_request_size: usize,
    /// `retries`.
    pub retries: usize,
    /// `retry.backoff.ms` and its maximum.
    pub retry_backoff: Backoff,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Duration,
    /// `compression.type`.
    pub codec: Codec,
    /// Its level, where it was chosen.
    pub level: Option<i32>,
}
