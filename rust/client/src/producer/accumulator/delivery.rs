//! The outcomes of the records of one batch; shared by the batch and by all callers that wait for
//! it.
//!
//! A record is named by its index in the batch it was appended to. It keeps that name when the
//! batch is split: the parts complete the same handle. So one record costs no memory of its own
//! here.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::ClientError;

/// A failure that many records share.
pub type Failure = Arc<ClientError>;

/// Where a run of records was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Offset of the first; `None` where the broker did not say: `acks=0`, or written long before.
    pub base_offset: Option<i64>,
    /// The broker's time for all of them in ms, where the topic asks for that.
    pub log_append_time_ms: Option<i64>,
}

impl Landed {
    /// The run without its first `count` records.
    #[must_use]
    pub fn after(self, count: u32) -> Self {
        Self { base_offset: self.base_offset.map(|base| base + i64::from(count)), ..self }
    }
}

/// Where one record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Counted from 0.
    pub partition: i32,
    /// Its place in the partition; -1 where the broker did not say.
    pub offset: i64,
    /// In ms since 1970: its own, or that of the append if the topic says so.
    pub timestamp_ms: i64,
}

/// A caller's token for one record.
#[derive(Debug)]
pub struct Token<T> {
    /// The record's index in its handle.
    pub index: u32,
    /// The record's own timestamp in ms.
    pub timestamp_ms: i64,
    /// What the sink is handed back.
    pub value: T,
}

/// The tokens of records whose fate is known; ask the handle for it.
pub struct Report<T> {
    /// Knows where the records are, or why not.
    pub handle: Arc<Handle<T>>,
    /// In the order in which the records were appended.
    pub tokens: Vec<Token<T>>,
    /// Keeps the batch's memory taken until the report is dealt with: slow callbacks slow down
    /// what sends, and do not pile up.
    pub memory: Option<super::Reservation>,
}

/// Takes reports on the client's thread; must neither block nor call the producer.
pub trait Sink<T>: Send + Sync {
    /// All that became known in one turn of the sender.
    fn reports(&self, reports: Vec<Report<T>>);
}

/// For producers whose callers only wait.
impl Sink<()> for () {
    fn reports(&self, _: Vec<Report<()>>) {}
}

struct Span {
    first: u32,
    end: u32,
    outcome: Result<Landed, Failure>,
}

struct State<T> {
    spans: Vec<Span>,
    completed: u32,
    /// Known once the batch takes no more records.
    total: Option<u32>,
    late: Vec<Token<T>>,
}

/// The fate of the records appended to one batch.
pub struct Handle<T> {
    topic: Arc<str>,
    partition: i32,
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Handle<T> {
    /// Of a batch that takes records of this partition.
    #[must_use]
    pub fn new(topic: Arc<str>, partition: i32) -> Arc<Self> {
        let state = State { spans: Vec::new(), completed: 0, total: None, late: Vec::new() };
        Arc::new(Self { topic, partition, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Counted from 0.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The batch takes no more than these `total` records.
    pub(crate) fn close(&self, total: u32) {
        self.state.lock().total = Some(total);
    }

    /// Tells the fate of the records `first..first + count`; gives back the tokens that came late,
    /// and whether the fate of all is known now.
    pub(crate) fn complete(
        &self,
        first: u32,
        count: u32,
        outcome: Result<Landed, Failure>,
    ) -> (Vec<Token<T>>, bool) {
        let mut state = self.state.lock();
        state.spans.push(Span { first, end: first + count, outcome });
        state.completed += count;
        let all = state.total == Some(state.completed);
        let (ready, later) = std::mem::take(&mut state.late)
            .into_iter()
            .partition(|token| find(&state.spans, token.index).is_some());
        state.late = later;
        drop(state);
        self.changed.notify_all();
        (ready, all)
    }

    /// Adds a token for a record, or gives it back if the record's fate is known.
    pub fn watch(&self, token: Token<T>) -> Result<(), Token<T>> {
        let mut state = self.state.lock();
        if find(&state.spans, token.index).is_some() {
            return Err(token);
        }
        state.late.push(token);
        Ok(())
    }

    /// Where the record is; `None` while it is not known.
    #[must_use]
    pub fn result(&self, index: u32, timestamp_ms: i64) -> Option<Result<RecordMetadata, Failure>> {
        let state = self.state.lock();
        find(&state.spans, index).map(|span| self.metadata(span, index, timestamp_ms))
    }

    /// The outcomes so far of the records `first..end`: runs of indices, in no order.
    #[must_use]
    pub fn outcomes(&self, first: u32, end: u32) -> Vec<(u32, u32, Result<Landed, Failure>)> {
        let state = self.state.lock();
        let overlap = |span: &Span| {
            let (from, to) = (span.first.max(first), span.end.min(end));
            let moved = span.outcome.clone().map(|landed| landed.after(from - span.first));
            (from, to, moved)
        };
        let touching = state.spans.iter().filter(|span| span.first < end && first < span.end);
        touching.map(overlap).collect()
    }

    /// Waits for the record's fate until `until`; `None` if it is not known then.
    pub fn wait(
        &self,
        index: u32,
        timestamp_ms: i64,
        until: Instant,
    ) -> Option<Result<RecordMetadata, Failure>> {
        let mut state = self.state.lock();
        loop {
            if let Some(span) = find(&state.spans, index) {
                return Some(self.metadata(span, index, timestamp_ms));
            }
            if self.changed.wait_until(&mut state, until).timed_out() {
                let span = find(&state.spans, index)?;
                return Some(self.metadata(span, index, timestamp_ms));
            }
        }
    }

    /// Waits until the fate of the records `first..end` is known; `false` if it is not at `until`.
    #[must_use]
    pub fn wait_run(&self, first: u32, end: u32, until: Instant) -> bool {
        let mut state = self.state.lock();
        while !covers(&state, first, end) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return covers(&state, first, end);
            }
        }
        true
    }

    /// Waits until the fate of every record is known; `false` if it is not at `until`.
    #[must_use]
    pub fn wait_all(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        while state.total != Some(state.completed) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return state.total == Some(state.completed);
            }
        }
        true
    }

    fn metadata(&self, span: &Span, index: u32, own_ms: i64) -> Result<RecordMetadata, Failure> {
        span.outcome.clone().map(|landed| RecordMetadata {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            offset: landed.base_offset.map_or(-1, |base| base + i64::from(index - span.first)),
            timestamp_ms: landed.log_append_time_ms.unwrap_or(own_ms),
        })
    }
}

fn find(spans: &[Span], index: u32) -> Option<&Span> {
    spans.iter().find(|span| span.first <= index && index < span.end)
}

fn covers<T>(state: &State<T>, first: u32, end: u32) -> bool {
    // A run that was not split is one span; the rest is counted.
    let known: u32 = state
        .spans
        .iter()
        .map(|span| span.end.min(end).saturating_sub(span.first.max(first)))
        .sum();
    known >= end - first
}
