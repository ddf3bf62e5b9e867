//! The follower's side of replication: what to ask one leader next, and what its answer means.
//!
//! Pure: time is handed in, and so are the logs of this broker ([`LocalReplicas`]). A thread
//! sends the questions and brings the answers, one at a time. While an answer is on its way the
//! leader gathers records, so answers grow with the load.
//!
//! ```text
//!            +--------- DivergingEpoch: truncate ---------+
//!            v                                            |
//!  follow -> Fetching -- records: append, fetch on -------+
//!            ^  |  \---- any error: wait, then fetch again
//!            |  OFFSET_OUT_OF_RANGE
//!            |  v
//!            |  Epochs -- OffsetForLeaderEpoch: truncate where the logs part
//!            |  v      the leader's log holds all that is here
//!            +-- Start -- ListOffsets: begin anew where the leader's log starts
//! ```
//! An answer counts for the leader epoch in which it was asked for, and for the end that the log
//! had then. The log refuses what does not continue it: CRC, offsets, epochs of batches.
//! Source: Kafka's `AbstractFetcherThread`; KIP-101, KIP-279, KIP-595.

use kafkalite_protocol::messages::fetch::{FetchRequest, FetchResponse, PartitionData};
use kafkalite_protocol::messages::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Records, Uuid};
use session::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod questions;
mod session;

/// A partition, as leader and follower both name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition's index in the topic.
    pub partition: i32,
}

/// How far a log on this broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first offset there is.
    pub start: Offset,
    /// The offset that the next record gets.
    pub end: Offset,
    /// The epoch of the last record; unknown for an empty log.
    pub latest_epoch: LeaderEpoch,
}

/// What a leader sent of one partition.
#[derive(Clone, Debug)]
pub struct FetchedRecords {
    /// Batches as they are in the leader's log; the last one may be cut.
    pub records: bytes::Bytes,
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// Where the leader's log starts.
    pub log_start: Offset,
}

/// The logs of this broker. Where a change returns `None` it failed, or the replica does not follow
/// in that epoch any more; the implementation reports why.
pub trait LocalReplicas {
    /// How far the log is. `None`: nothing may be fetched for now. The log is not open, or the
    /// metadata do not note its directory yet.
    fn position(&self, key: ReplicaKey) -> Option<Position>;

    /// The largest epoch up to `epoch` that the log knows, and where it ended.
    fn end_of_epoch(&self, key: ReplicaKey, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)>;

    /// Whether a replica that is behind fetches nothing for now, because too much was fetched.
    fn is_throttled(&self, _key: ReplicaKey) -> bool {
        false
    }

    /// Appends records, and takes over what came with them.
    fn append(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        fetched: &FetchedRecords,
    ) -> Option<Position>;

    /// Cuts off `to` and everything after it.
    fn truncate(&self, key: ReplicaKey, epoch: LeaderEpoch, to: Offset) -> Option<Position>;

    /// Drops every record: the next one gets `start`.
    fn restart(&self, key: ReplicaKey, epoch: LeaderEpoch, start: Offset) -> Option<Position>;
}

/// Why a partition is not fetched for now.
enum Pause {
    NoLog,
    Throttled,
}

/// How long a throttled partition waits for the next look, in ms.
const THROTTLED_MS: u64 = 100;

/// The wait after the first error, in ms; each one in a row doubles it.
const FIRST_BACKOFF_MS: u64 = 20;

/// What is asked of a leader, beside the partitions.
#[derive(Clone, Copy, Debug)]
pub struct FetcherConfig {
    /// This broker's id.
    pub replica_id: i32,
    /// Its broker epoch: a former life of this broker must not count as in sync.
    pub broker_epoch: i64,
    /// `replica.fetch.wait.max.ms`
    pub max_wait_ms: i32,
    /// `replica.fetch.min.bytes`
    pub min_bytes: i32,
    /// `replica.fetch.response.max.bytes`
    pub max_bytes: i32,
    /// `replica.fetch.max.bytes`
    pub partition_max_bytes: i32,
    /// `replica.fetch.backoff.ms`: the longest wait after errors; the first ones are shorter.
    pub backoff_ms: u64,
}

