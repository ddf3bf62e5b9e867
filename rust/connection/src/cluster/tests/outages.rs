use super::*;
use crate::backoff::Backoff;
use crate::testing::{OTHER, two};
use kafkalite_protocol::messages::metadata::MetadataResponseBroker;
use kafkalite_protocol::{LeaderEpoch, Uuid};

/// Answers heartbeats as well.
fn alive(asked: &Asked) -> Answer {
    match asked.is(ApiKey::Heartbeat) {
        true => asked.answer::<HeartbeatRequest>(&HeartbeatResponse::default()),
        false => Answer::Usual,
    }
}

async fn beat(cluster: &Cluster, node: NodeId) -> Result<(), ConnectionError> {
    cluster.send(node, |_| HeartbeatRequest::default()).await.map(|_| ())
}

/// Beats until it is answered.
async fn beat_on(cluster: &Cluster, node: NodeId) {
    while let Err(error) = beat(cluster, node).await {
        assert!(error.is_retriable(), "{error}");
    }
}

/// A configuration that leads to `broker` and waits for little.
fn fast(broker: &FakeBroker) -> ConnectionConfig {
    let ms = Duration::from_millis;
    let mut config = tries_again_after(broker, 1);
    config.reconnect_backoff = Backoff { initial: ms(1), max: ms(2) };
    config.bootstrap_timeout = ms(500);
    config
}

#[test]
fn a_broker_that_comes_back_is_used_again() {
    let broker = FakeBroker::start(alive);
    let event_loop = EventLoop::start("test");
    let cluster = Cluster::new(fast(&broker));
    let known = cluster.clone();
    let before = async move {
        known.topic("t", soon()).await?;
        beat(&known, NODE).await
    };
    event_loop.run(before).expect("it is there");
    let place = broker.stop();
    let gone = cluster.clone();
    let during = async move {
        let error = beat(&gone, NODE).await.expect_err("it is gone");
        assert!(matches!(error, ConnectionError::Disconnected { .. }), "{error}");
        let error = gone.refresh(Wanted::Known).await.expect_err("it is gone");
        assert!(matches!(error, ConnectionError::NoBrokerReachable { .. }), "{error}");
        assert!(gone.image().topic("t").is_some(), "what was known is not forgotten");
    };
    event_loop.run(during);
    let _again = FakeBroker::start_at(&place.to_string(), alive);
    event_loop.run(async move { beat_on(&cluster, NODE).await });
}

#[test]
fn a_broker_that_is_gone_is_not_called_in_a_loop() {
    let dead = closed_port();
    let wait = Duration::from_millis(40);
    let mut config = config([dead.clone()]);
    config.reconnect_backoff = Backoff { initial: wait, max: wait };
    let (tries, elapsed) = run(config, |cluster| async move {
        cluster.0.change_image(|image| image.with_broker(NODE, dead));
        let began = Instant::now();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let cluster = cluster.clone();
            // Each of fifty callers tries again at once, twice: they share every attempt.
            callers.spawn(async move {
                for _ in 0..3 {
                    beat(&cluster, NODE).await.expect_err("no broker is there");
                }
            });
        }
        callers.join_all().await;
        (cluster.0.pool.tries(), began.elapsed())
    });
    let most = elapsed.as_millis() / 32 + 1;
    assert!(tries >= 3 && u128::from(tries) <= most, "{tries} tries in {elapsed:?}");
}

#[test]
fn a_hundred_thousand_wishes_for_news_are_a_handful_of_requests() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    let elapsed = run(broker.config(), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        let began = Instant::now();
        for wish in 0..100_000 {
            cluster.request_refresh();
            if wish % 1_000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        cluster.refresh(Wanted::Known).await.expect("an answer");
        began.elapsed()
    });
    // One for the topic, one at once, then one in 80 ms at most, and one that waited.
    let most = 3 + elapsed.as_millis() / 80;
    let requests = broker.count(ApiKey::Metadata) as u128;
    assert!(requests <= most, "{requests} requests in {elapsed:?}");
}

/// A broker that is cut off was asked who leads, without end, as no other connection was open.
#[test]
fn after_an_answer_that_led_nowhere_another_broker_is_asked() {
    let [first, second] = two(alive, alive);
    let asks = |first: &FakeBroker, second: &FakeBroker| {
        (first.count(ApiKey::Metadata), second.count(ApiKey::Metadata))
    };
    let (cluster, event_loop) = (Cluster::new(fast(&first)), EventLoop::start("test"));
    let known = cluster.clone();
    event_loop.run(async move { known.topic("t", soon()).await.map(drop) }).expect("known");
    assert_eq!(asks(&first, &second), (1, 0));
    let suspicious = cluster.clone();
    let again = async move {
        suspicious.suspect(NODE);
        suspicious.refresh(Wanted::Known).await.map(drop)
    };
    event_loop.run(again).expect("an answer");
    assert_eq!(asks(&first, &second), (1, 1));
    let gone = second.stop();
    let last = async move {
        cluster.suspect(NODE);
        cluster.refresh(Wanted::Known).await.map(drop)
    };
    event_loop.run(last).expect("an answer");
    assert_eq!(first.count(ApiKey::Metadata), 2, "{gone} is not there");
}

