//! One connection for each broker and lane.

use super::NodeId;
use crate::config::{ClientConfig, HostPort};
use crate::connection::Connection;
use crate::error::ClientError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Answers come in the order of requests, so what may wait long has a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Produce, metadata, and everything that is answered at once.
    Data,
    /// Fetch, which waits for records.
    Fetch,
    /// What a group asks of its coordinator: JoinGroup waits for the slowest member.
    Group,
}

/// All connections.
pub struct Pool {
    slots: Mutex<HashMap<(NodeId, Lane), Arc<Slot>>>,
    /// Connections that were tried.
    tries: AtomicU64,
}

/// A broker's place in the pool.
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Arc<Connection>>>,
    /// Whoever holds it connects; the others wait for it.
    attempts: tokio::sync::Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    failures: u32,
    /// The next attempt is made no earlier.
    not_before: Option<Instant>,
    /// When the last one failed, and why.
    failed: Option<(Instant, ClientError)>,
}

impl Slot {
    /// The connection, if it lives and leads where it should.
    fn living(&self, place: &HostPort) -> Option<Arc<Connection>> {
        let open = self.open.lock();
        open.as_ref().filter(|open| !open.is_closed() && open.leads_to(place)).cloned()
    }
}

impl Pool {
    pub fn new() -> Self {
        Self { slots: Mutex::new(HashMap::new()), tries: AtomicU64::new(0) }
    }

    /// How many connections were tried so far.
    #[cfg(test)]
    pub fn tries(&self) -> u64 {
        self.tries.load(Ordering::Relaxed)
    }

    fn slot(&self, node: NodeId, lane: Lane) -> Arc<Slot> {
        Arc::clone(self.slots.lock().entry((node, lane)).or_default())
    }

    /// The connection to `node` at `place`. After failures an attempt waits out a back-off; all who
    /// wait meanwhile share its outcome.
    pub async fn connection(
        &self,
        node: NodeId,
        lane: Lane,
        place: &HostPort,
        config: &ClientConfig,
    ) -> Result<Arc<Connection>, ClientError> {
        let slot = self.slot(node, lane);
        if let Some(open) = slot.living(place) {
            return Ok(open);
        }
        let came = Instant::now();
        let mut attempts = slot.attempts.lock().await;
        if let Some(open) = slot.living(place) {
            return Ok(open);
        }
        if let Some((at, error)) = &attempts.failed
            && *at >= came
        {
            return Err(error.clone());
        }
        if let Some(not_before) = attempts.not_before {
            tokio::time::sleep_until(not_before.into()).await;
        }
        self.tries.fetch_add(1, Ordering::Relaxed);
        let limit = config.setup_timeout.with_jitter(attempts.failures + 1, u32::MAX / 2);
        match Connection::open(place, config, limit).await {
            Ok(connection) => {
                *attempts = Attempts::default();
                let connection = Arc::new(connection);
                *slot.open.lock() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                let now = Instant::now();
                attempts.failures = attempts.failures.saturating_add(1);
                let wait = config.reconnect_backoff.after(attempts.failures);
                attempts.not_before = Some(now + wait);
                attempts.failed = Some((now, error.clone()));
                Err(error)
            }
        }
    }

    /// Takes over a connection that was made before it was known which broker it leads to.
    pub fn adopt(&self, node: NodeId, connection: Arc<Connection>) {
        let slot = self.slot(node, Lane::Data);
        let mut open = slot.open.lock();
        if open.as_ref().is_none_or(|open| open.is_closed()) {
            *open = Some(connection);
        }
    }

    /// The living connection to a broker, if there is one.
    pub fn living(&self, node: NodeId) -> Option<Arc<Connection>> {
        let slot = self.slots.lock().get(&(node, Lane::Data)).cloned()?;
        let open = slot.open.lock();
        open.as_ref().filter(|open| !open.is_closed()).cloned()
    }

    /// The living connection with the fewest requests under way.
    pub fn least_loaded(&self) -> Option<Arc<Connection>> {
        let slots: Vec<_> = {
            let slots = self.slots.lock();
            slots
                .iter()
                .filter(|((_, lane), _)| *lane == Lane::Data)
                .map(|(_, s)| Arc::clone(s))
                .collect()
        };
        let open = slots.iter().filter_map(|slot| slot.open.lock().clone());
        open.filter(|open| !open.is_closed()).min_by_key(|open| open.in_flight())
    }

    /// Closes all.
    pub fn close_all(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        for slot in slots.values() {
            if let Some(open) = slot.open.lock().take() {
                open.close("this client closed the connection");
            }
        }
    }
}
