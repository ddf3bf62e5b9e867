use super::*;
use crate::waiters::PartitionSubscription;
use kafkalite_protocol::Records;
use kafkalite_protocol::messages::fetch::{
    FetchPartition, FetchTopic, ForgottenTopic, PartitionData,
};

const V11: i16 = 11;
const V13: i16 = 13;
/// The replica that holds the subscriptions.
const KEY: u64 = 1;

type Session = SharedSession;

fn sessions(max_slots: usize) -> FetchSessions {
    FetchSessions::new(max_slots, &Metrics::new())
}

fn opening(id: i32) -> impl FnOnce() -> Opening {
    move || Opening { id, waiters: Arc::default() }
}

fn request(id: i32, epoch: i32, partitions: &[i32]) -> FetchRequest {
    let partitions: Vec<_> = partitions
        .iter()
        .map(|index| FetchPartition { partition: *index, ..FetchPartition::default() })
        .collect();
    let topic = FetchTopic { topic: "t".to_owned(), partitions, ..FetchTopic::default() };
    let topics = if topic.partitions.is_empty() { vec![] } else { vec![topic] };
    FetchRequest {
        replica_id: -1,
        session_id: id,
        session_epoch: epoch,
        topics,
        ..FetchRequest::default()
    }
}

fn answer(partition: i32, high_watermark: i64) -> PartitionData {
    PartitionData {
        partition_index: partition,
        high_watermark,
        log_start_offset: 0,
        ..PartitionData::default()
    }
}

fn with_records(partition: i32) -> PartitionData {
    PartitionData { records: Some(Records::Bytes("x".into())), ..answer(partition, 5) }
}

fn indexes(looks: &[Look]) -> Vec<i32> {
    looks.iter().map(|look| look.target.partition).collect()
}

/// Opens session 7 over `partitions`.
fn open(sessions: &FetchSessions, partitions: &[i32]) -> (Session, Vec<Look>) {
    let resolved = sessions.resolve(&request(0, 0, partitions), V11, 0, opening(7));
    let (context, looks) = resolved.expect("a new session");
    let FetchContext::Full(session) = context else { panic!("a full fetch opens a session") };
    (session, looks)
}

/// The partitions that the next fetch of session 7, with this epoch, looks at.
fn next(sessions: &FetchSessions, epoch: i32, partitions: &[i32]) -> Vec<Look> {
    let resolved = sessions.resolve(&request(7, epoch, partitions), V11, 0, opening(8));
    resolved.expect("session 7").1
}

/// Tells the client all there is of every look, and subscribes to each partition.
fn tell_all(session: &Session, looks: &[Look]) -> Vec<Arc<PartitionSubscription>> {
    let mut session = session.lock();
    let subscriptions = looks.iter().map(|look| {
        let subscription = session.subscription(look, KEY).expect("it has no subscription yet");
        subscription.set_held();
        session.note(look, &answer(look.target.partition, 0), 0);
        subscription
    });
    subscriptions.collect()
}

#[test]
fn a_full_fetch_without_a_session_opens_none() {
    let sessions = sessions(10);
    let resolved = sessions.resolve(&request(0, -1, &[0, 1]), V11, 0, opening(7));
    let (context, looks) = resolved.expect("a full fetch");
    assert!(matches!(context, FetchContext::Sessionless));
    assert_eq!(indexes(&looks), [0, 1]);
    assert!(sessions.slots.lock().is_empty());
}

#[test]
fn an_incremental_fetch_asks_for_what_the_session_holds() {
    let sessions = sessions(10);
    open(&sessions, &[0, 1]);
    let mut next = request(7, 1, &[2]);
    next.forgotten_topics_data = vec![ForgottenTopic {
        topic: "t".to_owned(),
        partitions: vec![0],
        ..ForgottenTopic::default()
    }];
    let (context, looks) = sessions.resolve(&next, V11, 0, opening(8)).expect("session 7");
    assert!(matches!(context, FetchContext::Incremental(_)));
    assert_eq!(indexes(&looks), [1, 2]);
}

