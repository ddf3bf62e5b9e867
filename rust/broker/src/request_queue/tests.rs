//! Lanes, order, room and the inline gate, without sockets.

use std::sync::mpsc;

use super::*;
use crate::clock::{ManualClock, NS_PER_MS};
use crate::handlers::policy;
use crate::io_threads::run_frames;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const HEARTBEAT: i16 = 12;

fn request(api_key: i16, correlation_id: i32) -> Request {
    Request {
        header: RequestHeader { api_key, api_version: 0, correlation_id, client_id: None },
        body: Bytes::new(),
        context: context_of(Audience::Clients),
        lane: policy(api_key).lane,
        responder: Responder::to(api_key, 0, |_| {}),
        received_ns: 0,
    }
}

fn context_of(audience: Audience) -> Arc<RequestContext> {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    Arc::new(RequestContext::anonymous((address, address), "PLAINTEXT".into(), audience, 1))
}

/// A queue whose handler tells which requests ran, and on which thread.
fn queue(bounds: LaneBounds) -> (Arc<RequestQueue>, mpsc::Receiver<i32>, Arc<ManualClock>) {
    let (sent, ran) = mpsc::channel();
    let sent = Mutex::new(sent);
    let run: RunRequest = Arc::new(move |request| {
        sent.lock().send(request.header.correlation_id).expect("the test listens");
    });
    let clock = Arc::new(ManualClock::new(0));
    let handed = Arc::clone(&clock) as Arc<dyn Clock>;
    let queue = RequestQueue::new(bounds, bounds, run, policy, handed, Arc::new(Metrics::new()));
    (queue, ran, clock)
}

const WIDE: LaneBounds = LaneBounds { max_requests: 500, max_bytes: 1 << 20 };

fn enqueue(queue: &RequestQueue, connection: &Arc<ConnectionRequests>, api: i16, id: i32) {
    let place = queue.enter(policy(api).lane, 100, &mut None).expect("there is room");
    queue.enqueue(connection, request(api, id), place);
}

/// Does what an I/O thread does, once; `false` if nothing was queued.
fn serve_one(queue: &RequestQueue) -> bool {
    match queue.try_take() {
        Some(Work::Connection(connection)) => run_frames(queue, connection),
        Some(Work::Task(task)) => task(),
        None => return false,
    }
    true
}

#[test]
fn the_control_lane_is_served_first() {
    let (queue, ran, _) = queue(WIDE);
    let (producer, consumer) = (Arc::default(), Arc::default());
    enqueue(&queue, &producer, PRODUCE, 1);
    queue.execute(Box::new(|| {}));
    enqueue(&queue, &consumer, HEARTBEAT, 2);
    while serve_one(&queue) {}
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn what_brokers_send_is_served_before_both_lanes_of_clients() {
    let (queue, ran, _) = queue(WIDE);
    enqueue(&queue, &Arc::default(), PRODUCE, 1);
    enqueue(&queue, &Arc::default(), HEARTBEAT, 2);
    let lane = policy(FETCH).lane_for(Audience::Brokers);
    let fetch = Request { context: context_of(Audience::Brokers), lane, ..request(FETCH, 3) };
    let place = queue.enter(lane, 100, &mut None).expect("the lane of brokers has its own room");
    queue.enqueue(&Arc::default(), fetch, place);
    while serve_one(&queue) {}
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [3, 2, 1]);
}

#[test]
fn a_fetch_of_a_broker_never_runs_on_a_network_thread() {
    let (queue, ran, _) = queue(WIDE);
    let mut gate = InlineGate::new(InlineMode::Auto, 1_000);
    for (audience, runs) in [(Audience::Brokers, false), (Audience::Clients, true)] {
        let lane = policy(FETCH).lane_for(audience);
        let fetch = Request { context: context_of(audience), lane, ..request(FETCH, 1) };
        let place = queue.enter(lane, 100, &mut None).expect("there is room");
        queue.submit(&Arc::default(), fetch, place, &mut gate);
        assert_eq!(ran.try_recv().is_ok(), runs, "{audience:?}");
        while serve_one(&queue) {}
        while ran.try_recv().is_ok() {}
    }
}

