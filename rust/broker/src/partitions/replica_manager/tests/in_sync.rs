//! Which replicas are proposed, and when.

use super::*;
use crate::fetch_sessions::{FetchTarget, TopicRef};
use crate::metadata::records::{
    ListenerRecord, PartitionChangeRecord, RegisterBrokerRecord, UnfenceBrokerRecord,
};
use crate::partitions::FollowerFetch;
use parking_lot::Mutex;

/// No record comes, and no fetch names the partition again.
#[test]
fn a_replica_is_proposed_with_the_image_in_which_it_serves() {
    let mut house = House::new(&[ME, OTHER]);
    let partition = PartitionRecord { isr: vec![ME], ..record(&[ME, OTHER], 1) };
    let alone = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
    house.commit(MetadataRecord::PartitionChange(alone));
    let listener = ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 1 };
    house.commit(MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id: OTHER,
        epoch: 70,
        listeners: vec![listener],
        fenced: true,
        ..RegisterBrokerRecord::default()
    }));
    let proposed = Arc::<Mutex<Vec<_>>>::default();
    let heard = Arc::clone(&proposed);
    house.replicas.on_isr_proposals(move |batch| heard.lock().extend(batch));
    let target = FetchTarget {
        topic: Arc::new(TopicRef::Id(TOPIC_ID)),
        partition: 0,
        fetch_offset: 0,
        max_bytes: 1,
        current_leader_epoch: 1,
        last_fetched_epoch: -1,
        log_start_offset: 0,
        leader_only: true,
    };
    let now_ms = house.clock.monotonic_ms();
    let (offset, log_start) = (Offset(0), Offset(0));
    let fetch = FollowerFetch { id: OTHER, broker_epoch: 70, offset, log_start, now_ms };
    let led = house.replicas.find_by_id(TOPIC_ID, 0).unwrap();
    assert_eq!(led.follower_fetched(&target, &fetch), None, "the controller would refuse it");
    let serves = UnfenceBrokerRecord { broker_id: OTHER, epoch: 70 };
    house.commit(MetadataRecord::UnfenceBroker(serves));
    let members: Vec<Vec<_>> = proposed
        .lock()
        .iter()
        .map(|one| one.change().isr.iter().map(|member| (member.id, member.broker_epoch)).collect())
        .collect();
    assert_eq!(members, [[(ME, -1), (OTHER, 70)]]);
}
