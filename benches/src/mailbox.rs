//! What an I/O thread sends back to an event loop: a list, and whether the loop sleeps.
//!
//! Only who finds the loop parked wakes it. While it runs, a push is a lock and a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A queue into one event loop that is woken only when it sleeps.
#[derive(Debug)]
pub struct Mailbox<T> {
    items: Mutex<Vec<T>>,
    parked: AtomicBool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), parked: AtomicBool::new(false) }
    }
}

impl<T> Mailbox<T> {
    /// Puts `item` in. True when the loop was parked: the caller, and only it, must wake it.
    #[must_use]
    pub fn push(&self, item: T) -> bool {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        self.parked.swap(false, Ordering::SeqCst)
    }

    /// Everything pushed so far, oldest first.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.items.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Announces that the loop is about to sleep and tells how long it may: forever, or not at all.
    /// Who pushes after this look finds the loop parked.
    pub fn park(&self) -> Option<Duration> {
        self.parked.store(true, Ordering::SeqCst);
        let empty = self.items.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if empty { None } else { Some(Duration::ZERO) }
    }

    /// The loop runs again.
    pub fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
