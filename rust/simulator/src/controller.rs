//! The active controller: production's records and image, around a plain model of what production
//! has no machine for yet: sessions, elections and changes of the in-sync replicas.
//!
//! The model follows KRaft: a broker is fenced until its image has its own registration, a fenced
//! or restarted broker leaves every in-sync set, eligible replicas are kept while the set is below
//! `min.insync.replicas` (KIP-966), and a proposal names the state it was made from and the broker
//! epochs of its members (KIP-903). Its log is durable at once.

use crate::io::{Io, Settings, Tick};
use crate::message::{AlterPartition, Message, Node};
use crate::planted::Planted;
use kafkalite_broker::metadata::records::{
    CreateTopicRecord, ListenerRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord,
    RecordsBatch, RegisterBrokerRecord,
};
use kafkalite_broker::metadata::{MetadataImage, PartitionImage};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a broker may be silent, ms.
const SESSION_MS: u64 = 170;
/// The topic with data, and the one that keeps the group.
const TOPICS: [(&str, Uuid); 2] = [("data", Uuid([1; 16])), ("__consumer_offsets", Uuid([2; 16]))];

/// A partition of the run in the image.
#[must_use]
pub fn partition_image<'a>(
    image: &'a MetadataImage,
    settings: &Settings,
    partition: usize,
) -> Option<&'a PartitionImage> {
    let (topic, index) = place(settings, partition);
    image.partition(TOPICS[topic].0, index)
}

fn place(settings: &Settings, partition: usize) -> (usize, i32) {
    match partition == settings.group_partition() {
        true => (1, 0),
        false => (0, i32::try_from(partition).unwrap_or(0)),
    }
}

#[derive(Clone, Copy, Debug)]
struct Session {
    epoch: i64,
    incarnation: u32,
    heard_ms: u64,
    is_fenced: bool,
}

/// The controller and its log.
pub struct Controller {
    settings: Settings,
    image: MetadataImage,
    log: Vec<Arc<RecordsBatch>>,
    sessions: BTreeMap<i32, Session>,
    /// The last replica that was in sync, where none is any more.
    last_in_sync: BTreeMap<usize, i32>,
}

