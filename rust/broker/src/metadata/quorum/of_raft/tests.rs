//! Three controllers of one process, over a transport in memory.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::awaited;
use crate::clock::ManualClock;
use crate::faulty_storage::{Fault, FaultyStorage};
use crate::metadata::controller::{
    Controller, ControllerOptions, Done, NewTopic, NoRules, Registration, TopicDefaults, TopicName,
};
use crate::metadata::error::ApiError;
use crate::metadata::metadata_log::MetadataLog;
use crate::metadata::records::{ListenerRecord, MetadataRecord, RemoveTopicRecord};
use kafkalite_log::storage::RealStorage;
use kafkalite_protocol::{ErrorCode, Uuid};
use kafkalite_quorum::{Answer, Lane, Timing, VoterId};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Weak, mpsc};

const CLUSTER: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const DEFAULTS: TopicDefaults = TopicDefaults { num_partitions: 2, replication_factor: 1 };

/// The ways from one voter to the others of this process.
#[derive(Clone, Default)]
struct Local {
    /// Whose ways they are.
    me: u16,
    /// Voters that reach no other, and are not reached.
    cut: Arc<Mutex<BTreeSet<u16>>>,
    /// By port.
    voters: Arc<Mutex<BTreeMap<u16, Weak<QuorumOfRaft>>>>,
    /// Proposals that were sent and hang, if they do.
    hanging: Arc<Mutex<Option<usize>>>,
}

impl Local {
    fn of(&self, number: u8) -> Arc<Self> {
        Arc::new(Self { me: u16::from(number), ..self.clone() })
    }

    fn find(&self, to: &Endpoint) -> Option<Arc<QuorumOfRaft>> {
        let cut = self.cut.lock();
        if cut.contains(&self.me) || cut.contains(&to.port) {
            return None;
        }
        self.voters.lock().get(&to.port).and_then(Weak::upgrade)
    }
}

impl Transport for Local {
    fn call(&self, to: &Endpoint, _: Lane, request: Bytes) -> Answer {
        let target = self.find(to);
        Box::pin(async move {
            let (told, answer) = oneshot::channel();
            target.ok_or("the voter is away")?.answer(request, move |answer| _ = told.send(answer));
            answer.await.map_err(|error| error.to_string())
        })
    }
}

impl Forward for Local {
    fn forward(
        &self,
        to: &Endpoint,
        expected: i64,
        batch: Bytes,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send>> {
        let target = self.find(to);
        if let Some(hanging) = self.hanging.lock().as_mut() {
            *hanging += 1;
            return Box::pin(std::future::pending());
        }
        Box::pin(async move {
            let Some(target) = target else { return Forwarded::Unreached("away".to_owned()) };
            let (told, answer) = oneshot::channel();
            target.accept(expected, batch, move |accepted| _ = told.send(accepted));
            match answer.await {
                Ok(accepted) => Forwarded::Answered(accepted),
                Err(error) => Forwarded::Unreached(error.to_string()),
            }
        })
    }
}

struct House {
    local: Local,
    runtime: Handle,
    /// Dropped with the house, which ends the runtime.
    _stop: oneshot::Sender<()>,
    dirs: [tempfile::TempDir; 3],
}

fn voter(number: u8) -> VoterId {
    VoterId { node_id: i32::from(number), directory_id: Uuid([number; 16]) }
}

fn at(number: u8) -> Endpoint {
    Endpoint { host: "localhost".to_owned(), port: u16::from(number) }
}

impl House {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || drop(runtime.block_on(stopped)));
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        Self { local: Local::default(), runtime: handle, _stop: stop, dirs }
    }

    fn dir(&self, number: u8) -> &Path {
        self.dirs[usize::from(number) - 1].path()
    }

    fn quorum_options(&self, number: u8) -> QuorumOptions {
        QuorumOptions {
            cluster_id: CLUSTER.to_owned(),
            me: voter(number),
            at: at(number),
            dir: self.dir(number).join("quorum"),
            timing: Timing::default(),
        }
    }

    fn options(&self, number: u8, publisher: &Arc<Publisher>) -> RaftOptions {
        RaftOptions {
            quorum: self.quorum_options(number),
            storage: Arc::new(RealStorage),
            publisher: Arc::clone(publisher),
            transport: self.local.of(number),
            forward: self.local.of(number),
            runtime: self.runtime.clone(),
        }
    }

    fn meet(&self, number: u8, quorum: &Arc<QuorumOfRaft>) {
        self.local.voters.lock().insert(u16::from(number), Arc::downgrade(quorum));
    }

    fn alone(&self, storage: Arc<dyn Storage>) -> Controller {
        let broker = Registration {
            broker_id: 1,
            listeners: vec![listener()],
            quorum_dir: voter(1).directory_id,
            ..Registration::default()
        };
        let options = ControllerOptions {
            cluster_id: CLUSTER.to_owned(),
            dir: self.dir(1).to_owned(),
            broker,
            min_insync_replicas: 1,
        };
        Controller::open(options, storage, Arc::new(ManualClock::new(0))).unwrap()
    }

    /// Begins a quorum on this storage, with nothing else in force.
    fn begin(
        &self,
        storage: FaultyStorage,
        image: &MetadataImage,
    ) -> Result<Arc<QuorumOfRaft>, QuorumError> {
        let publisher = Arc::new(Publisher::start(image.clone(), |_| ()).unwrap());
        let options = self.options(1, &publisher);
        QuorumOfRaft::begin(RaftOptions { storage: Arc::new(storage), ..options }, at(1), image)
    }

    /// The first controller's log becomes the first voter's, while it runs.
    fn change_over(&self, controller: &Controller) -> Arc<QuorumOfRaft> {
        let quorum = self.quorum_options(1);
        let made: Arc<Mutex<Option<Arc<QuorumOfRaft>>>> = Arc::default();
        let told = Arc::clone(&made);
        let (local, runtime) = (self.local.of(1), self.runtime.clone());
        let (done, heard) = mpsc::channel();
        let start = move |image: &Arc<MetadataImage>, publisher: &Arc<Publisher>| {
            let options = RaftOptions {
                quorum,
                storage: Arc::new(RealStorage),
                publisher: Arc::clone(publisher),
                transport: local.clone(),
                forward: local,
                runtime,
            };
            let raft = QuorumOfRaft::begin(options, at(1), image)?;
            *told.lock() = Some(Arc::clone(&raft));
            Ok(raft as Arc<dyn MetadataQuorum>)
        };
        controller.change_over(Box::new(start), Done::new(move |result| _ = done.send(result)));
        awaited::received("the change-over", &heard).unwrap();
        let raft = made.lock().take().unwrap();
        self.meet(1, &raft);
        raft
    }

    fn member(&self, number: u8) -> (Controller, Arc<QuorumOfRaft>) {
        let clock = Arc::new(ManualClock::new(0));
        let started = Controller::member(self.dir(number), clock, |publisher| {
            Ok(QuorumOfRaft::start(self.options(number, publisher))?)
        });
        let (controller, raft) = started.unwrap();
        self.meet(number, &raft);
        (controller, raft)
    }
}

