//! A copy for a snapshot has the records of every offset that is in it.

use super::*;
use crate::metadata::records::RemoveTopicRecord;
use std::cell::Cell;

/// In the image it comes before the internal topic.
const EARLY: &str = "A";

fn topic(name: &str, topic_id: Uuid) -> MetadataRecord {
    let (name, partitions) = (name.to_owned(), vec![record(&[ME], 0)]);
    MetadataRecord::CreateTopic(CreateTopicRecord { name, topic_id, partitions, configs: vec![] })
}

impl House {
    /// Copies what belongs to an image, while `newest` answers with the newest one.
    fn copy(
        &self,
        copied: &MetadataImage,
        newest: &dyn Fn() -> Arc<MetadataImage>,
    ) -> Result<TempDir, LogError> {
        let to = tempfile::tempdir().unwrap();
        self.replicas.copy_to(&[to.path().to_owned()], ME, (copied, newest), NOW_MS)?;
        Ok(to)
    }
}

fn bytes_of(copy: &TempDir, partition: &str) -> u64 {
    let log = copy.path().join(partition).join("00000000000000000000.log");
    log.metadata().map_or(0, |log| log.len())
}

/// The image was taken before the replica was noted. It counted as one that was never opened, and
/// an offset that was committed for it lay behind the end of its log.
#[test]
fn a_copy_begins_again_where_a_new_topic_was_written_and_deleted_meanwhile() {
    let mut house = House::without_notes(&[ME]);
    let taken = house.image.clone();
    house.note();
    house.append();
    house.commit_alone(MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: TOPIC_ID }));
    let newest = Arc::new(house.image.clone());
    let copied = house.copy(&taken, &|| Arc::clone(&newest));
    assert!(matches!(copied, Err(LogError::Closed { .. })), "{copied:?}");
}

#[test]
fn a_copy_leaves_out_a_topic_that_is_not_open_yet() {
    let mut house = House::new(&[ME]);
    house.append();
    house.commit_unseen(topic(EARLY, Uuid([8; 16])));
    let newest = Arc::new(house.image.clone());
    let copy = house.copy(&newest, &|| Arc::clone(&newest)).unwrap();
    assert!(bytes_of(&copy, "t-0") > 0);
    assert!(!copy.path().join("A-0").exists());
}

/// All partitions were looked up before the offsets were copied. One that opened in between was
/// left out, and the offsets that were committed for it were not.
#[test]
fn a_copy_has_a_topic_that_opens_before_the_offsets_are_copied() {
    let mut house = House::new(&[ME]);
    let before = house.image.clone();
    house.commit_unseen(topic(EARLY, Uuid([8; 16])));
    house.commit_unseen(topic("__consumer_offsets", Uuid([9; 16])));
    let newest = Arc::new(house.image.clone());
    let is_followed = Cell::new(false);
    let copied = house.copy(&newest, &|| {
        if !is_followed.replace(true) {
            house.replicas.follow_image(&before, &newest);
            append(&house.replicas.find_by_name(EARLY, 0).unwrap()).unwrap();
        }
        Arc::clone(&newest)
    });
    let copy = copied.unwrap();
    assert!(is_followed.get(), "the offsets are looked up first");
    assert!(bytes_of(&copy, "A-0") > 0, "it is left out");
}
