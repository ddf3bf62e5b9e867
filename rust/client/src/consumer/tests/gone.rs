//! Commits of partitions some of which are gone, or are taken away.

use kafkalite_connection::Wanted;
use kafkalite_connection::testing::{Held, hold, metadata, release, topic, wait_held};
use kafkalite_protocol::messages::metadata::MetadataRequest;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};

use super::commits::{commit_three, coordinated, fetched};
use super::*;

/// Partition and offset of every commit, in their order.
type Commits = Arc<Mutex<Vec<(String, i64)>>>;

fn y() -> TopicPartition {
    TopicPartition::new("y", 0)
}

/// Notes what a commit says, and takes all of it but that of `gone`.
fn take(asked: &Asked, commits: &Commits, gone: &str) -> Answer {
    let request: OffsetCommitRequest = asked.read();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|one| {
            let name = format!("{}-{}", topic.name, one.partition_index);
            commits.lock().push((name, one.committed_offset));
            let unknown = ErrorCode::UnknownTopicOrPartition as i16;
            OffsetCommitResponsePartition {
                partition_index: one.partition_index,
                error_code: if topic.name == gone { unknown } else { 0 },
            }
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic { name: topic.name.clone(), partitions, ..Default::default() }
    });
    let told = OffsetCommitResponse { topics: topics.collect(), ..Default::default() };
    asked.answer::<OffsetCommitRequest>(&told)
}

/// Answers with the newest commit of each partition.
fn newest(asked: &Asked, commits: &Commits) -> Answer {
    let request: OffsetFetchRequest = asked.read();
    let topics = request.groups.into_iter().flat_map(|group| group.topics.unwrap_or_default());
    let topic = |asked: kafkalite_protocol::messages::offset_fetch::OffsetFetchRequestTopics| {
        let partitions = asked.partition_indexes.iter().map(|index| {
            let name = format!("{}-{index}", asked.name);
            let commits = commits.lock();
            let newest = commits.iter().rev().find(|(of, _)| *of == name);
            OffsetFetchResponsePartitions {
                partition_index: *index,
                committed_offset: newest.map_or(-1, |(_, offset)| *offset),
                ..Default::default()
            }
        });
        let partitions = partitions.collect();
        OffsetFetchResponseTopics { name: asked.name.clone(), partitions, ..Default::default() }
    };
    fetched(asked, topics.map(topic).collect())
}

/// Topics of six records and one partition, of which `gone` is deleted as soon as the first commit
/// came.
fn losing(gone: &'static str, commits: &Commits) -> FakeBroker {
    let commits = Arc::clone(commits);
    let log = Log { start: 0, end: 6, epoch: 0 };
    coordinated(move |asked| {
        if asked.is(ApiKey::OffsetCommit) {
            return take(asked, &commits, gone);
        } else if asked.is(ApiKey::OffsetFetch) {
            return newest(asked, &commits);
        } else if asked.is(ApiKey::Metadata) {
            let request: MetadataRequest = asked.read();
            let mut told = metadata(&asked.place, std::iter::empty());
            let is_over = !commits.lock().is_empty();
            for name in request.topics.into_iter().flatten().filter_map(|topic| topic.name) {
                let mut known = topic(&name, 1, 0);
                if is_over && name == gone {
                    known.error_code = ErrorCode::UnknownTopicOrPartition as i16;
                    known.partitions.clear();
                }
                told.topics.push(known);
            }
            return asked.answer::<MetadataRequest>(&told);
        }
        log.serves(asked)
    })
}

fn committed(consumer: &Consumer, partition: &TopicPartition) -> Option<i64> {
    let subscription = consumer.shared().subscription.lock();
    Some(subscription.get(partition)?.last_committed()?.offset)
}

/// The commit of the other partition was not noted, so its records were read again.
#[test]
fn a_partition_that_is_gone_fails_its_own_commit_only() {
    let commits = Commits::default();
    let broker = losing("y", &commits);
    let consumer = consumer(&broker, &[EARLIEST_RESET, ("group.id", "g")]);
    consumer.assign(&BTreeSet::from([x(), y()])).expect("nothing is subscribed to");
    let commit = commit_three(Arc::clone(consumer.shared()), vec![x(), y()], soon());
    let failed = consumer.runtime().call(commit, soon()).expect_err("one is gone");
    assert!(failed.to_string().contains("y-0"), "{failed}");
    assert_eq!(failed.code(), Some(ErrorCode::UnknownTopicOrPartition));
    let once = [("x-0".to_owned(), 3), ("y-0".to_owned(), 3)];
    assert_eq!(*commits.lock(), once, "what is there is not committed again, nor what is not");
    assert_eq!((committed(&consumer, &x()), committed(&consumer, &y())), (Some(3), None));
}

