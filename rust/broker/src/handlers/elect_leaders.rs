//! ElectLeaders: make the preferred replica lead, or any that is there.
//!
//! With one broker the one replica leads already, so no election is needed.
//! Source: Kafka's `ReplicationControlManager.electLeaders`, its error codes and its words;
//! KIP-460.

use super::messages::Messages;
use super::parked_change::park;
use super::{Call, Reply, Rooms, is_too_late};
use crate::metadata::controller::{ElectionKind, elect_leaders};
use crate::metadata::{ApiError, MetadataImage, TopicImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
    TopicPartitions,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// The answers of the controller, by topic and partition.
type Answers = HashMap<(Arc<str>, i32), Result<(), ApiError>>;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ElectLeadersRequest>) {
    let Call { request, reply } = call;
    if let Some(error) = refusal(&request, reply.version) {
        return refuse(reply, &request, &error);
    }
    let kind = match request.election_type {
        UNCLEAN => ElectionKind::Unclean,
        _ => ElectionKind::Preferred,
    };
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    // The image of this broker may be behind: what is there is found out within the change.
    let decide = move |image: &MetadataImage| {
        let wanted = wanted(image, &asked, kind);
        let (records, answers) = elect_leaders(image, kind, &wanted);
        (records, (image.clone(), wanted.into_iter().zip(answers).collect::<Answers>()))
    };
    let ask = |done| rooms.controller.change_whole(decide, done);
    let (controller, timeout_ms) =
        (Arc::clone(&rooms.controller), u64::from(request.timeout_ms.unsigned_abs()));
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |decided| {
        let (image, answers) = decided.flatten().unwrap_or_else(|error| {
            let image = (*controller.image()).clone();
            let wanted = wanted(&image, &request, kind);
            let failed = wanted.into_iter().map(|place| (place, Err(error.clone())));
            let failed = failed.collect();
            (image, failed)
        });
        match &request.topic_partitions {
            Some(asked) => tell(reply, &image, asked, &answers),
            None => tell_all(reply, &image, &answers),
        }
    });
}

/// The partitions that a request is about, each once.
fn wanted(
    image: &MetadataImage,
    request: &ElectLeadersRequest,
    kind: ElectionKind,
) -> Vec<(Arc<str>, i32)> {
    match &request.topic_partitions {
        Some(asked) => known(image, asked),
        None => needed(image, kind),
    }
}

/// Why no leader is elected at all.
fn refusal(request: &ElectLeadersRequest, version: i16) -> Option<ApiError> {
    let kind = request.election_type;
    if request.topic_partitions.as_ref().is_some_and(Vec::is_empty) {
        // Kafka looks at the type with the first partition.
        None
    } else if is_too_late(request.timeout_ms) {
        Some(ErrorCode::RequestTimedOut.into())
    } else if version >= 1 && !matches!(kind, PREFERRED | UNCLEAN) {
        let message = format!("Unknown election type {kind}");
        Some(ApiError::new(ErrorCode::InvalidRequest, message))
    } else {
        None
    }
}

fn refuse(reply: Reply<ElectLeadersRequest>, request: &ElectLeadersRequest, error: &ApiError) {
    let error_code = error.code.code();
    let head = ElectLeadersResponse { error_code, ..ElectLeadersResponse::default() };
    let mut messages = Messages::new();
    let asked = request.topic_partitions.as_deref().unwrap_or_default();
    let results = asked.iter().map(|asked| {
        let refused = asked.partitions.iter();
        let refused = refused.map(|index| told(*index, Err(messages.keep(error.clone()))));
        ReplicaElectionResult { topic: asked.topic.clone(), partition_result: refused.collect() }
    });
    reply.send_each(&head, results);
}

/// The partitions that are there, each once.
fn known(image: &MetadataImage, asked: &[TopicPartitions]) -> Vec<(Arc<str>, i32)> {
    let mut seen = HashSet::new();
    let topics = asked.iter().filter_map(|asked| Some((image.topic(&asked.topic)?, asked)));
    let places = topics.flat_map(|(topic, asked)| {
        let there = asked.partitions.iter().filter(|index| topic.partition(**index).is_some());
        there.map(|index| (Arc::clone(&topic.name), *index))
    });
    places.filter(|place| seen.insert(place.clone())).collect()
}

/// The partitions that may need an election of this kind.
fn needed(image: &MetadataImage, kind: ElectionKind) -> Vec<(Arc<str>, i32)> {
    let places = image.topics.iter().flat_map(|topic| {
        let needed = (0..).zip(&topic.partitions).filter(|(_, now)| match kind {
            ElectionKind::Preferred => now.replicas.first() != Some(&now.leader),
            ElectionKind::Unclean => now.leader == -1,
            ElectionKind::Named(id) => now.leader != id,
        });
        needed.map(|(index, _)| (Arc::clone(&topic.name), index))
    });
    places.collect()
}

fn tell(
    reply: Reply<ElectLeadersRequest>,
    image: &MetadataImage,
    asked: &[TopicPartitions],
    answers: &Answers,
) {
    let mut messages = Messages::new();
    let results = asked.iter().map(|asked| {
        let topic = image.topic(&asked.topic);
        let partitions = asked.partitions.iter().map(|index| {
            told(*index, answered(topic, &asked.topic, *index, answers, &mut messages))
        });
        ReplicaElectionResult { topic: asked.topic.clone(), partition_result: partitions.collect() }
    });
    reply.send_each(&ElectLeadersResponse::default(), results);
}

/// Asked for all, Kafka lists only the partitions where an election was needed.
fn tell_all(reply: Reply<ElectLeadersRequest>, image: &MetadataImage, answers: &Answers) {
    let mut messages = Messages::new();
    let results = image.topics.iter().map(|topic| {
        let answer = |index| Some((index, answers.get(&(Arc::clone(&topic.name), index))?));
        let answers = (0..topic.partition_count()).filter_map(answer);
        let was_needed = |answer: &Result<(), ApiError>| {
            !matches!(answer, Err(error) if error.code == ErrorCode::ElectionNotNeeded)
        };
        let answers = answers.filter(|(_, answer)| was_needed(answer));
        let results = answers.map(|(index, answer)| {
            told(index, answer.clone().map_err(|error| messages.keep(error)))
        });
        let (topic, partition_result) = (topic.name.to_string(), results.collect());
        ReplicaElectionResult { topic, partition_result }
    });
    let replica_election_results = results.collect();
    reply.send(&ElectLeadersResponse { replica_election_results, ..Default::default() });
}

fn answered(
    topic: Option<&Arc<TopicImage>>,
    name: &str,
    index: i32,
    answers: &Answers,
    messages: &mut Messages,
) -> Result<(), ApiError> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let Some(topic) = topic else {
        return Err(messages.error(unknown, || format!("No such topic as {name}")));
    };
    let Some(answer) = answers.get(&(Arc::clone(&topic.name), index)) else {
        let message = || format!("No such partition as {name}-{index}");
        return Err(messages.error(unknown, message));
    };
    answer.clone().map_err(|error| messages.keep(error))
}

fn told(partition_id: i32, answer: Result<(), ApiError>) -> PartitionResult {
    let (error_code, error_message) = match answer {
        Ok(()) => (0, None),
        Err(ApiError { code, message }) => (code.code(), message),
    };
    PartitionResult { partition_id, error_code, error_message }
}
