//! A broker that is registered and never there: the test fetches in its place, when it likes.

use crate::ACKS_ALL;
use crate::client::{Client, batch, produce_request};
use crate::cluster::Cluster;
use kafkalite_broker::metadata::controller::Leaving;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ReplicaState};
use kafkalite_protocol::messages::produce::ProduceRequest;
use kafkalite_protocol::{ErrorCode, Offset};

/// The newest version of fetches between brokers.
const VERSION: i16 = 17;

/// A follower in one of its lives, at the leader.
struct Follower {
    client: Client,
    id: i32,
    epoch: i64,
    session: (i32, i32),
}

impl Follower {
    fn new(cluster: &Cluster, id: i32, epoch: i64) -> Self {
        let client = Client::connect(cluster.broker(cluster.leader()));
        Self { client, id, epoch, session: (0, 0) }
    }

    /// Fetches, from the end of the leader's log if that is to be named; the error.
    fn fetch(&mut self, cluster: &Cluster, names: bool) -> ErrorCode {
        let partition = cluster.partition(cluster.leader());
        let log = partition.log();
        let asked = FetchPartition {
            partition: 0,
            current_leader_epoch: partition.leader_epoch().0,
            fetch_offset: log.log_end_offset().0,
            last_fetched_epoch: log.latest_epoch().map_or(-1, |epoch| epoch.0),
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        };
        let topic_id = partition.topic_id();
        let topic = FetchTopic { topic_id, partitions: vec![asked], ..FetchTopic::default() };
        let request = FetchRequest {
            replica_state: ReplicaState { replica_id: self.id, replica_epoch: self.epoch },
            max_bytes: 1 << 20,
            session_id: self.session.0,
            session_epoch: self.session.1,
            topics: names.then_some(topic).into_iter().collect(),
            ..FetchRequest::default()
        };
        let answer = self.client.call(&request, VERSION);
        if answer.error_code == 0 {
            self.session = (answer.session_id, self.session.1 + 1);
        }
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let failed = partitions.map(|one| one.error_code).find(|code| *code != 0);
        ErrorCode::from_code(failed.unwrap_or(answer.error_code))
    }
}

/// Three brokers, of which the returned one has gone.
fn without_one() -> (Cluster, i32) {
    let mut cluster = Cluster::start(3, 2);
    cluster.until_in_sync(&[1, 2, 3]);
    let leader = cluster.leader();
    let gone = (1..=3).rfind(|id| *id != leader).unwrap();
    cluster.kill(gone);
    cluster.leaves(gone, Leaving::Away);
    (cluster, gone)
}

/// Its fetch could not be noted, and its session would not look at a quiet partition again.
#[test]
fn a_follower_in_a_life_that_its_leader_does_not_know_starts_over() {
    let (cluster, id) = without_one();
    let known = cluster.partition(cluster.leader()).log_end_offset();
    let mut follower = Follower::new(&cluster, id, i64::MAX);
    assert_eq!(follower.fetch(&cluster, true), ErrorCode::StaleBrokerEpoch);
    let epoch = cluster.register(id, false);
    let mut follower = Follower::new(&cluster, id, epoch);
    assert_eq!(follower.fetch(&cluster, true), ErrorCode::None);
    cluster.until_in_sync(&[1, 2, 3]);
    assert_eq!(cluster.partition(cluster.leader()).log_end_offset(), known, "no record came");
}

/// It was waited for as one that joins, and the controller took it in no earlier than it served.
#[test]
fn a_fenced_follower_that_fetches_holds_no_produce_back_and_joins_when_it_serves() {
    let (cluster, id) = without_one();
    let epoch = cluster.register(id, true);
    let mut follower = Follower::new(&cluster, id, epoch);
    assert_eq!(follower.fetch(&cluster, true), ErrorCode::None);
    let mut client = Client::connect(cluster.broker(cluster.leader()));
    let sent = client.send(&produce_request("t", batch(&["0"], None), ACKS_ALL), 9);
    let (received, answer) = client.receive::<ProduceRequest>(9).unwrap();
    assert_eq!(received, sent);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(cluster.partition(cluster.leader()).high_watermark(), Offset(1));
    // It has the record, and names the partition no more.
    assert_eq!(follower.fetch(&cluster, true), ErrorCode::None);
    assert_eq!(follower.fetch(&cluster, false), ErrorCode::None);
    cluster.unfence(id, epoch);
    cluster.until_in_sync(&[1, 2, 3]);
}