/// A number that no partition has was refused before anything was committed, and `close` gave up.
#[test]
fn what_can_be_committed_at_the_end_is_though_another_partition_is_gone() {
    let commits = Commits::default();
    let broker = losing("y", &commits);
    let consumer = consumer(&broker, &[EARLIEST_RESET, ("group.id", "g")]);
    let none = TopicPartition::new("x", 5);
    consumer.assign(&BTreeSet::from([x(), y(), none.clone()])).expect("nothing is subscribed to");
    for one in [&x(), &y(), &none] {
        consumer.seek(one, Position::at(2)).expect("it is assigned");
    }
    // It is known by then which partitions there are.
    let cluster = consumer.shared().cluster.clone();
    let known = async move {
        let image = cluster.refresh(Wanted::Topics(vec!["x".to_owned()])).await?;
        Ok(crate::consumer::missing::lacks(&image, &none))
    };
    assert!(matches!(consumer.runtime().call(known, soon()), Ok(Some(_))));
    assert_eq!(
        consumer.close(Duration::from_secs(10), false),
        Ok(()),
        "nothing is left to be kept"
    );
    assert!(commits.lock().contains(&("x-0".to_owned(), 2)), "{:?}", commits.lock());
}

/// `assign` dropped what was done and not committed yet of what it took away: it was read again.
#[test]
fn what_assign_takes_away_is_committed_and_read_on_from_there_when_it_comes_back() {
    let (commits, held) = (Commits::default(), Arc::new(Held::default()));
    let (noted, log) = (Arc::clone(&commits), Log { start: 0, end: 6, epoch: 0 });
    let late = Arc::clone(&held);
    let broker = coordinated(move |asked| {
        if asked.is(ApiKey::OffsetCommit) {
            // Its answer comes when the partition is assigned again, and not before.
            return hold(&late, take(asked, &noted, ""));
        } else if asked.is(ApiKey::OffsetFetch) {
            return newest(asked, &noted);
        }
        log.serves(asked)
    });
    let settings = [EARLIEST_RESET, ("group.id", "g"), ("auto.commit.interval.ms", "600000")];
    let consumer = reading(&broker, &settings);
    assert_eq!(read(&consumer, 4), Ok(vec![0, 1, 2, 3]));
    consumer.assign(&BTreeSet::new()).expect("nothing is subscribed to");
    consumer.assign(&BTreeSet::from([x()])).expect("nothing is subscribed to");
    wait_held(&held);
    release(&held);
    assert_eq!(read(&consumer, 2), Ok(vec![4, 5]));
    assert_eq!(*commits.lock(), [("x-0".to_owned(), 4)]);
}

/// The answer came when others had had the partition meanwhile, and committed more.
#[test]
fn a_committed_offset_that_was_asked_for_in_another_life_is_asked_for_again() {
    let (held, log) = (Arc::new(Held::default()), Log { start: 0, end: 6, epoch: 0 });
    let late = Arc::clone(&held);
    let broker = coordinated(move |asked| {
        if asked.is(ApiKey::OffsetFetch) {
            let committed_offset = if asked.before == 0 { 1 } else { 5 };
            let told = OffsetFetchResponsePartitions { committed_offset, ..Default::default() };
            let (name, partitions) = ("x".to_owned(), vec![told]);
            let topic = OffsetFetchResponseTopics { name, partitions, ..Default::default() };
            let answer = fetched(asked, vec![topic]);
            return if asked.before == 0 { hold(&late, answer) } else { answer };
        } else if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        }
        Answer::Usual
    });
    let consumer = reading(&broker, &[EARLIEST_RESET, ("group.id", "g")]);
    wait_held(&held);
    consumer.assign(&BTreeSet::new()).expect("nothing is subscribed to");
    consumer.assign(&BTreeSet::from([x()])).expect("nothing is subscribed to");
    release(&held);
    assert_eq!(read(&consumer, 1), Ok(vec![5]));
}
