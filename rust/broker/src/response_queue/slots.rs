//! Response slots of one connection: what may overlap, and in which order answers leave. Pure.
//!
//! - Only consecutive Produce requests overlap; a Fetch that waits may be passed by Produce.
//! - Any other request starts when everything before it has been answered.
//! - Responses leave in the order of their requests, whenever they are answered.
//!
//! A slot is opened when its request is admitted, so the rule also covers what is still queued.

use std::collections::VecDeque;

use super::Response;

/// Requests of one connection begun and not yet taken as responses, at most.
pub const MAX_OPEN: usize = 64;

/// What a request may run beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Produce: beside Produce, and past a Fetch.
    Produce,
    /// Fetch: starts alone, and may be passed by Produce.
    Fetch,
    /// Anything else: one at a time.
    Alone,
}

/// How a request ended.
pub enum Answer {
    /// Its handler, or whatever completed it later, said so.
    Response(Response),
    /// The code that held its responder panicked.
    Panicked,
}

/// What is kept of a request until its answer is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// Version of the request.
    pub api_version: i16,
    /// The response carries it back.
    pub correlation_id: i32,
    /// What it may run beside.
    pub overlap: Overlap,
    /// When its frame was complete.
    pub received_ns: u64,
}

/// An answer whose turn has come.
pub struct ReadyResponse {
    /// Its request.
    pub slot: Slot,
    /// When the handler started, if that is known.
    pub started_ns: Option<u64>,
    /// When the handler returned, if that was before the answer.
    pub handled_ns: Option<u64>,
    /// When it was answered.
    pub answered_ns: u64,
    /// The answer.
    pub answer: Answer,
}

struct Opened {
    slot: Slot,
    handled_ns: Option<u64>,
    answer: Option<Answered>,
}

struct Answered {
    answer: Answer,
    started_ns: Option<u64>,
    answered_ns: u64,
}

/// The slots of one connection, oldest first.
#[derive(Default)]
pub struct ResponseSlots {
    /// Sequence number of the first slot in `opened`.
    first: u64,
    opened: VecDeque<Opened>,
    waiting_produces: usize,
    waiting_fetches: usize,
    waiting_alone: usize,
    /// The network thread was notified of ready answers and has not taken them.
    notified: bool,
}

impl ResponseSlots {
    /// Whether a request of this kind may start now.
    #[must_use]
    pub fn may_open(&self, overlap: Overlap) -> bool {
        let waiting = self.waiting_produces + self.waiting_fetches + self.waiting_alone;
        match overlap {
            Overlap::Produce => self.waiting_alone == 0 && self.opened.len() < MAX_OPEN,
            Overlap::Fetch | Overlap::Alone => waiting == 0,
        }
    }

    /// Whether every request that was begun has been answered and its response taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty()
    }

    /// Opens the next slot and returns its sequence number.
    pub fn open(&mut self, slot: Slot) -> u64 {
        *self.waiting(slot.overlap) += 1;
        self.opened.push_back(Opened { slot, handled_ns: None, answer: None });
        self.first + self.opened.len() as u64 - 1
    }

    /// Notes when the handler returned; does nothing if the request is answered already.
    pub fn handled(&mut self, sequence: u64, handled_ns: u64) {
        if let Some(opened) = self.get(sequence).filter(|opened| opened.answer.is_none()) {
            opened.handled_ns = Some(handled_ns);
        }
    }

    /// Fills a slot. `true`: the network thread has something to look at and was not told yet.
    pub fn answer(&mut self, sequence: u64, answer: Answer, answered_ns: u64) -> bool {
        self.answer_started(sequence, answer, None, answered_ns)
    }

    /// As [`Self::answer`], of a request whose handler started at `started_ns`.
    pub fn answer_started(
        &mut self,
        sequence: u64,
        answer: Answer,
        started_ns: Option<u64>,
        answered_ns: u64,
    ) -> bool {
        let Some(opened) = self.get(sequence).filter(|opened| opened.answer.is_none()) else {
            return false;
        };
        opened.answer = Some(Answered { answer, started_ns, answered_ns });
        let overlap = opened.slot.overlap;
        *self.waiting(overlap) -= 1;
        // Behind a slot that waits, nothing can be sent or started: the answer of that one tells.
        let at_front = self.opened.front().is_some_and(|opened| opened.answer.is_some());
        at_front && !std::mem::replace(&mut self.notified, true)
    }

    /// Takes the answers at the front, up to the first slot that still waits.
    pub fn take_ready(&mut self, ready: &mut Vec<ReadyResponse>) {
        self.notified = false;
        while self.opened.front().is_some_and(|opened| opened.answer.is_some()) {
            let Some(Opened { slot, handled_ns, answer: Some(answered) }) = self.opened.pop_front()
            else {
                return;
            };
            self.first += 1;
            let Answered { answer, started_ns, answered_ns } = answered;
            ready.push(ReadyResponse { slot, started_ns, handled_ns, answered_ns, answer });
        }
    }

    fn get(&mut self, sequence: u64) -> Option<&mut Opened> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.opened.get_mut(index)
    }

    fn waiting(&mut self, overlap: Overlap) -> &mut usize {
        match overlap {
            Overlap::Produce => &mut self.waiting_produces,
            Overlap::Fetch => &mut self.waiting_fetches,
            Overlap::Alone => &mut self.waiting_alone,
        }
    }
}
