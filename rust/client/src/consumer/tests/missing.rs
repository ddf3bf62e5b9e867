//! A consumer that reads whole topics by itself, and brokers that do not tell of them for a while.

use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::metadata::MetadataRequest;

use super::*;
use crate::cluster::Wanted;
use crate::fake_broker::{metadata, topic};

/// What brokers tell of topic `x`.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// Its id and how many partitions it has.
    Topic(u8, i32),
    /// A refusal.
    Refused(ErrorCode),
}

const NOT_THERE: Told = Told::Refused(ErrorCode::UnknownTopicOrPartition);

/// Partitions of six records each, of a topic of which brokers tell what `told` says.
fn telling(told: &Arc<Mutex<Told>>) -> FakeBroker {
    let (told, log) = (Arc::clone(told), Log { start: 0, end: 6, epoch: 0 });
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let is_about_all = asked.read::<MetadataRequest>().topics.is_none();
        let mut response = metadata(&asked.place, std::iter::empty());
        let x = match *told.lock() {
            Told::Topic(id, count) => {
                let mut x = topic("x", count, 0);
                x.topic_id = Uuid([id; 16]);
                Some(x)
            }
            // Nobody asked for it by name.
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

/// Has the consumer hear of the topic once more; its partitions are what that says afterwards.
#[track_caller]
fn hear(consumer: &Consumer, told: &Mutex<Told>, news: Told) {
    *told.lock() = news;
    let shared = consumer.shared();
    let asking = Arc::clone(shared);
    let by_name = matches!(shared.subscription.lock().wish(), Wish::Topics(_));
    let heard = async move {
        let wanted = if by_name { Wanted::Topics(vec!["x".to_owned()]) } else { Wanted::All };
        asking.cluster.refresh(wanted).await.map(drop)
    };
    assert_eq!(consumer.runtime().call(heard, soon()), Ok(()));
    let settled = shared.settled.subscribe();
    // A look that is under way may have seen what was told before.
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
fn a_topic_that_brokers_refuse_to_tell_of_for_a_while_is_read_on_where_it_was() {
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
            consumer.shared().subscription.lock().positions().contains_key(&x())
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

#[test]
fn a_topic_that_is_asked_for_anew_begins_with_the_policy() {
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