impl FetcherConfig {
    /// The wait after so many errors in a row. Followers may have the image of an election before
    /// its leader has it, and ask again soon.
    fn backoff_after(&self, failures: u32) -> u64 {
        self.backoff_ms.min(FIRST_BACKOFF_MS << failures.saturating_sub(1).min(16))
    }
}

impl Default for FetcherConfig {
    /// Kafka's defaults; ids are handed in.
    fn default() -> Self {
        Self {
            replica_id: -1,
            broker_epoch: -1,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 10 << 20,
            partition_max_bytes: 1 << 20,
            backoff_ms: 1_000,
        }
    }
}

/// A request to the leader.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Asks for records.
    Fetch(FetchRequest),
    /// Asks where epochs ended.
    Epochs(OffsetForLeaderEpochRequest),
    /// Asks where logs start.
    Starts(ListOffsetsRequest),
}

/// The leader's answer to a [`Question`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a fetch.
    Fetch(FetchResponse),
    /// Where epochs ended.
    Epochs(OffsetForLeaderEpochResponse),
    /// Where logs start.
    Starts(ListOffsetsResponse),
}

/// What there is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Send this; its outcome goes to [`Fetcher::answered`] or [`Fetcher::failed`].
    Ask(Question),
    /// Nothing before this time, in ms of monotonic time, unless partitions change; `None`: nothing
    /// at all.
    Wait(Option<u64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Fetching,
    /// The leader does not have the offset: where do the logs part?
    Epochs,
    /// All that is here was the leader's once: where does its log start?
    Start,
    /// Nothing is asked before this time.
    Delayed(u64),
}

#[derive(Clone, Debug)]
struct Followed {
    name: Arc<str>,
    epoch: LeaderEpoch,
    progress: Progress,
    /// Errors since the last answer without one.
    failures: u32,
    /// It had not everything when it was fetched last, or it was not fetched yet.
    is_behind: bool,
}

/// What the question under way says of a partition: the answer counts for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    epoch: LeaderEpoch,
    position: Position,
}

/// Follows the partitions that one broker leads.
#[derive(Debug)]
pub struct Fetcher {
    config: FetcherConfig,
    partitions: BTreeMap<ReplicaKey, Followed>,
    /// What the leader knows of this follower.
    session: Session,
    /// Partitions whose part in the next fetch may have changed.
    changed: BTreeSet<ReplicaKey>,
    /// Partitions that wait, by the end of their wait.
    delayed: BTreeSet<(u64, ReplicaKey)>,
    /// Partitions with another question than a fetch.
    lost: BTreeSet<ReplicaKey>,
    /// What was asked of each partition in a question that is no fetch: the session knows fetches.
    asked: BTreeMap<ReplicaKey, Asked>,
    /// The leader does not answer: nothing is asked before this time.
    not_before_ms: u64,
    /// Fetches in a row that it did not answer.
    failures: u32,
}

impl Fetcher {
    /// Follows nothing yet.
    #[must_use]
    pub fn new(config: FetcherConfig) -> Self {
        Self {
            config,
            partitions: BTreeMap::new(),
            session: Session::default(),
            changed: BTreeSet::new(),
            delayed: BTreeSet::new(),
            lost: BTreeSet::new(),
            asked: BTreeMap::new(),
            not_before_ms: 0,
            failures: 0,
        }
    }

    /// Whether it follows nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Follows a partition in `epoch` from now on, or looks at it again: its log may be ready now.
    /// Whether it is news.
    pub fn follow(&mut self, key: ReplicaKey, name: &Arc<str>, epoch: LeaderEpoch) -> bool {
        let known = self.partitions.get(&key).is_some_and(|known| known.epoch == epoch);
        if !known {
            self.unfollow(key);
            let (name, progress) = (Arc::clone(name), Progress::Fetching);
            self.partitions
                .insert(key, Followed { name, epoch, progress, failures: 0, is_behind: true });
        } else if let Some(Progress::Delayed(_)) = self.progress(key) {
            self.set(key, Progress::Fetching);
        }
        self.changed.insert(key);
        !known
    }

