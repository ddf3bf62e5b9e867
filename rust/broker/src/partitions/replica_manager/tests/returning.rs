//! A replica that comes back to this broker is another log than the one that left. Its topic has
//! the same name and id, so checkpoints of the log that left must not count for it.

use super::*;
use crate::metadata::records::RemoveTopicRecord;
use crate::partitions::checkpoints::Entry;

impl House {
    /// Notes that the log is compacted up to here, as the cleaner does.
    fn note_cleaned(&self, to: i64) {
        let dir = self.replicas.dirs.iter().next().unwrap();
        let entry = Entry { topic: "t".into(), topic_id: TOPIC_ID, index: 0, offset: Offset(to) };
        dir.checkpoint(Checkpoint::Cleaner, vec![entry]).unwrap();
    }

    fn cleaned_to(&self) -> Offset {
        self.find().unwrap().log().cleaned_to()
    }
}

/// The broker was killed when the replica had left, and again when it was back: both times before
/// the checkpoints were written. The log began where the one that left had begun, and lost its
/// records.
#[test]
fn a_replica_that_comes_back_keeps_its_records_whatever_was_noted_of_the_one_that_left() {
    let mut house = House::new(&[ME]);
    (0..3).for_each(|_| house.append());
    house.find().unwrap().delete_records(Offset(2), NOW_MS).unwrap();
    house.note_cleaned(2);
    house.restart();
    assert_eq!(house.offsets(), [2, 3, 3]);
    house.commit_unseen(house.reassignment(&[OTHER]));
    house.start_again();
    house.reassign(&[ME]);
    house.append();
    house.start_again();
    assert_eq!(house.offsets()[..2], [0, 1]);
    assert_eq!(house.cleaned_to(), Offset(0));
}

/// A tombstone of the new log counted as compacted, and was dropped before the values below it:
/// keys that had been deleted came back.
#[test]
fn a_replica_that_comes_back_counts_as_not_compacted_after_a_restart() {
    let mut house = House::new(&[ME]);
    (0..3).for_each(|_| house.append());
    house.note_cleaned(2);
    house.start_again();
    assert_eq!(house.cleaned_to(), Offset(2));
    house.reassign(&[OTHER]);
    house.reassign(&[ME]);
    (0..3).for_each(|_| house.append());
    house.restart();
    assert_eq!(house.offsets()[..2], [0, 3]);
    assert_eq!(house.cleaned_to(), Offset(0));
}

/// The counters of a topic fell when a replica left. A rate takes that for a restart.
#[test]
fn what_was_counted_stays_when_a_replica_leaves_or_its_topic_is_deleted() {
    let mut house = House::new(&[ME]);
    (0..3).for_each(|_| house.append());
    let counted = |house: &House| house.replicas.traffic_of(TOPIC_ID).records_in;
    assert_eq!(counted(&house), 3);
    house.reassign(&[OTHER]);
    assert_eq!(counted(&house), 3, "the replica is gone");
    house.reassign(&[ME]);
    house.append();
    assert_eq!(counted(&house), 4, "it is back");
    house.commit_alone(MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: TOPIC_ID }));
    assert_eq!(counted(&house), 0, "there is no such topic");
    assert_eq!(house.replicas.traffic().records_in, 4);
}
