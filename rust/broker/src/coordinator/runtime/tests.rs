#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::Batches;
use kafkalite_protocol::{DecodeError, ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;

use super::*;
use crate::awaited;
use crate::clock::{Clock, ManualClock};
use memory_topic::{MemoryTopic, TestTimer};

mod loading;
pub mod memory_topic;
mod model;

const TIMEOUT_MS: u64 = 5_000;
const NOT_COORDINATOR: ErrorCode = ErrorCode::NotCoordinator;

/// A counter has this value now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    key: u8,
    value: u64,
}

/// Counters by key. Each record is one more than the newest one of its key.
#[derive(Default)]
struct Counters {
    committed: BTreeMap<u8, u64>,
    uncommitted: VecDeque<(Offset, Counted)>,
    /// Where the next record has to lie, at least.
    next: Offset,
    is_loaded: bool,
    /// Parked until they are unloaded.
    parked: Vec<Answer<ErrorCode>>,
    woken: Vec<u8>,
}

impl Counters {
    fn newest(&self, key: u8) -> u64 {
        let uncommitted = self.uncommitted.iter().rev().find(|(_, one)| one.key == key);
        let committed = || self.committed.get(&key).copied().unwrap_or(0);
        uncommitted.map_or_else(committed, |(_, one)| one.value)
    }
}

impl StateMachine for Counters {
    type Record = Counted;
    type Timer = u8;

    fn encode(record: &Counted) -> StoredRecord {
        let value = Bytes::copy_from_slice(&record.value.to_be_bytes());
        StoredRecord { key: Bytes::copy_from_slice(&[record.key]), value: Some(value) }
    }

    fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<Counted>, DecodeError> {
        let (Some(key), Some(value)) = (key.first(), value) else { return Ok(None) };
        let value = value.try_into().map(u64::from_be_bytes);
        Ok(value.ok().map(|value| Counted { key: *key, value }))
    }

    fn replay(&mut self, at: Offset, record: Counted, is_committed: bool) {
        assert!(at >= self.next, "records are replayed in the order of the log");
        self.next = at.plus(1);
        if is_committed {
            assert!(self.uncommitted.is_empty(), "what lies before is committed, too");
            self.committed.insert(record.key, record.value);
        } else {
            self.uncommitted.push_back((at, record));
        }
    }

    fn on_committed(&mut self, end: Offset) {
        while self.uncommitted.front().is_some_and(|(at, _)| *at < end) {
            let (_, record) = self.uncommitted.pop_front().unwrap();
            self.committed.insert(record.key, record.value);
        }
    }

    fn on_loaded(&mut self, _: Now, _: &mut Effects<Self>) {
        assert!(!self.is_loaded, "a state is loaded once");
        self.is_loaded = true;
    }

    fn on_timer(&mut self, _: Now, key: u8, _: &mut Effects<Self>) {
        self.woken.push(key);
    }

    fn on_unloaded(&mut self, _: Now, effects: &mut Effects<Self>) {
        for answer in self.parked.drain(..) {
            effects.run(move || answer(NOT_COORDINATOR));
        }
    }
}

type Loads = Arc<Mutex<Vec<Load>>>;

/// A broker with a runtime over partitions in memory.
struct Broker {
    runtime: Runtime<Counters>,
    topic: Arc<MemoryTopic>,
    clock: Arc<ManualClock>,
    timer: Arc<TestTimer>,
    loads: Loads,
    /// The operating system gives no thread for loads.
    has_no_thread: Arc<AtomicBool>,
}

type Got<T> = Arc<Mutex<Option<T>>>;

impl Broker {
    fn over(topic: &Arc<MemoryTopic>) -> Self {
        let clock = Arc::new(ManualClock::new(0));
        let timer = Arc::new(TestTimer::default());
        let loads = Loads::default();
        let waiting = Arc::clone(&loads);
        let has_no_thread = Arc::<AtomicBool>::default();
        let refuses = Arc::clone(&has_no_thread);
        let config = RuntimeConfig {
            topic: "counters",
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            timer: Arc::clone(&timer) as Arc<dyn CoordinatorTimer>,
            execute: Box::new(move |load| {
                if refuses.load(Ordering::SeqCst) {
                    return Err(std::io::Error::other("no thread"));
                }
                waiting.lock().push(load);
                Ok(())
            }),
            codec: Codec::None,
            commit_timeout_ms: TIMEOUT_MS,
        };
        let runtime = Runtime::new(config, Box::new(Counters::default));
        Self { runtime, topic: Arc::clone(topic), clock, timer, loads, has_no_thread }
    }

