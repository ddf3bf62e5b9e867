#![allow(clippy::unwrap_used)]

use super::*;
use cluster::{Cluster, EPOCH, KEY, MemoryLog, key, log};
use kafkalite_protocol::messages::fetch::FetchPartition;

mod cluster;

fn partitions(request: &FetchRequest) -> Vec<(i32, i64)> {
    let listed = request.topics.iter().flat_map(|topic| &topic.partitions);
    listed.map(|one: &FetchPartition| (one.partition, one.fetch_offset)).collect()
}

fn fetch(next: Next) -> FetchRequest {
    match next {
        Next::Ask(Question::Fetch(request)) => request,
        other => panic!("no fetch: {other:?}"),
    }
}

#[test]
fn a_fetch_says_who_fetches_and_what_its_log_holds() {
    let mut cluster = Cluster::new(&[1, 1, 2], &[1, 1, 2]);
    let request = fetch(cluster.next());
    assert_eq!((request.replica_state.replica_id, request.replica_state.replica_epoch), (2, 70));
    assert_eq!((request.session_id, request.session_epoch), (0, 0));
    let asked = &request.topics[0].partitions[0];
    let told = (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch);
    assert_eq!(told, (EPOCH.0, 3, 2));
}

#[test]
fn records_are_appended_and_the_next_fetch_begins_behind_them() {
    let mut cluster = Cluster::new(&[1, 1, 2, 3], &[1, 1]);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 2, 3]));
    assert_eq!(partitions(&fetch(cluster.next())), [(0, 4)]);
}

#[test]
fn a_log_that_parted_is_cut_where_it_did() {
    // Epoch 2 ended at 3 at the leader; the follower has two records more, and no epoch 3.
    let mut cluster = Cluster::new(&[1, 1, 2, 3, 3], &[1, 1, 2, 2, 2]);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 2]));
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 2, 3, 3]));
}

#[test]
fn epochs_that_the_leader_never_saw_are_cut_one_after_the_other() {
    let mut cluster = Cluster::new(&[1, 1, 4], &[1, 2, 2, 3, 3, 3]);
    cluster.converge();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 4]));
}

#[test]
fn a_follower_whose_next_records_were_deleted_restarts_where_the_leaders_log_starts() {
    let mut cluster = Cluster::new(&[1, 1], &[1, 1]);
    *cluster.leader_log() = log(9, &[1, 4]);
    cluster.exchange();
    assert!(matches!(cluster.next(), Next::Ask(Question::Epochs(_))));
    cluster.converge();
    assert_eq!(cluster.follower(), log(9, &[1, 4]));
}

/// The leader had records of epoch 2 from offset 1 on, and deleted them. What the follower has
/// there was never committed.
#[test]
fn records_that_the_leader_may_have_had_others_of_are_dropped_before_it_counts_the_follower() {
    for (led, followed) in [(log(3, &[]), log(0, &[1, 1, 1])), (log(3, &[2]), log(1, &[1; 5]))] {
        let mut cluster = Cluster::new(&[], &[]);
        (*cluster.leader_log(), _) = (led.clone(), cluster.logs.replace(KEY, followed));
        cluster.exchange();
        assert_eq!(cluster.follower(), log(3, &[]));
        cluster.converge();
        assert_eq!(cluster.follower(), led);
    }
}

#[test]
fn an_answer_counts_only_for_the_epoch_in_which_it_was_asked_for() {
    let mut cluster = Cluster::new(&[1, 1, 2], &[1]);
    let question = cluster.ask();
    let answer = cluster.answer(&question);
    cluster.fetcher.follow(KEY, &"t".into(), LeaderEpoch(EPOCH.0 + 1));
    cluster.take(answer);
    assert_eq!(cluster.follower(), log(0, &[1]));
}

