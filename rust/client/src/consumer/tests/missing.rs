//! A consumer that reads whole topics by itself, and brokers that leave them out for a while.

use kafkalite_connection::Wanted;
use kafkalite_connection::testing::{coordinator, metadata, topic};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::metadata::MetadataRequest;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};

use super::commits::fetched;
use super::*;

/// What brokers answer about topic `x`.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// Its id and how many partitions it has.
    Topic(u8, i32),
    /// A refusal.
    Refused(ErrorCode),
    /// Nothing: it was deleted, and is made by who names it and may make it.
    Deleted,
}

const NOT_THERE: Told = Told::Refused(ErrorCode::UnknownTopicOrPartition);

/// Partitions of six records each, of a topic of which brokers tell what `told` says.
fn telling(told: &Arc<Mutex<Told>>) -> FakeBroker {
    telling_and(told, |_| Answer::Usual)
}

/// The same, where `script` says what the broker answers to other requests.
fn telling_and(
    told: &Arc<Mutex<Told>>,
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> FakeBroker {
    telling_at("127.0.0.1:0", told, script)
}

/// The same at this address.
fn telling_at(
    address: &str,
    told: &Arc<Mutex<Told>>,
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> FakeBroker {
    let (told, log) = (Arc::clone(told), Log { start: 0, end: 6, epoch: 0 });
    FakeBroker::start_at(address, move |asked| {
        if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Metadata) {
            return script(asked);
        }
        let request: MetadataRequest = asked.read();
        let is_about_all = request.topics.is_none();
        let names_it = request.topics.is_some_and(|topics| !topics.is_empty());
        let mut told = told.lock();
        if matches!(*told, Told::Deleted) && names_it && request.allow_auto_topic_creation {
            *told = Told::Topic(2, 1);
        }
        let mut response = metadata(&asked.place, std::iter::empty());
        let x = match *told {
            Told::Topic(id, count) => {
                let mut x = topic("x", count, 0);
                x.topic_id = Uuid([id; 16]);
                Some(x)
            }
            Told::Deleted if names_it => {
                let mut x = topic("x", 0, 0);
                x.error_code = ErrorCode::UnknownTopicOrPartition as i16;
                Some(x)
            }
            Told::Deleted => None,
            // The request did not name it.
            Told::Refused(ErrorCode::UnknownTopicOrPartition) if is_about_all => None,
            Told::Refused(code) => {
                let mut x = topic("x", 0, 0);
                x.error_code = code as i16;
                Some(x)
            }
        };
        response.topics.extend(x);
        asked.answer::<MetadataRequest>(&response)
    })
}

/// Refreshes the consumer's metadata with `news`; its partitions follow that answer.
#[track_caller]
fn hear(consumer: &Consumer, told: &Mutex<Told>, news: Told) {
    *told.lock() = news;
    let shared = consumer.shared();
    let asking = Arc::clone(shared);
    let by_name = matches!(shared.subscription.lock().wish(), Wish::Topics(_));
    let heard = async move {
        let wanted = if by_name { Wanted::Topics(vec!["x".to_owned()]) } else { Wanted::All };
        Ok(asking.cluster.refresh(wanted).await.map(drop)?)
    };
    assert_eq!(consumer.runtime().call(heard, soon()), Ok(()));
    let settled = shared.settled.subscribe();
    // A refresh in flight may have the answer from before.
    for _ in 0..2 {
        let before = *settled.borrow();
        shared.settle.notify_one();
        awaited::until("partitions are looked at", || *settled.borrow() > before);
    }
}

fn both_wishes() -> [Wish; 2] {
    let named = Wish::Topics(BTreeSet::from([Arc::from("x")]));
    [named, Wish::Pattern(Arc::new(|name: &str| name.starts_with('x')))]
}

fn following(broker: &FakeBroker, wish: Wish, policy: &str) -> Consumer {
    let consumer = consumer(broker, &[("auto.offset.reset", policy)]);
    consumer.subscribe(wish).expect("nothing is assigned");
    consumer
}

/// The topic went out of the image for one answer: its partitions were given up, and began with the
/// policy when it came back. Records were read twice, or never.
#[test]
fn a_topic_that_brokers_refuse_for_a_while_is_read_on_where_it_was() {
    let later = Told::Refused(ErrorCode::LeaderNotAvailable);
    for (news, is_kept) in [(later, true), (NOT_THERE, false)] {
        for wish in both_wishes() {
            let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
            let broker = telling(&told);
            let consumer = following(&broker, wish, "earliest");
            assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
            hear(&consumer, &told, news);
            assert_eq!(!consumer.assignment().is_empty(), is_kept, "{news:?}");
            hear(&consumer, &told, Told::Topic(1, 1));
            assert_eq!(consumer.assignment(), [x()], "{news:?}");
            assert_eq!(read(&consumer, 3), Ok(vec![3, 4, 5]), "{news:?}");
        }
    }
}

#[test]
fn a_topic_that_was_made_again_begins_with_the_policy() {
    for gone_between in [false, true] {
        for wish in both_wishes() {
            let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
            let broker = telling(&told);
            let consumer = following(&broker, wish, "earliest");
            assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
            if gone_between {
                hear(&consumer, &told, NOT_THERE);
            }
            hear(&consumer, &told, Told::Topic(2, 1));
            assert_eq!(read(&consumer, 6), Ok((0..6).collect()), "gone between: {gone_between}");
        }
    }
}

#[test]
fn a_partition_that_comes_while_brokers_do_not_know_its_topic_is_read_from_its_beginning() {
    for wish in both_wishes() {
        let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
        let broker = telling(&told);
        let consumer = following(&broker, wish, "latest");
        awaited::until("x-0 has a position", || {
            consumer.shared().subscription.lock().handed_out().contains_key(&x())
        });
        hear(&consumer, &told, NOT_THERE);
        hear(&consumer, &told, Told::Topic(1, 2));
        assert_eq!(read(&consumer, 6), Ok((0..6).collect()), "of the second partition");
    }
}

#[test]
fn records_that_go_back_while_brokers_do_not_know_their_topic_are_handed_out_again() {
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let broker = telling(&told);
    let [wish, _] = both_wishes();
    let consumer = following(&broker, wish, "earliest");
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    let taken = lease(consumer.next(Limits { max_records: 2, ..ALL }, soon()));
    assert_eq!(values(&taken), [1, 2]);
    hear(&consumer, &told, NOT_THERE);
    drop(taken);
    hear(&consumer, &told, Told::Topic(1, 1));
    assert_eq!(read(&consumer, 5), Ok((1..6).collect()));
}

/// A pattern's topic was found again when metadata was five minutes old.
#[test]
fn a_topic_of_a_pattern_that_brokers_did_not_know_for_a_while_is_found_again_soon() {
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let broker = telling(&told);
    let [_, pattern] = both_wishes();
    let consumer = following(&broker, pattern, "earliest");
    assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
    hear(&consumer, &told, NOT_THERE);
    assert_eq!(consumer.assignment(), []);
    *told.lock() = Told::Topic(1, 1);
    assert_eq!(read(&consumer, 3), Ok(vec![3, 4, 5]));
}

/// It came back as soon as it was deleted.
#[test]
fn a_topic_of_a_pattern_is_not_made_again_by_its_reader() {
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let broker = telling(&told);
    let [_, pattern] = both_wishes();
    let consumer = following(&broker, pattern, "earliest");
    assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
    *told.lock() = Told::Deleted;
    let asked = broker.count(ApiKey::Metadata);
    consumer.shared().cluster.request_refresh();
    // Once for what is known, and again and again for what matches.
    broker.wait_for(ApiKey::Metadata, asked + 3);
    assert!(matches!(*told.lock(), Told::Deleted), "{:?}", told.lock());
    assert_eq!(consumer.assignment(), []);
}

/// A commit by name counted for the topic that was created again meanwhile, so its first records
/// were skipped.
#[test]
fn what_was_read_of_a_topic_is_not_committed_for_the_next_one_of_its_name() {
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let (commits, of_cluster) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&told));
    let noted = Arc::clone(&commits);
    let broker = telling_and(&told, move |asked| match asked.is(ApiKey::OffsetCommit) {
        true => take_commit(asked, *of_cluster.lock(), &noted),
        false if asked.is(ApiKey::FindCoordinator) => coordinator(asked),
        false if asked.is(ApiKey::OffsetFetch) => fetched(asked, vec![nothing_committed()]),
        false => Answer::Usual,
    });
    let consumer = reading(&broker, &[EARLIEST_RESET, ("group.id", "g")]);
    assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
    let commit = || {
        let due = Due::handed_out(consumer.shared()).expect("it has a group");
        let commit = calls::commit(Arc::clone(consumer.shared()), due, soon());
        consumer.runtime().call(commit, soon()).map_err(|error| error.code())
    };
    assert_eq!(commit(), Ok(()));
    *told.lock() = Told::Topic(2, 1);
    assert_eq!(commit(), Err(Some(ErrorCode::UnknownTopicId)));
    assert_eq!(read(&consumer, 6), Ok((0..6).collect()));
    assert_eq!(commit(), Ok(()));
    assert_eq!(*commits.lock(), [(1, 3), (2, 6)]);
}

