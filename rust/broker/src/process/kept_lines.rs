//! Keeps the last lines of the log for the admin API.

use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::log_lines::{Text, name};
use crate::clock::{Clock, SystemClock};
use crate::metrics::kept_lines;

/// Copies each line into the ring of the process.
pub(super) struct Keep(SystemClock);

impl Keep {
    /// From now on the ring is filled.
    pub(super) fn new() -> Self {
        kept_lines().is_filled_now();
        Self(SystemClock::new())
    }
}

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (metadata, text) = (event.metadata(), Text::of(event));
        let level = name(*metadata.level());
        kept_lines().push(self.0.wall_ms(), level, metadata.target(), &text);
    }
}
