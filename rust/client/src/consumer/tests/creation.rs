//! Topics that are created because a consumer asks for them.

use kafkalite_connection::testing::{AutoCreated, auto_creating};

use super::*;

/// A deleted topic came back, empty: the consumer asked for the metadata of its topics, and the
/// request allowed the broker to create them.
#[test]
fn a_consumer_does_not_bring_a_deleted_topic_back_until_the_program_names_it_again() {
    type Begin = fn(&Consumer) -> Result<(), ClientError>;
    let subscribed: Begin = |it| it.subscribe(Wish::Topics(BTreeSet::from([Arc::from("x")])));
    let assigned: Begin = |it| it.assign(&BTreeSet::from([x()]));
    for begin in [subscribed, assigned] {
        let topics = Arc::new(Mutex::new(AutoCreated::default()));
        let (there, log) = (Arc::clone(&topics), Log { start: 0, end: 4, epoch: 0 });
        let broker = FakeBroker::start(move |asked| {
            if asked.is(ApiKey::Metadata) {
                auto_creating(asked, &there)
            } else if asked.is(ApiKey::Fetch) {
                fetch(asked, |partition, offset| log.fetch(partition, offset))
            } else if asked.is(ApiKey::ListOffsets) {
                list_offsets(asked, &log)
            } else {
                Answer::Usual
            }
        });
        let consumer = consumer(&broker, &[EARLIEST_RESET, ("allow.auto.create.topics", "true")]);
        begin(&consumer).expect("nothing is read yet");
        assert_eq!(read(&consumer, 4), Ok(vec![0, 1, 2, 3]));
        topics.lock().there.clear();
        consumer.shared().cluster.request_refresh();
        broker.wait_for(ApiKey::Metadata, broker.count(ApiKey::Metadata) + 6);
        assert_eq!(topics.lock().created, 1, "it asked for it again and again");
        begin(&consumer).expect("it reads the same");
        awaited::until("the topic is created again", || topics.lock().created == 2);
    }
}