/// Takes a commit if it is for the topic that there is, and notes its id and the offset.
fn take_commit(asked: &Asked, there: Told, commits: &Mutex<Vec<(u8, i64)>>) -> Answer {
    let request: OffsetCommitRequest = asked.read();
    let Told::Topic(id, _) = there else { return Answer::Close };
    let mut topics = Vec::new();
    for OffsetCommitRequestTopic { name, topic_id, partitions } in request.topics {
        let is_known = name == "x" || topic_id == Uuid([id; 16]);
        let error_code = if is_known { 0 } else { ErrorCode::UnknownTopicId as i16 };
        let told = |one: OffsetCommitRequestPartition| {
            if is_known {
                commits.lock().push((id, one.committed_offset));
            }
            let partition_index = one.partition_index;
            OffsetCommitResponsePartition { partition_index, error_code }
        };
        let partitions = partitions.into_iter().map(told).collect();
        topics.push(OffsetCommitResponseTopic { name, topic_id, partitions });
    }
    let told = OffsetCommitResponse { topics, ..Default::default() };
    asked.answer::<OffsetCommitRequest>(&told)
}

fn nothing_committed() -> OffsetFetchResponseTopics {
    let none = OffsetFetchResponsePartitions { committed_offset: -1, ..Default::default() };
    let (name, partitions) = ("x".to_owned(), vec![none]);
    OffsetFetchResponseTopics { name, partitions, ..Default::default() }
}

