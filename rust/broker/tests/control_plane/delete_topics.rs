use super::*;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::delete_topics::{
    DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};

fn state(name: Option<&str>, topic_id: Uuid) -> DeleteTopicState {
    DeleteTopicState { name: name.map(str::to_owned), topic_id }
}

fn named(name: &str) -> DeleteTopicState {
    state(Some(name), Uuid::ZERO)
}

fn by_state(topics: Vec<DeleteTopicState>) -> DeleteTopicsRequest {
    DeleteTopicsRequest { topics, timeout_ms: 1_000, ..DeleteTopicsRequest::default() }
}

fn by_name(names: &[&str]) -> DeleteTopicsRequest {
    let topic_names = names.iter().map(|name| (*name).to_owned()).collect();
    DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..DeleteTopicsRequest::default() }
}

fn outcomes(response: &DeleteTopicsResponse) -> Vec<(i16, Option<String>)> {
    let answers = response.responses.iter();
    answers.map(|answer| (answer.error_code, answer.error_message.clone())).collect()
}

#[test]
fn nothing_is_deleted_in_no_time() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for timeout_ms in [0, -1] {
        let late = DeleteTopicsRequest { timeout_ms, ..by_name(&["t", "nope"]) };
        let timed_out = (ErrorCode::RequestTimedOut.code(), None);
        assert_eq!(outcomes(&fixture.call(&late, 5)), [timed_out.clone(), timed_out]);
    }
    assert!(fixture.broker.rooms().controller.image().topic("t").is_some());
}

#[test]
fn every_version_deletes_by_name() {
    let mut fixture = Fixture::new();
    for version in 1..=6 {
        client::create_topic(&fixture.broker, "t", 1, &[]);
        let request = if version < 6 { by_name(&["t"]) } else { by_state(vec![named("t")]) };
        let response = fixture.call(&request, version);
        assert_eq!(outcomes(&response), [(0, None)], "v{version}");
        assert!(fixture.broker.rooms().controller.image().topics.is_empty(), "v{version}");
    }
}

#[test]
fn a_topic_is_deleted_by_id_and_made_again_under_another() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let id = |fixture: &Fixture| fixture.broker.rooms().controller.image().topic("t").unwrap().id;
    let first = id(&fixture);
    let response = fixture.call(&by_state(vec![state(None, first)]), 6);
    assert_eq!(response.responses[0].name.as_deref(), Some("t"));
    client::create_topic(&fixture.broker, "t", 1, &[]);
    assert_ne!(id(&fixture), first);
    let unknown = error(ErrorCode::UnknownTopicId, "This server does not host this topic ID.");
    let response = fixture.call(&by_state(vec![state(None, first)]), 6);
    assert_eq!(outcomes(&response), [unknown]);
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let id = fixture.broker.rooms().controller.image().topic("t").unwrap().id;
    let stranger = Uuid([9; 16]);
    for (asked, code, message) in [
        (
            vec![named("nope")],
            ErrorCode::UnknownTopicOrPartition,
            "This server does not host this topic-partition.",
        ),
        (
            vec![state(None, Uuid::ZERO)],
            ErrorCode::InvalidRequest,
            "Neither topic name nor id were specified.",
        ),
        (
            vec![state(Some("t"), stranger)],
            ErrorCode::InvalidRequest,
            "You may not specify both topic name and topic id.",
        ),
        (vec![named("t"), named("t")], ErrorCode::InvalidRequest, "Duplicate topic name."),
        (
            vec![state(None, stranger), state(None, stranger)],
            ErrorCode::InvalidRequest,
            "Duplicate topic id.",
        ),
        (
            vec![named("t"), state(None, id)],
            ErrorCode::InvalidRequest,
            "The provided topic name maps to an ID that was already supplied.",
        ),
    ] {
        let response = fixture.call(&by_state(asked.clone()), 6);
        assert_eq!(outcomes(&response), [error(code, message)], "{asked:?}");
    }
    assert!(fixture.broker.rooms().controller.image().topic("t").is_some());
}

#[test]
fn deletion_can_be_switched_off() {
    let mut fixture = Fixture::with(&[("delete.topic.enable", "false")]);
    client::create_topic(&fixture.broker, "t", 1, &[]);
    for (version, code) in [(2, ErrorCode::InvalidRequest), (3, ErrorCode::TopicDeletionDisabled)] {
        let response = fixture.call(&by_name(&["t"]), version);
        assert_eq!(response.responses[0].error_code, code.code(), "v{version}");
    }
}
