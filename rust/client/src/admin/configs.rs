//! Configurations of topics, brokers and groups.

use super::{Admin, Each, failed, side_by_side};
use crate::error::ClientError;
use kafkalite_connection::NodeId;
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};
use kafkalite_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use kafkalite_protocol::messages::list_config_resources::{self as m, ListConfigResourcesRequest};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something that has a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigResource {
    /// Kafka's number of its kind: 2 topic, 4 broker, 8 a broker's loggers, 16 client metrics, 32
    /// group.
    pub kind: i8,
    /// Its name; a broker's is its id, empty for all of them.
    pub name: String,
}

const TOPIC: i8 = 2;
/// What only the broker itself can tell.
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;

/// Version 0 of ListConfigResources lists client metrics only.
const KINDS_FROM: i16 = 1;

impl ConfigResource {
    /// A topic's.
    pub(super) fn topic(name: &str) -> Self {
        Self { kind: TOPIC, name: name.to_owned() }
    }

    /// The broker that has to be asked, where it matters which.
    fn node(&self) -> Option<NodeId> {
        let own = matches!(self.kind, BROKER | BROKER_LOGGER);
        self.name.parse().ok().filter(|_| own)
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TOPIC => "topic",
            BROKER => "broker",
            BROKER_LOGGER => "logger of broker",
            CLIENT_METRICS => "client metrics",
            32 => "group",
            _ => "resource",
        };
        write!(f, "{kind} {}", self.name)
    }
}

/// One value that a key would have without those above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key, which may have another name there.
    pub name: String,
    /// The value; `None` for secrets.
    pub value: Option<String>,
    /// Kafka's number of where it stands.
    pub source: i8,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key.
    pub name: String,
    /// The value; `None` for secrets and where there is none.
    pub value: Option<String>,
    /// Kafka's number of where it stands: 1 topic, 2 to 4 broker, 5 default, -1 unknown.
    pub source: i8,
    /// Whether it cannot be changed while the broker runs.
    pub read_only: bool,
    /// Whether its value is a secret.
    pub sensitive: bool,
    /// Kafka's number of its type; 0 unknown.
    pub kind: i8,
    /// What it means, if that was asked for.
    pub documentation: Option<String>,
    /// What it would be otherwise, strongest first, if that was asked for.
    pub synonyms: Vec<ConfigSynonym>,
}

/// What to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// Give it a value.
    Set = 0,
    /// Give it back its default.
    Delete = 1,
    /// Add to a list.
    Append = 2,
    /// Take from a list.
    Subtract = 3,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The key.
    pub name: String,
    /// What to do with it.
    pub operation: ConfigOperation,
    /// The value; `None` for a deletion.
    pub value: Option<String>,
}

impl Admin {
    /// The configurations of resources; of each the keys in `keys` alone, if there are any.
    pub async fn describe_configs(
        &self,
        resources: Vec<ConfigResource>,
        keys: Option<Vec<String>>,
        synonyms: bool,
        documentation: bool,
        limit: Option<Duration>,
    ) -> Result<Each<ConfigResource, Vec<ConfigEntry>>, ClientError> {
        let deadline = self.deadline(limit);
        self.each("describing configurations", deadline, resources, |resources| {
            let keys = keys.clone();
            self.at_brokers(resources, move |admin, node, resources| {
                let described = resources.iter().map(|resource| DescribeConfigsResource {
                    resource_type: resource.kind,
                    resource_name: resource.name.clone(),
                    configuration_keys: keys.clone(),
                });
                let request = DescribeConfigsRequest {
                    resources: described.collect(),
                    include_synonyms: synonyms,
                    include_documentation: documentation,
                };
                async move {
                    let answer = match node {
                        Some(node) => admin.cluster.send(node, |_| request).await,
                        None => admin.cluster.send_to_some(move |_| request.clone()).await,
                    };
                    let results = answer?.1.results.into_iter().map(|told| {
                        let resource =
                            ConfigResource { kind: told.resource_type, name: told.resource_name };
                        let message = told.error_message.as_deref();
                        let about = || resource.to_string();
                        let checked = ClientError::check(told.error_code, message, about);
                        let entries = told.configs.into_iter().map(entry).collect();
                        (resource.clone(), checked.map(|()| entries))
                    });
                    Ok(results.collect())
                }
            })
        })
        .await
    }