fn listener() -> ListenerRecord {
    ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 1 }
}

/// Makes a change of the membership, again until the quorum takes it.
fn changed(raft: &QuorumOfRaft, change: &MembershipChange) {
    awaited::until("the membership changes", || {
        let (told, heard) = mpsc::channel();
        raft.change(change.clone(), move |result| _ = told.send(result));
        awaited::received("an answer", &heard).is_ok()
    });
}

fn topic(name: &str) -> NewTopic {
    let (num_partitions, replication_factor) = (-1, -1);
    NewTopic { name: name.to_owned(), num_partitions, replication_factor, ..NewTopic::default() }
}

fn create(controller: &Controller, name: &str) {
    let topic = topic(name);
    let answers = controller.blocking().create_topics(&[topic], DEFAULTS, &NoRules, false);
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
}

#[test]
fn a_single_broker_grows_to_three_and_each_of_them_changes_metadata() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    create(&first, "before");
    let epoch = first.image().epoch;
    let raft = house.change_over(&first);
    create(&first, "after");
    assert!(first.image().epoch > epoch, "epochs go on");
    let others = [2, 3].map(|number| house.member(number));
    for number in [2, 3] {
        changed(&raft, &MembershipChange::AddLearner(voter(number), at(number)));
        changed(&raft, &MembershipChange::Promote(voter(number)));
    }
    for (number, (controller, _)) in (2..).zip(&others) {
        // Decided where the image is older than the leader's: it is overtaken, and decided again.
        create(controller, &format!("by-{number}"));
        assert!(controller.image().topic(&format!("by-{number}")).is_some());
    }
    let end = others[1].0.image().offset;
    for controller in [&first, &others[0].0] {
        awaited::until("every image is the same", || controller.image().offset >= end);
        assert_eq!(*controller.image(), *others[1].0.image());
    }
    let status = first.quorum().status();
    assert_eq!((status.leader_id, status.voters.len()), (1, 3));
    // Without its leader the quorum elects another one, and goes on.
    house.local.voters.lock().remove(&1);
    first.stop();
    create(&others[0].0, "without-the-first");
    others.iter().for_each(|(controller, _)| controller.stop());
}

