//! One assigned partition: where it stands, and what stands between it and its next fetch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

use super::nearby::Nearby;
use super::quiet::Quiet;
use crate::consumer::cursor::{Cursor, NO_EPOCH, Position, next_tenure};
use crate::topic_partition::TopicPartition;

/// Metadata that are older than a position are asked for again for this time.
const OLD_FOR: Duration = Duration::from_secs(30);

/// Who leads a partition, and since which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAndEpoch {
    /// The broker's id.
    pub node: i32,
    /// Its epoch; -1 if brokers are too old to say.
    pub epoch: i32,
}

/// What a partition waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// For its committed offset.
    Committed,
    /// For the offset of a timestamp, or of an end.
    Reset {
        /// In ms, or `EARLIEST` or `LATEST`.
        timestamp: i64,
    },
    /// For its leader to say whether the log was cut before its position.
    Validate,
    /// For nothing: it has a position and is read.
    Reading,
    /// For the user: there is neither a committed offset nor a policy.
    NoPosition,
}

/// The state of a partition's log in the last fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The first offset there is.
    pub log_start: i64,
    /// The end of what is replicated.
    pub high: i64,
    /// The end of what is not in an open transaction.
    pub last_stable: i64,
}

/// A partition that is to be fetched.
#[derive(Clone, Debug)]
pub struct FetchWish {
    /// The consumer's place in it.
    pub cursor: Arc<Cursor>,
    /// Its topic's id: the position is one in that topic's log.
    pub topic_id: Uuid,
    /// The replica to ask: the leader, or one that the leader named.
    pub node: i32,
    /// Who leads it, as far as is known.
    pub leader: LeaderAndEpoch,
    /// Whether the leader may name another replica.
    pub may_be_sent_away: bool,
    /// Where to go on.
    pub from: Position,
    /// Whether no fetch has told the state of its log yet.
    pub is_new: bool,
}

/// One assigned partition.
#[derive(Debug)]
pub struct PartitionState {
    partition: TopicPartition,
    cursor: Arc<Cursor>,
    status: Status,
    /// Where the next fetch begins: ahead of the position by what waits to be handed out.
    next_fetch: Position,
    leader: Option<LeaderAndEpoch>,
    nearby: Nearby,
    quiet: Quiet,
    /// Since when the position is known to be of a later epoch than the leader.
    old_since: Option<Instant>,
    /// The position is of an earlier topic of the name.
    is_of_former: bool,
    /// The leader epoch under which the position was found good.
    validated: i32,
    watermarks: Option<Watermarks>,
    committed: Option<Position>,
    /// The id of its topic, once that is known.
    topic_id: Uuid,
    life: u64,
    reset_number: u64,
    retry_at: Option<Instant>,
    paused: bool,
    held: bool,
    /// Its topic is not asked for any more.
    unwanted: bool,
    /// Nothing is fetched behind an error that waits to be handed out.
    stalled: bool,
    /// Nothing is fetched from there on.
    end: Option<i64>,
    /// The user heard that there is no such partition.
    told_missing: bool,
}

impl PartitionState {
    pub(super) fn new(partition: TopicPartition, status: Status, tenure: u64) -> Self {
        let start = Position::at(-1);
        let cursor = Arc::new(Cursor::held(partition.clone(), start, tenure));
        Self {
            partition,
            cursor,
            status,
            next_fetch: start,
            leader: None,
            nearby: Nearby::default(),
            quiet: Quiet::default(),
            old_since: None,
            is_of_former: false,
            validated: NO_EPOCH,
            watermarks: None,
            committed: None,
            topic_id: Uuid::ZERO,
            life: next_number(),
            reset_number: next_number(),
            retry_at: None,
            paused: false,
            held: false,
            unwanted: false,
            stalled: false,
            end: None,
            told_missing: false,
        }
    }

    /// The same of a topic that is known to have this id; zero is unknown.
    pub(super) fn of_topic(self, topic_id: Uuid) -> Self {
        Self { topic_id, ..self }
    }

    /// The id of its topic; zero while that is not known.
    #[must_use]
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// Whether the user heard that there is no such partition.
    #[must_use]
    pub fn told_missing(&self) -> bool {
        self.told_missing
    }

    /// Notes that the user gets the error; returns whether this is the first time.
    pub fn tell_missing(&mut self) -> bool {
        !std::mem::replace(&mut self.told_missing, true)
    }

    /// Fetches nothing from `end` on; records behind it may come along in a batch.
    pub fn set_end(&mut self, end: i64) {
        self.end = Some(end);
    }

    /// The place in it.
    #[must_use]
    pub fn cursor(&self) -> &Arc<Cursor> {
        &self.cursor
    }

    /// What it waits for.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Who leads it, as far as is known.
    #[must_use]
    pub fn leader(&self) -> Option<LeaderAndEpoch> {
        self.leader
    }

