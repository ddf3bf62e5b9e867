//! The control plane's picture: topics, partitions, leaders, epochs, configs, producer ids.
//!
//! Metadata is a log of records (`records.rs`, `metadata_log.rs`). Applying them in order gives an
//! immutable [`MetadataImage`] (`image.rs`), which readers take without a lock. [`Controller`]
//! decides, from the image and a request, which records to add; [`MetadataQuorum`] commits them.
//! [`Publisher`] applies them and calls the followers of the image. Here the quorum has one voter.
//! Source: Kafka's KRaft controller (KIP-500, KIP-631) in its roles, not in its bytes.

pub mod controller;
pub mod error;
pub mod features;
pub mod image;
pub mod metadata_log;
pub mod publisher;
pub mod quorum;
pub mod records;
pub mod shared_map;
mod worker;

pub use controller::Controller;
pub use error::{ApiError, MetadataError};
pub use features::SupportedFeatures;
pub use image::{
    BrokerImage, CLUSTER_METADATA_TOPIC, MetadataImage, PartitionImage, TopicImage, TopicsImage,
    Voting,
};
pub use publisher::{OnImage, Publisher};
pub use quorum::{MetadataQuorum, QuorumOfOne, QuorumOfRaft};
pub use records::{ConfigResource, ConfigResourceType, MetadataRecord};
