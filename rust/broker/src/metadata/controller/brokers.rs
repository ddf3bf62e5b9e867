//! Which brokers belong to the cluster, and which of them serve.
//!
//! Source: the roles of Kafka's `ClusterControlManager`; the ids of brokers that join are ours.

use super::super::error::ApiError;
use super::super::features::SupportedFeatures;
use super::super::image::{Assignment, BrokerImage, MetadataImage, UNASSIGNED, Voting};
use super::super::records::{
    ClusterRecord, ConfigResource, ControllerEpochRecord, FenceBrokerRecord, ListenerRecord,
    MetadataRecord, PartitionChangeRecord, PartitionRecord, RaiseLeaderEpochsRecord, RecordsBatch,
    RegisterBrokerRecord, SetVotingRecord, UnfenceBrokerRecord, UnregisterBrokerRecord,
};
use super::ControllerOptions;
use super::configs::safety_records;
use super::elections::{Elections, Leaving};
use super::features::missing_level;
use kafkalite_protocol::{ErrorCode, Uuid};

/// Listeners of a broker that joins, and bytes of a name: more is a mistake or an attack.
const MAX_LISTENERS: usize = 64;
const MAX_TEXT: usize = 1_000;

/// A broker, as it registers at each start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registration {
    /// `node.id`
    pub broker_id: i32,
    /// Where clients of each listener find it; one at least.
    pub listeners: Vec<ListenerRecord>,
    /// `broker.rack`
    pub rack: Option<String>,
    /// The ids of the log directories that it has now.
    pub log_dirs: Vec<Uuid>,
    /// Whether these are all that it is meant to have: another one that it had is lost, then.
    /// `None` if it did not open them yet.
    pub has_all_dirs: Option<bool>,
    /// The directory of its part of the controller quorum; zero for a broker without company.
    pub quorum_dir: Uuid,
    /// Whether it does not serve yet. It leads nothing until it does.
    pub fenced: bool,
    /// The epoch of its last life, if that one ended with all logs on the disk.
    pub clean_epoch: Option<i64>,
    /// The levels of features that it supports.
    pub supported: SupportedFeatures,
}

/// A broker that asks to belong to the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joining {
    /// The cluster that its data directory belongs to, if it was used before.
    pub cluster_id: Option<String>,
    /// The id that it has or wants; `None` leaves the choice to the cluster.
    pub broker_id: Option<i32>,
    /// The directory of its part of the controller quorum.
    pub quorum_dir: Uuid,
    /// `broker.rack`
    pub rack: Option<String>,
    /// Where clients of each listener find it.
    pub listeners: Vec<ListenerRecord>,
    /// The levels of features that it supports.
    pub supported: SupportedFeatures,
}

/// The answer to a broker that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster_id: String,
    /// The broker's id in it.
    pub broker_id: i32,
}

/// What a controller writes first: its epoch, its broker, and new leader epochs.
pub fn first_records(image: &MetadataImage, options: ControllerOptions) -> Vec<MetadataRecord> {
    let broker_id = options.broker.broker_id;
    let mut records = Vec::new();
    let is_new = image.offset < 0;
    if is_new {
        let record = ClusterRecord { cluster_id: options.cluster_id };
        records.push(MetadataRecord::Cluster(record));
    }
    let record = ControllerEpochRecord { controller_id: broker_id, epoch: image.epoch + 1 };
    records.push(MetadataRecord::ControllerEpoch(record));
    records.extend(register(image, &options.broker));
    match is_new {
        true => records.extend(options.broker.supported.finalized()),
        false => records.extend(missing_level(image)),
    }
    records.extend(safety_records(image, broker_id, options.min_insync_replicas));
    records
}

/// The records of a broker that starts. Across a crash one (epoch, offset) must never name two
/// records, so every partition that it leads gets a new leader epoch. A fenced one leads nothing:
/// others take over.
pub fn register(image: &MetadataImage, broker: &Registration) -> Vec<MetadataRecord> {
    let broker_id = broker.broker_id;
    let known = image.brokers.get(&broker_id);
    // A directory is never forgotten: one that is away may hold partitions.
    let mut log_dirs = broker.log_dirs.clone();
    log_dirs.extend(known.map(|known| known.log_dirs.clone()).unwrap_or_default());
    // But that of the quorum is lost, where another one takes its place.
    let is_lost = |dir: &Uuid| known.is_some_and(|known| known.quorum_dir == *dir);
    log_dirs
        .retain(|dir| *dir == broker.quorum_dir || broker.quorum_dir.is_zero() || !is_lost(dir));
    log_dirs.sort();
    log_dirs.dedup();
    let record = RegisterBrokerRecord {
        broker_id,
        epoch: -1,
        rack: broker.rack.clone(),
        listeners: broker.listeners.clone(),
        log_dirs,
        online_dirs: broker.has_all_dirs.map(|_| broker.log_dirs.clone()).unwrap_or_default(),
        fenced: broker.fenced,
        quorum_dir: broker.quorum_dir,
        features: broker.supported.ranges(),
    };
    let mut records = vec![MetadataRecord::RegisterBroker(record)];
    if broker.fenced {
        let is_clean = known.is_some_and(|known| broker.clean_epoch == Some(known.epoch));
        let why = if is_clean { Leaving::Away } else { Leaving::Restarted };
        let is_alive = |id| image.is_alive(id);
        records.extend(Elections { image, is_alive: &is_alive }.leave(broker_id, why));
    } else {
        let raise = RaiseLeaderEpochsRecord { broker_id };
        records.push(MetadataRecord::RaiseLeaderEpochs(raise));
    }
    records
}

