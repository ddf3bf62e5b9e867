//! What is known of the client at the other end of a connection: what it said of itself, and how
//! much it asked.
//!
//! Written on the way of each request, so it costs a load and two stores there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a name is kept.
const KEPT_CHARS: usize = 256;

/// A client as its connection saw it.
#[derive(Debug, Default)]
pub struct ClientSeen {
    id: OnceLock<Box<str>>,
    software: OnceLock<(Box<str>, Box<str>)>,
    requests: AtomicU64,
    last_request_ns: AtomicU64,
}

impl ClientSeen {
    /// Notes a request of a client that calls itself so. Only the network thread of the connection
    /// calls it. The first name stays: clients use one for each connection.
    pub fn asked(&self, client_id: Option<&str>, now_ns: u64) {
        if self.id.get().is_none()
            && let Some(id) = client_id
        {
            // The one thread that sets it found it unset.
            let _ = self.id.set(clipped(id));
        }
        // One writer: no addition that other processors have to agree upon.
        let requests = self.requests.load(Ordering::Relaxed);
        self.requests.store(requests + 1, Ordering::Relaxed);
        self.last_request_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Notes the client's software and its version, as ApiVersions tells them.
    pub fn is_software(&self, name: &str, version: &str) {
        // A client that asks again is still the same.
        let _ = self.software.set((clipped(name), clipped(version)));
    }

    /// `client.id` of its first request that had one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.get().map(|id| &**id)
    }

    /// Name and version of its software, if it told them.
    #[must_use]
    pub fn software(&self) -> Option<(&str, &str)> {
        self.software.get().map(|(name, version)| (&**name, &**version))
    }

    /// Requests that were begun.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// When the last of them began, on the monotonic clock; 0 before the first.
    #[must_use]
    pub fn last_request_ns(&self) -> u64 {
        self.last_request_ns.load(Ordering::Relaxed)
    }
}

/// As much of a client's name as is kept.
#[must_use]
pub fn clipped(name: &str) -> Box<str> {
    name.chars().take(KEPT_CHARS).collect::<String>().into_boxed_str()
}
