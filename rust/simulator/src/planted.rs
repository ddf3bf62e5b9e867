//! Bugs that are planted on purpose: the checker is proven by finding each of them.

use crate::sweep::Named;

/// One bug of the simulated cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The leader acknowledges a produce and then, sometimes, does not append.
    AckBeforeAppend,
    /// The CRC of a batch from the network is not checked.
    CrcSkipped,
    /// The leader counts what it sends to a follower as held by that follower.
    HighWatermarkPastFollower,
    /// A follower takes answers of a leader that it no longer follows, and a leader serves every
    /// epoch.
    EpochFenceDropped,
    /// An append that was admitted in one epoch is written although the replica was demoted since.
    DemotedLeaderAppends,
    /// A waiting produce is acknowledged by offset alone, whatever epoch the log is in.
    CommitAcrossEpochs,
    /// The end of an old append is reported to the partition's state after a truncation.
    LateAppendUndoesTruncation,
    /// The controller takes a change of the in-sync replicas that was made from an old state.
    StaleIsrAccepted,
    /// The controller lets a restarted replica join by what its former life had fetched.
    OldBrokerEpochAccepted,
    /// The leader counts only the committed in-sync replicas while another one joins.
    JoiningReplicaNotCounted,
    /// A commit is taken whatever generation its member names.
    OldGenerationCommits,
    /// The coordinator of a restarted or new leader reads the group's records to the high
    /// watermark only.
    LoadedToHighWatermark,
    /// The coordinator of a new leader answers from records whose commit is not known yet.
    LoadedUncommitted,
    /// A deposed coordinator answers that a commit is stored although its epoch is over.
    CommitAnsweredByDeposedCoordinator,
    /// A restarted broker does not read the last batch of its metadata log.
    ImageForgetsLastBatch,
    /// A timer's task runs twice.
    TimerFiresTwice,
    /// A follower keeps its records where its log parts from the leader's.
    TruncationSkipped,
    /// The coordinator's load leaves a batch out between two of its reads.
    LoadSkipsABatch,
    /// The coordinator does not know for which topic of a name an offset was committed.
    CommitsWithoutTopicId,
    /// A broker applies metadata that it has already.
    OldMetadataApplied,
    /// The quorum commits what was decided on an image that others have overtaken.
    OvertakenProposalCommits,
    /// A change of unknown outcome counts as refused.
    UnknownTakenForRejected,
    /// A restarted controller does not find the last batch of its log.
    MetadataLogLosesItsEnd,
    /// A follower fetches from behind records that are not on its disk, though `flush.messages`
    /// asks for that.
    FollowerAcknowledgesUnflushed,
    /// The controller lets any replica lead that is alive.
    UncleanLeaderElected,
    /// Records count as committed while fewer replicas than `min.insync.replicas` have them.
    HighWatermarkMovesBelowMin,
    /// Retention goes up to the log's end.
    RetentionPassesHighWatermark,
    /// Retention goes by a policy that is not the topic's.
    RetentionByAnotherPolicy,
    /// A follower whose log ends before the leader's begins keeps its log.
    LateFollowerKeepsItsLog,
    /// A leader counts a follower whose records are all older than its own log, and may be others
    /// than those that the leader deleted.
    DeletedRecordsTrusted,
    /// The checkpoint of high watermarks notes the log's end.
    CheckpointNotesLogEnd,
    /// The leader epoch stays when a replica leaves. So what a replica fetches that left and came
    /// back counts, and its broker deletes the log after that.
    EpochStaysWhenReplicaLeaves,
    /// A reassignment ends before its new replicas are in sync.
    MoveEndsEarly,
}

impl Planted {
    /// Every bug.
    pub const ALL: [Self; 33] = [
        Self::AckBeforeAppend,
        Self::CrcSkipped,
        Self::HighWatermarkPastFollower,
        Self::EpochFenceDropped,
        Self::DemotedLeaderAppends,
        Self::CommitAcrossEpochs,
        Self::LateAppendUndoesTruncation,
        Self::StaleIsrAccepted,
        Self::OldBrokerEpochAccepted,
        Self::JoiningReplicaNotCounted,
        Self::OldGenerationCommits,
        Self::LoadedToHighWatermark,
        Self::LoadedUncommitted,
        Self::CommitAnsweredByDeposedCoordinator,
        Self::ImageForgetsLastBatch,
        Self::TimerFiresTwice,
        Self::TruncationSkipped,
        Self::LoadSkipsABatch,
        Self::CommitsWithoutTopicId,
        Self::OldMetadataApplied,
        Self::OvertakenProposalCommits,
        Self::UnknownTakenForRejected,
        Self::MetadataLogLosesItsEnd,
        Self::FollowerAcknowledgesUnflushed,
        Self::UncleanLeaderElected,
        Self::HighWatermarkMovesBelowMin,
        Self::RetentionPassesHighWatermark,
        Self::RetentionByAnotherPolicy,
        Self::LateFollowerKeepsItsLog,
        Self::DeletedRecordsTrusted,
        Self::CheckpointNotesLogEnd,
        Self::EpochStaysWhenReplicaLeaves,
        Self::MoveEndsEarly,
    ];
}

impl Named for Planted {
    const EACH: &'static [Self] = &Self::ALL;
}
