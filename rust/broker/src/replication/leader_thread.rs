//! The thread that follows one leader: it carries the questions of a [`Fetcher`] over a connection.
//!
//! Appends happen on this thread, so a slow disk holds up the followers of one leader alone. The
//! control plane never waits for it: what changes goes into an inbox.

use super::fetcher::{Answer, Fetcher, FetcherConfig, LocalReplicas, Next, Question, ReplicaKey};
use super::replica_fetchers::ReplicaFetchersConfig;
use crate::clock::Clock;
use crate::error::panics;
use kafkalite_connection::{
    Backoff, Connection, ConnectionConfig, ConnectionError, HostPort, Lane, NodeId, Pool,
};
use kafkalite_protocol::LeaderEpoch;
use kafkalite_protocol::messages::Request;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Most bytes of one answer: those that a frame can have. One batch may be larger than
/// `replica.fetch.response.max.bytes`. How large it may be is a matter of the leader's keys. Memory
/// is taken as bytes arrive.
const ANSWER_MAX_BYTES: usize = i32::MAX as usize;
/// A fetch that waits at the leader for records holds up the first fetch of a new partition. It has
/// this long to be answered, and is given up with its connection then: the leader answers in order.
const NEWS_WAIT: Duration = Duration::from_millis(20);
/// Between two fetches that are given up: the next one names every partition.
const NEWS_EVERY: Duration = Duration::from_millis(250);

/// What the image changed of the partitions that one broker leads.
pub(super) enum Change {
    /// Follow this partition in this epoch.
    Follow(ReplicaKey, Arc<str>, LeaderEpoch),
    /// Another broker leads it, or it is gone.
    Unfollow(ReplicaKey),
}

/// What the thread shares with the control plane.
pub(super) struct Inbox {
    changes: Mutex<Vec<Change>>,
    /// Where the leader is; `None` as long as it is not registered.
    place: Mutex<Option<HostPort>>,
    is_ended: AtomicBool,
    wake: Notify,
    ended: Notify,
}

impl Inbox {
    /// Hands the thread a change.
    pub fn push(&self, change: Change) {
        self.changes.lock().push(change);
        self.wake.notify_one();
    }

    /// Hands the fetcher what changed; whether it follows a partition that it did not follow so.
    fn take_changes(&self, fetcher: &mut Fetcher) -> bool {
        let mut any_news = false;
        for change in std::mem::take(&mut *self.changes.lock()) {
            match change {
                Change::Follow(key, name, epoch) => any_news |= fetcher.follow(key, &name, epoch),
                Change::Unfollow(key) => fetcher.unfollow(key),
            }
        }
        any_news
    }

    /// Tells the thread where the leader is.
    pub fn set_place(&self, place: Option<HostPort>) {
        *self.place.lock() = place;
    }

    /// Where the leader is.
    pub fn place(&self) -> Option<HostPort> {
        self.place.lock().clone()
    }

    /// Ends the thread; it may be at an append still.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.wake.notify_one();
        self.ended.notify_one();
    }
}

/// The connections of a thread.
pub(super) fn pool(config: &ReplicaFetchersConfig) -> Pool {
    Pool::over(Arc::new(connection_config(config)), config.links.clone())
}

