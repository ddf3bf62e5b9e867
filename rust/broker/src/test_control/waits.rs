//! What an open request waits for.

use std::sync::Arc;

use kafkalite_protocol::ApiKey;
use serde_json::{Value, json};

use super::explain::{Said, Scene};
use super::seen::{Hit, Seen};
use super::spec::{Kind, Stage};
use super::words::{among, span};
use crate::clock::NS_PER_MS;
use crate::coordinator::classic::group_state::Rebalance;
use crate::purgatory::{Caught, Unsafe, Wait, WaitsFor};

/// Partitions and members that a sentence names.
const MOST_NAMED: usize = 3;

/// Why an open request has no answer; `None`: it has one by now. `ahead` is an older open request
/// of the same connection.
pub(super) fn of_open(scene: &Scene<'_>, seen: &Seen, ahead: Option<&Arc<Seen>>) -> Option<Said> {
    let progress = seen.progress();
    if progress.ended.is_some() {
        return None;
    }
    let since_ms = scene.since_ms(seen.started_ns);
    let mut said = held(scene, seen, &progress.hits)
        .or_else(|| parked(scene, seen))
        .or_else(|| rebalancing(scene, seen))
        .or_else(|| behind(scene, seen, ahead))
        .unwrap_or_else(|| at_work(scene, seen, progress.handled_ns.is_some()));
    if let Value::Object(facts) = &mut said.facts {
        facts.insert("api".to_owned(), seen.api.name().into());
        facts.insert("version".to_owned(), seen.version.into());
        facts.insert("correlation_id".to_owned(), seen.correlation_id.into());
        facts.insert("waits_ms".to_owned(), since_ms.into());
    }
    Some(said)
}

/// A fault holds it, or its answer: the last one that struck it, since that one let it go no
/// further.
fn held(scene: &Scene<'_>, seen: &Seen, hits: &[Hit]) -> Option<Said> {
    // A delay that is over holds nothing. What waits now does so in the broker.
    let is_there = |hit: &&Hit| hit.kind != Kind::Delay || hit.until_ns() > scene.now_ns;
    let hit = hits.last().filter(is_there)?;
    let fault = scene.fault(hit.fault)?;
    let api = seen.api.name();
    let since = span(scene.since_ms(seen.started_ns));
    let id = fault.id;
    let left_ms = (hit.kind == Kind::Delay)
        .then(|| hit.until_ns().saturating_sub(scene.now_ns).div_ceil(NS_PER_MS));
    let says = match hit.kind {
        Kind::Blackhole => format!("fault {id} (blackhole) swallowed its {api} {since} ago"),
        Kind::DropResponse => {
            format!("fault {id} (drop_response) keeps the answer to its {api} of {since} ago")
        }
        Kind::Delay => {
            let left = span(left_ms.unwrap_or(0));
            format!("fault {id} (delay) holds its {api}: {left} are left")
        }
        Kind::Stall => format!("fault {id} (stall) holds its {api} since {since}"),
        _ => return None,
    };
    let facts = json!({"fault": id, "fault_kind": hit.kind, "left_ms": left_ms});
    let todo = format!("remove fault {id}");
    Some(Said { kind: "held_by_fault", says, todo, facts })
}

/// It waits in purgatory.
fn parked(scene: &Scene<'_>, seen: &Seen) -> Option<Said> {
    let is_its = |wait: &&Wait| {
        let asker = wait.asker;
        asker.connection_id == seen.connection_id && asker.correlation_id == seen.correlation_id
    };
    let wait = scene.waits.iter().find(is_its)?;
    let progress = seen.progress();
    let delays = progress.hits.iter().filter(|hit| hit.kind == Kind::Delay);
    let late_ns = delays.map(Hit::until_ns).max();
    // A delay before the handler counts for nothing: the wait began behind it.
    let began_ns = late_ns.unwrap_or(0).min(scene.now_ns).max(seen.started_ns);
    let left_ms = wait.timeout_ms.saturating_sub(scene.since_ms(began_ns));
    Some(match &wait.waits_for {
        WaitsFor::Bytes { min_bytes, bytes, partitions } => {
            for_bytes(*min_bytes, *bytes, partitions, left_ms)
        }
        WaitsFor::Replicas { batches } => for_replicas(batches, left_ms),
    })
}

