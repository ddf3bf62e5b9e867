//! DeleteTopics: by name, since version 6 also by id.
//!
//! A request may name a million topics. Each is kept once, as it was decoded, with its outcome in a
//! few bytes beside it. Which of them are there is judged within the change: the image of this
//! broker may be behind.
//! Source: Kafka's `ControllerApis.deleteTopics`, its error codes and its words.

use super::messages::Messages;
use super::parked_change::park;
use super::{Call, Reply, Rooms, is_too_late};
use crate::metadata::controller::{TopicName, delete_topics};
use crate::metadata::{ApiError, MetadataImage};
use kafkalite_protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::HashSet;
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DeleteTopicsRequest>) {
    let Call { request, reply } = call;
    let named = request.topic_names.into_iter();
    let named = named.map(|name| DeleteTopicState { name: Some(name), ..Default::default() });
    let mut asked = request.topics;
    asked.extend(named);
    if !rooms.config().delete_topic_enable {
        let code = match reply.version {
            ..=2 => ErrorCode::InvalidRequest,
            _ => ErrorCode::TopicDeletionDisabled,
        };
        let disabled = |place| (place, Fate::Refused(code, "Topic deletion is disabled."));
        let fates = (0..asked.len()).map(disabled).collect();
        return answer(reply, asked, fates, &[]);
    }
    let mut fates = judge(&rooms.controller.image(), &asked);
    if is_too_late(request.timeout_ms) {
        fail(&mut fates, ErrorCode::RequestTimedOut);
        return answer(reply, asked, fates, &[]);
    }
    if !fates.iter().any(|(_, fate)| is_meant(*fate)) {
        return answer(reply, asked, fates, &[]);
    }
    let asked = Arc::new(asked);
    let meant = Arc::clone(&asked);
    let decide = move |image: &MetadataImage| {
        let mut fates = judge(image, &meant);
        let names = names(&meant, &mut fates);
        let (records, deleted) = delete_topics(image, &names);
        (records, (fates, deleted))
    };
    let ask = |done| rooms.controller.change_whole(decide, done);
    let timeout_ms = u64::from(request.timeout_ms.unsigned_abs());
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |decided| {
        let (fates, deleted) = decided.flatten().unwrap_or_else(|error| {
            fail(&mut fates, error.code);
            (fates, Vec::new())
        });
        let asked = Arc::try_unwrap(asked).unwrap_or_else(|shared| shared.to_vec());
        answer(reply, asked, fates, &deleted);
    });
}

fn answer(
    reply: Reply<DeleteTopicsRequest>,
    mut asked: Vec<DeleteTopicState>,
    fates: Vec<(usize, Fate)>,
    deleted: &[Deleted],
) {
    let mut messages = Messages::new();
    let mut results = fates.into_iter().map(|(place, fate)| {
        result(std::mem::take(&mut asked[place]), fate, deleted, &mut messages)
    });
    reply.send_each(&DeleteTopicsResponse::default(), results.by_ref());
}

/// What the controller says of a topic that it was asked to delete.
type Deleted = Result<(String, Uuid), ApiError>;

