//! Handlers that panic, seen from a socket: an error for the whole response and a connection that
//! goes on, or the end of the connection.
#![allow(clippy::unwrap_used)]

mod client;

use client::{Client, batch, produce_request};
use kafkalite_broker::clock::{Clock, SystemClock};
use kafkalite_broker::handlers;
use kafkalite_broker::io_threads::IoThreads;
use kafkalite_broker::metrics::Metrics;
use kafkalite_broker::network::{Network, NetworkConfig, NetworkParts};
use kafkalite_broker::request_queue::{InlineMode, LaneBounds, RequestQueue};
use kafkalite_protocol::messages::fetch::FetchRequest;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::produce::ProduceRequest;
use std::sync::Arc;

const UNKNOWN_SERVER_ERROR: i16 = -1;

/// A network whose every handler panics.
fn start(inline: InlineMode) -> (Network, IoThreads) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let metrics = Arc::new(Metrics::new());
    let bounds = LaneBounds { max_requests: 100, max_bytes: 1 << 20 };
    let run = Arc::new(|_| panic!("on purpose"));
    let queue =
        RequestQueue::new(bounds, bounds, run, handlers::policy, clock.clone(), metrics.clone());
    let io_threads = IoThreads::start(1, queue.clone(), &clock, &metrics).unwrap();
    let config = NetworkConfig { inline, ..NetworkConfig::default() };
    let listeners = Network::bind(&config).unwrap();
    let parts = NetworkParts { queue, on_panic: handlers::on_panic, clock, metrics };
    (Network::start(config, listeners, parts).unwrap(), io_threads)
}

#[test]
fn a_connection_goes_on_after_panics_of_handlers() {
    for inline in [InlineMode::Always, InlineMode::Never] {
        let (network, _io_threads) = start(inline);
        let mut client = Client::connect_to(network.addresses()[0].1);
        for _ in 0..3 {
            let fetched = client.call(&FetchRequest::default(), 11);
            assert_eq!(fetched.error_code, UNKNOWN_SERVER_ERROR);
            let beat = client.call(&HeartbeatRequest::default(), 4);
            assert_eq!(beat.error_code, UNKNOWN_SERVER_ERROR);
        }
    }
}

#[test]
fn a_response_without_an_error_for_all_closes_its_connection() {
    for inline in [InlineMode::Always, InlineMode::Never] {
        let (network, _io_threads) = start(inline);
        let mut client = Client::connect_to(network.addresses()[0].1);
        client.send(&produce_request("t", batch(&["v"], None), -1), 9);
        assert!(client.receive::<ProduceRequest>(9).is_none());
    }
}