#[test]
fn a_session_whose_last_partition_is_forgotten_is_closed() {
    let sessions = sessions(10);
    open(&sessions, &[0]);
    let forgotten =
        ForgottenTopic { topic: "t".to_owned(), partitions: vec![0], ..ForgottenTopic::default() };
    let next = FetchRequest { forgotten_topics_data: vec![forgotten], ..request(7, 1, &[]) };
    let (context, looks) = sessions.resolve(&next, V11, 0, opening(8)).expect("session 7");
    assert!(matches!(context, FetchContext::Sessionless));
    assert!(looks.is_empty() && sessions.slots.lock().is_empty());
}

#[test]
fn wrong_ids_epochs_and_spellings_of_topics_are_refused() {
    for (id, epoch, version, error) in [
        (8, 1, V11, ErrorCode::FetchSessionIdNotFound),
        (7, 2, V11, ErrorCode::InvalidFetchSessionEpoch),
        (7, 2, V13, ErrorCode::InvalidFetchSessionEpoch),
        (7, 1, V13, ErrorCode::FetchSessionTopicIdError),
    ] {
        let sessions = sessions(10);
        open(&sessions, &[0]);
        let refused = sessions.resolve(&request(id, epoch, &[]), version, 0, opening(9));
        assert_eq!(refused.map(|_| ()), Err(error), "{id} {epoch} v{version}");
    }
}

#[test]
fn only_news_is_answered() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0]);
    let mut session = session.lock();
    let failed = PartitionData { error_code: ErrorCode::KafkaStorageError.code(), ..answer(0, 5) };
    let stable = PartitionData { last_stable_offset: 3, ..answer(0, 5) };
    for (story, answer, news) in [
        ("never told", answer(0, 0), true),
        ("as before", answer(0, 0), false),
        ("high watermark moved", answer(0, 5), true),
        ("records", with_records(0), true),
        ("nothing since", answer(0, 5), false),
        ("an error", failed, true),
        ("the error is over", answer(0, 5), true),
        ("last stable offset moved", stable.clone(), true),
        ("nothing since", stable, false),
    ] {
        assert_eq!(session.note(&looks[0], &answer, 9), news, "{story}");
    }
}

#[test]
fn a_partition_stays_dirty_until_the_client_has_everything() {
    let failed = PartitionData { error_code: 1, ..answer(0, 5) };
    let mut diverging = answer(0, 5);
    diverging.diverging_epoch.end_offset = 2;
    for (story, answer, readable_end, dirty) in [
        ("everything is answered", answer(0, 5), 0, false),
        ("the client is behind", answer(0, 5), 5, true),
        ("the client is ahead", answer(0, -1), -1, true),
        ("records went with it", with_records(0), 0, true),
        ("an error", failed, 0, true),
        ("its log diverged", diverging, 0, true),
    ] {
        let sessions = sessions(10);
        let (session, looks) = open(&sessions, &[0]);
        session.lock().note(&looks[0], &answer, readable_end);
        assert_eq!(!next(&sessions, 1, &[]).is_empty(), dirty, "{story}");
    }
}

#[test]
fn an_incremental_fetch_looks_at_what_moved_or_is_named() {
    let sessions = sessions(10);
    let all: Vec<i32> = (0..1_000).collect();
    let (session, looks) = open(&sessions, &all);
    let subscriptions = tell_all(&session, &looks);
    assert!(next(&sessions, 1, &[]).is_empty());
    for moved in [700, 3, 3] {
        subscriptions[moved].mark_moved();
    }
    assert_eq!(indexes(&next(&sessions, 2, &[500, 3])), [500, 3, 700]);
    // No answer has said since what was found there, so they stay.
    assert_eq!(indexes(&next(&sessions, 3, &[])), [500, 3, 700]);
}

#[test]
fn a_move_between_look_and_answer_is_looked_at_again() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0]);
    let subscriptions = tell_all(&session, &looks);
    subscriptions[0].mark_moved();
    let first = next(&sessions, 1, &[]);
    subscriptions[0].mark_moved();
    session.lock().note(&first[0], &answer(0, 0), 0);
    assert_eq!(indexes(&next(&sessions, 2, &[])), [0], "moved after the look");
}