/// What becomes of a topic of the request.
#[derive(Clone, Copy)]
enum Fate {
    /// It is not meant, or not there.
    Refused(ErrorCode, &'static str),
    /// As before, with nothing more to say.
    Failed(ErrorCode),
    /// It is there when the request is judged.
    Meant,
    /// The controller was asked; its answer has this number.
    Asked(u32),
}

fn result(
    topic: DeleteTopicState,
    fate: Fate,
    deleted: &[Deleted],
    messages: &mut Messages,
) -> DeletableTopicResult {
    let error = match fate {
        Fate::Refused(code, words) => messages.error(code, || words.to_owned()),
        Fate::Failed(code) => code.into(),
        Fate::Meant => ErrorCode::UnknownServerError.into(),
        Fate::Asked(number) => match deleted.get(number as usize) {
            Some(Ok((name, topic_id))) => {
                let (name, topic_id) = (Some(name.clone()), *topic_id);
                return DeletableTopicResult { name, topic_id, ..Default::default() };
            }
            Some(Err(ApiError { code, message: None })) => match unknown(*code) {
                Fate::Refused(code, words) => messages.error(code, || words.to_owned()),
                _ => (*code).into(),
            },
            Some(Err(error)) => messages.keep(error.clone()),
            None => ErrorCode::UnknownServerError.into(),
        },
    };
    DeletableTopicResult {
        name: topic.name,
        topic_id: topic.topic_id,
        error_code: error.code.code(),
        error_message: error.message,
    }
}

/// Kafka's words for a topic that is not there.
fn unknown(code: ErrorCode) -> Fate {
    match code {
        ErrorCode::UnknownTopicId => {
            Fate::Refused(code, "This server does not host this topic ID.")
        }
        ErrorCode::UnknownTopicOrPartition => {
            Fate::Refused(code, "This server does not host this topic-partition.")
        }
        code => Fate::Failed(code),
    }
}

/// Whether a topic is judged to be meant, there or not: what is malformed is refused before.
fn is_meant(fate: Fate) -> bool {
    !matches!(fate, Fate::Refused(ErrorCode::InvalidRequest, _))
}

/// Nothing is deleted, as the time of the request is over for instance.
fn fail(fates: &mut [(usize, Fate)], code: ErrorCode) {
    for (_, fate) in fates.iter_mut().filter(|(_, fate)| is_meant(*fate)) {
        *fate = Fate::Failed(code);
    }
}

/// What the controller is asked to delete: what is meant and there.
fn names(asked: &[DeleteTopicState], fates: &mut [(usize, Fate)]) -> Vec<TopicName> {
    let mut names = Vec::new();
    for (place, fate) in fates.iter_mut().filter(|(_, fate)| matches!(fate, Fate::Meant)) {
        *fate = Fate::Asked(u32::try_from(names.len()).unwrap_or(u32::MAX));
        names.push(match &asked[*place].name {
            Some(name) => TopicName::Name(name.clone()),
            None => TopicName::Id(asked[*place].topic_id),
        });
    }
    names
}

/// What is meant and what cannot be: nothing, two things at once, or one thing twice. Each is
/// answered once, what is refused first.
fn judge(image: &MetadataImage, asked: &[DeleteTopicState]) -> Vec<(usize, Fate)> {
    let key = |place: usize| (asked[place].name.as_deref(), asked[place].topic_id);
    let mut order: Vec<u32> = (0..u32::try_from(asked.len()).unwrap_or(u32::MAX)).collect();
    order.sort_unstable_by_key(|place| (key(*place as usize), *place));
    let mut again = vec![false; asked.len()];
    let mut twice = HashSet::new();
    for run in order.chunk_by(|one, other| key(*one as usize) == key(*other as usize)) {
        if let [first, rest @ ..] = run
            && !rest.is_empty()
        {
            twice.insert(*first as usize);
            rest.iter().for_each(|place| again[*place as usize] = true);
        }
    }
    drop(order);
    // Only of topics that are there: no other can be named by both.
    let named = asked.iter().filter_map(|topic| image.topic(topic.name.as_deref()?));
    let by_name: HashSet<Uuid> = named.map(|topic| topic.id).collect();
    let ids = asked.iter().filter(|topic| topic.name.is_none()).map(|topic| topic.topic_id);
    let by_id: HashSet<Uuid> = ids.filter(|id| by_name.contains(id)).collect();
    let fate = |place: usize| {
        let topic = &asked[place];
        let refused = |words| Fate::Refused(ErrorCode::InvalidRequest, words);
        let there = match &topic.name {
            Some(_) if !topic.topic_id.is_zero() => {
                return refused("You may not specify both topic name and topic id.");
            }
            None if topic.topic_id.is_zero() => {
                return refused("Neither topic name nor id were specified.");
            }
            Some(_) if twice.contains(&place) => return refused("Duplicate topic name."),
            None if twice.contains(&place) => return refused("Duplicate topic id."),
            Some(name) => match image.topic(name) {
                Some(meant) if by_id.contains(&meant.id) => {
                    let words = "The provided topic name maps to an ID that was already supplied.";
                    return refused(words);
                }
                found => found.ok_or(ErrorCode::UnknownTopicOrPartition),
            },
            None => image.topic_by_id(topic.topic_id).ok_or(ErrorCode::UnknownTopicId),
        };
        there.map_or_else(unknown, |_| Fate::Meant)
    };
    // The id half of a pair that names one topic twice must not be deleted either, and is not told.
    let is_half =
        |place: usize| asked[place].name.is_none() && by_id.contains(&asked[place].topic_id);
    let once = (0..asked.len()).filter(|place| !again[*place]);
    let mut fates: Vec<(usize, Fate)> = once
        .map(|place| (place, fate(place)))
        .filter(|(place, fate)| !is_meant(*fate) || !is_half(*place))
        .collect();
    fates.sort_by_key(|(_, fate)| is_meant(*fate));
    fates
}
