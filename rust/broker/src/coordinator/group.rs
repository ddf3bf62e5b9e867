//! One group behind its one lock: the pure state, its offsets, and who waits for an answer.
//!
//! Nothing is called while the lock is held. What an event leads to (answers, appends, wake-ups) is
//! put in an outbox in order, and one thread at a time carries it out after unlocking. So an append
//! that completes at once, on the same thread, simply puts more behind, and appends of a group
//! reach the log in the order in which the group decided them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::join_group::JoinGroupResponse;
use kafkalite_protocol::messages::sync_group::SyncGroupResponse;
use kafkalite_protocol::{ErrorCode, Offset};
use parking_lot::Mutex;

use super::group_record::{StoredRecord, batch, group_record};
use super::group_state::{Action, GroupState, Now};
use super::member::Token;
use super::offsets::GroupOffsets;
use super::offsets_topic::OffsetsTopic;
use crate::clock::Clock;
use crate::purgatory::{Timer, TimerTask};

/// Takes one answer back to its client.
pub type Answer<T> = Box<dyn FnOnce(T) + Send>;

/// What happens under the group's lock once records are stored, at which offset, or are not.
pub(super) type Then = Box<dyn FnOnce(&mut Inner, Now, Result<Offset, ErrorCode>) + Send>;

/// What happens under the group's lock when that is not known in time. [`Then`] follows later.
pub(super) type Late = Box<dyn FnOnce(&mut Inner, Now) + Send>;

/// An answer that the log gives when it knows, or the clock when that takes too long; the first
/// counts.
pub(super) struct FirstAnswer<T>(Arc<Mutex<Option<Answer<T>>>>);

impl<T> Clone for FirstAnswer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> FirstAnswer<T> {
    pub fn new(answer: Answer<T>) -> Self {
        Self(Arc::new(Mutex::new(Some(answer))))
    }

    /// Answers after unlocking, unless that was done before.
    pub fn give(self, value: T) -> Effect {
        Effect::Run(Box::new(move || {
            let answer = self.0.lock().take();
            if let Some(answer) = answer {
                answer(value);
            }
        }))
    }
}

/// Wakes groups at their deadlines.
pub trait GroupTimer: Send + Sync {
    /// Runs `task` once `delay_ms` have passed.
    fn schedule(&self, delay_ms: u64, task: TimerTask);
}

impl GroupTimer for Timer {
    fn schedule(&self, delay_ms: u64, task: TimerTask) {
        // Never cancelled: a group that is woken too early or too late finds nothing due.
        Self::schedule(self, delay_ms, task);
    }
}

/// What every group reaches.
pub(super) struct Surroundings {
    pub clock: Arc<dyn Clock>,
    pub timer: Arc<dyn GroupTimer>,
    pub topic: Arc<dyn OffsetsTopic>,
    /// What its batches are written with.
    pub codec: Codec,
    /// About the memory that the members of all groups cost.
    pub held_bytes: AtomicUsize,
}

impl Surroundings {
    pub fn now(&self) -> Now {
        let ms = i64::try_from(self.clock.monotonic_ms()).unwrap_or(i64::MAX);
        Now { ms, wall_ms: self.clock.wall_ms() }
    }
}

/// Something to do after unlocking.
pub(super) enum Effect {
    Append { records: Vec<StoredRecord>, then: Then, late: Late },
    WakeAt(i64),
    Run(Box<dyn FnOnce() + Send>),
}

/// What the lock guards.
pub(super) struct Inner {
    pub state: GroupState,
    pub offsets: GroupOffsets,
    joins: HashMap<Token, Answer<JoinGroupResponse>>,
    syncs: HashMap<Token, Answer<SyncGroupResponse>>,
    next_token: u64,
    /// What this group has on the account of all.
    charged_bytes: usize,
    outbox: VecDeque<Effect>,
    is_draining: bool,
}

impl Inner {
    /// Keeps an answer until the state machine gives it.
    pub fn park_join(&mut self, answer: Answer<JoinGroupResponse>) -> Token {
        self.next_token += 1;
        self.joins.insert(Token(self.next_token), answer);
        Token(self.next_token)
    }

    /// Keeps an answer until the state machine gives it.
    pub fn park_sync(&mut self, answer: Answer<SyncGroupResponse>) -> Token {
        self.next_token += 1;
        self.syncs.insert(Token(self.next_token), answer);
        Token(self.next_token)
    }

    /// Puts something behind what waits to be done.
    pub fn push(&mut self, effect: Effect) {
        // What the state machine decided before comes before.
        self.collect();
        self.outbox.push_back(effect);
    }

