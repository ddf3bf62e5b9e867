//! One client: what it is asked for, and when it may ask and push. Pure.

use std::net::SocketAddr;
use std::sync::Arc;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::{ErrorCode, Uuid};

use crate::config::ClientAttribute;

use super::Push;
use super::received::Received;
use super::subscriptions::Asked;

/// Bytes of a client's name that are kept.
const KEPT_BYTES: usize = 256;

/// Who a client is, as its connection knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// `client.id`, if it tells one.
    pub id: Option<String>,
    /// Its software, or `unknown`.
    pub software: String,
    /// The version of that, or `unknown`.
    pub software_version: String,
    /// The client's end of the connection.
    pub peer: SocketAddr,
    /// The connection.
    pub connection_id: u64,
    address: String,
    port: String,
}

impl Client {
    /// A client at the other end of this connection. Long names are cut.
    #[must_use]
    pub fn new(
        id: Option<&str>,
        software: Option<(&str, &str)>,
        peer: SocketAddr,
        connection_id: u64,
    ) -> Self {
        let kept = |text: &str| text[..text.floor_char_boundary(KEPT_BYTES)].to_owned();
        // As Kafka says of clients whose ApiVersions is older than version 3.
        let (software, software_version) = software.unwrap_or(("unknown", "unknown"));
        Self {
            id: id.map(kept),
            software: kept(software),
            software_version: kept(software_version),
            address: peer.ip().to_string(),
            port: peer.port().to_string(),
            peer,
            connection_id,
        }
    }

    /// What a subscription looks at.
    pub(super) fn attribute<'a>(
        &'a self,
        of: ClientAttribute,
        instance_id: &'a str,
    ) -> Option<&'a str> {
        match of {
            ClientAttribute::Id => self.id.as_deref(),
            ClientAttribute::InstanceId => Some(instance_id),
            ClientAttribute::SoftwareName => Some(&self.software),
            ClientAttribute::SoftwareVersion => Some(&self.software_version),
            ClientAttribute::SourceAddress => Some(&self.address),
            ClientAttribute::SourcePort => Some(&self.port),
        }
    }
}

/// A client that is remembered.
#[derive(Debug)]
pub(super) struct Instance {
    pub client: Client,
    pub asked: Arc<Asked>,
    pub subscription_id: i32,
    /// The version of the subscriptions that `asked` is from.
    pub version: u64,
    last_get_ms: Option<u64>,
    last_push_ms: Option<u64>,
    pub is_terminating: bool,
    pub last_error: ErrorCode,
    /// On the monotonic clock.
    pub last_seen_ms: u64,
    /// Its place in the order of use.
    pub stamp: u64,
    /// Pushes that were taken.
    pub pushes: u64,
    pub report: Option<Arc<Received>>,
}

impl Instance {
    pub fn new(id: Uuid, client: Client, asked: Arc<Asked>, version: u64) -> Self {
        Self {
            client,
            subscription_id: asked.id_for(id),
            asked,
            version,
            last_get_ms: None,
            last_push_ms: None,
            is_terminating: false,
            last_error: ErrorCode::None,
            last_seen_ms: 0,
            stamp: 0,
            pushes: 0,
            report: None,
        }
    }

    fn interval_ms(&self) -> u64 {
        u64::from(self.asked.interval_ms)
    }

    /// When it is forgotten, if it says nothing more.
    pub fn expires_ms(&self) -> u64 {
        const SHORTEST_MS: u64 = 60_000;
        self.last_seen_ms.saturating_add(SHORTEST_MS.max(3 * self.interval_ms()))
    }

    /// It asks what to push. After some errors it may ask at once.
    pub fn asks(&mut self, now_ms: u64) -> Result<(), ErrorCode> {
        let last = self.last_get_ms.max(self.last_push_ms);
        let is_due = last.is_none_or(|last| now_ms.saturating_sub(last) >= self.interval_ms());
        let may_ask_again =
            [ErrorCode::UnknownSubscriptionId, ErrorCode::UnsupportedCompressionType];
        if is_due {
            self.last_get_ms = Some(now_ms);
        } else if !may_ask_again.contains(&self.last_error) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        self.last_error = ErrorCode::None;
        Ok(())
    }

    /// It pushes; how the report is compressed, if it may.
    pub fn pushes(
        &mut self,
        push: &Push,
        max_bytes: usize,
        now_ms: u64,
    ) -> Result<Codec, ErrorCode> {
        let checked = self.check(push, max_bytes, now_ms);
        self.last_error = checked.err().unwrap_or(ErrorCode::None);
        self.is_terminating = push.is_terminating;
        checked
    }

    fn check(&mut self, push: &Push, max_bytes: usize, now_ms: u64) -> Result<Codec, ErrorCode> {
        if self.is_terminating {
            return Err(ErrorCode::InvalidRequest);
        }
        // The first push after a question comes after any part of the interval: clients spread it.
        let is_due = self.last_get_ms > self.last_push_ms
            || self
                .last_push_ms
                .is_none_or(|last| now_ms.saturating_sub(last) >= self.interval_ms());
        if is_due {
            self.last_push_ms = Some(now_ms);
        } else if !push.is_terminating {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if push.subscription_id != self.subscription_id {
            return Err(ErrorCode::UnknownSubscriptionId);
        }
        let codec = u8::try_from(push.compression_type).ok().and_then(Codec::from_id);
        let codec = codec.ok_or(ErrorCode::UnsupportedCompressionType)?;
        if push.metrics.len() > max_bytes {
            return Err(ErrorCode::TelemetryTooLarge);
        }
        Ok(codec)
    }
}
