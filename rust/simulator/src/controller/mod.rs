//! The active controller: production's `Controller` with its queue of changes and its publisher,
//! over a quorum that takes its time and does not always answer.
//!
//! Production decides on topics, configs, elections and in-sync replicas. Who is alive is a plain
//! model in `elections`. All goes the same way: decided on an image, proposed, published, answered.

mod elections;
mod moving;
mod quorum;

use crate::broker::WALL_MS;
use crate::io::{Asker, Io, Settings, Tick};
use crate::message::{AlterPartition, Change, Message, Node};
use crate::moves;
use crate::planted::Planted;
use elections::{Deciding, Roster, Session, Standing};
use kafkalite_broker::clock::ManualClock;
use kafkalite_broker::metadata::controller::{
    ConfigChange, ConfigOperation, CreatedTopic, Decision, Done, NewTopic, NoRules, OnAnswers,
    TopicDefaults, TopicName,
};
use kafkalite_broker::metadata::quorum::{Outcome, Proposal};
use kafkalite_broker::metadata::records::{
    CreateTopicRecord, MetadataRecord, PartitionRecord, RecordsBatch,
};
use kafkalite_broker::metadata::{
    ApiError, ConfigResource, Controller as Decider, MetadataError, MetadataImage, MetadataQuorum,
    PartitionImage, Publisher,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use parking_lot::Mutex;
use quorum::{Fate, Proposed, Quorum, offline, told};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log directory of every replica, which is noted when its topic is made: late notes are not
/// simulated.
pub const DIRECTORY: Uuid = Uuid([3; 16]);
/// How long a broker may be silent, ms.
const SESSION_MS: u64 = 170;
/// The topic that the group shares out; it is deleted and made again.
pub const WORK: &str = "work";
/// How many partitions it has.
pub const WORK_PARTITIONS: i32 = 4;
/// The config of it that is altered.
pub const WORK_CONFIG: &str = "retention.ms";
const DATA: &str = "data";
const OFFSETS: &str = "__consumer_offsets";

/// A partition of the run in the image.
#[must_use]
pub fn partition_image<'a>(
    image: &'a MetadataImage,
    settings: &Settings,
    partition: usize,
) -> Option<&'a PartitionImage> {
    let (topic, index) = place(settings, partition);
    image.partition(topic, index)
}

fn place(settings: &Settings, partition: usize) -> (&'static str, i32) {
    match partition == settings.group_partition() {
        true => (OFFSETS, 0),
        false => (DATA, i32::try_from(partition).unwrap_or(0)),
    }
}

/// What came of a change, for who asked for it.
enum Answer {
    Registered { broker: i32, to: Asker, result: Result<(), ErrorCode> },
    Altered { partition: usize, to: Asker, result: Result<(), ErrorCode> },
    Changed { to: Asker, result: Result<Option<Uuid>, ErrorCode> },
    Balanced,
    Moved,
}

type Answers = Arc<Mutex<VecDeque<Answer>>>;

/// The controller and its log.
pub struct Controller {
    settings: Settings,
    quorum: Arc<Quorum>,
    publisher: Arc<Publisher>,
    decider: Decider,
    roster: Arc<Mutex<Roster>>,
    answers: Answers,
    /// Proposals whose outcome is on its way.
    under_way: BTreeMap<u64, (Proposed, Fate)>,
    next_proposal: u64,
    /// Topic ids are numbers here: a seed gives the same ones each time.
    ids: Arc<AtomicU64>,
    is_balancing: bool,
    planted: Option<Planted>,
}