#[test]
fn an_answer_counts_only_for_the_log_that_asked() {
    let mut cluster = Cluster::new(&[1, 1, 2], &[1]);
    let question = cluster.ask();
    let answer = cluster.answer(&question);
    cluster.logs.replace(KEY, log(0, &[]));
    cluster.take(answer);
    assert_eq!(cluster.follower(), log(0, &[]));
    cluster.converge();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 2]));
}

#[test]
fn a_partition_that_is_unfollowed_takes_no_answer() {
    let mut cluster = Cluster::new(&[1, 1, 2], &[1]);
    let question = cluster.ask();
    let answer = cluster.answer(&question);
    cluster.fetcher.unfollow(KEY);
    cluster.take(answer);
    assert_eq!(cluster.follower(), log(0, &[1]));
    assert_eq!(cluster.next(), Next::Wait(None));
    assert!(cluster.fetcher.is_idle());
}

/// A follower acknowledges by fetching, so it must not fetch before the metadata note its
/// directory.
#[test]
fn a_log_that_is_not_ready_is_not_fetched_until_it_is() {
    let mut cluster = Cluster::new(&[1, 1], &[]);
    cluster.logs.set_ready(KEY, false);
    assert_eq!(cluster.next(), Next::Wait(Some(cluster.now_ms + FIRST_BACKOFF_MS)));
    cluster.logs.set_ready(KEY, true);
    cluster.fetcher.follow(KEY, &"t".into(), EPOCH);
    assert_eq!(partitions(&fetch(cluster.next())), [(0, 0)], "the image has the note");
}

#[test]
fn a_partition_with_an_error_waits_while_others_go_on() {
    let mut cluster = Cluster::new(&[1], &[]);
    cluster.add(1, log(0, &[1, 1]), log(0, &[]));
    cluster.refuse(KEY, ErrorCode::NotLeaderOrFollower);
    cluster.exchange();
    assert_eq!(cluster.log(key(1)), log(0, &[1, 1]));
    let request = fetch(cluster.next());
    assert_eq!(partitions(&request), [(1, 2)], "the other one waits");
    cluster.now_ms += FIRST_BACKOFF_MS;
    cluster.allow(KEY);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1]));
}

/// After an election the followers may have the image before the leader has it. One second is too
/// long then: nothing is acknowledged meanwhile.
#[test]
fn waits_grow_with_errors_in_a_row_and_are_short_after_a_success() {
    let mut cluster = Cluster::new(&[1], &[]);
    let waited = |cluster: &mut Cluster| {
        cluster.exchange();
        let Next::Wait(Some(until)) = cluster.next() else { panic!("it waits") };
        until - std::mem::replace(&mut cluster.now_ms, until)
    };
    cluster.refuse(KEY, ErrorCode::UnknownLeaderEpoch);
    let waits: Vec<u64> = (0..8).map(|_| waited(&mut cluster)).collect();
    assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    cluster.allow(KEY);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1]));
    cluster.refuse(KEY, ErrorCode::UnknownLeaderEpoch);
    assert_eq!(waited(&mut cluster), 20);
}

#[test]
fn a_fetch_that_is_given_up_is_asked_again_at_once_in_a_new_session() {
    let mut cluster = Cluster::new(&[1], &[1]);
    cluster.session_id = 7;
    cluster.exchange();
    fetch(cluster.next());
    assert!(!cluster.fetcher.follow(KEY, &"t".into(), EPOCH), "it is followed so");
    assert!(cluster.fetcher.follow(KEY, &"t".into(), LeaderEpoch(EPOCH.0 + 1)));
    cluster.fetcher.interrupted();
    assert_eq!(fetch(cluster.next()).session_epoch, 0);
}

