//! What can go wrong in the quorum.

use crate::types::{Endpoint, VoterId};
use kafkalite_log::frames::FramesError;
use kafkalite_protocol::DecodeError;
use std::io;
use std::path::PathBuf;

/// Why the quorum cannot be opened, or does not take what it is given.
#[derive(Debug, thiserror::Error)]
pub enum QuorumError {
    /// A file cannot be read or written, or is damaged.
    #[error(transparent)]
    File(#[from] FramesError),
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// The directory already has a quorum's log.
    #[error("{} belongs to a quorum already", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has a log, and no snapshot below it.
    #[error("{}: the log begins at index {first}, and no snapshot reaches it", path.display())]
    Hole {
        /// The directory.
        path: PathBuf,
        /// The first index of the log.
        first: u64,
    },
    /// What is in the log or in a message does not add up.
    #[error("malformed: {0}")]
    Malformed(String),
    /// This voter does not lead.
    #[error("this voter does not lead{}", leader_text(leader.as_ref()))]
    NotLeader {
        /// Who leads, as far as is known.
        leader: Option<(VoterId, Endpoint)>,
    },
    /// A change of the membership that cannot be made, or not now.
    #[error("the membership stays as it is: {0}")]
    Membership(String),
    /// Another proposal was faster.
    #[error("decided at offset {expected}, the log is at {found} by now")]
    Overtaken {
        /// The last offset of the state that the proposal was decided upon.
        expected: i64,
        /// The last offset when it was applied.
        found: i64,
    },
    /// The outcome is open: the proposal may count later, or never.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
    /// The quorum has stopped: by request, or because its disk failed.
    #[error("the quorum has stopped: {0}")]
    Stopped(String),
}

fn leader_text(leader: Option<&(VoterId, Endpoint)>) -> String {
    leader.map_or_else(String::new, |(id, at)| format!(": {id} at {}:{} does", at.host, at.port))
}

impl From<DecodeError> for QuorumError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<QuorumError> for io::Error {
    /// openraft knows only these; each of them stops it.
    fn from(error: QuorumError) -> Self {
        Self::other(error.to_string())
    }
}