    /// Follows a partition no more. An answer that is on its way does not count.
    pub fn unfollow(&mut self, key: ReplicaKey) {
        if self.partitions.contains_key(&key) {
            self.set(key, Progress::Fetching);
        }
        self.partitions.remove(&key);
        self.asked.remove(&key);
        self.changed.insert(key);
    }

    fn progress(&self, key: ReplicaKey) -> Option<Progress> {
        self.partitions.get(&key).map(|followed| followed.progress)
    }

    fn set(&mut self, key: ReplicaKey, progress: Progress) {
        let Some(followed) = self.partitions.get_mut(&key) else { return };
        let before = std::mem::replace(&mut followed.progress, progress);
        match before {
            Progress::Delayed(until) => _ = self.delayed.remove(&(until, key)),
            Progress::Epochs | Progress::Start => _ = self.lost.remove(&key),
            Progress::Fetching => {}
        }
        match progress {
            Progress::Delayed(until) => _ = self.delayed.insert((until, key)),
            Progress::Epochs | Progress::Start => _ = self.lost.insert(key),
            Progress::Fetching => {}
        }
        self.changed.insert(key);
    }

    fn delay(&mut self, key: ReplicaKey, now_ms: u64) {
        let Some(followed) = self.partitions.get_mut(&key) else { return };
        followed.failures = followed.failures.saturating_add(1);
        let wait_ms = self.config.backoff_after(followed.failures);
        self.set(key, Progress::Delayed(now_ms.saturating_add(wait_ms)));
    }

    fn succeeded(&mut self, key: ReplicaKey) {
        self.partitions.entry(key).and_modify(|followed| followed.failures = 0);
    }

    /// What to do at `now_ms`. Nothing is under way.
    pub fn next(&mut self, now_ms: u64, logs: &impl LocalReplicas) -> Next {
        while let Some((until, key)) = self.delayed.first().copied() {
            if until > now_ms {
                break;
            }
            self.set(key, Progress::Fetching);
        }
        if now_ms < self.not_before_ms {
            return Next::Wait(Some(self.not_before_ms));
        }
        if let Some(question) = self.question_for_lost(now_ms, logs) {
            return Next::Ask(question);
        }
        for key in std::mem::take(&mut self.changed) {
            match self.wish(key, logs) {
                Ok(wish) => self.session.wish(key, wish),
                Err(pause) => {
                    self.session.wish(key, None);
                    match pause {
                        Pause::NoLog => self.delay(key, now_ms),
                        Pause::Throttled => {
                            let until_ms = now_ms.saturating_add(THROTTLED_MS);
                            self.set(key, Progress::Delayed(until_ms));
                        }
                    }
                    self.changed.remove(&key);
                }
            }
        }
        match self.session.request(&self.config) {
            Some(request) => Next::Ask(Question::Fetch(request)),
            None => Next::Wait(self.delayed.first().map(|(until, _)| *until)),
        }
    }

    /// What the next fetch asks of a partition, if anything. An error says why nothing may be
    /// asked for now.
    fn wish(&self, key: ReplicaKey, logs: &impl LocalReplicas) -> Result<Option<Asked>, Pause> {
        let fetching = self.partitions.get(&key);
        let fetching = fetching.filter(|one| one.progress == Progress::Fetching);
        let Some(Followed { epoch, is_behind, .. }) = fetching else { return Ok(None) };
        let position = logs.position(key).ok_or(Pause::NoLog)?;
        if *is_behind && logs.is_throttled(key) {
            return Err(Pause::Throttled);
        }
        Ok(Some(Asked { epoch: *epoch, position }))
    }

    /// The leader cannot be reached, or its answer was none: everything is asked again after
    /// a while.
    pub fn failed(&mut self, now_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms.saturating_add(self.config.backoff_after(self.failures));
        self.interrupted();
    }

    /// The answer to what was asked last is waited for no longer; it may be asked again at once.
    pub fn interrupted(&mut self) {
        self.session.lose();
        self.asked.clear();
    }

    /// Takes the answer to what was asked last.
    pub fn answered(&mut self, now_ms: u64, answer: Answer, logs: &impl LocalReplicas) {
        match answer {
            Answer::Fetch(response) => self.take_fetched(now_ms, response, logs),
            Answer::Epochs(response) => self.take_epochs(now_ms, &response, logs),
            Answer::Starts(response) => self.take_starts(now_ms, &response, logs),
        }
    }

