//! What the group's task does beside the calls of other threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::awaited;
use crate::config::ConsumerConfig;
use crate::consumer::assignors::Assignor;
use crate::consumer::group_state::MemberConfig;

fn shared() -> Arc<Shared> {
    let pairs = [("bootstrap.servers", "127.0.0.1:1"), ("group.id", "g")];
    let pairs: BTreeMap<_, _> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let config = ConsumerConfig::from_pairs(&pairs).expect("it is valid");
    let member = MemberConfig {
        group_id: "g".to_owned(),
        instance_id: None,
        assignors: vec![Assignor::Range],
        session_timeout: config.session_timeout,
        heartbeat_interval: config.heartbeat_interval,
        max_poll_interval: config.max_poll_interval,
        retry_backoff: config.client.connection.retry_backoff,
        rack: None,
    };
    Shared::new(config, Some(GroupMember::new(member, Instant::now())))
}

/// The task read the subscription, the user unsubscribed and left, and then the task gave the
/// member the old subscription. The member joined again, and its partitions stayed unread.
#[test]
fn a_member_that_leaves_while_metadata_is_looked_at_stays_away() {
    for round in 0..60 {
        let shared = shared();
        let member = shared.member.as_ref().expect("it has a group");
        shared.subscription.lock().set_wish(Wish::Topics(BTreeSet::from([Arc::from("x")])));
        let _limit = awaited::within("the task has looked");
        std::thread::scope(|scope| {
            // Meanwhile the task looks what is wanted, or waits for this lock.
            let mut leaving = member.lock();
            let task = scope.spawn(|| Group { shared: &shared, member }.see_metadata());
            for _ in 0..round {
                std::thread::yield_now();
            }
            shared.subscription.lock().set_wish(Wish::Nothing);
            leaving.leave("unsubscribed");
            drop(leaving);
            task.join().expect("it does not panic");
        });
        let next = member.lock().next(Instant::now());
        assert_eq!(next, Action::Wait(None), "round {round}");
    }
}