/// Starts to follow broker `leader`, over connections of `pool`.
///
/// # Errors
/// The operating system refuses a thread.
pub(super) fn start(
    (leader, place, pool): (NodeId, Option<HostPort>, Pool),
    config: FetcherConfig,
    logs: impl LocalReplicas + Send + 'static,
    clock: Arc<dyn Clock>,
) -> std::io::Result<(Arc<Inbox>, JoinHandle<()>)> {
    let inbox = Arc::new(Inbox {
        changes: Mutex::default(),
        place: Mutex::new(place),
        is_ended: AtomicBool::new(false),
        wake: Notify::new(),
        ended: Notify::new(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fetcher = Fetcher::new(config);
    let mut thread = LeaderThread {
        leader,
        inbox: Arc::clone(&inbox),
        fetcher,
        logs,
        clock,
        pool,
        silent: false,
        news_from: Instant::now(),
    };
    let handle =
        std::thread::Builder::new().name(format!("replica-fetcher-{leader}")).spawn(move || {
            let what = "a replica fetcher";
            while panics::contain(what, || runtime.block_on(thread.run())).is_none() {
                // Without its thread no partition of this leader would be fetched again.
                thread.fetcher.failed(thread.clock.monotonic_ms());
            }
        })?;
    Ok((inbox, handle))
}

fn connection_config(config: &ReplicaFetchersConfig) -> ConnectionConfig {
    let ms = Duration::from_millis;
    let backoff = |initial, max| Backoff { initial: ms(initial), max: ms(max) };
    ConnectionConfig {
        bootstrap_servers: Vec::new(),
        client_id: format!("broker-{}-fetcher", config.local_id),
        request_timeout: config.socket_timeout,
        bootstrap_timeout: config.socket_timeout,
        setup_timeout: backoff(10_000, 30_000),
        reconnect_backoff: backoff(50, 1_000),
        retry_backoff: backoff(100, 1_000),
        metadata_max_age: Duration::ZERO,
        metadata_max_idle: Duration::ZERO,
        rebootstrap: false,
        connections_max_idle: None,
        send_buffer: None,
        receive_buffer: None,
        response_max_bytes: ANSWER_MAX_BYTES,
        allow_auto_create_topics: false,
    }
}

struct LeaderThread<L> {
    leader: NodeId,
    inbox: Arc<Inbox>,
    fetcher: Fetcher,
    logs: L,
    clock: Arc<dyn Clock>,
    pool: Pool,
    /// The leader did not answer, and that was reported.
    silent: bool,
    /// From when on a fetch may be given up again.
    news_from: Instant,
}

impl<L: LocalReplicas> LeaderThread<L> {
    async fn run(&mut self) {
        while !self.inbox.is_ended.load(Ordering::Acquire) {
            self.inbox.take_changes(&mut self.fetcher);
            let now_ms = self.clock.monotonic_ms();
            match self.fetcher.next(now_ms, &self.logs) {
                Next::Ask(question) => self.ask(question).await,
                Next::Wait(until_ms) => self.wait(until_ms.map(|until| until - now_ms)).await,
            }
        }
    }

    async fn wait(&self, ms: Option<u64>) {
        let woken = self.inbox.wake.notified();
        match ms {
            Some(ms) => _ = tokio::time::timeout(Duration::from_millis(ms), woken).await,
            None => woken.await,
        }
    }

    async fn ask(&mut self, question: Question) {
        let is_fetch = matches!(question, Question::Fetch(_));
        let place = self.inbox.place();
        let mut carried = std::pin::pin!(carry(&self.pool, self.leader, place, question));
        let mut news_at: Option<Instant> = None;
        let answer = loop {
            let overdue = async {
                match news_at {
                    Some(at) => tokio::time::sleep_until((at + NEWS_WAIT).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = &mut carried => break answer,
                () = self.inbox.ended.notified() => return,
                () = self.inbox.wake.notified() => {
                    let any_news = self.inbox.take_changes(&mut self.fetcher);
                    if any_news && is_fetch && news_at.is_none() {
                        news_at = Some(self.news_from.max(Instant::now()));
                    }
                }
                () = overdue => {
                    self.news_from = Instant::now() + NEWS_EVERY;
                    self.pool.close_all();
                    return self.fetcher.interrupted();
                }
            }
        };
        let now_ms = self.clock.monotonic_ms();
        match answer {
            Ok(answer) => {
                self.silent = false;
                self.fetcher.answered(now_ms, answer, &self.logs);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.silent, true) {
                    let hint = "tried again until it answers or another broker leads";
                    tracing::warn!(leader = self.leader, %error, hint, "a leader does not answer");
                }
                self.fetcher.failed(now_ms);
            }
        }
    }
}

/// Sends a question to a leader, and brings its answer.
async fn carry(
    pool: &Pool,
    leader: NodeId,
    place: Option<HostPort>,
    question: Question,
) -> Result<Answer, ConnectionError> {
    let place = place.ok_or_else(|| ConnectionError::Disconnected {
        address: format!("broker {leader}"),
        why: "it is not registered".to_owned(),
    })?;
    let to = |lane| pool.connection(leader, lane, &place);
    Ok(match question {
        Question::Fetch(request) => Answer::Fetch(call(&*to(Lane::Fetch).await?, request).await?),
        Question::Epochs(request) => Answer::Epochs(call(&*to(Lane::Data).await?, request).await?),
        Question::Starts(request) => Answer::Starts(call(&*to(Lane::Data).await?, request).await?),
    })
}

async fn call<R: Request>(to: &Connection, request: R) -> Result<R::Response, ConnectionError> {
    to.send(|_| request).await.map(|(_, response)| response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafkalite_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;

    fn with_socket_timeout(socket_timeout: Duration) -> ReplicaFetchersConfig {
        ReplicaFetchersConfig {
            local_id: 2,
            listener: None,
            links: None,
            asks: FetcherConfig::default(),
            socket_timeout,
            check_bytes_per_second: 0,
        }
    }

    /// A batch above 118 MiB, which a larger `socket.request.max.bytes` lets in, ended the
    /// replication of all partitions that its leader leads.
    #[test]
    fn an_answer_with_the_largest_batch_that_a_frame_can_have_is_taken() {
        let config = with_socket_timeout(Duration::from_secs(30));
        assert_eq!(connection_config(&config).response_max_bytes, 2_147_483_647);
    }

    /// It takes connections, and says nothing: a frozen process.
    #[test]
    fn a_leader_that_does_not_answer_is_given_up_after_the_socket_timeout() {
        let frozen = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let place = frozen.local_addr().expect("it is bound");
        let place = HostPort { host: place.ip().to_string(), port: place.port() };
        let (timeout, began) = (Duration::from_millis(20), Instant::now());
        let pool = pool(&with_socket_timeout(timeout));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let question = Question::Epochs(OffsetForLeaderEpochRequest::default());
        let asked = carry(&pool, 1, Some(place), question);
        assert!(runtime.expect("a runtime").block_on(asked).is_err(), "there is no answer");
        // A connection may take 10 s until it is set up.
        assert!((timeout..Duration::from_secs(10)).contains(&began.elapsed()));
    }
}