#[test]
fn an_older_look_does_not_call_clean_what_a_newer_one_found_dirty() {
    // Two fetches of one session overlapped on two connections, and the slower one was answered
    // last.
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0]);
    let subscriptions = tell_all(&session, &looks);
    subscriptions[0].mark_moved();
    let slow = next(&sessions, 1, &[]);
    subscriptions[0].mark_moved();
    let fast = next(&sessions, 2, &[]);
    session.lock().note(&fast[0], &with_records(0), 1);
    session.lock().note(&slow[0], &answer(0, 0), 0);
    assert_eq!(indexes(&next(&sessions, 3, &[])), [0]);
}

#[test]
fn each_replica_holds_one_subscription() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0]);
    let mut session = session.lock();
    let first = session.subscription(&looks[0], KEY).expect("no replica holds one yet");
    // A second look before the replica holds it subscribes as well, and looks only then.
    let again = session.subscription(&looks[0], KEY).expect("the replica does not hold it yet");
    assert!(Arc::ptr_eq(&first, &again));
    first.set_held();
    assert!(session.subscription(&looks[0], KEY).is_none());
    let alive = Arc::downgrade(&first);
    drop((first, again));
    assert!(session.subscription(&looks[0], KEY + 1).is_some(), "the topic was made again");
    assert!(alive.upgrade().is_none(), "the old subscription is gone");
}

#[test]
fn subscriptions_go_with_their_partition_and_with_their_session() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0, 1]);
    let subscriptions: Vec<_> = tell_all(&session, &looks).iter().map(Arc::downgrade).collect();
    let alive = || {
        subscriptions
            .iter()
            .map(|subscription| subscription.upgrade().is_some())
            .collect::<Vec<_>>()
    };
    drop(session);
    let forgotten =
        ForgottenTopic { topic: "t".to_owned(), partitions: vec![0], ..ForgottenTopic::default() };
    let next = FetchRequest { forgotten_topics_data: vec![forgotten], ..request(7, 1, &[]) };
    drop(sessions.resolve(&next, V11, 0, opening(8)).expect("session 7"));
    assert_eq!(alive(), [false, true]);
    drop(sessions.resolve(&request(7, -1, &[]), V11, 0, opening(8)).expect("a final fetch"));
    assert_eq!(alive(), [false, false]);
}

#[test]
fn a_move_of_a_forgotten_partition_counts_for_no_other() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0, 1]);
    let subscriptions = tell_all(&session, &looks);
    subscriptions[0].mark_moved();
    let forgotten =
        ForgottenTopic { topic: "t".to_owned(), partitions: vec![0], ..ForgottenTopic::default() };
    let next_request =
        FetchRequest { forgotten_topics_data: vec![forgotten], ..request(7, 1, &[]) };
    let (_, looks) = sessions.resolve(&next_request, V11, 0, opening(8)).expect("session 7");
    assert!(looks.is_empty());
}

#[test]
fn a_partition_that_was_served_goes_to_the_end() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0, 1, 2]);
    session.lock().note(&looks[0], &with_records(0), 9);
    assert_eq!(indexes(&next(&sessions, 1, &[0])), [1, 2, 0]);
}

#[test]
fn another_isolation_level_is_another_end_of_everything() {
    let sessions = sessions(10);
    let (session, looks) = open(&sessions, &[0, 1]);
    tell_all(&session, &looks);
    let committed_only = FetchRequest { isolation_level: 1, ..request(7, 1, &[]) };
    let resolved = sessions.resolve(&committed_only, V11, 0, opening(8));
    assert_eq!(indexes(&resolved.expect("session 7").1), [0, 1]);
}

