//! Which brokers are there, and what the controller decides when that changes.
//!
//! Production decides who leads and who is in sync. The model beside it follows KRaft: a broker is
//! fenced until its image has its own registration. A new process of a broker may have lost the
//! ends of the broker's logs.

use super::{partition_image, place};
use crate::io::Settings;
use crate::message::AlterPartition;
use crate::planted::Planted;
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_broker::metadata::controller::{
    ElectionKind, Elections, IsrChange, IsrMember, Leaving, alter_partitions,
};
use kafkalite_broker::metadata::records::{
    ListenerRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::BTreeMap;

/// How a broker's session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its image does not have its registration yet.
    Fresh,
    /// It may lead.
    Live,
    /// It was silent for too long.
    Over,
}

/// The session of a broker's newest process.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The broker epoch.
    pub epoch: i64,
    /// When it was heard last, ms.
    pub heard_ms: u64,
    /// How it stands.
    pub standing: Standing,
}

/// What the controller knows beside the image.
#[derive(Debug, Default)]
pub struct Roster {
    /// By broker.
    pub sessions: BTreeMap<i32, Session>,
    /// The broker that lost records, and is not in sync again.
    pub bereft: Option<i32>,
}

impl Roster {
    /// Whether this broker may lead now.
    #[must_use]
    pub fn is_live(&self, broker: i32) -> bool {
        let session = self.sessions.get(&broker);
        session.is_some_and(|session| session.standing == Standing::Live)
    }
}

/// The process of a broker that registered last.
#[must_use]
pub fn registered(image: &MetadataImage, broker: i32) -> Option<u32> {
    let host = &image.brokers.get(&broker)?.host;
    host.rsplit_once('-').and_then(|(_, incarnation)| incarnation.parse().ok())
}

/// One decision, on one image.
pub struct Deciding<'a> {
    /// The run.
    pub settings: &'a Settings,
    /// What is decided upon.
    pub image: &'a MetadataImage,
    /// Who is there.
    pub roster: &'a Roster,
    /// The bug of this run.
    pub planted: Option<Planted>,
}

impl Deciding<'_> {
    pub(super) fn elections<R>(&self, decide: impl FnOnce(&Elections<'_>) -> R) -> R {
        let is_alive = |id| self.roster.is_live(id);
        decide(&Elections { image: self.image, is_alive: &is_alive })
    }

    /// A process of a broker starts.
    #[must_use]
    pub fn register(&self, broker: i32, incarnation: u32) -> Vec<MetadataRecord> {
        if registered(self.image, broker) == Some(incarnation) {
            return Vec::new();
        }
        let (name, host) = ("PLAINTEXT".to_owned(), format!("b{broker}-{incarnation}"));
        let mut records = vec![MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: broker,
            epoch: -1,
            listeners: vec![ListenerRecord { name, host, port: 9092 }],
            log_dirs: vec![Uuid([broker.unsigned_abs() as u8; 16])],
            ..RegisterBrokerRecord::default()
        })];
        if self.image.brokers.contains_key(&broker) {
            records.extend(self.elections(|now| now.leave(broker, Leaving::Restarted)));
        }
        records
    }

    /// What follows from the sessions: those whose session is over leave, and a partition without a
    /// leader gets one if it can.
    #[must_use]
    pub fn balance(&self) -> Vec<MetadataRecord> {
        let records = self.elections(|now| now.balance());
        let is_unclean = self.planted == Some(Planted::UncleanLeaderElected);
        let partitions = self.settings.all().filter(|_| is_unclean && records.is_empty());
        let elected: Vec<MetadataRecord> = partitions
            .filter_map(|partition| {
                let (topic, index) = place(self.settings, partition);
                self.elections(|now| now.elect(topic, index, ElectionKind::Unclean)).ok()
            })
            .collect();
        records.into_iter().chain(elected).collect()
    }

    /// What a leader wants its in-sync replicas to be.
    ///
    /// # Errors
    /// Why they cannot be.
    pub fn alter(
        &self,
        broker: i32,
        alter: &AlterPartition,
    ) -> Result<Vec<MetadataRecord>, ErrorCode> {
        let planted = self.planted;
        let (topic, index) = place(self.settings, alter.partition);
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let topic_id = self.image.topic(topic).ok_or(unknown)?.id;
        let now = partition_image(self.image, self.settings, alter.partition).ok_or(unknown)?;
        let mut change = IsrChange {
            topic_id,
            partition: index,
            leader_epoch: alter.leader_epoch,
            partition_epoch: alter.partition_epoch,
            isr: alter.isr.clone(),
        };
        let mut sender = broker;
        if planted == Some(Planted::StaleIsrAccepted) {
            sender = now.leader;
            (change.leader_epoch, change.partition_epoch) = (now.leader_epoch, now.partition_epoch);
        }
        if planted == Some(Planted::OldBrokerEpochAccepted) {
            let forget = |member: &IsrMember| IsrMember { broker_epoch: -1, ..*member };
            change.isr = change.isr.iter().map(forget).collect();
        }
        let life = self.image.brokers.get(&sender).map_or(-1, |broker| broker.epoch);
        let (records, mut answers) =
            self.elections(|now| alter_partitions(now, sender, life, &[change]));
        answers.pop().unwrap_or(Ok(())).map_err(|error| error.code)?;
        Ok(records)
    }

    /// Moves the leader to another live replica in sync, the `how`-th of those there are.
    #[must_use]
    pub fn move_leader(&self, partition: usize, how: usize) -> Option<MetadataRecord> {
        let now = partition_image(self.image, self.settings, partition)?;
        let others = now.isr.iter().filter(|id| **id != now.leader && self.roster.is_live(**id));
        let others: Vec<i32> = others.copied().collect();
        let mut record = PartitionRecord::from(now);
        record.leader = *others.get(how % others.len().max(1))?;
        record.leader_epoch += 1;
        record.partition_epoch += 1;
        let (topic, partition_index) = place(self.settings, partition);
        let topic_id = self.image.topic(topic)?.id;
        let change = PartitionChangeRecord { topic_id, partition_index, partition: record };
        Some(MetadataRecord::PartitionChange(change))
    }
}