    /// The state of its log in the last fetch.
    #[must_use]
    pub fn watermarks(&self) -> Option<Watermarks> {
        self.watermarks
    }

    /// Where the next fetch begins.
    #[must_use]
    pub fn next_fetch(&self) -> Position {
        self.next_fetch
    }

    /// The next record to be taken, once that is known.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.is_known().then(|| self.cursor.position())
    }

    /// The end of what was handed out, once the position is known.
    #[must_use]
    pub fn handed_out(&self) -> Option<Position> {
        self.is_known().then(|| self.cursor.handed_out())
    }

    fn is_known(&self) -> bool {
        matches!(self.status, Status::Reading | Status::Validate)
    }

    /// The last position that was committed, as far as is known.
    #[must_use]
    pub fn last_committed(&self) -> Option<Position> {
        self.committed
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.held && !self.unwanted && self.retry_at.is_none_or(|at| at <= now)
    }

    pub(super) fn retry_later(&mut self, at: Instant) {
        self.retry_at = Some(at);
    }

    pub(super) fn hold(&mut self) {
        self.held = true;
        self.hold_back_or_not();
    }

    pub(super) fn set_wanted(&mut self, wanted: bool) {
        self.unwanted = !wanted;
        self.hold_back_or_not();
    }

    fn hold_back_or_not(&mut self) {
        self.cursor.set_paused(self.paused || self.held || self.unwanted);
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.hold_back_or_not();
    }

    /// Whether the user paused it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Goes elsewhere: the old cursor is retired.
    pub(super) fn seek(&mut self, position: Position) {
        let tenure = self.cursor.tenure();
        self.is_of_former = false;
        self.go_on_with(Cursor::held(self.partition.clone(), position, tenure));
    }

    fn go_on_with(&mut self, cursor: Cursor) {
        let position = cursor.position();
        self.cursor.retire();
        self.cursor = Arc::new(cursor);
        self.hold_back_or_not();
        self.next_fetch = position;
        self.retry_at = None;
        self.stalled = false;
        self.status = Status::Reading;
        self.validated = NO_EPOCH;
        self.look_at_epoch();
    }

    pub(super) fn reset_to(&mut self, timestamp: i64) {
        self.cursor.retire();
        self.retry_at = None;
        self.stalled = false;
        self.status = Status::Reset { timestamp };
        self.reset_number = next_number();
    }

    /// A number that changes with every reset, also with one to the same place. An answer to an
    /// earlier question may be older than this reset.
    pub(super) fn reset_number(&self) -> u64 {
        self.reset_number
    }

    pub(super) fn lose_position(&mut self) {
        self.status = Status::NoPosition;
    }

    /// Drops what is buffered and fetches again from the position. Returns whether the position
    /// stayed although `next_fetch` was not handed out.
    pub fn rewind(&mut self) {
        if matches!(self.status, Status::Reading | Status::Validate) {
            self.go_on_with(self.cursor.again());
        }
    }

    /// Goes on at `end`, where the log was cut, as its leader said just now. What is handed out at
    /// this moment can still be given back.
    pub(super) fn go_back_to(&mut self, end: Position) {
        self.go_on_with(self.cursor.again_from(end));
        self.mark_validated();
    }

    /// Its topic has this id. A different id before means that a topic was deleted and another one
    /// created with its name. Commits, positions and fetches of the old topic do not count for the
    /// new one, which begins with `start`. Without a way to begin, the position stays.
    pub(super) fn see_topic(&mut self, id: Uuid, start: Status) {
        if id.is_zero() {
            return;
        }
        let before = std::mem::replace(&mut self.topic_id, id);
        if before.is_zero() || before == id {
            return;
        }
        self.life = next_number();
        self.reset_number = next_number();
        self.committed = None;
        self.cursor.unsettle();
        self.watermarks = None;
        self.retry_at = None;
        self.is_of_former = start == Status::NoPosition;
        if !self.is_of_former {
            let anew = Cursor::held(self.partition.clone(), Position::at(-1), next_tenure());
            self.go_on_with(anew);
            self.status = start;
        }
    }

    /// A number that changes when all that is known of the partition was of another assignment, or
    /// of another topic of its name.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// A lower epoch than before is that of another topic of the same name: the image takes no
    /// earlier one of the same topic.
    pub(super) fn see_leader(&mut self, leader: LeaderAndEpoch) {
        if self.leader != Some(leader) {
            self.leader = Some(leader);
            self.nearby.leave();
            self.retry_at = None;
            self.old_since = None;
            self.look_at_epoch();
        }
    }

    /// Whether the position is of a later epoch than the leader. Then the metadata are old, and the
    /// leader of then may still answer: it would say that it knows nothing of the position's epoch.
    /// An epoch that a caller made up is never led, so the wait ends.
    pub(super) fn has_old_leader(&self, now: Instant) -> bool {
        let epoch = self.leader.map_or(NO_EPOCH, |leader| leader.epoch);
        let is_older = epoch != NO_EPOCH && epoch < self.next_fetch.leader_epoch;
        let waits = self.old_since.is_none_or(|since| now < since + OLD_FOR);
        self.status == Status::Validate && is_older && !self.is_of_former && waits
    }

    /// The same; the time of the first look counts.
    pub(super) fn note_old_leader(&mut self, now: Instant) -> bool {
        let is_old = self.has_old_leader(now);
        if is_old {
            self.old_since.get_or_insert(now);
        }
        is_old
    }

    /// The replica that the leader said to read from.
    pub fn nearby(&mut self) -> &mut Nearby {
        &mut self.nearby
    }

    /// When it can be asked again after a failure, or its leader in place of another replica.
    pub(super) fn next_due(&self) -> impl Iterator<Item = Instant> {
        let quiet = self.quiet.due().filter(|_| self.is_fetched());
        self.retry_at.into_iter().chain(self.nearby.leader_due()).chain(quiet)
    }

    /// Records came at `now`, of the leader or of another replica.
    pub fn brought(&mut self, now: Instant, at_leader: bool) {
        self.quiet.ends(now);
        if !at_leader {
            self.nearby.serves(now);
        }
    }

    /// Whether it is time to ask if its leader still leads: no records came.
    pub(super) fn is_quiet(&mut self, now: Instant, most: Duration) -> bool {
        self.is_fetched() && self.leader.is_some() && self.quiet.is_over(now, most)
    }

    fn is_fetched(&self) -> bool {
        self.status == Status::Reading && !self.cursor.is_paused()
    }

    /// With an epoch of the record before and a new leader, the leader must be asked first.
    fn look_at_epoch(&mut self) {
        let epoch = self.leader.map_or(NO_EPOCH, |leader| leader.epoch);
        let comparable = self.next_fetch.leader_epoch != NO_EPOCH && epoch != NO_EPOCH;
        if self.status == Status::Reading && comparable && epoch != self.validated {
            // The leader that wrote the record before has not cut it.
            if epoch == self.next_fetch.leader_epoch {
                self.validated = epoch;
            } else {
                self.status = Status::Validate;
            }
        }
    }

    pub(super) fn mark_validated(&mut self) {
        self.validated = self.leader.map_or(NO_EPOCH, |leader| leader.epoch);
        if matches!(self.status, Status::Validate) {
            self.status = Status::Reading;
        }
        self.retry_at = None;
    }

    pub(super) fn fetchable(&self, now: Instant) -> Option<FetchWish> {
        let ready = self.status == Status::Reading
            && !self.paused
            && !self.stalled
            && self.is_due(now)
            && self.end.is_none_or(|end| self.next_fetch.offset < end);
        if !ready {
            return None;
        }
        let leader = self.leader?;
        Some(FetchWish {
            cursor: Arc::clone(&self.cursor),
            topic_id: self.topic_id,
            node: self.nearby.replica(now).unwrap_or(leader.node),
            leader,
            may_be_sent_away: self.nearby.may_be_named(now),
            from: self.next_fetch,
            is_new: self.watermarks.is_none(),
        })
    }

    /// Records up to `next` came in for `cursor`; `false` if that is stale.
    pub fn fetched(&mut self, cursor: &Arc<Cursor>, next: Position, marks: Watermarks) -> bool {
        if !self.is_at(cursor) {
            return false;
        }
        self.next_fetch = next;
        self.watermarks = Some(marks);
        self.retry_at = None;
        true
    }

    /// Whether an error waits to be handed out.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether `cursor` is the place that it has now: nothing went elsewhere since.
    #[must_use]
    pub fn is_at(&self, cursor: &Arc<Cursor>) -> bool {
        Arc::ptr_eq(cursor, &self.cursor) && !cursor.is_retired()
    }

    /// An error was put behind what is buffered for `cursor`; `false` if that is stale.
    pub fn stall(&mut self, cursor: &Arc<Cursor>) -> bool {
        if !self.is_at(cursor) {
            return false;
        }
        self.stalled = true;
        true
    }

    pub(super) fn set_committed(&mut self, position: Position) {
        self.committed = Some(position);
    }

    /// What is to be committed by itself: what earlier calls handed out. Nothing if a commit since
    /// the last seek settled that, or if it was committed last.
    pub(super) fn uncommitted(&self) -> Option<Position> {
        let done = self.cursor.unsettled().filter(|done| self.is_known() && done.offset >= 0)?;
        let same = self.committed.is_some_and(|last| last.offset == done.offset);
        (!same).then_some(done)
    }
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}
