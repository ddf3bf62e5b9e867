//! The goodbye of a member that closes, whose coordinator is not there any more.
//!
//! It was said once. The member stayed in the group that moved, and the next one waited until its
//! session had ended: 45 s.

use kafkalite_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};

use super::commits::{coordinated, told};
use super::last_commit::{all_else, joined, member, synced};
use super::*;
use crate::consumer::group;

/// A coordinator that says this to the first goodbye, and takes the second one.
fn leaving(first: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeBroker {
    coordinated(move |asked| {
        if asked.is(ApiKey::JoinGroup) {
            joined(asked, ErrorCode::None)
        } else if asked.is(ApiKey::SyncGroup) {
            synced(asked, &[x()])
        } else if asked.is(ApiKey::Heartbeat) {
            asked.answer::<HeartbeatRequest>(&HeartbeatResponse::default())
        } else if asked.is(ApiKey::OffsetCommit) {
            told(asked, ErrorCode::None)
        } else if asked.is(ApiKey::LeaveGroup) && asked.before == 0 {
            first(asked)
        } else {
            all_else(asked)
        }
    })
}

fn refused(asked: &Asked) -> Answer {
    let error_code = ErrorCode::NotCoordinator as i16;
    let response = LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() };
    asked.answer::<LeaveGroupRequest>(&response)
}

#[test]
fn a_goodbye_that_a_coordinator_did_not_take_is_said_to_the_next_one() {
    for broker in [leaving(refused), leaving(|_| Answer::Close)] {
        let consumer = member(&broker, &["x"]);
        assert_eq!(consumer.close(Duration::from_secs(10), true), Ok(()));
        assert_eq!(broker.count(ApiKey::LeaveGroup), 2);
    }
}

#[test]
fn where_no_broker_is_there_no_goodbye_is_waited_for() {
    let broker = leaving(refused);
    let consumer = member(&broker, &["x"]);
    drop(broker);
    let (shared, later) = (Arc::clone(consumer.shared()), soon() + Duration::from_secs(50));
    let goodbye = async move {
        group::leave(&shared, "this".to_owned(), "gone".to_owned(), later).await;
        Ok(())
    };
    assert_eq!(consumer.runtime().call(goodbye, soon()), Ok(()));
}
