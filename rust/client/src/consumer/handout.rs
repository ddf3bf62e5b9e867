//! Hands out what was fetched: decodes block by block, and keeps the books of what was handed out.
//!
//! Everything here happens on the caller's thread. A record is taken here. It counts as handed out
//! when the caller keeps it, and as done when the caller comes back: only then is it committed by
//! itself.
//!
//! What stands behind records (a refusal, a batch that cannot be read) waits until the next call:
//! it may move the partition, and until then the records may be given back.

use std::sync::Arc;

use kafkalite_protocol::ErrorCode;

use super::shared::Shared;
use crate::config::IsolationLevel;
use crate::consumer::cursor::{Cursor, Taken};
use crate::consumer::fetched::buffer::{Content, Fetched};
use crate::consumer::fetched::decode::{DecodeOptions, Decoder};
use crate::consumer::lease::{Lease, Single};
use crate::consumer::record_block::{RecordBlock, RecordSlice};
use crate::consumer::subscription::{PartitionState, Subscription};
use crate::error::ClientError;

/// Records that are decoded at a time, at least: batches are decoded whole.
const BLOCK_RECORDS: usize = 16_384;
/// Bytes of records that are decoded at a time, give or take a batch.
const BLOCK_BYTES: usize = 1 << 20;

/// How much a caller takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Records.
    pub max_records: usize,
    /// Bytes of keys, values and headers; one record is handed out even if it is larger.
    pub max_bytes: usize,
}

/// A fetched partition on its way out.
pub(super) struct Open {
    decoder: Decoder,
    /// Decoded and not handed out yet.
    rest: RecordSlice,
    /// Keeps its bytes accounted for.
    _fetched: Fetched,
}

impl Open {
    fn cursor(&self) -> &Arc<Cursor> {
        self.decoder.cursor()
    }
}

/// One caller's view of the buffer.
#[derive(Default)]
pub struct Handout {
    open: Option<Open>,
    /// Those that were paused in the middle.
    parked: Vec<Open>,
    /// What the last call took of, and what is still under way from earlier ones.
    touched: Vec<Arc<Cursor>>,
    /// What stands behind the records that were handed out last.
    behind: Option<Behind>,
}

/// What is looked at only when the records before it are done or given back.
enum Behind {
    /// No batches, but what a leader said in their place.
    Told(Fetched),
    /// A batch that cannot be read.
    Damaged { cursor: Arc<Cursor>, offset: i64, why: String },
}

impl Behind {
    fn cursor(&self) -> &Arc<Cursor> {
        match self {
            Self::Told(fetched) => &fetched.cursor,
            Self::Damaged { cursor, .. } => cursor,
        }
    }
}

impl Handout {
    /// The caller came back: what it got is done.
    pub fn finish(&mut self) {
        self.touched.retain(|cursor| !cursor.finish());
    }