#[test]
fn a_topic_that_is_subscribed_again_begins_with_the_policy() {
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let broker = telling(&told);
    let [wish, _] = both_wishes();
    let consumer = following(&broker, wish.clone(), "earliest");
    assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
    hear(&consumer, &told, NOT_THERE);
    consumer.unsubscribe().expect("it is open");
    consumer.subscribe(wish).expect("nothing is assigned");
    hear(&consumer, &told, Told::Topic(1, 1));
    assert_eq!(read(&consumer, 6), Ok((0..6).collect()));
}

/// All topics were asked for once, and again when metadata was five minutes old.
#[test]
fn a_pattern_whose_first_question_gets_no_answer_asks_again_soon() {
    let broker = broker(Log { start: 0, end: 2, epoch: 0 });
    let place = broker.stop();
    let pairs = [
        ("bootstrap.servers", place.to_string()),
        ("kafkalite.bootstrap.timeout.ms", "50".to_owned()),
        ("retry.backoff.ms", "1".to_owned()),
        ("auto.offset.reset", "earliest".to_owned()),
    ];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value));
    let config = ConsumerConfig::from_pairs(&pairs.into()).expect("a valid configuration");
    let consumer = Consumer::new(config).expect("a thread");
    let [_, pattern] = both_wishes();
    consumer.subscribe(pattern).expect("nothing is assigned");
    let refused = consumer.next(ALL, soon()).map(|_| ());
    assert!(matches!(refused, Err(ClientError::NoBrokerReachable { .. })), "{refused:?}");
    let told = Arc::new(Mutex::new(Told::Topic(1, 1)));
    let _broker = telling_at(&place.to_string(), &told, |_| Answer::Usual);
    let mut first = None;
    let end = soon();
    while first.is_none() && Instant::now() < end {
        // It may say once more that no broker was reached.
        if let Ok(Next::Records(taken)) = consumer.next(ALL, end) {
            first = values(&taken.keep()).first().copied();
        }
    }
    assert_eq!(first, Some(0));
}
