#![allow(clippy::unwrap_used)]

use super::*;
use crate::metadata::records::{
    FenceBrokerRecord, ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
};

/// Brokers 1, 2, ... in these racks.
fn cluster(racks: &[Option<&str>]) -> MetadataImage {
    let register = |(broker_id, rack): (i32, &Option<&str>)| {
        let listener = ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 9092 };
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            rack: rack.map(str::to_owned),
            listeners: vec![listener],
            ..RegisterBrokerRecord::default()
        })
    };
    let records = (1..).zip(racks).map(register).collect();
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    MetadataImage::default().with_batch(&batch).unwrap()
}

fn placed(image: &MetadataImage, turn: usize, count: i32, factor: i16) -> Vec<Vec<i32>> {
    let placed = place(image, turn, count, factor).unwrap();
    placed.into_iter().map(|partition| partition.replicas).collect()
}

#[test]
fn leaders_and_followers_spread_evenly() {
    let image = cluster(&[None; 4]);
    let partitions = placed(&image, 5, 24, 3);
    for broker in 1..=4 {
        let leads = partitions.iter().filter(|replicas| replicas[0] == broker).count();
        assert_eq!(leads, 6, "broker {broker}");
        let has = partitions.iter().filter(|replicas| replicas.contains(&broker)).count();
        assert_eq!(has, 18, "broker {broker}");
        // The others inherit its leaderships in equal parts.
        let heirs = partitions.iter().filter(|replicas| replicas[0] == broker);
        let mut heirs: Vec<i32> = heirs.map(|replicas| replicas[1]).collect();
        heirs.sort_unstable();
        let others: Vec<i32> = (1..=4).filter(|id| *id != broker).flat_map(|id| [id; 2]).collect();
        assert_eq!(heirs, others, "broker {broker}");
    }
}

#[test]
fn topics_of_one_partition_do_not_meet_on_one_broker() {
    let image = cluster(&[None; 3]);
    let leaders = (0..6).map(|turn| placed(&image, turn, 1, 1)[0][0]);
    assert_eq!(leaders.collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
}

#[test]
fn replicas_stand_in_different_racks_as_far_as_there_are() {
    let image = cluster(&[Some("a"), Some("a"), Some("b"), Some("b"), Some("c")]);
    let rack = |id: i32| ["a", "a", "b", "b", "c"][id as usize - 1];
    for replicas in placed(&image, 0, 40, 3) {
        let racks: HashSet<&str> = replicas.iter().map(|id| rack(*id)).collect();
        assert_eq!(racks.len(), 3, "{replicas:?}");
    }
    for replicas in placed(&image, 0, 40, 5) {
        let ids: HashSet<&i32> = replicas.iter().collect();
        assert_eq!(ids.len(), 5, "{replicas:?}");
    }
}

#[test]
fn more_replicas_than_brokers_are_refused() {
    let refused = place(&cluster(&[None; 2]), 0, 1, 3).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidReplicationFactor);
    assert!(refused.message.unwrap().contains("only 2 broker(s) are registered"));
}

#[test]
fn replicas_on_fenced_brokers_are_not_in_sync_and_none_is_placed_there() {
    let image = cluster(&[None; 3]);
    let fence = |broker_id| {
        let epoch = image.brokers[&broker_id].epoch;
        MetadataRecord::FenceBroker(FenceBrokerRecord { broker_id, epoch })
    };
    let records = vec![fence(1), fence(3)];
    let batch = RecordsBatch { base_offset: image.offset + 1, epoch: 1, timestamp_ms: 0, records };
    let image = image.with_batch(&batch).unwrap();
    assert_eq!(placed(&image, 0, 2, 1), [[2], [2]]);
    assert!(place(&image, 0, 1, 2).is_err());
    let partition = assigned(&image, 0, &[1, 2, 3], None).unwrap();
    assert_eq!((partition.leader, partition.isr), (2, vec![2]));
    assert_eq!(partition.replicas, [1, 2, 3]);
    let refused = assigned(&image, 4, &[1, 3], None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidReplicaAssignment);
    let message = refused.message.unwrap();
    assert!(message.contains("for partition 4 are fenced"), "{message}");
}
