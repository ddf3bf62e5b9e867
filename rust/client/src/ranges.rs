//! Reads offset ranges `[start, end)` of partitions, each once, and ends when all are read.
//!
//! A consumer without a group does the work; nothing is fetched from a range's end on. An end need
//! not exist: if compaction or transaction markers took the last records, a range ends with the
//! position that passes it. Offsets that the log no longer has are an error, or are counted and
//! skipped, as the caller wishes. The same holds for removed partitions. Under `read_committed` the
//! reader waits for records that are not stable yet. A reader can get other ranges afterwards: its
//! connections stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_connection::{ClusterImage, Wanted};
use kafkalite_protocol::{ErrorCode, Uuid};

use crate::clock::Clock;
use crate::config::{ConsumerConfig, IsolationLevel};
use crate::consumer::cursor::Position;
use crate::consumer::missing::lacks;
use crate::consumer::positions::suspect_leaders;
use crate::consumer::record_block::RecordSlice;
use crate::consumer::subscription::{EARLIEST, LATEST};
use crate::consumer::{Consumer, Limits, Next, calls};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

mod range;
#[cfg(test)]
mod tests;

pub use range::{OffsetRange, RangeOptions, Step};

/// How often ranges are looked at whose last records are not handed out, being markers.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Without a record for this long the log is asked whether it still has what is wanted.
const DOUBT_AFTER: Duration = Duration::from_secs(5);

/// A partition that brokers do not know counts as gone after this time. A broker that just started,
/// or gets a change late, knows the partition soon.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Reads offset ranges.
pub struct RangeReader {
    consumer: Consumer,
    options: RangeOptions,
    ends: BTreeMap<TopicPartition, i64>,
    /// Ranges of topics whose ids are known, without the records that were handed out.
    of_topics: Vec<OffsetRange>,
    /// The sum of the offsets that are fetched next, wrapped: while it changes, something comes.
    reached: i64,
    last_progress: Instant,
    doubted: Instant,
    /// Since when brokers say that a partition is not there.
    missing: BTreeMap<TopicPartition, Instant>,
    /// What keeps it from reading and may pass.
    passing: Option<ClientError>,
    lost: u64,
    clock: Clock,
}

impl RangeReader {
    /// A reader without ranges; no I/O happens. Group and reset policy of `config` do not matter.
    ///
    /// # Errors
    /// If the system gives it no thread.
    pub fn new(config: ConsumerConfig) -> Result<Self, ClientError> {
        Self::with_clock(config, Box::new(Instant::now))
    }

    fn with_clock(mut config: ConsumerConfig, clock: Clock) -> Result<Self, ClientError> {
        config.group_id = None;
        config.auto_commit = false;
        config.auto_offset_reset = crate::config::AutoOffsetReset::None;
        // Who asks for ranges knows that there are records: a topic that went must not come back.
        config.client.connection.allow_auto_create_topics = false;
        let options = RangeOptions { may_lose: false, stall_timeout: Duration::from_secs(120) };
        let now = clock();
        Ok(Self {
            consumer: Consumer::new(config)?,
            options,
            ends: BTreeMap::new(),
            of_topics: Vec::new(),
            reached: 0,
            last_progress: now,
            doubted: now,
            missing: BTreeMap::new(),
            passing: None,
            lost: 0,
            clock,
        })
    }

    /// Reads these ranges and forgets those before.
    ///
    /// # Errors
    /// If a partition has two ranges or a negative offset: then it goes on with those before.
    pub fn start(
        &mut self,
        ranges: &[OffsetRange],
        options: RangeOptions,
    ) -> Result<(), ClientError> {
        let ends = range::ends_of(ranges)?;
        // Cursors of earlier ranges are retired with their partitions.
        self.consumer.assign(&BTreeSet::new())?;
        // What is wrong with partitions of theirs is no error of these.
        while self.consumer.shared().take_error().is_some() {}
        self.ends = ends;
        self.missing.clear();
        self.passing = None;
        let of_topics = ranges.iter().filter(|range| !range.topic_id.is_zero());
        self.of_topics = of_topics.cloned().collect();
        self.consumer.assign(&self.ends.keys().cloned().collect())?;
        self.of_topics.retain(|range| self.ends.contains_key(&range.partition));
        for range in ranges.iter().filter(|range| range.start < range.end) {
            let mut subscription = self.consumer.shared().subscription.lock();
            if let Some(state) = subscription.get_mut(&range.partition) {
                state.set_end(range.end);
            }
            drop(subscription);
            self.consumer.seek(&range.partition, Position::at(range.start))?;
        }
        let now = (self.clock)();
        (self.last_progress, self.doubted, self.lost) = (now, now, 0);
        self.options = options;
        Ok(())
    }