/// The only broker that was asked waited for its cluster, until the request's timeout was over.
#[test]
fn while_a_broker_does_not_answer_another_one_is_asked() {
    let silent = |asked: &Asked| match asked.is(ApiKey::Heartbeat) {
        true => Answer::Silence,
        false => Answer::Usual,
    };
    for (has_another, asked) in [(true, (1, 1)), (false, (1, 0))] {
        let [first, second] = match has_another {
            true => two(silent, alive),
            false => two(silent, silent),
        };
        let mut config = fast(&first);
        config.request_timeout = Duration::from_millis(if has_another { 20_000 } else { 200 });
        let answer = run(config, |cluster| async move {
            cluster.topic("t", soon()).await.expect("known");
            cluster.doubt_after(Duration::from_millis(1));
            let answer = cluster.send_to_some(|_| HeartbeatRequest::default()).await;
            (answer.map(|_| ()), cluster.0.suspects.lock().contains_key(&NODE))
        });
        let beats = |broker: &FakeBroker| broker.count(ApiKey::Heartbeat);
        match has_another {
            true => assert_eq!(answer, (Ok(()), true)),
            false => assert!(matches!(answer.0, Err(ConnectionError::Timeout { .. }))),
        }
        assert!(beats(&first) == asked.0 && beats(&second) >= asked.1);
    }
}

#[test]
fn a_leader_that_an_answer_named_is_used_and_not_unlearned() {
    let old = FakeBroker::start(|_| Answer::Usual);
    let new = FakeBroker::start(alive);
    let place = new.place.clone();
    run(fast(&old), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        cluster.learn_leader(&LeaderNews {
            topic: "t",
            topic_id: Uuid::ZERO,
            partition: 0,
            leader: 2,
            leader_epoch: LeaderEpoch(7),
            endpoint: Some((&place.host, i32::from(place.port))),
        });
        assert_eq!(cluster.image().leader("t", 0), Some((2, LeaderEpoch(7))));
        beat(&cluster, 2).await.expect("the new leader answers");
        // The old one does not know it, and answers with the previous leader epoch.
        let image = cluster.refresh(Wanted::Known).await.expect("an answer");
        assert_eq!(image.leader("t", 0), Some((2, LeaderEpoch(7))));
    });
}

#[test]
fn a_broker_that_moved_is_called_at_its_new_address() {
    let new = FakeBroker::start(alive);
    let elsewhere = new.place.clone();
    let old = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Metadata) && asked.before > 0 {
            let mut response = metadata(&asked.place, std::iter::empty());
            response.brokers = vec![MetadataResponseBroker {
                node_id: NODE,
                host: elsewhere.host.clone(),
                port: i32::from(elsewhere.port),
                rack: None,
            }];
            return asked.answer::<MetadataRequest>(&response);
        }
        alive(asked)
    });
    run(fast(&old), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        beat(&cluster, NODE).await.expect("it answers");
        cluster.refresh(Wanted::Brokers).await.expect("news");
        beat(&cluster, NODE).await.expect("it answers");
    });
    assert_eq!((old.count(ApiKey::Heartbeat), new.count(ApiKey::Heartbeat)), (1, 1));
}

#[test]
fn a_cluster_that_asks_for_it_is_looked_up_again() {
    let broker = FakeBroker::start(|asked| {
        if asked.is(ApiKey::Metadata) && asked.before == 1 {
            let response = MetadataResponse {
                error_code: ErrorCode::RebootstrapRequired as i16,
                ..metadata(&asked.place, std::iter::empty())
            };
            return asked.answer::<MetadataRequest>(&response);
        }
        Answer::Usual
    });
    run(fast(&broker), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        let image = cluster.refresh(Wanted::Known).await.expect("asked again");
        assert!(image.broker(NODE).is_some() && image.topic("t").is_some());
    });
    assert_eq!(broker.count(ApiKey::ApiVersions), 2, "on a new connection");
}

/// The brokers alone were asked for: who led in its place was learned when metadata grew old.
#[test]
fn a_leader_that_is_no_broker_any_more_has_its_topics_asked_for_again() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let request: MetadataRequest = asked.read();
        let names = request.topics.unwrap_or_default().into_iter().filter_map(|topic| topic.name);
        let mut told = metadata(&asked.place, names);
        if asked.before == 0 {
            let gone = MetadataResponseBroker { node_id: OTHER, ..told.brokers[0].clone() };
            told.brokers.push(gone);
            told.topics[0].partitions[0].leader_id = OTHER;
        }
        asked.answer::<MetadataRequest>(&told)
    });
    let leaders = run(fast(&broker), |cluster| async move {
        cluster.topic("t", soon()).await?;
        cluster.topic("another", soon()).await?;
        let before = cluster.image().leader("t", 0);
        let error = cluster.connection(OTHER).await.expect_err("it is gone");
        assert_eq!(error.code(), Some(ErrorCode::BrokerNotAvailable));
        Ok::<_, ConnectionError>([before, cluster.image().leader("t", 0)])
    });
    let nodes = leaders.map(|leaders| leaders.map(|leader| leader.map(|(node, _)| node)));
    assert_eq!(nodes, Ok([Some(OTHER), Some(NODE)]));
}

/// The error was that it is missing, which no broker had said.
#[test]
fn a_topic_without_an_answer_is_late_and_not_missing() {
    let silent = FakeBroker::start(|asked| match asked.is(ApiKey::Metadata) {
        true => Answer::Silence,
        false => Answer::Usual,
    });
    let cluster = Cluster::new(fast(&silent));
    let error = EventLoop::start("test").run(async move {
        let deadline = Instant::now() + Duration::from_millis(100);
        cluster.topic("t", deadline).await.expect_err("no answer")
    });
    assert!(matches!(error, ConnectionError::Timeout { .. }), "{error}");
}
