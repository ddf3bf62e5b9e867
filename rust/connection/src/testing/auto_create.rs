//! A broker's topics, some of them created because a client asked for them.

use super::fake_broker::{Answer, Asked, metadata, topic};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::metadata::{MetadataRequest, MetadataResponseTopic};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The topics there are, of one partition each, and how many were created by a question.
#[derive(Default)]
pub struct AutoCreated {
    /// Names of those there are.
    pub there: BTreeSet<String>,
    /// How many were created so far.
    pub created: usize,
}

/// The answer to Metadata of a broker with `auto.create.topics.enable`.
pub fn auto_creating(asked: &Asked, topics: &Mutex<AutoCreated>) -> Answer {
    let request: MetadataRequest = asked.read();
    let mut topics = topics.lock();
    let names: Vec<String> = match request.topics {
        Some(named) => named.into_iter().filter_map(|topic| topic.name).collect(),
        None => topics.there.iter().cloned().collect(),
    };
    let mut response = metadata(&asked.place, std::iter::empty());
    for name in names {
        if request.allow_auto_topic_creation && topics.there.insert(name.clone()) {
            topics.created += 1;
        }
        response.topics.push(match topics.there.contains(&name) {
            true => topic(&name, 1, 0),
            false => MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicOrPartition as i16,
                ..topic(&name, 0, 0)
            },
        });
    }
    asked.answer::<MetadataRequest>(&response)
}
