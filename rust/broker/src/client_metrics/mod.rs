//! What clients report of themselves (KIP-714), and who is asked to report what.
//!
//! Kafka hands reports to a plug-in. This broker is its own receiver: it keeps the last report of
//! each client for the admin API, the console and a page of metrics. Without a subscription nothing
//! is asked for.
//!
//! | file | what |
//! |---|---|
//! | `subscriptions` | the subscriptions of the metadata image, and what they ask of a client |
//! | `instance` | pure: when a client may ask and push |
//! | `instances` | pure: the clients that are remembered, within bounds |
//! | `received` | a report as it is kept, and totals of what came as differences |
//!
//! Source: Kafka's `ClientMetricsManager` and `ClientMetricsInstance`, their order of checks.

use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::compression::{Codec, CompressionError, decompress};
use kafkalite_protocol::{ErrorCode, Uuid};
use kafkalite_telemetry::{Bounds, Report};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::metadata::MetadataImage;
use crate::metrics::{Counter, Metrics};

mod instance;
mod instances;
mod received;
mod subscriptions;
#[cfg(test)]
mod tests;

pub use instance::Client;
pub use instances::InstanceView;
pub use received::{Received, Series};
pub use subscriptions::Asked;

use instances::Instances;

/// How much of one report is kept.
const BOUNDS: Bounds = Bounds { points: 5_000, labels: 16, text_bytes: 256, kept_bytes: 1 << 20 };

/// How much larger than `telemetry.max.bytes` a push may be once it is decompressed, and the
/// greatest such size in bytes. Kafka 4.3 has no limit. Clients repeat their labels in each metric,
/// so that reports become ten times smaller.
const MAX_INFLATION: usize = 4;
const MAX_INFLATED_BYTES: usize = 16 << 20;

/// The errors that a push may get.
const ERRORS: [ErrorCode; 7] = [
    ErrorCode::None,
    ErrorCode::InvalidRequest,
    ErrorCode::ThrottlingQuotaExceeded,
    ErrorCode::UnknownSubscriptionId,
    ErrorCode::UnsupportedCompressionType,
    ErrorCode::TelemetryTooLarge,
    ErrorCode::InvalidRecord,
];

/// One push of a client.
#[derive(Debug)]
pub struct Push {
    /// The client.
    pub instance_id: Uuid,
    /// The subscription that it knows.
    pub subscription_id: i32,
    /// The client ends, and pushes for the last time.
    pub is_terminating: bool,
    /// The number of the codec.
    pub compression_type: i8,
    /// The report, compressed.
    pub metrics: Bytes,
}

/// The answer to a client that asks what to push.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The id that the client has from now on.
    pub instance_id: Uuid,
    /// What it shall push, and how often.
    pub asked: Arc<Asked>,
    /// The number of that, for this client.
    pub subscription_id: i32,
}

/// The room.
pub struct ClientMetrics {
    clock: Arc<dyn Clock>,
    instances: Mutex<Instances>,
    /// A report takes much more memory while it is decoded: one at a time.
    decoding: Mutex<()>,
    pushes: [Counter; ERRORS.len()],
    bytes: Counter,
}

impl ClientMetrics {
    /// A room that knows no client yet.
    pub fn new(clock: Arc<dyn Clock>, metrics: &Metrics) -> Arc<Self> {
        let help = "Pushes of client metrics, by the error that they got.";
        let counter = |error: ErrorCode| {
            let labels = vec![("error", error.name().to_owned())];
            metrics.counter("kafkalite_client_metrics_pushes", help, labels)
        };
        let bytes = "Bytes of client metrics that were pushed, compressed as they came.";
        let room = Arc::new(Self {
            clock,
            instances: Mutex::default(),
            decoding: Mutex::default(),
            pushes: ERRORS.map(counter),
            bytes: metrics.counter("kafkalite_client_metrics_bytes", bytes, vec![]),
        });
        let help = "Clients that asked for or pushed client metrics and are remembered.";
        let name = "kafka_server_client_metrics_instance_count";
        metrics.computed(name, help, vec![], &room, |room| {
            i64::try_from(room.count()).unwrap_or(i64::MAX)
        });
        room
    }

