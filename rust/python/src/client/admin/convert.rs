//! Results of the admin client as tuples, in the order of the fields of Python's classes.

use crate::error::client_exception;
use kafkalite_client::PartitionImage;
use kafkalite_client::admin::{
    ClusterDescription, CommittedOffset, ConfigEntry, CreatedTopic, Each, FeatureMetadata,
    GroupDescription, GroupListing, ListedOffset, LogDirDescription, MemberDescription,
    PartitionLag, QuorumDescription, QuorumReplica, Reassignment, Replica, TopicDescription,
};
use kafkalite_client::{ClientError, TopicPartition};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// A topic's name and a partition's number.
pub type Partition = (String, i32);

/// Python's pair as ours.
pub fn partition((topic, number): Partition) -> TopicPartition {
    TopicPartition::new(topic, number)
}

/// Ours as Python's pair.
pub fn pair(partition: TopicPartition) -> Partition {
    (partition.topic.to_string(), partition.partition)
}

/// Any value as Python's.
pub fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
}

/// A list of what `convert` makes of each.
pub fn list<'py, T, P: IntoPyObject<'py>>(
    py: Python<'py>,
    of: Vec<T>,
    convert: impl Fn(T) -> P,
) -> PyResult<Py<PyAny>> {
    object(py, of.into_iter().map(convert).collect::<Vec<P>>())
}

/// A list of `(key, value or None, exception or None)`.
pub fn results<'py, K, T, PK, PT>(
    py: Python<'py>,
    each: Each<K, T>,
    key: impl Fn(K) -> PK,
    value: impl Fn(T) -> PT,
) -> PyResult<Py<PyAny>>
where
    PK: IntoPyObject<'py>,
    PT: IntoPyObject<'py>,
{
    let list = PyList::empty(py);
    for (of, result) in each {
        let (told, error) = match result {
            Ok(told) => (Some(object(py, value(told))?), None),
            Err(error) => (None, Some(client_exception(py, &error)?)),
        };
        list.append((key(of), told, error))?;
    }
    Ok(list.into_any().unbind())
}

/// The same where success says no more.
pub fn done<'py, K, PK: IntoPyObject<'py>>(
    py: Python<'py>,
    each: Each<K, ()>,
    key: impl Fn(K) -> PK,
) -> PyResult<Py<PyAny>> {
    results(py, each, key, |()| true)
}

type CreatedTuple = (Option<String>, Option<i32>, Option<i16>);

pub fn created(topic: CreatedTopic) -> CreatedTuple {
    (topic.id.map(|id| id.to_string()), topic.partitions, topic.replication_factor)
}

type PartitionTuple = (i32, Option<i32>, Option<i32>, Vec<i32>, Vec<i32>, Vec<i32>);
type TopicTuple = (String, Option<String>, bool, Vec<PartitionTuple>);

pub fn topic(topic: TopicDescription) -> TopicTuple {
    let id = Some(topic.id).filter(|id| !id.is_zero()).map(|id| id.to_string());
    let partitions = topic.partitions.into_iter().map(described_partition);
    (topic.name, id, topic.internal, partitions.collect())
}

fn described_partition(told: PartitionImage) -> PartitionTuple {
    let epoch = Some(told.leader_epoch.0).filter(|epoch| *epoch >= 0);
    (told.index, told.leader, epoch, told.replicas, told.isr, told.offline)
}

type BrokerTuple = (i32, String, u16, Option<String>, bool);

pub fn cluster(told: ClusterDescription) -> (Option<String>, Option<i32>, Vec<BrokerTuple>) {
    let brokers = told.brokers.into_iter();
    let brokers = brokers.map(|b| (b.id, b.place.host, b.place.port, b.rack, b.fenced));
    (told.cluster_id, told.controller, brokers.collect())
}

type QuorumReplicaTuple = (i32, Option<i64>, Option<i64>, Option<i64>);
type QuorumTuple = (i32, i32, i64, Vec<QuorumReplicaTuple>, Vec<QuorumReplicaTuple>);

