//! `POST /groups/{id}/offsets`: where a group without members reads on; and groups are deleted.
//!
//! As Kafka's `kafka-consumer-groups --reset-offsets`: an offset outside of the log is moved to its
//! nearest end, and nothing is committed while the group has members.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::delete_groups::DeleteGroupsRequest;
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use serde::{Deserialize, Serialize};

use super::request::{TIMEOUT_MS, ask, check, is_open};
use super::{bad, read};
use crate::admin_api::asked::MOST;
use crate::admin_api::commands::Change;
use crate::admin_api::groups;
use crate::admin_api::topics::find;
use crate::admin_api::{Answer, failed, json};
use crate::admin_http::Refusal;
use crate::metadata::MetadataImage;

/// Kafka's numbers for the ends of a log in ListOffsets.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
/// Partitions that a refusal names, at most.
const MOST_NAMED: usize = 100;
/// An offset that there is not.
const NONE: i64 = -1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reset {
    /// `None`: every partition that the group has an offset of.
    topics: Option<Vec<OfTopic>>,
    to: To,
    /// Commit nothing, only tell what would be.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTopic {
    name: String,
    /// `None`: all of its partitions.
    partitions: Option<Vec<i32>>,
}

/// Where the group is to read on.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum To {
    /// At the first record there is.
    Earliest,
    /// At the next record that is written.
    Latest,
    Offset(i64),
    /// At the first record of this time or later, in ms since 1970.
    TimeMs(i64),
    /// So many records after its offset, or before.
    By(i64),
}

#[derive(Serialize)]
struct Done<'a> {
    broker_id: i32,
    group: &'a str,
    state: String,
    members: usize,
    dry_run: bool,
    offsets: Vec<Moved>,
}

#[derive(Serialize)]
struct Moved {
    topic: String,
    partition: i32,
    /// `None`: the group has none.
    before: Option<i64>,
    after: i64,
    /// The log does not reach so far: `after` is its nearest end.
    clamped: bool,
}

/// A partition by its topic's name and its number.
type Named = (String, i32);

/// `POST /groups/{id}/offsets`
pub(super) async fn reset(change: Change) -> Answer {
    let Change { api, asked, body, .. } = &change;
    let group = asked.part("id");
    let Reset { topics, to, dry_run } = read(body)?;
    let known = groups::known(api, group)?;
    let what = format!("the offsets of group {group:?} are not changed");
    if known.members > 0 && !dry_run {
        let why = format!("it has {} members, which commit their own", known.members);
        let hint = "stop the members of the group first.";
        return Err(Refusal::new(StatusCode::CONFLICT, what, why, hint));
    }
    // One image for all: the ids that are committed belong to the topics that were looked at.
    let image = api.controller.image();
    let wanted = wanted(&image, topics, &known.offsets)?;
    let moved = moved(&change, &wanted, to, &known.offsets).await?;
    if !dry_run {
        make_coordinator(&change, group).await?;
        commit(&change, &image, group, &moved, &what).await?;
    }
    let (state, members) = (known.state, known.members);
    json(&Done { broker_id: api.local_id, group, state, members, dry_run, offsets: moved })
}

/// The partitions whose offsets are to move, each once.
fn wanted(
    image: &MetadataImage,
    topics: Option<Vec<OfTopic>>,
    offsets: &BTreeMap<Named, i64>,
) -> Result<BTreeSet<Named>, Refusal> {
    let mut wanted = BTreeSet::new();
    match topics {
        None => wanted.extend(offsets.keys().cloned()),
        Some(topics) => {
            for OfTopic { name, partitions } in topics {
                let topic = find(image, &name)?;
                let all = || (0i32..).zip(&topic.partitions).map(|(index, _)| index).collect();
                for index in partitions.unwrap_or_else(all) {
                    wanted.insert((name.clone(), index));
                }
            }
        }
    }
    let what = "the offsets cannot be moved";
    match wanted.len() {
        0 => Err(bad(what, "the group has no offsets", "name the topics to read.")),
        1..=MOST => Ok(wanted),
        count => {
            let why = format!("{count} partitions are more than {MOST}");
            Err(bad(what, why, "name fewer topics or partitions in one request."))
        }
    }
}

