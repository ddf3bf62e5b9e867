//! What is asked of a leader, without the tasks that would ask again.

use std::collections::BTreeMap;
use std::time::Duration;

use kafkalite_connection::testing::{Answer, FakeBroker, NODE};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};

use super::*;
use crate::awaited;
use crate::config::ConsumerConfig;
use crate::consumer::subscription::{LeaderAndEpoch, Watermarks};
use crate::runtime::Runtime;

fn shared(broker: &FakeBroker) -> Arc<Shared> {
    let servers = ("bootstrap.servers".to_owned(), broker.place.to_string());
    let config = ConsumerConfig::from_pairs(&BTreeMap::from([servers])).expect("it is valid");
    Shared::new(config, None)
}

/// A consumer stood still until the next metadata. The leader's answer had dropped the fetched
/// records, and the question about the handed out ones was never sent.
#[test]
fn what_was_handed_out_is_asked_about_right_after_what_was_only_fetched_was_dropped() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::OffsetForLeaderEpoch) {
        true => {
            let end =
                EpochEndOffset { partition: 0, leader_epoch: 0, end_offset: 4, error_code: 0 };
            let (topic, partitions) = ("x".to_owned(), vec![end]);
            let topics = vec![OffsetForLeaderTopicResult { topic, partitions }];
            let told = OffsetForLeaderEpochResponse { topics, ..Default::default() };
            asked.answer::<OffsetForLeaderEpochRequest>(&told)
        }
        false => Answer::Usual,
    });
    let shared = shared(&broker);
    let (x, of_epoch_0) =
        (TopicPartition::new("x", 0), |offset| Position { offset, leader_epoch: 0 });
    {
        let mut subscription = shared.subscription.lock();
        subscription.set_wish(Wish::Assigned);
        subscription.keep_only(&BTreeSet::from([x.clone()]), Status::NoPosition);
        subscription.seek(&x, of_epoch_0(2));
        subscription.see_leaders(|_| Some(LeaderAndEpoch { node: NODE, epoch: 0 }));
        let state = subscription.get_mut(&x).expect("it is assigned");
        let cursor = Arc::clone(state.cursor());
        assert!(state.fetched(&cursor, of_epoch_0(6), Watermarks::default()));
        subscription.see_leaders(|_| Some(LeaderAndEpoch { node: NODE, epoch: 1 }));
    }
    let runtime = Runtime::start("positions").expect("a thread");
    let asks = Arc::clone(&shared);
    let asking = async move {
        asks.cluster.refresh(Wanted::Topics(vec!["x".to_owned()])).await?;
        let mut questions = Questions::new();
        ask(&asks, &mut questions);
        while questions.join_next().await.is_some() {
            ask(&asks, &mut questions);
        }
        Ok(())
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    assert_eq!(runtime.call(asking, deadline), Ok(()));
    let subscription = shared.subscription.lock();
    let wishes = subscription.fetchable(Instant::now(), 1);
    assert_eq!(wishes.first().map(|wish| wish.from), Some(of_epoch_0(2)));
}

/// A consumer stood still until the next metadata, where its thread had to wait for a core. The
/// time to ask again came meanwhile, and a later look at the clock left out what was due by then.
#[test]
fn what_comes_due_while_questions_are_asked_is_asked_next() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    let shared = shared(&broker);
    let x = TopicPartition::new("x", 0);
    {
        let mut subscription = shared.subscription.lock();
        subscription.set_wish(Wish::Assigned);
        subscription.keep_only(&BTreeSet::from([x.clone()]), Status::NoPosition);
        subscription.seek(&x, Position { offset: 2, leader_epoch: 1 });
        subscription.see_leaders(|_| Some(LeaderAndEpoch { node: NODE, epoch: 0 }));
    }
    let wake = ask(&shared, &mut Questions::new()).expect("it asks again who leads");
    awaited::until("the time to ask again comes", || Instant::now() > wake);
    assert_eq!(ask(&shared, &mut Questions::new()).map(|next| next > wake), Some(true));
}