/// As [`register`], for a broker of a cluster. Where it has all of its directories, those that it
/// had before were replaced. What was there is lost, so its replicas begin again and fill from
/// their leaders.
///
/// # Errors
/// The image does not take the records.
pub fn register_again(
    image: &MetadataImage,
    broker: &Registration,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let records = register(image, broker);
    if !broker.fenced || broker.has_all_dirs != Some(true) {
        return Ok(records);
    }
    let is_lost = |noted| match noted {
        Assignment::Directory(directory) => !broker.log_dirs.contains(&directory),
        Assignment::Unassigned | Assignment::Unknown => false,
    };
    with_lost(image, records, broker.broker_id, is_lost)
}

/// The records that fence the broker in this epoch, or end that, with the elections that follow;
/// none if there is nothing to do.
pub fn fence(
    image: &MetadataImage,
    broker_id: i32,
    epoch: i64,
    fenced: bool,
) -> Vec<MetadataRecord> {
    let is_due = |broker: &&BrokerImage| broker.epoch == epoch && broker.fenced != fenced;
    if image.brokers.get(&broker_id).filter(is_due).is_none() {
        return Vec::new();
    }
    let is_alive = |id| if id == broker_id { !fenced } else { image.is_alive(id) };
    let elections = Elections { image, is_alive: &is_alive };
    let (record, elected) = if fenced {
        let record = MetadataRecord::FenceBroker(FenceBrokerRecord { broker_id, epoch });
        (record, elections.leave(broker_id, Leaving::Away))
    } else {
        let record = MetadataRecord::UnfenceBroker(UnfenceBrokerRecord { broker_id, epoch });
        (record, elections.balance())
    };
    std::iter::once(record).chain(elected).collect()
}

/// The records that take a broker out of the cluster, with the elections that follow. Its
/// replicas stay its own: a broker that takes its id over fills them, wherever they were.
///
/// # Errors
/// There is no such broker, or no other one serves.
pub fn unregister(image: &MetadataImage, broker_id: i32) -> Result<Vec<MetadataRecord>, ApiError> {
    let Some(broker) = image.brokers.get(&broker_id) else {
        let message = format!("Broker ID {broker_id} is not currently registered");
        return Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, message));
    };
    if image.is_alive(broker_id) && image.alive_brokers().count() == 1 {
        let message = format!("Broker {broker_id} is the only one that serves; it cannot leave.");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let is_alive = |id| id != broker_id && image.is_alive(id);
    let elections = Elections { image, is_alive: &is_alive };
    let record = UnregisterBrokerRecord { broker_id, epoch: broker.epoch };
    let mut records = elections.leave(broker_id, Leaving::Restarted);
    records.push(MetadataRecord::UnregisterBroker(record));
    with_lost(image, records, broker_id, |_| true)
}

/// The record of what an operator says of a broker's vote; none if it was said before.
///
/// # Errors
/// There is no such broker with this directory.
pub fn set_voting(
    image: &MetadataImage,
    (broker_id, quorum_dir): (i32, Uuid),
    voting: Voting,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let broker = image.brokers.get(&broker_id);
    let Some(broker) = broker.filter(|broker| broker.quorum_dir == quorum_dir) else {
        let message = format!(
            "No broker {broker_id} with the directory {quorum_dir} is registered. Start it first: \
             a broker joins with serve --join."
        );
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    };
    let record = SetVotingRecord { broker_id, quorum_dir, voting: voting.code() };
    let is_new = broker.voting != voting;
    Ok(is_new.then_some(MetadataRecord::SetVoting(record)).into_iter().collect())
}

