//! Which replicas are proposed, and when.

use super::*;
use crate::config::{Throttled, ThrottledPartitions};
use crate::fetch_sessions::{FetchTarget, TopicRef};
use crate::metadata::ConfigResource;
use crate::metadata::records::FenceBrokerRecord;
use crate::metadata::records::{
    ListenerRecord, PartitionChangeRecord, RegisterBrokerRecord, UnfenceBrokerRecord,
};
use crate::partitions::FollowerFetch;
use crate::purgatory::{Completion, DelayedOperation};
use parking_lot::Mutex;
use std::sync::atomic::AtomicUsize;

/// Broker [`OTHER`] in its life 70.
fn registration(fenced: bool) -> MetadataRecord {
    let listener = ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 1 };
    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id: OTHER,
        epoch: 70,
        listeners: vec![listener],
        fenced,
        ..RegisterBrokerRecord::default()
    })
}

/// Counts how often it is asked.
#[derive(Default)]
struct Asked(AtomicUsize);

impl DelayedOperation for Asked {
    fn is_satisfied(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn complete(self: Arc<Self>, _: Completion) {}

    fn timeout_ms(&self) -> u64 {
        u64::MAX
    }
}

/// After an election it waited until other replicas here had paid for their bytes. Produces with
/// acks=all waited with it, and then the leader took it out of the in-sync replicas.
#[test]
fn a_replica_that_is_in_sync_does_not_wait_for_the_throttle() {
    let mut house = House::new(&[OTHER, ME]);
    let replica = house.find().unwrap();
    let all = Throttled { leader: ThrottledPartitions::All, follower: ThrottledPartitions::All };
    replica.throttled().set(&all, 0);
    let limit = BrokerConfig { follower_throttle_bytes: Some(1_000), ..BrokerConfig::default() };
    house.replicas.limit_throttles(&limit);
    house.replicas.fetched(&replica, 1_000_000);
    assert!(!house.replicas.waits(&replica), "it is in sync");
    let now = record(&[OTHER, ME], 1);
    let partition = PartitionRecord { isr: vec![OTHER], ..now };
    let change = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
    house.commit(MetadataRecord::PartitionChange(change));
    assert!(house.replicas.waits(&replica), "it is not");
}

/// A deletion of records waits for every replica that is alive. It was answered at its time limit
/// when a replica that was not in sync had gone.
#[test]
fn who_waits_for_a_replica_looks_again_when_its_broker_goes() {
    let mut house = House::new(&[ME, OTHER]);
    let partition = PartitionRecord { isr: vec![ME], ..record(&[ME, OTHER], 1) };
    let alone = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
    house.commit(MetadataRecord::PartitionChange(alone));
    house.commit(registration(false));
    let (asked, led) = (Arc::new(Asked::default()), house.find().unwrap());
    house.replicas.config.produces.watch(asked.clone(), || [led.produce_waiters().clone()]);
    let before = asked.0.load(Ordering::Relaxed);
    let gone = FenceBrokerRecord { broker_id: OTHER, epoch: 70 };
    house.commit(MetadataRecord::FenceBroker(gone));
    assert!(asked.0.load(Ordering::Relaxed) > before);
}

/// No record comes, and no fetch names the partition again.
#[test]
fn a_replica_is_proposed_with_the_image_in_which_it_serves() {
    let mut house = House::new(&[ME, OTHER]);
    let partition = PartitionRecord { isr: vec![ME], ..record(&[ME, OTHER], 1) };
    let alone = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
    house.commit(MetadataRecord::PartitionChange(alone));
    house.commit(registration(true));
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
    assert_eq!(led.follower_fetched(&target, &fetch), Ok(None), "the controller would refuse it");
    let serves = UnfenceBrokerRecord { broker_id: OTHER, epoch: 70 };
    house.commit(MetadataRecord::UnfenceBroker(serves));
    let members: Vec<Vec<_>> = proposed
        .lock()
        .iter()
        .map(|one| one.change().isr.iter().map(|member| (member.id, member.broker_epoch)).collect())
        .collect();
    assert_eq!(members, [[(ME, -1), (OTHER, 70)]]);
}

/// A broker that was far behind gets both changes in one image. The leader counted its own log
/// alone, and a replica that was eligible to lead did not have what was acknowledged.
#[test]
fn a_larger_min_insync_replicas_of_the_cluster_counts_before_fewer_replicas_do() {
    let mut house = House::new(&[ME, OTHER]);
    house.append();
    assert_eq!(house.offsets(), [0, 1, 0]);
    let before = house.image.clone();
    let (cluster, min) = (ConfigResource::cluster(), "min.insync.replicas");
    house.commit_unseen(MetadataRecord::set_config(&cluster, min, Some("2")));
    let partition = PartitionRecord { isr: vec![ME], elr: vec![OTHER], ..record(&[ME, OTHER], 1) };
    let alone = PartitionChangeRecord { topic_id: TOPIC_ID, partition_index: 0, partition };
    house.commit_unseen(MetadataRecord::PartitionChange(alone));
    let broker = BrokerConfig::default();
    house.replicas.config.settings = Box::new(move |topic| {
        let settings = TopicSettings::new(&broker, &topic.configs);
        TopicSettings { min_in_sync_replicas: 2, ..settings }
    });
    house.replicas.follow_image(&before, &house.image);
    house.note();
    assert_eq!(house.offsets(), [0, 1, 0]);
}
