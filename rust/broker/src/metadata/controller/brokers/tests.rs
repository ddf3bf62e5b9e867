#![allow(clippy::unwrap_used)]
use super::super::assign_replicas;
use super::*;
use crate::metadata::metadata_log::{image_bytes, image_of};
use crate::metadata::records::{ClusterRecord, CreateTopicRecord};
use std::collections::BTreeMap;

/// Where the replicas are noted to be.
const NINE: Uuid = Uuid([9; 16]);

fn listener(port: u16) -> ListenerRecord {
    ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port }
}

fn with(image: &MetadataImage, records: Vec<MetadataRecord>) -> MetadataImage {
    let base_offset = image.offset + 1;
    let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records };
    image.with_batch(&batch).unwrap()
}

fn joining(directory: u8) -> Joining {
    let quorum_dir = Uuid([directory; 16]);
    Joining { quorum_dir, listeners: vec![listener(u16::from(directory))], ..Joining::default() }
}

/// A cluster of the broker 1, whose directory is 1.
fn cluster() -> MetadataImage {
    let record = ClusterRecord { cluster_id: "cluster".to_owned() };
    let image = with(&MetadataImage::default(), vec![MetadataRecord::Cluster(record)]);
    let broker = Registration {
        broker_id: 1,
        listeners: vec![listener(1)],
        quorum_dir: Uuid([1; 16]),
        ..Registration::default()
    };
    with(&image, register(&image, &broker))
}

#[test]
fn a_broker_that_joins_gets_the_next_id_and_begins_fenced() {
    let image = cluster();
    let (records, joined) = join(&image, &joining(7)).unwrap();
    assert_eq!(joined, Joined { cluster_id: "cluster".to_owned(), broker_id: 2 });
    let image = with(&image, records);
    assert!(image.brokers[&2].fenced && !image.is_alive(2) && image.is_alive(1));
}

/// It got the greatest id of all once more: a fenced broker lost its place to it.
#[test]
fn a_broker_that_joins_behind_the_greatest_id_gets_one_that_is_free() {
    let image = cluster();
    let last = Joining { broker_id: Some(i32::MAX), ..joining(7) };
    let image = with(&image, join(&image, &last).unwrap().0);
    let (records, joined) = join(&image, &joining(8)).unwrap();
    assert_eq!(joined.broker_id, 2);
    let image = with(&image, records);
    assert_eq!(image.brokers[&i32::MAX].quorum_dir, Uuid([7; 16]));
    assert_eq!(join(&image, &joining(9)).unwrap().1.broker_id, 3);
}

/// It began with the settings of a broker that was unregistered.
#[test]
fn a_broker_that_joins_gets_no_id_that_has_dynamic_configs() {
    let image = cluster();
    let mut image = with(&image, join(&image, &joining(7)).unwrap().0);
    let configs = [("log.cleaner.threads".to_owned(), "4".to_owned())];
    image.replace_configs(&ConfigResource::broker(2), configs.into_iter().collect());
    let image = with(&image, unregister(&image, 2).unwrap());
    assert_eq!(join(&image, &joining(8)).unwrap().1.broker_id, 3);
    let named = Joining { broker_id: Some(2), ..joining(8) };
    assert_eq!(join(&image, &named).unwrap().1.broker_id, 2, "it asks for it, as in Kafka");
}

#[test]
fn a_broker_that_asks_again_gets_the_same_id_and_no_record() {
    let image = cluster();
    let (records, first) = join(&image, &joining(7)).unwrap();
    let image = with(&image, records);
    let (records, again) = join(&image, &joining(7)).unwrap();
    assert_eq!((records, again), (vec![], first));
    assert_eq!(join(&image, &joining(8)).unwrap().1.broker_id, 3);
}

#[test]
fn a_directory_of_another_cluster_is_refused_with_both_ids() {
    let other = Joining { cluster_id: Some("other".to_owned()), ..joining(7) };
    let error = join(&cluster(), &other).unwrap_err();
    assert_eq!(error.code, ErrorCode::InconsistentClusterId);
    let message = error.message.unwrap();
    assert!(message.contains("cluster other") && message.contains("cluster cluster"), "{message}");
}

