//! Cold ranges are read before their response goes out, and turns are shared.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::awaited;
use crate::clock::SystemClock;
use crate::metrics::Value;

const PATIENCE: Duration = Duration::from_secs(20);

fn slice(length: u32) -> FileSlice {
    let file = crate::response_queue::tests::segment(&vec![5; length as usize]);
    FileSlice { file, position: 0, length, written_ms: None }
}

const LIMITS: Limits = Limits { threads: 1, turn_bytes: 4 << 20, bytes_per_second: 0 };

fn pool(is_resident: bool) -> (Arc<Metrics>, ColdReads) {
    let metrics = Arc::new(Metrics::new());
    let clock = Arc::new(SystemClock::new());
    let pool =
        ColdReads::start(LIMITS, Arc::new(move |_| is_resident), clock, Arc::clone(&metrics));
    (metrics, pool.expect("a thread"))
}

fn read_bytes(metrics: &Metrics) -> u64 {
    counted(metrics, "kafkalite_cold_read_bytes") as u64
}

fn counted(metrics: &Metrics, counter: &str) -> f64 {
    let mut total = 0.0;
    metrics.for_each_scalar(|name, _, _, value| match value {
        _ if name != counter => {}
        Value::Counter(n) => total = n as f64,
        Value::Seconds(seconds) => total = seconds,
        Value::Gauge(_) => {}
    });
    total
}

/// API, stage and how often, of all that was recorded.
fn stages(metrics: &Metrics) -> Vec<(i16, Stage, u64)> {
    let mut stages = Vec::new();
    metrics.for_each_stage(|api, stage, h| stages.push((api, stage, h.count)));
    stages
}

fn response(length: u32) -> Response {
    let pieces = [Piece::Mem(Bytes::from_static(b"head")), Piece::File(slice(length))];
    Response::Pieces(pieces.into_iter().collect())
}

fn responder() -> (Responder, mpsc::Receiver<std::thread::ThreadId>) {
    let (sent, received) = mpsc::channel();
    let responder = Responder::to(1, 12, move |_| {
        sent.send(std::thread::current().id()).expect("the test listens");
    });
    (responder, received)
}

#[test]
fn a_resident_response_is_sent_at_once_by_its_caller() {
    let (metrics, pool) = pool(true);
    let (responder, received) = responder();
    pool.send(responder, response(10_000));
    assert_eq!(received.try_recv(), Ok(std::thread::current().id()));
    assert_eq!(read_bytes(&metrics), 0);
}

#[test]
fn a_cold_response_is_sent_by_the_pool_once_every_byte_was_read() {
    let (metrics, pool) = pool(false);
    let (responder, received) = responder();
    pool.send(responder, response(9_000_001));
    let thread = received.recv_timeout(PATIENCE).expect("it is sent");
    assert_ne!(thread, std::thread::current().id());
    assert_eq!(read_bytes(&metrics), 9_000_001);
    assert_eq!(stages(&metrics), [(1, Stage::ColdRead, 1)]);
}

#[test]
fn what_needs_cold_ranges_runs_on_the_pool_after_they_were_read() {
    for (is_resident, by_caller, bytes) in [(true, true, 0), (false, false, 5_000)] {
        let (metrics, pool) = pool(is_resident);
        let (sent, received) = mpsc::channel();
        pool.when_resident(1, vec![slice(5_000)], move || {
            sent.send(std::thread::current().id()).expect("the test listens");
        });
        let thread = received.recv_timeout(PATIENCE).expect("it runs");
        assert_eq!(thread == std::thread::current().id(), by_caller, "resident: {is_resident}");
        assert_eq!(read_bytes(&metrics), bytes, "resident: {is_resident}");
        assert_eq!(stages(&metrics).is_empty(), by_caller, "resident: {is_resident}");
    }
}

#[test]
fn a_file_shorter_than_its_range_does_not_stop_the_response() {
    let (_, pool) = pool(false);
    let mut short = slice(1_000);
    short.length = 50_000_000;
    let (sent, received) = mpsc::channel();
    let then = move || sent.send(()).expect("the test listens");
    pool.read_in(vec![short], Box::new(then));
    assert_eq!(received.recv_timeout(PATIENCE), Ok(()));
}

