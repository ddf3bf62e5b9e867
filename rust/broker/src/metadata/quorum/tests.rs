#![allow(clippy::unwrap_used)]
use super::super::records::{ClusterRecord, ProducerIdsRecord, RemoveTopicRecord};
use super::*;

fn quorum(dir: &std::path::Path) -> QuorumOfOne {
    let (log, image) =
        MetadataLog::open(Arc::new(kafkalite_log::storage::RealStorage), dir).unwrap();
    QuorumOfOne::new(1, log, image)
}

#[test]
fn a_record_that_does_not_fit_reaches_neither_image_nor_disk() {
    let dir = tempfile::tempdir().unwrap();
    let first = quorum(dir.path());
    let ids = ProducerIdsRecord { broker_id: 1, next_producer_id: 1_000 };
    let ids = MetadataRecord::ProducerIds(ids);
    assert_eq!(first.propose(vec![ids], 0).unwrap(), 0);
    let bad = MetadataRecord::RemoveTopic(RemoveTopicRecord::default());
    assert!(first.propose(vec![bad], 0).is_err());
    let before = first.image();
    drop(first);
    assert_eq!(quorum(dir.path()).image(), before);
}

#[test]
fn each_start_leads_in_a_newer_epoch() {
    let dir = tempfile::tempdir().unwrap();
    for epoch in 1..4 {
        let quorum = quorum(dir.path());
        let cluster = ClusterRecord { cluster_id: "c".to_owned() };
        quorum.propose(vec![MetadataRecord::Cluster(cluster)], 0).unwrap();
        let status = quorum.status();
        assert_eq!((status.leader_epoch, status.high_watermark), (epoch, i64::from(epoch)));
        assert_eq!(quorum.image().epoch, epoch);
    }
}