/// A leader whose process is stopped for a while takes no answer back, and answers no more.
#[test]
fn a_proposal_to_a_leader_that_hangs_ends_when_another_one_leads() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    let raft = house.change_over(&first);
    let others = [2, 3].map(|number| house.member(number));
    for number in [2, 3] {
        changed(&raft, &MembershipChange::AddLearner(voter(number), at(number)));
        changed(&raft, &MembershipChange::Promote(voter(number)));
    }
    create(&others[0].0, "before");
    *house.local.hanging.lock() = Some(0);
    let (told, heard) = mpsc::channel();
    let done = move |result: Result<(), ApiError>| told.send(result).unwrap();
    // Nothing is to be done, and that is to be confirmed.
    others[0].0.fence(9, 0, true, Done::new(done));
    awaited::until("it is sent", || *house.local.hanging.lock() == Some(1));
    house.local.voters.lock().remove(&1);
    first.stop();
    let answer = awaited::received("an answer", &heard);
    assert_eq!(answer.map_err(|error| error.code), Err(ErrorCode::RequestTimedOut));
    *house.local.hanging.lock() = None;
    create(&others[0].0, "after");
    others.iter().for_each(|(controller, _)| controller.stop());
}

/// A leader that is cut off has an old image. Its refusal was the client's answer: the topic that
/// another broker had made was said to be unknown.
#[test]
fn a_leader_that_is_cut_off_refuses_nothing_on_its_old_image() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    let raft = house.change_over(&first);
    let others = [2, 3].map(|number| house.member(number));
    for number in [2, 3] {
        changed(&raft, &MembershipChange::AddLearner(voter(number), at(number)));
        changed(&raft, &MembershipChange::Promote(voter(number)));
    }
    house.local.cut.lock().insert(1);
    awaited::until("another voter leads", || {
        others[0].1.raft_status().leader.is_some_and(|(leader, _)| leader != voter(1))
    });
    create(&others[0].0, "by-the-others");
    assert!(raft.raft_status().leader.is_some_and(|(leader, _)| leader == voter(1)));
    let (told, heard) = mpsc::channel();
    let name = TopicName::Name("by-the-others".to_owned());
    first.delete_topics(vec![name], Done::new(move |answers| told.send(answers).unwrap()));
    house.local.cut.lock().clear();
    let answers = awaited::received("an answer", &heard);
    assert!(answers[0].is_ok(), "{answers:?}");
    for controller in [&first, &others[0].0, &others[1].0] {
        controller.stop();
    }
}

/// A leader that was cut off heard no heartbeats. As soon as it was back it had the others fenced:
/// two healthy brokers lost what they led.
#[test]
fn what_a_leader_saw_counts_no_more_when_another_one_leads() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    let raft = house.change_over(&first);
    let others = [2, 3].map(|number| house.member(number));
    let mut epochs = Vec::new();
    for (number, (controller, _)) in (2..).zip(&others) {
        changed(&raft, &MembershipChange::AddLearner(voter(number), at(number)));
        changed(&raft, &MembershipChange::Promote(voter(number)));
        let (told, heard) = mpsc::channel();
        let broker = Registration {
            broker_id: i32::from(number),
            listeners: vec![listener()],
            ..Registration::default()
        };
        controller.register(broker, Done::new(move |epoch| told.send(epoch).unwrap()));
        epochs.push(awaited::received("an epoch", &heard).unwrap());
    }
    awaited::until("the leader knows both", || first.image().is_alive(3));
    house.local.cut.lock().insert(1);
    let term = raft.raft_status().term;
    let (told, heard) = mpsc::channel();
    for (id, epoch) in (2..).zip(&epochs) {
        let told = told.clone();
        let done = Done::of_leader(term, move |result| told.send(result).unwrap());
        first.fence(id, *epoch, true, done);
    }
    let leads = |voter: VoterId| move |(leader, _): (VoterId, Endpoint)| leader != voter;
    awaited::until("another voter leads", || {
        others[0].1.raft_status().leader.is_some_and(leads(voter(1)))
    });
    create(&others[0].0, "by-the-others");
    house.local.cut.lock().clear();
    for _ in 0..2 {
        awaited::received("an answer", &heard).unwrap_err();
    }
    create(&first, "by-the-first");
    let image = first.image();
    assert!(image.topic("by-the-others").is_some());
    assert_eq!([2, 3].map(|id| image.is_alive(id)), [true, true]);
    for controller in [&first, &others[0].0, &others[1].0] {
        controller.stop();
    }
}

#[test]
fn a_member_that_starts_again_has_the_image_that_it_had() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    create(&first, "before");
    drop(house.change_over(&first));
    create(&first, "after");
    let before = first.image();
    first.stop();
    drop(first);
    let (again, _raft) = house.member(1);
    awaited::until("the image is back", || again.image().offset >= before.offset);
    assert_eq!(*again.image(), *before);
    create(&again, "more");
    again.stop();
}

