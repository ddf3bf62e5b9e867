//! The leader of a group deals topics that it does not read itself.

use kafkalite_connection::testing::{AutoCreated, auto_creating};
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};
use kafkalite_protocol::messages::sync_group::SyncGroupRequest;

use super::commits::coordinated;
use super::last_commit::{nothing_committed, synced};
use super::*;
use crate::consumer::assignors::MemberSubscription;
use crate::consumer::assignors::protocol::{decode_assignment, encode_subscription};

/// What `this`, the leader, reads, and what `other` reads.
fn joined_with_a_reader_of_y(asked: &Asked) -> Answer {
    let request: JoinGroupRequest = asked.read();
    let other = MemberSubscription {
        topics: BTreeSet::from([Arc::from("y")]),
        ..MemberSubscription::default()
    };
    let member = |id: &str, metadata| JoinGroupResponseMember {
        member_id: id.to_owned(),
        metadata,
        ..JoinGroupResponseMember::default()
    };
    let own = request.protocols[0].metadata.clone();
    asked.answer::<JoinGroupRequest>(&JoinGroupResponse {
        generation_id: asked.before as i32 + 1,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        leader: "this".to_owned(),
        member_id: "this".to_owned(),
        members: vec![member("this", own), member("other", encode_subscription(&other))],
        ..JoinGroupResponse::default()
    })
}

/// What the leader dealt the other member.
fn dealt(request: &SyncGroupRequest) -> Vec<TopicPartition> {
    let of_other = request.assignments.iter().find(|one| one.member_id == "other");
    let assignment = of_other.expect("the leader deals for all").assignment.clone();
    decode_assignment(assignment).expect("it is readable")
}

/// The other member got nothing of a topic that came, or came back, while it was in the group.
#[test]
fn a_leader_deals_a_topic_of_another_member_that_comes_later_and_one_that_comes_back() {
    let topics = Arc::new(Mutex::new(AutoCreated::default()));
    topics.lock().there.insert("x".to_owned());
    let deals: Arc<Mutex<Vec<Vec<TopicPartition>>>> = Arc::default();
    let (there, seen) = (Arc::clone(&topics), Arc::clone(&deals));
    let log = Log { start: 0, end: 0, epoch: 0 };
    let broker = coordinated(move |asked| {
        if asked.is(ApiKey::JoinGroup) {
            return joined_with_a_reader_of_y(asked);
        } else if asked.is(ApiKey::SyncGroup) {
            seen.lock().push(dealt(&asked.read()));
            return synced(asked, &[x()]);
        } else if asked.is(ApiKey::Heartbeat) {
            return asked.answer::<HeartbeatRequest>(&HeartbeatResponse::default());
        } else if asked.is(ApiKey::Metadata) {
            return auto_creating(asked, &there);
        } else if asked.is(ApiKey::OffsetFetch) {
            return nothing_committed(asked);
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if asked.is(ApiKey::Fetch) {
            return Answer::Silence;
        }
        Answer::Usual
    });
    let settings = [EARLIEST_RESET, ("group.id", "g"), ("allow.auto.create.topics", "false")];
    let consumer = consumer(&broker, &settings);
    let wish = Wish::Topics(BTreeSet::from([Arc::from("x")]));
    consumer.subscribe(wish).expect("nothing is assigned");
    let call = || match consumer.next(ALL, Instant::now()) {
        // What it reads is given up before each round.
        Ok(Next::Event(event)) => consumer.finish_event(&event),
        other => assert!(matches!(other, Ok(Next::Nothing)), "{other:?}"),
    };
    let last = || deals.lock().last().cloned();
    let dealt_to_other = |what: &str, expected: &[TopicPartition]| {
        awaited::until(what, || {
            call();
            last().as_deref() == Some(expected)
        });
    };
    let y = [TopicPartition::new("y", 0)];
    dealt_to_other("nothing is dealt", &[]);
    topics.lock().there.insert("y".to_owned());
    dealt_to_other("the topic is dealt that was created", &y);
    topics.lock().there.remove("y");
    consumer.shared().cluster.request_refresh();
    dealt_to_other("nothing is dealt of the topic that was deleted", &[]);
    topics.lock().there.insert("y".to_owned());
    dealt_to_other("the topic is dealt that was created again", &y);
    assert_eq!(topics.lock().created, 0, "created by a question");
}
