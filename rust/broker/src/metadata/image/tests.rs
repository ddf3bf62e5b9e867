#![allow(clippy::unwrap_used)]
use super::super::records::{
    AssignReplicasRecord, AssignedTopic, ConfigResourceType, CreatePartitionsRecord,
    PartitionChangeRecord, RaiseLeaderEpochsRecord, RemoveTopicRecord,
};
use super::*;

fn partition(leader: i32) -> PartitionRecord {
    PartitionRecord {
        leader,
        replicas: vec![leader],
        isr: vec![leader],
        ..PartitionRecord::default()
    }
}

fn create(name: &str, id: u8, leaders: &[i32]) -> MetadataRecord {
    MetadataRecord::CreateTopic(CreateTopicRecord {
        name: name.to_owned(),
        topic_id: Uuid([id; 16]),
        partitions: leaders.iter().map(|leader| partition(*leader)).collect(),
        configs: vec![],
    })
}

fn remove(id: u8) -> MetadataRecord {
    MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: Uuid([id; 16]) })
}

fn change(partition_index: i32, partition: PartitionRecord) -> MetadataRecord {
    let topic_id = Uuid([1; 16]);
    let change = PartitionChangeRecord { topic_id, partition_index, partition };
    MetadataRecord::PartitionChange(change)
}

/// The replica on this broker of a partition of the topic with this id is in directory 5.
fn assign(broker_id: i32, topic: u8, index: i32) -> MetadataRecord {
    let topics = vec![AssignedTopic { topic_id: Uuid([topic; 16]), partitions: vec![index] }];
    let directory_id = Uuid([5; 16]);
    MetadataRecord::AssignReplicas(AssignReplicasRecord { broker_id, directory_id, topics })
}

fn after(image: &MetadataImage, records: Vec<MetadataRecord>) -> MetadataImage {
    let base_offset = image.offset + 1;
    image.with_batch(&RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records }).unwrap()
}

#[test]
fn a_topic_is_found_by_name_and_by_id_until_it_is_removed() {
    let first = after(&MetadataImage::default(), vec![create("t", 7, &[1, 1])]);
    let id = Uuid([7; 16]);
    assert_eq!(first.topic("t").unwrap().id, id);
    assert_eq!(&*first.topic_by_id(id).unwrap().name, "t");
    assert_eq!((first.topics.len(), first.topics.partition_count()), (1, 2));
    let second = after(&first, vec![remove(7)]);
    assert!(second.topic("t").is_none() && second.topic_by_id(id).is_none());
    assert_eq!((second.topics.len(), second.topics.partition_count()), (0, 0));
    assert!(first.topic("t").is_some(), "an image that is held never changes");
}

#[test]
fn raising_leader_epochs_touches_only_the_partitions_that_the_broker_leads() {
    let image = after(&MetadataImage::default(), vec![create("t", 1, &[1, 2])]);
    let raise = MetadataRecord::RaiseLeaderEpochs(RaiseLeaderEpochsRecord { broker_id: 1 });
    let image = after(&image, vec![raise]);
    let epochs = |index| {
        let partition = image.partition("t", index).unwrap();
        (partition.leader_epoch.0, partition.partition_epoch)
    };
    assert_eq!((epochs(0), epochs(1)), ((1, 1), (0, 0)));
}

#[test]
fn a_record_that_does_not_fit_is_refused_with_its_offset() {
    let image = after(&MetadataImage::default(), vec![create("t", 1, &[1])]);
    let unknown = CreatePartitionsRecord { topic_id: Uuid([9; 16]), partitions: vec![] };
    let of_nothing = SetConfigRecord { resource_type: 3, ..SetConfigRecord::default() };
    let directories = vec![Uuid([1; 16]); 2];
    for record in [
        create("t", 2, &[1]),
        create("other", 1, &[1]),
        remove(9),
        MetadataRecord::CreatePartitions(unknown),
        change(1, partition(1)),
        change(-1, partition(1)),
        change(0, PartitionRecord { directories, ..partition(1) }),
        assign(1, 9, 0),
        assign(1, 1, 1),
        assign(2, 1, 0),
        MetadataRecord::set_config(&ConfigResource::topic("u"), "k", None),
        MetadataRecord::SetConfig(of_nothing),
    ] {
        let records = vec![create("fits", 3, &[1]), record.clone()];
        let batch = RecordsBatch { base_offset: 1, epoch: 1, timestamp_ms: 0, records };
        let refused =
            matches!(image.with_batch(&batch), Err(MetadataError::Replay { offset: 2, .. }));
        assert!(refused, "{record:?}");
    }
}

#[test]
fn a_partition_keeps_the_directory_of_each_replica() {
    let image = after(&MetadataImage::default(), vec![create("t", 1, &[1])]);
    assert!(image.partition("t", 0).unwrap().directories.is_empty());
    let directories = vec![Uuid([5; 16])];
    let record = PartitionRecord { directories: directories.clone(), ..partition(1) };
    let image = after(&image, vec![change(0, record)]);
    assert_eq!(image.partition("t", 0).unwrap().directories, directories);
    assert_eq!(PartitionRecord::from(image.partition("t", 0).unwrap()).directories, directories);
}

#[test]
fn configs_are_set_and_taken_away_where_they_belong() {
    let set = |resource: &ConfigResource, value: Option<&str>| {
        MetadataRecord::set_config(resource, "k", value)
    };
    let group = ConfigResource { resource_type: ConfigResourceType::Group, name: "g".to_owned() };
    for resource in [ConfigResource::broker(1), ConfigResource::cluster(), group] {
        let image = after(&MetadataImage::default(), vec![set(&resource, Some("v"))]);
        assert_eq!(image.configs_of(&resource).unwrap()["k"], "v");
        let image = after(&image, vec![set(&resource, None)]);
        assert_eq!(image.configs_of(&resource), None);
    }
    let topic = ConfigResource::topic("t");
    let image =
        after(&MetadataImage::default(), vec![create("t", 1, &[1]), set(&topic, Some("v"))]);
    assert_eq!(image.topic("t").unwrap().configs["k"], "v");
    let image = after(&image, vec![set(&topic, None)]);
    assert!(image.topic("t").unwrap().configs.is_empty());
}

/// A reassignment was reported as a broker that is away, until its new replicas were in sync.
#[test]
fn replicas_that_a_reassignment_adds_are_not_missed() {
    let is_under = |replicas: &[i32], adding: &[i32], isr: &[i32]| {
        let record = PartitionRecord {
            replicas: replicas.to_vec(),
            isr: isr.to_vec(),
            adding_replicas: adding.to_vec(),
            ..partition(1)
        };
        PartitionImage::try_from(&record).unwrap().is_under_replicated()
    };
    assert!(is_under(&[1, 2], &[], &[1]));
    assert!(!is_under(&[1, 2], &[], &[1, 2]));
    assert!(!is_under(&[3, 4, 1, 2], &[3, 4], &[1, 2]));
    assert!(is_under(&[3, 4, 1, 2], &[3, 4], &[1]));
    // As in Kafka: so many replicas are in sync as there were.
    assert!(!is_under(&[3, 4, 1, 2], &[3, 4], &[1, 3]));
}