impl Controller {
    /// A controller whose log holds the topics of the run; every broker has a replica of each.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let quorum = Arc::new(Quorum::default());
        let ids = Arc::new(AtomicU64::new(1));
        let replicas: Vec<i32> = (1..=settings.replicas).collect();
        let partition = PartitionRecord {
            isr: replicas.clone(),
            directories: vec![DIRECTORY; replicas.len()],
            replicas,
            leader: -1,
            ..PartitionRecord::default()
        };
        let data = i32::try_from(settings.partitions).unwrap_or(0);
        for (name, count) in [(DATA, data), (OFFSETS, 1), (WORK, WORK_PARTITIONS)] {
            let record = CreateTopicRecord {
                name: name.to_owned(),
                topic_id: next_id(&ids),
                partitions: (0..count).map(|_| partition.clone()).collect(),
                ..CreateTopicRecord::default()
            };
            let appended = quorum.append(vec![MetadataRecord::CreateTopic(record)]);
            assert!(appended.is_ok(), "the first topics do not fit");
        }
        let min_isr = settings.min_isr.to_string();
        let cluster = ConfigResource::cluster();
        let record = MetadataRecord::set_config(&cluster, "min.insync.replicas", Some(&min_isr));
        let appended = quorum.append(vec![record]);
        assert!(appended.is_ok(), "the first config does not fit");
        let (publisher, decider) = process(&quorum, &ids, (*quorum.image()).clone());
        Self {
            settings,
            quorum,
            publisher,
            decider,
            roster: Arc::default(),
            answers: Answers::default(),
            under_way: BTreeMap::new(),
            next_proposal: 0,
            ids,
            is_balancing: false,
            planted: None,
        }
    }

    /// The image of all that is committed.
    #[must_use]
    pub fn image(&self) -> Arc<MetadataImage> {
        self.quorum.image()
    }

    /// The image at an offset at which a batch ends, if that is committed.
    #[must_use]
    pub fn image_at(&self, offset: i64) -> Option<Arc<MetadataImage>> {
        self.quorum.image_at(offset)
    }

    /// A partition as it is committed.
    #[must_use]
    pub fn partition(&self, partition: usize) -> Option<PartitionImage> {
        partition_image(&self.quorum.image(), &self.settings, partition).cloned()
    }

    /// Whether this broker may lead now.
    #[must_use]
    pub fn is_live(&self, broker: i32) -> bool {
        self.roster.lock().is_live(broker)
    }

    /// The newest process of a broker that registered.
    #[must_use]
    pub fn registered(&self, broker: i32) -> Option<u32> {
        elections::registered(&self.quorum.image(), broker)
    }

    /// Another process takes over, with what the bytes of the log add up to. Changes that were
    /// under way are lost, or come to light without an answer.
    pub fn restart(&mut self, io: &mut Io<'_>) {
        self.decider.stop();
        for ((proposal, done), _) in std::mem::take(&mut self.under_way).into_values() {
            drop(done);
            if io.rng.chance(500) {
                drop(self.commit(&proposal, io));
            }
        }
        if io.has(Planted::MetadataLogLosesItsEnd) {
            self.quorum.forget_last();
        }
        let image = self.quorum.reread().unwrap_or_else(|error| {
            io.checker.report("image-differs", error);
            (*self.quorum.image()).clone()
        });
        io.checker.topics.committed(&image);
        self.answers.lock().clear();
        self.is_balancing = false;
        (self.publisher, self.decider) = process(&self.quorum, &self.ids, image);
        for session in self.roster.lock().sessions.values_mut() {
            session.heard_ms = io.now_ms;
        }
    }

    /// A tick of the controller.
    pub fn tick(&mut self, tick: Tick, io: &mut Io<'_>) {
        self.planted = io.planted;
        match tick {
            Tick::Sessions => self.look_at_sessions(io),
            Tick::Proposal(number) => self.conclude(number, io),
            Tick::Publish => drop(self.publisher.turn()),
            _ => {}
        }
        self.settle(io);
    }

    /// Ends the sessions of brokers that were silent for too long.
    fn look_at_sessions(&mut self, io: &mut Io<'_>) {
        io.after(40, Tick::Sessions);
        for session in self.roster.lock().sessions.values_mut() {
            if session.standing == Standing::Live && session.heard_ms + SESSION_MS < io.now_ms {
                session.standing = Standing::Over;
            }
        }
        self.balance();
    }

    /// A message of a broker or the admin client.
    pub fn receive(&mut self, from: Asker, message: Message, io: &mut Io<'_>) {
        match (message, from.node) {
            (Message::Register, Node::Broker(broker)) => self.register(broker, from),
            (Message::Heartbeat { epoch, offset }, Node::Broker(broker)) => {
                self.hear(broker, epoch, offset, io.now_ms);
                io.answer(from, Message::Metadata(self.quorum.after(offset)));
            }
            (Message::AlterPartition(alter), Node::Broker(broker)) => {
                self.alter(broker, alter, from);
            }
            (Message::AssignReplicas(partitions), Node::Broker(broker)) => {
                self.assign(broker, partitions);
            }
            (Message::Change(change), _) => self.change(change, from),
            _ => {}
        }
        self.settle(io);
    }

    /// Has production's controller commit what a decision on elections comes to.
    fn decide(
        &self,
        decide: impl Fn(&Deciding<'_>) -> Result<Vec<MetadataRecord>, ErrorCode> + Send + 'static,
        answer: impl FnOnce(Result<(), ErrorCode>) -> Answer + Send + 'static,
    ) {
        let (settings, roster) = (self.settings, Arc::clone(&self.roster));
        let planted = self.planted;
        let decide = move |image: &MetadataImage| -> Decision<()> {
            let roster = roster.lock();
            let now = Deciding { settings: &settings, image, roster: &roster, planted };
            match decide(&now) {
                Ok(records) => (now.spoilt(records), vec![Ok(())]),
                Err(error) => (Vec::new(), vec![Err(error.into())]),
            }
        };
        self.decider.change(false, 1, decide, self.answered(answer));
    }

    /// Puts the only answer to a request among those that are to be given.
    fn answered<T: 'static>(
        &self,
        answer: impl FnOnce(Result<T, ErrorCode>) -> Answer + Send + 'static,
    ) -> OnAnswers<T> {
        let answers = Arc::clone(&self.answers);
        Done::new(move |mut results: Vec<Result<T, ApiError>>| {
            if let Some(result) = results.pop() {
                answers.lock().push_back(answer(result.map_err(|error| error.code)));
            }
        })
    }

    fn register(&self, broker: i32, to: Asker) {
        let decide = move |now: &Deciding<'_>| Ok(now.register(broker, to.process));
        self.decide(decide, move |result| Answer::Registered { broker, to, result });
    }

    fn hear(&mut self, broker: i32, epoch: i64, offset: i64, now_ms: u64) {
        {
            let mut roster = self.roster.lock();
            let session = roster.sessions.get_mut(&broker);
            let Some(session) = session.filter(|session| session.epoch == epoch) else { return };
            session.heard_ms = now_ms;
            if session.standing == Standing::Live || offset < epoch {
                return;
            }
            session.standing = Standing::Live;
        }
        self.balance();
    }

    fn alter(&self, broker: i32, alter: AlterPartition, to: Asker) {
        let partition = alter.partition;
        let decide = move |now: &Deciding<'_>| now.alter(broker, &alter);
        self.decide(decide, move |result| Answer::Altered { partition, to, result });
    }

    /// Moves the leader of a partition to another live replica in sync, if there is one.
    pub fn move_leader(&mut self, partition: usize, how: usize, io: &mut Io<'_>) {
        let decide =
            move |now: &Deciding<'_>| Ok(now.move_leader(partition, how).into_iter().collect());
        self.decide(decide, |_| Answer::Moved);
        self.settle(io);
    }

    /// Carries out what the sessions ask for, unless that is under way.
    fn balance(&mut self) {
        let image = self.publisher.image();
        let is_balanced = {
            let roster = self.roster.lock();
            let (settings, planted) = (&self.settings, self.planted);
            let now = Deciding { settings, image: &image, roster: &roster, planted };
            now.balance().is_empty()
        };
        if !is_balanced && !std::mem::replace(&mut self.is_balancing, true) {
            self.decide(|now| Ok(now.balance()), |_| Answer::Balanced);
        }
    }

    /// A change of topics or configs: production decides.
    fn change(&self, change: Change, to: Asker) {
        let changed = move |result| Answer::Changed { to, result };
        match change {
            Change::Create { config } => {
                let replication_factor = i16::try_from(self.settings.replicas).unwrap_or(1);
                let defaults = TopicDefaults { num_partitions: 1, replication_factor };
                let topic = NewTopic {
                    name: WORK.to_owned(),
                    num_partitions: WORK_PARTITIONS,
                    replication_factor: -1,
                    configs: vec![(WORK_CONFIG.to_owned(), Some(config))],
                    ..NewTopic::default()
                };
                let created = self.answered(move |result: Result<_, _>| {
                    changed(result.map(|created: CreatedTopic| Some(created.id)))
                });
                self.decider.create_topics(
                    vec![topic],
                    defaults,
                    Arc::new(NoRules),
                    false,
                    created,
                );
            }
            Change::Delete(id) => {
                let deleted = self.answered(move |result: Result<(String, Uuid), _>| {
                    changed(result.map(|(_, id)| Some(id)))
                });
                self.decider.delete_topics(vec![TopicName::Id(id)], deleted);
            }
            Change::Configure { config } => {
                let change = ConfigChange {
                    resource: ConfigResource::topic(WORK),
                    replace: false,
                    operations: vec![(WORK_CONFIG.to_owned(), ConfigOperation::Set(config))],
                };
                let configured =
                    self.answered(move |result: Result<(), _>| changed(result.map(|()| None)));
                self.decider.alter_configs(vec![change], Arc::new(NoRules), false, configured);
            }
        }
    }

    /// Carries out what followed from the last step, until nothing more does.
    fn settle(&mut self, io: &mut Io<'_>) {
        loop {
            let proposed = self.quorum.take_proposed();
            let answers = std::mem::take(&mut *self.answers.lock());
            if proposed.is_empty() && answers.is_empty() {
                return;
            }
            proposed.into_iter().for_each(|proposed| self.send_out(proposed, io));
            answers.into_iter().for_each(|answer| self.answer(answer, io));
        }
    }

    /// A proposal is on its way to the voters.
    fn send_out(&mut self, proposed: Proposed, io: &mut Io<'_>) {
        self.next_proposal += 1;
        let is_unlucky = io.rng.chance(io.proposals);
        let misfortune = io.rng.pick(&Fate::MISFORTUNES).copied();
        let fate = misfortune.filter(|_| is_unlucky).unwrap_or(Fate::Committed);
        self.under_way.insert(self.next_proposal, (proposed, fate));
        let pause = io.rng.between(1, 5);
        io.after(pause, Tick::Proposal(self.next_proposal));
    }

    /// The voters decided, or their decision is not known.
    fn conclude(&mut self, number: u64, io: &mut Io<'_>) {
        let Some(((proposal, done), fate)) = self.under_way.remove(&number) else { return };
        let forgets = io.has(Planted::UnknownTakenForRejected);
        let unknown = || match forgets {
            true => Outcome::Rejected(offline()),
            false => Outcome::Unknown(offline()),
        };
        let outcome = match fate {
            Fate::Committed => told(&self.commit(&proposal, io)),
            Fate::Rejected => Outcome::Rejected(offline()),
            Fate::CommittedUnheard => {
                // Overtaken or not: who would have told does not.
                drop(self.commit(&proposal, io));
                unknown()
            }
            Fate::Late => {
                self.next_proposal += 1;
                self.under_way.insert(self.next_proposal, ((proposal, None), Fate::Committed));
                let pause = io.rng.between(5, 150);
                io.after(pause, Tick::Proposal(self.next_proposal));
                unknown()
            }
            Fate::Lost => unknown(),
        };
        if let Some(done) = done {
            done(outcome);
        }
    }

    /// Commits a proposal, unless others came before it.
    fn commit(
        &self,
        proposal: &Proposal,
        io: &mut Io<'_>,
    ) -> Result<Arc<RecordsBatch>, MetadataError> {
        let before = self.quorum.image();
        let batch = self.quorum.commit(proposal, io.has(Planted::OvertakenProposalCommits))?;
        let after = self.quorum.image();
        io.checker.topics.moves += moves::ended(&before, &after);
        io.checker.topics.committed(&after);
        self.publisher.committed((*batch).clone());
        let pause = io.rng.between(0, 3);
        io.after(pause, Tick::Publish);
        Ok(batch)
    }

    fn answer(&mut self, answer: Answer, io: &mut Io<'_>) {
        let image = self.publisher.image();
        match answer {
            Answer::Registered { broker, to, result: Ok(()) } => {
                let epoch = image.brokers.get(&broker).map_or(-1, |known| known.epoch);
                let fresh = Session { epoch, heard_ms: io.now_ms, standing: Standing::Fresh };
                let mut roster = self.roster.lock();
                if roster.sessions.get(&broker).is_none_or(|known| known.epoch != epoch) {
                    roster.sessions.insert(broker, fresh);
                }
                io.answer(to, Message::Registered(epoch));
            }
            // The broker asks again.
            Answer::Registered { .. } => {}
            Answer::Altered { partition, to, result } => {
                io.answer(to, Message::Altered(partition, result));
            }
            Answer::Changed { to, result } => io.answer(to, Message::Changed(result)),
            Answer::Balanced => self.is_balancing = false,
            Answer::Moved => {}
        }
    }
}

/// The parts of a controller that a restart replaces.
fn process(
    quorum: &Arc<Quorum>,
    ids: &Arc<AtomicU64>,
    image: MetadataImage,
) -> (Arc<Publisher>, Decider) {
    let publisher = Arc::new(Publisher::without_thread(image, |_| {}));
    let (ids, clock) = (Arc::clone(ids), Arc::new(ManualClock::new(WALL_MS)));
    let quorum: Arc<dyn MetadataQuorum> = Arc::clone(quorum) as Arc<dyn MetadataQuorum>;
    let draw_id = Box::new(move || Ok(next_id(&ids)));
    (Arc::clone(&publisher), Decider::over(quorum, publisher, clock, draw_id))
}

fn next_id(ids: &AtomicU64) -> Uuid {
    Uuid(u128::from(ids.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}
