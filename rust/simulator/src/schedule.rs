//! Virtual time, and the queue of what happens next.
//!
//! Events of the same millisecond come in an order that the seed decides. Simultaneous events of a
//! real cluster can happen in either order.

use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When an event happens: time in ms, a random number, and a counter that makes it unique.
type When = (u64, u64, u64);

#[derive(Debug)]
struct Entry<E> {
    when: When,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.when.cmp(&other.when)
    }
}

/// Events in the order of virtual time.
#[derive(Debug)]
pub struct Schedule<E> {
    now_ms: u64,
    next: u64,
    order: Rng,
    events: BinaryHeap<Reverse<Entry<E>>>,
}

impl<E> Schedule<E> {
    /// An empty schedule at time 0; `order` decides between events of the same millisecond.
    #[must_use]
    pub fn new(order: Rng) -> Self {
        Self { now_ms: 0, next: 0, order, events: BinaryHeap::new() }
    }

    /// The virtual time in ms since the start.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Adds an event that happens `delay_ms` from now.
    pub fn after(&mut self, delay_ms: u64, event: E) {
        self.next += 1;
        let when = (self.now_ms + delay_ms, self.order.word(), self.next);
        self.events.push(Reverse(Entry { when, event }));
    }

    /// Moves time to the next event and takes it.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse(Entry { when, event }) = self.events.pop()?;
        self.now_ms = when.0;
        Some(event)
    }
}
