//! Committing, fetching, deleting and expiring offsets.
//!
//! A commit is answered when its record is committed, and only then seen by others. If that takes
//! too long its client is told so, and the commit is seen when its record is committed after all.
//! Source: Kafka's `OffsetMetadataManager`; its error codes for what the log refuses.

use std::sync::Arc;

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::{ErrorCode, Offset, Uuid};
use parking_lot::Mutex;

use super::group::{Answer, Effect, FirstAnswer, Group, Inner};
use super::group_coordinator::{GroupCoordinator, Groups};
use super::group_record::{StoredRecord, group_record, offset_record};
use super::group_state::{Now, State, response_error};
use super::offsets::{TopicPartition, is_current};
use crate::metadata::controller::OFFSETS_TOPIC;

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
    pub topic: String,
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

fn tombstones(group_id: &str, partitions: &[TopicPartition]) -> Vec<StoredRecord> {
    let record =
        |(topic, partition): &TopicPartition| offset_record(group_id, topic, *partition, None);
    partitions.iter().map(record).collect()
}

/// Stores tombstones, forgets the offsets once they are stored, then calls `then`.
pub(super) fn remove_offsets(
    inner: &mut Inner,
    partitions: Vec<TopicPartition>,
    then: impl FnOnce(Option<ErrorCode>) + Send + 'static,
) {
    if partitions.is_empty() {
        inner.push(Effect::Run(Box::new(move || then(None))));
        return;
    }
    let records = tombstones(inner.state.group_id(), &partitions);
    let answer = FirstAnswer::new(Box::new(then));
    let too_late = answer.clone();
    let stored = move |inner: &mut Inner, _: Now, stored: Result<Offset, ErrorCode>| {
        if let Ok(at) = stored {
            for (topic, partition) in &partitions {
                inner.offsets.remove(topic, *partition, at);
            }
        }
        inner.push(answer.give(stored.err()));
    };
    let late = |inner: &mut Inner, _: Now| {
        inner.push(too_late.give(Some(ErrorCode::RequestTimedOut)));
    };
    inner.push(Effect::Append { records, then: Box::new(stored), late: Box::new(late) });
}

