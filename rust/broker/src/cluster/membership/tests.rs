use super::*;
use crate::metadata::records::{
    ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
};
use kafkalite_protocol::Uuid;

const fn dir(number: i32) -> Uuid {
    Uuid([number as u8; 16])
}

fn at(number: i32) -> Endpoint {
    Endpoint { host: "h".to_owned(), port: number as u16 }
}

/// Brokers with their ids, directories and whether they are fenced.
fn image(brokers: &[(i32, Uuid, bool)]) -> MetadataImage {
    let register = |&(broker_id, quorum_dir, fenced): &(i32, Uuid, bool)| {
        let (name, Endpoint { host, port }) = ("A".to_owned(), at(broker_id));
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            listeners: vec![ListenerRecord { name, host, port }],
            quorum_dir,
            fenced,
            ..RegisterBrokerRecord::default()
        })
    };
    let records = brokers.iter().map(register).collect();
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    MetadataImage::default().with_batch(&batch).expect("the records fit")
}

fn voter(number: i32) -> VoterId {
    VoterId { node_id: number, directory_id: dir(number) }
}

fn member(number: i32) -> MemberStatus {
    MemberStatus { id: voter(number), at: at(number), matched: Some(1) }
}

fn status(voters: &[i32], learners: &[i32]) -> Status {
    Status {
        me: voter(1),
        leader: Some((voter(1), at(1))),
        term: 1,
        end: 1,
        voters: voters.iter().map(|id| member(*id)).collect(),
        learners: learners.iter().map(|id| member(*id)).collect(),
        stopped: None,
    }
}

fn here(brokers: &[i32]) -> MetadataImage {
    image(&brokers.iter().map(|id| (*id, dir(*id), false)).collect::<Vec<_>>())
}

#[test]
fn a_broker_learns_before_it_votes_and_the_first_three_vote() {
    let next = |brokers: &[i32], voters: &[i32], learners: &[i32]| {
        next_change(&here(brokers), &status(voters, learners), "")
    };
    assert_eq!(next(&[1, 2], &[1], &[]), Some(MembershipChange::AddLearner(voter(2), at(2))));
    assert_eq!(next(&[1, 2], &[1], &[2]), Some(MembershipChange::Promote(voter(2))));
    assert_eq!(next(&[1, 2, 3], &[1, 2], &[3]), Some(MembershipChange::Promote(voter(3))));
    assert_eq!(next(&[1, 2, 3, 4], &[1, 2, 3], &[4]), None);
}

#[test]
fn a_fenced_learner_gets_no_vote() {
    let image = image(&[(1, dir(1), false), (2, dir(2), true)]);
    assert_eq!(next_change(&image, &status(&[1], &[2]), ""), None);
}

#[test]
fn the_voter_of_a_wiped_disk_goes_before_its_new_one_comes() {
    let image = image(&[(1, dir(1), false), (2, dir(9), true), (3, dir(3), false)]);
    let gone = next_change(&image, &status(&[1, 2, 3], &[]), "");
    assert_eq!(gone, Some(MembershipChange::Remove(voter(2))));
    let new = VoterId { node_id: 2, directory_id: dir(9) };
    let comes = next_change(&image, &status(&[1, 3], &[]), "");
    assert_eq!(comes, Some(MembershipChange::AddLearner(new, at(2))));
}

#[test]
fn a_learner_that_moved_is_taken_in_at_its_new_address() {
    let mut learner = member(4);
    learner.at = at(99);
    let mut status = status(&[1, 2, 3], &[]);
    status.learners = vec![learner];
    let gone = next_change(&here(&[1, 2, 3, 4]), &status, "");
    assert_eq!(gone, Some(MembershipChange::Remove(voter(4))));
}
