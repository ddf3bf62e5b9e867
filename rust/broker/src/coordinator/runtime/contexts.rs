//! The contexts of one internal topic on this broker: which there are, and who finds them.

use std::io;
use std::sync::Arc;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::{Mutex, RwLock};

use super::context::{Context, Item, Phase};
use super::log::TopicFacts;
use super::partition_of::partition_of;
use super::{CoordinatorTimer, Now, StateMachine, Turn};
use crate::clock::Clock;

/// A load in steps: each call reads on once in the log, and says whether there is more to read.
pub type Load = Box<dyn FnMut() -> bool + Send>;

/// Takes a load, whose steps may take long, to a thread that may wait for the disk.
///
/// # Errors
/// There is no such thread: the runtime tries again later.
pub type ExecuteLoad = Box<dyn Fn(Load) -> io::Result<()> + Send + Sync>;

/// What the runtime needs from above.
pub struct RuntimeConfig {
    /// Names the internal topic in messages.
    pub topic: &'static str,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Wakes states and gives up waits.
    pub timer: Arc<dyn CoordinatorTimer>,
    /// Where logs are read.
    pub execute: ExecuteLoad,
    /// What batches are written with.
    pub codec: Codec,
    /// After this a write that is not committed yet counts as late, ms.
    pub commit_timeout_ms: u64,
}

/// What all contexts share.
pub(super) struct Shared<S> {
    pub config: RuntimeConfig,
    pub new_state: Box<dyn Fn() -> S + Send + Sync>,
}

impl<S> Shared<S> {
    pub fn now(&self) -> Now {
        let clock = &self.config.clock;
        let ms = i64::try_from(clock.monotonic_ms()).unwrap_or(i64::MAX);
        Now { ms, wall_ms: clock.wall_ms() }
    }
}

struct Topic<S: StateMachine> {
    id: Uuid,
    /// By partition. What lives in which depends on their number, which stays as it was when the
    /// topic was first seen.
    slots: Vec<Option<Arc<Context<S>>>>,
}

struct Known<S: StateMachine> {
    topic: Option<Topic<S>>,
    is_stopped: bool,
}

/// The coordinators of one internal topic on this broker.
pub struct Runtime<S: StateMachine> {
    shared: Arc<Shared<S>>,
    known: RwLock<Known<S>>,
    /// Held from the look at the facts until they are taken over: older facts never come later.
    following: Mutex<()>,
}

impl<S: StateMachine> Runtime<S> {
    /// A runtime that knows of no partition; see [`Self::follow`].
    pub fn new(config: RuntimeConfig, new_state: Box<dyn Fn() -> S + Send + Sync>) -> Self {
        let known = RwLock::new(Known { topic: None, is_stopped: false });
        let shared = Arc::new(Shared { config, new_state });
        Self { shared, known, following: Mutex::new(()) }
    }

    /// Asks for the facts, and follows them: partitions that this broker leads from now on are
    /// loaded, others are unloaded. Partitions whose logs are empty are loaded when this returns.
    pub fn follow(&self, facts: impl FnOnce() -> Option<TopicFacts>) {
        let (mut closed, mut begun) = (Vec::new(), Vec::new());
        {
            let _following = self.following.lock();
            let facts = facts();
            let mut known = self.known.write();
            if known.is_stopped {
                return;
            }
            let id = facts.as_ref().map(|facts| facts.id);
            if known.topic.as_ref().map(|topic| topic.id) != id {
                let former = known.topic.take();
                closed.extend(former.into_iter().flat_map(|topic| topic.slots).flatten());
                known.topic = facts.as_ref().map(|facts| Topic {
                    id: facts.id,
                    slots: facts.partitions.iter().map(|_| None).collect(),
                });
            }
            if let (Some(topic), Some(facts)) = (&mut known.topic, facts) {
                self.follow_partitions(topic, facts, &mut closed, &mut begun);
            }
        }
        closed.iter().for_each(|context| context.close());
        begun.iter().for_each(|context| context.begin());
    }

