use super::*;
use kafkalite_protocol::Records;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

const V11: i16 = 11;
const V13: i16 = 13;

fn request(id: i32, epoch: i32, partitions: &[i32]) -> FetchRequest {
    let partitions: Vec<_> = partitions
        .iter()
        .map(|index| FetchPartition { partition: *index, ..FetchPartition::default() })
        .collect();
    let topic = FetchTopic { topic: "t".to_owned(), partitions, ..FetchTopic::default() };
    let topics = if topic.partitions.is_empty() { vec![] } else { vec![topic] };
    FetchRequest { session_id: id, session_epoch: epoch, topics, ..FetchRequest::default() }
}

fn answer(partition: i32, high_watermark: i64) -> PartitionData {
    PartitionData {
        partition_index: partition,
        high_watermark,
        log_start_offset: 0,
        ..PartitionData::default()
    }
}

fn name() -> TopicRef {
    TopicRef::Name("t".into())
}

fn indexes(targets: &[FetchTarget]) -> Vec<i32> {
    targets.iter().map(|target| target.partition).collect()
}

/// Opens session 7 over `partitions`.
fn open(sessions: &FetchSessions, partitions: &[i32]) -> Arc<Mutex<FetchSession>> {
    let resolved = sessions.resolve(&request(0, 0, partitions), V11, 0, 7).expect("a new session");
    let FetchContext::Full(session) = resolved.0 else { panic!("a full fetch opens a session") };
    session
}

#[test]
fn a_full_fetch_without_a_session_opens_none() {
    let sessions = FetchSessions::new(10);
    let (context, targets) = sessions.resolve(&request(0, -1, &[0, 1]), V11, 0, 7).expect("fetch");
    assert!(matches!(context, FetchContext::Sessionless));
    assert_eq!(indexes(&targets), [0, 1]);
    assert!(sessions.is_empty());
}

#[test]
fn an_incremental_fetch_asks_for_what_the_session_holds() {
    let sessions = FetchSessions::new(10);
    open(&sessions, &[0, 1]);
    let mut next = request(7, 1, &[2]);
    next.forgotten_topics_data = vec![ForgottenTopic {
        topic: "t".to_owned(),
        partitions: vec![0],
        ..ForgottenTopic::default()
    }];
    let (context, targets) = sessions.resolve(&next, V11, 0, 8).expect("session 7");
    assert!(matches!(context, FetchContext::Incremental(_)));
    assert_eq!(indexes(&targets), [1, 2]);
}

#[test]
fn wrong_ids_epochs_and_spellings_of_topics_are_refused() {
    for (id, epoch, version, error) in [
        (8, 1, V11, ErrorCode::FetchSessionIdNotFound),
        (7, 2, V11, ErrorCode::InvalidFetchSessionEpoch),
        (7, 1, V13, ErrorCode::FetchSessionTopicIdError),
    ] {
        let sessions = FetchSessions::new(10);
        open(&sessions, &[0]);
        let refused = sessions.resolve(&request(id, epoch, &[]), version, 0, 9).map(|_| ());
        assert_eq!(refused, Err(error), "{id} {epoch} v{version}");
    }
}

#[test]
fn only_news_is_told() {
    let sessions = FetchSessions::new(10);
    let session = open(&sessions, &[0]);
    let mut session = session.lock();
    let mut with_records = answer(0, 5);
    with_records.records = Some(Records::Bytes("x".into()));
    let mut failed = answer(0, 5);
    failed.error_code = ErrorCode::KafkaStorageError.code();
    for (story, answer, news) in [
        ("never told", answer(0, 0), true),
        ("as before", answer(0, 0), false),
        ("high watermark moved", answer(0, 5), true),
        ("records", with_records, true),
        ("nothing since", answer(0, 5), false),
        ("an error", failed, true),
        ("the error is over", answer(0, 5), true),
        ("nothing since", answer(0, 5), false),
    ] {
        assert_eq!(session.note(&name(), &answer), news, "{story}");
    }
}

#[test]
fn a_partition_that_was_served_goes_to_the_end() {
    let sessions = FetchSessions::new(10);
    let session = open(&sessions, &[0, 1, 2]);
    let mut served = answer(0, 5);
    served.records = Some(Records::Bytes("x".into()));
    session.lock().note(&name(), &served);
    let (_, targets) = sessions.resolve(&request(7, 1, &[]), V11, 0, 8).expect("session 7");
    assert_eq!(indexes(&targets), [1, 2, 0]);
}

#[test]
fn a_session_in_use_keeps_its_slot_and_an_idle_one_loses_it() {
    let sessions = FetchSessions::new(1);
    open(&sessions, &[0]);
    let full = |now_ms| sessions.resolve(&request(0, 0, &[0]), V11, now_ms, 9).expect("fetch").0;
    assert!(matches!(full(EVICTABLE_AFTER_MS - 1), FetchContext::Sessionless));
    assert!(matches!(full(EVICTABLE_AFTER_MS), FetchContext::Full(_)));
}

#[test]
fn closing_a_session_frees_its_slot() {
    let sessions = FetchSessions::new(1);
    open(&sessions, &[0]);
    sessions.resolve(&request(7, -1, &[]), V11, 0, 9).expect("a final fetch");
    assert!(sessions.is_empty());
}
