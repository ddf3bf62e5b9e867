//! Brokers in one process, each with a controller of its own over one quorum in memory.
//!
//! The test decides which brokers are alive: it registers them, and has them leave.

use crate::client::storage::{Asking, Use};
use crate::client::{awaited, config};
use kafkalite_broker::broker::{Broker, Environment};
use kafkalite_broker::clock::{Clock, SystemClock};
use kafkalite_broker::metadata::controller::{
    Elections, Leaving, NewTopic, NoRules, TopicDefaults,
};
use kafkalite_broker::metadata::quorum::{OnOutcome, Outcome, Proposal, QuorumStatus};
use kafkalite_broker::metadata::records::{
    ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord, UnfenceBrokerRecord,
};
use kafkalite_broker::metadata::{
    ConfigResource, Controller, MetadataError, MetadataImage, MetadataQuorum, Publisher,
};
use kafkalite_broker::partitions::Partition;
use kafkalite_protocol::record_batch::Batches;
use kafkalite_protocol::{Offset, Uuid};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use tempfile::TempDir;

const TOPIC: &str = "t";
const TOPIC_ID: u128 = 77;

/// Keeps the order of what is committed, and tells every broker of it.
#[derive(Default)]
struct Quorum(Mutex<State>);

#[derive(Default)]
struct State {
    image: MetadataImage,
    publishers: BTreeMap<i32, Arc<Publisher>>,
}

impl Quorum {
    fn commit(&self, proposal: Proposal) -> Outcome {
        let mut state = self.0.lock();
        let found = state.image.offset;
        if found != proposal.expected {
            let expected = proposal.expected;
            return Outcome::Rejected(MetadataError::Overtaken { expected, found });
        }
        let Proposal { records, timestamp_ms, .. } = proposal;
        if records.is_empty() {
            return Outcome::Committed(found);
        }
        let batch = RecordsBatch { base_offset: found + 1, epoch: 1, timestamp_ms, records };
        state.image = state.image.with_batch(&batch).unwrap();
        // Under the lock: every broker gets the batches in the order of the log.
        state.publishers.values().for_each(|publisher| publisher.committed(batch.clone()));
        Outcome::Committed(batch.last_offset())
    }

    fn decide(&self, decide: impl Fn(&MetadataImage) -> Vec<MetadataRecord>) {
        let outcome = || {
            let image = self.0.lock().image.clone();
            let records = decide(&image);
            let proposal = Proposal {
                records,
                expected: image.offset,
                level: image.record_version(),
                timestamp_ms: 0,
                term: None,
            };
            matches!(self.commit(proposal), Outcome::Committed(_))
        };
        awaited::until("a decision that nothing overtakes", outcome);
    }
}

/// The quorum as the controller of one broker has it.
struct Voter(Arc<Quorum>);

impl MetadataQuorum for Voter {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        let quorum = Arc::clone(&self.0);
        std::thread::spawn(move || done(quorum.commit(proposal)));
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn published(&self, _: &Arc<MetadataImage>) {}

    fn status(&self) -> QuorumStatus {
        let high_watermark = self.0.0.lock().image.offset + 1;
        let (voters, observers) = (vec![], vec![]);
        QuorumStatus { leader_id: 1, leader_epoch: 1, high_watermark, voters, observers }
    }

    fn stop(&self) {}
}

pub struct Cluster {
    quorum: Arc<Quorum>,
    directories: BTreeMap<i32, TempDir>,
    brokers: BTreeMap<i32, Broker>,
    /// The broker whose disk takes no record of the topic any more; 0 is none.
    failed: Arc<AtomicI32>,
}

/// What a failing disk says.
const EIO: i32 = 5;