async fn moved(
    change: &Change,
    wanted: &BTreeSet<Named>,
    to: To,
    offsets: &BTreeMap<Named, i64>,
) -> Result<Vec<Moved>, Refusal> {
    let first = listed(change, wanted, EARLIEST).await?;
    let end = listed(change, wanted, LATEST).await?;
    let at_time = match to {
        To::TimeMs(time_ms) => listed(change, wanted, time_ms.max(0)).await?,
        _ => BTreeMap::new(),
    };
    let row = |named: &Named| {
        let (first, end) = (first[named], end[named]);
        let before = offsets.get(named).copied();
        let target = match to {
            To::Earliest => first,
            To::Latest => end,
            To::Offset(offset) => offset,
            To::TimeMs(_) => Some(at_time[named]).filter(|at| *at != NONE).unwrap_or(end),
            To::By(count) => before.unwrap_or(first).saturating_add(count),
        };
        let after = target.clamp(first, end.max(first));
        let (topic, partition) = named.clone();
        Moved { topic, partition, before, after, clamped: after != target }
    };
    Ok(wanted.iter().map(row).collect())
}

/// What ListOffsets answers for each partition.
async fn listed(
    change: &Change,
    wanted: &BTreeSet<Named>,
    timestamp: i64,
) -> Result<BTreeMap<Named, i64>, Refusal> {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for (name, partition_index) in wanted {
        let partition_index = *partition_index;
        let partition = ListOffsetsPartition { partition_index, timestamp, ..Default::default() };
        topics.entry(name).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        let name = name.to_owned();
        ListOffsetsTopic { name, partitions }
    });
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: topics.collect(),
        timeout_ms: TIMEOUT_MS,
        ..Default::default()
    };
    let mut offsets = BTreeMap::new();
    for topic in ask(change, 10, &request).await?.topics {
        for partition in topic.partitions {
            let index = partition.partition_index;
            let what = format!("the ends of partition {index} of {} are not known", topic.name);
            check(&what, partition.error_code, None)?;
            offsets.insert((topic.name.clone(), index), partition.offset);
        }
    }
    if offsets.len() < wanted.len() {
        return Err(failed("an answer lacks a partition"));
    }
    Ok(offsets)
}

/// Has the topic of the offsets made, as every client of Kafka does before it commits.
async fn make_coordinator(change: &Change, group: &str) -> Result<(), Refusal> {
    if change.api.groups.knows_topic() {
        return Ok(());
    }
    let coordinator_keys = vec![group.to_owned()];
    let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    // A coordinator that is elsewhere, or not there yet, refuses the commit and says so.
    ask(change, 4, &request).await.map(drop)
}

/// Commits for the group. Its coordinator refuses that if a member has joined meanwhile.
async fn commit(
    change: &Change,
    image: &MetadataImage,
    group: &str,
    moved: &[Moved],
    what: &str,
) -> Result<(), Refusal> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for moved in moved {
        let (partition_index, committed_offset) = (moved.partition, moved.after);
        topics.entry(&moved.topic).or_default().push(OffsetCommitRequestPartition {
            partition_index,
            committed_offset,
            committed_metadata: Some(String::new()),
            ..Default::default()
        });
    }
    let mut named = Vec::new();
    for (name, partitions) in topics {
        let topic_id = find(image, name)?.id;
        named.push(OffsetCommitRequestTopic { topic_id, partitions, ..Default::default() });
    }
    let group_id = group.to_owned();
    let request = OffsetCommitRequest { group_id, topics: named, ..Default::default() };
    let answer = ask(change, 10, &request).await?;
    let mut told = Vec::new();
    for topic in &answer.topics {
        let name = image.topic_by_id(topic.topic_id).map_or("?", |known| &*known.name);
        let rows = topic.partitions.iter();
        told.extend(rows.map(|row| (format!("{name}-{}", row.partition_index), row.error_code)));
    }
    outcome(what, group, &told)
}

