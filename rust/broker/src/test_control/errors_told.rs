//! Errors that a client gets again and again, or that end it.

use kafkalite_protocol::{ApiKey, ErrorCode};
use serde_json::{Value, json};

use super::explain::{Said, Scene};
use super::seen::Streak;
use super::waits::rebalance_told;
use super::words::{among, span};
use crate::metadata::PartitionImage;

/// Partitions that a sentence names.
const MOST_NAMED: usize = 3;
/// From so many times on, an error that a client tries again upon is worth a word.
const AGAIN: u64 = 2;

/// The reasons behind the errors of a connection; those with one cause are put together.
pub(super) fn of_streaks(scene: &Scene<'_>, streaks: &[&Streak]) -> Vec<Said> {
    let mut left: Vec<&Streak> = streaks.to_vec();
    let mut said = Vec::new();
    while let Some(first) = left.first().copied() {
        let is_same = |other: &&Streak| {
            (other.api, other.code, other.fault) == (first.api, first.code, first.fault)
        };
        let (together, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(is_same);
        said.extend(of_one_error(scene, &together));
        left = rest;
    }
    said
}

fn of_one_error(scene: &Scene<'_>, streaks: &[&Streak]) -> Option<Said> {
    let first = streaks.first()?;
    let times = streaks.iter().map(|streak| streak.times).max().unwrap_or(0);
    let error = ErrorCode::from_code(first.code);
    if let Some(fault) = first.fault {
        let todo = match scene.fault(fault) {
            Some(fault) if fault.is_spent() => {
                "wait for the client to try again: the fault strikes no more".to_owned()
            }
            Some(_) => format!("remove fault {fault}"),
            None => "wait for the client to try again: the fault is gone".to_owned(),
        };
        let what = told(scene, streaks);
        let says = format!("fault {fault} answered {what}");
        let mut said = Said { kind: "error_by_fault", says, todo, facts: facts(scene, streaks) };
        said.facts["fault"] = fault.into();
        return Some(said);
    }
    match error {
        ErrorCode::UnknownMemberId if is_of_no_member(first) => Some(not_a_member(scene, streaks)),
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId if times >= AGAIN => {
            Some(unknown_topic(scene, streaks))
        }
        ErrorCode::LeaderNotAvailable | ErrorCode::NotLeaderOrFollower => {
            no_leader(scene, streaks).or_else(|| refused(scene, streaks, times))
        }
        ErrorCode::InvalidProducerEpoch
        | ErrorCode::ProducerFenced
        | ErrorCode::FencedInstanceId
        | ErrorCode::IllegalGeneration
        | ErrorCode::UnknownMemberId => Some(fenced(scene, streaks, error)),
        ErrorCode::RebalanceInProgress => must_rejoin(scene, first),
        _ => refused(scene, streaks, times),
    }
}

/// What was answered to what, how often and when last.
fn told(scene: &Scene<'_>, streaks: &[&Streak]) -> String {
    let Some(first) = streaks.first() else { return String::new() };
    let names = streaks.iter().filter_map(|streak| {
        let topic = streak.part.topic.as_ref()?;
        let partition = streak.part.partition;
        Some(partition.map_or_else(|| topic.to_string(), |index| format!("{topic}-{index}")))
    });
    let names: Vec<String> = names.collect();
    let of = match names.as_slice() {
        [] => String::new(),
        names => format!(" for {}", among(names.iter(), MOST_NAMED)),
    };
    let times = streaks.iter().map(|streak| streak.times).max().unwrap_or(0);
    let last_ns = streaks.iter().map(|streak| streak.last_ns).max().unwrap_or(0);
    let (api, error) = (first.api.name(), ErrorCode::from_code(first.code).name());
    let ago = span(scene.since_ms(last_ns));
    match times {
        1 => format!("{error} to its {api}{of} {ago} ago"),
        _ => format!("{error} to its {api}{of}, {times} times in a row, last {ago} ago"),
    }
}

fn facts(scene: &Scene<'_>, streaks: &[&Streak]) -> Value {
    let Some(first) = streaks.first() else { return json!({}) };
    let partitions: Vec<Value> = streaks
        .iter()
        .filter_map(|streak| {
            let topic = streak.part.topic.as_deref()?;
            Some(json!({"topic": topic, "partition": streak.part.partition}))
        })
        .collect();
    let first_ns = streaks.iter().map(|streak| streak.first_ns).min().unwrap_or(0);
    let last_ns = streaks.iter().map(|streak| streak.last_ns).max().unwrap_or(0);
    json!({
        "api": first.api.name(),
        "error": ErrorCode::from_code(first.code).name(),
        "partitions": partitions,
        "times": streaks.iter().map(|streak| streak.times).max(),
        "since_ms": scene.since_ms(first_ns),
        "last_ms_ago": scene.since_ms(last_ns),
    })
}

fn unknown_topic(scene: &Scene<'_>, streaks: &[&Streak]) -> Said {
    let mut facts = facts(scene, streaks);
    let topics = streaks.iter().filter_map(|streak| streak.part.topic.as_deref());
    let there = topics.filter_map(|topic| scene.image.topic(topic)).next();
    let (says, todo) = match there {
        Some(topic) => {
            let count = topic.partition_count();
            let says = format!("topic {} is there by now, with {count} partitions", topic.name);
            let todo = "wait for the client to ask again, and compare the partitions it uses";
            facts["partition_count"] = count.into();
            (says, todo)
        }
        None => {
            let says = "the topic does not exist on this broker".to_owned();
            (says, "create the topic, set auto.create.topics.enable, or correct the name")
        }
    };
    facts["exists"] = there.is_some().into();
    let says = format!("{says}: {}", told(scene, streaks));
    Said { kind: "unknown_topic", says, todo: todo.to_owned(), facts }
}

/// The partitions that a streak is about, as the metadata have them.
fn images<'a>(scene: &'a Scene<'_>, streak: &Streak) -> Vec<(String, i32, &'a PartitionImage)> {
    let topic = streak.part.topic.as_deref().and_then(|name| scene.image.topic(name));
    let Some(topic) = topic else { return Vec::new() };
    let is_meant = |index: i32| streak.part.partition.is_none_or(|wanted| wanted == index);
    let all = topic.partitions.iter().zip(0..).filter(|(_, index)| is_meant(*index));
    all.map(|(image, index)| (topic.name.to_string(), index, image)).collect()
}

