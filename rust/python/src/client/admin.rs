//! `_native.AdminClient`: every call starts an operation and returns it.

mod convert;

use super::arguments::Seconds;
use super::operation::Operation;
use super::shell::Shell;
use crate::error::client_error;
use convert::{Partition, done, list, object, pair, partition, results};
use kafkalite_client::admin::{
    Admin, CommittedOffset, ConfigChange, ConfigOperation, ConfigResource, NewTopic, UpgradeType,
};
use kafkalite_client::config::IsolationLevel;
use kafkalite_client::{ClientConfig, ClientError, ClientKind, LeaderEpoch};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// An admin client; results are tuples, see `convert`.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct AdminClient {
    shell: Shell<Admin>,
    warnings: Vec<String>,
}

/// A time limit; `None` is the client's own.
fn limit(timeout: Option<Seconds>) -> Option<Duration> {
    timeout.map(Seconds::duration)
}

/// Name, partitions, replication factor, assignments, configs.
type TopicArgument = (String, i32, i16, Vec<(i32, Vec<i32>)>, Vec<(String, Option<String>)>);
/// Kind and name.
type ResourceArgument = (i8, String);
/// Key, operation, value.
type ChangeArgument = (String, u8, Option<String>);
/// Offset, leader epoch, metadata.
type CommitArgument = (i64, Option<i32>, String);

fn new_topic(argument: TopicArgument) -> NewTopic {
    let (name, partitions, replication_factor, assignments, configs) = argument;
    NewTopic { name, partitions, replication_factor, assignments, configs }
}

fn resource((kind, name): ResourceArgument) -> ConfigResource {
    ConfigResource { kind, name }
}

fn change((name, operation, value): ChangeArgument) -> ConfigChange {
    let operation = match operation {
        0 => ConfigOperation::Set,
        1 => ConfigOperation::Delete,
        2 => ConfigOperation::Append,
        _ => ConfigOperation::Subtract,
    };
    ConfigChange { name, operation, value }
}

fn upgrade_type_of(number: u8) -> UpgradeType {
    match number {
        1 => UpgradeType::Upgrade,
        2 => UpgradeType::SafeDowngrade,
        _ => UpgradeType::UnsafeDowngrade,
    }
}

fn commit((offset, epoch, metadata): CommitArgument) -> CommittedOffset {
    CommittedOffset { offset, leader_epoch: LeaderEpoch(epoch.unwrap_or(-1)), metadata }
}

fn partitions(given: Vec<Partition>) -> Vec<kafkalite_client::TopicPartition> {
    given.into_iter().map(partition).collect()
}

impl AdminClient {
    /// Starts what `call` does with the client.
    fn begin<F, T>(
        &self,
        py: Python<'_>,
        what: &'static str,
        call: impl FnOnce(Admin) -> F,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        self.shell.begin(py, what, |admin| call(admin.clone()), convert)
    }
}

#[pymethods]
impl AdminClient {
    #[new]
    fn new(py: Python<'_>, pairs: BTreeMap<String, String>) -> PyResult<Self> {
        let config = ClientConfig::from_pairs(ClientKind::Admin, &pairs);
        let config = config.map_err(|error| client_error(py, &error))?;
        let warnings = config.warnings.clone();
        let shell = Shell::start(py, "the admin client", Admin::new(&config))?;
        Ok(Self { shell, warnings })
    }

