//! Requests whose answer has left, with the time of each stage: a sample while someone looks, and
//! always the slow ones.
//!
//! The times are there anyway, so a request that is not kept costs two comparisons. A sample is
//! kept at most every [`SAMPLE_GAP_NS`], and only until the moment that readers name.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Time between two sampled requests, at least.
const SAMPLE_GAP_NS: u64 = 20_000_000;
/// From this time on in the broker, without a wait for what the client asked to wait for, a request
/// is slow.
pub const SLOW_NS: u64 = 100_000_000;
/// Sampled requests that are kept.
const SAMPLED: usize = 256;
/// Slow requests that are kept.
const SLOW: usize = 128;

/// One request and when it passed each stage, on the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequest {
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
    /// When it passed each stage.
    pub passed: Passed,
}

/// When a request passed each stage, on the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Its frame was complete.
    pub received_ns: u64,
    /// Its handler started.
    pub started_ns: u64,
    /// Its handler returned; at most `answered_ns`.
    pub handled_ns: u64,
    /// There was an answer.
    pub answered_ns: u64,
    /// The network thread took the answer.
    pub taken_ns: u64,
    /// The answer's last byte was in the socket.
    pub sent_ns: u64,
}

impl Passed {
    /// How long the broker had it, the wait for its condition left out.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        let waited_ns = self.answered_ns.saturating_sub(self.handled_ns);
        self.total_ns().saturating_sub(waited_ns)
    }

    /// How long the broker had it.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.sent_ns.saturating_sub(self.received_ns)
    }
}

/// Why a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// For a reader's sample.
    Sampled,
    /// It was slow.
    Slow,
}

#[derive(Debug, Default)]
struct Rings {
    /// The number of the next request that is kept.
    next: u64,
    sampled: VecDeque<(u64, FinishedRequest)>,
    slow: VecDeque<(u64, FinishedRequest)>,
}

/// The requests that are kept: two rings.
#[derive(Debug, Default)]
pub struct FinishedRequests {
    wanted_until_ns: AtomicU64,
    next_sample_ns: AtomicU64,
    rings: Mutex<Rings>,
}

impl FinishedRequests {
    /// Someone looks: requests are sampled until `until_ns`.
    pub fn want_until(&self, until_ns: u64) {
        self.wanted_until_ns.fetch_max(until_ns, Ordering::Relaxed);
    }

    /// Whether a request that is finished at `now_ns` is to be kept, after `busy_ns` in the broker.
    #[must_use]
    pub fn keeps(&self, now_ns: u64, busy_ns: u64) -> Option<Kept> {
        if busy_ns >= SLOW_NS {
            return Some(Kept::Slow);
        }
        if now_ns >= self.wanted_until_ns.load(Ordering::Relaxed) {
            return None;
        }
        let next_ns = self.next_sample_ns.load(Ordering::Relaxed);
        if now_ns < next_ns {
            return None;
        }
        let (order, later_ns) = (Ordering::Relaxed, now_ns.saturating_add(SAMPLE_GAP_NS));
        let taken = self.next_sample_ns.compare_exchange(next_ns, later_ns, order, order);
        taken.ok().map(|_| Kept::Sampled)
    }

    /// Keeps a request; the oldest of its ring makes room.
    pub fn push(&self, kept: Kept, request: FinishedRequest) {
        let mut rings = self.rings.lock();
        let number = rings.next;
        rings.next += 1;
        let (ring, room) = match kept {
            Kept::Sampled => (&mut rings.sampled, SAMPLED),
            Kept::Slow => (&mut rings.slow, SLOW),
        };
        let left = if ring.len() >= room { ring.pop_front() } else { None };
        ring.push_back((number, request));
        drop(rings);
        drop(left);
    }

    /// The number that the next request gets which is kept.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.rings.lock().next
    }

    /// The newest of one ring with their numbers, oldest first: at most `most`, from `first` on.
    #[must_use]
    pub fn newest(&self, kept: Kept, first: u64, most: usize) -> Vec<(u64, FinishedRequest)> {
        let rings = self.rings.lock();
        let ring = match kept {
            Kept::Sampled => &rings.sampled,
            Kept::Slow => &rings.slow,
        };
        let since = ring.partition_point(|(number, _)| *number < first);
        ring.iter().skip(since.max(ring.len().saturating_sub(most))).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(correlation_id: i32) -> FinishedRequest {
        let passed = Passed {
            received_ns: 1,
            started_ns: 2,
            handled_ns: 3,
            answered_ns: 13,
            taken_ns: 14,
            sent_ns: 15,
        };
        FinishedRequest {
            api_key: 0,
            api_version: 9,
            correlation_id,
            client_id: None,
            connection_id: 1,
            peer: ([127, 0, 0, 1], 1).into(),
            passed,
        }
    }

    #[test]
    fn without_a_reader_slow_requests_alone_are_kept() {
        let finished = FinishedRequests::default();
        assert_eq!(finished.keeps(5 * MS, SLOW_NS - 1), None);
        assert_eq!(finished.keeps(5 * MS, SLOW_NS), Some(Kept::Slow));
    }

    #[test]
    fn a_sample_is_kept_once_in_a_gap_until_the_reader_is_gone() {
        let finished = FinishedRequests::default();
        finished.want_until(100 * MS);
        let kept = [1, 5, 20, 22, 45, 99, 100, 150].map(|ms| finished.keeps(ms * MS, 0));
        let yes = Some(Kept::Sampled);
        assert_eq!(kept, [yes, None, None, yes, yes, yes, None, None]);
    }

    #[test]
    fn a_reader_gets_what_it_has_not_seen_and_at_most_what_it_asks_for() {
        let finished = FinishedRequests::default();
        for id in 0..300 {
            let kept = if id % 100 == 0 { Kept::Slow } else { Kept::Sampled };
            finished.push(kept, request(id));
        }
        let ids = |kept, first, most| {
            let found = finished.newest(kept, first, most);
            found.into_iter().map(|(_, request)| request.correlation_id).collect::<Vec<_>>()
        };
        assert_eq!(ids(Kept::Slow, 0, 10), [0, 100, 200]);
        assert_eq!(ids(Kept::Slow, 1, 10), [100, 200]);
        assert_eq!(ids(Kept::Sampled, 297, 10), [297, 298, 299]);
        assert_eq!(ids(Kept::Sampled, 0, 2), [298, 299]);
        assert_eq!(finished.newest(Kept::Sampled, 0, 1_000).len(), SAMPLED);
        assert_eq!(finished.next_number(), 300);
    }

    #[test]
    fn a_wait_for_what_the_client_asked_for_is_not_busy() {
        let passed = request(1).passed;
        assert_eq!((passed.total_ns(), passed.busy_ns()), (14, 4));
    }
}
