//! Clients do not survive a fork: the child has their memory, but not their thread.
//!
//! A program that embeds clients in a runtime that forks calls [`in_child`] in the child. Clients
//! from before the fork then refuse calls with [`ClientError::Forked`], instead of waiting for a
//! thread that does not exist. Callers that may block also ask for the process id, which no fork
//! escapes.

use crate::error::ClientError;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Tells this process that it is a child: clients made so far belong to the parent.
pub fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The process that something was made in.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    generation: u32,
    pid: u32,
}

impl Home {
    /// This process.
    pub fn here() -> Self {
        Self { generation: GENERATION.load(Ordering::Relaxed), pid: std::process::id() }
    }

    /// Refuses in another process; costs one load, and misses forks without a call of [`in_child`].
    pub fn check_cheaply(&self) -> Result<(), ClientError> {
        if self.generation == GENERATION.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(ClientError::Forked)
    }

    /// Refuses in another process; costs a system call.
    pub fn check(&self) -> Result<(), ClientError> {
        self.check_cheaply()?;
        if self.pid == std::process::id() { Ok(()) } else { Err(ClientError::Forked) }
    }
}

/// A value that is dropped in the process that made it, and forgotten in any other process. There
/// its locks may be held by threads that do not exist.
#[derive(Debug)]
pub struct ForkGuard<T> {
    value: Option<T>,
    home: Home,
}

impl<T> ForkGuard<T> {
    /// Binds `value` to this process.
    pub fn new(value: T) -> Self {
        Self { value: Some(value), home: Home::here() }
    }

    /// The value; refuses in another process.
    pub fn get(&self) -> Result<&T, ClientError> {
        self.home.check()?;
        Ok(self.value.as_ref().expect("it is there until it is dropped"))
    }

    /// The same for calls that cost less than a system call.
    pub fn get_cheaply(&self) -> Result<&T, ClientError> {
        self.home.check_cheaply()?;
        Ok(self.value.as_ref().expect("it is there until it is dropped"))
    }
}

impl<T> Drop for ForkGuard<T> {
    fn drop(&mut self) {
        if self.home.check().is_err() {
            std::mem::forget(self.value.take());
        }
    }
}