impl GroupCoordinator {
    /// Commits offsets; `answer` gets one error for each of `commits`, in order.
    pub fn commit(&self, who: &Committer, commits: Vec<Commit>, answer: Answer<Vec<ErrorCode>>) {
        let count = commits.len();
        let all = move |error: ErrorCode| vec![error; count];
        let max_metadata = self.config.offset_metadata_max_bytes;
        let keeps_nothing = commits.iter().all(|commit| is_too_large(commit, max_metadata));
        let unknown = match who.version {
            TOPIC_ID_VERSION.. => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        // Under the group's lock: what was judged by an older image could else come behind the
        // first commit for the next topic of the name, and replace it.
        let refusal = |commit: &Commit| {
            let id = commit.topic_id;
            if is_too_large(commit, max_metadata) {
                Some(ErrorCode::OffsetMetadataTooLarge)
            } else if !id.is_zero() && self.around.topic.id_of(&commit.topic) != Some(id) {
                Some(unknown)
            } else {
                None
            }
        };
        if who.generation >= 0 || keeps_nothing {
            match self.group(&who.group_id) {
                Ok(Some(_)) => {}
                Ok(None) if who.generation < 0 => {
                    // As in Kafka, no group is made for it.
                    return answer(all(ErrorCode::OffsetMetadataTooLarge));
                }
                Ok(None) if who.version >= 9 => return answer(all(ErrorCode::GroupIdNotFound)),
                Ok(None) => return answer(all(ErrorCode::IllegalGeneration)),
                Err(error) => return answer(all(error)),
            }
        }
        let mut answer = Some(answer);
        let done = self.on_group_or_new(&who.group_id, false, |inner, now| {
            let (member, instance) = (&who.member_id, who.group_instance_id.as_deref());
            inner.state.offset_commit(now, member, instance, who.generation)?;
            if let Some(answer) = answer.take() {
                store(inner, now, who, commits, refusal, answer);
            }
            Ok(())
        });
        if let (Ok(Err(error)) | Err(error), Some(answer)) = (done, answer) {
            answer(all(error));
        }
    }

    /// What a group has committed of `topics`, or of all with `None`. A partition without a commit
    /// is left out, and so is one whose commit was for another topic of the name: Kafka compares
    /// where a client asks by id only, and gives others the offset of the former topic.
    ///
    /// # Errors
    /// The group cannot be looked at here, or now.
    pub fn fetch(
        &self,
        group_id: &str,
        topics: Option<&[(String, Vec<i32>)]>,
    ) -> Result<Committed, ErrorCode> {
        let Some(group) = self.group(group_id)? else { return Ok(Vec::new()) };
        // Asked for under the group's lock, after the offset is found: an offset is never newer
        // than the topic that it is compared with.
        let topic_ids = &self.around.topic;
        Ok(group.look(|inner| match topics {
            Some(topics) => topics
                .iter()
                .map(|(topic, partitions)| {
                    let of = |partition: &i32| {
                        let value = inner.offsets.get(topic, *partition)?;
                        is_current(value, topic_ids.id_of(topic))
                            .then(|| (*partition, value.clone()))
                    };
                    (topic.clone(), partitions.iter().filter_map(of).collect())
                })
                .collect(),
            None => {
                let current = inner.offsets.topics().map(|(topic, partitions)| {
                    let id = topic_ids.id_of(topic);
                    let current = partitions.filter(|(_, value)| is_current(value, id));
                    let current = current.map(|(index, value)| (index, value.clone()));
                    (topic.clone(), current.collect::<Vec<_>>())
                });
                current.filter(|(_, partitions)| !partitions.is_empty()).collect()
            }
        }))
    }

    /// Removes committed offsets; `answer` gets one error for each of `partitions`, in order, or
    /// the one that stands for the whole group.
    pub fn delete_offsets(
        &self,
        group_id: &str,
        partitions: Vec<TopicPartition>,
        answer: Answer<Result<Vec<ErrorCode>, ErrorCode>>,
    ) {
        if group_id.is_empty() {
            return answer(Err(ErrorCode::InvalidGroupId));
        }
        let group = match self.group(group_id) {
            Ok(Some(group)) => group,
            Ok(None) => return answer(Err(ErrorCode::GroupIdNotFound)),
            Err(error) => return answer(Err(error)),
        };
        group.run(|inner, _| {
            let refusal = match inner.state.state() {
                State::Dead => Some(ErrorCode::GroupIdNotFound),
                State::Empty => None,
                _ if inner.state.is_consumer_group() => None,
                _ => Some(ErrorCode::NonEmptyGroup),
            };
            if let Some(error) = refusal {
                inner.push(Effect::Run(Box::new(move || answer(Err(error)))));
                return;
            }
            let judge = |(topic, _): &TopicPartition| {
                if inner.state.is_subscribed_to(topic) {
                    ErrorCode::GroupSubscribedToTopic
                } else {
                    ErrorCode::None
                }
            };
            let errors: Vec<ErrorCode> = partitions.iter().map(judge).collect();
            let allowed = partitions.into_iter().zip(&errors).filter_map(|(partition, error)| {
                let is_there = inner.offsets.get(&partition.0, partition.1).is_some();
                (*error == ErrorCode::None && is_there).then_some(partition)
            });
            let allowed = allowed.collect();
            remove_offsets(inner, allowed, move |error| {
                answer(error.map_or(Ok(errors), |error| Err(response_error(error))));
            });
        });
    }

    /// Removes empty groups with their offsets; `answer` gets every id with its error.
    pub fn delete_groups(&self, group_ids: &[String], answer: Answer<Vec<(String, ErrorCode)>>) {
        let gathered = Gathered { results: Vec::new(), wanted: group_ids.len(), answer };
        if group_ids.is_empty() {
            return (gathered.answer)(Vec::new());
        }
        let gathered = Arc::new(Mutex::new(Some(gathered)));
        for group_id in group_ids {
            let one = gather(Arc::clone(&gathered), group_id.clone());
            match self.group(group_id) {
                Ok(Some(group)) => self.delete_group(&group, one),
                Ok(None) => one(ErrorCode::GroupIdNotFound),
                Err(error) => one(error),
            }
        }
    }

    fn delete_group(&self, group: &Arc<Group>, answer: Answer<ErrorCode>) {
        group.run(|inner, now| {
            let refusal = match inner.state.state() {
                State::Dead => Some(ErrorCode::GroupIdNotFound),
                State::Empty => None,
                _ => Some(ErrorCode::NonEmptyGroup),
            };
            match refusal {
                Some(error) => inner.push(Effect::Run(Box::new(move || answer(error)))),
                None => bury(inner, now, Arc::clone(&self.groups), answer),
            }
        });
    }

    /// Topics were deleted: their offsets go as well. If `__consumer_offsets` is among them, all
    /// groups do.
    pub fn topics_deleted(&self, names: &[String]) {
        if names.iter().any(|name| name == OFFSETS_TOPIC) {
            return self.stop();
        }
        for group in self.all_groups() {
            group.run(|inner, _| {
                let gone = inner.offsets.of_topics(|topic| names.iter().any(|name| name == topic));
                remove_offsets(inner, gone, |_| {});
            });
        }
    }

    /// Removes offsets whose time is over, or whose topic is gone, and groups that have nothing
    /// left. Groups that are not loaded yet are not here, so nothing expires before loading ends.
    pub fn expire(&self) {
        let retention_ms = self.config.offsets_retention_ms;
        for group in self.all_groups() {
            group.run(|inner, now| {
                if inner.state.state() == State::Dead {
                    return;
                }
                let (expired, all) = inner.offsets.expired(&inner.state, now.wall_ms, retention_ms);
                let former = inner.offsets.former(|topic| self.around.topic.id_of(topic));
                remove_offsets(inner, former, |_| {});
                if !expired.is_empty() {
                    tracing::info!(group = &**group.id(), count = expired.len(), "offsets expired");
                }
                if all && inner.state.is_deserted() {
                    bury(inner, now, Arc::clone(&self.groups), Box::new(|_| {}));
                } else {
                    remove_offsets(inner, expired, |_| {});
                }
            });
        }
    }

    pub(super) fn all_groups(&self) -> Vec<Arc<Group>> {
        self.groups.read().values().cloned().collect()
    }
}

/// What was said so far about several groups, and who wants to know.
struct Gathered {
    results: Vec<(String, ErrorCode)>,
    wanted: usize,
    answer: Answer<Vec<(String, ErrorCode)>>,
}

/// Takes one group's error in; the last one sends the answer.
fn gather(gathered: Arc<Mutex<Option<Gathered>>>, group_id: String) -> Answer<ErrorCode> {
    Box::new(move |error| {
        let mut place = gathered.lock();
        if let Some(all) = place.as_mut() {
            all.results.push((group_id, error));
        }
        let complete = place.take_if(|all| all.results.len() == all.wanted);
        drop(place);
        if let Some(all) = complete {
            (all.answer)(all.results);
        }
    })
}

/// Kills an empty group and stores that it and its offsets are gone.
fn bury(inner: &mut Inner, now: Now, groups: Groups, answer: Answer<ErrorCode>) {
    let partitions = inner.offsets.all();
    let group_id = Arc::clone(inner.state.group_id());
    let mut records = tombstones(&group_id, &partitions);
    records.push(group_record(&group_id, None));
    inner.state.kill(now, ErrorCode::CoordinatorNotAvailable);
    let answer = FirstAnswer::new(answer);
    let too_late = answer.clone();
    let stored = move |inner: &mut Inner, _: Now, stored: Result<Offset, ErrorCode>| {
        let error = stored.err().map_or(ErrorCode::None, response_error);
        if error != ErrorCode::None {
            inner.state.revive();
        }
        inner.push(Effect::Run(Box::new(move || {
            if error == ErrorCode::None {
                groups.write().remove(&group_id);
            }
        })));
        inner.push(answer.give(error));
    };
    let late = |inner: &mut Inner, _: Now| {
        inner.push(too_late.give(response_error(ErrorCode::RequestTimedOut)));
    };
    inner.push(Effect::Append { records, then: Box::new(stored), late: Box::new(late) });
}

/// Appends what is not refused, and answers once it is committed.
fn store(
    inner: &mut Inner,
    now: Now,
    who: &Committer,
    commits: Vec<Commit>,
    refusal: impl Fn(&Commit) -> Option<ErrorCode>,
    answer: Answer<Vec<ErrorCode>>,
) {
    let expire_timestamp = match who.retention_time_ms {
        -1 => -1,
        retention_ms => now.wall_ms.saturating_add(retention_ms),
    };
    let mut errors = Vec::with_capacity(commits.len());
    let mut records = Vec::with_capacity(commits.len());
    let mut values = Vec::with_capacity(commits.len());
    for commit in commits {
        let error = refusal(&commit);
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
        records.push(offset_record(&who.group_id, &commit.topic, commit.partition, Some(&value)));
        inner.offsets.begin(&commit.topic, commit.partition);
        values.push((commit.topic, commit.partition, value));
    }
    if records.is_empty() {
        inner.push(Effect::Run(Box::new(move || answer(errors))));
        return;
    }
    let answer = FirstAnswer::new(answer);
    let too_late = answer.clone();
    let late_errors = with_refusal(&errors, ErrorCode::RequestTimedOut);
    let stored = move |inner: &mut Inner, _: Now, stored: Result<Offset, ErrorCode>| {
        for (topic, partition, value) in values {
            inner.offsets.end(&topic, partition, stored.ok().map(|at| (at, value)));
        }
        let errors = stored.err().map_or_else(|| errors.clone(), |e| with_refusal(&errors, e));
        inner.push(answer.give(errors));
    };
    let late = |inner: &mut Inner, _: Now| inner.push(too_late.give(late_errors));
    inner.push(Effect::Append { records, then: Box::new(stored), late: Box::new(late) });
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
