//! The overlap rule and the order of answers, without a socket; responders and elided wakes.

use std::sync::mpsc;

use kafkalite_log::SegmentFile;
use kafkalite_log::storage::{OpenMode, RealStorage, Storage};
use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;
use bytes::Bytes;

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;

/// A segment's file that holds `bytes` and has no name any more.
pub(crate) fn segment(bytes: &[u8]) -> Arc<SegmentFile> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("0.log");
    std::fs::write(&path, bytes).expect("room on the disk");
    let file = RealStorage.open(&path, OpenMode::Read).expect("it is there");
    Arc::new(SegmentFile::from(file))
}

fn slot(api_key: i16, correlation_id: i32) -> Slot {
    Slot { api_key, api_version: 0, correlation_id, overlap: overlap(api_key), received_ns: 0 }
}

fn overlap(api_key: i16) -> Overlap {
    match api_key {
        PRODUCE => Overlap::Produce,
        FETCH => Overlap::Fetch,
        _ => Overlap::Alone,
    }
}

fn nothing() -> Answer {
    Answer::Response(Response::NoResponse)
}

fn taken(slots: &mut ResponseSlots) -> Vec<i32> {
    let mut ready = Vec::new();
    slots.take_ready(&mut ready);
    ready.iter().map(|ready| ready.slot.correlation_id).collect()
}

#[test]
fn what_may_start_beside_what_waits() {
    use Overlap::{Alone, Fetch, Produce};
    for (waiting, may_start) in [
        (&[][..], &[Produce, Fetch, Alone][..]),
        (&[PRODUCE], &[Produce]),
        (&[PRODUCE, PRODUCE], &[Produce]),
        (&[FETCH], &[Produce]),
        (&[FETCH, PRODUCE], &[Produce]),
        (&[METADATA], &[]),
    ] {
        let mut slots = ResponseSlots::default();
        for &api_key in waiting {
            slots.open(slot(api_key, 0));
        }
        for overlap in [Produce, Fetch, Alone] {
            let expected = may_start.contains(&overlap);
            assert_eq!(slots.may_open(overlap), expected, "{overlap:?} beside {waiting:?}");
        }
    }
}

#[test]
fn an_answer_behind_one_that_waits_frees_nothing_and_notifies_no_thread() {
    let mut slots = ResponseSlots::default();
    let fetch = slots.open(slot(FETCH, 1));
    let produce = slots.open(slot(PRODUCE, 2));
    assert!(!slots.answer(produce, nothing(), 0));
    assert!(!slots.may_open(Overlap::Fetch));
    assert!(taken(&mut slots).is_empty());
    assert!(slots.answer(fetch, nothing(), 0));
    assert!(slots.may_open(Overlap::Alone));
    assert_eq!(taken(&mut slots), [1, 2]);
}

#[test]
fn the_network_thread_is_notified_once_until_it_looks() {
    let mut slots = ResponseSlots::default();
    let opened: Vec<u64> = (0..3).map(|id| slots.open(slot(PRODUCE, id))).collect();
    assert!(slots.answer(opened[0], nothing(), 0));
    assert!(!slots.answer(opened[1], nothing(), 0));
    assert_eq!(taken(&mut slots), [0, 1]);
    assert!(slots.answer(opened[2], nothing(), 0));
}

#[test]
fn a_connection_opens_a_bounded_number_of_slots() {
    let mut slots = ResponseSlots::default();
    for id in 0..slots::MAX_OPEN as i32 {
        assert!(slots.may_open(Overlap::Produce), "{id}");
        slots.open(slot(PRODUCE, id));
    }
    assert!(!slots.may_open(Overlap::Produce));
}

