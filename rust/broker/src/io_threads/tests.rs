//! The pool runs what is queued, survives what panics, and ends when told.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::awaited;
use crate::clock::SystemClock;
use crate::handlers::policy;
use crate::request_queue::LaneBounds;

const PATIENCE: Duration = Duration::from_secs(20);

fn pool(count: usize) -> (Arc<RequestQueue>, IoThreads) {
    let bounds = LaneBounds { max_requests: 10, max_bytes: 1_000 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let metrics = Arc::new(Metrics::new());
    let run = Arc::new(|_| {});
    let queue =
        RequestQueue::new(bounds, bounds, run, policy, Arc::clone(&clock), Arc::clone(&metrics));
    let pool = IoThreads::start(count, Arc::clone(&queue), &clock, &metrics).expect("threads");
    (queue, pool)
}

#[test]
fn tasks_run_side_by_side_on_all_threads() {
    let (queue, _pool) = pool(3);
    let _ends = awaited::within("three threads run at once");
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let (sent, received) = mpsc::channel();
    for _ in 0..3 {
        let (sent, barrier) = (sent.clone(), Arc::clone(&barrier));
        queue.execute(Box::new(move || {
            // Passes only if three threads run it at once.
            barrier.wait();
            sent.send(std::thread::current().id()).expect("the test listens");
        }));
    }
    let threads: HashSet<_> =
        (0..3).map(|_| received.recv_timeout(PATIENCE).expect("it ran")).collect();
    assert_eq!(threads.len(), 3);
}

#[test]
fn a_task_that_panics_does_not_end_its_thread() {
    let (queue, _pool) = pool(1);
    let (sent, received) = mpsc::channel();
    queue.execute(Box::new(|| panic!("on purpose")));
    queue.execute(Box::new(move || sent.send(()).expect("the test listens")));
    assert_eq!(received.recv_timeout(PATIENCE), Ok(()));
}

#[test]
fn stopping_runs_what_is_queued_and_ends_the_threads() {
    let (queue, pool) = pool(2);
    let (sent, received) = mpsc::channel();
    for i in 0..100 {
        let sent = sent.clone();
        queue.execute(Box::new(move || sent.send(i).expect("the test listens")));
    }
    let _ends = awaited::within("the pool stops");
    pool.stop();
    drop(sent);
    assert_eq!(received.into_iter().collect::<HashSet<i32>>().len(), 100);
}