#[test]
fn a_session_tells_only_what_changed() {
    let mut cluster = Cluster::new(&[1], &[]);
    cluster.add(1, log(0, &[1]), log(0, &[1]));
    cluster.session_id = 7;
    cluster.exchange();
    let request = fetch(cluster.next());
    assert_eq!((request.session_id, request.session_epoch), (7, 1));
    assert_eq!(partitions(&request), [(0, 1)], "the other one did not move");
    cluster.take(Answer::Fetch(FetchResponse { session_id: 7, ..FetchResponse::default() }));
    cluster.fetcher.unfollow(key(1));
    let request = fetch(cluster.next());
    assert_eq!((request.session_epoch, partitions(&request)), (2, vec![]));
    assert_eq!(request.forgotten_topics_data[0].partitions, [1]);
}

#[test]
fn a_lost_session_and_a_lost_request_begin_a_new_one() {
    let mut cluster = Cluster::new(&[1], &[1]);
    cluster.session_id = 7;
    cluster.exchange();
    fetch(cluster.next());
    let error_code = ErrorCode::FetchSessionIdNotFound.code();
    cluster.take(Answer::Fetch(FetchResponse { error_code, ..FetchResponse::default() }));
    let request = fetch(cluster.next());
    assert_eq!((request.session_epoch, partitions(&request)), (0, vec![(0, 1)]));
    let now_ms = cluster.now_ms;
    cluster.fetcher.failed(now_ms);
    assert_eq!(cluster.next(), Next::Wait(Some(now_ms + FIRST_BACKOFF_MS)));
    cluster.now_ms += FIRST_BACKOFF_MS;
    let request = fetch(cluster.next());
    assert_eq!((request.session_id, request.session_epoch), (7, 0), "the leader closes session 7");
}

/// Whatever two logs hold, the follower ends with the leader's.
#[test]
fn any_two_logs_become_the_same() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        // splitmix64
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    for round in 0..3_000 {
        // A common beginning, then epochs that only one of the two had.
        let mut history = |most: u64, parity: i32| {
            let mut epochs: Vec<i32> = Vec::new();
            for _ in 0..random(most) {
                let last = epochs.last().copied().unwrap_or(parity);
                epochs.push(last + 2 * i32::from(random(3) == 0));
            }
            epochs
        };
        let common = history(6, 0);
        let last = common.last().copied().unwrap_or(0);
        // Epochs of the leader are odd from there on, the follower's even.
        let (ours, theirs) = (history(6, 1), history(6, 2));
        let with = |own: Vec<i32>| -> Vec<i32> {
            common.iter().copied().chain(own.into_iter().map(|epoch| epoch + last)).collect()
        };
        let (led, followed) = (with(ours), with(theirs));
        let start = random(led.len() as u64 + 1) as usize;
        let leader = MemoryLog { start: start as i64, epochs: led[start..].to_vec() };
        let mut cluster = Cluster::new(&[], &followed);
        *cluster.leader_log() = leader.clone();
        cluster.converge();
        let end = |log: &MemoryLog| log.start + log.epochs.len() as i64;
        let follower = cluster.follower();
        assert_eq!(end(&follower), end(&leader), "round {round}: {led:?} {followed:?} {start}");
        let from = (leader.start - follower.start).max(0) as usize;
        assert_eq!(follower.epochs[from..], leader.epochs[..], "round {round}");
        let deleted = &led[(follower.start as usize).min(start)..start];
        assert_eq!(follower.epochs[..from], *deleted, "round {round}: {led:?} {followed:?}");
    }
}

/// What is in sync is never held up: acknowledgements wait for it.
#[test]
fn a_throttled_partition_waits_while_it_is_behind() {
    let mut cluster = Cluster::new(&[1, 1], &[1]);
    cluster.logs.1.set(true);
    for looks in 1..=2 {
        assert_eq!(cluster.next(), Next::Wait(Some(1_000 + looks * THROTTLED_MS)));
        cluster.now_ms += THROTTLED_MS;
    }
    cluster.logs.1.set(false);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1, 1]));
    cluster.logs.1.set(true);
    cluster.leader_log().epochs.push(1);
    cluster.exchange();
    assert_eq!(cluster.follower(), log(0, &[1, 1, 1]));
}