/// Partitions without a leader at this moment; `None`: all have one.
fn no_leader(scene: &Scene<'_>, streaks: &[&Streak]) -> Option<Said> {
    let all = streaks.iter().flat_map(|streak| images(scene, streak));
    let leaderless: Vec<_> = all.filter(|(_, _, image)| image.leader < 0).collect();
    let (_, _, first) = leaderless.first()?;
    let names = leaderless.iter().map(|(topic, index, _)| format!("{topic}-{index}"));
    let names = among(names, MOST_NAMED);
    let is_alive = |id: &i32| scene.image.brokers.get(id).is_some_and(|broker| !broker.fenced);
    // An eligible replica has every committed record as well (KIP-966).
    let eligible: Vec<i32> = first.isr.iter().chain(&first.elr).copied().collect();
    let dead: Vec<i32> = eligible.iter().copied().filter(|id| !is_alive(id)).collect();
    let names_of = |ids: &[i32]| among(ids.iter().map(i32::to_string), MOST_NAMED);
    let mut facts = facts(scene, streaks);
    let told: Vec<Value> = leaderless
        .iter()
        .map(|(topic, index, image)| {
            json!({
                "topic": topic, "partition": index, "leader_epoch": image.leader_epoch.0,
                "replicas": image.replicas, "isr": image.isr,
                "elr": image.elr,
            })
        })
        .collect();
    (facts["leaderless"], facts["brokers_that_are_gone"]) = (told.into(), dead.clone().into());
    let todo = match dead.as_slice() {
        [] => "look into the log of the controller: no broker that may lead is down".to_owned(),
        dead => format!("start broker {}", names_of(dead)),
    };
    let says = format!(
        "{names} has no leader: broker {} alone may lead. The broker answered {}",
        names_of(&eligible),
        self::told(scene, streaks)
    );
    Some(Said { kind: "no_leader", says, todo, facts })
}

