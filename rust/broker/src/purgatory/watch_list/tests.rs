use super::*;
use crate::fetch_sessions::{FetchContext, FetchSessions, Look, Opening};
use crate::metrics::Metrics;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

type Sessions = FetchSessions<Arc<WatchList>>;

/// Opens a session of one partition, and the slot of the one before is free.
fn open(sessions: &Sessions, id: i32) -> (FetchContext<Arc<WatchList>>, Look) {
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

fn rope(context: &FetchContext<Arc<WatchList>>, look: &Look) -> Arc<Rope> {
    let session = context.session().expect("a session");
    session.lock().rope(look, 1).expect("none hangs there")
}

#[test]
fn a_check_pulls_the_ropes_and_costs_one_look_where_none_hangs() {
    let (sessions, list) = (Sessions::new(10, &Metrics::new()), WatchList::default());
    let (context, look) = open(&sessions, 1);
    let session = context.session().expect("a session");
    list.check();
    assert!(session.lock().take_pulled().is_empty(), "nothing hangs there yet");
    let rope = rope(&context, &look);
    list.hang(&rope);
    for check in [|list: &WatchList| list.check(), |list: &WatchList| list.check_bytes(7)] {
        assert_eq!(check(&list), 0, "no operation waits");
        assert_eq!(session.lock().take_pulled().len(), 1);
    }
}

#[test]
fn ropes_of_sessions_that_are_gone_do_not_gather() {
    let (sessions, list) = (Sessions::new(10, &Metrics::new()), WatchList::default());
    for id in 1..1_000 {
        let (context, look) = open(&sessions, id);
        list.hang(&rope(&context, &look));
        assert!(list.count.load(Ordering::Relaxed) <= 8, "nobody moved this partition");
    }
    drop(sessions);
    list.check();
    assert_eq!(list.count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_list_tells_which_follower_is_caught_up() {
    let (sessions, list) = (Sessions::new(10, &Metrics::new()), WatchList::default());
    let (context, look) = open(&sessions, 1);
    list.hang(&rope(&context, &look));
    assert_eq!(list.caught_up_ms(2), None, "nothing was told yet");
    let session = context.session().expect("a session");
    session.lock().note(&look, &Default::default(), 0);
    assert_eq!((list.caught_up_ms(2), list.caught_up_ms(3)), (Some(1_000), None));
    list.check_bytes(1);
    assert_eq!(list.caught_up_ms(2), None);
}