/// The control lane was always served first: a flood of metadata requests stopped every produce.
#[test]
fn a_flood_of_control_requests_leaves_the_data_lane_every_fifth_turn() {
    let (queue, ran, _) = queue(WIDE);
    for id in 0..20 {
        enqueue(&queue, &Arc::default(), HEARTBEAT, id);
    }
    for id in [100, 101] {
        enqueue(&queue, &Arc::default(), PRODUCE, id);
    }
    while serve_one(&queue) {}
    let order: Vec<i32> = ran.try_iter().collect();
    assert_eq!(order.iter().position(|id| *id == 100), Some(4), "{order:?}");
    assert_eq!(order.iter().position(|id| *id == 101), Some(9), "{order:?}");
    assert_eq!(order.len(), 22);
}

/// A frame larger than the bound is let in alone: it never was while others came without a pause.
#[test]
fn smaller_frames_pass_a_large_one_a_limited_number_of_times() {
    let (queue, _, _) = queue(LaneBounds { max_requests: 500, max_bytes: 1_000 });
    let mut claim = None;
    let large = |claim: &mut _| queue.enter(Lane::Data, 2_000, claim);
    let small = || queue.enter(Lane::Data, 10, &mut None);
    // Never is nothing held.
    let mut held = small();
    for number in 0..100 {
        assert!(large(&mut claim).is_none());
        match small() {
            Some(next) => held = Some(next),
            None => {
                assert!(number > 10, "others have their turns");
                break;
            }
        }
        assert!(number < 99, "a hundred frames have passed it");
    }
    assert!(queue.enter(Lane::Control, 10, &mut None).is_some(), "the other lane is open");
    assert!(large(&mut claim).is_none(), "one is still held");
    drop(held);
    assert!(small().is_none(), "its turn comes first");
    let place = large(&mut claim);
    assert!(place.is_some() && claim.is_none());
    drop(place);
    // Another large frame lets others pass first; one that is given up keeps no frame out.
    let held = small();
    assert!(large(&mut claim).is_none() && claim.is_none() && small().is_some());
    let many: Vec<_> = (0..20).map(|_| small()).collect();
    assert!(large(&mut claim).is_none() && claim.is_some() && small().is_none());
    drop(claim);
    assert!(small().is_some());
    drop((held, many));
}

/// The lane of brokers was always served before the control lane. Clients that flooded the listener
/// of brokers stopped every heartbeat and metadata request on the listener of clients.
#[test]
fn a_flood_on_the_listener_of_brokers_leaves_both_lanes_of_clients_a_turn() {
    let (queue, ran, _) = queue(WIDE);
    let lane = policy(PRODUCE).lane_for(Audience::Brokers);
    for id in 0..20 {
        let context = context_of(Audience::Brokers);
        let produce = Request { context, lane, ..request(PRODUCE, id) };
        let place = queue.enter(lane, 100, &mut None).expect("there is room");
        queue.enqueue(&Arc::default(), produce, place);
    }
    for (api, id) in [(HEARTBEAT, 100), (HEARTBEAT, 101), (PRODUCE, 200), (PRODUCE, 201)] {
        enqueue(&queue, &Arc::default(), api, id);
    }
    while serve_one(&queue) {}
    let order: Vec<i32> = ran.try_iter().collect();
    let turn = |id| order.iter().position(|ran| *ran == id);
    assert_eq!([100, 101, 200, 201].map(turn), [5, 11, 4, 9].map(Some), "{order:?}");
    assert_eq!(order.len(), 24);
}

#[test]
fn a_connection_lies_in_the_queue_once_and_its_frames_run_in_order() {
    let (queue, ran, _) = queue(WIDE);
    let connection = Arc::default();
    for id in 0..10 {
        enqueue(&queue, &connection, PRODUCE, id);
    }
    assert!(serve_one(&queue));
    assert!(!serve_one(&queue), "one item for ten frames");
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    enqueue(&queue, &connection, PRODUCE, 10);
    assert!(serve_one(&queue), "idle again, it was queued again");
}

#[test]
fn a_connection_beyond_its_budget_goes_behind_the_others() {
    let (queue, ran, _) = queue(WIDE);
    let (busy, other) = (Arc::default(), Arc::default());
    for id in 0..20 {
        enqueue(&queue, &busy, PRODUCE, id);
    }
    enqueue(&queue, &other, PRODUCE, 100);
    while serve_one(&queue) {}
    let order: Vec<i32> = ran.try_iter().collect();
    let at = order.iter().position(|&id| id == 100).expect("it ran");
    assert!(at < 20, "it waited for a budget, not for the backlog: {order:?}");
    assert_eq!(order.len(), 21);
}

