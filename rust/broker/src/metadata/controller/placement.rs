//! Which brokers hold a new partition.
//!
//! Brokers stand in a circle in which the racks take turns. Each partition starts one broker after
//! the one before, so leaders spread evenly. Its followers are the next brokers in racks
//! that it has not, then any. After each turn of the circle the followers begin one further on: two
//! brokers do not share all their partitions. Turns count the partitions of the whole cluster.
//! Fenced brokers follow where those that serve are too few, so topics are made while a broker
//! restarts.
//! Source: the role of Kafka's `StripedReplicaPlacer`.

use super::super::error::ApiError;
use super::super::image::{BrokerImage, MetadataImage, UNASSIGNED};
use super::super::records::PartitionRecord;
use kafkalite_protocol::ErrorCode;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Places `count` partitions, each on `replication_factor` brokers. `turn` partitions are placed
/// already.
///
/// # Errors
/// `INVALID_REPLICATION_FACTOR`: fewer brokers than that are registered, or none serves.
pub fn place(
    image: &MetadataImage,
    turn: usize,
    count: i32,
    replication_factor: i16,
) -> Result<Vec<PartitionRecord>, ApiError> {
    let wanted = usize::try_from(replication_factor).unwrap_or(0);
    let registered = image.brokers.len();
    let refuse = |reason: String| {
        let times = format!("Unable to replicate the partition {replication_factor} time(s)");
        Err(ApiError::new(ErrorCode::InvalidReplicationFactor, format!("{times}: {reason}")))
    };
    if wanted > registered || wanted == 0 {
        return refuse(format!(
            "The target replication factor of {replication_factor} cannot be reached because only \
             {registered} broker(s) are registered or some brokers have all their log directories \
             cordoned."
        ));
    }
    let serving = circle(image.alive_brokers());
    if serving.is_empty() {
        return refuse(
            "All brokers are currently fenced, or have all their log directories cordoned."
                .to_owned(),
        );
    }
    let fenced = circle(image.brokers.values().filter(|broker| broker.fenced));
    let partition = |turn: usize| {
        let mut chosen = replicas(&serving, turn, wanted.min(serving.len()));
        let isr = ids(&chosen);
        if chosen.len() < wanted {
            let (first, last) = fenced.split_at(turn % fenced.len());
            choose(&mut chosen, &[last, first].concat(), wanted);
        }
        PartitionRecord { isr, ..new_partition(ids(&chosen)) }
    };
    let count = usize::try_from(count).unwrap_or(0);
    Ok((turn..turn.saturating_add(count)).map(partition).collect())
}

/// A broker and its rack; one without a rack is a rack of its own.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    id: i32,
    rack: Result<&'a str, i32>,
}

fn ids(candidates: &[Candidate<'_>]) -> Vec<i32> {
    candidates.iter().map(|one| one.id).collect()
}

/// These brokers, one of each rack after the other.
fn circle<'a>(brokers: impl Iterator<Item = &'a BrokerImage>) -> Vec<Candidate<'a>> {
    let mut racks: BTreeMap<Result<&str, i32>, VecDeque<Candidate<'a>>> = BTreeMap::new();
    for broker in brokers {
        let rack = broker.rack.as_deref().ok_or(broker.id);
        racks.entry(rack).or_default().push_back(Candidate { id: broker.id, rack });
    }
    let mut circle = Vec::new();
    while !racks.is_empty() {
        circle.extend(racks.values_mut().filter_map(VecDeque::pop_front));
        racks.retain(|_, brokers| !brokers.is_empty());
    }
    circle
}

/// The replicas of the partition whose turn it is; `count` is at most the length of the circle.
fn replicas<'a>(circle: &[Candidate<'a>], turn: usize, count: usize) -> Vec<Candidate<'a>> {
    let leader = circle[turn % circle.len()];
    let others = circle.len().saturating_sub(1).max(1);
    let shift = turn / circle.len() % others;
    let followers = (0..others).map(|at| circle[(turn + 1 + (shift + at) % others) % circle.len()]);
    let followers: Vec<Candidate<'a>> = followers.collect();
    let mut chosen = vec![leader];
    choose(&mut chosen, &followers, count);
    chosen
}

