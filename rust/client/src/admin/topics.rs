//! Topics: made, removed, described, and given more partitions.

use super::config_values::mean_the_same;
use super::configs::ConfigResource;
use super::doubtful::{Doubtful, settle};
use super::{Admin, Each, no_duplicates, timeout_ms};
use crate::error::ClientError;
use kafkalite_connection::{NodeId, PartitionImage};
use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use kafkalite_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use kafkalite_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponseTopic,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From this version on topics can be removed by their ids, and are listed as structs.
const DELETE_BY_ID_FROM: i16 = 6;

/// A topic to be made.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 is the broker's default, as with `assignments`.
    pub partitions: i32,
    /// How many replicas of each; -1 is the broker's default, as with `assignments`.
    pub replication_factor: i16,
    /// Partition by partition, the brokers that have a replica, the preferred leader first.
    pub assignments: Vec<(i32, Vec<NodeId>)>,
    /// Its own configuration; `None` is the default.
    pub configs: Vec<(String, Option<String>)>,
}

/// What came of making a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id; none before Kafka 2.8.
    pub id: Option<Uuid>,
    /// Its partitions, where the broker told.
    pub partitions: Option<i32>,
    /// Replicas of each, where the broker told.
    pub replication_factor: Option<i16>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id; zero before Kafka 2.8.
    pub id: Uuid,
    /// Whether it is the brokers' own.
    pub internal: bool,
    /// By number.
    pub partitions: Vec<PartitionImage>,
}

