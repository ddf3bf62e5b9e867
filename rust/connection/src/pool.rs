//! One connection for each broker and lane.

use crate::address::{HostPort, NodeId};
use crate::config::ConnectionConfig;
use crate::connection::Connection;
use crate::error::ConnectionError;
use crate::links::CutLinks;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// All connections of one caller; dropping it closes those that have no other holder.
///
/// It knows no addresses: the caller gives the broker's present address. So a broker that moved is
/// reached at its new address.
pub struct Pool {
    config: Arc<ConnectionConfig>,
    links: Option<Arc<CutLinks>>,
    slots: Mutex<HashMap<(NodeId, Lane), Arc<Slot>>>,
    /// Connections that were tried.
    tries: AtomicU64,
}

/// A broker's place in the pool.
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Arc<Connection>>>,
    /// The holder of the lock connects; the others wait for it.
    attempts: tokio::sync::Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    failures: u32,
    /// The next attempt is made no earlier.
    not_before: Option<Instant>,
    /// When the last one failed, and why.
    failed: Option<(Instant, ConnectionError)>,
}

impl Slot {
    /// The connection, if it lives and leads where it should.
    fn living(&self, place: &HostPort) -> Option<Arc<Connection>> {
        let open = self.open.lock();
        open.as_ref().filter(|open| !open.is_closed() && open.leads_to(place)).cloned()
    }
}

impl Pool {
    /// An empty one. No I/O happens.
    pub fn new(config: Arc<ConnectionConfig>) -> Self {
        Self::over(config, None)
    }

    /// An empty one, which does not cross a link that `links` say is cut.
    pub fn over(config: Arc<ConnectionConfig>, links: Option<Arc<CutLinks>>) -> Self {
        Self { config, links, slots: Mutex::default(), tries: AtomicU64::new(0) }
    }

    /// How many connections were tried so far.
    #[cfg(test)]
    pub(crate) fn tries(&self) -> u64 {
        self.tries.load(Ordering::Relaxed)
    }

    fn slot(&self, node: NodeId, lane: Lane) -> Arc<Slot> {
        Arc::clone(self.slots.lock().entry((node, lane)).or_default())
    }

    /// The connection to `node` at `place`, made if none lives there. After failures an attempt
    /// waits out `reconnect_backoff`; all who wait meanwhile share its outcome. An attempt takes as
    /// long as `setup_timeout` says. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Those of [`Connection::open`].
    pub async fn connection(
        &self,
        node: NodeId,
        lane: Lane,
        place: &HostPort,
    ) -> Result<Arc<Connection>, ConnectionError> {
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
        let limit = self.config.setup_timeout.with_jitter(attempts.failures + 1, u32::MAX / 2);
        match self.open(place, limit).await {
            Ok(connection) => {
                *attempts = Attempts::default();
                *slot.open.lock() = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                let now = Instant::now();
                attempts.failures = attempts.failures.saturating_add(1);
                let wait = self.config.reconnect_backoff.after(attempts.failures);
                attempts.not_before = Some(now + wait);
                attempts.failed = Some((now, error.clone()));
                Err(error)
            }
        }
    }

    async fn open(
        &self,
        place: &HostPort,
        limit: Duration,
    ) -> Result<Arc<Connection>, ConnectionError> {
        if let Some(links) = &self.links {
            links.check(place)?;
        }
        let connection = Arc::new(Connection::open(place, &self.config, limit).await?);
        if let Some(links) = &self.links {
            links.opened(place, &connection)?;
        }
        Ok(connection)
    }

    /// Takes over a connection that was made before it was known which broker it leads to.
    pub(crate) fn adopt(&self, node: NodeId, connection: Arc<Connection>) {
        let slot = self.slot(node, Lane::Data);
        let mut open = slot.open.lock();
        if open.as_ref().is_none_or(|open| open.is_closed()) {
            *open = Some(connection);
        }
    }

    /// The living connection to a broker, if there is one.
    pub(crate) fn living(&self, node: NodeId) -> Option<Arc<Connection>> {
        let slot = self.slots.lock().get(&(node, Lane::Data)).cloned()?;
        let open = slot.open.lock();
        open.as_ref().filter(|open| !open.is_closed()).cloned()
    }

    /// The living connection with the fewest requests under way, to a broker that `may` be asked.
    pub(crate) fn least_loaded(&self, may: impl Fn(NodeId) -> bool) -> Option<Arc<Connection>> {
        let slots: Vec<_> = {
            let slots = self.slots.lock();
            slots
                .iter()
                .filter(|((node, lane), _)| *lane == Lane::Data && may(*node))
                .map(|(_, s)| Arc::clone(s))
                .collect()
        };
        let open = slots.iter().filter_map(|slot| slot.open.lock().clone());
        open.filter(|open| !open.is_closed()).min_by_key(|open| open.in_flight())
    }

    /// Closes those to one broker, at one place if that is given; calls under way fail with
    /// `Disconnected`.
    pub(crate) fn close(&self, node: NodeId, place: Option<&HostPort>, why: &str) {
        let slots: Vec<_> = {
            let slots = self.slots.lock();
            slots.iter().filter(|((id, _), _)| *id == node).map(|(_, s)| Arc::clone(s)).collect()
        };
        let leads_there = |open: &mut Arc<Connection>| place.is_none_or(|at| open.leads_to(at));
        let open = slots.iter().filter_map(|slot| slot.open.lock().take_if(leads_there));
        let open: Vec<_> = open.collect();
        open.iter().for_each(|open| open.close(why));
    }

    /// Closes all; calls under way fail with `Disconnected`.
    pub fn close_all(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        for slot in slots.values() {
            if let Some(open) = slot.open.lock().take() {
                open.close("this client closed the connection");
            }
        }
    }
}

#[cfg(test)]
mod tests;