    /// Takes what is there within the limits, without waiting.
    ///
    /// # Errors
    /// What stands before the first record, if something does.
    pub fn take<'a>(
        &mut self,
        shared: &'a Shared,
        limits: Limits,
    ) -> Result<Lease<'a>, ClientError> {
        let mut lease = Lease::new(shared);
        let (mut records, mut bytes) = (0, 0);
        while records < limits.max_records && bytes < limits.max_bytes {
            if !self.fill(shared, lease.is_empty())? {
                break;
            }
            let Some(open) = &mut self.open else { break };
            let mut slice = open.rest.clone();
            slice.to = slice.from + slice.len().min(limits.max_records - records);
            if limits.max_bytes < usize::MAX {
                slice.to = cut_at_bytes(&slice, limits.max_bytes - bytes, &mut bytes, records == 0);
                if slice.is_empty() {
                    break;
                }
            }
            let cursor = open.decoder.cursor();
            let Some(taken) = cursor.advance(slice.block.position_after(slice.to - 1)) else {
                // It was rewound or left just now.
                continue;
            };
            touch(&mut self.touched, cursor);
            open.rest.from = slice.to;
            records += slice.len();
            lease.push(slice, taken);
        }
        Ok(lease)
    }

    /// The next record, if it is decoded already: the short way for callers that go record by
    /// record. Those before it are done.
    pub fn take_decoded(&mut self) -> Option<(RecordSlice, Taken)> {
        let open = self.open.as_mut()?;
        let cursor = open.decoder.cursor();
        if open.rest.is_empty() || !cursor.is_open() || self.behind.is_some() {
            return None;
        }
        let index = open.rest.from;
        let next = open.rest.block.position_after(index);
        let taken = match self.touched.as_slice() {
            [only] if Arc::ptr_eq(only, cursor) => cursor.finish_and_advance(next),
            _ => {
                self.touched.retain(|other| !other.finish());
                touch(&mut self.touched, cursor);
                cursor.advance(next)
            }
        }?;
        open.rest.from += 1;
        let slice = RecordSlice { to: open.rest.from, from: index, ..open.rest.clone() };
        Some((slice, taken))
    }

    /// The one record of `slice`, which was decoded and taken last, stays the next one. It need not
    /// be fetched again, unless more was taken meanwhile or the partition went elsewhere.
    pub(super) fn put_back(&mut self, slice: &RecordSlice, single: Single<'_>) {
        let Some(open) = &mut self.open else { return };
        let is_last = Arc::ptr_eq(&open.rest.block, &slice.block) && open.rest.from == slice.to;
        if is_last && single.put_back(slice.block.position_after(slice.from)) {
            open.rest.from = slice.from;
        }
    }

    /// Sees to it that there is a record to hand out; whether there is. Unless it is to be the
    /// `first` of a call, what is no record waits for the next call.
    fn fill(&mut self, shared: &Shared, first: bool) -> Result<bool, ClientError> {
        if let Some(behind) = self.behind.take() {
            meet(shared, behind)?;
        }
        loop {
            self.put_aside_what_is_paused(shared);
            if self.open.is_none() {
                self.open = match self.parked.iter().position(|open| open.cursor().is_open()) {
                    Some(at) => Some(self.parked.swap_remove(at)),
                    None => match shared.buffer.pop(|cursor| self.is_parked(cursor)) {
                        Some(fetched) if first || fetched.content.is_batches() => {
                            begin(shared, fetched)?
                        }
                        Some(fetched) => {
                            self.behind = Some(Behind::Told(fetched));
                            return Ok(false);
                        }
                        None => return Ok(false),
                    },
                };
                continue;
            }
            let Some(open) = &mut self.open else { continue };
            if !open.rest.is_empty() {
                return Ok(true);
            }
            match open.decoder.next_block(BLOCK_RECORDS, BLOCK_BYTES) {
                Ok(Some(block)) => {
                    if block.is_empty() {
                        // Markers and aborted records only: callers never see them, so they count
                        // as processed.
                        open.cursor().pass(block.next());
                    }
                    let to = block.len();
                    open.rest = RecordSlice { block: Arc::new(block), from: 0, to };
                }
                Ok(None) => {
                    self.open = None;
                    // There is room again.
                    shared.fetch.notify_one();
                }
                Err(failure) => {
                    let cursor = Arc::clone(open.cursor());
                    self.open = None;
                    let (offset, why) = (failure.offset, failure.why.to_string());
                    if !first {
                        self.behind = Some(Behind::Damaged { cursor, offset, why });
                        return Ok(false);
                    }
                    unreadable(shared, &cursor, offset, why)?;
                }
            }
        }
    }

    /// Whether a fetch of the cursor was paused in the middle.
    fn is_parked(&self, cursor: &Arc<Cursor>) -> bool {
        self.parked.iter().any(|open| Arc::ptr_eq(open.cursor(), cursor))
    }

    fn put_aside_what_is_paused(&mut self, shared: &Shared) {
        let parked = self.parked.len();
        self.parked.retain(|open| !open.cursor().is_retired());
        if self.parked.len() < parked {
            shared.fetch.notify_one();
        }
        if let Some(open) = self.open.take_if(|open| !open.cursor().is_open()) {
            if open.cursor().is_retired() {
                shared.fetch.notify_one();
            } else {
                self.parked.push(open);
            }
        }
    }
}

fn touch(touched: &mut Vec<Arc<Cursor>>, cursor: &Arc<Cursor>) {
    if !touched.iter().any(|one| Arc::ptr_eq(one, cursor)) {
        touched.push(Arc::clone(cursor));
    }
}

/// Where to cut a slice that may take `room` more bytes. The first record of all always fits.
fn cut_at_bytes(slice: &RecordSlice, room: usize, bytes: &mut usize, first: bool) -> usize {
    let mut used = 0;
    let mut to = slice.from;
    while to < slice.to {
        let size = slice.block.size(to);
        if used + size > room && !(first && to == slice.from) {
            break;
        }
        used += size;
        to += 1;
    }
    *bytes += used;
    to
}

