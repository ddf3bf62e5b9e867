use super::*;
use crate::testing::{Answer, EventLoop, FakeBroker, config};
use std::collections::HashSet;

/// As a broker uses it, which knows from metadata of its own where the others are.
#[test]
fn a_broker_is_called_where_the_caller_says_with_one_connection_for_each_lane() {
    let brokers = [FakeBroker::start(|_| Answer::Usual), FakeBroker::start(|_| Answer::Usual)];
    let [old, new] = brokers.each_ref().map(|broker| broker.place.clone());
    EventLoop::start("test").run(async move {
        let pool = Pool::new(Arc::new(config([])));
        let call = |lane, place| pool.connection(7, lane, place);
        let data = call(Lane::Data, &old).await.expect("open");
        let again = call(Lane::Data, &old).await.expect("open");
        assert!(Arc::ptr_eq(&data, &again), "it is shared");
        let fetch = call(Lane::Fetch, &old).await.expect("open");
        assert!(!Arc::ptr_eq(&data, &fetch), "what waits long holds up nothing else");
        let moved = call(Lane::Data, &new).await.expect("open");
        assert!(moved.leads_to(&new) && !moved.leads_to(&old), "it moved");
        pool.close_all();
        assert!(moved.is_closed() && fetch.is_closed());
        assert_eq!(pool.tries(), 3);
    });
}

/// A test divides the network: what was open ends, and nothing new is opened until it is mended.
#[test]
fn a_link_that_is_cut_carries_nothing_until_it_is_mended() {
    let brokers = [FakeBroker::start(|_| Answer::Usual), FakeBroker::start(|_| Answer::Usual)];
    let [cut, whole] = brokers.each_ref().map(|broker| broker.place.clone());
    EventLoop::start("test").run(async move {
        let links = Arc::new(CutLinks::default());
        let pool = Pool::over(Arc::new(config([])), Some(Arc::clone(&links)));
        let before = pool.connection(1, Lane::Data, &cut).await.expect("open");
        let other = pool.connection(2, Lane::Data, &whole).await.expect("open");
        links.set(HashSet::from([cut.clone()]));
        assert!(before.is_closed() && !other.is_closed());
        let refused = pool.connection(1, Lane::Data, &cut).await.expect_err("it is cut");
        assert!(refused.to_string().contains("the link is cut"), "{refused}");
        links.set(HashSet::new());
        assert!(!pool.connection(1, Lane::Data, &cut).await.expect("mended").is_closed());
    });
}

/// A replica that is down is tried again after its back-off, and callers share each try.
#[test]
fn callers_of_a_broker_that_is_down_share_the_failed_try() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    let place = broker.stop();
    EventLoop::start("test").run(async move {
        let pool = Pool::new(Arc::new(config([])));
        let call = || pool.connection(7, Lane::Fetch, &place);
        let (first, second, third) = tokio::join!(call(), call(), call());
        for answer in [first, second, third] {
            let error = answer.expect_err("no socket listens");
            assert!(matches!(error, ConnectionError::Disconnected { .. }), "{error}");
        }
        assert_eq!(pool.tries(), 1);
    });
}