    /// A broker that leads one partition, which is empty.
    fn new() -> Self {
        let broker = Self::over(&MemoryTopic::of(1));
        broker.follow();
        broker
    }

    fn follow(&self) {
        self.runtime.follow(|| self.topic.facts());
    }

    fn load(&self) {
        let loads = std::mem::take(&mut *self.loads.lock());
        loads.into_iter().for_each(|mut load| while load() {});
    }

    fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        self.timer.pass(ms);
    }

    /// Counts one more; the answer is the value, or why it is not stored.
    fn count(&self, key: u8) -> Got<Result<u64, ErrorCode>> {
        let got = Got::default();
        let inside = Arc::clone(&got);
        count(
            &self.runtime,
            key,
            Box::new(move |answer| {
                let before = inside.lock().replace(answer);
                assert_eq!(before, None, "a step is answered once");
            }),
        );
        got
    }

    fn read(&self, key: u8) -> Result<u64, ErrorCode> {
        self.runtime.look("", |turn| turn.state.committed.get(&key).copied().unwrap_or(0))
    }
}

fn count(runtime: &Runtime<Counters>, key: u8, answer: Answer<Result<u64, ErrorCode>>) {
    runtime.step("", move |turn| match turn {
        Err(error) => answer(Err(error)),
        Ok(Turn { state, effects, .. }) => {
            let value = state.newest(key) + 1;
            let answer = FirstAnswer::new(answer);
            let too_late = answer.clone();
            effects.write(Write {
                records: vec![Counted { key, value }],
                may_split: false,
                stored: Box::new(move |_, _, effects, stored| {
                    answer.give(effects, stored.map(|()| value));
                }),
                late: Box::new(move |_, _, effects| {
                    too_late.give(effects, Err(ErrorCode::RequestTimedOut));
                }),
            });
        }
    });
}

fn taken<T>(got: &Got<T>) -> T {
    got.lock().take().expect("it is answered")
}

/// The records of partition 0 before `end`.
fn records(topic: &MemoryTopic, end: i64) -> Vec<Counted> {
    let inner = topic.inner.lock();
    let before = inner.partitions[0].batches.iter().filter(|one| one.end <= end);
    let mut records = Vec::new();
    for stored in before {
        for batch in &mut Batches::new(&stored.bytes) {
            let batch = batch.unwrap();
            for record in batch.records(1 << 20).unwrap().iter() {
                let record = record.unwrap();
                records.extend(Counters::decode(record.key.unwrap(), record.value).unwrap());
            }
        }
    }
    records
}

#[test]
fn a_step_is_answered_before_it_returns_if_nothing_has_to_be_waited_for() {
    let broker = Broker::new();
    assert_eq!((taken(&broker.count(1)), taken(&broker.count(1))), (Ok(1), Ok(2)));
    assert_eq!(broker.read(1), Ok(2));
}

#[test]
fn a_write_is_answered_and_read_when_it_is_committed_and_decided_upon_before() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let (first, second) = (broker.count(1), broker.count(1));
    assert_eq!((*first.lock(), broker.read(1)), (None, Ok(0)));
    broker.topic.change(0, |one| one.committed = 1);
    assert_eq!((taken(&first), *second.lock(), broker.read(1)), (Ok(1), None, Ok(1)));
    // A batch that is committed at once says so for all before it.
    broker.topic.inner.lock().holds = false;
    assert_eq!((taken(&broker.count(1)), taken(&second)), (Ok(3), Ok(2)));
    assert_eq!(broker.read(1), Ok(3));
}

#[test]
fn an_append_that_fails_leaves_nothing_to_revert() {
    let broker = Broker::new();
    broker.topic.inner.lock().fails = Some(ErrorCode::NotEnoughReplicas);
    assert_eq!(taken(&broker.count(1)), Err(ErrorCode::NotEnoughReplicas));
    broker.topic.inner.lock().fails = None;
    assert_eq!((taken(&broker.count(1)), broker.read(1)), (Ok(1), Ok(1)));
}

