#![allow(clippy::unwrap_used)]
use super::*;
use crate::awaited;
use std::sync::mpsc;

#[test]
fn a_turn_flushes_each_named_partition_once_and_what_comes_meanwhile_later() {
    let committer = GroupCommit::new();
    for key in [3, 1, 3] {
        committer.commit(key);
    }
    let mut flushed = Vec::new();
    committer.turn(|key| {
        flushed.push(key);
        // An append during the flush waits for the next group.
        committer.commit(7);
    });
    assert_eq!(flushed, [1, 3]);
    committer.turn(|key| flushed.push(key));
    committer.turn(|key| flushed.push(key));
    assert_eq!(flushed, [1, 3, 7]);
}

/// It waited for every partition that was new: a thousand of them took longer than a client waits.
#[test]
fn what_is_awaited_waits_for_one_other_flush_at_most() {
    let committer = GroupCommit::new();
    [1, 2, 3, 4].into_iter().for_each(|key| committer.commit_later(key));
    committer.commit(9);
    let mut groups = Vec::new();
    for round in 0..4 {
        groups.push(committer.next_group().unwrap());
        if round == 1 {
            committer.commit(8);
            // Named again: it is not flushed before those that still wait for the first time.
            committer.commit_later(1);
        }
    }
    assert_eq!(groups, [vec![9, 1], vec![2], vec![8, 3], vec![4]]);
    assert_eq!(committer.next_group().unwrap(), [1]);
}

/// All that was named was flushed first: with 5,000 new partitions a stop took half a minute.
#[test]
fn a_stop_waits_for_one_flush_only() {
    let committer = GroupCommit::new();
    for key in [1, 2, 3] {
        committer.commit(key);
    }
    let (told, begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let flush = move |key| {
        told.send(key).unwrap();
        awaited::received("the test says when", &may_go);
    };
    committer.start(flush).unwrap();
    assert_eq!(awaited::received("a flush", &begun), 1);
    let stops = committer.clone();
    let stop = std::thread::spawn(move || stops.stop());
    awaited::until("the stop has begun", || committer.state.lock().stopped);
    go.send(()).unwrap();
    drop(go);
    let _limit = awaited::within("the stop");
    stop.join().unwrap();
    assert_eq!(begun.try_iter().count(), 0, "partitions flushed after the stop");
}
