//! Purgatory completes each operation exactly once, however completions and timeouts race.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::awaited;
use crate::clock::{Clock, ManualClock, SystemClock};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a shared value reaches a target, as a fetch waits for the high watermark.
struct Waits {
    value: Arc<AtomicI64>,
    target: i64,
    timeout_ms: u64,
    missing_bytes: AtomicU64,
    asked: Arc<AtomicUsize>,
    done: mpsc::Sender<(i64, Completion)>,
}

impl DelayedOperation for Waits {
    fn is_satisfied(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.value.load(Ordering::Acquire) >= self.target
    }

    fn complete(self: Arc<Self>, how: Completion) {
        // The test may have ended before a timer did.
        let _ = self.done.send((self.target, how));
    }

    fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    fn add_bytes(&self, bytes: u64) -> bool {
        let missing = self.missing_bytes.load(Ordering::Relaxed).saturating_sub(bytes);
        self.missing_bytes.store(missing, Ordering::Relaxed);
        missing == 0
    }
}

struct House {
    clock: Arc<ManualClock>,
    purgatory: Purgatory,
    lists: Vec<Arc<WatchList>>,
    value: Arc<AtomicI64>,
    asked: Arc<AtomicUsize>,
    sent: mpsc::Sender<(i64, Completion)>,
    done: mpsc::Receiver<(i64, Completion)>,
    metrics: Metrics,
}

fn house() -> House {
    let clock = Arc::new(ManualClock::new(0));
    let run: RunExpired = Arc::new(|task| task());
    let timer = Timer::start(Arc::clone(&clock) as Arc<dyn Clock>, run).expect("a thread");
    let metrics = Metrics::new();
    let (sent, done) = mpsc::channel();
    let purgatory = Purgatory::new("Test", timer, &metrics);
    House {
        clock,
        lists: (0..102).map(|_| purgatory.new_list()).collect(),
        purgatory,
        value: Arc::default(),
        asked: Arc::default(),
        sent,
        done,
        metrics,
    }
}

impl House {
    fn operation(&self, target: i64, timeout_ms: u64) -> Arc<Waits> {
        Arc::new(Waits {
            value: Arc::clone(&self.value),
            target,
            timeout_ms,
            missing_bytes: AtomicU64::new(100),
            asked: Arc::clone(&self.asked),
            done: self.sent.clone(),
        })
    }

    fn watch(&self, operation: Arc<Waits>, lists: &[usize]) {
        self.purgatory.watch(operation, || lists.iter().map(|list| self.lists[*list].clone()));
    }

    fn completed(&self) -> Vec<(i64, Completion)> {
        self.done.try_iter().collect()
    }
}

#[test]
fn an_operation_that_need_not_wait_completes_at_once() {
    let house = house();
    house.watch(house.operation(0, 1_000), &[1]);
    assert_eq!(house.completed(), [(0, Completion::Satisfied)]);
    assert!(house.purgatory.is_empty());
}

#[test]
fn an_operation_without_time_expires_at_once() {
    let house = house();
    house.watch(house.operation(5, 0), &[1]);
    assert_eq!(house.completed(), [(5, Completion::Expired)]);
}

#[test]
fn check_completes_what_is_satisfied_in_that_list_and_leaves_nothing_behind() {
    let house = house();
    house.watch(house.operation(5, 1_000), &[1, 2]);
    house.watch(house.operation(9, 1_000), &[2]);
    house.watch(house.operation(5, 1_000), &[3]);
    assert_eq!(house.purgatory.len(), 3);
    house.value.store(5, Ordering::Release);
    assert_eq!(house.lists[2].check(), 1);
    assert_eq!(house.completed(), [(5, Completion::Satisfied)]);
    assert_eq!(house.lists[1].check(), 0, "it was unlinked from its other list");
    assert_eq!(house.purgatory.len(), 2);
    assert_eq!(house.purgatory.timer.len(), 2, "its timer was cancelled");
}

#[test]
fn a_check_without_waiting_operations_asks_none() {
    let house = house();
    assert_eq!(house.lists[1].check(), 0);
    house.watch(house.operation(5, 1_000), &[1]);
    let asked = house.asked.load(Ordering::Relaxed);
    assert_eq!(house.lists[2].check(), 0);
    assert_eq!(house.asked.load(Ordering::Relaxed), asked);
    house.value.store(5, Ordering::Release);
    assert_eq!(house.lists[1].check(), 1);
}

#[test]
fn bytes_are_added_up_before_the_operation_is_asked() {
    let house = house();
    house.watch(house.operation(5, 1_000), &[1]);
    house.value.store(5, Ordering::Release);
    let asked = house.asked.load(Ordering::Relaxed);
    assert_eq!(house.lists[1].check_bytes(60), 0);
    assert_eq!(house.asked.load(Ordering::Relaxed), asked);
    assert_eq!(house.lists[1].check_bytes(40), 1);
}