fn for_bytes(min_bytes: u64, bytes: Option<u64>, caught: &[Caught], left_ms: u64) -> Said {
    let names = caught.iter().map(|one| format!("{}-{}", one.topic, one.partition));
    let names = among(names, MOST_NAMED);
    let left = span(left_ms);
    let there = bytes.unwrap_or(0);
    let is_at_end = caught.iter().all(|one| one.fetch_offset >= one.readable_end);
    let says = if is_at_end {
        format!(
            "its Fetch waits for {min_bytes} bytes: it has every record of {names}. It is answered \
             after {left} at the latest"
        )
    } else {
        format!(
            "its Fetch waits for {min_bytes} bytes of {names}: {there} are there. It is answered \
             after {left} at the latest"
        )
    };
    let todo = if is_at_end {
        "produce records to these partitions, or see that the client reads the right ones"
    } else {
        "produce more, or lower fetch.min.bytes or fetch.max.wait.ms of the client"
    };
    let partitions: Vec<Value> = caught
        .iter()
        .map(|one| {
            json!({
                "topic": &*one.topic,
                "partition": one.partition,
                "fetch_offset": one.fetch_offset,
                "readable_end": one.readable_end,
            })
        })
        .collect();
    let facts = json!({
        "min_bytes": min_bytes, "bytes": bytes, "left_ms": left_ms, "partitions": partitions,
    });
    Said { kind: "waiting_for_bytes", says, todo: todo.to_owned(), facts }
}

fn for_replicas(batches: &[Unsafe], left_ms: u64) -> Said {
    let mut lacking: Vec<i32> =
        batches.iter().flat_map(|batch| &batch.followers).map(|(id, _)| *id).collect();
    lacking.sort_unstable();
    lacking.dedup();
    let names = batches.iter().map(|one| format!("{}-{}", one.topic, one.partition));
    let names = among(names, MOST_NAMED);
    let left = span(left_ms);
    let (kind, waits, todo) = if !lacking.is_empty() {
        let brokers = among(lacking.iter().map(i32::to_string), MOST_NAMED);
        let waits = format!("waits for broker {brokers} to store its records of {names}");
        let todo = "see why these followers do not fetch: are they alive and reachable?";
        ("waiting_for_followers", waits, todo)
    } else if batches.iter().any(|batch| batch.is_under_min) {
        let waits = format!("waits for min.insync.replicas of {names}");
        ("waiting_for_followers", waits, "start the brokers that are missing")
    } else {
        let waits = format!("waits for this broker's disk to store its records of {names}");
        ("waiting_for_disk", waits, "see flush.messages of the topic, and how slow the disk is")
    };
    let batches: Vec<Value> = batches
        .iter()
        .map(|one| {
            let followers = one.followers.iter();
            let followers = followers.map(|(id, end)| json!({"broker": id, "end_offset": end}));
            json!({
                "topic": &*one.topic,
                "partition": one.partition,
                "end_offset": one.end_offset,
                "high_watermark": one.high_watermark,
                "leader_end_offset": one.leader_end,
                "is_under_min_insync_replicas": one.is_under_min,
                "followers": followers.collect::<Vec<_>>(),
            })
        })
        .collect();
    Said {
        kind,
        says: format!("its Produce {waits}. It gets REQUEST_TIMED_OUT after {left}"),
        todo: todo.to_owned(),
        facts: json!({"batches": batches, "left_ms": left_ms}),
    }
}

/// Its group rebalances.
fn rebalancing(scene: &Scene<'_>, seen: &Seen) -> Option<Said> {
    if !matches!(seen.api, ApiKey::JoinGroup | ApiKey::SyncGroup) {
        return None;
    }
    let group = seen.group.as_deref()?;
    let rebalance = scene.rooms.groups.rebalance(group)?;
    Some(rebalance_told(group, &rebalance))
}

