use super::*;
use crate::awaited;
use crate::testing::{
    Answer, Asked, EventLoop, FakeBroker, NODE, config, metadata, raw, topic, until,
};
use kafkalite_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse,
};
use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::metadata::{MetadataRequest, MetadataResponse};
use kafkalite_protocol::messages::{ApiKey, Wire};
use std::task::Poll;

mod creation;
mod outages;

/// Runs `what` with a cluster on a thread of its own.
fn run<F, T>(config: ConnectionConfig, what: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    EventLoop::start("test").run(what(Cluster::new(config)))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A port of loopback without a listener.
fn closed_port() -> HostPort {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    HostPort { host: "127.0.0.1".to_owned(), port }
}

/// A configuration that leads to `broker`, with waits of `ms` between tries.
fn tries_again_after(broker: &FakeBroker, ms: u64) -> ConnectionConfig {
    let mut config = broker.config();
    config.retry_backoff.initial = Duration::from_millis(ms);
    config
}

#[test]
fn an_absent_broker_is_an_error_with_the_cause_of_every_address() {
    let (one, two) = (closed_port(), closed_port());
    let mut config = config([one.clone(), two.clone()]);
    config.bootstrap_timeout = Duration::from_millis(600);
    let error = run(config, |cluster| async move {
        let any = cluster.any_connection().await.expect_err("no socket listens");
        let topic = cluster.topic("t", soon()).await.expect_err("no socket listens");
        assert!(matches!(topic, ConnectionError::NoBrokerReachable { .. }), "{topic}");
        any
    });
    let ConnectionError::NoBrokerReachable { mut causes, after_ms } = error else {
        panic!("{error}")
    };
    causes.sort();
    let mut addresses = [one.to_string(), two.to_string()];
    addresses.sort();
    assert_eq!(causes.iter().map(|(address, _)| address.as_str()).collect::<Vec<_>>(), addresses);
    for (_, cause) in &causes {
        assert!(
            cause.starts_with("connection refused (") && cause.ends_with("in 0.6 s)"),
            "{cause}"
        );
    }
    assert!(after_ms >= 600);
}

#[test]
fn an_address_that_says_nothing_does_not_hide_one_that_answers() {
    let silent = FakeBroker::start(|_| Answer::Silence);
    let good = FakeBroker::start(|_| Answer::Usual);
    let config = config([closed_port(), silent.place.clone(), good.place.clone()]);
    let found = run(config, |cluster| async move {
        cluster.topic("t", soon()).await.map(|topic| topic.partitions.len())
    });
    assert_eq!(found, Ok(1));
}

#[test]
fn a_silent_broker_and_an_absent_one_are_different_errors() {
    let silent = FakeBroker::start(|_| Answer::Silence);
    let garbage = FakeBroker::start(|asked| raw(asked.header.correlation_id, b"HTTP/1.1 400"));
    // Long enough for the one that answers to have done so: its answer is what is looked for.
    let mut config = config([silent.place.clone(), garbage.place.clone()]);
    config.bootstrap_timeout = Duration::from_secs(2);
    let error = run(config, |cluster| async move {
        cluster.any_connection().await.expect_err("neither is a broker").to_string()
    });
    assert!(error.contains("no answer to ApiVersions within"), "{error}");
    assert!(error.contains("an answer to ApiVersions:"), "{error}");
}

#[test]
fn the_bootstrap_connection_becomes_that_of_its_broker() {
    let broker = FakeBroker::start(|asked| {
        assert_eq!(asked.connection, 0, "one connection is enough");
        if asked.is(ApiKey::Heartbeat) {
            return asked.answer::<HeartbeatRequest>(&HeartbeatResponse::default());
        }
        Answer::Usual
    });
    run(broker.config(), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        let answer = cluster.send(NODE, |_| HeartbeatRequest::default()).await;
        assert_eq!(answer.map(|(_, response)| response.error_code), Ok(0));
    });
}

#[test]
fn callers_who_want_news_at_once_share_a_request() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    run(broker.config(), |cluster| async move {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let cluster = cluster.clone();
            callers.spawn(async move { cluster.topic("t", soon()).await.map(|_| ()) });
        }
        for result in callers.join_all().await {
            result.expect("known");
        }
    });
    assert_eq!(broker.count(ApiKey::Metadata), 1);
}

/// It got the failure of a later question that another caller asked.
#[test]
fn a_caller_that_is_slow_to_look_gets_the_answer_to_its_own_question() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    let mut config = broker.config();
    config.bootstrap_timeout = Duration::from_millis(300);
    run(config, |cluster| async move {
        let mut slow = Box::pin(cluster.refresh(Wanted::Brokers));
        let looked = std::future::poll_fn(|context| Poll::Ready(slow.as_mut().poll(context)));
        assert!(looked.await.is_pending());
        cluster.refresh(Wanted::Brokers).await.expect("the same question");
        drop(broker);
        cluster.disconnect();
        cluster.refresh(Wanted::Brokers).await.expect_err("the broker is gone");
        assert_eq!(slow.await.map(|image| image.brokers().count()), Ok(1));
    });
}

