//! Requests that wait for a change of metadata.
//!
//! No thread waits with them. The answer goes out from the thread that published the change, when
//! the local image has it and its partitions are open. It also goes out when the request's time is
//! over. Its memory counts until its change is made or refused, which may be after the answer.
//! Source: the role of Kafka's `ForwardingManager`, which answers REQUEST_TIMED_OUT when no answer
//! came from its controller in time.

use super::Rooms;
use crate::clock::NS_PER_MS;
use crate::metadata::ApiError;
use crate::metadata::controller::Done;
use crate::purgatory::{Completion, DelayedOperation};
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::sync::Arc;

/// How long a request waits that brings no time of its own: in effect as long as it takes. Kafka's
/// controller sets such a request no deadline.
pub(super) const NO_TIMEOUT_MS: u64 = i32::MAX as u64;

/// A change is not begun that waited for so long behind others, as in Kafka, whose brokers forward
/// a request for so long.
const BEGIN_MS: u64 = 60_000;

type Finish<A> = Box<dyn FnOnce(Result<A, ApiError>) + Send>;

/// A request whose change is under way.
struct DelayedChange<A> {
    timeout_ms: u64,
    answer: Mutex<Option<A>>,
    finish: Mutex<Option<Finish<A>>>,
}

impl<A: Send> DelayedOperation for DelayedChange<A> {
    fn is_satisfied(&self) -> bool {
        self.answer.lock().is_some()
    }

    fn complete(self: Arc<Self>, how: Completion) {
        let (answer, finish) = (self.answer.lock().take(), self.finish.lock().take());
        let is_known = answer.is_some() || how == Completion::Expired;
        // A broker that stops says nothing of what it does not know: the connection closes.
        if let Some(finish) = finish.filter(|_| is_known) {
            finish(answer.ok_or_else(|| ErrorCode::RequestTimedOut.into()));
        }
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }
}

/// Begins a change with `ask`, and calls `finish` once: with what the change's own closure was
/// called with, or with REQUEST_TIMED_OUT after `timeout_ms`. After that time the change is not
/// begun any more. Never waits.
///
/// `memory_bytes` is what the request takes. Where requests that wait hold too much, the change is
/// not begun: THROTTLING_QUOTA_EXCEEDED.
pub(super) fn park<A: Send + 'static>(
    rooms: &Rooms,
    memory_bytes: usize,
    timeout_ms: u64,
    ask: impl FnOnce(Done<A>),
    finish: impl FnOnce(Result<A, ApiError>) + Send + 'static,
) {
    let Ok(held) = rooms.parked.hold_change(memory_bytes) else {
        // Without words: the answer may have one of them for each of very many names.
        return finish(Err(ErrorCode::ThrottlingQuotaExceeded.into()));
    };
    let finish: Finish<A> = Box::new(finish);
    let (answer, finish) = (Mutex::new(None), Mutex::new(Some(finish)));
    let operation = Arc::new(DelayedChange { timeout_ms, answer, finish });
    let waiters = rooms.changes.new_list();
    let (answered, woken) = (Arc::clone(&operation), Arc::clone(&waiters));
    let begin_ns = timeout_ms.min(BEGIN_MS).saturating_mul(NS_PER_MS);
    let deadline_ns = rooms.clock.monotonic_ns().saturating_add(begin_ns);
    ask(Done::until(deadline_ns, move |answer| {
        drop(held);
        *answered.answer.lock() = Some(answer);
        woken.check();
    }));
    rooms.changes.watch(operation, || [waiters]);
}
