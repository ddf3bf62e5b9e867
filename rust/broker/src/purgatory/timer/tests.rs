//! The timer thread follows an injected clock: it fires at deadlines, and sleeps otherwise.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;

/// Long enough for any machine; a passing test never waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

fn timer() -> (Arc<ManualClock>, Arc<Timer>) {
    let clock = Arc::new(ManualClock::new(0));
    let run: RunExpired = Arc::new(|task| task());
    let timer = Timer::start(Arc::clone(&clock) as Arc<dyn Clock>, run).expect("a thread");
    (clock, timer)
}

#[test]
fn a_task_runs_when_the_clock_reaches_its_deadline_and_not_before() {
    let (clock, timer) = timer();
    let (sent, received) = mpsc::channel();
    for delay_ms in [30, 10, 700] {
        let sent = sent.clone();
        timer.schedule(delay_ms, Box::new(move || sent.send(delay_ms).expect("a receiver")));
    }
    clock.advance_ms(10);
    assert_eq!(received.recv_timeout(PATIENCE), Ok(10));
    clock.advance_ms(690);
    assert_eq!(received.recv_timeout(PATIENCE), Ok(30));
    assert_eq!(received.recv_timeout(PATIENCE), Ok(700));
    drop(sent);
    assert_eq!(received.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_cancelled_task_never_runs() {
    let (clock, timer) = timer();
    let (sent, received) = mpsc::channel();
    let cancelled = sent.clone();
    let id = timer.schedule(5, Box::new(move || cancelled.send("cancelled").expect("open")));
    timer.schedule(6, Box::new(move || sent.send("kept").expect("open")));
    assert!(timer.cancel(id));
    assert!(!timer.cancel(id));
    clock.advance_ms(6);
    assert_eq!(received.recv_timeout(PATIENCE), Ok("kept"));
    // Both senders are gone, and the cancelled one sent nothing.
    assert_eq!(received.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_task_that_panics_does_not_end_the_timer() {
    let (clock, timer) = timer();
    let (sent, received) = mpsc::channel();
    timer.schedule(1, Box::new(|| panic!("on purpose")));
    timer.schedule(2, Box::new(move || sent.send(()).expect("open")));
    clock.advance_ms(1);
    clock.advance_ms(1);
    assert_eq!(received.recv_timeout(PATIENCE), Ok(()));
}

#[test]
fn stopping_ends_the_thread_and_leaves_tasks_unrun() {
    let (clock, timer) = timer();
    let (sent, received) = mpsc::channel::<()>();
    timer.schedule(1, Box::new(move || sent.send(()).expect("open")));
    timer.stop();
    clock.advance_ms(1);
    drop(timer);
    assert_eq!(received.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_timer_without_a_thread_runs_what_is_due_when_its_owner_turns_it() {
    let clock = Arc::new(ManualClock::new(0));
    let timer = Timer::without_thread(Arc::clone(&clock) as Arc<dyn Clock>);
    assert_eq!(timer.turn(), None);
    let (sent, received) = mpsc::channel();
    let (again, sender) = (Arc::clone(&timer), sent.clone());
    let first = move || {
        sender.send("first").expect("a receiver");
        again.schedule(5, Box::new(move || sender.send("second").expect("a receiver")));
    };
    timer.schedule(10, Box::new(first));
    clock.advance_ms(9);
    assert_eq!(timer.turn(), Some(10));
    assert!(received.try_recv().is_err());
    clock.advance_ms(1);
    assert_eq!(timer.turn(), Some(15));
    clock.advance_ms(100);
    assert_eq!(timer.turn(), None);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), ["first", "second"]);
}
