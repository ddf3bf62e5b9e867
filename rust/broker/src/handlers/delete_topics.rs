//! DeleteTopics: by name, since version 6 also by id.
//!
//! Source: Kafka's `ControllerApis.deleteTopics`, its error codes and its words.

use super::{Call, Rooms, is_too_late};
use crate::metadata::controller::TopicName;
use crate::metadata::{ApiError, MetadataImage};
use kafkalite_protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{HashMap, HashSet};

/// One topic of a request, and what became of it.
type Answer = (DeleteTopicState, Result<(String, Uuid), ApiError>);

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DeleteTopicsRequest>) {
    let Call { request, reply } = call;
    let names = request.topic_names.iter();
    let by_name = names.map(|name| DeleteTopicState { name: Some(name.clone()), ..empty() });
    let asked: Vec<DeleteTopicState> = request.topics.iter().cloned().chain(by_name).collect();
    let answers = if rooms.config().delete_topic_enable {
        delete(rooms, &asked, is_too_late(request.timeout_ms))
    } else {
        let code = match reply.version {
            ..=2 => ErrorCode::InvalidRequest,
            _ => ErrorCode::TopicDeletionDisabled,
        };
        let error = ApiError::new(code, "Topic deletion is disabled.");
        asked.into_iter().map(|topic| (topic, Err(error.clone()))).collect()
    };
    let responses = answers.into_iter().map(|(topic, answer)| match answer {
        Ok((name, topic_id)) => {
            DeletableTopicResult { name: Some(name), topic_id, ..DeletableTopicResult::default() }
        }
        Err(error) => DeletableTopicResult {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code: error.code.code(),
            error_message: error.message,
        },
    });
    let responses = responses.collect();
    reply.send(&DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() });
}

fn empty() -> DeleteTopicState {
    DeleteTopicState::default()
}

fn delete(rooms: &Rooms, asked: &[DeleteTopicState], is_late: bool) -> Vec<Answer> {
    let (mut answers, topics) = sort(&rooms.controller.image(), asked);
    if is_late {
        let late = |topic| (topic, Err(ErrorCode::RequestTimedOut.into()));
        answers.extend(topics.into_iter().map(late));
        return answers;
    }
    let names: Vec<TopicName> = topics.iter().map(name_of).collect();
    let deleted = rooms.controller.delete_topics(&names).into_iter().map(|answer| {
        answer.map_err(|error| match error {
            ApiError { code: ErrorCode::UnknownTopicId, message: None } => {
                ApiError::new(error.code, "This server does not host this topic ID.")
            }
            ApiError { code: ErrorCode::UnknownTopicOrPartition, message: None } => {
                ApiError::new(error.code, "This server does not host this topic-partition.")
            }
            other => other,
        })
    });
    answers.extend(topics.into_iter().zip(deleted));
    answers
}

fn name_of(topic: &DeleteTopicState) -> TopicName {
    match &topic.name {
        Some(name) => TopicName::Name(name.clone()),
        None => TopicName::Id(topic.topic_id),
    }
}

/// Sorts out what cannot be meant: nothing, two things at once, or one thing twice. Each is
/// answered once.
fn sort(image: &MetadataImage, asked: &[DeleteTopicState]) -> (Vec<Answer>, Vec<DeleteTopicState>) {
    let mut counts: HashMap<TopicName, usize> = HashMap::new();
    for topic in asked {
        *counts.entry(name_of(topic)).or_default() += 1;
    }
    let refusal = |topic: &DeleteTopicState| {
        let by_name = topic.name.is_some();
        if by_name && !topic.topic_id.is_zero() {
            return Some("You may not specify both topic name and topic id.");
        }
        if !by_name && topic.topic_id.is_zero() {
            return Some("Neither topic name nor id were specified.");
        }
        if counts[&name_of(topic)] > 1 {
            return Some(if by_name { "Duplicate topic name." } else { "Duplicate topic id." });
        }
        let meant = topic.name.as_deref().and_then(|name| image.topic(name));
        let twice = meant.is_some_and(|meant| counts.contains_key(&TopicName::Id(meant.id)));
        twice.then_some("The provided topic name maps to an ID that was already supplied.")
    };
    let mut answers: Vec<Answer> = Vec::new();
    let mut answered = HashSet::new();
    let mut topics = Vec::new();
    for topic in asked {
        let Some(words) = refusal(topic) else {
            topics.push(topic.clone());
            continue;
        };
        if answered.insert((topic.name.as_deref(), topic.topic_id)) {
            let error = ApiError::new(ErrorCode::InvalidRequest, words);
            answers.push((topic.clone(), Err(error)));
        }
    }
    // The id half of a pair that names one topic twice must not be deleted either.
    let spoiled = |topic: &DeleteTopicState| {
        topic.name.is_none()
            && image
                .topic_by_id(topic.topic_id)
                .is_some_and(|meant| counts.contains_key(&TopicName::Name(meant.name.to_string())))
    };
    topics.retain(|topic| !spoiled(topic));
    (answers, topics)
}
