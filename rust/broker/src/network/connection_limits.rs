//! `max.connections` and `max.connections.per.ip`.
//!
//! Per address the surplus connection is closed at once, as Kafka does. In total nothing is
//! accepted while the bound is reached: clients wait in the listen backlog, the acceptor sleeps
//! until a connection closes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

#[derive(Default)]
struct Open {
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
}

/// Connections open now, and how many may be.
pub struct ConnectionLimits {
    max_total: AtomicUsize,
    max_per_ip: AtomicUsize,
    open: Mutex<Open>,
    /// Called when there may be room again: a connection closed, or the bounds were altered.
    on_room: Box<dyn Fn() + Send + Sync>,
}

impl ConnectionLimits {
    /// None open yet.
    #[must_use]
    pub fn new(
        max_total: usize,
        max_per_ip: usize,
        on_room: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let (max_total, max_per_ip) = (max_total.into(), max_per_ip.into());
        Arc::new(Self { max_total, max_per_ip, open: Mutex::default(), on_room })
    }

    /// New bounds, for connections that come from now on: those that are open stay, as in Kafka.
    pub fn set_bounds(&self, max_total: usize, max_per_ip: usize) {
        self.max_total.store(max_total, Ordering::Relaxed);
        self.max_per_ip.store(max_per_ip, Ordering::Relaxed);
        (self.on_room)();
    }

    /// How many may come from one address.
    #[must_use]
    pub fn max_per_ip(&self) -> usize {
        self.max_per_ip.load(Ordering::Relaxed)
    }

    /// Whether one more may be accepted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open.lock().total < self.max_total.load(Ordering::Relaxed)
    }

    /// Connections open now.
    #[must_use]
    pub fn total(&self) -> usize {
        self.open.lock().total
    }

    /// Counts a connection from `ip`; `None`: that address has too many.
    #[must_use]
    pub fn open(limits: &Arc<Self>, ip: IpAddr) -> Option<Permit> {
        let mut open = limits.open.lock();
        // An address that is refused leaves nothing behind.
        let count = open.by_ip.get(&ip).copied().unwrap_or(0);
        if count >= limits.max_per_ip() {
            return None;
        }
        open.by_ip.insert(ip, count + 1);
        open.total += 1;
        Some(Permit { limits: Arc::clone(limits), ip })
    }
}

/// One open connection.
pub struct Permit {
    limits: Arc<ConnectionLimits>,
    ip: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let was_full = {
            let mut open = self.limits.open.lock();
            let was_full = open.total >= self.limits.max_total.load(Ordering::Relaxed);
            open.total -= 1;
            if let Some(count) = open.by_ip.get_mut(&self.ip) {
                *count -= 1;
                if *count == 0 {
                    open.by_ip.remove(&self.ip);
                }
            }
            was_full
        };
        if was_full {
            (self.limits.on_room)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_bounds_count_for_connections_that_come_and_wake_who_waits_for_room() {
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = woken.clone();
        let wake = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let limits = ConnectionLimits::new(1, 5, Box::new(wake));
        let here = IpAddr::from([127, 0, 0, 1]);
        let first = ConnectionLimits::open(&limits, here);
        assert!(first.is_some() && !limits.has_room());
        limits.set_bounds(3, 1);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(limits.has_room() && ConnectionLimits::open(&limits, here).is_none());
        limits.set_bounds(3, 2);
        let second = ConnectionLimits::open(&limits, here);
        limits.set_bounds(1, 2);
        assert!(second.is_some() && !limits.has_room() && limits.total() == 2);
    }

    /// Every refused address once left an entry in the table.
    #[test]
    fn an_address_that_is_refused_leaves_nothing_behind() {
        let limits = ConnectionLimits::new(9, 0, Box::new(|| {}));
        for last in 0..=255 {
            assert!(ConnectionLimits::open(&limits, IpAddr::from([10, 0, 0, last])).is_none());
        }
        assert!(limits.open.lock().by_ip.is_empty());
    }
}
