//! `max.connections` and `max.connections.per.ip`.
//!
//! Per address the surplus connection is closed at once, as Kafka does. In total nothing is
//! accepted while the bound is reached: clients wait in the listen backlog, the acceptor sleeps
//! until a connection closes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Default)]
struct Open {
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
}

/// Connections open now, and how many may be.
pub struct ConnectionLimits {
    max_total: usize,
    max_per_ip: usize,
    open: Mutex<Open>,
    /// Called when a connection closed while the bound was reached.
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
        Arc::new(Self { max_total, max_per_ip, open: Mutex::default(), on_room })
    }

    /// Whether one more may be accepted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open.lock().total < self.max_total
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
        let count = open.by_ip.entry(ip).or_insert(0);
        if *count >= limits.max_per_ip {
            return None;
        }
        *count += 1;
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
            let was_full = open.total >= self.limits.max_total;
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
