//! The quorum that is in force: of one voter until the broker gets company.

use super::{MetadataQuorum, OnOutcome, Proposal, QuorumStatus};
use crate::metadata::image::MetadataImage;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// A quorum that may be replaced by another one, while no proposal is under way.
pub struct QuorumSwitch(ArcSwap<Arc<dyn MetadataQuorum>>);

impl QuorumSwitch {
    /// `quorum` is in force.
    pub fn new(quorum: Arc<dyn MetadataQuorum>) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(quorum)))
    }

    /// Puts `quorum` in force. The one before gets no more proposals.
    pub fn replace(&self, quorum: Arc<dyn MetadataQuorum>) {
        let before = self.0.swap(Arc::new(quorum));
        before.stop();
    }
}

impl MetadataQuorum for QuorumSwitch {
    fn propose(&self, proposal: Proposal, done: OnOutcome) {
        self.0.load().propose(proposal, done);
    }

    fn is_shared(&self) -> bool {
        self.0.load().is_shared()
    }

    fn published(&self, image: &Arc<MetadataImage>) {
        self.0.load().published(image);
    }

    fn status(&self) -> QuorumStatus {
        self.0.load().status()
    }

    fn stop(&self) {
        self.0.load().stop();
    }
}
