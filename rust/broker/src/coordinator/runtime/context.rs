//! One partition in one leader epoch: its state, the queue of its steps, and the answers that wait
//! for its log.
//!
//! One thread at a time runs the queue, and holds no lock between two steps. A caller that finds
//! the queue running leaves its step there and returns. An append may complete a request and so
//! start a step further down the same stack. Such a step goes into the queue too.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use kafkalite_protocol::record_batch::{HEADER_LENGTH, RecordBatchBuilder};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use parking_lot::Mutex;

use super::contexts::Shared;
use super::effects::Effect;
use super::log::{Appended, CoordinatorLog, LedPartition};
use super::{Effects, Late, StateMachine, Stored, Turn, Write};
use crate::error::panics;
use crate::partitions::CommitStatus;

/// Most steps that one thread runs in a row, so that a caller with one step returns soon.
const STEPS_AT_ONCE: usize = 256;

/// What a record takes beyond its key and its value, at most.
const MAX_RECORD_OVERHEAD: usize = 21;

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being read, or what was read is not committed yet.
    Loading,
    /// Its state is here.
    Active,
    /// It could not be read, and is tried again.
    Failed,
    /// It cannot be read to its end, in this leader epoch.
    Damaged,
    /// Its leader epoch is over, or the broker stops.
    Closed,
}

impl Phase {
    /// Why nothing is served.
    pub(super) const fn error(self) -> Option<ErrorCode> {
        match self {
            Self::Active => None,
            Self::Loading => Some(ErrorCode::CoordinatorLoadInProgress),
            Self::Failed | Self::Damaged | Self::Closed => Some(ErrorCode::NotCoordinator),
        }
    }
}

/// Called once: under the lock, or with the reason why the state is not here, without it.
pub(super) type Step<S> = Box<dyn for<'a> FnOnce(Result<Turn<'a, S>, ErrorCode>) + Send>;

/// What the queue holds.
pub(super) enum Item<S: StateMachine> {
    Step(Step<S>),
    /// What followed from a look at the state.
    Effects(Effects<S>),
    Timer(S::Timer),
    /// Every record before the offset was read into this state.
    Loaded(Box<S>, Offset),
    /// The first answer that waits may be given.
    Settle,
    /// The first answer that waits may be late.
    Late,
}

struct Queue<S: StateMachine> {
    items: VecDeque<Item<S>>,
    is_running: bool,
    is_closed: bool,
}

/// A write that is in the log and not committed yet.
struct Deferred<S: StateMachine> {
    end: Offset,
    stored: Stored<S>,
    /// Until it was called.
    late: Option<Late<S>>,
    deadline_ms: i64,
}

/// What the lock guards.
pub(super) struct Inner<S: StateMachine> {
    state: S,
    pub(super) phase: Phase,
    /// By rising offset.
    deferred: VecDeque<Deferred<S>>,
    /// The log was asked to tell when the first of them is settled.
    is_watched: bool,
    /// A wake-up for the first that may be late is on its way.
    is_late_armed: bool,
    /// Why the last attempt to load failed, and how many did.
    pub(super) failed: (Option<ErrorCode>, u32),
}

/// One partition in one leader epoch.
pub(super) struct Context<S: StateMachine> {
    pub(super) index: i32,
    pub(super) epoch: LeaderEpoch,
    pub(super) opening: u64,
    pub(super) log: Arc<dyn CoordinatorLog>,
    pub(super) shared: Arc<Shared<S>>,
    queue: Mutex<Queue<S>>,
    pub(super) inner: Mutex<Inner<S>>,
    pub(super) me: Weak<Self>,
}

