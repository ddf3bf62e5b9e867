//! The connections that are open, for who looks in from outside.
//!
//! Touched when a connection opens and when it closes. A reader takes a few at a time, so no thread
//! that opens one waits for long.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::request_queue::RequestContext;

/// A connection that is open.
#[derive(Clone, Debug)]
pub struct OpenConnection {
    /// Where its requests come from, and who sends them.
    pub context: Arc<RequestContext>,
    /// When it was accepted, on the monotonic clock.
    pub opened_ns: u64,
}

/// All of them, by their ids: the oldest first.
#[derive(Debug, Default)]
pub struct OpenConnections {
    by_id: Mutex<BTreeMap<u64, OpenConnection>>,
}

impl OpenConnections {
    /// Lists a connection for as long as the result lives.
    #[must_use]
    pub fn list(open: &Arc<Self>, context: &Arc<RequestContext>, opened_ns: u64) -> Listed {
        let id = context.connection_id;
        let connection = OpenConnection { context: Arc::clone(context), opened_ns };
        open.by_id.lock().insert(id, connection);
        Listed { open: Arc::clone(open), id }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.lock().len()
    }

    /// The first `most` that were opened after the one with this id.
    #[must_use]
    pub fn after(&self, id: u64, most: usize) -> Vec<OpenConnection> {
        let open = self.by_id.lock();
        let later = open.range((Bound::Excluded(id), Bound::Unbounded));
        later.take(most).map(|(_, connection)| connection.clone()).collect()
    }
}

/// A connection's place in the list; gone when this is dropped.
#[derive(Debug)]
pub struct Listed {
    open: Arc<OpenConnections>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Outside of the lock: it may be the last that knows of the client.
        let left = self.open.by_id.lock().remove(&self.id);
        drop(left);
    }
}
