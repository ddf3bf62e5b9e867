use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::metrics::{RecentRequest, Stage};

fn get(address: SocketAddr, path: &str) -> String {
    get_from("localhost", address, path)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(crate::awaited::LIMIT)).expect("a valid timeout");
    stream
}

fn get_from(host: &str, address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

fn serving(metrics: Arc<Metrics>) -> AdminHttp {
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    listener.start(parts(metrics)).expect("a thread")
}

fn parts(metrics: Arc<Metrics>) -> AdminParts {
    let names = vec!["kafka.example".to_owned()];
    let api = Router::new().route("/ping", axum::routing::get(|| async { "{}" }));
    AdminParts { metrics, clock: Arc::new(ManualClock::new(0)), names, token: None, api }
}

/// A page of `evil.example` whose name resolved to this machine read the metrics.
#[test]
fn only_addresses_localhost_and_the_brokers_own_names_are_answered() {
    let admin = serving(Arc::new(Metrics::new()));
    for (host, status) in [
        ("localhost", 200),
        ("LOCALHOST:9644", 200),
        ("a.localhost", 200),
        ("127.0.0.1:9644", 200),
        ("192.0.2.7", 200),
        ("[::1]:9644", 200),
        ("Kafka.Example:9644", 200),
        ("kafka.example.", 200),
        ("evil.example", 421),
        ("evil.example:9644", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("notlocalhost", 421),
    ] {
        let answer = get_from(host, admin.address(), "/health/live");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
        assert_eq!(answer.contains("advertised.listeners"), status == 421, "{host}: {answer}");
    }
}

/// A client that sent half a request on each of its connections kept all connections of the port.
#[test]
fn connections_are_few_and_a_request_that_does_not_end_ends_its_connection() {
    let (request, idle) = (Duration::from_millis(50), Duration::from_secs(60));
    let limits = Limits { connections: 3, request, idle, ..Limits::default() };
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let admin = listener.start_within(limits, parts(Arc::default())).expect("a thread");
    let half = |_| {
        let mut stream = connect(admin.address());
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: local").expect("it reads");
        stream
    };
    let mut half_sent: Vec<TcpStream> = (0..3).map(half).collect();
    // In the place of one of them.
    assert!(get(admin.address(), "/health/live").starts_with("HTTP/1.1 200"));
    for stream in &mut half_sent {
        let end = stream.read(&mut [0; 1]);
        let is_over = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        assert!(matches!(&end, Ok(0)) || end.as_ref().is_err_and(is_over), "{end:?}");
    }
}

/// A change that took longer than a head may take was made, and its client got no answer.
#[test]
fn an_answer_may_take_longer_than_the_head_of_its_request() {
    let (request, idle) = (Duration::from_millis(50), Duration::from_secs(60));
    let limits = Limits { request, idle, ..Limits::default() };
    let may_answer = Arc::new(tokio::sync::Notify::new());
    let made = Arc::clone(&may_answer);
    let slow = axum::routing::get(async move || {
        made.notified().await;
        "made"
    });
    let api = Router::new().route("/slow", slow);
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let parts = AdminParts { api, ..parts(Arc::default()) };
    let admin = listener.start_within(limits, parts).expect("a thread");
    let mut asking = connect(admin.address());
    let head = "GET /api/v1/slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    asking.write_all(head.as_bytes()).expect("it reads");
    // It began later and ends because its head does not, so the time for a head is over.
    let mut half_sent = connect(admin.address());
    half_sent.write_all(b"GET /health/live HTTP/1.1\r\nHost: local").expect("it reads");
    let end = half_sent.read(&mut [0; 1]);
    let is_over = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    assert!(matches!(&end, Ok(0)) || end.as_ref().is_err_and(is_over), "{end:?}");
    may_answer.notify_one();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).expect("it answers in text");
    assert!(answer.ends_with("made"), "{answer}");
}

/// A probe waited up to 15 s in the backlog while others kept all connections and used none.
#[test]
fn a_probe_is_answered_in_place_of_the_connection_that_stood_still_for_longest() {
    let (request, idle) = (Duration::from_secs(600), Duration::from_secs(600));
    let limits = Limits { connections: 3, request, idle, ..Limits::default() };
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let admin = listener.start_within(limits, parts(Arc::default())).expect("a thread");
    let ask = |stream: &mut TcpStream| {
        stream
            .write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("it reads");
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).expect("it answers");
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    };
    let mut kept: Vec<TcpStream> = (0..3).map(|_| connect(admin.address())).collect();
    // In this order, so the second has stood still for longest.
    for place in [1, 0, 2] {
        ask(&mut kept[place]);
    }
    assert!(get(admin.address(), "/health/live").starts_with("HTTP/1.1 200"));
    let mut rest = Vec::new();
    kept[1].read_to_end(&mut rest).expect("an end");
    ask_again(&mut kept[0]);
    ask_again(&mut kept[2]);
}