proptest! {
    /// Whatever arrives and whenever it is answered: requests begin only as the rule allows, and
    /// answers leave in request order, each once.
    #[test]
    fn answers_leave_in_request_order(
        apis in prop::collection::vec(prop::sample::select(vec![PRODUCE, FETCH, METADATA]), 1..60),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut slots = ResponseSlots::default();
        let mut waiting: Vec<(u64, i16)> = Vec::new();
        let mut out = Vec::new();
        let mut next = 0;
        let mut picks = picks.into_iter();
        while out.len() < apis.len() {
            while next < apis.len() && slots.may_open(overlap(apis[next])) {
                let produce = apis[next] == PRODUCE;
                let alone = waiting.iter().all(|&(_, api)| produce && api != METADATA);
                prop_assert!(waiting.is_empty() || alone, "{} beside {waiting:?}", apis[next]);
                waiting.push((slots.open(slot(apis[next], next as i32)), apis[next]));
                next += 1;
            }
            prop_assert!(!waiting.is_empty(), "something may always begin or is begun");
            let pick = picks.next().map_or(0, |pick| pick.index(waiting.len()));
            let (sequence, _) = waiting.swap_remove(pick);
            slots.answer(sequence, nothing(), 0);
            out.extend(taken(&mut slots));
        }
        prop_assert_eq!(out, (0..apis.len() as i32).collect::<Vec<_>>());
    }
}

fn queue() -> (Arc<ResponseQueue>, mpsc::Receiver<()>) {
    let (sent, wakes) = mpsc::channel();
    let sent = Mutex::new(sent);
    let wake = Box::new(move || {
        // A test that ended does not count wakes.
        let _ = sent.lock().send(());
    });
    (Arc::new(ResponseQueue::new(wake)), wakes)
}

#[test]
fn only_the_first_response_wakes_a_parked_thread_and_none_an_awake_one() {
    let (queue, wakes) = queue();
    queue.push(1);
    assert_eq!(wakes.try_iter().count(), 0, "awake");
    assert!(!queue.park(), "something is there: do not sleep");
    assert_eq!(queue.pop(), Some(1));
    assert!(queue.park());
    for key in 0..10 {
        queue.push(key);
    }
    assert_eq!(wakes.try_iter().count(), 1);
}

#[test]
fn a_poke_keeps_the_thread_from_sleeping_until_it_was_noticed() {
    let (queue, wakes) = queue();
    queue.poke();
    assert!(!queue.park());
    assert!(queue.take_poke());
    assert!(!queue.take_poke());
    assert!(queue.park());
    queue.poke();
    assert_eq!(wakes.try_iter().count(), 1);
}

fn connection() -> (Arc<ResponseQueue>, Arc<ConnectionResponses>) {
    let (queue, _) = queue();
    let connection = ConnectionResponses::new(5, Arc::clone(&queue), Arc::new(ManualClock::new(0)));
    (queue, connection)
}

#[test]
fn a_dropped_responder_closes_and_one_dropped_by_a_panic_says_so() {
    let (queue, connection) = connection();
    drop(connection.open(slot(PRODUCE, 1)));
    let responder = connection.open(slot(PRODUCE, 2));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _responder = responder;
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(queue.pop(), Some(5));
    assert_eq!(queue.pop(), None, "told once");
    let mut ready = Vec::new();
    connection.take_ready(&mut ready);
    let answers: Vec<&str> = ready
        .iter()
        .map(|ready| match ready.answer {
            Answer::Response(Response::Close) => "close",
            Answer::Panicked => "panicked",
            Answer::Response(_) => "something else",
        })
        .collect();
    assert_eq!(answers, ["close", "panicked"]);
    assert_eq!(connection.unanswered(), 0);
}

#[test]
fn a_responder_without_a_connection_hands_its_response_over() {
    let (sent, received) = mpsc::channel();
    let responder = Responder::to(3, 9, move |response| {
        let is_frame = matches!(response, Response::Pieces(_));
        sent.send(is_frame).expect("the test listens");
    });
    assert_eq!((responder.api_key(), responder.api_version()), (3, 9));
    responder.send(Response::frame(Bytes::from_static(b"abcd")));
    assert_eq!(received.try_recv(), Ok(true));
}
