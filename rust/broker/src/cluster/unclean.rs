//! Partitions without a leader get one that may lack records, where their configs allow that.
//!
//! The leader of the quorum looks whenever the metadata have changed. So a config that is altered
//! counts soon for partitions that lost their leader before; Kafka looks every five minutes.
//! Source: Kafka's `ReplicationControlManager.maybeElectUncleanLeaders`.

use super::duties::Duty;
use super::{Cluster, Member};
use crate::metadata::MetadataImage;
use crate::metadata::controller::{Done, unclean_elections};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cluster {
    /// Looks at the partitions of `image`, unless nothing was due in it.
    pub(super) fn look_for_unclean(&self, member: &Arc<Member>, image: &MetadataImage, term: u64) {
        if member.clean_until.load(Ordering::Relaxed) == image.offset {
            return;
        }
        let by_default = self.settings.unclean_by_default;
        let due = unclean_elections(image, by_default).len();
        if due == 0 {
            return member.clean_until.store(image.offset, Ordering::Relaxed);
        }
        if let Some(done) = member.begins(term, Duty::ElectUnclean) {
            tracing::warn!(partitions = due, "leaders are elected that may lack committed records");
            self.controller.elect_unclean(by_default, Done::of_leader(term, done));
        }
    }
}
