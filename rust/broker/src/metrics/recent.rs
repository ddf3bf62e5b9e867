//! The last requests, one by one, to show after a failed test what the broker was doing.
//!
//! A ring that is there only if `kafkalite.recent.requests` says so, as the profile `dev` does. A
//! request enters it when its handler starts, so one that is never answered is seen as well.

use std::collections::VecDeque;
use std::net::SocketAddr;

use parking_lot::Mutex;

use crate::clock::NS_PER_MS;

/// One request and when it passed each stage, on the monotonic clock; `None` is not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentRequest {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// Version of the request.
    pub api_version: i16,
    /// The client's number for it.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// Its connection.
    pub connection_id: u64,
    /// The client's end of it.
    pub peer: SocketAddr,
    /// Its frame was complete.
    pub received_ns: u64,
    /// Its handler started.
    pub started_ns: u64,
    /// The handler returned.
    pub handled_ns: Option<u64>,
    /// There was an answer.
    pub answered_ns: Option<u64>,
    /// The network thread took the answer.
    pub taken_ns: Option<u64>,
    /// The answer's last byte was in the socket.
    pub sent_ns: Option<u64>,
}

/// How long a request was in each stage, in ms; `None` is not yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageTimes {
    /// How long ago it came.
    pub age_ms: f64,
    /// In the request queue.
    pub queue_ms: f64,
    /// In its handler.
    pub handler_ms: Option<f64>,
    /// Waiting for its condition, a fetch for bytes for instance.
    pub waited_ms: Option<f64>,
    /// Until its answer's last byte was in the socket.
    pub sending_ms: Option<f64>,
    /// All of it.
    pub total_ms: Option<f64>,
}

impl RecentRequest {
    /// Its times, where the monotonic clock shows `now_ns`.
    #[must_use]
    pub fn times(&self, now_ns: u64) -> StageTimes {
        let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / NS_PER_MS as f64;
        let answered = self.answered_ns;
        // An answer may be on its way before the handler returns.
        let handled = self.handled_ns.map(|at| answered.map_or(at, |answered| at.min(answered)));
        StageTimes {
            age_ms: ms(self.received_ns, now_ns),
            queue_ms: ms(self.received_ns, self.started_ns),
            handler_ms: handled.map(|handled| ms(self.started_ns, handled)),
            waited_ms: answered.zip(handled).map(|(answered, handled)| ms(handled, answered)),
            sending_ms: answered.zip(self.sent_ns).map(|(answered, sent)| ms(answered, sent)),
            total_ms: self.sent_ns.map(|sent| ms(self.received_ns, sent)),
        }
    }
}

/// The ring.
#[derive(Debug)]
pub struct RecentRequests {
    entries: Mutex<VecDeque<RecentRequest>>,
    room: usize,
}

impl RecentRequests {
    /// Room for that many requests.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { entries: Mutex::new(VecDeque::with_capacity(room)), room }
    }

    /// A handler starts; the oldest request makes room.
    pub fn push(&self, request: RecentRequest) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.room {
            entries.pop_front();
        }
        entries.push_back(request);
    }

    /// Notes more about a request, if it is still there.
    pub fn note(
        &self,
        connection_id: u64,
        correlation_id: i32,
        note: impl FnOnce(&mut RecentRequest),
    ) {
        let mut entries = self.entries.lock();
        // From the newest: what is answered now has mostly just started.
        let found = entries.iter_mut().rev().find(|entry| {
            entry.connection_id == connection_id && entry.correlation_id == correlation_id
        });
        if let Some(entry) = found {
            note(entry);
        }
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<RecentRequest> {
        self.entries.lock().iter().cloned().collect()
    }
}