    /// Turns the state machine's actions into effects.
    fn collect(&mut self) {
        for action in self.state.take_actions() {
            let effect = match action {
                Action::AnswerJoin { token, response } => {
                    let Some(answer) = self.joins.remove(&token) else { continue };
                    Effect::Run(Box::new(move || answer(response)))
                }
                Action::AnswerSync { token, response } => {
                    let Some(answer) = self.syncs.remove(&token) else { continue };
                    Effect::Run(Box::new(move || answer(response)))
                }
                Action::Append { id, value } => Effect::Append {
                    records: vec![group_record(self.state.group_id(), Some(&value))],
                    then: Box::new(move |inner, now, result| {
                        inner.state.append_result(now, id, result.err());
                    }),
                    // Too late counts as lost: the group begins anew, and its next record replaces
                    // this one.
                    late: Box::new(move |inner, now| {
                        inner.state.append_result(now, id, Some(ErrorCode::RequestTimedOut));
                    }),
                },
                Action::WakeAt(at_ms) => Effect::WakeAt(at_ms),
            };
            self.outbox.push_back(effect);
        }
    }
}

/// One group.
pub(super) struct Group {
    id: Arc<str>,
    around: Arc<Surroundings>,
    /// Of `__consumer_offsets`.
    partition: i32,
    inner: Mutex<Inner>,
    me: Weak<Self>,
}

impl Group {
    pub fn new(
        state: GroupState,
        offsets: GroupOffsets,
        partition: i32,
        around: Arc<Surroundings>,
    ) -> Arc<Self> {
        let inner = Inner {
            state,
            offsets,
            joins: HashMap::new(),
            syncs: HashMap::new(),
            next_token: 0,
            charged_bytes: 0,
            outbox: VecDeque::new(),
            is_draining: false,
        };
        let id = Arc::clone(inner.state.group_id());
        Arc::new_cyclic(|me| Self {
            id,
            around,
            partition,
            inner: Mutex::new(inner),
            me: Weak::clone(me),
        })
    }

    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Looks at the group; nothing may follow from it.
    pub fn look<R>(&self, look: impl FnOnce(&Inner) -> R) -> R {
        look(&self.inner.lock())
    }

    /// Runs `event` under the lock, and what follows from it after unlocking.
    pub fn run<R>(&self, event: impl FnOnce(&mut Inner, Now) -> R) -> R {
        let result = {
            let mut inner = self.inner.lock();
            // The time is asked for under the lock, so that it never runs backwards for the group.
            let now = self.around.now();
            let result = event(&mut inner, now);
            inner.collect();
            self.charge(&mut inner);
            result
        };
        self.drain();
        result
    }

    /// Brings the account of all groups up to date.
    fn charge(&self, inner: &mut Inner) {
        let held = inner.state.held_bytes();
        let before = std::mem::replace(&mut inner.charged_bytes, held);
        if held >= before {
            self.around.held_bytes.fetch_add(held - before, Ordering::Relaxed);
        } else {
            self.around.held_bytes.fetch_sub(before - held, Ordering::Relaxed);
        }
    }

    /// Carries the outbox out. If another thread is at it, or one further up this stack, it will.
    fn drain(&self) {
        loop {
            let effect = {
                let mut inner = self.inner.lock();
                if inner.is_draining {
                    return;
                }
                let Some(effect) = inner.outbox.pop_front() else { return };
                inner.is_draining = true;
                effect
            };
            // Also if the effect panics the outbox must not stay shut.
            let _open = Guard(|| self.inner.lock().is_draining = false);
            self.carry_out(effect);
        }
    }

    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Run(run) => run(),
            Effect::WakeAt(at_ms) => {
                let delay_ms = u64::try_from(at_ms - self.around.now().ms).unwrap_or(0);
                let me = Weak::clone(&self.me);
                let wake = move || {
                    if let Some(group) = me.upgrade() {
                        group.run(|inner, now| inner.state.wake(now));
                    }
                };
                self.around.timer.schedule(delay_ms, Box::new(wake));
            }
            Effect::Append { records, then, late } => {
                let me = Weak::clone(&self.me);
                let done = move |result| {
                    if let Some(group) = me.upgrade() {
                        group.run(|inner, now| then(inner, now, result));
                    }
                };
                let me = Weak::clone(&self.me);
                let late = move || {
                    if let Some(group) = me.upgrade() {
                        group.run(late);
                    }
                };
                let (topic, partition) = (&self.around.topic, self.partition);
                match batch(&records, self.around.codec, self.around.clock.wall_ms()) {
                    Ok(batch) => topic.append(partition, batch, Box::new(done), Box::new(late)),
                    Err(error) => done(Err(error)),
                }
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let charged = self.inner.get_mut().charged_bytes;
        self.around.held_bytes.fetch_sub(charged, Ordering::Relaxed);
    }
}

/// Runs something when it goes out of scope, also in a panic.
struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