#[test]
fn the_timeout_completes_as_expired_and_is_counted() {
    let house = house();
    house.watch(house.operation(5, 30), &[1]);
    house.clock.advance_ms(29);
    assert!(house.completed().is_empty());
    house.clock.advance_ms(1);
    assert_eq!(house.done.recv_timeout(PATIENCE), Ok((5, Completion::Expired)));
    assert_eq!(house.lists[1].check(), 0);
    let mut scalars = Vec::new();
    house.metrics.for_each_scalar(|name, _, _, value| scalars.push((name.to_owned(), value)));
    use crate::metrics::Value::{Counter, Gauge};
    let expected =
        [("kafkalite_purgatory_expired", Counter(1)), ("kafkalite_purgatory_size", Gauge(0))];
    assert_eq!(scalars, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn stopping_completes_everything_that_waits() {
    let house = house();
    for key in 0..100 {
        house.watch(house.operation(5, 1_000), &[key, key + 1]);
    }
    house.purgatory.stop();
    assert_eq!(house.completed(), vec![(5, Completion::Stopped); 100]);
    assert!(house.purgatory.is_empty());
}

/// A fetch that was queued when the broker stopped waited out its time, and the stop with it.
#[test]
fn what_would_wait_after_the_stop_completes_at_once() {
    let house = house();
    house.purgatory.stop();
    house.watch(house.operation(5, 1_000), &[1]);
    house.value.store(7, Ordering::Release);
    house.watch(house.operation(6, 1_000), &[1]);
    assert_eq!(house.completed(), [(5, Completion::Stopped), (6, Completion::Satisfied)]);
    assert!(house.purgatory.is_empty());
}

#[test]
fn an_operation_may_watch_and_check_while_it_completes() {
    struct Chain {
        purgatory: Arc<Purgatory>,
        list: Arc<WatchList>,
        satisfied: AtomicBool,
        next: Mutex<Option<Arc<Chain>>>,
        done: mpsc::Sender<()>,
    }
    impl DelayedOperation for Chain {
        fn is_satisfied(&self) -> bool {
            self.satisfied.swap(true, Ordering::SeqCst)
        }
        fn complete(self: Arc<Self>, _: Completion) {
            if let Some(next) = self.next.lock().take() {
                self.purgatory.watch(next, || [self.list.clone()]);
                self.list.check();
            }
            self.done.send(()).expect("the test listens");
        }
        fn timeout_ms(&self) -> u64 {
            1_000
        }
    }
    let house = house();
    let (purgatory, list) = (Arc::new(house.purgatory), house.lists[1].clone());
    let (done, ended) = mpsc::channel();
    let chain = |next| {
        let (purgatory, list, done) = (Arc::clone(&purgatory), list.clone(), done.clone());
        let next = Mutex::new(next);
        Arc::new(Chain { purgatory, list, satisfied: AtomicBool::new(false), next, done })
    };
    purgatory.watch(chain(Some(chain(None))), || [list.clone()]);
    // The second look of `watch` satisfied the first; its completion did the same to the second.
    assert_eq!(ended.try_iter().count(), 2);
}

/// The race that `watch` looks twice for: the value moves, and is checked, between its first look
/// and its being linked. Were the second look missing, the operation would wait for its timeout.
#[test]
fn a_value_that_moves_while_an_operation_is_being_watched_is_never_missed() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let run: RunExpired = Arc::new(|task| task());
    let timer = Timer::start(clock, run).expect("a thread");
    let purgatory = Purgatory::new("Race", timer, &Metrics::new());
    let list = purgatory.new_list();
    let (sent, done) = mpsc::channel();
    const ROUNDS: i64 = 3_000;
    let _ends = awaited::within("every round ends");
    let value: Arc<AtomicI64> = Arc::default();
    let barrier = Arc::new(Barrier::new(2));
    let mover = {
        let (list, value) = (Arc::clone(&list), Arc::clone(&value));
        let barrier = Arc::clone(&barrier);
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                barrier.wait();
                value.store(round, Ordering::Release);
                list.check();
                barrier.wait();
            }
        })
    };
    for round in 1..=ROUNDS {
        let operation = Waits {
            value: Arc::clone(&value),
            target: round,
            timeout_ms: 60_000,
            missing_bytes: AtomicU64::new(0),
            asked: Arc::default(),
            done: sent.clone(),
        };
        barrier.wait();
        purgatory.watch(Arc::new(operation), || [list.clone()]);
        barrier.wait();
        assert_eq!(done.try_recv(), Ok((round, Completion::Satisfied)));
        assert!(done.try_recv().is_err(), "completed once");
        assert!(purgatory.is_empty());
    }
    mover.join().expect("no panic");
}

#[test]
fn check_and_timeout_at_once_complete_an_operation_once() {
    let house = house();
    for round in 1..=500 {
        house.watch(house.operation(round, 1), &[1]);
        house.value.store(round, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| house.clock.advance_ms(1));
            scope.spawn(|| house.lists[1].check());
        });
        let (target, _) = house.done.recv_timeout(PATIENCE).expect("one of them did");
        assert_eq!(target, round);
    }
    house.purgatory.timer.stop();
    assert!(house.completed().is_empty(), "none completed twice");
    assert_eq!(house.purgatory.len(), 0);
}

/// A fetch that named one partition 20,000 times waited there 20,000 times. Each produce asked the
/// fetch as often, and each time the fetch looked at 20,000 partitions.
#[test]
fn an_operation_waits_once_in_a_list_that_is_given_many_times() {
    let house = house();
    house.watch(house.operation(1, 1_000), &[7; 1_000]);
    house.asked.store(0, Ordering::Relaxed);
    house.lists[7].check();
    assert_eq!(house.asked.load(Ordering::Relaxed), 1);
    house.value.store(1, Ordering::Release);
    assert_eq!(house.lists[7].check(), 1);
    assert!(house.purgatory.is_empty());
    house.purgatory.timer.stop();
}