/// The records that take a broker in. One that asks again, from the same directory, gets the id
/// that it has.
pub fn join(
    image: &MetadataImage,
    joining: &Joining,
) -> Result<(Vec<MetadataRecord>, Joined), ApiError> {
    let refused = |code, message: String| Err(ApiError::new(code, message));
    if let Some(other) = joining.cluster_id.as_ref().filter(|id| ***id != *image.cluster_id) {
        let message = format!(
            "the data directory belongs to cluster {other}, this is cluster {}",
            image.cluster_id
        );
        return refused(ErrorCode::InconsistentClusterId, message);
    }
    let is_long = |one: &ListenerRecord| one.name.len() > MAX_TEXT || one.host.len() > MAX_TEXT;
    let is_odd = !(1..=MAX_LISTENERS).contains(&joining.listeners.len())
        || joining.listeners.iter().any(is_long)
        || joining.rack.as_ref().is_some_and(|rack| rack.len() > MAX_TEXT);
    if joining.quorum_dir.is_zero() || is_odd {
        let message = "a broker joins with the id of its directory and 1 to 64 listeners";
        return refused(ErrorCode::InvalidRequest, message.to_owned());
    }
    let same = image.brokers.values().find(|known| known.quorum_dir == joining.quorum_dir);
    let wanted = joining.broker_id.or(same.map(|known| known.id));
    let broker_id = wanted.unwrap_or_else(|| next_id(image));
    if broker_id < 0 {
        return refused(ErrorCode::InvalidRequest, format!("node.id cannot be {broker_id}"));
    }
    let joined = Joined { cluster_id: image.cluster_id.to_string(), broker_id };
    let new = Registration {
        broker_id,
        listeners: joining.listeners.clone(),
        rack: joining.rack.clone(),
        log_dirs: vec![joining.quorum_dir],
        has_all_dirs: None,
        quorum_dir: joining.quorum_dir,
        fenced: true,
        clean_epoch: None,
        supported: joining.supported.clone(),
    };
    new.supported.fit(broker_id, image)?;
    match image.brokers.get(&broker_id) {
        None => Ok((register(image, &new), joined)),
        Some(known) if known.quorum_dir == joining.quorum_dir => Ok((Vec::new(), joined)),
        Some(known) if known.fenced => Ok((replace(image, known, &new)?, joined)),
        Some(_) => refused(
            ErrorCode::DuplicateBrokerRegistration,
            format!(
                "node.id {broker_id} belongs to a broker with another data directory, which is \
                 alive. A former life of this one counts as alive until its session is over"
            ),
        ),
    }
}

/// The records of a broker that comes back without the directory of its quorum: the disk was wiped
/// or replaced. What was there is lost, so its replicas begin again and fill from their leaders.
/// The last replica with all committed records stays lost instead: an empty one must not lead.
fn replace(
    image: &MetadataImage,
    known: &BrokerImage,
    new: &Registration,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let lost = Assignment::Directory(known.quorum_dir);
    with_lost(image, register(image, new), known.id, |noted| noted == lost)
}

/// `records`, and those that forget where the replicas of a broker were whose directories are lost.
/// The last one with all committed records is kept.
fn with_lost(
    image: &MetadataImage,
    records: Vec<MetadataRecord>,
    broker_id: i32,
    is_lost: impl Fn(Assignment) -> bool,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let (base_offset, epoch) = (image.offset + 1, image.epoch);
    let mut batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
    let after = image.with_batch(&batch)?;
    for topic in after.topics.iter() {
        for (partition_index, now) in (0..).zip(&topic.partitions) {
            let place = now.replicas.iter().position(|replica| *replica == broker_id);
            let is_noted = matches!(now.assignment(broker_id), Assignment::Directory(_));
            let is_gone = is_noted && is_lost(now.assignment(broker_id));
            let is_last =
                now.isr.contains(&broker_id) || now.isr.is_empty() && now.elr == [broker_id];
            let Some(place) = place.filter(|_| is_gone && !is_last) else { continue };
            let mut partition = PartitionRecord::from(now);
            partition.elr.retain(|id| *id != broker_id);
            partition.directories[place] = UNASSIGNED;
            if partition.last_leader == broker_id {
                partition.last_leader = -1;
            }
            partition.partition_epoch += 1;
            let change = PartitionChangeRecord { topic_id: topic.id, partition_index, partition };
            batch.records.push(MetadataRecord::PartitionChange(change));
        }
    }
    Ok(batch.records)
}

/// The id behind the greatest: the id of a broker that left is not given to another one while a
/// greater one is there. Behind the greatest id of all comes the first that is free. An id with
/// dynamic configs is not free: they were set for the broker that had it.
fn next_id(image: &MetadataImage) -> i32 {
    let is_free = |id: &i32| {
        !image.brokers.contains_key(id) && image.configs_of(&ConfigResource::broker(*id)).is_none()
    };
    let greatest = image.brokers.keys().next_back();
    let behind = greatest.map_or(1, |greatest| greatest.saturating_add(1));
    let mut free = (behind..i32::MAX).chain(1..i32::MAX).filter(is_free);
    free.next().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