pub fn quorum(told: QuorumDescription) -> QuorumTuple {
    let replica =
        |one: QuorumReplica| (one.id, one.log_end_offset, one.last_fetch_ms, one.last_caught_up_ms);
    let all = |replicas: Vec<QuorumReplica>| replicas.into_iter().map(replica).collect();
    let (voters, observers) = (all(told.voters), all(told.observers));
    (told.leader, told.leader_epoch, told.high_watermark, voters, observers)
}

type FeatureTuple = (String, i16, i16, i16);

pub fn features(told: FeatureMetadata) -> (Option<i64>, Vec<FeatureTuple>) {
    let features = told.features.into_iter();
    let features = features
        .map(|(name, of)| (name, of.finalized, of.min_supported, of.max_supported))
        .collect();
    (told.epoch, features)
}

type SynonymTuple = (String, Option<String>, i8);
type EntryTuple = (String, Option<String>, i8, bool, bool, i8, Option<String>, Vec<SynonymTuple>);

pub fn entries(entries: Vec<ConfigEntry>) -> Vec<EntryTuple> {
    let tuple = |entry: ConfigEntry| {
        let synonyms = entry.synonyms.into_iter().map(|s| (s.name, s.value, s.source));
        (
            entry.name,
            entry.value,
            entry.source,
            entry.read_only,
            entry.sensitive,
            entry.kind,
            entry.documentation,
            synonyms.collect(),
        )
    };
    entries.into_iter().map(tuple).collect()
}

fn epoch(told: kafkalite_client::LeaderEpoch) -> Option<i32> {
    Some(told.0).filter(|epoch| *epoch >= 0)
}

pub fn listed(told: ListedOffset) -> (i64, i64, Option<i32>) {
    (told.offset, told.timestamp_ms, epoch(told.leader_epoch))
}

pub fn committed(told: CommittedOffset) -> (i64, Option<i32>, String) {
    (told.offset, epoch(told.leader_epoch), told.metadata)
}

pub fn lag(told: PartitionLag) -> (i64, i64, i64) {
    (told.committed, told.start, told.end)
}

pub fn listing(told: GroupListing) -> (String, String, String, String, i32) {
    (told.group_id, told.protocol_type, told.state, told.kind, told.coordinator)
}

type MemberTuple = (String, Option<String>, String, String, Vec<String>, Vec<Partition>);
type GroupTuple = (String, String, String, String, i32, Vec<MemberTuple>);

pub fn group(told: GroupDescription) -> GroupTuple {
    let members = told.members.into_iter().map(member).collect();
    let (state, protocol_type, protocol) = (told.state, told.protocol_type, told.protocol);
    (told.group_id, state, protocol_type, protocol, told.coordinator, members)
}

fn member(told: MemberDescription) -> MemberTuple {
    let assignment = told.assignment.into_iter().map(pair).collect();
    (told.member_id, told.instance_id, told.client_id, told.host, told.topics, assignment)
}

type ReplicaTuple = (Partition, i64, i64, bool);
type DirTuple = (String, Option<String>, Option<i64>, Option<i64>, Vec<ReplicaTuple>);

pub fn log_dirs(dirs: Vec<LogDirDescription>) -> Vec<DirTuple> {
    let tuple = |dir: LogDirDescription| {
        let error = dir.error.as_ref().map(ClientError::to_string);
        let replicas = dir.replicas.into_iter();
        let replicas = replicas.map(|r| (pair(r.partition), r.size, r.lag, r.future));
        (dir.path, error, dir.total_bytes, dir.usable_bytes, replicas.collect())
    };
    dirs.into_iter().map(tuple).collect()
}

/// Python's replica as ours: its partition and its broker.
pub fn replica(of: Partition, node: i32) -> Replica {
    Replica { partition: partition(of), node }
}

/// Ours as Python's triple.
pub fn replica_tuple(replica: Replica) -> (String, i32, i32) {
    let (topic, partition) = pair(replica.partition);
    (topic, partition, replica.node)
}

type ReassignmentTuple = (Partition, Vec<i32>, Vec<i32>, Vec<i32>);

pub fn reassignment(told: Reassignment) -> ReassignmentTuple {
    (pair(told.partition), told.replicas, told.adding, told.removing)
}