    fn take_fetched(&mut self, now_ms: u64, response: FetchResponse, logs: &impl LocalReplicas) {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                self.failures = 0;
                self.session.answered(response.session_id);
            }
            ErrorCode::FetchSessionIdNotFound
            | ErrorCode::InvalidFetchSessionEpoch
            | ErrorCode::FetchSessionTopicIdError
                if self.session.is_open() =>
            {
                return self.session.lose();
            }
            _ => return self.failed(now_ms),
        }
        for topic in response.responses {
            for data in topic.partitions {
                let key = ReplicaKey { topic_id: topic.topic_id, partition: data.partition_index };
                self.take_partition(now_ms, key, data, logs);
            }
        }
    }

    fn take_partition(
        &mut self,
        now_ms: u64,
        key: ReplicaKey,
        data: PartitionData,
        logs: &impl LocalReplicas,
    ) {
        // The partition may be another leader's by now, or be followed in another epoch.
        let Some(asked) = self.session.asked(key) else { return };
        let is_current =
            |one: &Followed| one.epoch == asked.epoch && one.progress == Progress::Fetching;
        if !self.partitions.get(&key).is_some_and(is_current) {
            return;
        }
        match ErrorCode::from_code(data.error_code) {
            ErrorCode::None => {}
            ErrorCode::OffsetOutOfRange => return self.set(key, Progress::Epochs),
            // Who leads now stands in an image that comes, or the leader's does.
            _ => return self.delay(key, now_ms),
        }
        let diverging = &data.diverging_epoch;
        if diverging.end_offset >= 0 {
            let parted = (LeaderEpoch(diverging.epoch), Offset(diverging.end_offset));
            let start = Some(Offset(data.log_start_offset));
            if !self.truncate(key, asked, parted, start, logs) {
                self.delay(key, now_ms);
            }
            return;
        }
        if logs.position(key).is_none_or(|now| now.end != asked.position.end) {
            // The records continue a log that is another one now.
            return self.set(key, Progress::Fetching);
        }
        let fetched = FetchedRecords {
            records: data.records.map(Records::into_bytes).unwrap_or_default(),
            high_watermark: Offset(data.high_watermark),
            log_start: Offset(data.log_start_offset),
        };
        let appended = logs.append(key, asked.epoch, &fetched);
        if let (Some(position), Some(followed)) = (appended, self.partitions.get_mut(&key)) {
            followed.is_behind = position.end < fetched.high_watermark;
        }
        match appended {
            None => return self.delay(key, now_ms),
            Some(position) if position != asked.position => self.set(key, Progress::Fetching),
            Some(_) => {}
        }
        self.succeeded(key);
    }

    /// Cuts the log where it parts from the leader's, whose records of an epoch up to ours end at
    /// `parted`. Whether anything changed.
    ///
    /// If nothing would be left that the leader still has, nothing is left: the leader may have had
    /// other records before its `start`. A replica that kept its own, and led later, would show
    /// records that were never committed.
    fn truncate(
        &mut self,
        key: ReplicaKey,
        asked: Asked,
        parted: (LeaderEpoch, Offset),
        start: Option<Offset>,
        logs: &impl LocalReplicas,
    ) -> bool {
        let (epoch, end) = parted;
        let to = match logs.end_of_epoch(key, epoch) {
            // Both have records of the epoch: the shorter of the two is common.
            Some((own, own_end)) if own == epoch => own_end.min(end),
            // This log has none: what follows the largest epoch below is not the leader's.
            Some((_, own_end)) => own_end,
            None => end,
        };
        let Position { start: own_start, end: own_end, .. } = asked.position;
        let changed = match start {
            Some(start) if to <= start && (own_start, own_end) != (start, start) => {
                logs.restart(key, asked.epoch, start)
            }
            _ if to < own_end => logs.truncate(key, asked.epoch, to),
            _ => return false,
        };
        self.set(key, Progress::Fetching);
        changed.is_some_and(|position| position != asked.position)
    }
}

#[cfg(test)]
mod tests;
