//! Committing and fetching offsets.
//!
//! A commit is answered when its record is committed, and only then seen by others. If that takes
//! too long, the client gets an error, and the commit is seen if its record is committed later.
//! Source: Kafka's `OffsetMetadataManager`; its error codes for what the log refuses.

use std::sync::Arc;

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::{ErrorCode, Uuid};

use super::group::Group;
use super::group_state::response_error;
use super::groups::{Groups, GroupsShared};
use super::offsets::is_current;
use crate::coordinator::group_record::{GroupRecord, OffsetKey};
use crate::coordinator::runtime::{Answer, Effects, FirstAnswer, Now, Turn, Write};

/// First version that names topics by id, and says so in its errors.
const TOPIC_ID_VERSION: i16 = 10;

/// Who commits.
#[derive(Clone, Debug, Default)]
pub struct Committer {
    /// The group; the empty id is one, too.
    pub group_id: String,
    /// -1 outside of a generation.
    pub generation: i32,
    /// Empty outside of a generation.
    pub member_id: String,
    /// If it is a static member.
    pub group_instance_id: Option<String>,
    /// How long to keep the offsets, in ms; -1 for as long as the broker does.
    pub retention_time_ms: i64,
    /// The request's version: an unknown group is called differently from version 9 on.
    pub version: i16,
}

/// One offset to commit. Topic and partition exist, as far as the caller knows.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Its id, zero if unknown.
    pub topic_id: Uuid,
    /// Partition of the topic.
    pub partition: i32,
    /// The offset to read next.
    pub offset: i64,
    /// Epoch of the last record read; -1 if unknown.
    pub leader_epoch: i32,
    /// Whatever the client wants to keep beside it.
    pub metadata: Option<String>,
}

/// A committed offset, for who fetches it.
pub type Committed = Vec<(String, Vec<(i32, OffsetCommitValue)>)>;

impl Groups {
    /// Commits offsets; `answer` gets one error for each of `commits`, in order.
    pub fn commit(
        Turn { state: groups, now, effects }: Turn<'_, Self>,
        who: &Committer,
        commits: Vec<Commit>,
        answer: Answer<Vec<ErrorCode>>,
    ) {
        let count = commits.len();
        let all = move |error: ErrorCode| vec![error; count];
        let max_metadata = groups.shared.config.offset_metadata_max_bytes;
        let keeps_nothing = commits.iter().all(|commit| is_too_large(commit, max_metadata));
        let is_missing = !groups.by_id.contains_key(&*who.group_id);
        if is_missing && (who.generation >= 0 || keeps_nothing) {
            let error = match who.version {
                // As in Kafka, no group is made for it.
                _ if who.generation < 0 => ErrorCode::OffsetMetadataTooLarge,
                9.. => ErrorCode::GroupIdNotFound,
                _ => ErrorCode::IllegalGeneration,
            };
            return effects.run(move || answer(all(error)));
        }
        let shared = groups.shared.clone();
        groups.on_group_or_new(now, &who.group_id, false, effects, |group, effects| {
            let (member, instance) = (&who.member_id, who.group_instance_id.as_deref());
            match group.state.offset_commit(now, member, instance, who.generation) {
                Ok(()) => store(&shared, group, now, effects, who, commits, answer),
                Err(error) => effects.run(move || answer(all(error))),
            }
        });
    }

