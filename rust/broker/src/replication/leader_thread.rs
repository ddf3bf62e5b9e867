//! The thread that follows one leader: it carries the questions of a [`Fetcher`] over a connection.
//!
//! Appends happen on this thread, so a slow disk holds up the followers of one leader alone. The
//! control plane never waits for it: what changes goes into an inbox.

use super::fetcher::{Answer, Fetcher, FetcherConfig, LocalReplicas, Next, Question, ReplicaKey};
use crate::clock::Clock;
use crate::error::panics;
use kafkalite_connection::{
    Backoff, ConnectionConfig, ConnectionError, CutLinks, HostPort, Lane, NodeId, Pool,
};
use kafkalite_protocol::LeaderEpoch;
use kafkalite_protocol::messages::Request;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;

/// `replica.socket.timeout.ms`
const SOCKET_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of one answer: as many as are asked for, and one batch that is larger.
const RESPONSE_MAX_BYTES: usize = 128 << 20;

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

    /// Tells the thread where the leader is.
    pub fn set_place(&self, place: Option<HostPort>) {
        *self.place.lock() = place;
    }

    /// Ends the thread; it may be at an append still.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.wake.notify_one();
        self.ended.notify_one();
    }
}

/// The connections of a thread of broker `replica_id`.
pub(super) fn pool(replica_id: i32, links: Option<Arc<CutLinks>>) -> Pool {
    Pool::over(Arc::new(connection_config(replica_id)), links)
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

fn connection_config(replica_id: i32) -> ConnectionConfig {
    let ms = Duration::from_millis;
    let backoff = |initial, max| Backoff { initial: ms(initial), max: ms(max) };
    ConnectionConfig {
        bootstrap_servers: Vec::new(),
        client_id: format!("broker-{replica_id}-fetcher"),
        request_timeout: SOCKET_TIMEOUT,
        bootstrap_timeout: SOCKET_TIMEOUT,
        setup_timeout: backoff(10_000, 30_000),
        reconnect_backoff: backoff(50, 1_000),
        retry_backoff: backoff(100, 1_000),
        metadata_max_age: Duration::ZERO,
        metadata_max_idle: Duration::ZERO,
        rebootstrap: false,
        connections_max_idle: None,
        send_buffer: None,
        receive_buffer: None,
        response_max_bytes: RESPONSE_MAX_BYTES,
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
}

impl<L: LocalReplicas> LeaderThread<L> {
    async fn run(&mut self) {
        while !self.inbox.is_ended.load(Ordering::Acquire) {
            for change in std::mem::take(&mut *self.inbox.changes.lock()) {
                match change {
                    Change::Follow(key, name, epoch) => self.fetcher.follow(key, &name, epoch),
                    Change::Unfollow(key) => self.fetcher.unfollow(key),
                }
            }
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
        let answer = tokio::select! {
            answer = self.carry(question) => answer,
            () = self.inbox.ended.notified() => return,
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

    async fn carry(&self, question: Question) -> Result<Answer, ConnectionError> {
        match question {
            Question::Fetch(request) => self.call(Lane::Fetch, request).await.map(Answer::Fetch),
            Question::Epochs(request) => self.call(Lane::Data, request).await.map(Answer::Epochs),
            Question::Starts(request) => self.call(Lane::Data, request).await.map(Answer::Starts),
        }
    }

    async fn call<R: Request>(
        &self,
        lane: Lane,
        request: R,
    ) -> Result<R::Response, ConnectionError> {
        let place = self.inbox.place.lock().clone();
        let place = place.ok_or_else(|| ConnectionError::Disconnected {
            address: format!("broker {}", self.leader),
            why: "it is not registered".to_owned(),
        })?;
        let connection = self.pool.connection(self.leader, lane, &place).await?;
        let (_, response) = connection.send(|_| request).await?;
        Ok(response)
    }
}