    fn follow_partitions(
        &self,
        topic: &mut Topic<S>,
        facts: TopicFacts,
        closed: &mut Vec<Arc<Context<S>>>,
        begun: &mut Vec<Arc<Context<S>>>,
    ) {
        for ((index, slot), led) in (0..).zip(&mut topic.slots).zip(facts.partitions) {
            let Some(led) = led else {
                closed.extend(slot.take());
                continue;
            };
            let newest = (led.epoch, led.opening);
            if slot.as_ref().is_some_and(|one| (one.epoch, one.opening) >= newest) {
                continue;
            }
            let context = Context::new(index, led, Arc::clone(&self.shared));
            closed.extend(slot.replace(Arc::clone(&context)));
            begun.push(context);
        }
    }

    /// Whether the internal topic is known here.
    pub fn knows_topic(&self) -> bool {
        self.known.read().topic.is_some()
    }

    /// How far the partition is that `key` lives in; `None` if this broker does not coordinate it.
    pub fn phase(&self, key: &str) -> Option<Phase> {
        self.context(key).ok().map(|context| context.phase())
    }

    fn context(&self, key: &str) -> Result<Arc<Context<S>>, ErrorCode> {
        let known = self.known.read();
        let slots = known.topic.as_ref().map_or(&[][..], |topic| &topic.slots);
        let place = partition_of(key, i32::try_from(slots.len()).unwrap_or(i32::MAX));
        let slot = slots.get(usize::try_from(place).unwrap_or(0)).and_then(Option::as_ref);
        slot.cloned().ok_or(ErrorCode::NotCoordinator)
    }

    fn contexts(&self) -> Vec<Arc<Context<S>>> {
        let known = self.known.read();
        known.topic.iter().flat_map(|topic| topic.slots.iter().flatten().cloned()).collect()
    }

    /// Runs `step` on the state of the partition that `key` lives in, in its turn; at once if no
    /// other step runs. Everything that may write is a step. `step` is called once: with an error,
    /// and without a lock, if the state is not here.
    pub fn step(
        &self,
        key: &str,
        step: impl for<'a> FnOnce(Result<Turn<'a, S>, ErrorCode>) + Send + 'static,
    ) {
        match self.context(key) {
            Ok(context) => context.push(Item::Step(Box::new(step))),
            Err(error) => step(Err(error)),
        }
    }

    /// Runs `step` on every state that is here.
    pub fn step_all(&self, step: impl for<'a> Fn(Turn<'a, S>) + Clone + Send + 'static) {
        for context in self.contexts() {
            let step = step.clone();
            context.push(Item::Step(Box::new(move |turn| {
                if let Ok(turn) = turn {
                    step(turn);
                }
            })));
        }
    }

    /// Looks at the state of the partition that `key` lives in, at once: for what never writes.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress`, `NotCoordinator`: the state is not here.
    pub fn look<R>(&self, key: &str, look: impl FnOnce(Turn<'_, S>) -> R) -> Result<R, ErrorCode> {
        self.context(key)?.look(look)
    }

    /// Looks at every state that is here. `true` if others are being loaded.
    pub fn look_all(&self, mut look: impl FnMut(Turn<'_, S>)) -> bool {
        let mut is_loading = false;
        for context in self.contexts() {
            let looked = context.look(&mut look);
            is_loading |= looked == Err(ErrorCode::CoordinatorLoadInProgress);
        }
        is_loading
    }

    /// Unloads everything and loads nothing again, because the broker stops.
    pub fn stop(&self) {
        let topic = {
            let mut known = self.known.write();
            known.is_stopped = true;
            known.topic.take()
        };
        let contexts = topic.into_iter().flat_map(|topic| topic.slots).flatten();
        contexts.for_each(|context| context.close());
    }
}
