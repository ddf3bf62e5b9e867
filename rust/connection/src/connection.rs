//! One connection to a broker. Requests go out in the order of their calls, answers come back in
//! that order, and each goes to its caller.
//!
//! A request is queued when [`Connection::send`] is called, before its [`Reply`] is polled, so two
//! calls one after the other keep their order. A reply that is dropped is still read. The
//! connection ends, and everything that waits on it fails, when
//! - case A: the broker closes it, or the network fails: `Disconnected`
//! - case B: a request waits longer than its timeout: that one is `Timeout`, others `Disconnected`
//! - case C: an answer has the wrong correlation id, an impossible size, or cannot be decoded:
//!   `MalformedResponse`, or `ResponseTooLarge`
//! - case D: it was not used for `connections.max.idle.ms`, or its owner dropped it: `Disconnected`
//!
//! Source: the Kafka protocol guide; KIP-511 for the first exchange.

mod dial;
mod frames;
mod handshake;
mod reply;
mod shared;
mod task;
mod versions;

use crate::address::HostPort;
use crate::config::ConnectionConfig;
use crate::error::ConnectionError;
use kafkalite_protocol::messages::{ApiKey, Request};
use shared::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use handshake::api_versions_request;
pub use reply::{Reply, Sent};
pub use versions::Versions;

/// A connection whose broker has told its versions. Dropping it closes it.
pub struct Connection {
    shared: Arc<Shared>,
    place: HostPort,
    peer: HostPort,
    versions: Versions,
}

impl Connection {
    /// Connects to `place` and asks for its versions, within `limit`.
    ///
    /// Must be called on a tokio runtime, which carries the connection from then on.
    pub async fn open(
        place: &HostPort,
        config: &ConnectionConfig,
        limit: Duration,
    ) -> Result<Self, ConnectionError> {
        let began = Instant::now();
        let stream = dial::connect(place, config, limit).await;
        let stream = stream
            .map_err(|why| ConnectionError::Disconnected { address: place.to_string(), why })?;
        let peer = stream.peer_addr().ok().and_then(|address| {
            HostPort::from_wire(&address.ip().to_string(), i32::from(address.port()))
        });
        let shared = Shared::new(place.to_string(), config);
        task::spawn(Arc::clone(&shared), stream, config);
        // From here on a failure drops `unready`, which ends the task.
        let peer = peer.unwrap_or_else(|| place.clone());
        let place = place.clone();
        let mut unready = Self { shared, place, peer, versions: Versions::default() };
        let left = limit.saturating_sub(began.elapsed()).min(config.request_timeout);
        unready.versions = handshake::ask_versions(&unready.shared, left).await?;
        Ok(unready)
    }

    /// Queues a request in the newest version that both sides speak, and returns its reply.
    pub fn send<R: Request>(&self, build: impl FnOnce(i16) -> R) -> Reply<R> {
        self.send_with::<R>(i16::MAX, self.shared.request_timeout, build)
    }

    /// The same in version `most` at most, with a timeout of its own.
    ///
    /// Later requests on the connection may time out no earlier than those before them.
    pub fn send_with<R: Request>(
        &self,
        most: i16,
        timeout: Duration,
        build: impl FnOnce(i16) -> R,
    ) -> Reply<R> {
        match self.agreed::<R>(most) {
            Ok(version) => self.shared.send(&build(version), version, timeout),
            Err(error) => Reply::failed(error, Arc::clone(&self.shared)),
        }
    }

    /// As [`Connection::send_with`]; `done` is given the answer, on the thread that reads it, or
    /// why there is none, on any thread; it must not wait.
    pub fn send_then<R: Request>(
        &self,
        most: i16,
        timeout: Duration,
        build: impl FnOnce(i16) -> R,
        done: impl FnOnce(Result<(i16, R::Response), ConnectionError>) + Send + 'static,
    ) {
        match self.agreed::<R>(most) {
            Ok(version) => self.shared.send_then(&build(version), version, timeout, done),
            Err(error) => done(Err(error)),
        }
    }

    /// Queues a request that the broker does not answer, such as Produce with acks=0. The returned
    /// future completes with the version when the system has taken the bytes.
    pub fn send_unanswered<R: Request>(&self, most: i16, build: impl FnOnce(i16) -> R) -> Sent {
        match self.agreed::<R>(most) {
            Ok(version) => self.shared.send_unanswered(&build(version), version),
            Err(error) => Sent::failed(error),
        }
    }

    fn agreed<R: Request>(&self, most: i16) -> Result<i16, ConnectionError> {
        self.versions.agreed::<R>(most).ok_or_else(|| {
            let range = |min: i16, max: i16| match min == max {
                true => format!("version {min}"),
                false => format!("versions {min}-{max}"),
            };
            let served = self.versions.served(R::API_KEY);
            ConnectionError::UnsupportedVersion {
                address: self.shared.address.clone(),
                api: R::API_KEY.name(),
                needed: range(R::VERSIONS.min, R::VERSIONS.max.min(most)),
                served: served.map(|served| range(served.min, served.max)),
            }
        })
    }

    /// The version in which [`Connection::send`] would send `R`; `None` if there is none.
    pub fn version<R: Request>(&self) -> Option<i16> {
        self.versions.agreed::<R>(i16::MAX)
    }

    /// Whether the broker serves `api` in any version.
    pub fn serves(&self, api: ApiKey) -> bool {
        self.versions.served(api).is_some()
    }

    /// The broker's answer about itself.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether it ended; nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Completes when it has ended.
    pub async fn closed(&self) {
        self.shared.ended().await;
    }

    /// Requests that wait for their answers.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// Where it leads to, as it was asked for.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Whether it leads to `place`, by the name it was asked for or by its IP address.
    pub fn leads_to(&self, place: &HostPort) -> bool {
        self.place == *place || self.peer == *place
    }

    /// Ends it: what waits fails with `Disconnected`.
    pub fn close(&self, why: &str) {
        self.shared.close(self.shared.disconnected(why));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close("this client closed the connection");
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {} in flight)", self.shared.address, self.in_flight())
    }
}

#[cfg(test)]
mod tests;
