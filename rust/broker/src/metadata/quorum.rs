//! Who makes records count.
//!
//! A quorum takes proposals and reports the outcome of each. Committed batches, ours and those of
//! other brokers, go to the publisher in the order of the log, and become the image there. The
//! controller decides; the quorum only keeps order and promises.

mod of_one;
mod of_raft;
mod switch;

use super::error::MetadataError;
use super::image::MetadataImage;
use super::records::MetadataRecord;
use kafkalite_protocol::Uuid;
use std::sync::Arc;

pub use of_one::QuorumOfOne;
pub use of_raft::{Accepted, Forward, Forwarded, QuorumOfRaft, RaftOptions};
pub use switch::QuorumSwitch;

/// Records to commit, all or none.
#[derive(Debug)]
pub struct Proposal {
    /// The records; none in a shared quorum asks whether `expected` is the end.
    pub records: Vec<MetadataRecord>,
    /// The offset of the last record of the image that they were decided upon: they count directly
    /// behind it, or not at all.
    pub expected: i64,
    /// The level of records in that image: they are written so.
    pub level: i16,
    /// When they were decided upon, in ms since 1970.
    pub timestamp_ms: i64,
    /// They count only if this node proposes them as the leader of this term.
    pub term: Option<u64>,
}

/// The outcome of a proposal.
#[derive(Debug)]
pub enum Outcome {
    /// It counts, and the publisher has it or is about to get it. The offset is its last record's.
    Committed(i64),
    /// It does not count, and never will.
    Rejected(MetadataError),
    /// Unknown: it may come out of the log at the next start, or from a later leader. It is not
    /// proposed again.
    Unknown(MetadataError),
}

/// Called once with the outcome of a proposal, after `propose` returned; dropped uncalled if the
/// quorum stops first.
pub type OnOutcome = Box<dyn FnOnce(Outcome) + Send>;

/// A log of metadata that some voters agree on.
pub trait MetadataQuorum: Send + Sync {
    /// Begins to commit a proposal. Never waits; `done` gets the outcome.
    fn propose(&self, proposal: Proposal, done: OnOutcome);

    /// Whether other brokers propose as well. Then the image of this one may be behind, and a
    /// decision without records counts only if a proposal of no records is not overtaken.
    fn is_shared(&self) -> bool {
        false
    }

    /// The image that was published last: a moment for a snapshot.
    fn published(&self, image: &Arc<MetadataImage>);

    /// How the voters stand.
    fn status(&self) -> QuorumStatus;

    /// Ends its threads, if it has any. What is being written is finished, what waits is dropped.
    fn stop(&self);
}

/// How the voters of the metadata log stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    /// The leader's broker id; -1 is none.
    pub leader_id: i32,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// The end of what is committed, exclusive.
    pub high_watermark: i64,
    /// The voters.
    pub voters: Vec<QuorumMember>,
    /// Those who have the log and no vote.
    pub observers: Vec<QuorumMember>,
}

impl QuorumStatus {
    /// Whether `node_id` leads, and a majority of the voters answered it within `within_ms`.
    ///
    /// A leader without a majority goes on to lead by its own account, and decides nothing.
    pub fn is_active(&self, node_id: i32, within_ms: u64) -> bool {
        let answers = |one: &&QuorumMember| one.answered_ms_ago.is_some_and(|ms| ms <= within_ms);
        let answering = self.voters.iter().filter(answers).count();
        self.leader_id == node_id && 2 * answering > self.voters.len()
    }
}

/// How one voter or observer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumMember {
    /// The broker's id.
    pub node_id: i32,
    /// The directory that holds its log; zero for a broker without company.
    pub directory_id: Uuid,
    /// The end of its log, exclusive; -1 where only the leader knows.
    pub end: i64,
    /// How long ago it answered the leader, in ms; `None` where only the leader knows.
    pub answered_ms_ago: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_active_while_a_majority_answers_it() {
        let active = |node_id, answered_ms_ago: &[Option<u64>]| {
            let voters = (1..).zip(answered_ms_ago).map(|(node_id, ago)| QuorumMember {
                node_id,
                directory_id: Uuid::ZERO,
                end: 1,
                answered_ms_ago: *ago,
            });
            let (leader_id, leader_epoch, high_watermark) = (1, 1, 1);
            let (voters, observers) = (voters.collect(), vec![]);
            let status =
                QuorumStatus { leader_id, leader_epoch, high_watermark, voters, observers };
            status.is_active(node_id, 100)
        };
        assert!(active(1, &[Some(0)]));
        assert!(active(1, &[Some(0), Some(100), None]));
        assert!(!active(1, &[Some(0), Some(101), None]));
        assert!(!active(1, &[Some(0), Some(101)]));
        assert!(!active(2, &[Some(0), Some(0), Some(0)]));
    }
}