    /// What the configuration has that changes nothing.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shell.is_closed()
    }

    /// Ends its thread and connections; whether that took no longer than `timeout` seconds.
    fn close(&self, py: Python<'_>, timeout: Seconds) -> bool {
        self.shell.close(py, timeout)
    }

    fn create_topics(
        &self,
        py: Python<'_>,
        topics: Vec<TopicArgument>,
        validate_only: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let topics = topics.into_iter().map(new_topic).collect();
        let call = |admin: Admin| async move {
            admin.create_topics(topics, validate_only, limit(timeout)).await
        };
        let convert = |py: Python<'_>, each| results(py, each, |name| name, convert::created);
        self.begin(py, "creating topics", call, convert)
    }

    fn delete_topics(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.delete_topics(names, limit(timeout)).await };
        self.begin(py, "deleting topics", call, |py, each| done(py, each, |name| name))
    }

    fn create_partitions(
        &self,
        py: Python<'_>,
        totals: Vec<(String, i32)>,
        validate_only: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call = |admin: Admin| async move {
            admin.create_partitions(totals, validate_only, limit(timeout)).await
        };
        self.begin(py, "creating partitions", call, |py, each| done(py, each, |name| name))
    }

    fn list_topics(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.list_topics(limit(timeout)).await };
        let convert = |py: Python<'_>, found| list(py, found, convert::topic);
        self.begin(py, "listing topics", call, convert)
    }

    fn describe_topics(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.describe_topics(names, limit(timeout)).await };
        let convert = |py: Python<'_>, each| results(py, each, |name| name, convert::topic);
        self.begin(py, "describing topics", call, convert)
    }

    fn describe_configs(
        &self,
        py: Python<'_>,
        resources: Vec<ResourceArgument>,
        keys: Option<Vec<String>>,
        synonyms: bool,
        documentation: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let resources: Vec<_> = resources.into_iter().map(resource).collect();
        let call = |admin: Admin| async move {
            admin.describe_configs(resources, keys, synonyms, documentation, limit(timeout)).await
        };
        let key = |resource: ConfigResource| (resource.kind, resource.name);
        let convert = move |py: Python<'_>, each| results(py, each, key, convert::entries);
        self.begin(py, "describing configurations", call, convert)
    }

    fn list_config_resources(
        &self,
        py: Python<'_>,
        kinds: Vec<i8>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call =
            |admin: Admin| async move { admin.list_config_resources(kinds, limit(timeout)).await };
        let convert = |py: Python<'_>, listed: Vec<ConfigResource>| {
            let listed: Vec<_> = listed.into_iter().map(|one| (one.kind, one.name)).collect();
            object(py, listed)
        };
        self.begin(py, "listing configurations", call, convert)
    }

    fn alter_configs(
        &self,
        py: Python<'_>,
        changes: Vec<(ResourceArgument, Vec<ChangeArgument>)>,
        validate_only: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let changes = changes.into_iter().map(|(of, changes)| {
            (resource(of), changes.into_iter().map(change).collect::<Vec<_>>())
        });
        let changes = changes.collect();
        let call = |admin: Admin| async move {
            admin.alter_configs(changes, validate_only, limit(timeout)).await
        };
        let key = |resource: ConfigResource| (resource.kind, resource.name);
        self.begin(py, "changing configurations", call, move |py, each| done(py, each, key))
    }

    fn list_offsets(
        &self,
        py: Python<'_>,
        times: Vec<(Partition, i64)>,
        read_committed: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let times = times.into_iter().map(|(of, time)| (partition(of), time)).collect();
        let isolation = match read_committed {
            true => IsolationLevel::ReadCommitted,
            false => IsolationLevel::ReadUncommitted,
        };
        let call = |admin: Admin| async move {
            admin.list_offsets(times, isolation, limit(timeout)).await
        };
        let convert = |py: Python<'_>, each| results(py, each, pair, convert::listed);
        self.begin(py, "looking up offsets", call, convert)
    }

    fn delete_records(
        &self,
        py: Python<'_>,
        before: Vec<(Partition, i64)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let before = before.into_iter().map(|(of, offset)| (partition(of), offset)).collect();
        let call = |admin: Admin| async move { admin.delete_records(before, limit(timeout)).await };
        let convert = |py: Python<'_>, each| results(py, each, pair, |offset: i64| offset);
        self.begin(py, "deleting records", call, convert)
    }

    fn describe_cluster(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.describe_cluster(limit(timeout)).await };
        let convert = |py: Python<'_>, told| object(py, convert::cluster(told));
        self.begin(py, "describing the cluster", call, convert)
    }

    fn describe_quorum(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.describe_quorum(limit(timeout)).await };
        let convert = |py: Python<'_>, told| object(py, convert::quorum(told));
        self.begin(py, "describing the quorum", call, convert)
    }

    fn describe_features(
        &self,
        py: Python<'_>,
        broker: Option<i32>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call =
            |admin: Admin| async move { admin.describe_features(broker, limit(timeout)).await };
        let convert = |py: Python<'_>, told| object(py, convert::features(told));
        self.begin(py, "describing features", call, convert)
    }

    fn update_features(
        &self,
        py: Python<'_>,
        levels: BTreeMap<String, i16>,
        upgrade_type: u8,
        validate_only: bool,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let way = upgrade_type_of(upgrade_type);
        let call = |admin: Admin| async move {
            admin.update_features(levels, way, validate_only, limit(timeout)).await
        };
        self.begin(py, "updating features", call, |py, ()| object(py, true))
    }

    fn describe_log_dirs(
        &self,
        py: Python<'_>,
        brokers: Option<Vec<i32>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call =
            |admin: Admin| async move { admin.describe_log_dirs(brokers, limit(timeout)).await };
        let convert = |py: Python<'_>, each| results(py, each, |id| id, convert::log_dirs);
        self.begin(py, "describing directories", call, convert)
    }

    fn alter_replica_log_dirs(
        &self,
        py: Python<'_>,
        targets: Vec<(Partition, i32, String)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let targets =
            targets.into_iter().map(|(of, node, path)| (convert::replica(of, node), path));
        let targets = targets.collect();
        let call = |admin: Admin| async move {
            admin.alter_replica_log_dirs(targets, limit(timeout)).await
        };
        let convert = |py: Python<'_>, each| done(py, each, convert::replica_tuple);
        self.begin(py, "moving replicas between directories", call, convert)
    }

    fn elect_leaders(
        &self,
        py: Python<'_>,
        unclean: bool,
        of: Option<Vec<Partition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let of = of.map(partitions);
        let call =
            |admin: Admin| async move { admin.elect_leaders(unclean, of, limit(timeout)).await };
        self.begin(py, "electing leaders", call, |py, each| done(py, each, pair))
    }

    fn alter_reassignments(
        &self,
        py: Python<'_>,
        targets: Vec<(Partition, Option<Vec<i32>>)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let targets = targets.into_iter().map(|(of, to)| (partition(of), to)).collect();
        let call =
            |admin: Admin| async move { admin.alter_reassignments(targets, limit(timeout)).await };
        self.begin(py, "moving replicas", call, |py, each| done(py, each, pair))
    }

    fn list_reassignments(
        &self,
        py: Python<'_>,
        of: Option<Vec<Partition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let of = of.map(partitions);
        let call = |admin: Admin| async move { admin.list_reassignments(of, limit(timeout)).await };
        let convert = |py: Python<'_>, found| list(py, found, convert::reassignment);
        self.begin(py, "listing moving replicas", call, convert)
    }

    fn list_groups(
        &self,
        py: Python<'_>,
        states: Vec<String>,
        kinds: Vec<String>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call =
            |admin: Admin| async move { admin.list_groups(states, kinds, limit(timeout)).await };
        let convert = |py: Python<'_>, found| list(py, found, convert::listing);
        self.begin(py, "listing groups", call, convert)
    }

    fn describe_groups(
        &self,
        py: Python<'_>,
        groups: Vec<String>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call =
            |admin: Admin| async move { admin.describe_groups(groups, limit(timeout)).await };
        let convert = |py: Python<'_>, each| results(py, each, |id| id, convert::group);
        self.begin(py, "describing groups", call, convert)
    }

    fn delete_groups(
        &self,
        py: Python<'_>,
        groups: Vec<String>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.delete_groups(groups, limit(timeout)).await };
        self.begin(py, "deleting groups", call, |py, each| done(py, each, |id| id))
    }

    fn list_group_offsets(
        &self,
        py: Python<'_>,
        group: String,
        of: Option<Vec<Partition>>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let of = of.map(partitions);
        let call = |admin: Admin| async move {
            admin.list_group_offsets(&group, of, limit(timeout)).await
        };
        let convert = |py: Python<'_>, each| results(py, each, pair, convert::committed);
        self.begin(py, "listing a group's offsets", call, convert)
    }

    fn alter_group_offsets(
        &self,
        py: Python<'_>,
        group: String,
        offsets: Vec<(Partition, CommitArgument)>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let offsets = offsets.into_iter().map(|(of, offset)| (partition(of), commit(offset)));
        let offsets = offsets.collect();
        let call = |admin: Admin| async move {
            admin.alter_group_offsets(&group, offsets, limit(timeout)).await
        };
        self.begin(py, "changing a group's offsets", call, |py, each| done(py, each, pair))
    }

    fn reset_group_offsets(
        &self,
        py: Python<'_>,
        group: String,
        of: Option<Vec<Partition>>,
        time: i64,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let of = of.map(partitions);
        let call = |admin: Admin| async move {
            admin.reset_group_offsets(&group, of, time, limit(timeout)).await
        };
        let convert = |py: Python<'_>, each| results(py, each, pair, convert::committed);
        self.begin(py, "resetting a group's offsets", call, convert)
    }

    fn delete_group_offsets(
        &self,
        py: Python<'_>,
        group: String,
        of: Vec<Partition>,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let of = partitions(of);
        let call = |admin: Admin| async move {
            admin.delete_group_offsets(&group, of, limit(timeout)).await
        };
        self.begin(py, "deleting a group's offsets", call, |py, each| done(py, each, pair))
    }

    fn group_lag(
        &self,
        py: Python<'_>,
        group: String,
        timeout: Option<Seconds>,
    ) -> PyResult<Operation> {
        let call = |admin: Admin| async move { admin.group_lag(&group, limit(timeout)).await };
        let convert = |py: Python<'_>, each| results(py, each, pair, convert::lag);
        self.begin(py, "comparing a group's offsets", call, convert)
    }
}
