//! One machine: its disk, the rooms of its broker while that runs, and its followers.

use super::planted::Planted;
use super::quorum::{Quorum, Voter};
use super::wire::{self, Call, Mailbox};
use crate::drift::Drift;
use crate::faulty_storage::{self, FaultyStorage};
use crate::rng::Rng;
use bytes::Bytes;
use kafkalite_broker::broker::{Environment, SteppedBroker};
use kafkalite_broker::clock::{Clock, ManualClock};
use kafkalite_broker::config::{Sources, load};
use kafkalite_broker::metadata::controller::{Registration, register};
use kafkalite_broker::metadata::records::ListenerRecord;
use kafkalite_broker::metadata::{Controller, MetadataImage, Publisher};
use kafkalite_broker::partitions::Partition;
use kafkalite_broker::replication::{
    Answer, FetchedRecords, Fetcher, FetcherConfig, LocalLogs, LocalReplicas, Next, Position,
    Question, ReplicaKey,
};
use kafkalite_protocol::messages::fetch::FetchRequest;
use kafkalite_protocol::messages::list_offsets::ListOffsetsRequest;
use kafkalite_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;
use kafkalite_protocol::messages::{Request, Wire};
use kafkalite_protocol::{LeaderEpoch, Offset, Uuid};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A question without an answer is given up after this, ms.
const QUESTION_MS: u64 = 150;
/// The longest wait of a fetch at its leader, ms.
const FETCH_WAIT_MS: i32 = 60;
/// Between two questions after a failure, at most, ms.
const BACKOFF_MS: u64 = 40;

/// What follows one leader.
struct Following {
    fetcher: Fetcher,
    /// The question under way: its number, which one it is, and when it was asked.
    asked: Option<(u64, Asked, u64)>,
}

#[derive(Clone, Copy)]
enum Asked {
    Fetch,
    Epochs,
    Starts,
}

/// The running broker.
pub struct Running {
    /// Its rooms.
    pub broker: SteppedBroker,
    /// Where answers of its handlers arrive.
    pub mailbox: Mailbox,
    publisher: Arc<Publisher>,
    logs: LocalLogs,
    following: BTreeMap<i32, Following>,
    followed: Arc<MetadataImage>,
}

/// The machine.
pub struct Host {
    /// The broker's id.
    pub id: i32,
    /// Counts its processes.
    pub life: u32,
    /// Its disk.
    pub disk: FaultyStorage,
    /// Its data directory.
    pub directory: PathBuf,
    /// The broker, while it runs.
    pub running: Option<Running>,
    /// It stands still until then, ms of the run.
    pub paused_ms: u64,
    clock: Arc<ManualClock>,
    drift: Drift,
}

/// What all hosts have in common.
pub struct Shared {
    /// The metadata log.
    pub quorum: Arc<Quorum>,
    /// Draws ids of topics.
    pub topics: Arc<AtomicU64>,
    /// The bug of this run.
    pub planted: Option<Planted>,
}

impl Host {
    /// A machine with an empty disk, whose clock begins at this wall time.
    #[must_use]
    pub fn new(id: i32, directory: PathBuf, (drift, wall_ms): (Drift, i64)) -> Self {
        let disk = FaultyStorage::default();
        let clock = Arc::new(ManualClock::new(wall_ms));
        Self { id, life: 0, disk, directory, running: None, paused_ms: 0, clock, drift }
    }

    /// The run is `now_ms` old.
    pub fn keep_time(&self, now_ms: u64) {
        self.clock.advance_ms(self.drift.shown_ms(now_ms).saturating_sub(self.now_ms()));
    }