/// Adds brokers in their order until `count` are chosen: first those in racks that no other one is
/// in.
fn choose<'a>(chosen: &mut Vec<Candidate<'a>>, among: &[Candidate<'a>], count: usize) {
    let mut racks: HashSet<_> = chosen.iter().map(|one| one.rack).collect();
    for may_repeat in [false, true] {
        for one in among {
            let is_new = !chosen.iter().any(|other| other.id == one.id);
            if chosen.len() < count && is_new && (may_repeat || racks.insert(one.rack)) {
                chosen.push(*one);
            }
        }
    }
}

/// The replicas `now` of the partition whose turn it is, with as many more on brokers that serve as
/// make `count`. They stand in the order of a new partition, so leaders spread evenly as well.
pub fn grown(image: &MetadataImage, turn: usize, now: &[i32], count: usize) -> Vec<i32> {
    let circle = circle(image.alive_brokers());
    if circle.is_empty() {
        return now.to_vec();
    }
    let order = ids(&replicas(&circle, turn, circle.len()));
    let candidate = |id: &i32| {
        let rack = image.brokers.get(id).and_then(|broker| broker.rack.as_deref());
        Candidate { id: *id, rack: rack.ok_or(*id) }
    };
    let among: Vec<Candidate<'_>> = order.iter().map(candidate).collect();
    let mut chosen = now.iter().map(candidate).collect();
    choose(&mut chosen, &among, count);
    let place = |one: &Candidate<'_>| order.iter().position(|id| *id == one.id);
    chosen.sort_by_key(|one| place(one).unwrap_or(usize::MAX));
    ids(&chosen)
}

/// A new, empty partition: all replicas are in sync, the first one leads, and each broker may
/// choose the directory of its replica.
fn new_partition(replicas: Vec<i32>) -> PartitionRecord {
    PartitionRecord {
        leader: replicas.first().copied().unwrap_or(-1),
        isr: replicas.clone(),
        directories: vec![UNASSIGNED; replicas.len()],
        replicas,
        ..PartitionRecord::default()
    }
}

/// A new partition where the request says. Replicas on fenced brokers are not in sync.
///
/// # Errors
/// `INVALID_REPLICA_ASSIGNMENT`: it cannot be there, or no broker of them serves.
pub fn assigned(
    image: &MetadataImage,
    index: i32,
    replicas: &[i32],
    replication_factor: Option<usize>,
) -> Result<PartitionRecord, ApiError> {
    validate_assignment(image, replicas, replication_factor)?;
    let isr: Vec<i32> = replicas.iter().copied().filter(|id| image.is_alive(*id)).collect();
    let Some(&leader) = isr.first() else {
        let message = format!(
            "All brokers specified in the manual partition assignment for partition {index} are \
             fenced or in controlled shutdown."
        );
        return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    };
    Ok(PartitionRecord { leader, isr, ..new_partition(replicas.to_vec()) })
}

/// Whether a partition can be put where the request says.
///
/// # Errors
/// `INVALID_REPLICA_ASSIGNMENT`.
pub fn validate_assignment(
    image: &MetadataImage,
    replicas: &[i32],
    replication_factor: Option<usize>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse(
            "The manual partition assignment includes an empty replica list.".to_owned(),
        );
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    for (at, id) in sorted.iter().enumerate() {
        if !image.brokers.contains_key(id) {
            return refuse(format!(
                "The manual partition assignment includes broker {id}, but no such broker is \
                 registered."
            ));
        }
        if at > 0 && sorted[at - 1] == *id {
            return refuse(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
    }
    match replication_factor {
        Some(expected) if expected != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is \
             not consistent with previous partitions, which have {expected} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