#[test]
fn a_request_in_flight_answers_callers_that_come_meanwhile() {
    let (go, may_go) = std::sync::mpsc::channel();
    let may_go = parking_lot::Mutex::new(may_go);
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Metadata) {
            awaited::received("the test says when", &may_go.lock());
        }
        Answer::Usual
    });
    // A question of its own would have to wait for as long as this.
    let config = tries_again_after(&broker, 60_000);
    let broker = Arc::new(broker);
    let asked = Arc::clone(&broker);
    run(config, |cluster| async move {
        let late = async {
            until("metadata is asked for", || asked.count(ApiKey::Metadata) > 0).await;
            let late = cluster.topic("t", soon());
            tokio::pin!(late);
            tokio::select! {
                biased;
                _ = &mut late => panic!("no broker has answered"),
                () = std::future::ready(()) => {}
            }
            go.send(()).expect("the broker waits");
            late.await
        };
        let (early, late) = tokio::join!(cluster.topic("t", soon()), late);
        assert_eq!(early.expect("known").name, late.expect("known too").name);
    });
    assert_eq!(broker.count(ApiKey::Metadata), 1);
}

#[test]
fn a_topic_is_asked_for_until_it_is_there() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let codes = [ErrorCode::UnknownTopicOrPartition, ErrorCode::LeaderNotAvailable];
        let Some(code) = codes.get(asked.before) else { return Answer::Usual };
        let mut response = metadata(&asked.place, ["t".to_owned()].into_iter());
        response.topics[0].error_code = *code as i16;
        asked.answer::<MetadataRequest>(&response)
    });
    run(tries_again_after(&broker, 1), |cluster| async move {
        assert_eq!(cluster.topic("t", soon()).await.expect("known").name, "t");
        assert_eq!(
            cluster.image().leader("t", 0),
            Some((NODE, kafkalite_protocol::LeaderEpoch(0)))
        );
    });
    assert_eq!(broker.count(ApiKey::Metadata), 3);
}

/// A deleted topic came back, because a client that had read it created it again.
#[test]
fn a_topic_is_made_by_who_names_it_and_not_by_who_knew_it() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Metadata) {
            let request: MetadataRequest = asked.read();
            let names = request.topics.unwrap_or_default().into_iter();
            let names: Vec<_> = names.filter_map(|topic| topic.name).collect();
            noted.lock().push((names.join(" "), request.allow_auto_topic_creation));
        }
        Answer::Usual
    });
    run(broker.config(), |cluster| async move {
        cluster.look_up(&["a"]).await.expect("it is there");
        cluster.refresh(Wanted::Known).await.expect("an answer");
        cluster.request_refresh();
        cluster.look_up(&["b"]).await.expect("it is there");
    });
    let asked = asked.lock();
    let expected = [("a", true), ("a", false), ("a", false), ("b", true)];
    let asked: Vec<_> = asked.iter().map(|(names, makes)| (names.as_str(), *makes)).collect();
    assert_eq!(asked, expected);
}

#[test]
fn a_topic_that_cannot_be_is_refused_at_once_and_a_missing_one_at_the_deadline() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let request: MetadataRequest = asked.read();
        let names = request.topics.unwrap_or_default().into_iter().filter_map(|topic| topic.name);
        let mut response = metadata(&asked.place, names);
        for topic in &mut response.topics {
            let bad = topic.name.as_deref() == Some("bad name");
            let code = if bad {
                ErrorCode::InvalidTopicException
            } else {
                ErrorCode::UnknownTopicOrPartition
            };
            topic.error_code = code as i16;
        }
        asked.answer::<MetadataRequest>(&response)
    });
    let codes = run(broker.config(), |cluster| async move {
        let bad = cluster.topic("bad name", soon()).await.expect_err("refused").code();
        let deadline = Instant::now() + Duration::from_millis(500);
        (bad, cluster.topic("missing", deadline).await.expect_err("missing").code())
    });
    assert_eq!(codes.0, Some(ErrorCode::InvalidTopicException));
    assert_eq!(codes.1, Some(ErrorCode::UnknownTopicOrPartition));
}

#[test]
fn metadata_that_cannot_be_is_an_error_of_the_way_there() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let mut broken = topic("t", 2, 0);
        broken.partitions[1].partition_index = 7;
        let response =
            MetadataResponse { topics: vec![broken], ..metadata(&asked.place, std::iter::empty()) };
        asked.answer::<MetadataRequest>(&response)
    });
    // Before it gives up, it has to know the topic at all.
    let mut config = broker.config();
    config.bootstrap_timeout = Duration::from_secs(1);
    let error = run(config, |cluster| async move {
        cluster.refresh(Wanted::Topics(vec!["t".to_owned()])).await.expect_err("it cannot be")
    });
    assert!(error.to_string().contains("has no partition 1"), "{error}");
}

