//! What a leader knows of its followers by their fetches.

use super::*;
use crate::metadata::controller::IsrMember;
use crate::metadata::records::{ListenerRecord, MetadataRecord, RegisterBrokerRecord};
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ReplicaState};
use parking_lot::Mutex;
use std::sync::Arc;

/// The newest version of fetches between brokers.
const VERSION: i16 = 17;
/// The life of the follower.
const EPOCH: i64 = 70;

fn registered() -> MetadataRecord {
    let (name, host) = ("PLAINTEXT".to_owned(), "localhost".to_owned());
    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id: OTHER,
        epoch: EPOCH,
        listeners: vec![ListenerRecord { name, host, port: 9092 }],
        ..RegisterBrokerRecord::default()
    })
}

/// A fetch of an empty partition by its follower.
fn fetch(house: &House, session: (i32, i32), leader_epoch: Option<i32>) -> FetchRequest {
    let asked = leader_epoch.map(|current_leader_epoch| FetchTopic {
        topic_id: house.topic_id("t").expect("it was made"),
        partitions: vec![FetchPartition {
            current_leader_epoch,
            last_fetched_epoch: -1,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        }],
        ..FetchTopic::default()
    });
    FetchRequest {
        replica_state: ReplicaState { replica_id: OTHER, replica_epoch: EPOCH },
        max_bytes: 1 << 20,
        session_id: session.0,
        session_epoch: session.1,
        topics: asked.into_iter().collect(),
        ..FetchRequest::default()
    }
}

/// What the leaders here propose from now on.
fn proposals(house: &House) -> Arc<Mutex<Vec<Vec<IsrMember>>>> {
    let proposed = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&proposed);
    house.partitions.on_isr_proposals(move |batch| {
        told.lock().extend(batch.iter().map(|one| one.change().isr));
    });
    proposed
}

/// A fetch that its follower gave up may be handled after later ones. It told where the follower
/// had ended, and no later fetch looked at the quiet partition. So the follower was taken out of
/// the in-sync replicas, and never came back.
#[test]
fn a_fetch_that_comes_late_does_not_take_a_follower_out_of_the_in_sync_replicas() {
    let house = House::new();
    let proposed = proposals(&house);
    house.commit(vec![registered()]);
    house.create("t", 1);
    house.elect("t", 0, ME, &[ME, OTHER]);
    let leader_epoch = house.image().partition("t", 0).expect("it was made").leader_epoch.0;
    let asks = |request: &FetchRequest| {
        let answers = house.fetch(request, VERSION).expect("a fetch");
        answers.try_recv().expect("it does not wait").0
    };
    house.append("t", 0, 1);
    let mut full = fetch(&house, (0, 0), Some(leader_epoch));
    let late = full.clone();
    full.topics[0].partitions[0].fetch_offset = 1;
    let session = asks(&full).session_id;
    let partition = house.partition("t", 0).expect("it was made");
    assert_eq!(partition.high_watermark(), Offset(1), "the follower has the record");
    asks(&fetch(&house, (session, 1), None));
    asks(&late);
    // For longer than `replica.lag.time.max.ms`.
    for epoch in 2..20 {
        house.clock.advance_ms(2_500);
        asks(&fetch(&house, (session, epoch), None));
        house.partitions.look_at_followers();
    }
    assert!(proposed.lock().is_empty(), "{:?}", proposed.lock());
}

/// Between the note of a fetch and its look at the partition another leader may begin. Then the
/// fetch told it nothing, and no later one did.
#[test]
fn a_partition_is_looked_at_until_its_leader_knows_where_the_follower_is() {
    let house = House::new();
    let proposed = proposals(&house);
    house.commit(vec![registered()]);
    house.create("t", 1);
    let leader_epoch = house.image().partition("t", 0).expect("it was made").leader_epoch.0;
    let first = fetch(&house, (0, 0), Some(leader_epoch + 1));
    let begins = || house.elect("t", 0, ME, &[ME]);
    let answers = house.fetch_while(&first, VERSION, begins).expect("a full fetch");
    let (response, _) = answers.try_recv().expect("it does not wait");
    assert_eq!(response.responses[0].partitions[0].error_code, 0, "it leads by now");
    assert!(proposed.lock().is_empty(), "it did not lead when the fetch came");

    let next = fetch(&house, (response.session_id, 1), None);
    house.fetch(&next, VERSION).expect("an incremental fetch");

    let wanted = [(ME, -1), (OTHER, EPOCH)];
    let wanted = wanted.map(|(id, broker_epoch)| IsrMember { id, broker_epoch });
    assert_eq!(*proposed.lock(), [wanted.to_vec()]);
    let before = house.looked_at.get();
    let third = fetch(&house, (response.session_id, 2), None);
    house.fetch(&third, VERSION).expect("an incremental fetch");
    assert_eq!(house.looked_at.get(), before, "the quiet partition is known");
}