#[test]
fn room_is_bounded_in_requests_and_bytes_and_freed_when_the_handler_returned() {
    let (queue, _ran, _) = queue(LaneBounds { max_requests: 3, max_bytes: 1_000 });
    let connection = Arc::default();
    for id in 0..3 {
        enqueue(&queue, &connection, PRODUCE, id);
    }
    assert!(queue.enter(Lane::Data, 1, &mut None).is_none(), "three requests are held");
    assert!(queue.enter(Lane::Control, 1, &mut None).is_some(), "the other lane has its own room");
    assert!(serve_one(&queue));
    let first = queue.enter(Lane::Data, 900, &mut None).expect("all were freed");
    assert!(queue.enter(Lane::Data, 101, &mut None).is_none(), "bytes are held");
    drop(first);
    let huge = queue.enter(Lane::Data, 50_000, &mut None);
    assert!(huge.is_some(), "a frame above the bound is let in when nothing else is held");
    assert!(queue.enter(Lane::Data, 1, &mut None).is_none());
}

#[test]
fn one_place_at_a_time_may_grow_beyond_the_bound() {
    let waiters = Arc::new(RoomWaiters::default());
    let room = Room::new(usize::MAX, 1_000, waiters);
    let mut first = Room::begin(&room, 600).expect("there is room");
    let mut second = Room::begin(&room, 400).expect("there is room");
    assert!(second.grow(10_000), "the first to need more gets it");
    assert_eq!(room.bytes(), 11_000);
    assert!(!first.grow(401));
    assert!(Room::begin(&room, 401).is_none());
    assert!(second.grow(10_000), "and keeps the right");
    drop(second);
    assert_eq!(room.bytes(), 600);
    assert!(first.grow(1_000), "now it is the other's turn");
}

/// A frame larger than the room counted beside the others: while its client sent it slowly, no
/// other large frame arrived.
#[test]
fn a_place_beyond_the_bound_leaves_its_share_to_others() {
    let room = Room::new(usize::MAX, 1_000, Arc::default());
    let mut slow = Room::begin(&room, 500).expect("there is room");
    assert!(slow.grow(5_000));
    let mut other = Room::begin(&room, 400).expect("there is room beside it");
    assert!(other.grow(600) && !other.grow(1));
    drop(other);
    assert_eq!(room.bytes(), 5_500);
    drop(slow);
    assert_eq!(room.bytes(), 0);
}

#[test]
fn a_thread_that_waits_for_room_is_poked_once_when_a_place_is_left() {
    let (sent, wakes) = mpsc::channel();
    let sent = Mutex::new(sent);
    let wake = Box::new(move || sent.lock().send(()).expect("the test listens"));
    let responses = Arc::new(crate::response_queue::ResponseQueue::new(wake));
    let (queue, ..) = queue(LaneBounds { max_requests: 2, max_bytes: 1_000 });
    let waits = queue.waiters().register(Arc::clone(&responses));
    let place = || queue.enter(Lane::Data, 1, &mut None).expect("there is room");
    let (first, second) = (place(), place());
    assert!(queue.waiters().wait(&waits), "look once more");
    assert!(!queue.waiters().wait(&waits), "no need to");
    assert!(responses.park());
    drop(first);
    drop(second);
    assert_eq!(wakes.try_iter().count(), 1);
    assert!(responses.take_poke());
    drop(place());
    assert!(!responses.take_poke(), "no thread waits any more");
}

#[test]
fn a_submitted_request_runs_inline_only_if_nothing_waits_before_it() {
    let (queue, ran, _) = queue(WIDE);
    let mut gate = InlineGate::new(InlineMode::Auto, 1_000);
    let submit = |connection: &Arc<ConnectionRequests>, id, gate: &mut InlineGate| {
        let place = queue.enter(Lane::Data, 100, &mut None).expect("there is room");
        queue.submit(connection, request(PRODUCE, id), place, gate);
    };
    let (mine, other) = (Arc::default(), Arc::default());
    submit(&mine, 1, &mut gate);
    assert_eq!(ran.try_recv(), Ok(1), "nothing waits: it ran");
    enqueue(&queue, &other, PRODUCE, 2);
    submit(&mine, 3, &mut gate);
    assert!(ran.try_recv().is_err(), "another connection waits in the queue");
    while serve_one(&queue) {}
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2, 3]);
    // Its own earlier frame is running on an I/O thread: out of the queue, not done.
    enqueue(&queue, &mine, PRODUCE, 4);
    let Some(Work::Connection(taken)) = queue.try_take() else { panic!("it was queued") };
    submit(&mine, 5, &mut gate);
    let mut always = InlineGate::new(InlineMode::Always, 0);
    submit(&mine, 6, &mut always);
    assert!(ran.try_recv().is_err(), "not even with inline=always");
    run_frames(&queue, taken);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [4, 5, 6]);
}

