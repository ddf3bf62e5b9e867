//! What faults hold back: requests before their handlers, answers, and the duty to answer.
//!
//! A request that waits keeps all later requests of its connection behind it, so that appends stay
//! in the order of the requests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::fault::Fault;
use super::seen::Seen;
use crate::request_queue::Request;
use crate::response_queue::{Responder, Response};

/// Answers that are held without end, at most: the oldest goes first, and its connection closes.
const MOST_UNANSWERED: usize = 10_000;

/// An answer, and the faults that hold it one after the other.
pub(super) struct Late {
    pub seen: Option<Arc<Seen>>,
    pub faults: VecDeque<Arc<Fault>>,
    pub answer: Response,
    pub back: Responder,
}

/// Something that a fault holds back.
pub(super) enum Held {
    /// A request; the faults up to the one that holds it hold it no more.
    Request(Box<Request>),
    /// An answer that goes out later.
    Response(Box<Late>),
    /// A request that gets no answer. Letting it go closes the connection.
    Unanswered(Responder),
}

#[derive(Default)]
struct Inner {
    /// By ticket: the fault and what it holds.
    held: BTreeMap<u64, (u64, Held)>,
    next: u64,
    unanswered: VecDeque<u64>,
    /// Connections whose first request is held, and the requests behind it.
    waiting: HashMap<u64, VecDeque<Request>>,
    /// The broker stops: nothing is held any longer.
    is_over: bool,
}

/// All that is held back.
#[derive(Default)]
pub(super) struct Holding(Mutex<Inner>);

impl Holding {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        let inner = self.0.lock();
        inner.held.is_empty() && inner.waiting.is_empty()
    }

    /// How many requests and how many answers wait here.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.0.lock();
        let behind: usize = inner.waiting.values().map(VecDeque::len).sum();
        let held = inner.held.values();
        held.fold((behind, 0), |(requests, answers), (_, held)| match held {
            Held::Request(_) => (requests + 1, answers),
            Held::Response(_) => (requests, answers + 1),
            Held::Unanswered(_) => (requests, answers),
        })
    }

    /// Holds something for a fault; its ticket. The same thing comes back when nothing may be held.
    pub fn hold(&self, fault: u64, held: Held) -> Result<u64, Held> {
        let mut inner = self.0.lock();
        if inner.is_over {
            return Err(held);
        }
        inner.next += 1;
        let ticket = inner.next;
        match &held {
            Held::Request(request) => {
                inner.waiting.entry(request.context.connection_id).or_default();
            }
            Held::Unanswered(_) => inner.unanswered.push_back(ticket),
            Held::Response(_) => {}
        }
        inner.held.insert(ticket, (fault, held));
        let oldest = (inner.unanswered.len() > MOST_UNANSWERED)
            .then(|| inner.unanswered.pop_front())
            .flatten()
            .and_then(|oldest| inner.held.remove(&oldest));
        drop(inner);
        // Outside the lock: it closes a connection.
        drop(oldest);
        Ok(ticket)
    }

    /// Puts a request behind one of its connection that is held; it comes back if none is.
    pub fn behind(&self, request: Request) -> Option<Request> {
        match self.0.lock().waiting.get_mut(&request.context.connection_id) {
            Some(waiting) => {
                waiting.push_back(request);
                None
            }
            None => Some(request),
        }
    }

    /// The next request of a connection whose first one went on; without one the connection is
    /// free.
    pub fn next_of(&self, connection_id: u64) -> Option<Request> {
        let mut inner = self.0.lock();
        let next = inner.waiting.get_mut(&connection_id)?.pop_front();
        if next.is_none() {
            inner.waiting.remove(&connection_id);
        }
        next
    }

    /// Takes what a ticket is for.
    pub fn take(&self, ticket: u64) -> Option<(u64, Held)> {
        self.0.lock().held.remove(&ticket)
    }

    /// Takes all that a fault holds.
    pub fn take_of(&self, fault: u64) -> Vec<(u64, Held)> {
        self.0.lock().held.extract_if(.., |_, (of, _)| *of == fault).map(|(_, held)| held).collect()
    }

    /// Takes everything; nothing is held from now on.
    pub fn end(&self) -> Vec<(u64, Held)> {
        let mut inner = self.0.lock();
        inner.is_over = true;
        inner.unanswered.clear();
        std::mem::take(&mut inner.held).into_values().collect()
    }
}