fn fenced(scene: &Scene<'_>, streaks: &[&Streak], error: ErrorCode) -> Said {
    let (what, says, todo) = match error {
        ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => (
            "producer_epoch",
            "another producer goes on under its producer id in a newer epoch, so no record of this \
             one is taken",
            "close this producer and make a new one; after a reset of the broker every client has \
             to be new",
        ),
        ErrorCode::FencedInstanceId => (
            "group_instance_id",
            "another member has its group.instance.id",
            "give each member a group.instance.id of its own, or close one of the two",
        ),
        ErrorCode::IllegalGeneration => (
            "generation",
            "its generation is stale: the group rebalanced without it",
            "let it join again: its program has to call poll() in max.poll.interval.ms",
        ),
        _ => (
            "member_id",
            "the group does not know its member id: its session ended, or it left",
            "let it join again; raise session.timeout.ms if it was only slow",
        ),
    };
    let mut facts = facts(scene, streaks);
    facts["fenced"] = what.into();
    if let Some(first) = streaks.first() {
        facts["group"] = first.group.clone().into();
        facts["member_id"] = first.member.clone().into();
    }
    let says = format!("it is fenced: {says}. The broker answered {}", told(scene, streaks));
    Said { kind: "fenced", says, todo: todo.to_owned(), facts }
}

/// Whether a commit came from outside of its group: an admin client's, or one of a consumer that
/// chose its partitions itself.
fn is_of_no_member(streak: &Streak) -> bool {
    streak.api == ApiKey::OffsetCommit && streak.member.as_deref().is_none_or(str::is_empty)
}

fn not_a_member(scene: &Scene<'_>, streaks: &[&Streak]) -> Said {
    let mut facts = facts(scene, streaks);
    let group = streaks.first().and_then(|streak| streak.group.as_deref());
    facts["group"] = group.into();
    let group = group.unwrap_or_default();
    let says = format!(
        "it is no member of group {group}, and members alone commit while there are any. The \
         broker answered {}",
        told(scene, streaks)
    );
    let todo = format!("stop the members of group {group}, or commit as one of them");
    Said { kind: "refused", says, todo, facts }
}

/// A member that is to join again; `None`: the rebalance is over.
fn must_rejoin(scene: &Scene<'_>, streak: &Streak) -> Option<Said> {
    let group = streak.group.as_deref()?;
    let rebalance = scene.rooms.groups.rebalance(group)?;
    let mut said = rebalance_told(group, &rebalance);
    said.facts["member_id"] = streak.member.clone().into();
    Some(said)
}

/// Any other error that comes again and again.
fn refused(scene: &Scene<'_>, streaks: &[&Streak], times: u64) -> Option<Said> {
    let error = ErrorCode::from_code(streaks.first()?.code);
    let leaders = streaks.iter().flat_map(|streak| images(scene, streak));
    let leaders: Vec<i32> = leaders.map(|(_, _, image)| image.leader).collect();
    let mut facts = facts(scene, streaks);
    let todo = match (error, leaders.as_slice()) {
        (ErrorCode::NotLeaderOrFollower, [leader, ..]) => {
            facts["leader"] = (*leader).into();
            format!("the client has to ask for metadata and go to broker {leader}, the leader")
        }
        _ if error.is_retriable() => "the client tries again; see the log of the broker".to_owned(),
        _ => "correct the request: the client cannot succeed by trying again".to_owned(),
    };
    let says = format!("the broker answered {}", told(scene, streaks));
    (times >= AGAIN).then_some(Said { kind: "refused", says, todo, facts })
}