#[test]
fn a_cluster_that_moved_is_found_again_through_its_bootstrap_servers() {
    let elsewhere = closed_port();
    let gone = elsewhere.clone();
    // Its metadata first names an address without a broker, later its own.
    let broker = FakeBroker::start(move |asked| match asked.is(ApiKey::Metadata) {
        true if asked.before == 0 => {
            asked.answer::<MetadataRequest>(&metadata(&gone, ["t".to_owned()].into_iter()))
        }
        true => Answer::Usual,
        false => match asked.is(ApiKey::Heartbeat) {
            true => asked.answer::<HeartbeatRequest>(&HeartbeatResponse::default()),
            false => Answer::Usual,
        },
    });
    run(broker.config(), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        cluster.disconnect();
        let refused = cluster.send(NODE, |_| HeartbeatRequest::default()).await;
        assert!(refused.is_err(), "no broker is there");
        let image = cluster.refresh(Wanted::Brokers).await.expect("the bootstrap server answers");
        assert_ne!(image.broker(NODE).expect("known").place, elsewhere);
        cluster.send(NODE, |_| HeartbeatRequest::default()).await.expect("found again");
    });
}

fn coordinator(asked: &Asked, code: ErrorCode) -> Answer {
    let request: FindCoordinatorRequest = asked.read();
    let told = Coordinator {
        key: request.coordinator_keys[0].clone(),
        node_id: NODE,
        host: asked.place.host.clone(),
        port: i32::from(asked.place.port),
        error_code: code as i16,
        ..Coordinator::default()
    };
    let response = FindCoordinatorResponse { coordinators: vec![told], ..Default::default() };
    asked.answer::<FindCoordinatorRequest>(&response)
}

#[test]
fn a_coordinator_is_asked_for_until_there_is_one_and_then_remembered() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::FindCoordinator) {
        true if asked.before == 0 => coordinator(asked, ErrorCode::CoordinatorNotAvailable),
        true => coordinator(asked, ErrorCode::None),
        false => Answer::Usual,
    });
    run(tries_again_after(&broker, 1), |cluster| async move {
        for _ in 0..2 {
            assert_eq!(cluster.coordinator(CoordinatorKind::Group, "g").await, Ok(NODE));
        }
        cluster.forget_coordinator(CoordinatorKind::Group, "g");
        assert_eq!(cluster.coordinator(CoordinatorKind::Group, "g").await, Ok(NODE));
        assert!(cluster.image().broker(NODE).is_some(), "and where it is");
    });
    assert_eq!(broker.count(ApiKey::FindCoordinator), 3);
}

#[test]
fn a_coordinator_that_is_refused_is_an_error() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::FindCoordinator) {
        true => coordinator(asked, ErrorCode::GroupAuthorizationFailed),
        false => Answer::Usual,
    });
    let error = run(broker.config(), |cluster| async move {
        cluster.coordinator(CoordinatorKind::Group, "g").await.expect_err("refused")
    });
    assert_eq!(error.to_string(), "the coordinator of g: GROUP_AUTHORIZATION_FAILED");
}

#[test]
fn metadata_is_asked_for_again_when_it_is_old() {
    let broker = FakeBroker::start(|_| Answer::Usual);
    let mut config = tries_again_after(&broker, 1);
    config.metadata_max_age = Duration::from_millis(10);
    run(config, |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        let mut images = cluster.images();
        for _ in 0..3 {
            // A topic that a caller looks at is kept.
            assert!(cluster.image().topic("t").is_some());
            images.changed().await.expect("the cluster lives");
        }
        assert!(cluster.image().topic("t").is_some(), "and forgets nothing");
    });
}

#[test]
fn brokers_of_long_ago_are_spoken_to_in_their_versions() {
    // As Kafka 2.1 serves them.
    let ranges = [(3, 0, 7), (10, 0, 2), (12, 0, 2), (18, 0, 2)];
    let broker = FakeBroker::start(move |asked| {
        let response = ApiVersionsResponse {
            error_code: if asked.header.api_version > 2 { 35 } else { 0 },
            ..ApiVersionsResponse::default()
        };
        if asked.is(ApiKey::ApiVersions) && asked.header.api_version > 2 {
            let mut writer = kafkalite_protocol::Writer::new();
            response.encode(&mut writer, 0);
            return raw(asked.header.correlation_id, &writer.into_bytes());
        }
        let api =
            |(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version };
        if asked.is(ApiKey::ApiVersions) {
            let api_keys = ranges.map(api).into();
            let served = ApiVersionsResponse { api_keys, ..response };
            return asked.answer::<ApiVersionsRequest>(&served);
        }
        if asked.is(ApiKey::FindCoordinator) {
            let request: FindCoordinatorRequest = asked.read();
            assert_eq!((asked.header.api_version, request.key.as_str()), (2, "g"));
            let response = FindCoordinatorResponse {
                node_id: NODE,
                host: asked.place.host.clone(),
                port: i32::from(asked.place.port),
                ..FindCoordinatorResponse::default()
            };
            return asked.answer::<FindCoordinatorRequest>(&response);
        }
        assert_eq!(asked.header.api_version, 7);
        Answer::Usual
    });
    run(broker.config(), |cluster| async move {
        cluster.topic("t", soon()).await.expect("known");
        assert_eq!(cluster.coordinator(CoordinatorKind::Group, "g").await, Ok(NODE));
    });
}
