//! Leaders and coordinators that move, as their clients see it.
//!
//! A leader moves to another in-sync replica, by a record of the metadata like any election.
//! Without another replica the same broker leads on in a higher epoch: so it is when a leader moved
//! away and back. Faults then answer with the errors that clients would have met meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafkalite_protocol::ErrorCode;
use serde::{Deserialize, Serialize};

use super::TestControl;
use super::refusal::Refused;
use super::spec::{Kind, Spec};
use super::trigger::Random;
use crate::coordinator::partition_of;
use crate::handlers::Rooms;
use crate::metadata::controller::{ElectionKind, OFFSETS_TOPIC};
use crate::metadata::{MetadataImage, PartitionImage};

/// Errors that clients of a leader get meanwhile, of each API, if its mover does not say.
const USUAL_TIMES: u64 = 1;
/// Requests that a leader answers alone.
const OF_LEADERS: [&str; 3] = ["Produce", "Fetch", "ListOffsets"];
/// Requests that a coordinator answers alone.
const OF_COORDINATORS: [&str; 6] =
    ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"];

/// The leader of a partition is to move.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    topic: String,
    partition: i32,
    /// To this broker; without it to the next one in sync.
    #[serde(default)]
    to: Option<i32>,
    #[serde(default)]
    times: Option<u64>,
}

/// The leaders of all partitions are to move.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Shuffle {
    /// Of this topic alone; without it of every topic but internal ones.
    topic: Option<String>,
    /// The same seed gives the same leaders.
    seed: u64,
    times: Option<u64>,
}

/// The coordinator of a group is to move.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveCoordinator {
    group: String,
    #[serde(default)]
    to: Option<i32>,
    #[serde(default)]
    times: Option<u64>,
}

/// A leader that moved.
#[derive(Debug, Serialize)]
pub(super) struct Moved {
    topic: String,
    partition: i32,
    from: i32,
    to: i32,
    leader_epoch: i32,
}

/// What moved, and the faults that are part of it.
#[derive(Debug, Serialize)]
pub(super) struct Moves {
    moved: Vec<Moved>,
    faults: Vec<u64>,
}

/// A partition, and the broker that shall lead it.
struct Target {
    topic: Arc<str>,
    partition: i32,
    from: i32,
    to: i32,
}

const WHAT: &str = "the leader does not move";

fn unknown(why: String) -> Refused {
    let (what, hint) = (WHAT.to_owned(), "GET /api/v1/topics lists the topics.".to_owned());
    Refused { status: 404, what, why, hint }
}

/// The in-sync replicas that are alive, from the one behind the leader on. The leader comes last.
fn candidates(image: &MetadataImage, now: &PartitionImage) -> Vec<i32> {
    let place = now.replicas.iter().position(|id| *id == now.leader).map_or(0, |at| at + 1);
    let round = now.replicas.iter().cycle().skip(place).take(now.replicas.len());
    round.copied().filter(|id| now.isr.contains(id) && image.is_alive(*id)).collect()
}

fn target(
    image: &MetadataImage,
    (topic, partition): (&str, i32),
    to: Option<i32>,
) -> Result<Target, Refused> {
    let found = image.topic(topic).ok_or_else(|| unknown(format!("there is no topic {topic}")))?;
    let now = found.partition(partition);
    let now = now.ok_or_else(|| unknown(format!("topic {topic} has no partition {partition}")))?;
    let candidates = candidates(image, now);
    let to = match to {
        Some(to) if candidates.contains(&to) => to,
        None if !candidates.is_empty() => candidates[0],
        _ => {
            let why = format!(
                "broker {} is no living in-sync replica of {topic}-{partition}",
                to.map_or_else(|| "-".to_owned(), |to| to.to_string())
            );
            let hint = format!("give one of {candidates:?}, or none.");
            return Err(Refused::bad(WHAT, why, hint));
        }
    };
    Ok(Target { topic: Arc::clone(&found.name), partition, from: now.leader, to })
}

impl TestControl {
    /// Moves the leader of a partition.
    pub(super) fn move_leader(&self, wanted: &Move) -> Result<Moves, Refused> {
        let rooms = self.rooms().ok_or_else(Refused::not_running)?;
        let place = (wanted.topic.as_str(), wanted.partition);
        let target = target(&rooms.controller.image(), place, wanted.to)?;
        let mut moves = elect(&rooms, vec![target])?;
        let topic = Some((&wanted.topic, Some(wanted.partition)));
        self.add_errors(&mut moves, |api| of_leader(api, topic), &OF_LEADERS, wanted.times)?;
        Ok(moves)
    }