#[test]
fn an_id_of_another_directory_is_refused() {
    let taken = Joining { broker_id: Some(1), ..joining(7) };
    let error = join(&cluster(), &taken).unwrap_err();
    assert_eq!(error.code, ErrorCode::DuplicateBrokerRegistration);
}

#[test]
fn a_broker_that_is_unregistered_leads_nothing_and_its_id_is_free() {
    let image = replicated();
    assert_eq!(unregister(&image, 7).unwrap_err().code, ErrorCode::BrokerIdNotRegistered);
    let after = with(&image, unregister(&image, 1).unwrap());
    assert_eq!(standing(&after, 0), (2, 1, vec![2, 3], vec![]));
    assert_eq!(standing(&after, 1), (-1, 1, vec![1], vec![]), "no other replica has the records");
    assert!(!after.brokers.contains_key(&1));
    let first = after.partition("t", 0).unwrap();
    assert_eq!(first.replicas, [1, 2, 3]);
    assert_eq!(first.assignment(1), Assignment::Unassigned, "it may be made again");
    assert_eq!(after.partition("t", 1).unwrap().assignment(1), Assignment::Directory(NINE));
    let again = Joining { broker_id: Some(1), ..joining(8) };
    let image = with(&after, join(&after, &again).unwrap().0);
    assert_eq!(image.brokers[&1].log_dirs, [Uuid([8; 16])]);
    let one = with(&after, unregister(&after, 2).unwrap());
    let refused = unregister(&one, 3).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidRequest, "no broker would be left");
}

#[test]
fn a_wiped_broker_takes_its_place_when_its_former_life_is_fenced() {
    let mut image = replicated();
    let directories = BTreeMap::from([(Uuid([7; 16]), BTreeMap::from([(0, Uuid([2; 16]))]))]);
    image = with(&image, assign_replicas(&image, 2, &directories));
    let wiped = Joining { broker_id: Some(2), ..joining(8) };
    let refused = join(&image, &wiped).unwrap_err();
    assert_eq!(refused.code, ErrorCode::DuplicateBrokerRegistration);
    let fenced = with(&image, fence(&image, 2, image.brokers[&2].epoch, true));
    let (records, joined) = join(&fenced, &wiped).unwrap();
    assert_eq!(joined.broker_id, 2);
    let after = with(&fenced, records);
    let broker = &after.brokers[&2];
    assert_eq!((broker.quorum_dir, broker.fenced), (Uuid([8; 16]), true));
    assert_eq!(broker.log_dirs, [Uuid([8; 16])]);
    let partition = after.partition("t", 0).unwrap();
    assert_eq!(partition.assignment(2), Assignment::Unassigned);
    assert_eq!(partition.isr, [1, 3]);
}

#[test]
fn a_wiped_broker_that_had_the_only_copy_does_not_begin_it_again() {
    let mut image = replicated();
    let directories = BTreeMap::from([(Uuid([7; 16]), BTreeMap::from([(1, Uuid([1; 16]))]))]);
    image = with(&image, assign_replicas(&image, 1, &directories));
    image = with(&image, fence(&image, 1, image.brokers[&1].epoch, true));
    let wiped = Joining { broker_id: Some(1), ..joining(8) };
    let after = with(&image, join(&image, &wiped).unwrap().0);
    let partition = after.partition("t", 1).unwrap();
    assert_eq!(partition.assignment(1), Assignment::Directory(Uuid([1; 16])));
    assert_eq!((partition.leader, &partition.isr[..]), (-1, &[1][..]));
}

