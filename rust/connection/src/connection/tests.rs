use super::*;
use crate::testing::{self, Answer, Asked, EventLoop, FakeBroker, all_apis, metadata, raw, until};
use bytes::Bytes;
use kafkalite_protocol::Records;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse,
};
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::metadata::MetadataRequest;
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};

/// What a test leaves as it is.
fn usual(_: &mut ConnectionConfig) {}

/// Runs `what` on a thread of its own with a connection to a broker that follows `script`.
fn with<F, T>(
    change: fn(&mut ConnectionConfig),
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    what: impl FnOnce(Result<Connection, ConnectionError>) -> F + Send + 'static,
) -> T
where
    F: Future<Output = T> + Send,
    T: Send + 'static,
{
    let broker = FakeBroker::start(script);
    let mut config = broker.config();
    change(&mut config);
    let place = broker.place.clone();
    EventLoop::start("test").run(async move {
        let opened = Connection::open(&place, &config, Duration::from_secs(10)).await;
        what(opened).await
    })
}

fn ask(connection: &Connection) -> Reply<MetadataRequest> {
    connection.send(|_| MetadataRequest { topics: Some(vec![]), ..MetadataRequest::default() })
}

#[test]
fn the_newest_common_version_is_spoken() {
    let script = |asked: &Asked| {
        if !asked.is(ApiKey::ApiVersions) {
            return Answer::Usual;
        }
        let key = ApiKey::Metadata as i16;
        let api = ApiVersion { api_key: key, min_version: 0, max_version: 5 };
        let response = ApiVersionsResponse { api_keys: vec![api], ..Default::default() };
        asked.answer::<ApiVersionsRequest>(&response)
    };
    let (version, response) = with(usual, script, |connection| async move {
        let connection = connection.expect("open");
        assert_eq!(connection.version::<MetadataRequest>(), Some(5));
        assert_eq!(connection.version::<HeartbeatRequest>(), None);
        let refused = connection.send(|_| HeartbeatRequest::default()).await;
        assert!(matches!(refused, Err(ConnectionError::UnsupportedVersion { .. })), "{refused:?}");
        ask(&connection).await.expect("an answer")
    });
    assert_eq!((version, response.brokers.len()), (5, 1));
}

#[test]
fn a_broker_that_serves_older_api_versions_is_asked_again_in_its_own() {
    let script = |asked: &Asked| {
        if asked.header.api_version == 3 {
            return Answer::Usual;
        }
        assert_eq!(asked.header.api_version, ApiKey::ApiVersions.versions().max);
        let api = ApiVersion { api_key: 18, min_version: 0, max_version: 3 };
        let response =
            ApiVersionsResponse { error_code: 35, api_keys: vec![api], ..Default::default() };
        let mut writer = kafkalite_protocol::Writer::new();
        response.encode(&mut writer, 0);
        raw(asked.header.correlation_id, &writer.into_bytes())
    };
    let served =
        with(
            usual,
            script,
            |connection| async move { connection.expect("open").serves(ApiKey::Fetch) },
        );
    assert!(served);
}

#[test]
fn requests_are_answered_in_the_order_of_their_calls_in_any_order_of_polls() {
    let broker_ids = with(
        usual,
        |asked| {
            if !asked.is(ApiKey::Metadata) {
                return Answer::Usual;
            }
            let mut response = metadata(&asked.place, std::iter::empty());
            response.brokers[0].node_id = asked.before as i32;
            asked.answer::<MetadataRequest>(&response)
        },
        |connection| async move {
            let connection = connection.expect("open");
            let (first, second, third) = (ask(&connection), ask(&connection), ask(&connection));
            drop(second);
            let third = third.await.expect("an answer").1.brokers[0].node_id;
            (first.await.expect("an answer").1.brokers[0].node_id, third, connection.in_flight())
        },
    );
    assert_eq!(broker_ids, (0, 2, 0));
}

