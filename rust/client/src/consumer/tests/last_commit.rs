//! The last commit of a member that goes while its group is between two generations.
//!
//! A cooperative member reads on while it joins. Its group may be in the next generation before the
//! member knows, and refuse its commit of the last one. The next owner of the partition then read
//! processed records again.

use kafkalite_connection::testing::{Held, hold, release};
use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use kafkalite_protocol::messages::offset_commit::OffsetCommitRequest;
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::commits::{coordinated, fetched, told};
use super::*;
use crate::consumer::assignors::protocol::encode_assignment;

/// What a member asks its coordinator for at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Commit { generation: i32, offset: i64 },
    Leave,
}
use Asks::{Commit, Leave};

/// A coordinator whose second generation begins when this member has joined the first: it refuses
/// what is committed in that. When it has, it answers the second Join with this, if with anything.
struct Rebalancing {
    second_join: Option<ErrorCode>,
    held: Held,
    asks: Arc<Mutex<Vec<Asks>>>,
}

impl Rebalancing {
    fn answer(&self, asked: &Asked) -> Answer {
        if asked.is(ApiKey::JoinGroup) {
            return self.join(asked);
        } else if asked.is(ApiKey::SyncGroup) {
            return synced(asked, &[x()]);
        } else if asked.is(ApiKey::OffsetCommit) {
            return self.commit(asked);
        } else if asked.is(ApiKey::LeaveGroup) {
            self.asks.lock().push(Leave);
        }
        all_else(asked)
    }

    fn join(&self, asked: &Asked) -> Answer {
        if asked.before == 0 {
            return joined(asked, ErrorCode::None);
        }
        hold(&self.held, joined(asked, self.second_join.unwrap_or(ErrorCode::None)))
    }

    fn commit(&self, asked: &Asked) -> Answer {
        let request: OffsetCommitRequest = asked.read();
        let generation = request.generation_id_or_member_epoch;
        let offset = request.topics[0].partitions[0].committed_offset;
        self.asks.lock().push(Commit { generation, offset });
        if generation != 1 {
            return told(asked, ErrorCode::None);
        }
        if self.second_join.is_some() {
            release(&self.held);
        }
        told(asked, ErrorCode::IllegalGeneration)
    }
}

/// The answer to the Join of a member that is not the leader: each Join makes a generation.
pub fn joined(asked: &Asked, code: ErrorCode) -> Answer {
    asked.answer::<JoinGroupRequest>(&JoinGroupResponse {
        error_code: code as i16,
        generation_id: asked.before as i32 + 1,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("cooperative-sticky".to_owned()),
        leader: "another".to_owned(),
        member_id: "this".to_owned(),
        ..JoinGroupResponse::default()
    })
}

pub fn synced(asked: &Asked, assigned: &[TopicPartition]) -> Answer {
    let assignment = encode_assignment(3, assigned);
    asked.answer::<SyncGroupRequest>(&SyncGroupResponse { assignment, ..Default::default() })
}

/// What a coordinator whose first generation is over says to all else: nothing is committed, and
/// every partition has four records.
pub fn all_else(asked: &Asked) -> Answer {
    let log = Log { start: 0, end: 4, epoch: 0 };
    if asked.is(ApiKey::Heartbeat) {
        let request: HeartbeatRequest = asked.read();
        let over = request.generation_id == 1;
        let code = if over { ErrorCode::RebalanceInProgress } else { ErrorCode::None };
        let told = HeartbeatResponse { error_code: code as i16, ..Default::default() };
        return asked.answer::<HeartbeatRequest>(&told);
    } else if asked.is(ApiKey::LeaveGroup) {
        return asked.answer::<LeaveGroupRequest>(&LeaveGroupResponse::default());
    } else if asked.is(ApiKey::OffsetFetch) {
        return nothing_committed(asked);
    }
    log.serves(asked)
}

/// The answer that the group has committed nothing.
pub fn nothing_committed(asked: &Asked) -> Answer {
    let request: OffsetFetchRequest = asked.read();
    let topics = request.groups.into_iter().flat_map(|group| group.topics.unwrap_or_default());
    let none = || OffsetFetchResponsePartitions { committed_offset: -1, ..Default::default() };
    let topic = |name| OffsetFetchResponseTopics {
        name,
        partitions: vec![none()],
        ..OffsetFetchResponseTopics::default()
    };
    fetched(asked, topics.map(|asked| topic(asked.name)).collect())
}

/// Reads the four records of `x` as a member of the coordinator's group.
pub fn member(broker: &FakeBroker, topics: &[&str]) -> Consumer {
    let settings = [
        EARLIEST_RESET,
        ("group.id", "g"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("heartbeat.interval.ms", "1"),
    ];
    let consumer = consumer(broker, &settings);
    let topics = topics.iter().map(|topic| Arc::from(*topic)).collect();
    consumer.subscribe(Wish::Topics(topics)).expect("nothing is assigned");
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    consumer
}

/// A member of both, that has read four records and joins the second generation.
fn between(second_join: Option<ErrorCode>) -> (FakeBroker, Consumer, Arc<Mutex<Vec<Asks>>>) {
    let asks = Arc::new(Mutex::new(Vec::new()));
    let group = Rebalancing { second_join, held: Mutex::default(), asks: Arc::clone(&asks) };
    let broker = coordinated(move |asked| group.answer(asked));
    let consumer = member(&broker, &["x"]);
    broker.wait_for(ApiKey::JoinGroup, 2);
    (broker, consumer, asks)
}

#[test]
fn what_a_rebalance_refuses_of_a_member_that_closes_is_committed_in_the_next_generation() {
    let (_broker, consumer, asks) = between(Some(ErrorCode::None));
    assert_eq!(consumer.close(Duration::from_secs(10), false), Ok(()));
    let (first, second) =
        (Commit { generation: 1, offset: 4 }, Commit { generation: 2, offset: 4 });
    let asks = asks.lock();
    let refused = asks.iter().take_while(|one| **one == first).count();
    assert!(refused > 0, "{asks:?}");
    assert_eq!(asks[refused..], [second, Leave]);
}

#[test]
fn what_a_rebalance_refuses_of_a_member_that_unsubscribes_is_committed_in_the_next_generation() {
    let (_broker, consumer, asks) = between(Some(ErrorCode::None));
    consumer.finish();
    let gone = GroupEvent::Revoke(consumer.assignment());
    let last = calls::before_event(Arc::clone(consumer.shared()), gone, soon());
    assert_eq!(consumer.runtime().call(last, soon()), Ok(()));
    assert_eq!(asks.lock().last(), Some(&Commit { generation: 2, offset: 4 }));
}

#[test]
fn a_rebalance_that_does_not_end_leaves_time_for_a_goodbye() {
    let (_broker, consumer, asks) = between(None);
    let closed = consumer.close(Duration::from_secs(1), false);
    let code = closed.expect_err("it was never committed").code();
    assert_eq!(code, Some(ErrorCode::IllegalGeneration));
    assert_eq!(asks.lock().last(), Some(&Leave));
}

#[test]
fn a_member_that_was_thrown_out_commits_nothing_when_it_closes() {
    let (_broker, consumer, asks) = between(Some(ErrorCode::UnknownMemberId));
    let closed = consumer.close(Duration::from_secs(10), false);
    let code = closed.expect_err("its partitions belong to another member").code();
    assert_eq!(code, Some(ErrorCode::IllegalGeneration));
    let refused = |one: &Asks| *one == Commit { generation: 1, offset: 4 };
    assert!(asks.lock().iter().filter(|one| **one != Leave).all(refused), "{:?}", asks.lock());
}