    /// Nothing more is wanted of the ranges.
    pub fn stop(&mut self) {
        self.ends.clear();
        self.of_topics.clear();
        // Closed, or in another process: there is nothing to stop.
        let _ = self.consumer.assign(&BTreeSet::new());
    }

    /// Offsets that were wanted and are not there any more, since [`RangeReader::start`].
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits for records until `deadline`.
    ///
    /// # Errors
    /// The error that prevents reading; one that may pass is raised after the stall timeout.
    /// `REQUEST_TIMED_OUT` if nothing came in that time. `OFFSET_OUT_OF_RANGE` if offsets are gone
    /// and must not be.
    pub fn next(&mut self, limits: Limits, deadline: Instant) -> Result<Step, ClientError> {
        loop {
            if self.ends.is_empty() {
                return Ok(Step::End);
            }
            let until = deadline.min(Instant::now() + LOOK_EVERY);
            let mut taken = self.consumer.next(limits, until).map(|next| match next {
                Next::Records(taken) => taken.keep(),
                Next::Event(_) | Next::Nothing => Vec::new(),
            });
            let others = self.look_for_other_topics()?;
            if let Ok(slices) = &mut taken {
                slices.retain(|slice| !others.contains(slice.block.cursor().partition()));
            }
            match taken {
                Ok(slices) if !slices.is_empty() => {
                    let slices = self.within(slices);
                    self.last_progress = (self.clock)();
                    self.leave_what_is_read()?;
                    if !slices.is_empty() {
                        self.note_handed_out(&slices);
                        return Ok(Step::Records(slices));
                    }
                }
                Ok(_) => self.leave_what_is_read()?,
                Err(error) => self.look_into(error)?,
            }
            // Before it is looked at what came: what comes in between counts at the next look.
            let now = (self.clock)();
            self.note_progress();
            let waited = now.saturating_duration_since(self.last_progress);
            let doubtful = now.saturating_duration_since(self.doubted);
            let patience = self.patience();
            if waited >= patience && doubtful >= patience {
                self.doubted = now;
                // A leader that is cut off lacks what was written since, and says so.
                suspect_leaders(self.consumer.shared(), self.ends.keys());
                self.look_for_missing()?;
                self.look_for_loss()?;
            }
            self.check_stall(waited)?;
            if Instant::now() >= deadline && !self.ends.is_empty() {
                return Ok(Step::Nothing);
            }
        }
    }

    /// How long nothing may come before the reader asks for the log's offsets. It is well below the
    /// stall timeout, and shorter if a partition was missing at the last look.
    fn patience(&self) -> Duration {
        let most = if self.missing.is_empty() { DOUBT_AFTER } else { GONE_AFTER };
        most.min(self.options.stall_timeout / 4)
    }

    /// When to end a look at what is there: no later than a quarter past the stall timeout.
    fn look_until(&self) -> Instant {
        let most = self.options.stall_timeout;
        let waited = (self.clock)().saturating_duration_since(self.last_progress);
        let left = most.saturating_sub(waited).max(most / 4);
        let request_timeout = self.consumer.config().client.connection.request_timeout;
        Instant::now() + left.min(request_timeout)
    }

