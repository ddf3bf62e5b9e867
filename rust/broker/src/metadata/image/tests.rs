#![allow(clippy::unwrap_used)]
use super::super::records::ConfigResourceType;
use super::*;

fn partition(leader: i32) -> PartitionRecord {
    PartitionRecord {
        leader,
        replicas: vec![leader],
        isr: vec![leader],
        leader_epoch: 0,
        partition_epoch: 0,
        elr: vec![],
        adding_replicas: vec![],
        removing_replicas: vec![],
    }
}

fn create(name: &str, id: u8, leaders: &[i32]) -> MetadataRecord {
    MetadataRecord::CreateTopic {
        name: name.to_owned(),
        topic_id: [id; 16],
        partitions: leaders.iter().map(|leader| partition(*leader)).collect(),
        configs: Configs::new(),
    }
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
    let second = after(&first, vec![MetadataRecord::RemoveTopic { topic_id: [7; 16] }]);
    assert!(second.topic("t").is_none() && second.topic_by_id(id).is_none());
    assert_eq!((second.topics.len(), second.topics.partition_count()), (0, 0));
    assert!(first.topic("t").is_some(), "an image that somebody holds never changes");
}

#[test]
fn raising_leader_epochs_touches_only_the_partitions_that_the_broker_leads() {
    let image = after(&MetadataImage::default(), vec![create("t", 1, &[1, 2])]);
    let image = after(&image, vec![MetadataRecord::RaiseLeaderEpochs { broker_id: 1 }]);
    let epochs = |index| {
        let partition = image.partition("t", index).unwrap();
        (partition.leader_epoch.0, partition.partition_epoch)
    };
    assert_eq!((epochs(0), epochs(1)), ((1, 1), (0, 0)));
}

#[test]
fn a_record_that_does_not_fit_is_refused_with_its_offset() {
    let image = after(&MetadataImage::default(), vec![create("t", 1, &[1])]);
    let topic_id = [9; 16];
    let of = |name: &str| ConfigResource::topic(name);
    for record in [
        create("t", 2, &[1]),
        create("other", 1, &[1]),
        MetadataRecord::RemoveTopic { topic_id },
        MetadataRecord::CreatePartitions { topic_id, partitions: vec![] },
        MetadataRecord::PartitionChange {
            topic_id: [1; 16],
            partition_index: 1,
            partition: partition(1),
        },
        MetadataRecord::PartitionChange {
            topic_id: [1; 16],
            partition_index: -1,
            partition: partition(1),
        },
        MetadataRecord::SetConfig { resource: of("u"), name: "k".to_owned(), value: None },
    ] {
        let records = vec![create("fits", 3, &[1]), record.clone()];
        let batch = RecordsBatch { base_offset: 1, epoch: 1, timestamp_ms: 0, records };
        let refused =
            matches!(image.with_batch(&batch), Err(MetadataError::Replay { offset: 2, .. }));
        assert!(refused, "{record:?}");
    }
}

#[test]
fn configs_are_set_and_taken_away_where_they_belong() {
    let set = |resource: &ConfigResource, value: Option<&str>| MetadataRecord::SetConfig {
        resource: resource.clone(),
        name: "k".to_owned(),
        value: value.map(str::to_owned),
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
