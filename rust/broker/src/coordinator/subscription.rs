//! What a consumer's metadata tells of the topics it reads.
//!
//! The rest of it is opaque. Every version of the consumer protocol begins as version 0 does, so
//! version 0 is what is read.
//! Source: Kafka's `ConsumerProtocol.deserializeConsumerProtocolSubscription`.

use bytes::Bytes;
use kafkalite_protocol::Reader;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::consumer_protocol::ConsumerProtocolSubscription;

/// The topics in `metadata`; `None` if it is not a subscription.
pub fn subscribed_topics(metadata: &Bytes) -> Option<Vec<String>> {
    let mut reader = Reader::new(metadata.clone());
    let version = reader.i16().ok()?;
    if version < 0 {
        return None;
    }
    ConsumerProtocolSubscription::decode(&mut reader, 0)
        .ok()
        .map(|subscription| subscription.topics)
}
