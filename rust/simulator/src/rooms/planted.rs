//! Bugs around the real rooms. Production code has no switch for them, so they are planted in what
//! carries its requests, its questions and its bytes.

use crate::sweep::Named;

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The disk says that it synced, and did not.
    SyncsIgnored,
    /// A bit of a log flips on the disk, and the broker starts again.
    BitFlipped,
    /// A produce with acks=all is answered like one with acks=1.
    AckBeforeCommit,
    /// A consumer is served like a follower, above the high watermark.
    ReadAboveHighWatermark,
    /// A follower fetches from behind records that it does not have.
    FollowerClaimsMore,
    /// A follower keeps its records where its log parts from the leader's.
    TruncationSkipped,
    /// The controller lets any replica lead that is alive.
    UncleanLeaderElected,
    /// A batch that is sent again has lost its producer, as if no state of producers were kept.
    SequencesForgotten,
}

impl Planted {
    /// Every bug.
    pub const ALL: [Self; 8] = [
        Self::SyncsIgnored,
        Self::BitFlipped,
        Self::AckBeforeCommit,
        Self::ReadAboveHighWatermark,
        Self::FollowerClaimsMore,
        Self::TruncationSkipped,
        Self::UncleanLeaderElected,
        Self::SequencesForgotten,
    ];
}

impl Named for Planted {
    const EACH: &'static [Self] = &Self::ALL;
}
