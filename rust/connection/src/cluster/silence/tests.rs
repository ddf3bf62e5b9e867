use super::*;
use crate::config::ConnectionConfig;
use crate::pool::Lane;
use crate::testing::{
    Answer, Asked as Came, EventLoop, FakeBroker, Held, NODE, OTHER, coordinator_is, hold,
    metadata_of_two, release, two, two_until, two_with, wait_held,
};
use crate::{Backoff, CoordinatorKind};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use std::sync::atomic::{AtomicBool, Ordering};

/// Both clocks of the tests: nothing is waited for but what must come.
const AT_ONCE: Duration = Duration::from_millis(1);

fn fast(broker: &FakeBroker) -> ConnectionConfig {
    let backoff = Backoff { initial: AT_ONCE, max: 2 * AT_ONCE };
    ConnectionConfig { retry_backoff: backoff, reconnect_backoff: backoff, ..broker.config() }
}

/// Runs `what` with a cluster of these brokers that knows a topic, and doubts at once.
fn run<F, T>(config: ConnectionConfig, what: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let event_loop = EventLoop::start("test");
    run_on(&event_loop, config, what)
}

/// The same where tasks of `what` go on.
fn run_on<F, T>(
    event_loop: &EventLoop,
    config: ConnectionConfig,
    what: impl FnOnce(Cluster) -> F,
) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let cluster = Cluster::new(config);
    let known = cluster.clone();
    let soon = Instant::now() + Duration::from_secs(20);
    event_loop.run(async move { known.topic("t", soon).await.map(drop) }).expect("known");
    cluster.doubt_after(AT_ONCE);
    event_loop.run(what(cluster))
}

fn silent(_: &Came) -> Answer {
    Answer::Silence
}

/// Says its versions, and nothing else.
fn frozen(came: &Came) -> Answer {
    if came.is(ApiKey::ApiVersions) { Answer::Usual } else { Answer::Silence }
}

fn alive(came: &Came) -> Answer {
    match came.is(ApiKey::Heartbeat) {
        true => came.answer::<HeartbeatRequest>(&HeartbeatResponse::default()),
        false => Answer::Usual,
    }
}

async fn beat(cluster: &Cluster, node: NodeId) -> Result<(), ConnectionError> {
    cluster.send(node, |_| HeartbeatRequest::default()).await.map(drop)
}

#[test]
fn a_broker_is_doubted_soon_and_then_less_often() {
    let began = Instant::now();
    let mut silence = Silence::since(began);
    let (mut now, mut waits) = (began, Vec::new());
    while now < began + Duration::from_secs(100) {
        assert!(!silence.is_over(silence.next() - AT_ONCE), "not yet");
        waits.push((silence.next() - now).as_millis());
        now = silence.next();
        assert!(silence.is_over(now) && silence.was_doubted());
    }
    assert_eq!(waits[..4], [3_000, 1_000, 1_000, 1_250]);
    assert!(waits.iter().skip(1).is_sorted());
    assert_eq!(waits.last(), Some(&10_000));
    // A look that came late is not made up for.
    assert!(silence.is_over(now + Duration::from_secs(1_000)));
    assert!(!silence.is_over(now + Duration::from_secs(1_009)));
}

/// It waited for `request.timeout.ms`.
#[test]
fn a_call_ends_when_the_cluster_goes_on_without_its_broker() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let [first, second] = two_until(Arc::clone(&is_gone), frozen, alive);
    let ends = run(fast(&first), |cluster| async move {
        is_gone.store(true, Ordering::Relaxed);
        let (beaten, also) = tokio::join!(beat(&cluster, NODE), beat(&cluster, NODE));
        let next = cluster.image().leader("t", 0).map(|(node, _)| node);
        [beaten, also, beat(&cluster, OTHER).await].map(|end| (end, next))
    });
    let is_left = |end: &ConnectionError| matches!(end, ConnectionError::Disconnected { .. });
    assert!(ends[..2].iter().all(|(end, _)| end.as_ref().is_err_and(is_left)), "{ends:?}");
    assert_eq!(ends[2].0, Ok(()));
    assert_eq!((first.count(ApiKey::Heartbeat), second.count(ApiKey::Heartbeat)), (2, 1));
}