impl Admin {
    /// Creates topics. Returns when the asked broker knows a leader for each of their partitions,
    /// or when the time is over.
    pub async fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
        limit: Option<Duration>,
    ) -> Result<Each<String, CreatedTopic>, ClientError> {
        let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
        no_duplicates("topics", &names)?;
        let deadline = self.deadline(limit);
        let by_name = topics.iter().map(|topic| (topic.name.clone(), creatable(topic)));
        let by_name: Arc<HashMap<String, CreatableTopic>> = Arc::new(by_name.collect());
        let (doubtful, by_name) = (&Doubtful::new(), &by_name);
        let created = self
            .each("creating topics", deadline, names, |names| async move {
                let topics = names.iter().map(|name| by_name[name].clone()).collect();
                let once = self.create_topics_once(topics, validate_only, doubtful, deadline);
                let mut told = once.await;
                for name in doubtful.refused(&told, ErrorCode::TopicAlreadyExists) {
                    if let Some(made) = self.made_as_asked(&by_name[&name], deadline).await {
                        settle(&mut told, &name, made);
                    }
                }
                told
            })
            .await?;
        if !validate_only {
            let made = created.iter().filter(|(_, result)| result.is_ok());
            self.await_topics(made.map(|(name, _)| name.clone()).collect(), deadline).await;
        }
        Ok(created)
    }

    async fn create_topics_once(
        &self,
        topics: Vec<CreatableTopic>,
        validate_only: bool,
        doubtful: &Doubtful<String>,
        deadline: Instant,
    ) -> Result<Each<String, CreatedTopic>, ClientError> {
        let request = |_| {
            if !validate_only {
                let names: Vec<_> = topics.iter().map(|topic| topic.name.clone()).collect();
                doubtful.leaves(&names);
            }
            CreateTopicsRequest { topics, timeout_ms: timeout_ms(deadline), validate_only }
        };
        let response = self.to_controller(request).await?;
        let results = response.topics.into_iter().map(|topic| {
            let about = || format!("topic {}", topic.name);
            let checked =
                ClientError::check(topic.error_code, topic.error_message.as_deref(), about);
            let created = checked.map(|()| CreatedTopic {
                id: Some(topic.topic_id).filter(|id| !id.is_zero()),
                partitions: Some(topic.num_partitions).filter(|count| *count >= 0),
                replication_factor: Some(topic.replication_factor).filter(|count| *count >= 0),
            });
            (topic.name, created)
        });
        Ok(results.collect())
    }

    /// The topic that an attempt without an answer made: one that is as it was asked for, in its
    /// partitions, replicas and configuration. Another client may have made the same meanwhile,
    /// which nothing tells apart. `None` if it is another one.
    async fn made_as_asked(
        &self,
        asked: &CreatableTopic,
        deadline: Instant,
    ) -> Option<CreatedTopic> {
        let name = &asked.name;
        self.await_topics(vec![name.clone()], deadline).await;
        let described = self.describe_topics_once(vec![name.clone()]).await.ok()?;
        let (_, topic) = described.into_iter().find(|(known, _)| known == name)?;
        let topic = topic.ok()?;
        let is_as_asked = |told: &PartitionImage| {
            let own = asked.assignments.iter().find(|own| own.partition_index == told.index);
            let replicas = i16::try_from(told.replicas.len()).unwrap_or(i16::MAX);
            match own {
                Some(own) => own.broker_ids == told.replicas,
                None => [-1, replicas].contains(&asked.replication_factor),
            }
        };
        let count = match asked.assignments.len() {
            0 => asked.num_partitions,
            assigned => assigned as i32,
        };
        let is_same = [-1, topic.partitions.len() as i32].contains(&count)
            && topic.partitions.iter().all(is_as_asked);
        if !is_same || !self.is_configured_as_asked(asked, deadline).await? {
            return None;
        }
        let replicas = topic.partitions.first().map(|first| first.replicas.len() as i16);
        Some(CreatedTopic {
            id: Some(topic.id).filter(|id| !id.is_zero()),
            partitions: Some(topic.partitions.len() as i32),
            replication_factor: replicas,
        })
    }

    /// Whether a topic has the values that were asked for; `None` if no broker tells.
    async fn is_configured_as_asked(
        &self,
        asked: &CreatableTopic,
        deadline: Instant,
    ) -> Option<bool> {
        let keys: Vec<_> = asked.configs.iter().map(|config| config.name.clone()).collect();
        if keys.is_empty() {
            return Some(true);
        }
        let limit = Some(deadline.saturating_duration_since(Instant::now()));
        let topic = ConfigResource::topic(&asked.name);
        let told = self.describe_configs(vec![topic], Some(keys), false, false, limit).await;
        let (_, entries) = told.ok()?.pop()?;
        let entries = entries.ok()?;
        let is_set = |config: &CreatableTopicConfig| {
            let entry = entries.iter().find(|entry| entry.name == config.name);
            let told = entry.and_then(|entry| entry.value.as_deref());
            let asked = config.value.as_deref();
            asked.is_none_or(|asked| told.is_some_and(|told| mean_the_same(asked, told)))
        };
        Some(asked.configs.iter().all(is_set))
    }

    /// Waits until topics have leaders: a broker answers before all of them know of a new topic.
    async fn await_topics(&self, names: Vec<String>, deadline: Instant) {
        let mut failures = 0;
        while !names.is_empty() {
            let described = self.describe_topics_once(names.clone()).await.unwrap_or_default();
            let led =
                |topic: &TopicDescription| topic.partitions.iter().all(|p| p.leader.is_some());
            let ready = described.iter().all(|(_, topic)| topic.as_ref().is_ok_and(led));
            failures += 1;
            let wait = self.cluster.config().retry_backoff.after(failures);
            if (ready && !described.is_empty()) || Instant::now() + wait >= deadline {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Removes topics with all their records.
    pub async fn delete_topics(
        &self,
        names: Vec<String>,
        limit: Option<Duration>,
    ) -> Result<Each<String, ()>, ClientError> {
        let deadline = self.deadline(limit);
        let doubtful = &Doubtful::new();
        let once = |names| async move {
            let told = self.delete_topics_once(names, doubtful, deadline).await;
            doubtful.removed(told, ErrorCode::UnknownTopicOrPartition)
        };
        self.each("deleting topics", deadline, names, once).await
    }

    async fn delete_topics_once(
        &self,
        names: Vec<String>,
        doubtful: &Doubtful<String>,
        deadline: Instant,
    ) -> Result<Each<String, ()>, ClientError> {
        let state = |name: &String| DeleteTopicState {
            name: Some(name.clone()),
            ..DeleteTopicState::default()
        };
        let response = self.to_controller(|version| {
            doubtful.leaves(&names);
            let as_structs = version >= DELETE_BY_ID_FROM;
            DeleteTopicsRequest {
                topics: if as_structs { names.iter().map(state).collect() } else { vec![] },
                topic_names: if as_structs { vec![] } else { names },
                timeout_ms: timeout_ms(deadline),
            }
        });
        let results = response.await?.responses.into_iter().map(|topic| {
            let name = topic.name.unwrap_or_default();
            let message = topic.error_message.as_deref();
            let result = ClientError::check(topic.error_code, message, || format!("topic {name}"));
            (name, result)
        });
        Ok(results.collect())
    }

    /// Gives topics more partitions: so many in all.
    pub async fn create_partitions(
        &self,
        totals: Vec<(String, i32)>,
        validate_only: bool,
        limit: Option<Duration>,
    ) -> Result<Each<String, ()>, ClientError> {
        let names: Vec<String> = totals.iter().map(|(name, _)| name.clone()).collect();
        no_duplicates("topics", &names)?;
        let deadline = self.deadline(limit);
        let totals: HashMap<String, i32> = totals.into_iter().collect();
        let (doubtful, totals) = (&Doubtful::new(), &totals);
        self.each("creating partitions", deadline, names, |names| async move {
            let once =
                self.create_partitions_once(names, totals, (validate_only, doubtful), deadline);
            let mut told = once.await;
            for name in doubtful.refused(&told, ErrorCode::InvalidPartitions) {
                let known = self.describe_topics_once(vec![name.clone()]).await;
                let topic = known.ok().and_then(|mut known| known.pop()?.1.ok());
                if topic.is_some_and(|topic| topic.partitions.len() as i32 == totals[&name]) {
                    settle(&mut told, &name, ());
                }
            }
            told
        })
        .await
    }

    async fn create_partitions_once(
        &self,
        names: Vec<String>,
        totals: &HashMap<String, i32>,
        (validate_only, doubtful): (bool, &Doubtful<String>),
        deadline: Instant,
    ) -> Result<Each<String, ()>, ClientError> {
        let topic = |name: &String| CreatePartitionsTopic {
            name: name.clone(),
            count: totals[name],
            assignments: None,
        };
        let request = |_| {
            if !validate_only {
                doubtful.leaves(&names);
            }
            CreatePartitionsRequest {
                topics: names.iter().map(topic).collect(),
                timeout_ms: timeout_ms(deadline),
                validate_only,
            }
        };
        let response = self.to_controller(request).await?;
        let results = response.results.into_iter().map(|topic| {
            let about = || format!("topic {}", topic.name);
            let message = topic.error_message.as_deref();
            (topic.name.clone(), ClientError::check(topic.error_code, message, about))
        });
        Ok(results.collect())
    }

    /// All topics, by name.
    pub async fn list_topics(
        &self,
        limit: Option<Duration>,
    ) -> Result<Vec<TopicDescription>, ClientError> {
        let deadline = self.deadline(limit);
        let told = self.retry("listing topics", deadline, || self.metadata(None)).await?;
        let topics = told.into_iter().filter(|topic| topic.error_code == 0);
        let mut topics: Vec<_> = topics.map(described).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Topics as a broker knows them now.
    pub async fn describe_topics(
        &self,
        names: Vec<String>,
        limit: Option<Duration>,
    ) -> Result<Each<String, TopicDescription>, ClientError> {
        let deadline = self.deadline(limit);
        let once = |names| self.describe_topics_once(names);
        self.each("describing topics", deadline, names, once).await
    }

    pub(super) async fn describe_topics_once(
        &self,
        names: Vec<String>,
    ) -> Result<Each<String, TopicDescription>, ClientError> {
        let told = self.metadata(Some(names)).await?;
        let results = told.into_iter().map(|topic| {
            let name = topic.name.clone().unwrap_or_default();
            let code = ErrorCode::from_code(topic.error_code);
            let result = match code.is_none() {
                true => Ok(described(topic)),
                false => Err(ClientError::broker(code, format!("topic {name}"))),
            };
            (name, result)
        });
        Ok(results.collect())
    }

    /// A broker's present metadata of topics; of all topics for `None`.
    async fn metadata(
        &self,
        names: Option<Vec<String>>,
    ) -> Result<Vec<MetadataResponseTopic>, ClientError> {
        let topic = |name: String| MetadataRequestTopic {
            name: Some(name),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequest {
            topics: names.map(|names| names.into_iter().map(topic).collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let (_, response) = self.cluster.send_to_some(move |_| request.clone()).await?;
        ClientError::check(response.error_code, None, || "Metadata".to_owned())?;
        Ok(response.topics)
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let assignment =
        |(partition_index, broker_ids): &(i32, Vec<NodeId>)| CreatableReplicaAssignment {
            partition_index: *partition_index,
            broker_ids: broker_ids.clone(),
        };
    let config = |(name, value): &(String, Option<String>)| CreatableTopicConfig {
        name: name.clone(),
        value: value.clone(),
    };
    let assigned = !topic.assignments.is_empty();
    CreatableTopic {
        name: topic.name.clone(),
        // Who says where each replica goes has said how many there are.
        num_partitions: if assigned { -1 } else { topic.partitions },
        replication_factor: if assigned { -1 } else { topic.replication_factor },
        assignments: topic.assignments.iter().map(assignment).collect(),
        configs: topic.configs.iter().map(config).collect(),
    }
}

fn described(topic: MetadataResponseTopic) -> TopicDescription {
    let mut partitions: Vec<_> = topic.partitions.into_iter().map(PartitionImage::from).collect();
    partitions.sort_by_key(|partition| partition.index);
    TopicDescription {
        name: topic.name.unwrap_or_default(),
        id: topic.topic_id,
        internal: topic.is_internal,
        partitions,
    }
}