#[test]
fn the_gate_admits_small_cheap_requests_within_a_budget() {
    let gate = |mode| InlineGate::new(mode, 1_000);
    for (mode, api, bytes, empty, admitted) in [
        (InlineMode::Auto, PRODUCE, 1_000, true, true),
        (InlineMode::Auto, PRODUCE, 1_001, true, false),
        (InlineMode::Auto, PRODUCE, 10, false, false),
        (InlineMode::Auto, HEARTBEAT, 10, true, false),
        (InlineMode::Never, PRODUCE, 10, true, false),
        (InlineMode::Always, HEARTBEAT, 99_999, false, true),
    ] {
        let got = gate(mode).admits(policy(api).inline, bytes, 0, || empty);
        assert_eq!(got, admitted, "{mode:?} {api} {bytes} {empty}");
    }
    let mut gate = gate(InlineMode::Auto);
    let mut ran = 0;
    while gate.admits(true, 10, 0, || true) {
        gate.record(1_000, 0);
        ran += 1;
        assert!(ran < 10_000, "a turn has a budget");
    }
    gate.next_turn();
    assert!(gate.admits(true, 10, 0, || true));
}

#[test]
fn handlers_that_become_slow_close_the_gate_for_a_while() {
    let mut gate = InlineGate::new(InlineMode::Auto, 1_000);
    let admits =
        |gate: &InlineGate, now_ms: u64| gate.admits(true, 10, now_ms * NS_PER_MS, || true);
    gate.record(20_000, 0);
    assert!(admits(&gate, 0));
    for _ in 0..3 {
        gate.record(5_000_000, NS_PER_MS);
    }
    assert!(!admits(&gate, 2));
    assert!(!admits(&gate, 100));
    assert!(admits(&gate, 102));
}

#[test]
fn a_thread_that_lost_its_core_once_goes_on_running_requests() {
    let mut gate = InlineGate::new(InlineMode::Auto, 1_000);
    for slices in 0..3 {
        gate.record(30_000_000, slices);
        for _ in 0..16 {
            gate.record(20_000, slices);
        }
        assert!(gate.admits(true, 10, slices, || true), "slice {slices}");
    }
}

#[test]
fn a_handler_that_panics_leaves_the_queue_usable() {
    let run: RunRequest = Arc::new(|request| {
        assert_ne!(request.header.correlation_id, 1, "on purpose");
    });
    let clock = Arc::new(ManualClock::new(0));
    let queue = RequestQueue::new(WIDE, WIDE, run, policy, clock, Arc::new(Metrics::new()));
    let connection = Arc::default();
    for id in 0..3 {
        enqueue(&queue, &connection, PRODUCE, id);
    }
    assert!(serve_one(&queue));
    assert!(queue.is_empty());
    assert_eq!(queue.data.room.count(), 0, "the place of the panicked request was left");
}

/// A connection that found no memory left an empty place behind. The place woke the connection's
/// own thread, which tried again, so a thousand stalled peers kept the thread spinning.
#[test]
fn finding_no_room_wakes_no_thread() {
    let waiters = Arc::new(RoomWaiters::default());
    let room = Room::new(usize::MAX, 1_000, Arc::clone(&waiters));
    let responses = Arc::new(crate::response_queue::ResponseQueue::new(Box::new(|| {})));
    let waits = waiters.register(Arc::clone(&responses));
    let first = Room::begin(&room, 5_000).expect("one may overdraw");
    let _second = Room::begin(&room, 1_000).expect("there is room beside it");
    assert!(waiters.wait(&waits));
    assert!(Room::begin(&room, 1).is_none());
    assert!(Room::enter(&room, 1, &mut None).is_none());
    assert!(!responses.take_poke());
    drop(first);
    assert!(responses.take_poke());
}
