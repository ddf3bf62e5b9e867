//! Automatic commits beside those of a caller.

use kafkalite_protocol::messages::offset_commit::OffsetCommitRequest;

use super::commits::{committed, coordinated};
use super::last_commit::nothing_committed;
use super::*;

/// A reader of `x` in a group, which got 0 and 1 in one call and 2 and 3 in the next. 4 to 7 come.
/// Beside it the offsets that its coordinator was asked to commit.
pub fn reader() -> (FakeBroker, Consumer, Arc<Mutex<Vec<i64>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (offsets, log) = (Arc::clone(&told), Log { start: 0, end: 8, epoch: 0 });
    let broker = coordinated(move |asked| {
        if asked.is(ApiKey::OffsetCommit) {
            let request: OffsetCommitRequest = asked.read();
            offsets.lock().push(request.topics[0].partitions[0].committed_offset);
            return committed(asked);
        } else if asked.is(ApiKey::OffsetFetch) {
            return nothing_committed(asked);
        }
        log.serves(asked)
    });
    let settings = [EARLIEST_RESET, ("group.id", "g"), ("auto.commit.interval.ms", "3600000")];
    let consumer = reading(&broker, &settings);
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
    assert_eq!(read(&consumer, 2), Ok(vec![2, 3]));
    (broker, consumer, told)
}

fn automatic(consumer: &Consumer) -> Result<(), ClientError> {
    consumer.runtime().call(calls::commit_done(Arc::clone(consumer.shared()), soon()), soon())
}

/// The next automatic commit put the group back to 2, and so did the end of a `with` block.
#[test]
fn what_a_caller_commits_is_not_taken_back() {
    let (_broker, consumer, told) = reader();
    let due = Due::handed_out(consumer.shared()).expect("it has a group");
    let commit = calls::commit(Arc::clone(consumer.shared()), due, soon());
    assert_eq!(consumer.runtime().call(commit, soon()), Ok(()));
    assert_eq!(automatic(&consumer), Ok(()));
    assert_eq!(consumer.close(Duration::from_secs(10), true), Ok(()));
    assert_eq!(*told.lock(), [4]);
}

/// Both were made when nothing was committed, and the automatic one waits for its turn.
#[test]
fn an_automatic_commit_that_waited_for_a_callers_is_not_made() {
    for goes in [false, true] {
        let (_broker, consumer, told) = reader();
        let shared = consumer.shared();
        let turn = shared.commits.try_lock().expect("no caller commits");
        let due = Due::handed_out(shared).expect("it has a group");
        let commit = calls::commit(Arc::clone(shared), due, soon());
        let commit = consumer.runtime().begin(commit).expect("it runs");
        let by_itself = Due::done(shared, None).expect("it has a group");
        assert_eq!(by_itself.offsets[&x()].position.offset, 2);
        if goes {
            // It commits what it takes away in the background.
            consumer.assign(&BTreeSet::new()).expect("nothing is subscribed to");
        }
        drop(turn);
        assert_eq!(commit.wait(Duration::from_secs(10)), Some(Ok(())));
        let again = Arc::clone(shared);
        let late = async move { calls::commit_by_itself(&again, &by_itself, soon()).await };
        assert_eq!(consumer.runtime().call(late, soon()), Ok(()));
        assert_eq!(consumer.close(Duration::from_secs(10), true), Ok(()));
        assert_eq!(*told.lock(), [4], "{goes}");
    }
}