/// A step that came while another one appended was decided before that one's record was known, or
/// came before it in the log.
#[test]
fn a_step_that_comes_while_another_appends_comes_after_it() {
    let broker = Arc::new(Broker::new());
    let (during, inside) = (Got::default(), Arc::clone(&broker));
    let place = Arc::clone(&during);
    broker.topic.inner.lock().on_append = Some(Box::new(move || {
        *place.lock() = Some(inside.count(1));
        assert_eq!(inside.read(1), Ok(0), "reads do not wait for the append");
    }));
    assert_eq!(taken(&broker.count(1)), Ok(1));
    assert_eq!(taken(&taken(&during)), Ok(2));
}

#[test]
fn the_epoch_is_checked_by_the_log() {
    let broker = Broker::new();
    assert_eq!(taken(&broker.count(1)), Ok(1));
    // The runtime gets no notice of it.
    broker.topic.change(0, |one| one.epoch += 1);
    assert_eq!(taken(&broker.count(1)), Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(broker.topic.batches(), 1);
    assert_eq!(broker.read(1), Err(NOT_COORDINATOR), "the context is closed");
    broker.follow();
    broker.load();
    assert_eq!(taken(&broker.count(1)), Ok(2));
}

#[test]
fn an_epoch_that_is_over_is_not_waited_for_even_if_its_offset_is_committed_later() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let waits = broker.count(1);
    broker.topic.change(0, |one| {
        one.epoch += 1;
        one.batches.clear();
        one.committed = 1;
    });
    assert_eq!(taken(&waits), Err(NOT_COORDINATOR));
}

#[test]
fn facts_of_an_older_epoch_change_nothing() {
    let broker = Broker::new();
    broker.topic.change(0, |one| one.epoch = 3);
    let older = broker.topic.facts();
    broker.topic.change(0, |one| one.epoch = 4);
    broker.follow();
    assert_eq!(taken(&broker.count(1)), Ok(1));
    broker.runtime.follow(|| older);
    assert_eq!((broker.read(1), taken(&broker.count(1))), (Ok(1), Ok(2)));
}

/// A disk failed, and the log was opened again from another one, without what was not committed.
/// The coordinator wrote to the former log until the epoch was over.
#[test]
fn a_log_that_is_opened_again_in_its_epoch_is_loaded_again() {
    let broker = Broker::new();
    assert_eq!(taken(&broker.count(1)), Ok(1));
    broker.topic.inner.lock().holds = true;
    let waits = broker.count(1);
    broker.topic.inner.lock().holds = false;
    let older = broker.topic.facts();
    broker.topic.change(0, |one| {
        one.opening += 1;
        one.batches.truncate(1);
    });
    assert_eq!(taken(&broker.count(1)), Err(ErrorCode::KafkaStorageError));
    broker.follow();
    broker.load();
    assert_eq!(taken(&waits), Err(NOT_COORDINATOR));
    assert_eq!(taken(&broker.count(1)), Ok(2));
    broker.runtime.follow(|| older);
    assert_eq!(taken(&broker.count(1)), Ok(3));
}

#[test]
fn what_waits_is_answered_when_the_partition_is_unloaded() {
    let broker = Arc::new(Broker::new());
    broker.topic.inner.lock().holds = true;
    let parked = Got::default();
    let place = Arc::clone(&parked);
    broker.runtime.step("", move |turn| {
        let answer = Box::new(move |error| *place.lock() = Some(error));
        turn.ok().unwrap().state.parked.push(answer);
    });
    let deferred = broker.count(1);
    // While one step appends another is queued, and then the partition goes.
    let (queued, inside) = (Got::default(), Arc::clone(&broker));
    let place = Arc::clone(&queued);
    broker.topic.inner.lock().on_append = Some(Box::new(move || {
        *place.lock() = Some(inside.count(1));
        inside.runtime.follow(|| None);
    }));
    let appending = broker.count(1);
    for got in [deferred, appending, taken(&queued)] {
        assert_eq!(taken(&got), Err(NOT_COORDINATOR));
    }
    assert_eq!(taken(&parked), NOT_COORDINATOR);
    assert_eq!(taken(&broker.count(1)), Err(NOT_COORDINATOR));
}

