//! What is due by itself beside what callers commit.

use super::*;

/// `x-0`, of which records up to 20 were handed out, and those before 15 are done.
fn handed_out() -> (Subscription, TopicPartition, Arc<Cursor>) {
    let (subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    assert!(cursor.finish_and_advance(at(15, 3)).is_some());
    assert!(cursor.finish_and_advance(at(20, 3)).is_some());
    assert_eq!(due(&subscription), Some(15));
    (subscription, x, cursor)
}

/// What an automatic commit would carry.
fn due(subscription: &Subscription) -> Option<i64> {
    subscription.to_commit().values().map(|position| position.offset).next()
}

/// A caller names an offset, and the commit goes through.
fn commit(subscription: &mut Subscription, x: &TopicPartition, offset: i64) {
    let made = subscription.made_on_purpose(x, offset).expect("it is assigned");
    subscription.committed(x, at(offset, 3), &made);
}

/// The automatic commit was due as soon as its offset differed: it took the caller's back.
#[test]
fn a_caller_that_commits_more_than_is_done_is_not_taken_back() {
    let (mut subscription, x, cursor) = handed_out();
    commit(&mut subscription, &x, 20);
    assert_eq!(due(&subscription), None);
    cursor.finish();
    assert_eq!(due(&subscription), None, "that is what was committed");
    assert!(cursor.finish_and_advance(at(22, 3)).is_some());
    cursor.finish();
    assert_eq!(due(&subscription), Some(22));
    commit(&mut subscription, &x, 30);
    assert!(cursor.advance(at(25, 3)).is_some());
    cursor.finish();
    subscription.get_mut(&x).expect("it is assigned").rewind();
    assert_eq!(due(&subscription), None, "the caller committed more than it read");
}

#[test]
fn a_caller_that_commits_less_than_is_done_is_not_overwritten_before_more_is_done() {
    let (mut subscription, x, cursor) = handed_out();
    commit(&mut subscription, &x, 12);
    assert_eq!(due(&subscription), None);
    cursor.finish();
    assert_eq!(due(&subscription), Some(20));
}

#[test]
fn a_caller_that_goes_back_after_its_commit_has_that_committed() {
    let (mut subscription, x, _) = handed_out();
    commit(&mut subscription, &x, 20);
    subscription.seek(&x, at(11, 3));
    assert_eq!(due(&subscription), Some(11));
    commit(&mut subscription, &x, 13);
    assert_eq!(due(&subscription), None, "the caller committed after that");
    subscription.seek(&x, at(13, 3));
    assert_eq!(due(&subscription), None, "it is committed");
}

#[test]
fn a_log_that_was_cut_before_a_commit_has_its_end_committed() {
    let (mut subscription, x, _) = handed_out();
    commit(&mut subscription, &x, 20);
    subscription.go_back_to(&x, at(17, 3));
    assert_eq!(due(&subscription), Some(15));
    commit(&mut subscription, &x, 17);
    subscription.go_back_to(&x, at(17, 3));
    assert_eq!(due(&subscription), None);
    let made = subscription.made(&x, 17).expect("it is assigned");
    subscription.go_back_to(&x, at(16, 3));
    subscription.committed(&x, at(17, 3), &made);
    assert_eq!(due(&subscription), Some(15), "it was cut while the commit was under way");
}

#[test]
fn a_commit_under_way_settles_what_was_done_when_it_was_made() {
    let (mut subscription, x, cursor) = handed_out();
    let less = subscription.made_on_purpose(&x, 12).expect("it is assigned");
    cursor.finish();
    subscription.committed(&x, at(12, 3), &less);
    assert_eq!(due(&subscription), Some(20), "more was done meanwhile");
    let more = subscription.made_on_purpose(&x, 25).expect("it is assigned");
    subscription.seek(&x, at(11, 3));
    subscription.committed(&x, at(25, 3), &more);
    assert_eq!(due(&subscription), Some(11), "the caller went back meanwhile");
    subscription.seek(&x, at(25, 3));
    let here = subscription.made(&x, 25).expect("it is assigned");
    assert!(!subscription.is_settled(&x, 25, &here));
    assert!(subscription.is_settled(&x, 15, &more), "it went elsewhere");
}

/// The last commit of a partition that is taken away waits behind the caller's.
#[test]
fn a_commit_settles_the_last_one_of_a_partition_that_goes() {
    for comes_back in [false, true] {
        let (mut subscription, x, _) = handed_out();
        let last = subscription.made(&x, 15).expect("it is assigned");
        let made = subscription.made_on_purpose(&x, 20).expect("it is assigned");
        subscription.remove([&x]);
        if comes_back {
            subscription.add([x.clone()], Status::Committed);
        }
        assert!(!subscription.is_settled(&x, 15, &last));
        subscription.committed(&x, at(20, 3), &made);
        assert!(subscription.is_settled(&x, 15, &last));
        assert!(subscription.get(&x).is_none_or(|state| state.last_committed().is_none()));
    }
}
