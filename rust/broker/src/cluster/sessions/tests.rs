use super::*;
use crate::metadata::records::{
    FenceBrokerRecord, ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
};

const SESSION_NS: u64 = 3_000_000_000;
const UNREACHED_NS: u64 = 1_000_000_000;
const GAP_NS: u64 = 1_000_000_000;

fn sessions() -> Sessions {
    Sessions::new(Limits::new(SESSION_NS, 500_000_000))
}

fn image(fenced: Option<i32>) -> MetadataImage {
    let listener = ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 1 };
    let register = |broker_id| {
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            epoch: i64::from(broker_id) * 10,
            listeners: vec![listener.clone()],
            ..RegisterBrokerRecord::default()
        })
    };
    let fence = fenced.map(|broker_id| {
        let epoch = i64::from(broker_id) * 10;
        MetadataRecord::FenceBroker(FenceBrokerRecord { broker_id, epoch })
    });
    let records = [1, 2].map(register).into_iter().chain(fence).collect();
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    MetadataImage::default().with_batch(&batch).expect("the records fit")
}

/// Whose session is over at `now_ns`, to a leader that looked all the time.
fn over(sessions: &mut Sessions, image: &MetadataImage, now_ns: u64) -> Vec<(i32, i64)> {
    let mut at = sessions.looked.unwrap_or(now_ns);
    while at + GAP_NS < now_ns {
        at += GAP_NS;
        sessions.over(image, at);
    }
    sessions.over(image, now_ns)
}

#[test]
fn a_silent_broker_is_due_when_its_session_is_over() {
    let mut sessions = sessions();
    let image = image(None);
    sessions.lead(1);
    assert_eq!(sessions.over(&image, 5), []);
    sessions.heard(1, SESSION_NS);
    assert_eq!(over(&mut sessions, &image, SESSION_NS + 5), []);
    assert_eq!(over(&mut sessions, &image, SESSION_NS + 6), [(2, 20)]);
}

#[test]
fn a_fenced_broker_is_not_due_again() {
    let mut sessions = sessions();
    sessions.lead(1);
    assert_eq!(sessions.over(&image(None), 0), []);
    assert_eq!(over(&mut sessions, &image(Some(2)), 2 * SESSION_NS), [(1, 10)]);
}

/// What an earlier leader heard says nothing: a broker whose heartbeats went elsewhere is alive.
#[test]
fn a_new_leader_gives_every_broker_a_full_session() {
    let mut sessions = sessions();
    let image = image(None);
    sessions.lead(1);
    assert_eq!(sessions.over(&image, 0), []);
    sessions.follow();
    sessions.lead(3);
    assert_eq!(sessions.over(&image, 2 * SESSION_NS), []);
    sessions.lead(5);
    assert_eq!(sessions.over(&image, 4 * SESSION_NS), []);
}

#[test]
fn a_broker_that_takes_no_connection_and_sends_nothing_is_due_sooner() {
    let mut sessions = sessions();
    let image = image(None);
    sessions.lead(1);
    sessions.reached(2, false, 10);
    sessions.reached(2, false, UNREACHED_NS);
    assert_eq!(sessions.over(&image, 10 + UNREACHED_NS), []);
    assert_eq!(sessions.over(&image, 11 + UNREACHED_NS), [(2, 20)]);
    sessions.heard(2, 11 + UNREACHED_NS);
    assert_eq!(sessions.over(&image, 12 + UNREACHED_NS), [], "a heartbeat came");
    sessions.reached(2, false, 20 + UNREACHED_NS);
    sessions.reached(2, true, 30 + UNREACHED_NS);
    assert_eq!(
        over(&mut sessions, &image, 21 + 2 * UNREACHED_NS),
        [],
        "it takes connections again"
    );
    sessions.reached(2, false, 40 + UNREACHED_NS);
    sessions.lead(2);
    assert_eq!(sessions.over(&image, 41 + 2 * UNREACHED_NS), [], "another term");
}

/// Rare heartbeats are no sign of a death, where sessions are long enough for them.
#[test]
fn longer_sessions_wait_longer() {
    let (session_ns, heartbeat_ns) = (9_000_000_000, 2_000_000_000);
    let mut sessions = Sessions::new(Limits::new(session_ns, heartbeat_ns));
    let image = image(None);
    sessions.lead(1);
    assert_eq!(over(&mut sessions, &image, 0), []);
    assert_eq!(over(&mut sessions, &image, session_ns), []);
    sessions.heard(1, session_ns);
    sessions.reached(1, false, session_ns);
    assert_eq!(over(&mut sessions, &image, session_ns + 1), [(2, 20)]);
    sessions.heard(2, session_ns + 1);
    assert_eq!(over(&mut sessions, &image, session_ns + 2 * heartbeat_ns), []);
    assert_eq!(over(&mut sessions, &image, session_ns + 2 * heartbeat_ns + 1), [(1, 10)]);
}

/// Each look of the leader would begin all sessions again.
#[test]
fn short_sessions_end_although_the_leader_looks_seldom() {
    let (session_ns, heartbeat_ns, look_ns) = (600_000_000, 500_000_000, 250_000_000);
    let mut sessions = Sessions::new(Limits::new(session_ns, heartbeat_ns));
    let image = image(None);
    sessions.lead(1);
    assert_eq!(sessions.over(&image, 0), []);
    assert_eq!(sessions.over(&image, look_ns), []);
    assert_eq!(sessions.over(&image, 2 * look_ns), []);
    assert_eq!(sessions.over(&image, 3 * look_ns), [(1, 10), (2, 20)]);
}

/// A broker that sends heartbeats from an address that refuses would be fenced again and again.
#[test]
fn a_broker_is_taken_for_gone_once_in_each_life() {
    let mut sessions = sessions();
    sessions.lead(1);
    assert!(sessions.is_gone(2, 20));
    assert!(!sessions.is_gone(2, 20));
    assert!(sessions.is_gone(2, 30));
    sessions.lead(2);
    assert!(sessions.is_gone(2, 30), "another leader sees for itself");
}

/// A controller whose process was frozen would fence every broker when it goes on.
#[test]
fn a_leader_that_was_stopped_itself_gives_every_broker_a_full_session() {
    let mut sessions = sessions();
    let image = image(None);
    sessions.lead(1);
    assert_eq!(sessions.over(&image, 0), []);
    let woken = 10 * SESSION_NS;
    assert_eq!(sessions.over(&image, woken), []);
    assert_eq!(over(&mut sessions, &image, woken + SESSION_NS), []);
    assert_eq!(over(&mut sessions, &image, woken + SESSION_NS + 1), [(1, 10), (2, 20)]);
}

#[test]
fn a_leader_is_deaf_when_no_other_broker_was_heard_for_two_heartbeats() {
    let mut sessions = sessions();
    sessions.lead(1);
    sessions.heard(1, 9 * SESSION_NS);
    assert!(!sessions.is_deaf(1, 9 * SESSION_NS), "there is no other one");
    sessions.heard(2, 7);
    sessions.heard(3, 8);
    assert!(!sessions.is_deaf(1, 8 + UNREACHED_NS), "3 was heard");
    assert!(sessions.is_deaf(1, 9 + UNREACHED_NS));
}