#[test]
fn a_followers_clean_partition_is_caught_up_since_its_last_fetch() {
    let sessions = sessions(10);
    let follower = |id, epoch, partitions: &[i32], now_ms| {
        let request = FetchRequest { replica_id: 2, ..request(id, epoch, partitions) };
        sessions.resolve(&request, V11, now_ms, opening(7)).expect("a follower's fetch")
    };
    let (context, mut looks) = follower(0, 0, &[0], 1_000);
    let session = context.session().expect("a session").clone();
    let subscription =
        session.lock().subscription(&looks[0], KEY).expect("no replica holds one yet");
    assert_eq!((subscription.notifier().replica_id(), subscription.caught_up_ms()), (2, None));
    session.lock().note(&looks[0], &answer(0, 0), 0);
    assert_eq!(subscription.caught_up_ms(), None, "no leader knows where the follower is");
    looks[0].set_noted();
    session.lock().note(&looks[0], &answer(0, 0), 0);
    assert_eq!(subscription.caught_up_ms(), Some(1_000));
    follower(7, 1, &[], 1_500);
    assert_eq!(subscription.caught_up_ms(), Some(1_500), "it was not even looked at");
    subscription.mark_moved();
    assert_eq!(subscription.caught_up_ms(), None);
}

#[test]
fn a_session_in_use_keeps_its_slot_and_a_stale_one_loses_it() {
    let sessions = sessions(1);
    open(&sessions, &[0]);
    let full = |now_ms| {
        let resolved = sessions.resolve(&request(0, 0, &[0]), V11, now_ms, opening(9));
        resolved.expect("a full fetch").0
    };
    assert!(matches!(full(EVICTABLE_AFTER_MS), FetchContext::Sessionless));
    assert!(matches!(full(EVICTABLE_AFTER_MS + 1), FetchContext::Full(_)));
    let refused = sessions.resolve(&request(7, 1, &[]), V11, 0, opening(9)).map(|_| ());
    assert_eq!(refused, Err(ErrorCode::FetchSessionIdNotFound));
}

#[test]
fn an_old_session_makes_room_for_one_that_is_worth_more() {
    let used_at = EVICTABLE_AFTER_MS + 1;
    for (story, last_used_ms, follower, partitions, opens) in [
        ("a young one stays", EVICTABLE_AFTER_MS, false, vec![0, 1, 2], false),
        ("a smaller one does not push it out", used_at, false, vec![0], false),
        ("one as large does not", used_at, false, vec![0, 1], false),
        ("a larger one does", used_at, false, vec![0, 1, 2], true),
        ("a follower's pushes out a young one of a consumer", 0, true, vec![0], true),
    ] {
        let sessions = sessions(1);
        open(&sessions, &[0, 1]);
        let used = sessions.resolve(&request(7, 1, &[]), V11, last_used_ms, opening(9));
        drop(used.expect("session 7"));
        let replica_id = if follower { 2 } else { -1 };
        let full = FetchRequest { replica_id, ..request(0, 0, &partitions) };
        let resolved = sessions.resolve(&full, V11, last_used_ms, opening(9));
        let is_open = matches!(resolved.expect("a full fetch").0, FetchContext::Full(_));
        assert_eq!(is_open, opens, "{story}");
    }
}

#[test]
fn closing_a_session_frees_its_slot() {
    let sessions = sessions(1);
    open(&sessions, &[0]);
    sessions.resolve(&request(7, -1, &[]), V11, 0, opening(9)).expect("a final fetch");
    assert!(sessions.slots.lock().is_empty());
}

#[test]
fn sessions_of_consumers_remember_a_bounded_number_of_partitions() {
    let sessions = sessions(10);
    let many: Vec<i32> = (0..600_000).collect();
    open(&sessions, &many);
    let resolved = sessions.resolve(&request(0, 0, &many), V11, 0, opening(8));
    assert!(matches!(resolved, Ok((FetchContext::Sessionless, _))), "it is answered anyway");
    let follower = FetchRequest { replica_id: 2, ..request(0, 0, &many) };
    let resolved = sessions.resolve(&follower, V11, 0, opening(9));
    assert!(matches!(resolved, Ok((FetchContext::Full(_), _))), "a follower is none of them");
    let resolved = sessions.resolve(&follower, V11, 0, opening(10));
    assert!(matches!(resolved, Ok((FetchContext::Sessionless, _))), "any client may say so");
    let more: Vec<i32> = (600_000..1_100_000).collect();
    let resolved = sessions.resolve(&request(7, 1, &more), V11, 0, opening(8));
    assert_eq!(resolved.err(), Some(ErrorCode::FetchSessionIdNotFound));
    assert_eq!(sessions.slots.lock().len(), 1);
}