#[test]
fn a_voter_that_stopped_for_its_disk_goes_on_when_it_is_started_again() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    create(&first, "before");
    drop(house.change_over(&first));
    first.stop();
    drop(first);
    let storage = Arc::new(FaultyStorage::default());
    let clock = Arc::new(ManualClock::new(0));
    let (again, raft) = Controller::member(house.dir(1), clock, |publisher| {
        let storage: Arc<dyn Storage> = storage.clone();
        Ok(QuorumOfRaft::start(RaftOptions { storage, ..house.options(1, publisher) })?)
    })
    .unwrap();
    house.meet(1, &raft);
    create(&again, "kept");
    let tries = Cell::new(0);
    // The write that fails may be one that no change waits for.
    awaited::until("a change meets the disk that fails", || {
        tries.set(tries.get() + 1);
        storage.plan(storage.changes(), Fault::Fail(5));
        let failed = topic(&format!("failed-{}", tries.get()));
        again.blocking().create_topics(&[failed], DEFAULTS, &NoRules, false)[0].is_err()
    });
    awaited::until("it has stopped", || raft.raft_status().stopped.is_some());
    raft.restart().unwrap();
    create(&again, "more");
    let image = again.image();
    assert!(["before", "kept", "more"].iter().all(|name| image.topic(name).is_some()));
    again.stop();
    raft.restart().unwrap();
    // A quorum that was started again would run on.
    awaited::until("the quorum stays stopped", || raft.raft_status().stopped.is_some());
}

/// Before the first snapshot has its name the old log is in force, and from then on the quorum is.
#[test]
fn a_crash_at_any_change_of_the_disk_leaves_the_old_log_or_the_quorum() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    create(&first, "kept");
    let image = first.image();
    first.stop();
    drop(first);
    for fault in 0.. {
        let storage = FaultyStorage::default();
        storage.plan(fault, Fault::Crash);
        let result = house.begin(storage, &image);
        let (_, left) = MetadataLog::open(Arc::new(RealStorage), house.dir(1)).unwrap();
        assert_eq!(left.topics, image.topics, "the old log stays until the quorum is there");
        match result {
            Ok(_) | Err(QuorumError::Exists { .. }) => break,
            Err(_) => assert!(fault < 100, "the quorum is formed sooner or later"),
        }
    }
    let (again, _raft) = house.member(1);
    awaited::until("the quorum has the image", || again.image().offset >= image.offset);
    assert_eq!(again.image().topics, image.topics);
    again.stop();
}

/// Else the next start would find a quorum that lacks what the old log got since.
#[test]
fn a_quorum_that_cannot_begin_leaves_nothing() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    let image = first.image();
    for fault in 0.. {
        let storage = FaultyStorage::default();
        storage.plan(fault, Fault::Fail(5));
        if let Ok(raft) = house.begin(storage, &image) {
            raft.stop();
            break;
        }
        let left = RealStorage.list(&house.quorum_options(1).dir).unwrap_or_default();
        assert!(left.is_empty(), "{left:?} is left after fault {fault}");
        assert!(fault < 100, "the quorum begins sooner or later");
    }
    first.stop();
}

#[test]
fn records_that_do_not_fit_are_refused_before_the_quorum_has_them() {
    let house = House::new();
    let first = house.alone(Arc::new(RealStorage));
    let raft = house.change_over(&first);
    awaited::until("it leads", || raft.raft_status().leader.is_some());
    let accepted = |expected, bytes: Bytes| {
        let (told, heard) = mpsc::channel();
        raft.accept(expected, bytes, move |accepted| told.send(accepted).unwrap());
        awaited::received("an answer", &heard)
    };
    let offset = first.image().offset;
    let record = MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: Uuid([9; 16]) });
    let batch = |records| {
        let base_offset = offset + 1;
        RecordsBatch { base_offset, epoch: 0, timestamp_ms: 0, records }.encode(1)
    };
    for bytes in [batch(vec![record]), Bytes::from_static(b"nonsense"), Bytes::new()] {
        let answer = accepted(offset, bytes);
        let refused =
            matches!(answer, Accepted::Outcome(Outcome::Rejected(MetadataError::Refused { .. })));
        assert!(refused, "{answer:?}");
    }
    let current = accepted(offset, batch(vec![]));
    let confirmed = matches!(current, Accepted::Outcome(Outcome::Committed(at)) if at == offset);
    assert!(confirmed, "no records ask whether the offset is the end: {current:?}");
    let late = accepted(offset - 1, batch(vec![]));
    let overtaken =
        matches!(late, Accepted::Outcome(Outcome::Rejected(MetadataError::Overtaken { .. })));
    assert!(overtaken, "{late:?}");
    create(&first, "it-goes-on");
    first.stop();
}
