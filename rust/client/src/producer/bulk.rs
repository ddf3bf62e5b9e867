//! Many records at once, by column. Some at a time are sorted by partition, so that a partition's
//! batch is locked once for a run of records, not once for each.
//!
//! Records of one partition keep their order. What has no memory yet waits: [`Producer::go_on`]
//! takes up where it stopped.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Producer;
use crate::error::ClientError;
use crate::producer::accumulator::{Handle, NoRoom, Record, Refusal, Ticket, TopicQueues};

/// A value for all records, or one for each.
#[derive(Clone, Copy, Debug)]
pub enum Each<'a, V> {
    /// The same for all.
    Same(V),
    /// One for each.
    Own(&'a [V]),
}

impl<V: Copy> Each<'_, V> {
    #[inline]
    fn at(&self, index: usize) -> V {
        match self {
            Self::Same(value) => *value,
            Self::Own(values) => values[index],
        }
    }
}

/// Headers as they lie in a record: how many, and their bytes.
pub type RawHeaders<'a> = (i32, &'a [u8]);

/// Records by column. Columns of one each are as long as `values`.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// Values; `None` is a tombstone.
    pub values: &'a [Option<&'a [u8]>],
    /// Keys; `None` is no key.
    pub keys: Each<'a, Option<&'a [u8]>>,
    /// Named partitions; `None` leaves it to the key.
    pub partitions: Each<'a, Option<i32>>,
    /// In ms since 1970.
    pub timestamps: Each<'a, i64>,
    /// Headers.
    pub headers: Each<'a, RawHeaders<'a>>,
}

impl<'a> Columns<'a> {
    /// The record at `index`, to be copied now; meanwhile the value of a `later` one is on its way.
    #[inline]
    fn record_to_copy(&self, index: usize, later: Option<usize>) -> Record<'a> {
        if let Some(Some(value)) = later.and_then(|later| self.values.get(later)) {
            prefetch(value);
        }
        self.record(index)
    }

    #[inline]
    fn record(&self, index: usize) -> Record<'a> {
        Record {
            timestamp_ms: self.timestamps.at(index),
            key: self.keys.at(index),
            value: self.values[index],
            headers: self.headers.at(index),
        }
    }
}

