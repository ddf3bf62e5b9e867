#![allow(clippy::unwrap_used)]

use super::super::elections::Leaving;
use super::super::elections::tests::{Cluster, TOPIC};
use super::super::reassignments::Reassignment;
use super::*;
use crate::metadata::records::{
    CreatePartitionsRecord, PartitionRecord, RegisterBrokerRecord, UnfenceBrokerRecord,
};

const TWO: Growth = Growth { topic: "t", replicas: 2 };
const THREE: Growth = Growth { topic: "t", replicas: 3 };

/// Adds partitions that broker 1 leads, with these replicas, all in sync.
fn add(cluster: &mut Cluster, count: usize, replicas: &[i32]) {
    let (replicas, isr) = (replicas.to_vec(), replicas.to_vec());
    let partition = PartitionRecord { leader: 1, isr, replicas, ..Default::default() };
    let partitions = vec![partition; count];
    let record = CreatePartitionsRecord { topic_id: TOPIC, partitions };
    cluster.commit(vec![MetadataRecord::CreatePartitions(record)]);
}

/// One pass; whether there are more.
fn prefer(cluster: &mut Cluster) -> bool {
    let (records, is_cut) = cluster.decide(|elections| elections.prefer_leaders());
    cluster.commit(records);
    is_cut
}

fn grow(cluster: &mut Cluster, growth: Growth) -> usize {
    let records = cluster.decide(|elections| elections.grow(growth));
    let count = records.len();
    cluster.commit(records);
    count
}

fn replicas(cluster: &Cluster) -> Vec<Vec<i32>> {
    let topic = cluster.image.topic("t").unwrap();
    topic.partitions.iter().map(|partition| partition.replicas.clone()).collect()
}

/// Has the leader of each partition propose all replicas for the ISR, as when they caught up.
fn catch_up(cluster: &mut Cluster) {
    let records = cluster.decide(|elections| {
        let places = elections.places().filter_map(|place| {
            let (leader, isr) = (place.now.leader, place.now.replicas.clone());
            elections.change(place, Wanted { leader, isr, elr: vec![] })
        });
        places.collect()
    });
    cluster.commit(records);
}

#[test]
fn a_preferred_leader_leads_again_as_soon_as_it_is_in_sync() {
    let mut cluster = Cluster::new(1);
    cluster.leaves(1, Leaving::Away);
    assert!(!prefer(&mut cluster));
    assert_eq!(cluster.state(), (2, vec![2, 3], vec![]), "it is away");
    cluster.comes(1);
    assert!(!prefer(&mut cluster));
    assert_eq!(cluster.state().0, 2, "it lacks records");
    catch_up(&mut cluster);
    let epochs = cluster.epochs();
    assert!(!prefer(&mut cluster));
    assert_eq!(cluster.state(), (1, vec![1, 2, 3], vec![]));
    assert_eq!(cluster.epochs(), (epochs.0 + 1, epochs.1 + 1));
    assert!(
        cluster.decide(|elections| elections.prefer_leaders()).0.is_empty(),
        "it comes to rest"
    );
}

#[test]
fn one_pass_changes_a_thousand_partitions_at_most() {
    let mut cluster = Cluster::new(1);
    add(&mut cluster, MAX_CHANGES_PER_PASS + 1, &[2, 1]);
    let led_by_2 = |cluster: &Cluster| {
        let topic = cluster.image.topic("t").unwrap();
        topic.partitions.iter().filter(|partition| partition.leader == 2).count()
    };
    assert!(prefer(&mut cluster));
    assert_eq!(led_by_2(&cluster), MAX_CHANGES_PER_PASS);
    assert!(!prefer(&mut cluster));
    assert_eq!(led_by_2(&cluster), MAX_CHANGES_PER_PASS + 1);
}

#[test]
fn a_topic_grows_to_as_many_replicas_and_its_leaders_spread() {
    let mut cluster = Cluster::new(1);
    add(&mut cluster, 5, &[1]);
    assert_eq!(grow(&mut cluster, THREE), 5, "the first partition has three already");
    for of_partition in replicas(&cluster) {
        let mut sorted = of_partition.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3]);
    }
    let first: Vec<i32> = replicas(&cluster).iter().map(|replicas| replicas[0]).collect();
    assert_eq!(first, [1, 2, 3, 1, 2, 3]);
    let one = cluster.image.partition("t", 1).unwrap();
    assert_eq!((one.leader, &one.isr[..]), (1, &[1][..]), "it leads until others have its records");
    assert_eq!(grow(&mut cluster, THREE), 0, "it is decided once");
    catch_up(&mut cluster);
    let one = cluster.image.partition("t", 1).unwrap();
    assert!(!one.is_moving());
    assert_eq!(one.leader, 1);
    assert_eq!(grow(&mut cluster, THREE), 0, "it comes to rest");
    prefer(&mut cluster);
    assert_eq!(cluster.image.partition("t", 1).unwrap().leader, 2);
}

/// Brokers that come one after the other: the second step waits for the first one.
#[test]
fn a_topic_grows_again_when_it_has_arrived() {
    let mut cluster = Cluster::new(1);
    add(&mut cluster, 1, &[1]);
    assert_eq!(grow(&mut cluster, TWO), 1);
    assert_eq!(replicas(&cluster)[1].len(), 2);
    assert_eq!(grow(&mut cluster, THREE), 0, "it is on its way");
    catch_up(&mut cluster);
    assert_eq!(grow(&mut cluster, THREE), 1);
    catch_up(&mut cluster);
    assert_eq!(replicas(&cluster)[1].len(), 3);
    assert_eq!(grow(&mut cluster, TWO), 0, "it never shrinks");
}

#[test]
fn a_topic_grows_onto_brokers_that_serve_and_where_a_leader_is() {
    let mut cluster = Cluster::new(1);
    add(&mut cluster, 1, &[1]);
    let fenced = |id: i32, fenced| RegisterBrokerRecord {
        broker_id: id,
        fenced,
        listeners: cluster.image.brokers[&id].listeners.clone(),
        ..RegisterBrokerRecord::default()
    };
    let away = MetadataRecord::RegisterBroker(fenced(2, true));
    cluster.commit(vec![away]);
    assert_eq!(grow(&mut cluster, THREE), 1);
    assert_eq!(replicas(&cluster)[1], [3, 1]);
    catch_up(&mut cluster);
    assert_eq!(grow(&mut cluster, THREE), 0, "no other broker serves");
    let epoch = cluster.image.brokers[&2].epoch;
    let back = UnfenceBrokerRecord { broker_id: 2, epoch };
    cluster.commit(vec![MetadataRecord::UnfenceBroker(back)]);
    assert_eq!(grow(&mut cluster, THREE), 1);
    catch_up(&mut cluster);

    let alone = Reassignment { topic: "t".into(), partition: 1, replicas: Some(vec![1]) };
    let record = cluster.decide(|elections| elections.reassign(&alone, true)).unwrap();
    cluster.commit(record.into_iter().collect());
    cluster.leaves(1, Leaving::Away);
    assert_eq!(cluster.image.partition("t", 1).unwrap().leader, -1);
    assert_eq!(grow(&mut cluster, THREE), 0, "there is nothing to copy it from");
}