/// Refuses a commit that some partitions did not take. `told` has the error of each by its name.
fn outcome(what: &str, group: &str, told: &[(String, i16)]) -> Result<(), Refusal> {
    let (moved, kept): (Vec<_>, Vec<_>) = told.iter().partition(|(_, code)| *code == 0);
    // One that is not known to be changed or not counts most.
    let worst = kept.iter().find(|(_, code)| is_open(ErrorCode::from_code(*code)));
    let Some((_, code)) = worst.or(kept.first()).copied() else { return Ok(()) };
    if moved.is_empty() && kept.iter().all(|(_, other)| other == code) {
        return check(what, *code, None);
    }
    let moved = listed_names(moved.iter().map(|(name, _)| name.clone()));
    let refused =
        |(name, code): &&(String, i16)| format!("{name} ({})", ErrorCode::from_code(*code).name());
    let kept = listed_names(kept.iter().map(refused));
    let (what, rows) = if moved.is_empty() {
        (what.to_owned(), format!("failed: {kept}"))
    } else {
        let what = format!("the offsets of group {group:?} are changed in part");
        (what, format!("changed: {moved}; failed: {kept}"))
    };
    check(&what, *code, Some(rows))
}

/// Names in a row; of many, the first ones and how many more there are.
fn listed_names(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let listed = names.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}

#[derive(Serialize)]
struct Deleted<'a> {
    group: &'a str,
}

/// `DELETE /groups/{id}`
pub(super) async fn delete_group(change: Change) -> Answer {
    let group = change.asked.part("id");
    groups::may_be_there(&change.api, group)?;
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()] };
    let answer = ask(&change, 2, &request).await?.results.pop();
    let answer = answer.ok_or_else(|| failed("its answer names no group"))?;
    check(&format!("the group {group:?} is not deleted"), answer.error_code, None)?;
    json(&Deleted { group })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: i16 = ErrorCode::UnknownTopicOrPartition.code();
    const LATE: i16 = ErrorCode::RequestTimedOut.code();

    fn told(rows: &[(&str, i16)]) -> Result<(), Refusal> {
        let rows: Vec<_> = rows.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
        outcome("nothing is changed", "g", &rows)
    }

    /// The first error counted as that of all partitions.
    #[test]
    fn a_refusal_says_which_offsets_are_changed() {
        assert!(told(&[("t-0", 0), ("u-0", 0)]).is_ok());
        let refusal = told(&[("t-0", UNKNOWN), ("u-0", UNKNOWN)]).expect_err("none is changed");
        assert_eq!(refusal.what, "nothing is changed");
        assert_eq!(refusal.why, "UNKNOWN_TOPIC_OR_PARTITION");
        let refusal = told(&[("t-0", 0), ("u-0", UNKNOWN)]).expect_err("one is not changed");
        assert_eq!(refusal.status, StatusCode::NOT_FOUND);
        assert_eq!(refusal.what, "the offsets of group \"g\" are changed in part");
        let rows = "changed: t-0; failed: u-0 (UNKNOWN_TOPIC_OR_PARTITION)";
        assert_eq!(refusal.why, format!("UNKNOWN_TOPIC_OR_PARTITION: {rows}"));
    }

    #[test]
    fn an_offset_that_may_be_changed_later_is_not_denied() {
        let refusal = told(&[("t-0", UNKNOWN), ("u-0", LATE)]).expect_err("one is not known");
        assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(refusal.why.ends_with("u-0 (REQUEST_TIMED_OUT)"), "{}", refusal.why);
    }

    #[test]
    fn of_many_partitions_the_first_are_named() {
        let names = |count: usize| listed_names((0..count).map(|index| format!("t-{index}")));
        assert!(names(MOST_NAMED).ends_with(", t-99"), "{}", names(MOST_NAMED));
        assert!(names(MOST_NAMED + 1).ends_with(", t-99 and 1 more"));
    }
}