/// How many records before it is copied a value is asked for: 3 KiB ahead, for values of 1 KiB.
const RECORDS_AHEAD: usize = 3;
/// Bytes of it; of a longer value the processor sees by itself what is read next.
const MOST_AHEAD_BYTES: usize = 2_048;
/// What memory comes in.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Asks the processor for bytes that are read soon, and does not wait for them.
///
/// Values are objects strewn over more memory than any cache holds. Copied one after the other,
/// each begins with a wait that nothing shortens: the copy of the one before is over by then.
#[inline]
fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes[..bytes.len().min(MOST_AHEAD_BYTES)].chunks(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint. It reads nothing, and no address makes it fault.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Records that went into one batch, next to each other.
pub struct BulkRun<T> {
    /// Knows what becomes of them.
    pub handle: Arc<Handle<T>>,
    /// Their indices in the handle.
    pub indices: Range<u32>,
    /// Where they stand in the order of [`Bulk::position`].
    pub at: usize,
}

/// Most bytes that one call of [`Producer::go_on`] appends, except for the last run. So a call of
/// gigabytes returns now and then, and the caller can look at signals.
const TURN_BYTES: usize = 64 << 20;
/// Records that are sorted at a time. Those without a key stick to one partition for as long.
const SLICE: usize = 2_048;

/// Until when a call with many records waits for memory: `max.block.ms` is for each record, as for
/// records that are sent one by one.
#[derive(Debug)]
pub struct Patience {
    max_block: Duration,
    /// How many records were appended when it last went on, and when that was.
    since: Option<(usize, Instant)>,
}

impl Patience {
    /// Nothing is waited for yet.
    #[must_use]
    pub fn new(max_block: Duration) -> Self {
        Self { max_block, since: None }
    }

    /// The end of the wait of the record after the first `appended` ones.
    pub fn until(&mut self, appended: usize, now: Instant) -> Instant {
        let began = match self.since {
            Some((before, began)) if before == appended => began,
            _ => now,
        };
        self.since = Some((appended, began));
        began + self.max_block
    }
}

/// How far a call with many records got.
pub struct Bulk<T> {
    /// Records by slice and partition, each partition's in their order; `None` is the order they
    /// came in.
    order: Option<Vec<u32>>,
    /// Of the slice at work: each partition, and where its records end in the order.
    buckets: Vec<(u32, usize)>,
    bucket: usize,
    /// How many are appended.
    at: usize,
    /// Their bytes.
    bytes: usize,
    /// What was appended so far.
    pub runs: Vec<BulkRun<T>>,
}

impl<T> Bulk<T> {
    /// The record at place `at` of the order: its index in the columns.
    #[must_use]
    pub fn position(&self, at: usize) -> usize {
        self.order.as_ref().map_or(at, |order| order[at] as usize)
    }

    /// How many records are appended.
    #[must_use]
    pub fn appended(&self) -> usize {
        self.at
    }

    /// Whether all of `columns` is appended.
    #[must_use]
    pub fn is_done(&self, columns: &Columns<'_>) -> bool {
        self.at == columns.values.len()
    }

    /// The order of all records, if it is not the one they came in.
    #[must_use]
    pub fn into_parts(self) -> (Option<Vec<u32>>, Vec<BulkRun<T>>) {
        (self.order, self.runs)
    }

    /// The partitions of what is sorted and not appended are chosen once more: the topic was made
    /// again with fewer of them.
    fn choose_again(&mut self) {
        (self.buckets, self.bucket) = (Vec::new(), 0);
        if let Some(order) = &mut self.order {
            order[self.at..].sort_unstable();
        }
    }

    fn note(&mut self, handle: Arc<Handle<T>>, indices: Range<u32>) {
        let count = indices.len();
        match self.runs.last_mut() {
            Some(last)
                if Arc::ptr_eq(&last.handle, &handle) && last.indices.end == indices.start =>
            {
                last.indices.end = indices.end;
            }
            _ => self.runs.push(BulkRun { handle, indices, at: self.at }),
        }
        self.at += count;
    }
}

impl<T: Send + 'static> Producer<T> {
    /// Checks all records; nothing is appended yet.
    ///
    /// # Errors
    /// If a record is too large, or names a partition that is not there.
    pub fn begin_bulk(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
    ) -> Result<Bulk<T>, ClientError> {
        for index in 0..columns.values.len() {
            self.check_size(&columns.record(index))?;
            if let named @ Some(_) = columns.partitions.at(index) {
                self.partition(topic, named, None)?;
            }
        }
        let is_alike =
            matches!((columns.partitions, columns.keys), (Each::Same(_), Each::Same(None)));
        let order = (!is_alike).then(Vec::new);
        Ok(Bulk { order, buckets: Vec::new(), bucket: 0, at: 0, bytes: 0, runs: Vec::new() })
    }

    /// Appends what is left, for as long as there is memory; of very much a part, see
    /// [`Bulk::is_done`].
    ///
    /// # Errors
    /// If there is no memory for the next record: call again with a ticket, once there may be. If
    /// it names a partition that is gone.
    pub fn go_on(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
        bulk: &mut Bulk<T>,
        ticket: Option<Ticket>,
    ) -> Result<(), NoRoom<T>> {
        let began = bulk.bytes;
        while !bulk.is_done(columns) && bulk.bytes - began < TURN_BYTES {
            let at = bulk.at;
            let appended = match bulk.order.is_some() {
                true => self.append_bucket(topic, columns, bulk, ticket),
                false => self.append_alike(topic, columns, bulk, ticket),
            };
            let Err(refused) = appended else { continue };
            let next = bulk.position(bulk.at.min(columns.values.len() - 1));
            if refused.why != Refusal::Gone || columns.partitions.at(next).is_some() {
                return Err(refused);
            }
            tracing::debug!(topic = %topic.name(), at, "a bulk chooses partitions once more");
            bulk.choose_again();
        }
        Ok(())
    }

    /// Appends records that all go to the same partition for now.
    fn append_alike(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
        bulk: &mut Bulk<T>,
        ticket: Option<Ticket>,
    ) -> Result<(), NoRoom<T>> {
        let partition = self.bulk_partition(topic, columns, 0);
        let end = columns.values.len().min(bulk.at + SLICE);
        let later = |index: usize| Some(index + RECORDS_AHEAD);
        let mut records =
            (bulk.at..end).map(|index| columns.record_to_copy(index, later(index))).peekable();
        let run = self.append_run(topic, partition, &mut records, ticket)?;
        bulk.bytes += run.bytes;
        bulk.note(run.handle, run.first..run.first + run.count);
        Ok(())
    }

    /// Appends the next records of a partition; sorts a slice of records first if none is left.
    pub(super) fn append_bucket(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
        bulk: &mut Bulk<T>,
        ticket: Option<Ticket>,
    ) -> Result<(), NoRoom<T>> {
        if bulk.bucket == bulk.buckets.len() {
            let order = bulk.order.get_or_insert_default();
            if order.len() == bulk.at {
                let end = columns.values.len().min(bulk.at + SLICE);
                order.extend(bulk.at as u32..end as u32);
            }
            bulk.buckets = self.sort(topic, columns, bulk.at, order);
            bulk.bucket = 0;
        }
        let (partition, end) = bulk.buckets[bulk.bucket];
        while bulk.at < end {
            let rest = bulk.order.as_ref().map_or(&[][..], |order| &order[bulk.at..end]);
            let later = |at: usize| rest.get(at + RECORDS_AHEAD).map(|index| *index as usize);
            let records = (rest.iter().enumerate())
                .map(|(at, index)| columns.record_to_copy(*index as usize, later(at)));
            let run = self.append_run(topic, partition, &mut records.peekable(), ticket)?;
            bulk.bytes += run.bytes;
            bulk.note(run.handle, run.first..run.first + run.count);
        }
        bulk.bucket += 1;
        Ok(())
    }

    /// The error of the next record, which names a partition that is gone.
    #[must_use]
    pub fn gone(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
        bulk: &Bulk<T>,
    ) -> ClientError {
        let named = columns.partitions.at(bulk.position(bulk.at));
        ClientError::NoPartition {
            topic: topic.name().to_string(),
            count: topic.partition_count() as usize,
            partition: named.unwrap_or(-1),
        }
    }

    /// Where a record goes; all that nothing decides about, to the same partition for now.
    fn bulk_partition(&self, topic: &TopicQueues<T>, columns: &Columns<'_>, index: usize) -> u32 {
        match columns.partitions.at(index).and_then(|named| u32::try_from(named).ok()) {
            Some(named) => named,
            None => self.accumulator.partition(topic, columns.keys.at(index)),
        }
    }

    /// Sorts the order from place `from` on by partition, and in order within each: by counting.
    fn sort(
        &self,
        topic: &TopicQueues<T>,
        columns: &Columns<'_>,
        from: usize,
        order: &mut [u32],
    ) -> Vec<(u32, usize)> {
        let slice = order[from..].to_vec();
        let place_of = |index: &u32| self.bulk_partition(topic, columns, *index as usize);
        let of: Vec<u32> = slice.iter().map(place_of).collect();
        let most = of.iter().max().map_or(0, |most| *most as usize);
        let mut next = vec![0_usize; most + 1];
        for partition in &of {
            next[*partition as usize] += 1;
        }
        let mut buckets = Vec::new();
        let mut end = from;
        for (partition, count) in next.iter_mut().enumerate() {
            let start = end;
            end += *count;
            if *count > 0 {
                buckets.push((partition as u32, end));
            }
            *count = start;
        }
        for (index, partition) in slice.into_iter().zip(of) {
            let place = &mut next[partition as usize];
            order[*place] = index;
            *place += 1;
        }
        buckets
    }
}
