//! Why a broker does not start.

use crate::cluster::join::JoinError;
use crate::config::ConfigError;
use crate::meta_properties::MetaPropertiesError;
use crate::metadata::MetadataError;
use crate::network::BindError;
use kafkalite_log::LogError;

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The data directory belongs to another cluster or node.
    #[error(transparent)]
    MetaProperties(#[from] MetaPropertiesError),
    /// The broker cannot join its cluster.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The id that the broker has in its cluster cannot be one.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The metadata log cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A topic that was asked for cannot be made.
    #[error("cannot create topic {name}: {why}")]
    Topic {
        /// Its name.
        name: String,
        /// Why not, in Kafka's words.
        why: String,
    },
    /// The operating system refuses a thread or randomness.
    #[error("cannot start {what}: {source}")]
    System {
        /// What was to be started.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl StartError {
    /// Whether the broker is of a release that its cluster does not go with.
    #[must_use]
    pub const fn is_of_another_release(&self) -> bool {
        matches!(
            self,
            Self::Join(JoinError::Release { .. })
                | Self::Metadata(
                    MetadataError::Feature { .. }
                        | MetadataError::Unsupported { .. }
                        | MetadataError::UnknownRecord { .. }
                        | MetadataError::NewerRecord { .. }
                )
        )
    }

    /// Whether the cluster that the broker belongs to was not there in time.
    #[must_use]
    pub const fn is_without_cluster(&self) -> bool {
        matches!(
            self,
            Self::Join(JoinError::Late { .. })
                | Self::Metadata(MetadataError::NotRegistered { .. })
        )
    }
}

pub(super) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System { what, source }
}