impl Cluster {
    /// Brokers 1 to `count`, and topic `t` of one partition with a replica on each.
    pub fn start(count: i32, min_in_sync: i32) -> Self {
        let directories = (1..=count).map(|id| (id, tempfile::tempdir().unwrap()));
        let directories = directories.collect();
        let (quorum, brokers, failed) = Default::default();
        let mut cluster = Self { quorum, directories, brokers, failed };
        let cluster_wide = ConfigResource::cluster();
        let min = min_in_sync.to_string();
        let min = MetadataRecord::set_config(&cluster_wide, "min.insync.replicas", Some(&min));
        cluster.quorum.decide(|_| vec![min.clone()]);
        (1..=count).for_each(|id| cluster.start_broker(id));
        cluster.create_topic(count);
        cluster
    }

    fn create_topic(&self, brokers: i32) {
        let topic = NewTopic {
            name: TOPIC.to_owned(),
            num_partitions: 1,
            replication_factor: brokers as i16,
            ..NewTopic::default()
        };
        let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
        let controller = &self.brokers[&1].rooms().controller;
        let made = controller.blocking().create_topics(&[topic], defaults, &NoRules, false);
        made.into_iter().for_each(|made| drop(made.unwrap()));
        for broker in self.brokers.values() {
            let partitions = &broker.rooms().partitions;
            awaited::until("the replica", || {
                partitions.find_by_name(TOPIC, 0).is_ok() && partitions.unassigned().is_empty()
            });
        }
    }