/// What the second of two requests ends with when the first is answered with `bytes` for its
/// correlation id.
fn answered_with(bytes: fn(i32) -> Vec<u8>) -> (ConnectionError, ConnectionError) {
    let script = move |asked: &Asked| match asked.is(ApiKey::Metadata) {
        true => Answer::Raw(Bytes::from(bytes(asked.header.correlation_id))),
        false => Answer::Usual,
    };
    with(usual, script, |connection| async move {
        let connection = connection.expect("open");
        let (first, second) = (ask(&connection), ask(&connection));
        let first = first.await.expect_err("it cannot be");
        let second = second.await.expect_err("the connection ended");
        assert!(connection.is_closed());
        (first, second)
    })
}

#[test]
fn what_cannot_be_an_answer_ends_the_connection() {
    type Case = (&'static str, fn(i32) -> Vec<u8>);
    let cases: [Case; 7] = [
        ("a response of -1 bytes", |_| (-1_i32).to_be_bytes().to_vec()),
        ("a response of 2147483647 bytes", |_| i32::MAX.to_be_bytes().to_vec()),
        ("a response of 3 bytes", |_| 3_i32.to_be_bytes().to_vec()),
        ("correlation id 7777, 1 was expected", |_| {
            [8_i32, 7_777, 0].map(i32::to_be_bytes).concat()
        }),
        ("bytes needed, 0 left", |id| [4_i32, id].map(i32::to_be_bytes).concat()),
        ("length", |id| {
            let body = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
            [&16_i32.to_be_bytes()[..], &id.to_be_bytes(), &body].concat()
        }),
        // An array of two billion brokers in a frame of a few bytes.
        ("needed", |id| {
            let body = [0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x07];
            [&14_i32.to_be_bytes()[..], &id.to_be_bytes(), &body].concat()
        }),
    ];
    for (why, bytes) in cases {
        let (first, second) = answered_with(bytes);
        let malformed = matches!(
            first,
            ConnectionError::MalformedResponse { .. } | ConnectionError::ResponseTooLarge { .. }
        );
        assert!(malformed, "{first}");
        let text = first.to_string();
        assert!(text.contains(why) || why == "length", "{text} does not say {why}");
        assert!(second.is_transport(), "{second}");
    }
}

#[test]
fn an_answer_to_nothing_ends_the_connection() {
    let script = |asked: &Asked| {
        let mut twice = match asked.answer::<ApiVersionsRequest>(&all_apis()) {
            Answer::Raw(bytes) => bytes.to_vec(),
            _ => vec![],
        };
        twice.extend_from_within(..);
        Answer::Raw(Bytes::from(twice))
    };
    with(usual, script, |connection| async move {
        if let Ok(connection) = connection {
            connection.closed().await;
            let error = ask(&connection).await.expect_err("it ended");
            assert!(error.to_string().contains("to no request"), "{error}");
        }
    });
}

#[test]
fn a_broker_that_hangs_up_fails_everything_that_waits() {
    let script = |asked: &Asked| match asked.is(ApiKey::Metadata) {
        true if asked.before == 1 => Answer::Close,
        true => Answer::Silence,
        false => Answer::Usual,
    };
    let errors = with(usual, script, |connection| async move {
        let connection = connection.expect("open");
        let (first, second) = (ask(&connection), ask(&connection));
        [first.await.expect_err("it hung up"), second.await.expect_err("it hung up")]
    });
    for error in errors {
        assert!(matches!(error, ConnectionError::Disconnected { .. }), "{error}");
    }
}

#[test]
fn an_answer_that_does_not_come_in_time_ends_the_connection() {
    let script = |asked: &Asked| match asked.is(ApiKey::Metadata) {
        true => Answer::Silence,
        false => Answer::Usual,
    };
    let half_a_second: fn(&mut ConnectionConfig) =
        |config| config.request_timeout = Duration::from_millis(500);
    let (first, second) = with(half_a_second, script, |connection| async move {
        let connection = connection.expect("open");
        let first = connection
            .send_with(i16::MAX, Duration::from_secs(600), |_| MetadataRequest::default());
        let second = ask(&connection).await.expect_err("no broker answers");
        (first.await.expect_err("it ended"), second)
    });
    assert!(
        matches!(&second, ConnectionError::Timeout { after_ms, .. } if *after_ms >= 500),
        "{second}"
    );
    assert!(matches!(first, ConnectionError::Disconnected { .. }), "{first}");
}

#[test]
fn an_unused_connection_is_closed() {
    with(
        |config| config.connections_max_idle = Some(Duration::from_millis(20)),
        |_| Answer::Usual,
        |connection| async move {
            let connection = connection.expect("open");
            connection.closed().await;
            let error = ask(&connection).await.expect_err("it ended");
            assert!(error.to_string().contains("idle"), "{error}");
        },
    );
}

#[test]
fn a_request_without_an_answer_completes_when_it_is_sent() {
    let script = |asked: &Asked| match asked.is(ApiKey::Heartbeat) {
        true => Answer::Silence,
        false => Answer::Usual,
    };
    with(usual, script, |connection| async move {
        let connection = connection.expect("open");
        let sent = connection.send_unanswered(i16::MAX, |_| HeartbeatRequest::default());
        assert_eq!(sent.await, Ok(ApiKey::Heartbeat.versions().max));
        assert_eq!(connection.in_flight(), 0);
        ask(&connection).await.expect("the next one is answered");
    });
}

#[test]
fn an_answer_is_handled_on_the_thread_that_reads() {
    let (told, answer) = std::sync::mpsc::channel();
    let ((version, response), elsewhere) = with(
        usual,
        |_| Answer::Usual,
        |connection| async move {
            let connection = connection.expect("open");
            let here = std::thread::current().id();
            let other = std::thread::spawn(move || {
                let timeout = Duration::from_secs(10);
                let done = move |answer| drop(told.send((answer, std::thread::current().id())));
                let build = |_| MetadataRequest { topics: Some(vec![]), ..Default::default() };
                connection.send_then::<MetadataRequest>(i16::MAX, timeout, build, done);
                connection
            });
            until("the other thread ends", || other.is_finished()).await;
            let connection = other.join().expect("it ends");
            until("the answer comes", || connection.in_flight() == 0).await;
            let (answer, told_on) = answer.try_recv().expect("it is handled");
            (answer.expect("an answer"), told_on != here)
        },
    );
    assert_eq!((version, response.brokers.len()), (ApiKey::Metadata.versions().max, 1));
    assert!(!elsewhere);
}

#[test]
fn what_the_system_does_not_take_at_once_is_written_in_order() {
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let script = move |asked: &Asked| match asked.is(ApiKey::Produce) {
        true => {
            let request: ProduceRequest = asked.read();
            log.lock().push(request.timeout_ms);
            Answer::Silence
        }
        false => Answer::Usual,
    };
    let count = with(usual, script, move |connection| async move {
        let connection = connection.expect("open");
        for timeout_ms in 0..8 {
            let large = PartitionProduceData {
                index: 0,
                records: Some(Records::Bytes(Bytes::from(vec![0; 4 << 20]))),
            };
            let topic = TopicProduceData { partition_data: vec![large], ..Default::default() };
            let build =
                |_| ProduceRequest { timeout_ms, topic_data: vec![topic], ..Default::default() };
            connection.send_then::<ProduceRequest>(9, Duration::from_secs(20), build, |_| ());
        }
        until("all eight requests arrive", || seen.lock().len() >= 8).await;
        assert_eq!(*seen.lock(), (0..8).collect::<Vec<_>>());
        connection.in_flight()
    });
    assert_eq!(count, 8);
}

#[test]
fn a_port_without_a_listener_is_a_refused_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let place = HostPort { host: "127.0.0.1".to_owned(), port };
    let config = testing::config([place.clone()]);
    let open =
        async move { Connection::open(&place, &config, Duration::from_secs(10)).await.map(|_| ()) };
    let error = EventLoop::start("test").run(open).expect_err("refused");
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}