/// Its id says nothing: another machine has it now.
#[test]
fn a_call_ends_when_another_broker_has_the_id_of_its_broker() {
    let is_moved = Arc::new(AtomicBool::new(false));
    let moved = Arc::clone(&is_moved);
    let told = move |came: &Came, places: &[HostPort; 2]| match (
        moved.load(Ordering::Relaxed),
        came.place == places[1],
    ) {
        (true, true) => Answer::Usual,
        (true, false) => Answer::Silence,
        (false, _) => metadata_of_two(came, places),
    };
    let [first, second] = two_with(told, frozen, alive);
    let (end, again) = run(fast(&first), |cluster| async move {
        is_moved.store(true, Ordering::Relaxed);
        (beat(&cluster, NODE).await, beat(&cluster, NODE).await)
    });
    assert!(matches!(end, Err(ConnectionError::Disconnected { .. })), "{end:?}");
    assert_eq!(again, Ok(()));
    // The way to the first one may take longer than it is waited for.
    assert!(first.count(ApiKey::Heartbeat) <= 1);
    assert_eq!(second.count(ApiKey::Heartbeat), 1);
}

/// The way to a broker may be longer than the cluster waits for it.
#[test]
fn a_connection_that_is_never_made_ends_as_well() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let script = |came: &Came| if came.connection == 0 { Answer::Usual } else { silent(came) };
    let [first, _second] = two_until(Arc::clone(&is_gone), script, alive);
    let made = run(fast(&first), |cluster| async move {
        is_gone.store(true, Ordering::Relaxed);
        cluster.connection_on(NODE, Lane::Group).await.map(drop)
    });
    assert!(matches!(made, Err(ConnectionError::Disconnected { .. })), "{made:?}");
}

