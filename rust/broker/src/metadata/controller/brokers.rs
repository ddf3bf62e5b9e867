//! Which brokers belong to the cluster, and which of them serve.
//!
//! Source: the roles of Kafka's `ClusterControlManager`; the ids of brokers that join are ours.

use super::super::error::ApiError;
use super::super::image::{BrokerImage, MetadataImage};
use super::super::records::{
    FenceBrokerRecord, ListenerRecord, MetadataRecord, RaiseLeaderEpochsRecord,
    RegisterBrokerRecord, UnfenceBrokerRecord,
};
use super::elections::{Elections, Leaving};
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
    /// The directory of its part of the controller quorum; zero for a broker without company.
    pub quorum_dir: Uuid,
    /// Whether it does not serve yet. It leads nothing until it does.
    pub fenced: bool,
    /// The epoch of its last life, if that one ended with all logs on the disk.
    pub clean_epoch: Option<i64>,
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
}

/// The answer to a broker that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster_id: String,
    /// The broker's id in it.
    pub broker_id: i32,
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
    log_dirs.sort();
    log_dirs.dedup();
    let record = RegisterBrokerRecord {
        broker_id,
        epoch: -1,
        rack: broker.rack.clone(),
        listeners: broker.listeners.clone(),
        log_dirs,
        fenced: broker.fenced,
        quorum_dir: broker.quorum_dir,
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
    match image.brokers.get(&broker_id) {
        Some(known) if known.quorum_dir != joining.quorum_dir => refused(
            ErrorCode::DuplicateBrokerRegistration,
            format!("node.id {broker_id} belongs to a broker with another data directory"),
        ),
        Some(known) if known.listeners == joining.listeners => Ok((Vec::new(), joined)),
        _ => {
            let broker = Registration {
                broker_id,
                listeners: joining.listeners.clone(),
                rack: joining.rack.clone(),
                log_dirs: vec![joining.quorum_dir],
                quorum_dir: joining.quorum_dir,
                fenced: true,
                clean_epoch: None,
            };
            Ok((register(image, &broker), joined))
        }
    }
}

/// The id behind the greatest: the id of a broker that left is not given to another one while a
/// greater one is there.
fn next_id(image: &MetadataImage) -> i32 {
    image.brokers.keys().next_back().map_or(1, |greatest| greatest.saturating_add(1))
}

#[cfg(test)]
mod tests;
