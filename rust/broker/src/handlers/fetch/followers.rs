//! What a follower's fetch says: everything before its offsets is on the follower's disk.
//!
//! Only a registered broker in its newest life is believed: an acknowledgement may rely on it.
//! Source: Kafka's `ReplicaManager.readFromLog` and `Partition.updateFollowerFetchState`;
//! KIP-841, KIP-903.

use crate::fetch_sessions::{Look, Reader};
use crate::handlers::Rooms;
use crate::metadata::MetadataImage;
use crate::partitions::{FollowerFetch, ReplicaManager};
use kafkalite_protocol::Offset;

/// The epoch that no broker has, as a follower has it that does not tell its own.
const NO_EPOCH: i64 = -1;

/// Whether a registered follower is in a life that the image here does not have yet. Its fetch
/// cannot be noted, and a session would not look at a quiet partition again. So the follower has
/// to open a new session.
pub(super) fn is_ahead(rooms: &Rooms, who: Reader) -> bool {
    let image = rooms.controller.image();
    let known = image.brokers.get(&who.replica_id).map(|known| known.epoch);
    is_later(who.broker_epoch, known)
}

/// Whether a life in this epoch comes after the one that is known. One that registered for the
/// first time, or again after it was unregistered, may be unknown altogether.
fn is_later(epoch: i64, known: Option<i64>) -> bool {
    epoch > known.unwrap_or(NO_EPOCH)
}

/// Notes how far a follower is, and proposes it for the in-sync replicas where it has caught up.
/// High watermarks that move answer who waits for them. A look that cannot be noted yet keeps its
/// partition in the session dirty: the next fetch looks at it again.
pub(super) fn note(
    image: &MetadataImage,
    partitions: &ReplicaManager,
    now_ms: u64,
    who: Reader,
    looks: &mut [Look],
) {
    let is_known = |epoch| epoch == who.broker_epoch;
    if !image.brokers.get(&who.replica_id).is_some_and(|broker| is_known(broker.epoch)) {
        return;
    }
    for look in looks {
        let target = &look.target;
        let Ok(partition) = partitions.find(&target.topic, target.partition) else {
            continue;
        };
        let fetch = FollowerFetch {
            id: who.replica_id,
            broker_epoch: who.broker_epoch,
            offset: Offset(target.fetch_offset),
            log_start: Offset(target.log_start_offset),
            now_ms,
        };
        let Ok(proposal) = partition.follower_fetched(target, &fetch) else { continue };
        look.set_noted();
        if let Some(proposal) = proposal {
            partitions.propose_isr(&partition, proposal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_that_the_image_lacks_is_ahead_of_it() {
        assert!(is_later(0, None) && is_later(7, Some(6)));
        assert!(!is_later(7, Some(7)) && !is_later(6, Some(7)));
        assert!(!is_later(NO_EPOCH, None), "a follower that tells no epoch");
    }
}