/// Looks at what stood behind the records of the last call, unless they went back or the caller
/// did: then it is met again in its turn.
fn meet(shared: &Shared, behind: Behind) -> Result<(), ClientError> {
    if behind.cursor().is_retired() {
        return Ok(());
    }
    match behind {
        Behind::Told(fetched) => begin(shared, fetched).map(drop),
        Behind::Damaged { cursor, offset, why } => unreadable(shared, &cursor, offset, why),
    }
}

/// Opens what was fetched; `None` if it only said that the partition must begin elsewhere.
///
/// # Errors
/// What it says instead, unless the partition is read elsewhere by now.
pub(super) fn begin(shared: &Shared, fetched: Fetched) -> Result<Option<Open>, ClientError> {
    let Fetched { cursor, from, .. } = &fetched;
    let (cursor, from) = (Arc::clone(cursor), *from);
    let (bytes, aborted) = match &fetched.content {
        Content::Batches { bytes, aborted } => (bytes.clone(), aborted.clone()),
        Content::Refused(code) => {
            refused(shared, &cursor, from.offset, *code)?;
            return Ok(None);
        }
        Content::Truncated(at) => {
            truncated(shared, &cursor, from.offset, *at)?;
            return Ok(None);
        }
        Content::Unreadable(why) => {
            unreadable(shared, &cursor, from.offset, why.clone())?;
            return Ok(None);
        }
    };
    let options = DecodeOptions {
        check_crcs: shared.config.check_crcs,
        read_committed: shared.config.isolation_level == IsolationLevel::ReadCommitted,
        batch_max_bytes: shared.config.batch_max_bytes,
    };
    let empty = Arc::new(RecordBlock::new(Arc::clone(&cursor), from));
    Ok(Some(Open {
        decoder: Decoder::new(cursor, from, bytes, aborted, options),
        rest: RecordSlice { block: empty, from: 0, to: 0 },
        _fetched: fetched,
    }))
}

/// Raises `error` now. The partition goes on from the last record that was handed out, and meets
/// `error` again. Nothing happens if the partition is read elsewhere by now, because then the error
/// no longer matters.
fn stop(shared: &Shared, cursor: &Arc<Cursor>, error: ClientError) -> Result<(), ClientError> {
    let mut subscription = shared.subscription.lock();
    let Some(state) = current(&mut subscription, cursor) else { return Ok(()) };
    state.rewind();
    drop(subscription);
    shared.look_again();
    Err(error)
}

/// The state of the cursor's partition, if that is read there.
fn current<'a>(
    subscription: &'a mut Subscription,
    cursor: &Arc<Cursor>,
) -> Option<&'a mut PartitionState> {
    subscription.get_mut(cursor.partition()).filter(|state| state.is_at(cursor))
}

fn unreadable(
    shared: &Shared,
    cursor: &Arc<Cursor>,
    offset: i64,
    why: String,
) -> Result<(), ClientError> {
    let partition = cursor.partition().to_string();
    stop(shared, cursor, ClientError::CorruptBatch { partition, offset, why })
}

fn truncated(
    shared: &Shared,
    cursor: &Arc<Cursor>,
    offset: i64,
    at: Option<i64>,
) -> Result<(), ClientError> {
    let from = at.map(|at| format!(", from offset {at} on")).unwrap_or_default();
    let partition = cursor.partition();
    let about = format!("{partition}: the log has lost records before offset {offset}{from}");
    stop(shared, cursor, ClientError::broker(ErrorCode::OffsetOutOfRange, about))
}

/// A refusal that came behind everything that was fetched before it. Out of range goes where the
/// policy says, which is no error.
fn refused(
    shared: &Shared,
    cursor: &Arc<Cursor>,
    offset: i64,
    code: ErrorCode,
) -> Result<(), ClientError> {
    let partition = cursor.partition();
    if code == ErrorCode::OffsetOutOfRange
        && let Some(timestamp) = shared.reset_timestamp()
    {
        let mut subscription = shared.subscription.lock();
        if current(&mut subscription, cursor).is_some() {
            tracing::info!(%partition, offset, "the offset is out of range: reset");
            subscription.seek_to(partition, timestamp);
        }
        drop(subscription);
        shared.look_again();
        return Ok(());
    }
    let about = format!("fetch of {partition} at offset {offset}");
    stop(shared, cursor, ClientError::broker(code, about))
}
