//! Brokers in the image: where they are, and whether they serve.

use super::{Assignment, MetadataImage, PartitionImage};
use crate::metadata::features::SupportedFeatures;
use crate::metadata::records::{ListenerRecord, RegisterBrokerRecord, SetVotingRecord};
use kafkalite_protocol::Uuid;
use std::sync::Arc;

/// Whether a broker is to be a voter of the controller quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voting {
    /// If the quorum has too few voters.
    #[default]
    IfNeeded,
    /// An operator made it one.
    Always,
    /// An operator took its vote away.
    Never,
}

impl Voting {
    /// The number in the records.
    pub const fn code(self) -> i8 {
        match self {
            Self::IfNeeded => 0,
            Self::Always => 1,
            Self::Never => 2,
        }
    }

    const fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::IfNeeded),
            1 => Some(Self::Always),
            2 => Some(Self::Never),
            _ => None,
        }
    }
}

/// A registered broker.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerImage {
    /// `broker.id`.
    pub id: i32,
    /// The host told to clients that came in through another broker.
    pub host: String,
    /// The port beside it.
    pub port: u16,
    /// Where clients of each listener find it; the first is `host` and `port`.
    pub listeners: Vec<ListenerRecord>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// The offset of its registration: a newer start has a greater one.
    pub epoch: i64,
    /// The ids of all log directories that it has, or ever had.
    pub log_dirs: Vec<Uuid>,
    /// The ids of those that it can use: those of its registration that did not fail since. None
    /// if a release registered it that did not say so.
    pub online_dirs: Vec<Uuid>,
    /// Whether clients are not sent to it: it starts, it stops, or it sends no heartbeats.
    pub fenced: bool,
    /// The id of the directory that holds its part of the controller quorum; zero while the broker
    /// has no company.
    pub quorum_dir: Uuid,
    /// Whether an operator said something of its vote.
    pub voting: Voting,
    /// The levels of features that it supports.
    pub supported: SupportedFeatures,
}

impl BrokerImage {
    /// Where clients of the listener of this name find it, or else those of its first.
    pub fn endpoint(&self, listener: &str) -> (&str, u16) {
        let named = self.listeners.iter().find(|one| one.name.eq_ignore_ascii_case(listener));
        named.map_or((&self.host, self.port), |one| (&one.host, one.port))
    }

    /// Whether it can use this log directory, as far as it said.
    pub fn can_use(&self, directory: Uuid) -> bool {
        self.online_dirs.is_empty() || self.online_dirs.contains(&directory)
    }

    /// The record that registers it as it is, in the epoch that it has.
    pub fn record(&self) -> RegisterBrokerRecord {
        RegisterBrokerRecord {
            broker_id: self.id,
            epoch: self.epoch,
            rack: self.rack.clone(),
            listeners: self.listeners.clone(),
            log_dirs: self.log_dirs.clone(),
            online_dirs: self.online_dirs.clone(),
            fenced: self.fenced,
            quorum_dir: self.quorum_dir,
            features: self.supported.ranges(),
        }
    }
}

impl MetadataImage {
    /// How many registered brokers are fenced.
    pub fn fenced_brokers(&self) -> usize {
        self.brokers.values().filter(|broker| broker.fenced).count()
    }

    /// Whether a broker is registered and not fenced.
    pub fn is_alive(&self, broker_id: i32) -> bool {
        self.brokers.get(&broker_id).is_some_and(|broker| !broker.fenced)
    }

    /// Whether the broker of a replica can use the replica's log directory, as far as it said.
    pub fn has_directory(&self, partition: &PartitionImage, broker_id: i32) -> bool {
        let Some(broker) = self.brokers.get(&broker_id) else { return false };
        match partition.assignment(broker_id) {
            Assignment::Directory(directory) => broker.can_use(directory),
            Assignment::Unassigned | Assignment::Unknown => true,
        }
    }

    /// The replicas of a partition that cannot serve: of a broker that is not there, or in a log
    /// directory that its broker cannot use.
    pub fn offline_replicas(&self, partition: &PartitionImage) -> Vec<i32> {
        let replicas = partition.replicas.iter().copied();
        let serves = |id: i32| self.is_alive(id) && self.has_directory(partition, id);
        replicas.filter(|id| !serves(*id)).collect()
    }

    /// The brokers that serve, by rising id.
    pub fn alive_brokers(&self) -> impl Iterator<Item = &BrokerImage> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    pub(super) fn register(
        &mut self,
        offset: i64,
        record: &RegisterBrokerRecord,
    ) -> Result<(), String> {
        let first = record.listeners.first().ok_or("a broker without a listener")?;
        let before = self.brokers.get(&record.broker_id);
        let before = before.filter(|before| before.quorum_dir == record.quorum_dir);
        let broker = BrokerImage {
            id: record.broker_id,
            host: first.host.clone(),
            port: first.port,
            listeners: record.listeners.clone(),
            rack: record.rack.clone(),
            epoch: if record.epoch < 0 { offset } else { record.epoch },
            log_dirs: record.log_dirs.clone(),
            online_dirs: record.online_dirs.clone(),
            fenced: record.fenced,
            quorum_dir: record.quorum_dir,
            voting: before.map_or(Voting::IfNeeded, |before| before.voting),
            supported: SupportedFeatures::registered(&record.features),
        };
        Arc::make_mut(&mut self.brokers).insert(record.broker_id, broker);
        Ok(())
    }

    pub(super) fn unregister(&mut self, broker_id: i32, epoch: i64) -> Result<(), String> {
        self.registered(broker_id, epoch)?;
        Arc::make_mut(&mut self.brokers).remove(&broker_id);
        Ok(())
    }

    pub(super) fn fence(&mut self, broker_id: i32, epoch: i64, fenced: bool) -> Result<(), String> {
        self.registered(broker_id, epoch)?.fenced = fenced;
        Ok(())
    }

    pub(super) fn set_voting(&mut self, record: &SetVotingRecord) -> Result<(), String> {
        let SetVotingRecord { broker_id, quorum_dir, voting } = record;
        let voting = Voting::from_code(*voting).ok_or_else(|| format!("voting {voting}"))?;
        let broker = Arc::make_mut(&mut self.brokers).get_mut(broker_id);
        let broker = broker.filter(|broker| broker.quorum_dir == *quorum_dir);
        let missing =
            || format!("broker {broker_id} with directory {quorum_dir} is not registered");
        broker.ok_or_else(missing)?.voting = voting;
        Ok(())
    }

    /// The broker, if this is its epoch.
    fn registered(&mut self, broker_id: i32, epoch: i64) -> Result<&mut BrokerImage, String> {
        let broker = Arc::make_mut(&mut self.brokers).get_mut(&broker_id);
        let broker = broker.filter(|broker| broker.epoch == epoch);
        broker.ok_or_else(|| format!("broker {broker_id} is not registered with epoch {epoch}"))
    }
}
