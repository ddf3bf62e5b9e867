use super::*;
use crate::fetch_sessions::{FetchContext, FetchSessions, Look, Opening};
use crate::metrics::Metrics;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

/// Opens a session of one partition, and the slot of the one before is free.
fn open(sessions: &FetchSessions, id: i32) -> (FetchContext, Look) {
    let topics = vec![FetchTopic {
        topic: "t".to_owned(),
        partitions: vec![FetchPartition::default()],
        ..FetchTopic::default()
    }];
    let request = FetchRequest {
        replica_id: 2,
        session_id: id - 1,
        session_epoch: 0,
        topics,
        ..FetchRequest::default()
    };
    let opening = || Opening { id, waiters: Arc::default() };
    let (context, mut looks) = sessions.resolve(&request, 11, 1_000, opening).expect("a session");
    (context, looks.remove(0))
}

fn subscription(context: &FetchContext, look: &Look) -> Arc<PartitionSubscription> {
    let session = context.session().expect("a session");
    session.lock().subscription(look, 1).expect("there is none yet")
}

#[test]
fn a_check_marks_each_subscription_and_costs_one_look_without_any() {
    let (sessions, list) = (FetchSessions::new(10, &Metrics::new()), WatchList::default());
    let (context, look) = open(&sessions, 1);
    let session = context.session().expect("a session");
    list.check();
    assert!(session.lock().take_moved().is_empty(), "nothing is subscribed yet");
    let held = subscription(&context, &look);
    list.subscribe(&held);
    for check in [|list: &WatchList| list.check(), |list: &WatchList| list.check_bytes(7)] {
        assert_eq!(check(&list), 0, "no operation waits");
        assert_eq!(session.lock().take_moved().len(), 1);
    }
}

#[test]
fn subscriptions_of_sessions_that_are_gone_do_not_gather() {
    let (sessions, list) = (FetchSessions::new(10, &Metrics::new()), WatchList::default());
    for id in 1..1_000 {
        let (context, look) = open(&sessions, id);
        list.subscribe(&subscription(&context, &look));
        assert!(list.count.load(Ordering::Relaxed) <= 8, "this partition was not moved");
    }
    drop(sessions);
    list.check();
    assert_eq!(list.count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_list_tells_which_follower_is_caught_up() {
    let (sessions, list) = (FetchSessions::new(10, &Metrics::new()), WatchList::default());
    let (context, mut look) = open(&sessions, 1);
    list.subscribe(&subscription(&context, &look));
    look.set_noted();
    assert_eq!(list.caught_up_ms(2), None, "no session was notified yet");
    let session = context.session().expect("a session");
    session.lock().note(&look, &Default::default(), 0);
    assert_eq!((list.caught_up_ms(2), list.caught_up_ms(3)), (Some(1_000), None));
    list.check_bytes(1);
    assert_eq!(list.caught_up_ms(2), None);
}
