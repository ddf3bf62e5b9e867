use super::*;
use crate::metadata::records::{
    ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord, SetVotingRecord,
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
    let (id, at) = (voter(number), at(number));
    MemberStatus { id, at, matched: Some(1), ..MemberStatus::default() }
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

/// The change that is next, where no voter is away for too long.
fn next_change(image: &MetadataImage, status: &Status, listener: &str) -> Option<MembershipChange> {
    next_step(image, status, listener, &BTreeSet::new()).map(|step| match step {
        Step::Change(change) => change,
        Step::HandOver(to) => panic!("{to} is to lead"),
    })
}

/// An image after an operator said something of the vote of a broker.
fn said(image: &MetadataImage, number: i32, voting: Voting) -> MetadataImage {
    let (broker_id, quorum_dir) = (number, dir(number));
    let record = SetVotingRecord { broker_id, quorum_dir, voting: voting.code() };
    let (base_offset, records) = (image.offset + 1, vec![MetadataRecord::SetVoting(record)]);
    let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records };
    image.with_batch(&batch).expect("the record fits")
}

#[test]
fn a_broker_learns_before_it_votes_and_the_first_three_vote() {
    let next = |brokers: &[i32], voters: &[i32], learners: &[i32]| {
        next_change(&here(brokers), &status(voters, learners), "")
    };
    assert_eq!(next(&[1, 2], &[1], &[]), Some(MembershipChange::AddLearner(voter(2), at(2))));
    assert_eq!(next(&[1, 2, 3], &[1], &[2, 3]), Some(MembershipChange::Promote(voter(2))));
    assert_eq!(next(&[1, 2, 3], &[1, 2], &[3]), Some(MembershipChange::Promote(voter(3))));
    assert_eq!(next(&[1, 2, 3, 4], &[1, 2, 3], &[4]), None);
}

#[test]
fn a_second_broker_gets_no_vote_without_a_third() {
    assert_eq!(next_change(&here(&[1, 2]), &status(&[1], &[2]), ""), None);
    let third_is_away = image(&[(1, dir(1), false), (2, dir(2), false), (3, dir(3), true)]);
    assert_eq!(next_change(&third_is_away, &status(&[1], &[2, 3]), ""), None);
}

#[test]
fn a_fenced_learner_gets_no_vote() {
    let image = image(&[(1, dir(1), false), (2, dir(2), false), (3, dir(3), true)]);
    assert_eq!(next_change(&image, &status(&[1, 2], &[3]), ""), None);
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
fn a_member_that_moved_is_followed() {
    for is_voter in [true, false] {
        let mut status = status(&[1, 2, 3], &[4]);
        let (all, number) = match is_voter {
            true => (&mut status.voters, 2),
            false => (&mut status.learners, 4),
        };
        all.iter_mut().find(|one| one.id == voter(number)).expect("a member").at = at(99);
        let moved = next_change(&here(&[1, 2, 3, 4]), &status, "");
        assert_eq!(moved, Some(MembershipChange::Move(voter(number), at(number))));
    }
}

#[test]
fn a_voter_that_is_away_is_replaced_while_a_majority_is_alive() {
    let away = BTreeSet::from([voter(3)]);
    let fenced = |id: i32, also: &[i32]| {
        let all = [1, 2, 3, 4]
            .map(|number| (number, dir(number), number == id || also.contains(&number)));
        image(&all)
    };
    let next = |image: &MetadataImage, learners: &[i32]| {
        next_step(image, &status(&[1, 2, 3], learners), "", &away)
    };
    let demoted = Some(Step::Change(MembershipChange::Demote(voter(3))));
    assert_eq!(next(&fenced(3, &[]), &[4]), demoted);
    assert_eq!(next(&fenced(3, &[4]), &[4]), None, "no learner could take its place");
    assert_eq!(next(&fenced(3, &[2]), &[4]), None, "the rest would have no majority");
    let after = next_step(&fenced(3, &[]), &status(&[1, 2], &[3, 4]), "", &BTreeSet::new());
    assert_eq!(after, Some(Step::Change(MembershipChange::Promote(voter(4)))));
    // When it comes back it has a place among the learners.
    assert_eq!(next_change(&here(&[1, 2, 3, 4]), &status(&[1, 2, 4], &[3]), ""), None);
}

#[test]
fn an_operator_gives_a_vote_and_takes_it_away() {
    let image = here(&[1, 2, 3, 4]);
    let fourth = said(&image, 4, Voting::Always);
    let given = next_change(&fourth, &status(&[1, 2, 3], &[4]), "");
    assert_eq!(given, Some(MembershipChange::Promote(voter(4))));
    let second = said(&image, 2, Voting::Never);
    let taken = next_change(&second, &status(&[1, 2, 3], &[4]), "");
    assert_eq!(taken, Some(MembershipChange::Demote(voter(2))));
    let next = next_change(&second, &status(&[1, 3], &[2, 4]), "");
    assert_eq!(next, Some(MembershipChange::Promote(voter(4))), "not the one that lost its vote");
    assert_eq!(next_change(&second, &status(&[1, 3, 4], &[2]), ""), None);
    assert_eq!(next_change(&said(&here(&[1]), 1, Voting::Never), &status(&[1], &[]), ""), None);
}

#[test]
fn a_leader_that_loses_its_vote_or_its_broker_hands_its_lead_on_first() {
    let mut newest = status(&[1, 2, 3], &[]);
    newest.voters[2].matched = Some(5);
    let none = BTreeSet::new();
    let kept = said(&here(&[1, 2, 3]), 1, Voting::Never);
    assert_eq!(next_step(&kept, &newest, "", &none), Some(Step::HandOver(voter(3))));
    let unregistered = here(&[2, 3]);
    assert_eq!(next_step(&unregistered, &newest, "", &none), Some(Step::HandOver(voter(3))));
}

/// One hanging disk of the leader had all other brokers fenced, and none of them could end that.
#[test]
fn a_voter_that_answers_leads_in_place_of_a_leader_that_hears_no_broker() {
    let image = image(&[(1, dir(1), false), (2, dir(2), false), (3, dir(3), true)]);
    let heir_of = |ages: [Option<u64>; 3]| {
        let mut status = status(&[1, 2, 3], &[]);
        for (voter, age) in status.voters.iter_mut().zip(ages) {
            voter.answered_ms_ago = age;
        }
        heir(&image, &status)
    };
    assert_eq!(heir_of([Some(0), Some(200), Some(100)]), Some(voter(2)), "3 does not serve");
    assert_eq!(heir_of([Some(0), Some(5_000), None]), None, "the leader is cut off");
}
