//! `/groups` and `/groups/{id}`: the groups that this broker coordinates.
//!
//! Only replicas know the high watermark of a partition. Where this broker has none, lag is `null`,
//! and `partitions_elsewhere` counts what a sum leaves out. A follower may be behind. So in an
//! answer of all brokers, what this broker does not lead is elsewhere too (`lag`).

use std::collections::BTreeMap;

use axum::http::StatusCode;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use kafkalite_protocol::messages::list_groups::ListedGroup;
use serde::Serialize;

use super::asked::{Asked, ELSEWHERE};
use super::{AdminApi, Answer, json, lag};
use crate::admin_http::Refusal;
use crate::coordinator::{Committed, assigned_partitions};

/// The version of DescribeGroups whose answer is read here: one that says when there is no group.
const DESCRIBE_VERSION: i16 = 6;
/// Members of a group that are shown.
const MOST_MEMBERS: usize = 1_000;
/// Partitions of a member that are shown.
const MOST_ASSIGNED: usize = 1_000;

#[derive(Serialize)]
struct Listed {
    broker_id: i32,
    /// Groups that this broker coordinates.
    total: usize,
    matched: usize,
    /// Some groups are still being loaded.
    loading: bool,
    groups: Vec<Group>,
    /// What `after` has to be for the next page.
    next: Option<String>,
}

#[derive(Serialize)]
struct Group {
    id: String,
    state: String,
    protocol_type: String,
    members: usize,
    #[serde(flatten)]
    lag: Sum,
}

/// The lag of a group in all partitions.
#[derive(Default, Serialize)]
struct Sum {
    committed_partitions: usize,
    lag_records: i64,
    /// Partitions that `lag_records` leaves out: others have their replicas, or lead them.
    partitions_elsewhere: usize,
    /// What is committed of them, for another broker that asks those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<lag::Place>,
}

#[derive(Serialize)]
struct Described {
    broker_id: i32,
    id: String,
    state: String,
    protocol_type: String,
    protocol: String,
    #[serde(flatten)]
    lag: Sum,
    member_count: usize,
    /// The first members.
    members: Vec<Member>,
    offsets: Vec<CommittedOffset>,
    /// What `after` has to be for the next page of offsets.
    next: Option<usize>,
}

#[derive(Serialize)]
struct Member {
    id: String,
    instance_id: Option<String>,
    client_id: String,
    client_host: String,
    /// Partitions that it has: the first of them.
    assigned: Vec<Assigned>,
    assigned_count: usize,
}

#[derive(Serialize)]
struct Assigned {
    topic: String,
    partition: i32,
}

#[derive(Serialize)]
struct CommittedOffset {
    topic: String,
    partition: i32,
    committed_offset: i64,
    committed_ms: i64,
    metadata: String,
    /// `None`: this broker has no replica of the partition.
    high_watermark: Option<i64>,
    lag_records: Option<i64>,
    lag_seconds: Option<f64>,
}

/// `GET /groups`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let (error, all) = api.groups.list(&[], &[]);
    let (total, loading) = (all.len(), error != ErrorCode::None);
    let matches: Vec<ListedGroup> =
        all.into_iter().filter(|group| search.wants(&group.group_id)).collect();
    let matched = matches.len();
    let after = asked.text("after");
    let is_later = |group: &ListedGroup| after.is_none_or(|after| group.group_id.as_str() > after);
    let mut later = matches.into_iter().filter(is_later);
    let page: Vec<ListedGroup> = later.by_ref().take(limit).collect();
    let has_more = later.next().is_some();
    let next = page.last().filter(|_| has_more).map(|last| last.group_id.clone());
    let mut named = if asked.text(ELSEWHERE).is_some() { lag::MOST } else { 0 };
    let groups = page.into_iter().map(|group| row(api, group, &mut named)).collect();
    json(&Listed { broker_id: api.local_id, total, matched, loading, groups, next })
}

fn row(api: &AdminApi, group: ListedGroup, named: &mut usize) -> Group {
    let described = api.groups.describe(&group.group_id, DESCRIBE_VERSION);
    let committed = api.groups.fetch(&group.group_id, None).unwrap_or_default();
    Group {
        lag: sum(api, &committed, named),
        id: group.group_id,
        state: group.group_state,
        protocol_type: group.protocol_type,
        members: described.members.len(),
    }
}

/// The lag of what is committed. For an answer of all brokers it names partitions that are
/// elsewhere, at most `named`.
fn sum(api: &AdminApi, committed: &Committed, named: &mut usize) -> Sum {
    let mut sum = Sum::default();
    for (topic, partitions) in committed {
        for (index, value) in partitions {
            sum.committed_partitions += 1;
            let partition = api.partitions.find_by_name(topic, *index).ok();
            match partition.filter(|partition| *named == 0 || partition.is_led()) {
                Some(partition) => sum.lag_records += partition.lag_records(value.offset),
                None => {
                    sum.partitions_elsewhere += 1;
                    if *named > 0 {
                        *named -= 1;
                        sum.elsewhere.push((topic.clone(), *index, value.offset));
                    }
                }
            }
        }
    }
    sum
}