#[test]
fn a_write_that_is_late_is_answered_once_and_counts_when_it_is_committed() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let first = broker.count(1);
    broker.pass(TIMEOUT_MS - 1);
    let second = broker.count(1);
    assert_eq!(*first.lock(), None);
    broker.pass(1);
    assert_eq!((taken(&first), *second.lock()), (Err(ErrorCode::RequestTimedOut), None));
    broker.pass(TIMEOUT_MS - 1);
    assert_eq!(taken(&second), Err(ErrorCode::RequestTimedOut));
    broker.topic.commit();
    assert_eq!((*first.lock(), *second.lock(), broker.read(1)), (None, None, Ok(2)));
    // The next one that waits has its time as well.
    let third = broker.count(1);
    broker.pass(TIMEOUT_MS);
    assert_eq!(taken(&third), Err(ErrorCode::RequestTimedOut));
}

#[test]
fn a_wake_up_comes_to_the_state_and_not_to_the_one_after_it() {
    let broker = Broker::new();
    let wake = |key: u8| {
        broker.runtime.step("", move |turn| {
            let turn = turn.ok().unwrap();
            turn.effects.wake_at(turn.now.ms + 100, key);
        });
    };
    let woken = || broker.runtime.look("", |turn| turn.state.woken.clone());
    wake(1);
    broker.pass(99);
    assert_eq!(woken(), Ok(vec![]));
    broker.pass(1);
    assert_eq!(woken(), Ok(vec![1]));
    wake(2);
    broker.topic.change(0, |one| one.epoch += 1);
    broker.follow();
    broker.pass(100);
    assert_eq!(woken(), Ok(vec![]));
}

#[test]
fn a_thread_hands_the_queue_over_after_many_steps() {
    let broker = Arc::new(Broker::new());
    let inside = Arc::clone(&broker);
    let answers: Arc<Mutex<Vec<Got<_>>>> = Arc::default();
    let others = Arc::clone(&answers);
    broker.topic.inner.lock().on_append = Some(Box::new(move || {
        others.lock().extend((0..300).map(|_| inside.count(1)));
    }));
    broker.count(1);
    let answered = || answers.lock().iter().filter(|got| got.lock().is_some()).count();
    assert_eq!(answered(), 255);
    broker.pass(0);
    assert_eq!(answered(), 300);
    assert_eq!(broker.read(1), Ok(301));
}

#[test]
fn a_step_that_panics_costs_itself_and_nothing_else() {
    let broker = Broker::new();
    broker.runtime.step("", |_| panic!("a planted bug"));
    assert_eq!(taken(&broker.count(1)), Ok(1));
}

#[test]
fn an_answer_that_panics_keeps_nothing_else_from_being_done() {
    let broker = Broker::new();
    let got = Got::default();
    let place = Arc::clone(&got);
    broker.runtime.step("", move |turn| {
        let effects = turn.ok().unwrap().effects;
        effects.run(|| panic!("a planted bug"));
        effects.run(move || *place.lock() = Some(()));
    });
    taken(&got);
}

#[test]
fn steps_of_many_threads_are_decided_one_after_another() {
    let broker = Broker::new();
    let _ends = awaited::within("the threads count");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..500).for_each(|_| drop(broker.count(1))));
        }
    });
    awaited::until("the last steps are run", || {
        broker.pass(0);
        broker.read(1) == Ok(4_000)
    });
    let expected: Vec<u64> = (1..=4_000).collect();
    let stored = records(&broker.topic, i64::MAX);
    assert_eq!(stored.iter().map(|one| one.value).collect::<Vec<_>>(), expected);
}

#[test]
fn a_topic_that_is_made_again_has_nothing_of_the_former() {
    let broker = Broker::new();
    assert_eq!(taken(&broker.count(1)), Ok(1));
    broker.topic.make(Uuid([9; 16]), 1);
    broker.follow();
    assert_eq!(broker.read(1), Ok(0));
}

#[test]
fn a_runtime_that_stopped_follows_nothing() {
    let broker = Broker::new();
    broker.runtime.stop();
    broker.follow();
    assert!(!broker.runtime.knows_topic());
    assert_eq!(broker.read(1), Err(NOT_COORDINATOR));
}
