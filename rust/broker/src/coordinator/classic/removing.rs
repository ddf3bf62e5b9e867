//! Offsets and groups that go: deleted by a client, with their topics, or by their age.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::{ErrorCode, Uuid};

use super::group::Group;
use super::group_state::{State, response_error};
use super::groups::Groups;
use super::offsets::TopicPartition;
use crate::coordinator::group_record::{GroupRecord, OffsetKey};
use crate::coordinator::runtime::{Answer, Effects, FirstAnswer, Now, Turn, Write};

/// What a client may delete, as far as the group goes.
fn refusal(state: State) -> Option<ErrorCode> {
    match state {
        State::Dead => Some(ErrorCode::GroupIdNotFound),
        State::Empty => None,
        _ => Some(ErrorCode::NonEmptyGroup),
    }
}

fn tombstones(group_id: &Arc<str>, partitions: Vec<TopicPartition>) -> Vec<GroupRecord> {
    let record = |(topic, partition): TopicPartition| {
        let (group, topic) = (Arc::clone(group_id), topic.into());
        GroupRecord::Offset(OffsetKey { group, topic, partition }, None)
    };
    partitions.into_iter().map(record).collect()
}

/// Stores tombstones, then calls `then`.
fn remove_offsets(
    group: &mut Group,
    effects: &mut Effects<Groups>,
    partitions: Vec<TopicPartition>,
    then: impl FnOnce(Option<ErrorCode>) + Send + 'static,
) {
    if partitions.is_empty() {
        return effects.run(move || then(None));
    }
    let answer = FirstAnswer::new(Box::new(then));
    let too_late = answer.clone();
    effects.write(Write {
        records: tombstones(group.state.group_id(), partitions),
        may_split: true,
        stored: Box::new(move |_, _, effects, stored| answer.give(effects, stored.err())),
        late: Box::new(move |_, _, effects| {
            too_late.give(effects, Some(ErrorCode::RequestTimedOut));
        }),
    });
}

impl Groups {
    /// Removes offsets; `answer` gets one error for each of `partitions`, in order, or the one that
    /// stands for the whole group.
    pub fn delete_offsets(
        Turn { state: groups, effects, .. }: Turn<'_, Self>,
        group_id: &str,
        partitions: Vec<TopicPartition>,
        answer: Answer<Result<Vec<ErrorCode>, ErrorCode>>,
    ) {
        let state = groups.by_id.get(group_id).map_or(State::Dead, |group| group.state.state());
        let is_consumers =
            groups.by_id.get(group_id).is_some_and(|group| group.state.is_consumer_group());
        let refusal = refusal(state);
        if let Some(error) = refusal
            && !(is_consumers && error == ErrorCode::NonEmptyGroup)
        {
            return effects.run(move || answer(Err(error)));
        }
        groups.on_group(group_id, effects, |group, effects| {
            let judge = |(topic, _): &TopicPartition| {
                if group.state.is_subscribed_to(topic) {
                    ErrorCode::GroupSubscribedToTopic
                } else {
                    ErrorCode::None
                }
            };
            let errors: Vec<ErrorCode> = partitions.iter().map(judge).collect();
            let allowed = partitions.into_iter().zip(&errors);
            let allowed = allowed.filter(|(_, error)| error.is_none());
            let mut allowed: Vec<TopicPartition> = allowed.map(|(key, _)| key).collect();
            allowed.sort();
            allowed.dedup();
            allowed.retain(|(topic, index)| group.offsets.newest_of(topic, *index).is_some());
            remove_offsets(group, effects, allowed, move |error| {
                answer(error.map_or(Ok(errors), |error| Err(response_error(error))));
            });
        });
    }

    /// Removes an empty group with its offsets.
    pub fn delete_group(
        Turn { state: groups, now, effects }: Turn<'_, Self>,
        group_id: &str,
        answer: Answer<ErrorCode>,
    ) {
        let state = groups.by_id.get(group_id).map_or(State::Dead, |group| group.state.state());
        match refusal(state) {
            Some(error) => effects.run(move || answer(error)),
            None => groups.bury(group_id, now, effects, answer),
        }
    }

    /// Kills an empty group, and stores that it and its offsets are gone. It stays dead in its
    /// place until that is committed; if it cannot be stored the group lives on.
    fn bury(
        &mut self,
        group_id: &str,
        now: Now,
        effects: &mut Effects<Self>,
        answer: Answer<ErrorCode>,
    ) {
        self.on_group(group_id, effects, |group, effects| {
            let group_id = Arc::clone(group.state.group_id());
            let mut records = tombstones(&group_id, group.offsets.of(|_, _, _| true));
            records.push(GroupRecord::Group(group_id.to_string(), None));
            group.state.kill(now, ErrorCode::CoordinatorNotAvailable);
            group.collect(effects);
            let answer = FirstAnswer::new(answer);
            let too_late = answer.clone();
            effects.write(Write {
                records,
                // The group's own record comes last: offsets that are left have their group.
                may_split: true,
                stored: Box::new(move |groups, _, effects, stored| {
                    let error = stored.err().map_or(ErrorCode::None, response_error);
                    if error.is_none() {
                        groups.by_id.remove(&group_id);
                    } else {
                        groups.on_group(&group_id, effects, |group, _| group.state.revive());
                    }
                    answer.give(effects, error);
                }),
                late: Box::new(move |_, _, effects| {
                    too_late.give(effects, response_error(ErrorCode::RequestTimedOut));
                }),
            });
        });
    }

    /// Topics with these names and ids were deleted: their offsets go as well. A record without an
    /// id goes by its name.
    pub fn topics_deleted(
        Turn { state: groups, effects, .. }: Turn<'_, Self>,
        deleted: &HashMap<String, HashSet<Uuid>>,
    ) {
        let is_deleted = |topic: &str, value: &OffsetCommitValue| {
            let id = value.topic_id;
            id.is_zero() || deleted.get(topic).is_some_and(|ids| ids.contains(&id))
        };
        for id in groups.ids() {
            groups.on_group(&id, effects, |group, effects| {
                let names = deleted.keys().map(String::as_str);
                let gone = group.offsets.of_topics(names, is_deleted);
                remove_offsets(group, effects, gone, |_| {});
            });
        }
    }

    /// Removes the offsets of a group that were committed for topics whose names were given again,
    /// or are given no more.
    pub(super) fn remove_former(&mut self, group_id: &str, effects: &mut Effects<Self>) {
        let shared = Arc::clone(&self.shared);
        self.on_group(group_id, effects, |group, effects| {
            let former = group.offsets.former(|topic| (shared.id_of)(topic));
            remove_offsets(group, effects, former, |_| {});
        });
    }

    /// Removes offsets whose time is over, or whose topic is gone, and groups that have nothing
    /// left.
    pub fn expire(Turn { state: groups, now, effects }: Turn<'_, Self>) {
        let retention_ms = groups.shared.config.offsets_retention_ms;
        for id in groups.ids() {
            let Some(group) = groups.by_id.get(&id) else { continue };
            let (expired, all) = group.offsets.expired(&group.state, now.wall_ms, retention_ms);
            let is_over = all && group.state.is_deserted();
            groups.remove_former(&id, effects);
            if !expired.is_empty() {
                tracing::info!(group = &*id, count = expired.len(), "offsets expired");
            }
            if is_over {
                groups.bury(&id, now, effects, Box::new(|_| {}));
            } else {
                groups.on_group(&id, effects, |group, effects| {
                    remove_offsets(group, effects, expired, |_| {});
                });
            }
        }
    }
}