    fn start_broker(&mut self, id: i32) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let publisher = {
            let mut state = self.quorum.0.lock();
            let publisher = Arc::new(Publisher::start(state.image.clone(), |_| {}).unwrap());
            state.publishers.insert(id, Arc::clone(&publisher));
            publisher
        };
        let voter = Arc::new(Voter(Arc::clone(&self.quorum)));
        let draw_id = Box::new(|| Ok(Uuid(TOPIC_ID.to_be_bytes())));
        let controller = Arc::new(Controller::over(voter, publisher, Arc::clone(&clock), draw_id));
        let node_id = id.to_string();
        let config = config(self.directories[&id].path(), &[("node.id", &node_id)]);
        let failed = Arc::clone(&self.failed);
        let storage = Asking::new(move |what, path| {
            let is_log = path.extension().is_some_and(|kind| kind == "log");
            let fails = failed.load(Ordering::Relaxed) == id && what == Use::Change && is_log;
            if fails { Err(std::io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
        });
        let controller = Some(controller);
        let environment = Environment { controller, ..Environment::over(clock, storage) };
        let broker = Broker::start_in(config, environment).unwrap();
        let (name, address) = broker.listeners()[0].clone();
        let (host, port) = (address.ip().to_string(), address.port());
        let listeners = vec![ListenerRecord { name: name.to_string(), host, port }];
        let log_dirs = broker.rooms().partitions.dirs().iter().map(|dir| dir.id()).collect();
        let registration = MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: id,
            listeners,
            log_dirs,
            epoch: -1,
            ..RegisterBrokerRecord::default()
        });
        self.brokers.insert(id, broker);
        self.quorum.decide(|image| {
            let mut records = vec![registration.clone()];
            records.extend(self.elections(image, |now| now.leave(id, Leaving::Restarted)));
            records
        });
        self.balance();
    }

    fn elections<R>(&self, image: &MetadataImage, decide: impl Fn(&Elections<'_>) -> R) -> R {
        let is_alive = |id| self.brokers.contains_key(&id);
        decide(&Elections { image, is_alive: &is_alive })
    }

    fn balance(&self) {
        self.quorum.decide(|image| self.elections(image, |now| now.balance()));
    }

    /// Broker `id` ends as in a crash. The image stays as it is.
    pub fn kill(&mut self, id: i32) {
        let broker = self.brokers.remove(&id).unwrap();
        self.quorum.0.lock().publishers.remove(&id);
        broker.kill();
    }

    /// The controller learns that broker `id` is gone, and so do the others.
    pub fn leaves(&mut self, id: i32, why: Leaving) {
        self.quorum.decide(|image| self.elections(image, |now| now.leave(id, why)));
        self.until_known();
    }

    /// Broker `id` starts again on its directory.
    pub fn restart(&mut self, id: i32) {
        self.start_broker(id);
        self.until_known();
    }

    /// The disk of broker `id` fails with the next record.
    pub fn fail_disk(&self, id: i32) {
        self.failed.store(id, Ordering::Relaxed);
    }

    /// Another broker than `id` leads, and knows it.
    pub fn until_led_by_another(&self, id: i32) {
        awaited::until("another leader", || self.leader() != id && self.leader() >= 0);
        self.until_known();
    }

    /// Registers broker `id` again, which is not there; its epoch.
    pub fn register(&self, id: i32, fenced: bool) -> i64 {
        let known = self.quorum.0.lock().image.brokers[&id].clone();
        let record = MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: id,
            listeners: known.listeners,
            log_dirs: known.log_dirs,
            epoch: -1,
            fenced,
            ..RegisterBrokerRecord::default()
        });
        self.quorum.decide(|_| vec![record.clone()]);
        self.until_known();
        self.quorum.0.lock().image.brokers[&id].epoch
    }

    /// Broker `broker_id` serves in the life with this epoch.
    pub fn unfence(&self, broker_id: i32, epoch: i64) {
        let record = UnfenceBrokerRecord { broker_id, epoch };
        self.quorum.decide(|_| vec![MetadataRecord::UnfenceBroker(record.clone())]);
    }

    /// Every broker has the image of now.
    fn until_known(&self) {
        let offset = self.quorum.0.lock().image.offset;
        for broker in self.brokers.values() {
            let controller = &broker.rooms().controller;
            awaited::until("the image", || controller.image().offset >= offset);
        }
        let leader = self.leader();
        let epoch = self.quorum.0.lock().image.partition(TOPIC, 0).map(|now| now.leader_epoch);
        if self.brokers.contains_key(&leader) {
            let partition = self.partition(leader);
            awaited::until("the leader leads", || Some(partition.leader_epoch()) == epoch);
        }
    }

    pub fn broker(&self, id: i32) -> &Broker {
        &self.brokers[&id]
    }

    pub fn leader(&self) -> i32 {
        self.quorum.0.lock().image.partition(TOPIC, 0).unwrap().leader
    }

    pub fn until_in_sync(&self, ids: &[i32]) {
        awaited::until("the in-sync replicas", || {
            let mut isr = self.quorum.0.lock().image.partition(TOPIC, 0).unwrap().isr.clone();
            isr.sort_unstable();
            isr == ids
        });
    }

    pub fn partition(&self, id: i32) -> Arc<Partition> {
        self.brokers[&id].rooms().partitions.find_by_name(TOPIC, 0).unwrap()
    }

    /// All that the log on broker `id` holds.
    pub fn bytes(&self, id: i32) -> Vec<u8> {
        let partition = self.partition(id);
        let log = partition.log();
        let read = log.read(Offset(0), u32::MAX, log.log_end_offset(), true).unwrap();
        read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect()
    }

    /// The values of all records in the log on broker `id`.
    pub fn values(&self, id: i32) -> Vec<String> {
        let partition = self.partition(id);
        let end = self.partition(self.leader()).log_end_offset();
        awaited::until("the leader's records", || partition.log_end_offset() == end);
        let mut values = Vec::new();
        for segment in self.segments(id) {
            for batch in Batches::new(&segment) {
                for record in batch.unwrap().records(1 << 20).unwrap().iter() {
                    let value = record.unwrap().value.unwrap().to_vec();
                    values.push(String::from_utf8(value).unwrap());
                }
            }
        }
        values
    }

    /// The bytes of each segment: one read gives no more than one.
    fn segments(&self, id: i32) -> Vec<Vec<u8>> {
        let partition = self.partition(id);
        let log = partition.log();
        let (mut from, mut segments) = (Offset(0), Vec::new());
        while from < log.log_end_offset() {
            let read = log.read(from, u32::MAX, log.log_end_offset(), true).unwrap();
            let bytes: Vec<u8> =
                read.slices.iter().flat_map(|slice| slice.read().unwrap()).collect();
            let ends = Batches::new(&bytes).map(|batch| batch.unwrap().header().next_offset());
            from = ends.last().unwrap();
            segments.push(bytes);
        }
        segments
    }
}
