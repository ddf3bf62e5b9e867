//! Handlers that panic, seen from a socket: an answer that names what failed, and a connection
//! that goes on.
#![allow(clippy::unwrap_used)]

mod client;

use bytes::Bytes;
use client::{Client, batch, produce_request};
use kafkalite_broker::clock::{Clock, SystemClock};
use kafkalite_broker::handlers;
use kafkalite_broker::io_threads::IoThreads;
use kafkalite_broker::metrics::Metrics;
use kafkalite_broker::network::{Network, NetworkConfig, NetworkParts};
use kafkalite_broker::request_queue::{InlineMode, LaneBounds, RequestQueue};
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::list_offsets::ListOffsetsRequest;
use std::sync::Arc;

const UNKNOWN_SERVER_ERROR: i16 = -1;

/// A network whose every handler panics.
fn start(inline: InlineMode) -> (Network, IoThreads) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let metrics = Arc::new(Metrics::new());
    let bounds = LaneBounds { max_requests: 100, max_bytes: 1 << 20 };
    let run = Arc::new(|_| panic!("on purpose"));
    let queue = RequestQueue::new(bounds, bounds, run, clock.clone(), metrics.clone());
    let io_threads = IoThreads::start(1, queue.clone(), &clock, &metrics).unwrap();
    let config = NetworkConfig { inline, ..NetworkConfig::default() };
    let listeners = Network::bind(&config).unwrap();
    let on_panic = Arc::new(handlers::on_panic);
    let parts = NetworkParts { queue, is_cheap: Arc::new(|_| true), on_panic, clock, metrics };
    (Network::start(config, listeners, parts).unwrap(), io_threads)
}

#[test]
fn a_connection_goes_on_after_panics_of_handlers() {
    for inline in [InlineMode::Always, InlineMode::Never] {
        let (network, _io_threads) = start(inline);
        let mut client = Client::connect_to(network.addresses()[0].1);
        for _ in 0..3 {
            let produced = client.produce("t", batch(&["v"], None), -1);
            assert_eq!((produced.index, produced.error_code), (0, UNKNOWN_SERVER_ERROR));
            let beat = client.call(&HeartbeatRequest::default(), 4);
            assert_eq!(beat.error_code, UNKNOWN_SERVER_ERROR);
            let found = client.call(&ListOffsetsRequest::default(), 9);
            assert!(found.topics.is_empty());
        }
    }
}

#[test]
fn a_produce_that_nobody_waits_for_closes_its_connection() {
    let (network, _io_threads) = start(InlineMode::Never);
    let mut client = Client::connect_to(network.addresses()[0].1);
    client.send(&produce_request("t", Bytes::new(), 0), 9);
    assert!(client.receive::<HeartbeatRequest>(4).is_none());
}