/// A connection that is still open is served as before, after the rest of the previous answer.
fn ask_again(stream: &mut TcpStream) {
    let request = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    assert!(answer.ends_with("ready\n"), "{answer}");
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let (request, idle) = (Duration::from_secs(60), Duration::from_millis(50));
    let limits = Limits { connections: 1, request, idle, ..Limits::default() };
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let admin = listener.start_within(limits, parts(Arc::default())).expect("a thread");
    let mut silent = connect(admin.address());
    assert_eq!(silent.read(&mut [0; 1]).expect("an end"), 0);
}

/// What a page of figures waits for.
struct Gate {
    asked: std::sync::mpsc::Sender<()>,
    open: parking_lot::Mutex<()>,
}

/// Scrapes whose reads a disk held up took every thread that the API needs. No request could end
/// the fault that held them up.
#[test]
fn pages_that_wait_for_a_disk_hold_up_one_thread_and_no_other_page() {
    let (asked, was_asked) = std::sync::mpsc::channel();
    let gate = Arc::new(Gate { asked, open: parking_lot::Mutex::default() });
    let metrics = Arc::new(Metrics::new());
    metrics.page("groups", &gate, |gate: &Gate| {
        gate.asked.send(()).expect("the test runs");
        drop(gate.open.lock());
        Vec::new()
    });
    let blocking =
        || async { tokio::task::spawn_blocking(|| "done").await.expect("it does not panic") };
    let api = Router::new().route("/work", axum::routing::get(blocking));
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let admin = listener.start(AdminParts { api, ..parts(metrics) }).expect("a thread");
    let closed = gate.open.lock();
    let head = "GET /metrics/groups HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut scrapes: Vec<TcpStream> =
        (0..2 * BLOCKING_THREADS).map(|_| connect(admin.address())).collect();
    for scrape in &mut scrapes {
        scrape.write_all(head.as_bytes()).expect("it reads");
    }
    was_asked.recv_timeout(crate::awaited::LIMIT).expect("one of them is under way");
    for path in ["/api/v1/work", "/metrics/clients", "/metrics/topics", "/health/ready"] {
        assert!(get(admin.address(), path).starts_with("HTTP/1.1 200"), "{path}");
    }
    assert_eq!(was_asked.try_recv().ok(), None, "the others wait for their turn");
    // The others go away.
    let last = scrapes.pop();
    let first = scrapes.swap_remove(0);
    drop(scrapes);
    assert!(get(admin.address(), "/health/ready").starts_with("HTTP/1.1 200"));
    drop(closed);
    for mut scrape in [Some(first), last].into_iter().flatten() {
        let mut answer = String::new();
        scrape.read_to_string(&mut answer).expect("it answers in text");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn ready_turns_into_503_when_the_broker_stops() {
    let admin = serving(Arc::new(Metrics::new()));
    assert!(get(admin.address(), "/health/ready").starts_with("HTTP/1.1 200"));
    admin.set_ready(false);
    assert!(get(admin.address(), "/health/ready").starts_with("HTTP/1.1 503"));
    assert!(get(admin.address(), "/health/live").starts_with("HTTP/1.1 200"));
}

#[test]
fn metrics_tell_stages_and_kafkas_names() {
    let metrics = Arc::new(Metrics::new());
    metrics.record(Stage::Total, 0, 3_000_000);
    metrics.counter("bytes", "Bytes.", vec![("thread", "a\"b".to_owned())]).add(5);
    metrics.time("busy_seconds", "Time.", vec![]).add_ns(2_250_000_000);
    let answer = get(serving(metrics).address(), "/metrics");
    for line in [
        "kafkalite_stage_duration_seconds_count{stage=\"total\",api=\"Produce\"} 1",
        "kafkalite_stage_duration_seconds_sum{stage=\"total\",api=\"Produce\"} 0.003",
        "kafka_network_requestmetrics_totaltimems_count{request=\"Produce\"} 1",
        "busy_seconds_total 2.25",
        "bytes_total{thread=\"a\\\"b\"} 5",
        "kafkalite_zero_copy_share 0",
    ] {
        assert!(answer.lines().any(|given| given == line), "{line} is missing in {answer}");
    }
}

#[test]
fn a_dropped_server_gives_its_port_back() {
    let admin = serving(Arc::new(Metrics::new()));
    let address = admin.address();
    drop(admin);
    assert!(AdminListener::bind("127.0.0.1", address.port()).is_ok());
}

fn remembered(correlation_id: i32) -> RecentRequest {
    RecentRequest {
        api_key: 0,
        api_version: 11,
        correlation_id,
        client_id: Some("a \"client\"\n".to_owned()),
        connection_id: 1,
        peer: ([127, 0, 0, 1], 9).into(),
        received_ns: 0,
        started_ns: 1_000_000,
        handled_ns: Some(3_000_000),
        answered_ns: Some(3_500_000),
        taken_ns: None,
        sent_ns: None,
    }
}

#[test]
fn the_last_requests_are_listed_with_the_stages_that_they_have_reached() {
    let metrics = Arc::new(Metrics::remembering(3));
    metrics.recent().expect("it remembers").push(remembered(1));
    let answer = get(serving(metrics).address(), "/requests");
    let row = r#"[{"api":"Produce","version":11,"client_id":"a \"client\"\n","#.to_owned()
        + r#""peer":"127.0.0.1:9","age_ms":0.0,"queue_ms":1.0,"handler_ms":2.0,"#
        + r#""waited_ms":0.5,"sending_ms":null,"total_ms":null}]"#;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with(&row), "{answer}");
}

#[test]
fn at_most_a_thousand_requests_are_listed() {
    let metrics = Arc::new(Metrics::remembering(2_000));
    for correlation_id in 0..1_500 {
        metrics.recent().expect("it remembers").push(remembered(correlation_id));
    }
    let answer = get(serving(metrics).address(), "/requests");
    assert_eq!(answer.matches("\"api\"").count(), 1_000);
}

#[test]
fn a_broker_that_remembers_no_request_says_which_key_would_have_it_do_so() {
    let answer = get(serving(Arc::new(Metrics::new())).address(), "/requests");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("kafkalite.recent.requests"), "{answer}");
}

#[test]
fn the_api_is_kept_from_strangers_and_its_answers_from_scripts() {
    let admin = serving(Arc::new(Metrics::new()));
    let answer = get(admin.address(), "/api/v1/ping");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for line in [
        "content-security-policy: default-src 'none'; frame-ancestors 'none'; ",
        "x-content-type-options: nosniff\r\n",
        "cross-origin-resource-policy: same-origin\r\n",
        "cache-control: no-store\r\n",
    ] {
        assert!(answer.contains(line), "{line} is missing in {answer}");
    }
    let answer = get_from("evil.example", admin.address(), "/api/v1/ping");
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert!(answer.contains(r#""hint":"Use an IP address"#), "{answer}");

    let page = "localhost\r\nOrigin: http://evil.example";
    let answer = get_from(page, admin.address(), "/api/v1/ping");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains(r#""what":"the request is refused""#), "{answer}");
    assert!(answer.contains("nosniff"), "{answer}");
}

#[test]
fn a_token_opens_the_api_alone() {
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    let token = Some("a-long-secret".to_owned());
    let parts = AdminParts { token, ..parts(Arc::default()) };
    let admin = listener.start(parts).expect("a thread");
    assert!(get(admin.address(), "/api/v1/ping").starts_with("HTTP/1.1 401"));
    assert!(get(admin.address(), "/metrics").starts_with("HTTP/1.1 200"));
    let with_token = "localhost\r\nAuthorization: Bearer a-long-secret";
    let answer = get_from(with_token, admin.address(), "/api/v1/ping");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
