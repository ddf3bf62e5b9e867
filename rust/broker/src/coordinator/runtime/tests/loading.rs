//! How a partition comes to its state.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Counts lines of errors.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_partition_is_read_to_its_end_and_serves_when_all_of_it_is_committed() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let _ = (broker.count(1), broker.count(1));
    broker.topic.change(0, |one| (one.epoch, one.committed) = (1, 1));
    let again = Broker::over(&broker.topic);
    again.follow();
    again.load();
    let loading = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!((again.read(1), taken(&again.count(1))), (Err(loading), Err(loading)));
    again.topic.commit();
    assert_eq!(again.read(1), Ok(2));
}

#[test]
fn loads_run_one_after_another_on_a_thread_that_ends() {
    let loader = LoaderThread::default();
    let (ran, runs) = std::sync::mpsc::channel();
    for round in 0..3 {
        for number in 0..5 {
            let ran = ran.clone();
            let load = move || {
                let thread = std::thread::current();
                ran.send((round, number, thread.name().map(str::to_owned))).unwrap();
                assert!(number != 2, "a planted bug");
                false
            };
            loader.execute(Box::new(load)).unwrap();
        }
        for number in 0..5 {
            let expected = (round, number, Some("group-loader".to_owned()));
            assert_eq!(awaited::received("a load runs", &runs), expected);
        }
        // The next one may start a thread of its own.
        awaited::until("the thread has nothing to do", || loader.is_idle());
    }
}

/// A follower truncated the log while it was read, and the partition counted as damaged.
#[test]
fn what_is_read_while_the_epoch_ends_is_not_taken_for_damage() {
    let broker = Broker::new();
    broker.count(1);
    let again = Broker::over(&broker.topic);
    again.follow();
    broker.topic.change(0, |one| one.epoch += 1);
    broker.topic.inner.lock().read_fails = Some(ErrorCode::CorruptMessage);
    again.load();
    assert_eq!(again.runtime.phase(""), Some(Phase::Closed));
}

/// A load is many reads: between two of them the epoch may end, and the next one begin.
#[test]
fn a_load_that_the_next_epoch_overtakes_ends_between_two_reads() {
    let broker = Broker::new();
    (0..4).for_each(|_| drop(broker.count(1)));
    let again = Broker::over(&broker.topic);
    again.follow();
    let mut overtaken = again.loads.lock().pop().unwrap();
    assert!(overtaken() && overtaken(), "there is more to read");
    let reads = broker.topic.inner.lock().reads;
    broker.topic.change(0, |one| one.epoch += 1);
    again.follow();
    assert!(!overtaken());
    assert_eq!(broker.topic.inner.lock().reads, reads, "nothing is read for a closed epoch");
    assert_eq!(again.read(1), Err(ErrorCode::CoordinatorLoadInProgress));
    again.load();
    assert_eq!(again.read(1), Ok(4));
}

/// Each FindCoordinator read a lost directory again, and wrote a line.
#[test]
fn a_load_that_fails_again_for_the_same_reason_is_logged_once() {
    let broker = Broker::new();
    broker.count(1);
    let fails = |error| broker.topic.inner.lock().read_fails = Some(error);
    fails(ErrorCode::KafkaStorageError);
    let again = Broker::over(&broker.topic);
    let errors = Errors::default();
    tracing::subscriber::with_default(errors.clone(), || {
        again.follow();
        again.load();
        for _ in 0..5 {
            again.pass(60_000);
            again.load();
        }
        assert_eq!(errors.0.load(Ordering::SeqCst), 1);
        fails(ErrorCode::UnknownServerError);
        again.pass(60_000);
        again.load();
        assert_eq!(errors.0.load(Ordering::SeqCst), 2, "the reason is another one");
    });
}

#[test]
fn a_load_without_a_thread_is_tried_again() {
    let broker = Broker::new();
    broker.count(1);
    let again = Broker::over(&broker.topic);
    again.has_no_thread.store(true, Ordering::SeqCst);
    again.follow();
    assert_eq!(again.runtime.phase(""), Some(Phase::Failed));
    again.has_no_thread.store(false, Ordering::SeqCst);
    again.pass(1_000);
    again.load();
    assert_eq!(again.read(1), Ok(1));
}