/// Broker 1 of `image` starts with these directories, and serves.
fn started(image: &MetadataImage, log_dirs: Vec<Uuid>, has_all_dirs: bool) -> MetadataImage {
    let known = &image.brokers[&1];
    let again = Registration {
        broker_id: 1,
        quorum_dir: known.quorum_dir,
        listeners: vec![listener(1)],
        fenced: true,
        log_dirs,
        has_all_dirs: Some(has_all_dirs),
        clean_epoch: Some(known.epoch),
        ..Registration::default()
    };
    let after = with(image, register_again(image, &again).unwrap());
    with(&after, fence(&after, 1, after.brokers[&1].epoch, false))
}

#[test]
fn what_was_in_a_directory_that_was_replaced_is_copied_from_the_leaders() {
    let mut image = replicated();
    let directories = BTreeMap::from([(Uuid([7; 16]), BTreeMap::from([(0, NINE), (1, NINE)]))]);
    image = with(&image, assign_replicas(&image, 1, &directories));
    let [first, new] = [Uuid([1; 16]), Uuid([8; 16])];
    let assignments = |image: &MetadataImage| {
        [0, 1].map(|index| image.partition("t", index).unwrap().assignment(1))
    };
    let noted = Assignment::Directory(NINE);
    let away = started(&image, vec![first, new], false);
    assert_eq!(assignments(&away), [noted; 2], "its disk may be mounted again");
    let after = started(&image, vec![first, new], true);
    assert_eq!(assignments(&after), [Assignment::Unassigned, noted], "1 had the only copy of one");
    assert!(!after.partition("t", 0).unwrap().isr.contains(&1));
}

/// It led, refused every request, and no other replica could be elected in its place.
#[test]
fn a_broker_does_not_lead_what_was_in_a_directory_that_it_cannot_use() {
    let mut image = replicated();
    let directories = BTreeMap::from([(Uuid([7; 16]), BTreeMap::from([(1, NINE)]))]);
    image = with(&image, assign_replicas(&image, 1, &directories));
    let leader = |image: &MetadataImage| image.partition("t", 1).unwrap().leader;
    let all = vec![Uuid([1; 16]), NINE];
    assert_eq!(leader(&started(&image, all.clone(), true)), 1);
    let without = started(&image, vec![Uuid([1; 16])], false);
    assert_eq!(leader(&without), -1);
    assert_eq!(leader(&started(&without, all, true)), 1);
}

#[test]
fn what_is_said_of_a_vote_is_about_one_directory() {
    let mut image = replicated();
    let first = (2, Uuid([2; 16]));
    let wrong = set_voting(&image, (2, Uuid([5; 16])), Voting::Never).unwrap_err();
    assert_eq!(wrong.code, ErrorCode::InvalidRequest);
    image = with(&image, set_voting(&image, first, Voting::Never).unwrap());
    assert_eq!(image.brokers[&2].voting, Voting::Never);
    assert_eq!(set_voting(&image, first, Voting::Never).unwrap(), []);
    let (fenced, log_dirs) = (true, vec![]);
    let listeners = vec![listener(2)];
    let again = Registration {
        broker_id: 2,
        quorum_dir: first.1,
        listeners,
        fenced,
        log_dirs,
        ..Registration::default()
    };
    let restarted = with(&image, register(&image, &again));
    assert_eq!(restarted.brokers[&2].voting, Voting::Never, "also after a restart");
    let bytes = image_bytes(&restarted);
    let read = image_of(restarted.offset + 1, bytes.into()).unwrap();
    assert_eq!(read, restarted, "a snapshot has it");
    let other = Registration { quorum_dir: Uuid([8; 16]), ..again };
    let image = with(&image, register(&image, &other));
    assert_eq!(image.brokers[&2].voting, Voting::IfNeeded, "nothing was said of another disk");
}

