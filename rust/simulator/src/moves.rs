//! Counts moves of partitions: a run without any proves nothing about them.

use kafkalite_broker::metadata::MetadataImage;

/// How many moves ended from one image to the next: completed, cancelled, or done at once.
#[must_use]
pub fn ended(before: &MetadataImage, after: &MetadataImage) -> u64 {
    let mut ended = 0;
    for old in before.topics.iter() {
        let Some(new) = after.topic_by_id(old.id) else { continue };
        for (old, new) in old.partitions.iter().zip(&new.partitions) {
            let has_moved = old.is_moving() || old.replicas != new.replicas;
            ended += u64::from(has_moved && !new.is_moving());
        }
    }
    ended
}