#[test]
fn a_turn_reads_four_mebibytes_and_keeps_the_rest() {
    let null = File::options().write(true).open("/dev/null").expect("it exists");
    let mut slices: VecDeque<FileSlice> = [slice(3 << 20), slice(6 << 20)].into();
    for left in [5 << 20, 1 << 20, 0] {
        read_turn(&mut slices, 4 << 20, &null, |_| {});
        assert_eq!(slices.iter().map(|slice| slice.length).sum::<u32>(), left);
    }
}

#[test]
fn a_short_job_is_done_between_the_turns_of_a_long_one() {
    let (_, pool) = pool(false);
    let (sent, received) = mpsc::channel();
    // The single thread waits here until both jobs are queued behind it.
    let (release, released) = mpsc::channel::<()>();
    pool.read_in(
        vec![],
        Box::new(move || {
            let _ = released.recv_timeout(PATIENCE);
        }),
    );
    for (name, length) in [("long", 20 << 20), ("short", 100)] {
        let sent = sent.clone();
        let then = move || sent.send(name).expect("the test listens");
        pool.read_in(vec![slice(length)], Box::new(then));
    }
    release.send(()).expect("the pool waits");
    assert_eq!(received.recv_timeout(PATIENCE), Ok("short"));
    assert_eq!(received.recv_timeout(PATIENCE), Ok("long"));
}

#[test]
fn stopping_sends_what_waits() {
    let (_, pool) = pool(false);
    let (release, released) = mpsc::channel::<()>();
    pool.read_in(
        vec![],
        Box::new(move || {
            let _ = released.recv_timeout(PATIENCE);
        }),
    );
    let (responder, received) = responder();
    pool.send(responder, response(100));
    drop(release);
    let _ends = awaited::within("the pool stops");
    pool.stop();
    assert!(received.try_recv().is_ok());
}

#[test]
fn stopping_ends_the_wait_of_a_paced_read() {
    let clock = Arc::new(crate::clock::ManualClock::new(0));
    let metrics = Arc::new(Metrics::new());
    let limits = Limits { bytes_per_second: 1, ..LIMITS };
    let all_cold = Arc::new(|_: &FileSlice| false);
    let pool = ColdReads::start(limits, all_cold, clock.clone(), Arc::clone(&metrics));
    let pool = pool.expect("a thread");
    metrics.record(Stage::Local, ApiKey::Produce as i16, 1);
    clock.advance_ms(100);
    let (responder, received) = responder();
    // Two steps: the second has to wait for days.
    pool.send(responder, response(300_000));
    awaited::until("the read is throttled", || {
        counted(&metrics, "kafkalite_cold_read_throttled_seconds") > 0.0
    });
    assert!(received.try_recv().is_err());
    let _ends = awaited::within("the pool stops");
    pool.stop();
    assert!(received.try_recv().is_ok());
}

#[test]
fn what_was_just_written_is_not_asked_for() {
    let clock = Arc::new(crate::clock::ManualClock::new(100_000));
    let metrics = Arc::new(Metrics::new());
    let all_cold = Arc::new(|_: &FileSlice| false);
    let pool = ColdReads::start(LIMITS, all_cold, clock, Arc::clone(&metrics));
    let pool = pool.expect("a thread");
    for (written_ms, read_in) in [
        (None, true),
        (Some(100_000), false),
        (Some(70_001), false),
        (Some(70_000), true),
        // The clock was set back since.
        (Some(100_001), true),
    ] {
        let before = read_bytes(&metrics);
        let (sent, received) = mpsc::channel();
        let slice = FileSlice { written_ms, ..slice(5_000) };
        pool.when_resident(1, vec![slice], move || sent.send(()).expect("the test listens"));
        received.recv_timeout(PATIENCE).expect("it runs");
        assert_eq!(read_bytes(&metrics) > before, read_in, "written at {written_ms:?}");
    }
}