/// A rebalance in words.
pub(super) fn rebalance_told(group: &str, rebalance: &Rebalance) -> Said {
    let names = rebalance.missing.iter().map(|member| {
        let (id, client) = (&member.member_id, &member.client_id);
        format!("member {id} (client {client} at {})", member.client_host.trim_start_matches('/'))
    });
    let names = among(names, MOST_NAMED);
    let since = rebalance
        .since_ms
        .map_or_else(String::new, |ms| format!(" since {}", span(u64::try_from(ms).unwrap_or(0))));
    let left = rebalance.until_ms.and_then(|ms| u64::try_from(ms).ok());
    let left = left.map_or_else(String::new, |ms| format!(", for {} more at most", span(ms)));
    let (why, todo) = if rebalance.is_first {
        let todo = "wait, or lower group.initial.rebalance.delay.ms of the broker";
        ("it waits for more members of a new group".to_owned(), todo)
    } else if rebalance.missing.is_empty() && rebalance.ids_not_used > 0 {
        let why = format!(
            "{} member ids were given out and have not joined with them",
            rebalance.ids_not_used
        );
        (why, "see why these clients do not join: their programs have to poll")
    } else if rebalance.missing.is_empty() {
        ("its outcome is being stored".to_owned(), "see the followers of __consumer_offsets")
    } else if rebalance.state == "PreparingRebalance" {
        let todo = "see why that member does not poll; it joins when its program calls poll()";
        (format!("{names} has not joined"), todo)
    } else {
        let todo = "see why the leader of the group does not send the assignment";
        (format!("{names} leads it and has not sent the assignment"), todo)
    };
    let missing: Vec<Value> = rebalance
        .missing
        .iter()
        .map(|member| {
            json!({
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
            })
        })
        .collect();
    Said {
        kind: "rebalancing",
        says: format!("group {group} is rebalancing{since}{left}: {why}"),
        todo: todo.to_owned(),
        facts: json!({
            "group": group,
            "state": rebalance.state,
            "generation": rebalance.generation,
            "members": rebalance.members,
            "since_ms": rebalance.since_ms,
            "left_ms": rebalance.until_ms,
            "missing": missing,
            "member_ids_not_used": rebalance.ids_not_used,
        }),
    }
}

/// An older request of its connection is held before its handler.
fn behind(scene: &Scene<'_>, seen: &Seen, ahead: Option<&Arc<Seen>>) -> Option<Said> {
    let ahead = ahead?;
    let progress = ahead.progress();
    let held = held(scene, ahead, &progress.hits)?;
    if progress.ended.is_some() || progress.handled_ns.is_some() {
        return None;
    }
    let (api, first) = (seen.api.name(), ahead.api.name());
    Some(Said {
        kind: "behind",
        says: format!("its {api} waits behind its {first}: {}", held.says),
        todo: held.todo,
        facts: json!({"behind": ahead.correlation_id}),
    })
}

/// It is in its handler, or waits for something that has no words of its own.
fn at_work(scene: &Scene<'_>, seen: &Seen, is_handled: bool) -> Said {
    let api = seen.api.name();
    let since = span(scene.since_ms(seen.started_ns));
    if let Some(fault) = scene.stalls(Stage::Log).filter(|_| !is_handled) {
        let id = fault.id;
        return Said {
            kind: "stalled",
            says: format!("fault {id} stops the log: its {api} waits since {since}"),
            todo: format!("remove fault {id}"),
            facts: json!({"fault": id, "stage": Stage::Log}),
        };
    }
    let what = if is_handled { "waits in the broker" } else { "is at work in the broker" };
    let todo = "look into /api/v1/requests?kind=waiting and the log of the broker";
    Said {
        kind: "at_work",
        says: format!("its {api} {what} since {since}"),
        todo: todo.to_owned(),
        facts: json!({"is_handled": is_handled}),
    }
}