#[test]
fn a_broker_without_a_directory_or_a_listener_is_refused() {
    let nowhere = Joining { listeners: vec![], ..joining(7) };
    let everywhere = Joining { listeners: vec![listener(1); 65], ..joining(7) };
    let wordy = Joining { rack: Some("r".repeat(1_001)), ..joining(7) };
    for bad in [joining(0), nowhere, everywhere, wordy] {
        assert_eq!(join(&cluster(), &bad).unwrap_err().code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn a_fence_hits_one_life_of_a_broker_only() {
    let image = cluster();
    let epoch = image.brokers[&1].epoch;
    assert_eq!(fence(&image, 1, epoch - 1, true), []);
    let fenced = with(&image, fence(&image, 1, epoch, true));
    assert!(!fenced.is_alive(1));
    assert_eq!(fence(&fenced, 1, epoch, true), []);
    assert!(with(&fenced, fence(&fenced, 1, epoch, false)).is_alive(1));
    let record = FenceBrokerRecord { broker_id: 1, epoch: epoch - 1 };
    let records = vec![MetadataRecord::FenceBroker(record)];
    let batch = RecordsBatch { base_offset: image.offset + 1, epoch: 1, timestamp_ms: 0, records };
    assert!(image.with_batch(&batch).is_err(), "a record of an earlier life does not fit");
}

/// Brokers 1 to 3 that serve, and topic `t`: partition 0 on all of them, partition 1 on broker 1.
fn replicated() -> MetadataImage {
    let mut image = cluster();
    for directory in [2, 3] {
        image = with(&image, join(&image, &joining(directory)).unwrap().0);
        let (id, epoch) = (i32::from(directory), image.brokers[&i32::from(directory)].epoch);
        image = with(&image, fence(&image, id, epoch, false));
    }
    let partition = |replicas: Vec<i32>| PartitionRecord {
        leader: 1,
        isr: replicas.clone(),
        directories: vec![NINE; replicas.len()],
        replicas,
        ..PartitionRecord::default()
    };
    let topic = CreateTopicRecord {
        name: "t".to_owned(),
        topic_id: Uuid([7; 16]),
        partitions: vec![partition(vec![1, 2, 3]), partition(vec![1])],
        configs: vec![],
    };
    with(&image, vec![MetadataRecord::CreateTopic(topic)])
}

/// Leader, leader epoch, in-sync and eligible replicas.
fn standing(image: &MetadataImage, index: i32) -> (i32, i32, Vec<i32>, Vec<i32>) {
    let now = image.partition("t", index).unwrap();
    (now.leader, now.leader_epoch.0, now.isr.clone(), now.elr.clone())
}

#[test]
fn others_take_over_from_a_fenced_broker_until_it_serves_again() {
    let image = replicated();
    let epoch = image.brokers[&1].epoch;
    let fenced = with(&image, fence(&image, 1, epoch, true));
    assert_eq!(standing(&fenced, 0), (2, 1, vec![2, 3], vec![]));
    assert_eq!(standing(&fenced, 1), (-1, 1, vec![], vec![1]));
    let back = with(&fenced, fence(&fenced, 1, epoch, false));
    assert_eq!(standing(&back, 0), (2, 1, vec![2, 3], vec![]), "it has to catch up first");
    assert_eq!(standing(&back, 1), (1, 2, vec![1], vec![]));
}

#[test]
fn a_broker_that_starts_leads_nothing_and_may_have_lost_the_ends_of_its_logs() {
    let image = replicated();
    let epoch = image.brokers[&1].epoch;
    let starts = |clean_epoch| Registration {
        broker_id: 1,
        listeners: vec![listener(1)],
        quorum_dir: Uuid([1; 16]),
        fenced: true,
        clean_epoch,
        ..Registration::default()
    };
    for (clean_epoch, isr, elr) in [
        (Some(epoch), vec![], vec![1]),
        (Some(epoch - 1), vec![1], vec![]),
        (None, vec![1], vec![]),
    ] {
        let started = with(&image, register(&image, &starts(clean_epoch)));
        assert!(!started.is_alive(1));
        assert_eq!(standing(&started, 0), (2, 1, vec![2, 3], vec![]));
        assert_eq!(standing(&started, 1), (-1, 1, isr, elr), "{clean_epoch:?}");
        let epoch = started.brokers[&1].epoch;
        let serves = with(&started, fence(&started, 1, epoch, false));
        assert_eq!(standing(&serves, 1), (1, 2, vec![1], vec![]), "the last one has all there is");
    }
}