    /// Moves the leaders of all partitions, each to one of its in-sync replicas.
    pub(super) fn shuffle_leaders(&self, wanted: &Shuffle) -> Result<Moves, Refused> {
        let rooms = self.rooms().ok_or_else(Refused::not_running)?;
        let image = rooms.controller.image();
        if let Some(topic) = &wanted.topic
            && image.topic(topic).is_none()
        {
            return Err(unknown(format!("there is no topic {topic}")));
        }
        let mut random = Random::new(wanted.seed);
        let is_meant = |name: &str, internal: bool| match &wanted.topic {
            Some(topic) => topic == name,
            None => !internal,
        };
        let mut topics: Vec<_> =
            image.topics.iter().filter(|topic| is_meant(&topic.name, topic.internal)).collect();
        // In the order of names, so that a seed says all.
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        let mut targets = Vec::new();
        for topic in topics {
            for (now, partition) in topic.partitions.iter().zip(0..) {
                let candidates = candidates(&image, now);
                // Who leads stays where no other replica is in sync.
                let others = candidates.iter().copied().filter(|id| *id != now.leader);
                let others: Vec<i32> = others.collect();
                let among = if others.is_empty() { &candidates } else { &others };
                let Some(to) = random.pick(among) else { continue };
                let (topic, from) = (Arc::clone(&topic.name), now.leader);
                targets.push(Target { topic, partition, from, to });
            }
        }
        let mut moves = elect(&rooms, targets)?;
        let topic = wanted.topic.as_ref().map(|topic| (topic, None));
        self.add_errors(&mut moves, |api| of_leader(api, topic), &OF_LEADERS, wanted.times)?;
        Ok(moves)
    }

    /// Moves the coordinator of a group: the leader of the partition that has its offsets.
    pub(super) fn move_coordinator(&self, wanted: &MoveCoordinator) -> Result<Moves, Refused> {
        let rooms = self.rooms().ok_or_else(Refused::not_running)?;
        let image = rooms.controller.image();
        let offsets = image.topic(OFFSETS_TOPIC).ok_or_else(|| {
            let why = "no group has a coordinator yet: there is no topic for offsets".to_owned();
            Refused { hint: "let the group join first.".to_owned(), ..unknown(why) }
        })?;
        let partition = partition_of(&wanted.group, offsets.partition_count());
        let target = target(&image, (OFFSETS_TOPIC, partition), wanted.to)?;
        let mut moves = elect(&rooms, vec![target])?;
        let of_group = |api: &str| {
            let group = Some(wanted.group.clone());
            Spec { group, ..Spec::error(api, ErrorCode::NotCoordinator.name()) }
        };
        self.add_errors(&mut moves, of_group, &OF_COORDINATORS, wanted.times)?;
        Ok(moves)
    }

    /// Adds the errors of leaders that stayed where they were.
    fn add_errors(
        &self,
        moves: &mut Moves,
        spec: impl Fn(&str) -> Spec,
        apis: &[&str],
        times: Option<u64>,
    ) -> Result<(), Refused> {
        let times = times.unwrap_or(USUAL_TIMES);
        if times == 0 || !moves.moved.iter().any(|moved| moved.from == moved.to) {
            return Ok(());
        }
        for api in apis {
            let spec = Spec { times: Some(times), ..spec(api) };
            moves.faults.push(self.add(spec.check()?)?.id);
        }
        Ok(())
    }
}

fn of_leader(api: &str, topic: Option<(&String, Option<i32>)>) -> Spec {
    let (name, partition) = topic.unzip();
    let partition = partition.flatten();
    let error = Spec::error(api, ErrorCode::NotLeaderOrFollower.name());
    Spec { topic: name.cloned(), partition, ..error }
}

/// Has the controller elect these leaders; it returns when they lead.
fn elect(rooms: &Rooms, targets: Vec<Target>) -> Result<Moves, Refused> {
    let mut by_leader: BTreeMap<i32, Vec<(Arc<str>, i32)>> = BTreeMap::new();
    for target in &targets {
        let place = (Arc::clone(&target.topic), target.partition);
        by_leader.entry(target.to).or_default().push(place);
    }
    for (to, places) in by_leader {
        let answers = rooms.controller.blocking().elect_leaders(ElectionKind::Named(to), places);
        if let Some(error) = answers.into_iter().find_map(Result::err) {
            let why = error.message.unwrap_or_else(|| error.code.name().to_owned());
            return Err(Refused::bad(WHAT, why, "see which replicas are in sync."));
        }
    }
    let image = rooms.controller.image();
    let moved = targets.into_iter().map(|target| Moved {
        leader_epoch: image
            .partition(&target.topic, target.partition)
            .map_or(-1, |now| now.leader_epoch.0),
        topic: target.topic.to_string(),
        partition: target.partition,
        from: target.from,
        to: target.to,
    });
    Ok(Moves { moved: moved.collect(), faults: Vec::new() })
}

impl Spec {
    /// An error of an API.
    pub(super) fn error(api: &str, error: &str) -> Self {
        let (api, error) = (Some(api.to_owned()), Some(error.to_owned()));
        Self { kind: Kind::Error, api, error, ..Self::default() }
    }
}
