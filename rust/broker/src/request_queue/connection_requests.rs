//! The pending frames of one connection: the item of the request queue.
//!
//! One thread at a time runs them (`active`), in order. The connection lies in the request queue
//! or in the hands of that thread, never both, so it cannot be taken twice.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{Lane, Place, Request};

/// Pending bytes of one connection; a single larger frame is admitted alone.
pub const MAX_PENDING_BYTES: usize = 8 << 20;

struct Pending {
    request: Request,
    place: Place,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    bytes: usize,
    /// Queued, or run by some thread.
    active: bool,
}

/// Frames admitted and not yet run.
#[derive(Default)]
pub struct ConnectionRequests {
    state: Mutex<State>,
}

impl ConnectionRequests {
    /// Whether another frame of `bytes` may be admitted. Their number is bounded by the slots.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let state = self.state.lock();
        state.pending.is_empty() || state.bytes + bytes <= MAX_PENDING_BYTES
    }

    /// Adds a frame. `true`: the connection was idle and has to be queued.
    pub(super) fn push(&self, request: Request, place: Place) -> bool {
        let mut state = self.state.lock();
        state.bytes += place.bytes();
        state.pending.push_back(Pending { request, place });
        !std::mem::replace(&mut state.active, true)
    }

    /// Claims the connection for a request that runs inline; `false` if any is queued or running.
    #[must_use]
    pub fn begin_inline(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().active, true)
    }

    /// The inline request returned. Only its network thread adds frames, so none can be pending.
    pub fn end_inline(&self) {
        self.state.lock().active = false;
    }

    /// The next frame to run, for the thread that holds the connection; `None` lets it go.
    #[must_use]
    pub fn next(&self) -> Option<(Request, Place)> {
        let mut state = self.state.lock();
        let Some(Pending { request, place }) = state.pending.pop_front() else {
            state.active = false;
            return None;
        };
        state.bytes -= place.bytes();
        Some((request, place))
    }

    /// The lane of the next frame; `None` lets the connection go.
    #[must_use]
    pub fn next_lane(&self) -> Option<Lane> {
        let mut state = self.state.lock();
        let next = state.pending.front().map(|next| next.request.lane);
        state.active = next.is_some();
        next
    }
}
