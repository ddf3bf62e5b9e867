//! Reads a consumer's metadata: the topics of its subscription, and its assigned partitions.
//!
//! The rest of it is opaque. Every version of the consumer protocol begins as version 0 does, so
//! version 0 is what is read.
//! Source: Kafka's `ConsumerProtocol`.

use bytes::Bytes;
use kafkalite_protocol::Reader;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription,
};

/// The topics in `metadata`; `None` if it is not a subscription.
pub fn subscribed_topics(metadata: &Bytes) -> Option<Vec<String>> {
    decode::<ConsumerProtocolSubscription>(metadata).map(|subscription| subscription.topics)
}

/// Topic and number of each partition in `assignment`; `None` if it is none.
pub fn assigned_partitions(assignment: &Bytes) -> Option<Vec<(String, i32)>> {
    let topics = decode::<ConsumerProtocolAssignment>(assignment)?.assigned_partitions;
    let partitions = topics.into_iter().flat_map(|of| {
        let topic = of.topic;
        of.partitions.into_iter().map(move |partition| (topic.clone(), partition))
    });
    Some(partitions.collect())
}

fn decode<T: Wire>(bytes: &Bytes) -> Option<T> {
    let mut reader = Reader::new(bytes.clone());
    let version = reader.i16().ok()?;
    if version < 0 { None } else { T::decode(&mut reader, 0).ok() }
}