    /// What a group has committed of `topics`, or of all with `None`. A partition without a commit
    /// is left out, and so is a commit for an earlier topic of the name. Kafka compares topics only
    /// for a client that asks by id. It gives other clients the offset of the former topic.
    pub fn fetch(&self, group_id: &str, topics: Option<&[(String, Vec<i32>)]>) -> Committed {
        let Some(group) = self.by_id.get(group_id) else { return Vec::new() };
        // The topic's id is asked for after the offset is found: an offset is never newer than the
        // topic that it is compared with.
        let id_of = &self.shared.id_of;
        match topics {
            Some(topics) => topics
                .iter()
                .map(|(topic, partitions)| {
                    let of = |partition: &i32| {
                        let value = group.offsets.get(topic, *partition)?;
                        is_current(value, id_of(topic)).then(|| (*partition, value.clone()))
                    };
                    (topic.clone(), partitions.iter().filter_map(of).collect())
                })
                .collect(),
            None => {
                let current = group.offsets.topics().map(|(topic, partitions)| {
                    let id = id_of(topic);
                    let current = partitions.filter(|(_, value)| is_current(value, id));
                    let current = current.map(|(index, value)| (index, value.clone()));
                    (topic.clone(), current.collect::<Vec<_>>())
                });
                current.filter(|(_, partitions)| !partitions.is_empty()).collect()
            }
        }
    }
}

/// The reason to refuse a commit. It is worked out in the commit's turn. A decision from an older
/// image could otherwise follow the first commit for the next topic of the name, and replace that
/// commit.
fn refusal(shared: &GroupsShared, version: i16, commit: &Commit) -> Option<ErrorCode> {
    let id = commit.topic_id;
    if is_too_large(commit, shared.config.offset_metadata_max_bytes) {
        Some(ErrorCode::OffsetMetadataTooLarge)
    } else if !id.is_zero() && (shared.id_of)(&commit.topic) != Some(id) {
        Some(match version {
            TOPIC_ID_VERSION.. => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        })
    } else {
        None
    }
}

/// Appends what is not refused, and answers once it is committed.
fn store(
    shared: &GroupsShared,
    group: &Group,
    now: Now,
    effects: &mut Effects<Groups>,
    who: &Committer,
    commits: Vec<Commit>,
    answer: Answer<Vec<ErrorCode>>,
) {
    let expire_timestamp = match who.retention_time_ms {
        -1 => -1,
        retention_ms => now.wall_ms.saturating_add(retention_ms),
    };
    let mut errors = Vec::with_capacity(commits.len());
    let mut records = Vec::with_capacity(commits.len());
    for commit in commits {
        let error = refusal(shared, who.version, &commit);
        errors.push(error.unwrap_or(ErrorCode::None));
        if error.is_some() {
            continue;
        }
        let value = OffsetCommitValue {
            offset: commit.offset,
            leader_epoch: commit.leader_epoch,
            metadata: commit.metadata.unwrap_or_default(),
            commit_timestamp: now.wall_ms,
            expire_timestamp,
            topic_id: commit.topic_id,
        };
        let group = Arc::clone(group.state.group_id());
        let key = OffsetKey { group, topic: commit.topic, partition: commit.partition };
        records.push(GroupRecord::Offset(key, Some(value)));
    }
    if records.is_empty() {
        return effects.run(move || answer(errors));
    }
    let answer = FirstAnswer::new(answer);
    let too_late = answer.clone();
    let late_errors = with_refusal(&errors, ErrorCode::RequestTimedOut);
    effects.write(Write {
        records,
        may_split: false,
        stored: Box::new(move |_, _, effects, stored| {
            let errors = stored.err().map_or_else(|| errors.clone(), |e| with_refusal(&errors, e));
            answer.give(effects, errors);
        }),
        late: Box::new(move |_, _, effects| too_late.give(effects, late_errors)),
    });
}

fn is_too_large(commit: &Commit, max_metadata: usize) -> bool {
    let metadata = commit.metadata.as_deref().unwrap_or_default();
    metadata.encode_utf16().count() > max_metadata
}

/// What the log refused, beside what was refused before it was asked.
fn with_refusal(errors: &[ErrorCode], by_the_log: ErrorCode) -> Vec<ErrorCode> {
    let told = |error: &ErrorCode| match error {
        ErrorCode::None => response_error(by_the_log),
        refused => *refused,
    };
    errors.iter().map(told).collect()
}