impl<S: StateMachine> Context<S> {
    /// A context that was not loaded yet; see [`Self::begin`].
    pub fn new(index: i32, led: LedPartition, shared: Arc<Shared<S>>) -> Arc<Self> {
        let inner = Inner {
            state: (shared.new_state)(),
            phase: Phase::Loading,
            deferred: VecDeque::new(),
            is_watched: false,
            is_late_armed: false,
            failed: (None, 0),
        };
        let queue = Queue { items: VecDeque::new(), is_running: false, is_closed: false };
        let (queue, inner) = (Mutex::new(queue), Mutex::new(inner));
        let LedPartition { epoch, opening, log } = led;
        Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            Self { index, epoch, opening, log, shared, queue, inner, me }
        })
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.inner.lock().phase
    }

    /// Looks at the state beside the queue. What follows from it is done by the queue.
    ///
    /// # Errors
    /// The state is not here.
    pub fn look<R>(&self, look: impl FnOnce(Turn<'_, S>) -> R) -> Result<R, ErrorCode> {
        let mut effects = Effects::new();
        let result = {
            let mut inner = self.inner.lock();
            if let Some(error) = inner.phase.error() {
                return Err(error);
            }
            look(self.turn(&mut inner.state, &mut effects))
        };
        if !effects.is_empty() {
            self.push(Item::Effects(effects));
        }
        Ok(result)
    }

    /// The time is asked for under the lock, so that it never runs backwards for the state.
    fn turn<'a>(&self, state: &'a mut S, effects: &'a mut Effects<S>) -> Turn<'a, S> {
        Turn { state, now: self.shared.now(), effects }
    }

    /// Puts something behind what waits, and runs the queue unless another thread runs it.
    pub fn push(&self, item: Item<S>) {
        let refused = {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                Some(item)
            } else {
                queue.items.push_back(item);
                None
            }
        };
        match refused {
            Some(item) => self.refuse(item),
            None => self.run(),
        }
    }

    fn run(&self) {
        for _ in 0..STEPS_AT_ONCE {
            let Some(item) = self.next() else { return };
            // A panic ends one step. Its client gets an error when the step's answer is dropped.
            panics::contain("a step of a coordinator", || self.execute(item));
            self.queue.lock().is_running = false;
        }
        self.later(0, |me| me.run());
    }

    /// Takes the next item, if no other thread runs the queue, nor one further up this stack.
    fn next(&self) -> Option<Item<S>> {
        let mut queue = self.queue.lock();
        if queue.is_running {
            return None;
        }
        let item = queue.items.pop_front()?;
        queue.is_running = true;
        Some(item)
    }

    /// Does `act` after a while, if this context is still there.
    pub(super) fn later(&self, delay_ms: u64, act: impl FnOnce(&Self) + Send + 'static) {
        let me = Weak::clone(&self.me);
        let task = move || {
            if let Some(me) = me.upgrade() {
                act(&me);
            }
        };
        self.shared.config.timer.schedule(delay_ms, Box::new(task));
    }

    fn execute(&self, item: Item<S>) {
        match item {
            Item::Step(step) => self.step(step),
            Item::Effects(effects) => self.carry_out(effects),
            Item::Timer(timer) => self.step(Box::new(|turn| {
                if let Ok(Turn { state, now, effects }) = turn {
                    state.on_timer(now, timer, effects);
                }
            })),
            Item::Loaded(state, end) => self.settle_load(state, end),
            Item::Settle => self.settle(),
            Item::Late => self.tell_late(),
        }
    }

    /// The context is closed, so the step is refused. Effects may hold answers.
    fn refuse(&self, item: Item<S>) {
        match item {
            Item::Step(step) => step(Err(ErrorCode::NotCoordinator)),
            Item::Effects(effects) => self.carry_out(effects),
            Item::Timer(_) | Item::Loaded(..) | Item::Settle | Item::Late => {}
        }
    }

    fn step(&self, step: Step<S>) {
        let mut effects = Effects::new();
        {
            let mut inner = self.inner.lock();
            if let Some(error) = inner.phase.error() {
                drop(inner);
                return step(Err(error));
            }
            step(Ok(self.turn(&mut inner.state, &mut effects)));
        }
        self.carry_out(effects);
    }

    /// Does what a state wants, in order. What follows from a write comes behind.
    fn carry_out(&self, mut effects: Effects<S>) {
        while let Some(effect) = effects.pop() {
            match effect {
                // The effects that follow still have to run.
                Effect::Run(run) => drop(panics::contain("an answer of a coordinator", run)),
                Effect::WakeAt(at_ms, timer) => {
                    let delay_ms = u64::try_from(at_ms - self.shared.now().ms).unwrap_or(0);
                    self.later(delay_ms, move |me| me.push(Item::Timer(timer)));
                }
                Effect::Write(write) => self.write(write, &mut effects),
            }
        }
    }

    /// Appends, replays, and answers if the batch is committed already.
    fn write(&self, write: Write<S>, effects: &mut Effects<S>) {
        let Write { mut records, may_split, stored, late } = write;
        let appended = self.append(&records, may_split);
        if is_epoch_over(&appended) {
            self.close();
        }
        let mut inner = self.inner.lock();
        let now = self.shared.now();
        let appended = match appended {
            Ok(appended) if inner.phase == Phase::Active => appended,
            refused => {
                let error = refused.err().unwrap_or(ErrorCode::NotCoordinator);
                return stored(&mut inner.state, now, effects, Err(error));
            }
        };
        let count = usize::try_from(appended.end.0 - appended.base.0).unwrap_or(usize::MAX);
        let rest = records.split_off(count.min(records.len()));
        let (stored, late) = if rest.is_empty() {
            (stored, late)
        } else {
            effects.write_next(Write { records: rest, may_split, stored, late });
            nothing_follows()
        };
        let is_committed = appended.status == CommitStatus::Committed;
        if is_committed {
            // Then all before it is, too.
            inner.state.on_committed(appended.base);
            while let Some(earlier) = inner.deferred.pop_front() {
                (earlier.stored)(&mut inner.state, now, effects, Ok(()));
            }
        }
        for (at, record) in (appended.base.0..).zip(records) {
            inner.state.replay(Offset(at), record, is_committed);
        }
        if is_committed {
            return stored(&mut inner.state, now, effects, Ok(()));
        }
        let timeout_ms = self.shared.config.commit_timeout_ms;
        let deadline_ms = now.ms.saturating_add(i64::try_from(timeout_ms).unwrap_or(i64::MAX));
        let (end, late) = (appended.end, Some(late));
        inner.deferred.push_back(Deferred { end, stored, late, deadline_ms });
        let arms = !std::mem::replace(&mut inner.is_late_armed, true);
        drop(inner);
        if arms {
            self.later(timeout_ms, |me| me.push(Item::Late));
        }
        self.watch_first();
    }

    /// One batch of `records` at the end of the log: of all, or with `may_split` of the first ones
    /// that it has room for.
    fn append(&self, records: &[S::Record], may_split: bool) -> Result<Appended, ErrorCode> {
        if self.queue.lock().is_closed {
            return Err(ErrorCode::NotCoordinator);
        }
        let config = &self.shared.config;
        let mut batch = RecordBatchBuilder::new(config.codec);
        let max_bytes = self.log.max_batch_bytes().saturating_sub(HEADER_LENGTH);
        for record in records {
            let record = S::encode(record);
            let (key, value) = (Some(&record.key[..]), record.value.as_deref());
            let bytes = MAX_RECORD_OVERHEAD + record.key.len() + value.map_or(0, <[u8]>::len);
            // Looked at before it is written: a request can ask for very many long records.
            if batch.payload_length() + bytes > max_bytes {
                if may_split && batch.record_count() > 0 {
                    break;
                }
                return Err(ErrorCode::MessageTooLarge);
            }
            batch.append(config.clock.wall_ms(), key, value, &[]);
        }
        let batch = batch.build(Offset(0), LeaderEpoch::UNKNOWN);
        // An uncompressed batch can always be built.
        let batch = batch.map_err(|_| ErrorCode::UnknownServerError)?;
        self.log.append(batch)
    }

    /// Has the log tell when the first answer that waits can be given.
    fn watch_first(&self) {
        let end = {
            let mut inner = self.inner.lock();
            let Some(end) = inner.deferred.front().map(|first| first.end) else { return };
            if std::mem::replace(&mut inner.is_watched, true) {
                return;
            }
            end
        };
        self.watch(end, Item::Settle);
    }

    /// Puts `item` into the queue when the outcome of the records before `end` is known.
    pub(super) fn watch(&self, end: Offset, item: Item<S>) {
        let me = Weak::clone(&self.me);
        let settled = move || {
            if let Some(me) = me.upgrade() {
                me.push(item);
            }
        };
        self.log.watch(end, Box::new(settled));
    }

    /// Gives the answers whose records are committed.
    fn settle(&self) {
        let mut effects = Effects::new();
        self.inner.lock().is_watched = false;
        loop {
            let first = self.inner.lock().deferred.front().map(|first| first.end);
            let Some(end) = first else { break };
            match self.log.commit_status(end) {
                CommitStatus::Pending => break,
                CommitStatus::Lost(_) => {
                    self.close();
                    break;
                }
                CommitStatus::Committed => {}
            }
            let mut inner = self.inner.lock();
            // Gone if the context was closed meanwhile.
            let Some(first) = inner.deferred.pop_front() else { break };
            let now = self.shared.now();
            inner.state.on_committed(end);
            (first.stored)(&mut inner.state, now, &mut effects, Ok(()));
        }
        self.carry_out(effects);
        self.watch_first();
    }

    /// Tells those whose answer takes too long.
    fn tell_late(&self) {
        let mut effects = Effects::new();
        let next_ms = {
            let mut inner = self.inner.lock();
            let Inner { state, deferred, is_late_armed, .. } = &mut *inner;
            let now = self.shared.now();
            let mut next_ms = None;
            for waiting in deferred.iter_mut().filter(|waiting| waiting.late.is_some()) {
                if waiting.deadline_ms > now.ms {
                    next_ms = u64::try_from(waiting.deadline_ms - now.ms).ok();
                    break;
                }
                if let Some(late) = waiting.late.take() {
                    late(state, now, &mut effects);
                }
            }
            *is_late_armed = next_ms.is_some();
            next_ms
        };
        if let Some(next_ms) = next_ms {
            self.later(next_ms, |me| me.push(Item::Late));
        }
        self.carry_out(effects);
    }

    /// Takes a state in, all of whose records are committed.
    pub(super) fn activate(&self, state: S) {
        let mut effects = Effects::new();
        {
            let mut inner = self.inner.lock();
            // Closed meanwhile, or loaded by an attempt that was slow.
            if matches!(inner.phase, Phase::Closed | Phase::Active) {
                return;
            }
            inner.state = state;
            inner.phase = Phase::Active;
            let Turn { state, now, effects } = self.turn(&mut inner.state, &mut effects);
            state.on_loaded(now, effects);
        }
        self.carry_out(effects);
    }

    /// Ends it: the epoch is over, or the broker stops. Parked requests, those whose records are
    /// not committed, and steps that wait are answered with NOT_COORDINATOR.
    pub fn close(&self) {
        let items = {
            let mut queue = self.queue.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.items)
        };
        let mut effects = Effects::new();
        {
            let mut inner = self.inner.lock();
            let now = self.shared.now();
            let before = std::mem::replace(&mut inner.phase, Phase::Closed);
            if before == Phase::Active {
                inner.state.on_unloaded(now, &mut effects);
            }
            for waiting in std::mem::take(&mut inner.deferred) {
                let lost = Err(ErrorCode::NotCoordinator);
                (waiting.stored)(&mut inner.state, now, &mut effects, lost);
            }
        }
        self.carry_out(effects);
        items.into_iter().for_each(|item| self.refuse(item));
    }
}

/// For a batch of a write that is not its last one: the last one answers.
fn nothing_follows<S: StateMachine>() -> (Stored<S>, Late<S>) {
    (Box::new(|_, _, _, _| {}), Box::new(|_, _, _| {}))
}

/// Whether an append says that this broker leads in the epoch no more.
const fn is_epoch_over(appended: &Result<Appended, ErrorCode>) -> bool {
    matches!(
        appended,
        Ok(Appended { status: CommitStatus::Lost(_), .. })
            | Err(ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition)
    )
}