    /// An error is the end, unless
    /// - case A: offsets are out of range: it is looked for what is gone
    /// - case B: no broker was reached yet: one is waited for, like one that went away
    /// - case C: a partition is not there and may be lost: it is given up when it stays away
    fn look_into(&mut self, error: ClientError) -> Result<(), ClientError> {
        let gone = error.code() == Some(ErrorCode::UnknownTopicOrPartition);
        if error.code() == Some(ErrorCode::OffsetOutOfRange) {
            self.look_for_loss()
        } else if matches!(error, ClientError::NoBrokerReachable { .. }) {
            self.passing = Some(error);
            Ok(())
        } else if gone && self.options.may_lose {
            self.passing = Some(error);
            self.look_for_missing()?;
            // The consumer says it again at once.
            std::thread::sleep(LOOK_EVERY);
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Fetched records are progress, although markers and aborted records are never handed out.
    fn note_progress(&mut self) {
        let subscription = self.consumer.shared().subscription.lock();
        let next = self.ends.keys().filter_map(|one| subscription.get(one));
        let offsets = next.map(|state| state.next_fetch().offset);
        let reached = offsets.fold(0, i64::wrapping_add);
        if reached != self.reached {
            // The time after the look counts, because a delay before the look is no wait for
            // records.
            drop(subscription);
            (self.reached, self.last_progress) = (reached, (self.clock)());
            self.passing = None;
        }
    }

    fn check_stall(&mut self, waited: Duration) -> Result<(), ClientError> {
        if waited < self.options.stall_timeout || self.ends.is_empty() {
            return Ok(());
        }
        if let Some(error) = self.passing.take() {
            return Err(error);
        }
        let names: Vec<_> = self.ends.keys().map(ToString::to_string).collect();
        let what = format!("a record of {}", names.join(", "));
        Err(ClientError::Timeout { what, after_ms: waited.as_millis() as u64 })
    }

    /// A range that begins again begins behind these records.
    fn note_handed_out(&mut self, slices: &[RecordSlice]) {
        for RecordSlice { block, to, .. } in slices {
            let of_partition =
                |range: &&mut OffsetRange| range.partition == *block.cursor().partition();
            for range in self.of_topics.iter_mut().filter(of_partition) {
                range.start = block.offset(to - 1) + 1;
            }
        }
    }

    /// The partitions that were read of other topics than the ranges are of. Such a topic
    /// - case A: was made again since: the rest of the range is gone, an error or passed over
    /// - case B: was there before, and is all that this reader knows: the range begins again behind
    ///   what was handed out
    fn look_for_other_topics(&mut self) -> Result<BTreeSet<TopicPartition>, ClientError> {
        let is_other = |range: &&OffsetRange| {
            let subscription = self.consumer.shared().subscription.lock();
            let known = subscription.get(&range.partition).map_or(Uuid::ZERO, |one| one.topic_id());
            !known.is_zero() && known != range.topic_id
        };
        let others: Vec<_> = self.of_topics.iter().filter(is_other).cloned().collect();
        let partitions = others.iter().map(|range| range.partition.clone()).collect();
        if others.is_empty() {
            return Ok(partitions);
        }
        let image = self.ask_for_topics()?;
        for OffsetRange { partition, start, end, topic_id } in others {
            let there = image.as_ref().and_then(|image| image.topic(&partition.topic));
            if there.is_none_or(|topic| topic.id.is_zero() || topic.id == topic_id) {
                self.consumer.seek(&partition, Position::at(start))?;
                continue;
            }
            if !self.options.may_lose {
                let about = format!(
                    "{partition}, of which offsets {start} to {} are read: its topic was deleted \
                     and made again",
                    end - 1
                );
                return Err(ClientError::broker(ErrorCode::UnknownTopicId, about));
            }
            self.lost += (end - start) as u64;
            tracing::warn!(%partition, start, end, "the topic of a range is gone");
            self.leave(std::slice::from_ref(&partition))?;
        }
        Ok(partitions)
    }

    /// Asks for the topics that are still read; `None` if no broker could say, and waiting may
    /// help.
    fn ask_for_topics(&self) -> Result<Option<Arc<ClusterImage>>, ClientError> {
        let names: BTreeSet<_> = self.ends.keys().map(|one| one.topic.to_string()).collect();
        let cluster = self.consumer.shared().cluster.clone();
        let deadline = self.look_until();
        let wanted = Wanted::Topics(names.into_iter().collect());
        let asked = async move { Ok(cluster.refresh(wanted).await?) };
        match self.consumer.runtime().call(asked, deadline) {
            Ok(image) => Ok(Some(image)),
            Err(error) if error.retriable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What of the slices is in the ranges: batches come whole.
    fn within(&self, slices: Vec<RecordSlice>) -> Vec<RecordSlice> {
        let cut = |mut slice: RecordSlice| {
            let end = *self.ends.get(slice.block.cursor().partition())?;
            if slice.block.offset(slice.to - 1) >= end {
                let records = slice.from..slice.to;
                slice.to = slice.from
                    + records.take_while(|index| slice.block.offset(*index) < end).count();
            }
            (!slice.is_empty()).then_some(slice)
        };
        slices.into_iter().filter_map(cut).collect()
    }

    fn position(&self, partition: &TopicPartition) -> Option<i64> {
        let subscription = self.consumer.shared().subscription.lock();
        Some(subscription.get(partition)?.position()?.offset)
    }

    /// Whether records of it wait to be handed out: they are here, whatever its log has now.
    fn has_more(&self, partition: &TopicPartition) -> bool {
        let subscription = self.consumer.shared().subscription.lock();
        subscription.get(partition).is_some_and(|state| state.cursor().buffered_bytes() > 0)
    }

    fn leave_what_is_read(&mut self) -> Result<(), ClientError> {
        let read: Vec<_> = self
            .ends
            .iter()
            .filter(|(partition, end)| self.position(partition).is_some_and(|at| at >= **end))
            .map(|(partition, _)| partition.clone())
            .collect();
        self.leave(&read)
    }

    fn leave(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        if partitions.is_empty() {
            return Ok(());
        }
        for partition in partitions {
            self.ends.remove(partition);
        }
        self.of_topics.retain(|range| self.ends.contains_key(&range.partition));
        // What came along behind their ends goes with them.
        self.consumer.assign(&self.ends.keys().cloned().collect())
    }

    /// Asks which partitions are there. One that stays away is an error, or passed over.
    fn look_for_missing(&mut self) -> Result<(), ClientError> {
        let Some(image) = self.ask_for_topics()? else { return Ok(()) };
        let is_missing =
            |one: &&TopicPartition| image.is_missing(&one.topic) || lacks(&image, one).is_some();
        let missing: BTreeSet<_> = self.ends.keys().filter(is_missing).cloned().collect();
        let now = (self.clock)();
        self.missing.retain(|one, _| missing.contains(one));
        for partition in missing {
            let since = *self.missing.entry(partition.clone()).or_insert(now);
            let end = self.ends.get(&partition).copied().unwrap_or_default();
            let from = self.position(&partition).unwrap_or(end);
            let gone_after = GONE_AFTER.min(self.options.stall_timeout / 4);
            if now.saturating_duration_since(since) < gone_after || self.has_more(&partition) {
                continue;
            }
            if !self.options.may_lose {
                let about = format!("{partition}, of which offsets {from} to {} are read", end - 1);
                return Err(ClientError::broker(ErrorCode::UnknownTopicOrPartition, about));
            }
            self.lost += (end - from).max(0) as u64;
            tracing::warn!(%partition, from, end, "a partition is gone and passed over");
            self.leave(std::slice::from_ref(&partition))?;
        }
        Ok(())
    }

    /// Asks for both ends of every log that is still read. The end is that of all its records: what
    /// an open transaction holds back comes yet. What is gone
    /// - case A: must not be: an error
    /// - case B: is all of the rest: the range is over
    /// - case C: is its beginning: it goes on where the log begins
    fn look_for_loss(&mut self) -> Result<(), ClientError> {
        let until = self.look_until();
        let (Some(first), Some(last)) = (self.ask(EARLIEST, until)?, self.ask(LATEST, until)?)
        else {
            return Ok(());
        };
        let ends = self.ends.clone();
        for (partition, end) in &ends {
            let (Some(at), Some(first), Some(last)) =
                (self.position(partition), first.get(partition), last.get(partition))
            else {
                continue;
            };
            if self.has_more(partition) {
                continue;
            }
            let (from, to) = if at < *first {
                (at, (*first).min(*end))
            } else if at >= *last && *last < *end {
                (at, *end)
            } else {
                continue;
            };
            if !self.options.may_lose {
                let about = format!(
                    "offsets {from} to {} of {partition} are gone: its log has {first} to {last}",
                    to - 1
                );
                return Err(ClientError::broker(ErrorCode::OffsetOutOfRange, about));
            }
            self.lost += (to - from) as u64;
            tracing::warn!(%partition, from, to, "offsets are gone and passed over");
            if to >= *end {
                self.leave(std::slice::from_ref(partition))?;
            } else {
                self.consumer.seek(partition, Position::at(to))?;
            }
        }
        Ok(())
    }

    /// One end of every log that is there; `None` if no broker could say, and waiting may help.
    fn ask(
        &self,
        about: i64,
        deadline: Instant,
    ) -> Result<Option<BTreeMap<TopicPartition, i64>>, ClientError> {
        let there = self.ends.keys().filter(|partition| !self.missing.contains_key(partition));
        let wanted = there.map(|partition| (partition.clone(), about)).collect();
        let shared = Arc::clone(self.consumer.shared());
        let all = IsolationLevel::ReadUncommitted;
        let asked = calls::offsets_as_seen(shared, wanted, all, deadline);
        match self.consumer.runtime().call(asked, deadline) {
            Ok(found) => {
                let found = found.into_iter();
                Ok(Some(found.filter_map(|(one, at)| Some((one, at?.offset))).collect()))
            }
            Err(error) if error.retriable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends its thread and connections, within `timeout`.
    pub fn close(&self, timeout: Duration) {
        // Without a group there is nothing that could fail.
        let _ = self.consumer.close(timeout, true);
    }
}
