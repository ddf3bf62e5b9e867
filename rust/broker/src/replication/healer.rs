//! Reads the logs that follow a leader, and heals what a disk changed in them.
//!
//! After a clean stop no log is read. A bit that flipped would be met by a reader at first, or by a
//! consumer after this broker leads. One thread reads each followed log once it follows, and then
//! once a day, at a bounded pace. A damaged batch is fetched from the leader, as a consumer does,
//! and written where it belongs. So the log is not cut, and the replica stays in sync.
//! A broker that follows no leader has no such thread.

use super::fetcher::ReplicaKey;
use crate::error::panics;
use crate::partitions::ReplicaManager;
use bytes::Bytes;
use kafkalite_connection::{ConnectionError, HostPort, Lane, NodeId, Pool};
use kafkalite_log::{CommitLog, Damage, LogError};
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::{LeaderEpoch, Records};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Between two looks for logs that were not read yet.
const LOOK: Duration = Duration::from_secs(2);
/// A log is read again after so long.
const AGAIN: Duration = Duration::from_secs(24 * 3_600);
/// And so long after its leader could not heal it.
const RETRY: Duration = Duration::from_secs(60);
/// How long a leader has to answer: a stop waits for that.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes that are read without a pause.
const TURN_BYTES: u64 = 1 << 20;

/// A log here, and its leader.
pub(super) struct FollowedLog {
    pub key: ReplicaKey,
    pub leader: NodeId,
    pub place: Option<HostPort>,
}

/// The thread.
pub(super) struct Healer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Healer {
    /// Starts to read the logs that `followed` names, so many bytes in a second.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        followed: impl Fn() -> Vec<FollowedLog> + Send + 'static,
        partitions: Arc<ReplicaManager>,
        pool: Pool,
        bytes_per_second: u64,
    ) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = mpsc::channel();
        let read = Cell::new(0);
        let healing = Healing { partitions, pool, runtime, stopped, bytes_per_second, read };
        let run = move || {
            panics::contain("the check of followed logs", || healing.run(followed));
        };
        let thread = std::thread::Builder::new().name("replica-healer".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread; the join of it is the caller's.
    pub fn end(self) -> JoinHandle<()> {
        drop(self.stop);
        self.thread
    }
}

struct Healing {
    partitions: Arc<ReplicaManager>,
    pool: Pool,
    runtime: Runtime,
    stopped: Receiver<()>,
    bytes_per_second: u64,
    /// Bytes since the last pause.
    read: Cell<u64>,
}

impl Healing {
    fn run(&self, followed: impl Fn() -> Vec<FollowedLog>) {
        let mut due: HashMap<ReplicaKey, Instant> = HashMap::new();
        while self.pause(LOOK) {
            let followed: HashMap<_, _> =
                followed().into_iter().map(|one| (one.key, one)).collect();
            due.retain(|key, at| *at > Instant::now() && followed.contains_key(key));
            for (key, one) in followed {
                if due.contains_key(&key) {
                    continue;
                }
                if !self.pause(Duration::ZERO) {
                    return;
                }
                due.insert(key, Instant::now() + self.check(&one));
            }
        }
    }

    /// Waits; whether to go on then.
    fn pause(&self, time: Duration) -> bool {
        matches!(self.stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Keeps to the pace; whether to go on.
    fn keep_pace(&self, bytes: usize) -> bool {
        let read = self.read.get() + bytes as u64;
        if read < TURN_BYTES {
            self.read.set(read);
            return true;
        }
        self.read.set(0);
        self.pause(Duration::from_secs_f64(read as f64 / self.bytes_per_second as f64))
    }

    /// Reads a log; when it is due again.
    fn check(&self, followed: &FollowedLog) -> Duration {
        let ReplicaKey { topic_id, partition } = followed.key;
        let Ok(partition) = self.partitions.find_by_id(topic_id, partition) else { return LOOK };
        let (log, epoch) = (partition.log(), partition.leader_epoch());
        let path = log.path();
        let mut from = log.log_start_offset();
        loop {
            let checked = match log.check(from, &|bytes| self.keep_pace(bytes)) {
                Ok(checked) => checked,
                Err(LogError::Closed { .. }) => return LOOK,
                Err(error) => {
                    tracing::error!(log = %path.display(), %error, "a log cannot be read");
                    return AGAIN;
                }
            };
            if let Some(damage) = &checked.damage {
                let healed = self.heal(log, damage, followed, epoch);
                let told = healed.as_ref().map_or_else(String::as_str, |healed| match healed {
                    true => "written again as the leader has it",
                    false => "not healed: the log has changed, or its leader has another batch",
                });
                let (log, offset, reason) = (path.display(), damage.offset.0, &damage.reason);
                tracing::warn!(%log, offset, reason, told, "a batch is damaged on the disk");
                match healed {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(_) => return RETRY,
                }
            }
            match checked.next {
                Some(next) => from = next,
                None => return AGAIN,
            }
        }
    }

    /// Whether the leader's batch took the place of the damaged one.
    fn heal(
        &self,
        log: &CommitLog,
        damage: &Damage,
        followed: &FollowedLog,
        epoch: LeaderEpoch,
    ) -> Result<bool, String> {
        let fetch = self.fetch(damage, followed, epoch);
        let fetched = self.runtime.block_on(async { tokio::time::timeout(ANSWER, fetch).await });
        let records = fetched.map_err(|_| "the leader does not answer".to_owned())?;
        let records = records.map_err(|error| error.to_string())?;
        log.heal(damage, &records, epoch).map_err(|error| error.to_string())
    }

    /// The leader's batch that holds the first damaged record, in a fetch of its own.
    async fn fetch(
        &self,
        damage: &Damage,
        followed: &FollowedLog,
        epoch: LeaderEpoch,
    ) -> Result<Bytes, ConnectionError> {
        let FollowedLog { key, leader, place } = followed;
        let place = place.as_ref().ok_or_else(|| ConnectionError::Disconnected {
            address: format!("broker {leader}"),
            why: "it is not registered".to_owned(),
        })?;
        let partition = FetchPartition {
            partition: key.partition,
            current_leader_epoch: epoch.0,
            fetch_offset: damage.offset.0,
            // One batch, however large it is.
            partition_max_bytes: 1,
            ..FetchPartition::default()
        };
        let (topic_id, partitions) = (key.topic_id, vec![partition]);
        let topics = vec![FetchTopic { topic_id, partitions, ..FetchTopic::default() }];
        let request = FetchRequest { topics, ..FetchRequest::default() };
        let connection = self.pool.connection(*leader, Lane::Data, place).await?;
        let (_, response) = connection.send(|_| request).await?;
        let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
        let records = partitions.filter_map(|one| one.records).next();
        Ok(records.map(Records::into_bytes).unwrap_or_default())
    }
}