    /// Its monotonic time, ms.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Starts the broker on what the disk holds.
    ///
    /// # Errors
    /// Why the rooms cannot be built.
    pub fn start(&mut self, shared: &Shared) -> Result<(), String> {
        self.life += 1;
        self.disk = self.disk.successor();
        self.disk.ignore_syncs(shared.planted == Some(Planted::SyncsIgnored));
        let (id, node_id) = (self.id, self.id.to_string());
        let directory = self.directory.display().to_string();
        let flags = [
            ("node.id", node_id.as_str()),
            ("log.dirs", &directory),
            ("num.recovery.threads.per.data.dir", "1"),
            ("replica.fetch.wait.max.ms", "100"),
            ("replica.lag.time.max.ms", "300"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("offsets.commit.timeout.ms", "500"),
            ("log.retention.check.interval.ms", "200"),
            ("log.flush.offset.checkpoint.interval.ms", "300"),
            ("log.flush.start.offset.checkpoint.interval.ms", "300"),
            ("replica.high.watermark.checkpoint.interval.ms", "250"),
        ];
        let flags = flags.map(|(key, value)| (key.into(), value.into(), "--set".into())).to_vec();
        let config =
            load(&Sources { flags, ..Sources::default() }).map_err(|error| error.to_string())?;
        let clock: Arc<dyn Clock> = self.clock.clone();
        let publisher = shared.quorum.join(id);
        let voter = Voter { quorum: shared.quorum.clone(), broker: id, life: self.life };
        let topics = Arc::clone(&shared.topics);
        let draw_id = move || {
            let number = topics.fetch_add(1, Ordering::Relaxed);
            Ok(Uuid((u128::from(number) + (1 << 96)).to_be_bytes()))
        };
        let (told, now) = (Arc::clone(&publisher), clock.clone());
        let controller = Controller::over(Arc::new(voter), told, now, Box::new(draw_id));
        let environment = Environment {
            controller: Some(Arc::new(controller)),
            ..Environment::over(clock.clone(), Arc::new(self.disk.clone()))
        };
        let known = Arc::clone(&publisher);
        let register = |registration: &Registration| {
            let listeners = vec![listener()];
            let registration = Registration { fenced: true, listeners, ..registration.clone() };
            shared.quorum.decide(|image| register(image, &registration));
            while known.turn() {}
        };
        let broker = SteppedBroker::start(&config, environment, register);
        let broker = broker.map_err(|error| error.to_string())?;
        let logs = LocalLogs::new(broker.rooms().partitions.clone(), clock);
        let (mailbox, following, followed) = Default::default();
        let running = Running { broker, mailbox, publisher, logs, following, followed };
        self.running = Some(running);
        Ok(())
    }

    /// No change of its disk fails that was to fail.
    pub fn spare(&self) {
        self.disk.plan(u64::MAX, faulty_storage::Fault::Full);
    }

    /// The process is gone at once; what it wrote stays in the page cache, and goes with the power
    /// if `undoes` is there.
    pub fn kill(&mut self, quorum: &Quorum, undoes: Option<&mut Rng>) {
        self.disk.crash();
        quorum.leave(self.id);
        if let Some(running) = self.running.take() {
            running.broker.kill();
        }
        if let Some(rng) = undoes {
            // A temporary directory that cannot be changed fails the next start.
            let _ = self.disk.cut_power_and_undo(|| rng.chance(500));
        }
    }

    /// The broker stops as it is asked to.
    pub fn stop(&mut self, quorum: &Quorum, epoch: i64) {
        if let Some(running) = self.running.take() {
            // Logs that are not complete say so themselves: the next start looks.
            let _ = running.broker.stop(epoch);
        }
        quorum.leave(self.id);
        self.disk.crash();
    }

    /// The replica of a partition, if its log is in use.
    #[must_use]
    pub fn partition(&self, topic: &str, index: i32) -> Option<Arc<Partition>> {
        let partitions = &self.running.as_ref()?.broker.rooms().partitions;
        let found = partitions.find_by_name(topic, index).ok()?;
        (!found.is_offline()).then_some(found)
    }
}

impl Running {
    /// Runs a request.
    pub fn run(&self, id: u64, call: Call, now_ns: u64) {
        // What cannot be understood closes the connection, which the mailbox tells.
        let _ = self.broker.run(wire::queued(id, call, &self.mailbox, now_ns));
    }

    /// Takes the answers of its handlers.
    pub fn take_answers(&self) -> Vec<(u64, Option<Bytes>)> {
        std::mem::take(&mut *self.mailbox.lock())
    }

    /// One step of each thread that has something to do, in an order that the seed decides; some
    /// threads have no turn this time.
    pub fn turn(&self, rng: &mut Rng) {
        let first = rng.below(6);
        for number in 0..6 {
            if rng.chance(200) {
                continue;
            }
            match (first + number) % 6 {
                0 => _ = self.broker.run_task(),
                1 => _ = self.publisher.turn(),
                2 => self.broker.flush(),
                3 => _ = self.broker.load(),
                4 => _ = self.broker.expire(),
                _ => _ = self.broker.keep(),
            }
        }
    }

    /// Follows the leaders that the image of now names.
    fn follow(&mut self, id: i32) {
        let image = self.broker.rooms().controller.image();
        if Arc::ptr_eq(&image, &self.followed) {
            return;
        }
        let epoch_in =
            |image: &MetadataImage| image.brokers.get(&id).map_or(-1, |broker| broker.epoch);
        let broker_epoch = epoch_in(&image);
        if broker_epoch != epoch_in(&self.followed) {
            self.following.clear();
        }
        let before = std::mem::replace(&mut self.followed, Arc::clone(&image));
        for topic in before.topics.deleted_in(&image.topics) {
            for partition in 0..topic.partition_count() {
                let key = ReplicaKey { topic_id: topic.id, partition };
                self.following.values_mut().for_each(|one| one.fetcher.unfollow(key));
            }
        }
        for topic in image.topics.iter() {
            for (partition, now) in (0..).zip(&topic.partitions) {
                let key = ReplicaKey { topic_id: topic.id, partition };
                let is_led = now.leader >= 0 && now.leader != id && now.replicas.contains(&id);
                for (leader, one) in &mut self.following {
                    if !is_led || *leader != now.leader {
                        one.fetcher.unfollow(key);
                    }
                }
                if is_led {
                    let new = || Following { fetcher: fetcher(id, broker_epoch), asked: None };
                    let one = self.following.entry(now.leader).or_insert_with(new);
                    one.fetcher.follow(key, &topic.name, now.leader_epoch);
                }
            }
        }
    }

