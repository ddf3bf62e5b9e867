//! Has the controller change in-sync replicas as the leaders here see them.
//!
//! One request is under way at a time and has the proposals of all partitions that wait. An
//! accepted proposal comes back as an image. A refused one is withdrawn. One whose outcome is
//! unknown is made again, unless a newer image comes first.
//! Source: Kafka's `AlterPartitionManager`.

use super::ReplicaManager;
use crate::metadata::ApiError;
use crate::metadata::controller::IsrChange;
use crate::partitions::partition::Partition;
use crate::partitions::partition_state::IsrProposal;
use kafkalite_protocol::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Between two looks at which followers keep up, and two attempts at a proposal, in ms; half of
/// `replica.lag.time.max.ms`, where that is shorter.
const LOOK_MS: u64 = 2_500;

/// A proposal of one partition.
#[derive(Clone)]
pub struct PartitionProposal {
    partition: Arc<Partition>,
    proposal: IsrProposal,
}

impl PartitionProposal {
    /// What the controller is asked for.
    #[must_use]
    pub fn change(&self) -> IsrChange {
        IsrChange {
            topic_id: self.partition.topic_id(),
            partition: self.partition.index(),
            leader_epoch: self.proposal.leader_epoch,
            partition_epoch: self.proposal.partition_epoch,
            isr: self.proposal.isr.clone(),
        }
    }
}

/// Proposals on their way to the controller.
#[derive(Default)]
pub(super) struct IsrProposals {
    /// The newest of each partition, by its key.
    waiting: BTreeMap<u64, PartitionProposal>,
    is_under_way: bool,
    /// When the followers are looked at again, and what waits is proposed, in ms of monotonic time.
    next_look_ms: u64,
}

impl ReplicaManager {
    /// Has `propose` called with proposals for the controller; its answers go to
    /// [`Self::isr_answered`]. Only the first `propose` counts.
    pub fn on_isr_proposals(
        &self,
        propose: impl Fn(Vec<PartitionProposal>) + Send + Sync + 'static,
    ) {
        let _ = self.on_isr_proposals.set(Box::new(propose));
    }

    /// Proposes other in-sync replicas of a partition.
    pub fn propose_isr(&self, partition: &Arc<Partition>, proposal: IsrProposal) {
        let key = partition.key();
        let partition = Arc::clone(partition);
        self.isr_proposals.lock().waiting.insert(key, PartitionProposal { partition, proposal });
        self.send_isr_proposals();
    }

    fn send_isr_proposals(&self) {
        let Some(propose) = self.on_isr_proposals.get() else { return };
        let batch: Vec<PartitionProposal> = {
            let mut proposals = self.isr_proposals.lock();
            if proposals.is_under_way || proposals.waiting.is_empty() {
                return;
            }
            proposals.is_under_way = true;
            std::mem::take(&mut proposals.waiting).into_values().collect()
        };
        propose(batch);
    }

    /// What the controller says to each proposal of `batch`, in their order.
    pub fn isr_answered(
        &self,
        batch: Vec<PartitionProposal>,
        answers: impl IntoIterator<Item = Result<(), ApiError>>,
    ) {
        let mut again = Vec::new();
        let unknown = || Err(ErrorCode::UnknownServerError.into());
        let answers = answers.into_iter().chain(std::iter::repeat_with(unknown));
        for (one, answer) in batch.into_iter().zip(answers) {
            let Err(error) = answer else { continue };
            match error.code {
                // The image that overtook the proposal takes it back.
                ErrorCode::FencedLeaderEpoch
                | ErrorCode::InvalidUpdateVersion
                | ErrorCode::UnknownTopicId
                | ErrorCode::UnknownTopicOrPartition => {}
                ErrorCode::IneligibleReplica | ErrorCode::InvalidRequest => {
                    one.partition.isr_refused(&one.proposal);
                }
                code => {
                    tracing::warn!(
                        topic = one.partition.topic(),
                        partition = one.partition.index(),
                        code = code.name(),
                        "a change of in-sync replicas is tried again"
                    );
                    again.push(one);
                }
            }
        }
        let is_repeated = {
            let mut proposals = self.isr_proposals.lock();
            proposals.is_under_way = false;
            let is_repeated = !again.is_empty();
            for one in again {
                proposals.waiting.entry(one.partition.key()).or_insert(one);
            }
            is_repeated
        };
        if !is_repeated {
            self.send_isr_proposals();
        }
    }

    /// When [`Self::look_at_followers`] is due next, in ms of monotonic time. `None` as long as no
    /// partition here has another replica.
    pub fn next_isr_look_ms(&self) -> Option<u64> {
        let any = self.any_followers.load(Ordering::Relaxed);
        any.then(|| self.isr_proposals.lock().next_look_ms)
    }

    /// Looks at which followers keep up with the leaders here.
    pub fn look_at_followers(&self) {
        let now_ms = self.config.clock.monotonic_ms();
        let wait_ms = LOOK_MS.min(self.config.max_lag_ms / 2).max(1);
        self.isr_proposals.lock().next_look_ms = now_ms.saturating_add(wait_ms);
        for partition in self.all() {
            // Deletions of records wait there for brokers that may be gone, in sync or not.
            partition.produce_waiters().check();
            if let Some(proposal) = partition.look_at_followers(now_ms) {
                let key = partition.key();
                let one = PartitionProposal { partition, proposal };
                self.isr_proposals.lock().waiting.insert(key, one);
            }
        }
        self.send_isr_proposals();
    }
}
