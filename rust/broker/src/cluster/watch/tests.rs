use super::*;
use crate::metadata::records::{
    ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
};
use kafkalite_protocol::Uuid;
use kafkalite_quorum::{Endpoint, MemberStatus};

fn voter(number: i32) -> VoterId {
    VoterId { node_id: number, directory_id: Uuid([number as u8; 16]) }
}

/// Brokers 1 to 3, of which these are fenced.
fn image(fenced: &[i32]) -> MetadataImage {
    let register = |broker_id: i32| {
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            listeners: vec![ListenerRecord::default()],
            quorum_dir: voter(broker_id).directory_id,
            fenced: fenced.contains(&broker_id),
            ..RegisterBrokerRecord::default()
        })
    };
    let records = (1..=3).map(register).collect();
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    MetadataImage::default().with_batch(&batch).expect("the records fit")
}

/// Three voters as broker 1 sees them, with these ends.
fn status(term: u64, ends: [Option<i64>; 3]) -> Status {
    let member = |(number, end)| MemberStatus { id: voter(number), end, ..MemberStatus::default() };
    Status {
        me: voter(1),
        leader: Some((voter(1), Endpoint::default())),
        term,
        end: 9,
        voters: (1..).zip(ends).map(member).collect(),
        learners: vec![],
        stopped: None,
    }
}

#[test]
fn a_voter_is_away_when_its_broker_was_fenced_for_five_minutes_without_a_break() {
    let (mut watch, now) = (Watch::default(), |ns| (ns, 0));
    let status = |term| status(term, [None; 3]);
    let none = BTreeSet::new();
    assert_eq!(watch.look(&image(&[1, 3]), &status(1), now(7)), none);
    assert_eq!(watch.look(&image(&[1, 3]), &status(1), now(6 + REPLACE_NS)), none);
    let over = watch.look(&image(&[1, 3]), &status(1), now(7 + REPLACE_NS));
    assert_eq!(over, BTreeSet::from([voter(3)]), "the leader itself is here");
    // It comes back for a moment.
    assert_eq!(watch.look(&image(&[]), &status(1), now(8 + REPLACE_NS)), none);
    assert_eq!(watch.look(&image(&[3]), &status(1), now(9 + REPLACE_NS)), none);
    // The leader of another term knows nothing yet.
    assert_eq!(watch.look(&image(&[3]), &status(2), now(9 + 2 * REPLACE_NS)), none);
    let over = watch.look(&image(&[3]), &status(2), now(9 + 3 * REPLACE_NS));
    assert_eq!(over.len(), 1);
}

#[test]
fn a_member_is_caught_up_for_as_long_as_it_had_everything() {
    let mut watch = Watch::default();
    let all = image(&[]);
    watch.look(&all, &status(1, [Some(9), Some(9), Some(3)]), (0, 100));
    watch.look(&all, &status(1, [Some(9), Some(8), Some(3)]), (0, 200));
    let told = [1, 2, 3].map(|number| watch.caught_up_ms(voter(number)));
    assert_eq!(told, [Some(200), Some(100), None]);
    watch.follow();
    assert_eq!(watch.caught_up_ms(voter(1)), None, "only a leader knows");
}

#[test]
fn a_voter_that_stops_is_started_after_1_s_then_2_s_and_at_last_every_60_s() {
    const SECOND: u64 = 1_000_000_000;
    let (mut restarts, mut now, mut waits) = (Restarts::default(), 100 * SECOND, Vec::new());
    assert!(!restarts.due(false, now));
    for _ in 0..8 {
        let begun = now;
        while !restarts.due(true, now) {
            now += SECOND;
        }
        waits.push((now - begun) / SECOND);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    // One that runs for a minute is well.
    assert!(!restarts.due(false, now + 59 * SECOND));
    assert!(!restarts.due(true, now + 60 * SECOND));
    assert!(!restarts.due(false, now + 61 * SECOND));
    assert!(!restarts.due(true, now + 70 * SECOND));
    assert!(restarts.due(true, now + 71 * SECOND));
}