    /// The questions that are to be asked now, and of whom.
    pub fn questions(
        &mut self,
        (id, now_ms): (i32, u64),
        planted: Option<Planted>,
        mut next_id: impl FnMut() -> u64,
    ) -> Vec<(i32, u64, Call)> {
        self.follow(id);
        let logs = Logs { inner: &self.logs, planted };
        let mut questions = Vec::new();
        for (leader, one) in &mut self.following {
            if let Some((_, _, sent_ms)) = one.asked {
                if now_ms < sent_ms + QUESTION_MS {
                    continue;
                }
                one.asked = None;
                one.fetcher.failed(now_ms);
            }
            if let Next::Ask(question) = one.fetcher.next(now_ms, &logs) {
                let (asked, call) = match &question {
                    Question::Fetch(request) => (Asked::Fetch, Call::of_broker(request)),
                    Question::Epochs(request) => (Asked::Epochs, Call::of_broker(request)),
                    Question::Starts(request) => (Asked::Starts, Call::of_broker(request)),
                };
                let number = next_id();
                one.asked = Some((number, asked, now_ms));
                questions.push((*leader, number, call));
            }
        }
        questions
    }

    /// The answer of a leader; `None`: the connection was closed.
    pub fn answered(
        &mut self,
        leader: i32,
        number: u64,
        bytes: Option<Bytes>,
        now_ms: u64,
        planted: Option<Planted>,
    ) {
        let Some(one) = self.following.get_mut(&leader) else { return };
        let Some((_, asked, _)) = one.asked.take_if(|(asked, ..)| *asked == number) else { return };
        let answer = bytes.and_then(|bytes| match asked {
            Asked::Fetch => decode::<FetchRequest>(bytes).map(Answer::Fetch),
            Asked::Epochs => decode::<OffsetForLeaderEpochRequest>(bytes).map(Answer::Epochs),
            Asked::Starts => decode::<ListOffsetsRequest>(bytes).map(Answer::Starts),
        });
        match answer {
            Some(answer) => {
                let logs = Logs { inner: &self.logs, planted };
                one.fetcher.answered(now_ms, answer, &logs);
            }
            None => one.fetcher.failed(now_ms),
        }
    }
}

/// No broker asks another one by a socket here.
fn listener() -> ListenerRecord {
    let (name, host) = ("PLAINTEXT".to_owned(), "localhost".to_owned());
    ListenerRecord { name, host, port: 9092 }
}

fn decode<R: Request>(bytes: Bytes) -> Option<R::Response>
where
    R::Response: Wire,
{
    wire::decode::<R>(R::VERSIONS.max, bytes)
}

fn fetcher(replica_id: i32, broker_epoch: i64) -> Fetcher {
    Fetcher::new(FetcherConfig {
        replica_id,
        broker_epoch,
        max_wait_ms: FETCH_WAIT_MS,
        backoff_ms: BACKOFF_MS,
        ..FetcherConfig::default()
    })
}

/// Production's logs, and the bugs that are planted around them.
struct Logs<'a> {
    inner: &'a LocalLogs,
    planted: Option<Planted>,
}

impl LocalReplicas for Logs<'_> {
    fn position(&self, key: ReplicaKey) -> Option<Position> {
        let mut position = self.inner.position(key)?;
        if self.planted == Some(Planted::FollowerClaimsMore) && position.end > Offset(4) {
            position.end = position.end.plus(1);
        }
        Some(position)
    }

    fn end_of_epoch(&self, key: ReplicaKey, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.inner.end_of_epoch(key, epoch)
    }

    fn is_throttled(&self, key: ReplicaKey) -> bool {
        self.inner.is_throttled(key)
    }

    fn append(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        fetched: &FetchedRecords,
    ) -> Option<Position> {
        self.inner.append(key, epoch, fetched)
    }

    fn truncate(&self, key: ReplicaKey, epoch: LeaderEpoch, to: Offset) -> Option<Position> {
        match self.planted {
            Some(Planted::TruncationSkipped) => self.inner.position(key),
            _ => self.inner.truncate(key, epoch, to),
        }
    }

    fn restart(&self, key: ReplicaKey, epoch: LeaderEpoch, start: Offset) -> Option<Position> {
        self.inner.restart(key, epoch, start)
    }
}