    /// What has a configuration, of these kinds; of every kind if none is named. A name without a
    /// key of its own is not there, except of topics and brokers.
    pub async fn list_config_resources(
        &self,
        kinds: Vec<i8>,
        limit: Option<Duration>,
    ) -> Result<Vec<ConfigResource>, ClientError> {
        let kinds = &kinds;
        self.retry("listing configurations", self.deadline(limit), || async move {
            if kinds[..] != [CLIENT_METRICS] {
                self.check_serves::<ListConfigResourcesRequest>(KINDS_FROM).await?;
            }
            let request = ListConfigResourcesRequest { resource_types: kinds.clone() };
            let answer = self.cluster.send_to_some(move |_| request.clone()).await?.1;
            let about = || "listing configurations".to_owned();
            ClientError::check(answer.error_code, None, about)?;
            let listed = answer.config_resources.into_iter();
            let resource = |told: m::ConfigResource| ConfigResource {
                kind: told.resource_type,
                name: told.resource_name,
            };
            Ok(listed.map(resource).collect())
        })
        .await
    }

    /// Changes configurations: the keys that are named, and no others.
    pub async fn alter_configs(
        &self,
        changes: Vec<(ConfigResource, Vec<ConfigChange>)>,
        validate_only: bool,
        limit: Option<Duration>,
    ) -> Result<Each<ConfigResource, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let resources = changes.iter().map(|(resource, _)| resource.clone()).collect();
        let mut of_each: HashMap<ConfigResource, Vec<ConfigChange>> = HashMap::new();
        for (resource, changes) in changes {
            of_each.entry(resource).or_default().extend(changes);
        }
        let changes = Arc::new(of_each);
        self.each("changing configurations", deadline, resources, |resources| {
            let changes = Arc::clone(&changes);
            self.at_brokers(resources, move |admin, node, resources| {
                let altered =
                    resources.iter().map(|resource| altered(resource, &changes[resource]));
                let request =
                    IncrementalAlterConfigsRequest { resources: altered.collect(), validate_only };
                async move {
                    let response = match node {
                        Some(node) => admin.cluster.send(node, |_| request).await?.1,
                        None => admin.to_controller(|_| request).await?,
                    };
                    let results = response.responses.into_iter().map(|told| {
                        let resource =
                            ConfigResource { kind: told.resource_type, name: told.resource_name };
                        let message = told.error_message.as_deref();
                        let about = || resource.to_string();
                        let checked = ClientError::check(told.error_code, message, about);
                        (resource.clone(), checked)
                    });
                    Ok(results.collect())
                }
            })
        })
        .await
    }

    /// Runs `ask` for the resources that one broker has to be asked for, and once for all others.
    async fn at_brokers<F, T>(
        &self,
        resources: Vec<ConfigResource>,
        ask: impl Fn(Self, Option<NodeId>, Vec<ConfigResource>) -> F,
    ) -> Result<Each<ConfigResource, T>, ClientError>
    where
        F: Future<Output = Result<Each<ConfigResource, T>, ClientError>> + Send + 'static,
        T: Send + 'static,
    {
        let mut brokers: BTreeMap<Option<NodeId>, Vec<ConfigResource>> = BTreeMap::new();
        for resource in resources {
            brokers.entry(resource.node()).or_default().push(resource);
        }
        let asked = brokers.into_iter().map(|(node, resources)| {
            let told = ask(self.clone(), node, resources.clone());
            async move { told.await.unwrap_or_else(|error| failed(&resources, &error)) }
        });
        Ok(side_by_side(asked).await.into_iter().flatten().collect())
    }
}

fn entry(told: DescribeConfigsResourceResult) -> ConfigEntry {
    let synonyms = told.synonyms.into_iter();
    let synonyms = synonyms.map(|told| ConfigSynonym {
        name: told.name,
        value: told.value,
        source: told.source,
    });
    ConfigEntry {
        name: told.name,
        value: told.value,
        source: told.config_source,
        read_only: told.read_only,
        sensitive: told.is_sensitive,
        kind: told.config_type,
        documentation: told.documentation,
        synonyms: synonyms.collect(),
    }
}

fn altered(resource: &ConfigResource, changes: &[ConfigChange]) -> AlterConfigsResource {
    let change = |change: &ConfigChange| AlterableConfig {
        name: change.name.clone(),
        config_operation: change.operation as i8,
        value: change.value.clone(),
    };
    AlterConfigsResource {
        resource_type: resource.kind,
        resource_name: resource.name.clone(),
        configs: changes.iter().map(change).collect(),
    }
}