#[test]
fn a_slow_broker_is_sent_nothing_again_and_fails_nothing() {
    let held = Arc::new(Held::default());
    let of_first = Arc::clone(&held);
    let slow = move |came: &Came| match came.is(ApiKey::Heartbeat) {
        true => hold(&of_first, alive(came)),
        false => Answer::Usual,
    };
    let [first, second] = two(slow, alive);
    let (told, beaten) = std::sync::mpsc::channel();
    let event_loop = EventLoop::start("test");
    run_on(&event_loop, fast(&first), |cluster| async move {
        tokio::spawn(async move { told.send(beat(&cluster, NODE).await) });
    });
    wait_held(&held);
    // Another broker says often that the slow one is in the cluster.
    second.wait_for(ApiKey::Metadata, 3);
    release(&held);
    assert_eq!(beaten.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
    assert_eq!((first.count(ApiKey::Heartbeat), second.count(ApiKey::Heartbeat)), (1, 0));
}

/// Every caller that wanted news waited for `request.timeout.ms`.
#[test]
fn metadata_come_from_another_broker_while_one_is_silent() {
    let told = |came: &Came, places: &[HostPort; 2]| {
        let is_silent = came.place == places[0] && came.before > 0;
        if is_silent { Answer::Silence } else { metadata_of_two(came, places) }
    };
    let [first, second] = two_with(told, alive, alive);
    let image = run(fast(&first), |cluster| async move {
        let image = cluster.refresh(Wanted::Topics(vec!["u".to_owned()])).await?;
        Ok::<_, ConnectionError>(image.topic("u").is_some())
    });
    assert_eq!(image, Ok(true));
    assert_eq!((first.count(ApiKey::Metadata), second.count(ApiKey::Metadata)), (2, 1));
}

/// A client may have learned of one broker only, from FindCoordinator.
#[test]
fn other_configured_addresses_are_asked_while_the_only_known_broker_is_silent() {
    let told = |came: &Came, places: &[HostPort; 2]| match came.place == places[0] {
        true => Answer::Silence,
        false => metadata_of_two(came, places),
    };
    let [first, second] = two_with(told, frozen, alive);
    let (known, mut config) = (first.place.clone(), fast(&first));
    config.bootstrap_servers.push(second.place.clone());
    let cluster = Cluster::new(config);
    cluster.doubt_after(AT_ONCE);
    let brokers = EventLoop::start("test").run(async move {
        cluster.0.change_image(|image| image.with_broker(NODE, known));
        cluster.connection(NODE).await?;
        Ok::<_, ConnectionError>(cluster.refresh(Wanted::Brokers).await?.brokers().count())
    });
    assert_eq!(brokers, Ok(2));
}

/// What it had been sent was sent again, and a producer without idempotence wrote it twice.
#[test]
fn a_slow_broker_keeps_a_connection_that_others_wait_on() {
    let held = Arc::new(Held::default());
    let of_first = Arc::clone(&held);
    let slow = move |came: &Came| match came.is(ApiKey::Heartbeat) {
        true => hold(&of_first, alive(came)),
        false if came.is(ApiKey::FindCoordinator) => coordinator_is(came, NODE),
        false => Answer::Usual,
    };
    let finds = |came: &Came| match came.is(ApiKey::FindCoordinator) {
        true => coordinator_is(came, OTHER),
        false => Answer::Usual,
    };
    let [first, second] = two(slow, finds);
    let held_by_first = Arc::clone(&held);
    let ends = run(fast(&first), |cluster| async move {
        let connection = cluster.connection(NODE).await?;
        let beaten = connection.send(|_| HeartbeatRequest::default());
        let found = cluster.coordinator(CoordinatorKind::Group, "g").await?;
        wait_held(&held_by_first);
        release(&held_by_first);
        Ok::<_, ConnectionError>((found, beaten.await.map(drop), connection.is_closed()))
    });
    assert_eq!(ends, Ok((OTHER, Ok(()), false)));
    assert_eq!((first.count(ApiKey::Heartbeat), second.count(ApiKey::FindCoordinator)), (1, 1));
}

/// Others would connect again because one caller had little time.
#[test]
fn a_caller_that_goes_early_ends_no_connection() {
    let broker = FakeBroker::start(frozen);
    let is_closed = EventLoop::start("test").run({
        let cluster = Cluster::new(fast(&broker));
        async move {
            let connection = cluster.any_connection().await?;
            let asked = cluster.send_to_some(|_| HeartbeatRequest::default());
            let early = tokio::time::timeout(AT_ONCE, asked).await.is_err();
            Ok::<_, ConnectionError>((early, connection.is_closed()))
        }
    });
    assert_eq!(is_closed, Ok((true, false)));
}

#[test]
fn a_broker_alone_is_asked_once_however_slow_it_is() {
    let held = Arc::new(Held::default());
    let of_first = Arc::clone(&held);
    let broker = FakeBroker::start(move |came| match came.is(ApiKey::Heartbeat) {
        true => hold(&of_first, alive(came)),
        false => Answer::Usual,
    });
    let (told, beaten) = std::sync::mpsc::channel();
    // Three addresses that lead to one broker.
    let mut config = fast(&broker);
    config.bootstrap_servers = vec![broker.place.clone(); 3];
    let event_loop = EventLoop::start("test");
    run_on(&event_loop, config, |cluster| async move {
        tokio::spawn(async move {
            let answer = cluster.send_to_some(|_| HeartbeatRequest::default()).await;
            told.send(answer.map(drop))
        });
    });
    wait_held(&held);
    assert_eq!(beaten.recv_timeout(50 * AT_ONCE).ok(), None);
    release(&held);
    assert_eq!(beaten.recv_timeout(Duration::from_secs(20)), Ok(Ok(())));
    assert_eq!(broker.count(ApiKey::Heartbeat), 1);
}