    /// What the client shall push. One that has no id yet gets one.
    ///
    /// # Errors
    /// `THROTTLING_QUOTA_EXCEEDED`: it asked before its interval was over.
    pub fn subscriptions(
        &self,
        image: &MetadataImage,
        instance_id: Uuid,
        client: Client,
    ) -> Result<Granted, ErrorCode> {
        let now_ms = self.clock.monotonic_ms();
        let mut instances = self.instances.lock();
        let instance_id = if instance_id.is_zero() { instances.new_id() } else { instance_id };
        instances.follow(image);
        let instance = instances.enter(instance_id, client, now_ms);
        instance.asks(now_ms)?;
        let (asked, subscription_id) = (Arc::clone(&instance.asked), instance.subscription_id);
        Ok(Granted { instance_id, asked, subscription_id })
    }

    /// Takes a push of at most `max_bytes`; the error that the client gets.
    pub fn push(
        &self,
        image: &MetadataImage,
        max_bytes: usize,
        client: Client,
        push: Push,
    ) -> ErrorCode {
        self.bytes.add(push.metrics.len() as u64);
        let error = self.pushed(image, max_bytes, client, push).err().unwrap_or(ErrorCode::None);
        let counters = ERRORS.iter().zip(&self.pushes);
        counters.filter(|(one, _)| **one == error).for_each(|(_, counter)| counter.add(1));
        error
    }

    fn pushed(
        &self,
        image: &MetadataImage,
        max_bytes: usize,
        client: Client,
        push: Push,
    ) -> Result<(), ErrorCode> {
        let id = push.instance_id;
        if id.is_zero() || id == ONE {
            return Err(ErrorCode::InvalidRequest);
        }
        let now_ms = self.clock.monotonic_ms();
        let codec = {
            let mut instances = self.instances.lock();
            instances.follow(image);
            instances.enter(id, client, now_ms).pushes(&push, max_bytes, now_ms)?
        };
        // An empty push says only that the client ends or lives.
        let report = match push.metrics.is_empty() {
            true => Ok(None),
            false => self.decode(codec, &push.metrics, max_bytes).map(Some),
        };
        let (error, report) = match report {
            Ok(report) => (ErrorCode::None, report),
            Err(error) => (error, None),
        };
        // The client may be forgotten meanwhile, and its report with it.
        self.instances.lock().receive(id, error, report, self.clock.wall_ms());
        if error == ErrorCode::None { Ok(()) } else { Err(error) }
    }

    fn decode(&self, codec: Codec, bytes: &Bytes, max_bytes: usize) -> Result<Report, ErrorCode> {
        let _turn = self.decoding.lock();
        let payload = match codec {
            Codec::None => bytes.clone(),
            _ => {
                let cap = max_bytes.saturating_mul(MAX_INFLATION).min(MAX_INFLATED_BYTES);
                decompress(codec, bytes, cap).map_err(|error| match error {
                    CompressionError::TooLarge { .. } => ErrorCode::TelemetryTooLarge,
                    CompressionError::Damaged { .. } => ErrorCode::InvalidRecord,
                })?
            }
        };
        Report::decode(payload, &BOUNDS).map_err(|error| {
            tracing::debug!(%error, "a push of client metrics is refused");
            ErrorCode::InvalidRecord
        })
    }

    /// How many clients are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        let mut instances = self.instances.lock();
        instances.sweep(self.clock.monotonic_ms());
        instances.len()
    }

    /// The first `most` clients whose id is greater than `after` and that `wants` accepts, by
    /// rising id.
    #[must_use]
    pub fn list(
        &self,
        after: Uuid,
        most: usize,
        wants: impl Fn(&InstanceView) -> bool,
    ) -> Vec<InstanceView> {
        let now_ms = self.clock.monotonic_ms();
        let mut instances = self.instances.lock();
        instances.sweep(now_ms);
        instances.list(after, most, now_ms, wants)
    }

    /// The client with this id, if it is remembered.
    #[must_use]
    pub fn find(&self, id: Uuid) -> Option<InstanceView> {
        let now_ms = self.clock.monotonic_ms();
        let mut instances = self.instances.lock();
        instances.sweep(now_ms);
        instances.find(id, now_ms)
    }

    /// The last report of each client.
    #[must_use]
    pub fn reports(&self) -> Vec<Arc<Received>> {
        let mut instances = self.instances.lock();
        instances.sweep(self.clock.monotonic_ms());
        instances.reports()
    }
}

/// An id that Kafka gives to no client.
const ONE: Uuid = Uuid(1_u128.to_be_bytes());
