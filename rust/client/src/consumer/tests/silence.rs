//! Coordinators that do not answer: frozen or cut off ones, and slow ones.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use kafkalite_connection::testing::{
    Held, NODE, OTHER, coordinator_at, coordinator_is, hold, release, two_until, wait_held,
};
use kafkalite_connection::{HostPort, Wanted};
use kafkalite_protocol::messages::offset_commit::OffsetCommitRequest;

use super::commits::{at_three, committed};
use super::*;
use crate::consumer::cursor::NO_TENURE;

const DOUBT_AFTER: Duration = Duration::from_millis(20);
const PATIENT: [(&str, &str); 3] =
    [("group.id", "g"), ("retry.backoff.ms", "1"), ("reconnect.backoff.ms", "1")];

/// The offsets that commits asked a broker for.
type Offsets = Arc<Mutex<Vec<i64>>>;

fn note(asked: &Asked, offsets: &Offsets) {
    let request: OffsetCommitRequest = asked.read();
    let partitions = request.topics.into_iter().flat_map(|topic| topic.partitions);
    offsets.lock().extend(partitions.map(|one| one.committed_offset));
}

/// Two brokers: the first coordinates all groups and does `script` about commits, until `is_gone`.
fn two(
    is_gone: Arc<AtomicBool>,
    offsets: &Offsets,
    script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) -> [FakeBroker; 2] {
    let place = Arc::new(OnceLock::<HostPort>::new());
    let (of_first, offsets, is_replaced) =
        (Arc::clone(&place), Arc::clone(offsets), Arc::clone(&is_gone));
    let is_frozen = Arc::clone(&is_gone);
    let first = move |asked: &Asked| match asked.is(ApiKey::FindCoordinator) {
        true if is_frozen.load(Ordering::Relaxed) => Answer::Silence,
        true => coordinator_is(asked, NODE),
        false if asked.is(ApiKey::OffsetCommit) => script(asked),
        false => Answer::Usual,
    };
    let second = move |asked: &Asked| {
        if asked.is(ApiKey::OffsetCommit) {
            note(asked, &offsets);
            return committed(asked);
        } else if !asked.is(ApiKey::FindCoordinator) {
            return Answer::Usual;
        }
        match is_replaced.load(Ordering::Relaxed) {
            true => coordinator_is(asked, OTHER),
            false => coordinator_at(asked, NODE, of_first.get().expect("it is known")),
        }
    };
    let both = two_until(is_gone, first, second);
    place.set(both[0].place.clone()).expect("set once");
    both
}

/// The consumer knows both brokers, and doubts them soon.
fn impatient(consumer: &Consumer) {
    let cluster = consumer.shared().cluster.clone();
    let known = async move {
        cluster.refresh(Wanted::Brokers).await?;
        cluster.doubt_after(DOUBT_AFTER);
        Ok(())
    };
    consumer.runtime().call(known, soon()).expect("they answer");
}

fn commit(
    consumer: &Consumer,
    offset: i64,
) -> impl Future<Output = Result<(), ClientError>> + use<> {
    let mut claim = at_three(TopicPartition::new("x", 0), NO_TENURE);
    claim.committed.position = Position::at(offset);
    let shared = Arc::clone(consumer.shared());
    let due = Due::given(&shared, vec![claim]).expect("it may be committed");
    calls::commit(shared, due, Instant::now() + Duration::from_secs(20))
}

/// It waited for `request.timeout.ms`, 30 s.
#[test]
fn commits_go_to_the_next_coordinator_in_their_order() {
    let (is_gone, offsets) = (Arc::new(AtomicBool::new(false)), Offsets::default());
    let (dies, lost) = (Arc::clone(&is_gone), Offsets::default());
    let of_first = Arc::clone(&lost);
    let [first, second] = two(is_gone, &offsets, move |asked| {
        note(asked, &of_first);
        dies.store(true, Ordering::Relaxed);
        Answer::Silence
    });
    let consumer = consumer(&first, &PATIENT);
    impatient(&consumer);
    let runtime = consumer.runtime();
    let begun = [3, 5].map(|offset| runtime.begin(commit(&consumer, offset)).expect("it runs"));
    for call in begun {
        assert_eq!(call.wait(Duration::from_secs(20)), Some(Ok(())));
    }
    assert_eq!(*offsets.lock(), [3, 5]);
    // It may name itself again, and be asked again.
    assert!(lost.lock().iter().all(|offset| *offset == 3), "{lost:?}");
    assert_eq!(second.count(ApiKey::OffsetCommit), 2);
}

/// A commit that is sent again could take back a later one.
#[test]
fn a_slow_coordinator_gets_each_commit_once() {
    let (held, offsets) = (Arc::new(Held::default()), Offsets::default());
    let (of_first, told) = (Arc::clone(&held), Arc::clone(&offsets));
    let [first, second] = two(Arc::default(), &offsets, move |asked| {
        note(asked, &told);
        match asked.before {
            0 => hold(&of_first, committed(asked)),
            _ => committed(asked),
        }
    });
    let consumer = consumer(&first, &PATIENT);
    impatient(&consumer);
    let runtime = consumer.runtime();
    let begun = [3, 5].map(|offset| runtime.begin(commit(&consumer, offset)).expect("it runs"));
    wait_held(&held);
    let before = second.count(ApiKey::Metadata);
    second.wait_for(ApiKey::Metadata, before + 3);
    release(&held);
    for call in begun {
        assert_eq!(call.wait(Duration::from_secs(20)), Some(Ok(())));
    }
    assert_eq!(*offsets.lock(), [3, 5]);
    assert_eq!((first.count(ApiKey::OffsetCommit), second.count(ApiKey::OffsetCommit)), (2, 0));
}