impl Controller {
    /// A controller whose log holds the topics of the run; every broker has a replica of each.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut controller = Self {
            settings,
            image: MetadataImage::default(),
            log: Vec::new(),
            sessions: BTreeMap::new(),
            last_in_sync: BTreeMap::new(),
        };
        let ids: Vec<i32> = (1..=settings.brokers).collect();
        let partition = |_: usize| PartitionRecord {
            replicas: ids.clone(),
            isr: ids.clone(),
            ..PartitionRecord::default()
        };
        let counts = [settings.partitions, 1];
        for ((name, topic_id), count) in TOPICS.into_iter().zip(counts) {
            controller.commit(MetadataRecord::CreateTopic(CreateTopicRecord {
                name: name.to_owned(),
                topic_id,
                partitions: (0..count).map(partition).collect(),
                ..CreateTopicRecord::default()
            }));
        }
        controller
    }

    fn commit(&mut self, record: MetadataRecord) {
        let base_offset = self.image.offset + 1;
        let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records: vec![record] };
        match self.image.with_batch(&batch) {
            Ok(image) => self.image = image,
            Err(error) => panic!("the model wrote a record that does not fit: {error}"),
        }
        self.log.push(Arc::new(batch));
    }

    /// The image as it is committed.
    #[must_use]
    pub fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// A partition as it is committed.
    #[must_use]
    pub fn partition(&self, partition: usize) -> Option<&PartitionImage> {
        partition_image(&self.image, &self.settings, partition)
    }

    /// The committed batches from `offset` on.
    fn after(&self, offset: i64) -> Vec<Arc<RecordsBatch>> {
        let from = self.log.partition_point(|batch| batch.base_offset <= offset);
        self.log[from..].to_vec()
    }

    /// Whether this process of the broker may lead now.
    #[must_use]
    pub fn is_live(&self, broker: i32) -> bool {
        self.sessions.get(&broker).is_some_and(|session| !session.is_fenced)
    }

    /// The newest process of a broker that registered.
    #[must_use]
    pub fn registered(&self, broker: i32) -> Option<u32> {
        self.sessions.get(&broker).map(|session| session.incarnation)
    }

    /// A restart: the image is built anew from the bytes of the log, and has to be the same.
    pub fn restart(&mut self, io: &mut Io<'_>) {
        let mut image = MetadataImage::default();
        for batch in &self.log {
            let read = RecordsBatch::decode(batch.encode()).map_err(|error| format!("{error:?}"));
            match read.and_then(|read| image.with_batch(&read).map_err(|error| error.to_string())) {
                Ok(next) => image = next,
                Err(error) => io.checker.report("image-differs", error),
            }
        }
        if image != self.image {
            io.checker.report("image-differs", "the log adds up to another image".to_owned());
        }
        self.image = image;
        for session in self.sessions.values_mut() {
            session.heard_ms = io.now_ms;
        }
    }

    /// A tick: fences brokers that were silent for too long.
    pub fn look_at_sessions(&mut self, io: &mut Io<'_>) {
        io.after(40, Tick::Sessions);
        let late = |session: &Session| session.heard_ms + SESSION_MS < io.now_ms;
        let sessions = self.sessions.iter().filter(|(_, session)| !session.is_fenced);
        let over = sessions.filter(|(_, session)| late(session)).map(|(id, _)| *id);
        for id in over.collect::<Vec<_>>() {
            self.fence(id);
            self.take_out(id, false);
        }
    }

    fn fence(&mut self, broker: i32) {
        if let Some(session) = self.sessions.get_mut(&broker) {
            session.is_fenced = true;
        }
    }

    /// A message of `broker`, whose process is its `incarnation`-th.
    pub fn receive(
        &mut self,
        broker: i32,
        incarnation: u32,
        id: u64,
        message: Message,
        io: &mut Io<'_>,
    ) {
        let to = Node::Broker(broker);
        match message {
            Message::Register => {
                let epoch = self.register(broker, incarnation, io);
                io.send(to, id, Message::Registered(epoch));
            }
            Message::Heartbeat { epoch, offset } => {
                self.hear(broker, epoch, offset, io.now_ms);
                io.send(to, id, Message::Metadata(self.after(offset)));
            }
            Message::AlterPartition(alter) => {
                let partition = alter.partition;
                let answer = self.alter(broker, &alter, io.planted);
                io.send(to, id, Message::Altered(partition, answer));
            }
            _ => {}
        }
    }

    fn register(&mut self, broker: i32, incarnation: u32, io: &Io<'_>) -> i64 {
        let known = self.sessions.get(&broker);
        if let Some(known) = known.filter(|known| known.incarnation == incarnation) {
            return known.epoch;
        }
        let is_first = known.is_none();
        let epoch = self.image.offset + 1;
        let (name, host) = ("PLAINTEXT".to_owned(), format!("b{broker}"));
        self.commit(MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: broker,
            listeners: vec![ListenerRecord { name, host, port: 9092 }],
            log_dirs: vec![Uuid([broker.unsigned_abs() as u8; 16])],
            ..RegisterBrokerRecord::default()
        }));
        let heard_ms = io.now_ms;
        self.sessions.insert(broker, Session { epoch, incarnation, heard_ms, is_fenced: true });
        // A restart that was not announced: the log may have lost its end.
        if !is_first {
            self.take_out(broker, true);
        }
        epoch
    }

    fn hear(&mut self, broker: i32, epoch: i64, offset: i64, now_ms: u64) {
        let Some(session) = self.sessions.get_mut(&broker) else { return };
        if session.epoch != epoch {
            return;
        }
        session.heard_ms = now_ms;
        if session.is_fenced && offset >= epoch {
            session.is_fenced = false;
            for partition in self.settings.all() {
                let Some(now) = self.partition(partition).filter(|now| now.leader == -1) else {
                    continue;
                };
                let (isr, elr) = (now.isr.clone(), now.elr.clone());
                self.change(partition, isr, elr);
            }
        }
    }

    /// Takes a broker out of every in-sync set; with `forgets` it may not be elected either.
    fn take_out(&mut self, broker: i32, forgets: bool) {
        for partition in self.settings.all() {
            let Some(now) = self.partition(partition).cloned() else { continue };
            let isr: Vec<i32> = now.isr.iter().copied().filter(|id| *id != broker).collect();
            let mut elr = self.eligible(&now, &isr);
            if forgets {
                elr.retain(|id| *id != broker);
            }
            if isr.is_empty() && !now.isr.is_empty() {
                self.last_in_sync.insert(partition, broker);
            }
            if isr != now.isr || elr != now.elr || now.leader == broker {
                self.change(partition, isr, elr);
            }
        }
    }

    /// The eligible replicas beside the in-sync set `isr`: those that held every committed record
    /// when they left it, while the high watermark stands still.
    fn eligible(&self, now: &PartitionImage, isr: &[i32]) -> Vec<i32> {
        if isr.len() >= self.settings.min_isr {
            return Vec::new();
        }
        let all: BTreeSet<i32> = now.isr.iter().chain(&now.elr).copied().collect();
        all.into_iter().filter(|id| !isr.contains(id)).collect()
    }

    /// Writes a partition's new state, with another leader if the present one cannot stay.
    fn change(&mut self, partition: usize, isr: Vec<i32>, elr: Vec<i32>) {
        let Some(now) = self.partition(partition).cloned() else { return };
        let stays = self.is_live(now.leader) && isr.contains(&now.leader);
        let leader = if stays { now.leader } else { self.elect(partition, &now, &isr, &elr) };
        self.write(partition, &now, leader, isr, elr);
    }

    fn elect(&self, partition: usize, now: &PartitionImage, isr: &[i32], elr: &[i32]) -> i32 {
        let among = |set: &[i32]| {
            let mut replicas = now.replicas.iter().copied();
            replicas.find(|id| set.contains(id) && self.is_live(*id))
        };
        // Nobody is left who is known to have everything: the last one in sync has.
        let alone = isr.is_empty() && elr.is_empty();
        let last = self.last_in_sync.get(&partition).copied();
        let last = last.filter(|id| alone && self.is_live(*id));
        among(isr).or_else(|| among(elr)).or(last).unwrap_or(-1)
    }

    fn write(
        &mut self,
        partition: usize,
        now: &PartitionImage,
        leader: i32,
        mut isr: Vec<i32>,
        mut elr: Vec<i32>,
    ) {
        if leader != -1 && !isr.contains(&leader) {
            isr.push(leader);
            elr.retain(|id| *id != leader);
        }
        if isr.len() >= self.settings.min_isr {
            elr.clear();
        }
        if leader == now.leader && isr == now.isr && elr == now.elr {
            return;
        }
        let mut record = PartitionRecord::from(now);
        if leader != now.leader {
            record.leader_epoch += 1;
        }
        record.partition_epoch += 1;
        (record.leader, record.isr, record.elr) = (leader, isr, elr);
        let (topic, partition_index) = place(&self.settings, partition);
        let topic_id = TOPICS[topic].1;
        self.commit(MetadataRecord::PartitionChange(PartitionChangeRecord {
            topic_id,
            partition_index,
            partition: record,
        }));
    }

    fn alter(
        &mut self,
        broker: i32,
        alter: &AlterPartition,
        planted: Option<Planted>,
    ) -> Result<PartitionImage, ErrorCode> {
        let now = self.partition(alter.partition).cloned();
        let now = now.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if planted != Some(Planted::StaleIsrAccepted) {
            if now.leader != broker || now.leader_epoch != alter.leader_epoch {
                return Err(ErrorCode::FencedLeaderEpoch);
            }
            if now.partition_epoch != alter.partition_epoch {
                return Err(ErrorCode::InvalidUpdateVersion);
            }
        }
        let may_join = |(id, epoch): &(i32, i64)| {
            let session = self.sessions.get(id).filter(|session| !session.is_fenced);
            let forgives = planted == Some(Planted::OldBrokerEpochAccepted);
            session.is_some_and(|session| [session.epoch, -1].contains(epoch) || forgives)
        };
        if !alter.isr.iter().all(may_join) {
            return Err(ErrorCode::IneligibleReplica);
        }
        let isr: Vec<i32> = alter.isr.iter().map(|(id, _)| *id).collect();
        if isr == now.isr {
            return Ok(now);
        }
        let elr = self.eligible(&now, &isr);
        self.write(alter.partition, &now, now.leader, isr, elr);
        self.partition(alter.partition).cloned().ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Moves the leader of a partition to another live replica in sync, if there is one.
    pub fn move_leader(&mut self, partition: usize, io: &mut Io<'_>) {
        let Some(now) = self.partition(partition).cloned() else { return };
        let others = now.isr.iter().filter(|id| **id != now.leader && self.is_live(**id));
        let others: Vec<i32> = others.copied().collect();
        if let Some(leader) = io.rng.pick(&others) {
            self.write(partition, &now, *leader, now.isr.clone(), now.elr.clone());
        }
    }
}