/// What there is of a group that may not be there.
#[derive(Default)]
pub(super) struct Known {
    pub state: String,
    pub members: usize,
    /// What it has committed, by topic and partition.
    pub offsets: BTreeMap<(String, i32), i64>,
}

/// What this broker knows of a group that it coordinates, or would.
pub(super) fn known(api: &AdminApi, id: &str) -> Result<Known, Refusal> {
    if !api.groups.knows_topic() {
        return Ok(Known::default());
    }
    let group = match found(id, api.groups.describe(id, DESCRIBE_VERSION)) {
        Ok(group) => group,
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => DescribedGroup::default(),
        Err(refusal) => return Err(refusal),
    };
    let committed = api.groups.fetch(id, None).map_err(|error| not_here(id, error.name()))?;
    let offsets = committed.into_iter().flat_map(|(topic, of)| {
        of.into_iter().map(move |(index, value)| ((topic.clone(), index), value.offset))
    });
    Ok(Known { state: group.group_state, members: group.members.len(), offsets: offsets.collect() })
}

/// `GET /groups/{id}`
pub(super) fn describe(api: &AdminApi, asked: &Asked) -> Answer {
    let limit = asked.limit()?;
    let first = asked.number("after", 0..=usize::MAX - 1)?.map_or(0, |after| after + 1);
    let id = asked.part("id");
    may_be_there(api, id)?;
    let group = api.groups.describe(id, DESCRIBE_VERSION);
    let group = found(id, group)?;
    let committed = api.groups.fetch(id, None).map_err(|error| not_here(id, error.name()));
    let mut committed = committed?;
    // Pages follow each other only in an order that stays.
    committed.sort_by(|(one, _), (other, _)| one.cmp(other));
    committed.iter_mut().for_each(|(_, of)| of.sort_by_key(|(index, _)| *index));
    let mut named = if asked.text(ELSEWHERE).is_some() { lag::MOST } else { 0 };
    let lag = sum(api, &committed, &mut named);
    let now_ms = api.clock.wall_ms();
    let flat = committed.iter().flat_map(|(topic, of)| of.iter().map(move |one| (topic, one)));
    let mut rows = Vec::new();
    for (topic, (index, value)) in flat.skip(first).take(limit) {
        let partition = api.partitions.find_by_name(topic, *index).ok();
        let partition = partition.as_deref();
        rows.push(CommittedOffset {
            topic: topic.clone(),
            partition: *index,
            committed_offset: value.offset,
            committed_ms: value.commit_timestamp,
            metadata: value.metadata.clone(),
            high_watermark: partition.map(|partition| partition.high_watermark().0),
            lag_records: partition.map(|partition| partition.lag_records(value.offset)),
            lag_seconds: partition.and_then(|p| p.lag_seconds(value.offset, now_ms)),
        });
    }
    let end = first.saturating_add(rows.len());
    let has_more = !rows.is_empty() && end < lag.committed_partitions;
    json(&Described {
        broker_id: api.local_id,
        id: group.group_id,
        state: group.group_state,
        protocol_type: group.protocol_type,
        protocol: group.protocol_data,
        lag,
        member_count: group.members.len(),
        members: group.members.into_iter().take(MOST_MEMBERS).map(member).collect(),
        offsets: rows,
        next: has_more.then(|| end - 1),
    })
}

fn found(id: &str, group: DescribedGroup) -> Result<DescribedGroup, Refusal> {
    match ErrorCode::from_code(group.error_code) {
        ErrorCode::None => Ok(group),
        ErrorCode::GroupIdNotFound => Err(unknown(id)),
        error => Err(not_here(id, error.name())),
    }
}

fn unknown(id: &str) -> Refusal {
    let what = format!("there is no group {id:?}");
    let why = "this broker coordinates no group of this id";
    let hint = "GET /api/v1/groups lists its groups; other brokers have others.";
    Refusal::new(StatusCode::NOT_FOUND, what, why, hint)
}

/// Refuses a look for a group while no group can be. The first client that asks for a coordinator
/// makes the topic that groups are kept in.
pub(super) fn may_be_there(api: &AdminApi, id: &str) -> Result<(), Refusal> {
    if api.groups.knows_topic() { Ok(()) } else { Err(unknown(id)) }
}

fn not_here(id: &str, why: &str) -> Refusal {
    let what = format!("the group {id:?} cannot be looked at");
    let hint = "ask the broker that coordinates it, or again when that has loaded it.";
    Refusal::new(StatusCode::CONFLICT, what, why, hint)
}

fn member(member: DescribedGroupMember) -> Member {
    let assigned = assigned_partitions(&member.member_assignment).unwrap_or_default();
    let assigned_count = assigned.len();
    let shown = assigned.into_iter().take(MOST_ASSIGNED);
    Member {
        id: member.member_id,
        instance_id: member.group_instance_id,
        client_id: member.client_id,
        client_host: member.client_host,
        assigned: shown.map(|(topic, partition)| Assigned { topic, partition }).collect(),
        assigned_count,
    }
}
