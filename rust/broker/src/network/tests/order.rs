//! Responses leave in request order, and only what may overlap does.

use super::*;

#[test]
fn every_inline_mode_answers_pipelined_requests_in_order() {
    for inline in [InlineMode::Auto, InlineMode::Never, InlineMode::Always] {
        let config = NetworkConfig { inline, ..NetworkConfig::default() };
        let broker = Broker::start(config, echo);
        let mut client = broker.connect();
        let apis = [PRODUCE, PRODUCE, FETCH, METADATA, PRODUCE, HEARTBEAT, FETCH, PRODUCE];
        let mut burst = Vec::new();
        for (id, api) in (0..).zip(apis.repeat(20)) {
            burst.extend(request(api, id, format!("body {id}").as_bytes()));
        }
        client.send(&burst);
        for id in 0..160 {
            let expected = (id, format!("body {id}").into_bytes());
            assert_eq!(client.receive(), expected, "{inline:?}");
        }
    }
}

#[test]
fn always_runs_on_the_network_thread_and_never_does_not() {
    for (inline, prefix) in
        [(InlineMode::Always, "kafkalite-network"), (InlineMode::Never, "kafkalite-io")]
    {
        let config = NetworkConfig { inline, ..NetworkConfig::default() };
        let broker = Broker::start(config, move |request| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let response = frame(request.header.correlation_id, name.as_bytes());
            request.responder.send(response);
        });
        let mut client = broker.connect();
        for id in 0..3 {
            client.send(&request(HEARTBEAT, id, b""));
            let (_, thread) = client.receive();
            assert!(thread.starts_with(prefix.as_bytes()), "{inline:?}");
        }
    }
}

/// Sends the requests at once; the handler parks all of them and tells which began. The first
/// `begun` begin before anything is answered, and no other does. Answers them from the last of
/// these to the first.
fn begin_before_answers(apis: &[i16], begun: i32) {
    let parked = Parked::default();
    let (sent, began) = mpsc::channel();
    let park = parked.clone();
    let sent = Mutex::new(sent);
    let broker = Broker::start(NetworkConfig::default(), move |request| {
        let id = request.header.correlation_id;
        if request.header.api_key == HEARTBEAT {
            return echo(request);
        }
        park.park(request);
        sent.lock().send(id).expect("the test listens");
    });
    let mut client = broker.connect();
    let mut burst = Vec::new();
    for (id, &api) in (0..).zip(apis) {
        burst.extend(request(api, id, b""));
    }
    client.send(&burst);
    for id in 0..begun {
        assert_eq!(began.recv_timeout(PATIENCE), Ok(id), "requests begin in order: {apis:?}");
    }
    // The same threads serve another connection after the burst. When its round trip is over, every
    // request that could begin has been queued. A second round trip follows them through the queue.
    let mut other = broker.connect();
    for id in 0..20 {
        other.send(&request(HEARTBEAT, id, b""));
        other.receive();
    }
    let too_many = began.recv_timeout(Duration::from_millis(20));
    assert_eq!(too_many, Err(mpsc::RecvTimeoutError::Timeout), "{apis:?}");
    for id in (0..begun).rev() {
        parked.answer(id);
    }
    for id in begun..apis.len() as i32 {
        assert_eq!(began.recv_timeout(PATIENCE), Ok(id), "{apis:?}");
        parked.answer(id);
    }
    for id in 0..apis.len() as i32 {
        assert_eq!(client.receive_id(), id, "{apis:?}");
    }
}

#[test]
fn only_produce_begins_beside_what_is_not_answered() {
    for (apis, begun) in [
        (&[PRODUCE, PRODUCE, PRODUCE][..], 3),
        (&[FETCH, PRODUCE, PRODUCE], 3),
        (&[PRODUCE, FETCH], 1),
        (&[FETCH, FETCH], 1),
        (&[FETCH, METADATA, PRODUCE], 1),
        (&[METADATA, PRODUCE], 1),
        (&[PRODUCE, PRODUCE, METADATA, PRODUCE], 2),
    ] {
        begin_before_answers(apis, begun);
    }
}

#[test]
fn produce_with_acks_0_leaves_no_gap_in_the_order() {
    let broker = Broker::start(NetworkConfig::default(), |request| {
        match request.header.correlation_id % 2 {
            0 => request.responder.send(Response::NoResponse),
            _ => echo(request),
        }
    });
    let mut client = broker.connect();
    for id in 0..10 {
        client.send(&request(PRODUCE, id, b""));
    }
    for id in [1, 3, 5, 7, 9] {
        assert_eq!(client.receive_id(), id);
    }
}

#[test]
fn frames_sent_before_the_peer_closed_are_still_handled() {
    let (sent, handled) = mpsc::channel();
    let sent = Mutex::new(sent);
    let broker = Broker::start(NetworkConfig::default(), move |request| {
        sent.lock().send(request.header.correlation_id).expect("the test listens");
        request.responder.send(Response::NoResponse);
    });
    let mut client = broker.connect();
    let mut burst = Vec::new();
    for id in 0..500 {
        burst.extend(request(PRODUCE, id, &[7; 300]));
    }
    client.send(&burst);
    drop(client);
    for id in 0..500 {
        assert_eq!(handled.recv_timeout(PATIENCE), Ok(id));
    }
}
