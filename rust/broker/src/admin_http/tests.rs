use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::metrics::Stage;

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

fn serving(metrics: Arc<Metrics>) -> AdminHttp {
    let listener = AdminListener::bind("127.0.0.1", 0).expect("a free port");
    listener.start(metrics).expect("a thread")
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
    let answer = get(serving(metrics).address(), "/metrics");
    for line in [
        "kafkalite_stage_duration_seconds_count{stage=\"total\",api=\"Produce\"} 1",
        "kafkalite_stage_duration_seconds_sum{stage=\"total\",api=\"Produce\"} 0.003",
        "kafka_network_requestmetrics_totaltimems_count{request=\"Produce\"} 1",
        "bytes_total{thread=\"a\\\"b\"} 5",
        "kafkalite_zero_copy_share 0",
        "# EOF",
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
