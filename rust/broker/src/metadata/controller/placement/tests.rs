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

/// Where these brokers are fenced.
fn fenced(image: &MetadataImage, brokers: &[i32]) -> MetadataImage {
    let fence = |broker_id: &i32| {
        let epoch = image.brokers[broker_id].epoch;
        MetadataRecord::FenceBroker(FenceBrokerRecord { broker_id: *broker_id, epoch })
    };
    let records = brokers.iter().map(fence).collect();
    let batch = RecordsBatch { base_offset: image.offset + 1, epoch: 1, timestamp_ms: 0, records };
    image.with_batch(&batch).unwrap()
}

#[test]
fn fenced_brokers_follow_where_too_few_serve_and_are_not_in_sync() {
    let racks = [Some("a"), Some("b"), Some("a"), Some("b"), Some("c")];
    let image = fenced(&cluster(&racks), &[3, 4, 5]);
    assert_eq!(placed(&image, 0, 2, 2), [[1, 2], [2, 1]]);
    let partitions = place(&image, 0, 30, 3).unwrap();
    for partition in &partitions {
        // The third rack comes before two brokers of one rack.
        assert!(partition.replicas[..2] == [1, 2] || partition.replicas[..2] == [2, 1]);
        assert_eq!(partition.replicas[2..], [5]);
        assert_eq!(partition.isr, partition.replicas[..2]);
        assert_eq!(partition.leader, partition.replicas[0]);
    }
    let partitions = placed(&image, 0, 30, 4);
    let has = |id: i32| partitions.iter().filter(|replicas| replicas.contains(&id)).count();
    assert_eq!((has(3), has(4), has(5)), (20, 10, 30));
    let all = place(&image, 0, 1, 5).unwrap().remove(0);
    assert_eq!((all.replicas.len(), all.isr.len()), (5, 2));
    assert!(place(&image, 0, 1, 6).unwrap_err().message.unwrap().contains("only 5 broker(s)"));
}

#[test]
fn nothing_is_placed_where_no_broker_serves() {
    let refused = place(&fenced(&cluster(&[None; 2]), &[1, 2]), 0, 1, 1).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidReplicationFactor);
    assert!(refused.message.unwrap().contains("All brokers are currently fenced"));
}

#[test]
fn replicas_that_the_request_puts_on_fenced_brokers_are_not_in_sync() {
    let image = fenced(&cluster(&[None; 3]), &[1, 3]);
    assert_eq!(placed(&image, 0, 2, 1), [[2], [2]]);
    let partition = assigned(&image, 0, &[1, 2, 3], None).unwrap();
    assert_eq!((partition.leader, partition.isr), (2, vec![2]));
    assert_eq!(partition.replicas, [1, 2, 3]);
    let refused = assigned(&image, 4, &[1, 3], None).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidReplicaAssignment);
    let message = refused.message.unwrap();
    assert!(message.contains("for partition 4 are fenced"), "{message}");
}
