//! Topics are created, grow, and are deleted.

use std::collections::BTreeMap;

use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use kafkalite_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use kafkalite_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use serde::{Deserialize, Serialize};

use super::request::{TIMEOUT_MS, ask, check};
use super::{bad, read};
use crate::admin_api::commands::Change;
use crate::admin_api::topics::find;
use crate::admin_api::{Answer, failed, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    name: String,
    /// `None`: as many as the broker's `num.partitions`.
    partitions: Option<i32>,
    /// `None`: the broker's `default.replication.factor`.
    replication_factor: Option<i16>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
    /// Only say whether it could be done.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Created<'a> {
    name: &'a str,
    /// `None` after a dry run.
    id: Option<String>,
    partitions: i32,
    replication_factor: i16,
    dry_run: bool,
}

/// `POST /topics`
pub(super) async fn create(change: Change) -> Answer {
    let wanted: NewTopic = read(&change.body)?;
    let configs = wanted.configs.into_iter();
    let configs = configs.map(|(name, value)| CreatableTopicConfig { name, value: Some(value) });
    let topic = CreatableTopic {
        name: wanted.name.clone(),
        num_partitions: wanted.partitions.unwrap_or(-1),
        replication_factor: wanted.replication_factor.unwrap_or(-1),
        configs: configs.collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: TIMEOUT_MS,
        validate_only: wanted.dry_run,
    };
    let answer = ask(&change, 7, &request).await?.topics.pop().ok_or_else(nothing)?;
    let what = format!("the topic {:?} is not created", wanted.name);
    check(&what, answer.error_code, answer.error_message)?;
    json(&Created {
        name: &answer.name,
        id: (!wanted.dry_run).then(|| answer.topic_id.to_string()),
        partitions: answer.num_partitions,
        replication_factor: answer.replication_factor,
        dry_run: wanted.dry_run,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grown {
    /// How many partitions the topic has afterwards.
    count: i32,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Counted<'a> {
    name: &'a str,
    partitions: i32,
    dry_run: bool,
}

/// `POST /topics/{name}/partitions`
pub(super) async fn add_partitions(change: Change) -> Answer {
    let (name, body) = (change.asked.part("name"), &change.body);
    let Grown { count, dry_run } = read(body)?;
    let topic = CreatePartitionsTopic { name: name.to_owned(), count, assignments: None };
    let (timeout_ms, validate_only) = (TIMEOUT_MS, dry_run);
    let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms, validate_only };
    let answer = ask(&change, 3, &request).await?.results.pop().ok_or_else(nothing)?;
    let what = format!("the topic {name:?} gets no partitions");
    check(&what, answer.error_code, answer.error_message)?;
    json(&Counted { name, partitions: count, dry_run })
}

#[derive(Serialize)]
struct Deleted<'a> {
    name: &'a str,
    id: String,
}

/// `DELETE /topics/{name}`
///
/// With `id`, only the topic that has this id: another one of its name may have come since a
/// person looked.
pub(super) async fn delete(change: Change) -> Answer {
    let Change { api, asked, .. } = &change;
    let name = asked.part("name");
    let topic_id = find(&api.controller.image(), name)?.id;
    if asked.text("id").is_some_and(|id| id != topic_id.to_string()) {
        let why = format!("its id is {topic_id}: another topic of this name was deleted");
        let hint = "look at the topic once more.";
        return Err(bad(format!("the topic {name:?} has another id"), why, hint));
    }
    let topics = vec![DeleteTopicState { name: None, topic_id }];
    let request = DeleteTopicsRequest { topics, timeout_ms: TIMEOUT_MS, ..Default::default() };
    let answer = ask(&change, 6, &request).await?.responses.pop().ok_or_else(nothing)?;
    let what = format!("the topic {name:?} is not deleted");
    check(&what, answer.error_code, answer.error_message)?;
    json(&Deleted { name, id: topic_id.to_string() })
}

fn nothing() -> crate::admin_http::Refusal {
    failed("its answer names no topic")
}
