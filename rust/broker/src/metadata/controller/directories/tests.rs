#![allow(clippy::unwrap_used)]

mod failing;

use super::*;
use crate::metadata::image::UNASSIGNED;
use crate::metadata::records::{
    CreateTopicRecord, PartitionRecord, RecordsBatch, RemoveTopicRecord,
};

const ME: i32 = 1;
const OTHER: i32 = 2;
const ONE: Uuid = Uuid([11; 16]);
const TWO: Uuid = Uuid([12; 16]);

fn topic(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn after(image: &MetadataImage, records: Vec<MetadataRecord>) -> MetadataImage {
    let base_offset = image.offset + 1;
    image.with_batch(&RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records }).unwrap()
}

/// Topics 1 and 2 of three partitions on two brokers, with these directories in each.
fn image(directories: &[Uuid]) -> MetadataImage {
    let replicas = vec![OTHER, ME];
    let directories = directories.to_vec();
    let partition = PartitionRecord { replicas, directories, ..PartitionRecord::default() };
    let create = |number| {
        MetadataRecord::CreateTopic(CreateTopicRecord {
            name: format!("t{number}"),
            topic_id: topic(number),
            partitions: vec![partition.clone(); 3],
            configs: vec![],
        })
    };
    after(&MetadataImage::default(), vec![create(1), create(2)])
}

fn asked(replicas: &[(u8, i32, Uuid)]) -> ReplicaDirectories {
    let mut asked = ReplicaDirectories::new();
    for (number, index, directory) in replicas {
        asked.entry(topic(*number)).or_default().insert(*index, *directory);
    }
    asked
}

/// Topic, partitions and directory of each record, flat.
fn told(records: &[MetadataRecord]) -> Vec<(Uuid, u8, Vec<i32>)> {
    let assigned = records.iter().flat_map(|record| {
        let MetadataRecord::AssignReplicas(record) = record else { panic!("{record:?}") };
        let topics = record.topics.iter();
        topics.map(|one| (record.directory_id, one.topic_id.0[0], one.partitions.clone()))
    });
    assigned.collect()
}

#[test]
fn all_replicas_are_noted_in_one_record_for_each_directory() {
    let image = image(&[UNASSIGNED, UNASSIGNED]);
    let asked = asked(&[(1, 0, ONE), (1, 1, TWO), (1, 2, ONE), (2, 1, ONE)]);
    let records = assign_replicas(&image, ME, &asked);
    assert_eq!(records.len(), 2);
    assert_eq!(told(&records), [(ONE, 1, vec![0, 2]), (ONE, 2, vec![1]), (TWO, 1, vec![1])]);
    let noted = after(&image, records);
    let of = |number: u8, index| {
        let partition = noted.topic_by_id(topic(number)).unwrap().partition(index).unwrap();
        (partition.assignment(ME), partition.assignment(OTHER), partition.partition_epoch)
    };
    let unassigned = Assignment::Unassigned;
    assert_eq!(of(1, 1), (Assignment::Directory(TWO), unassigned, 1));
    assert_eq!(of(2, 1), (Assignment::Directory(ONE), unassigned, 1));
    assert_eq!(of(2, 0), (unassigned, unassigned, 0));
    assert_eq!(assign_replicas(&noted, ME, &asked), []);
}

/// The partitions of an earlier release: what the note says of one replica says nothing of others.
#[test]
fn a_note_of_one_replica_leaves_it_open_where_the_others_are() {
    let image = image(&[]);
    let noted = after(&image, assign_replicas(&image, ME, &asked(&[(1, 0, ONE)])));
    let partition = noted.partition("t1", 0).unwrap();
    assert_eq!(partition.assignment(ME), Assignment::Directory(ONE));
    assert_eq!(partition.assignment(OTHER), Assignment::Unknown);
    assert_eq!(noted.partition("t1", 1).unwrap().assignment(ME), Assignment::Unknown);
}

/// The change is decided later than it was asked for. One record that does not fit would refuse the
/// notes of all other replicas.
#[test]
fn what_went_meanwhile_is_left_out() {
    let remove = MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: topic(1) });
    let image = after(&image(&[UNASSIGNED, UNASSIGNED]), vec![remove]);
    let asked = asked(&[(1, 0, ONE), (2, 0, ONE), (2, 9, ONE)]);
    assert_eq!(told(&assign_replicas(&image, ME, &asked)), [(ONE, 2, vec![0])]);
    assert_eq!(assign_replicas(&image, 3, &asked), []);
}

#[test]
fn a_replica_that_moved_is_noted_again() {
    let image = image(&[UNASSIGNED, ONE]);
    let records = assign_replicas(&image, ME, &asked(&[(1, 0, TWO), (1, 1, ONE)]));
    assert_eq!(told(&records), [(TWO, 1, vec![0])]);
}
