//! Time that is handed in.

use std::time::Instant;

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Instant + Send + Sync>;
