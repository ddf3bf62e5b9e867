//! What is known of the cluster at one moment. Pure: an image and an answer make the next image.

use crate::address::{HostPort, NodeId};
use crate::error::ConnectionError;
use kafkalite_protocol::messages::metadata::{
    MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Uuid};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

mod former;

use former::Former;

/// A broker and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerImage {
    /// Its id.
    pub id: NodeId,
    /// As it advertises itself.
    pub place: HostPort,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
}

/// A partition and who serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// Its number, from 0.
    pub index: i32,
    /// The broker that leads it; `None` without a leader.
    pub leader: Option<NodeId>,
    /// The leader epoch; unknown before Kafka 2.4.
    pub leader_epoch: LeaderEpoch,
    /// All replicas, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Those that have every committed record.
    pub isr: Vec<NodeId>,
    /// Those that are not there.
    pub offline: Vec<NodeId>,
    /// What the broker said is wrong with it.
    pub error: ErrorCode,
}

/// A topic.
#[derive(Debug)]
pub struct TopicImage {
    /// Its name.
    pub name: String,
    /// Its id; zero before Kafka 2.8.
    pub id: Uuid,
    /// Whether it is the brokers' own.
    pub internal: bool,
    /// By number, without a gap.
    pub partitions: Vec<PartitionImage>,
    /// When it was last asked for and answered.
    updated: Instant,
    /// Whether a caller looked it up since.
    used: AtomicBool,
    /// Whether a caller looked it up before.
    was_used: bool,
}

impl TopicImage {
    /// The partition with this number.
    pub fn partition(&self, index: i32) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// Whether a caller ever looked it up.
    fn ever_used(&self) -> bool {
        self.was_used || self.used.load(Ordering::Relaxed)
    }
}

/// Brokers and topics as they were last told. Generations only grow.
#[derive(Clone, Debug, Default)]
pub struct ClusterImage {
    generation: u64,
    cluster_id: Option<String>,
    controller: Option<NodeId>,
    brokers: BTreeMap<NodeId, Arc<BrokerImage>>,
    topics: HashMap<String, Arc<TopicImage>>,
    /// Topics that were asked for and refused, with the reason.
    refused: HashMap<String, ErrorCode>,
    /// Topics that callers looked up while they were known, and that are known no more. The program
    /// has not named them since, so no request may bring them back.
    gone: HashSet<String>,
    former: Former,
}

/// What an answer says of a partition's leader.
#[derive(Clone, Debug)]
pub struct LeaderNews<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// Its id; zero if it is not known.
    pub topic_id: Uuid,
    /// The partition's number.
    pub partition: i32,
    /// Who leads it.
    pub leader: NodeId,
    /// Since when.
    pub leader_epoch: LeaderEpoch,
    /// Where that is, if the answer says so: host and port.
    pub endpoint: Option<(&'a str, i32)>,
}

impl ClusterImage {
    /// Grows with every image.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The cluster's id, if it told one.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Who takes changes of topics and configs.
    pub fn controller(&self) -> Option<NodeId> {
        self.controller
    }

    /// All brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerImage>> {
        self.brokers.values()
    }

    /// Whether the cluster is known, and has no broker with this id in service.
    pub fn is_without(&self, id: NodeId) -> bool {
        !self.brokers.is_empty() && !self.brokers.contains_key(&id)
    }

    /// Whether a broker that was asked `at` this place is not in service any more: none is, or
    /// the one with its id is elsewhere.
    pub(super) fn has_replaced(&self, id: NodeId, at: Option<&HostPort>) -> bool {
        let moved = |broker: &Arc<BrokerImage>| at.is_some_and(|at| broker.place != *at);
        self.is_without(id) || self.broker(id).is_some_and(moved)
    }

    /// The broker with this id.
    pub fn broker(&self, id: NodeId) -> Option<&Arc<BrokerImage>> {
        self.brokers.get(&id)
    }

    /// The topic with this name, if all is known of it. Looking it up keeps it fresh.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        let topic = self.topics.get(name)?;
        topic.used.store(true, Ordering::Relaxed);
        Some(topic)
    }

    /// The same without keeping it fresh.
    pub(super) fn peek(&self, name: &str) -> Option<&TopicImage> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// All topics that are known, in no order. What only this finds is not kept fresh.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// Who leads a partition, and since when.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(NodeId, LeaderEpoch)> {
        let partition = self.topic(topic)?.partition(partition)?;
        Some((partition.leader?, partition.leader_epoch))
    }

    /// Whether brokers said that there is no such topic.
    pub fn is_missing(&self, name: &str) -> bool {
        self.refused.get(name) == Some(&ErrorCode::UnknownTopicOrPartition)
    }

    /// Whether brokers said something of a topic but what there is of it: it may be there.
    pub fn is_refused(&self, name: &str) -> bool {
        self.refused.contains_key(name) && !self.is_missing(name)
    }

    /// Whether a request for `name` may create that topic. A known topic may not: it would come
    /// back if it was deleted just now. A topic that is gone may not either.
    pub(super) fn may_be_created(&self, name: &str) -> bool {
        !self.topics.contains_key(name) && !self.gone.contains(name)
    }

    /// The image after the program named topics; `None` if none of them is gone.
    pub(super) fn named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let back: Vec<_> = names.into_iter().filter(|name| self.gone.contains(*name)).collect();
        (!back.is_empty()).then(|| {
            let mut next = self.clone();
            next.gone.retain(|name| !back.contains(&name.as_str()));
            next.generation += 1;
            next
        })
    }

    /// Why a topic is not known.
    pub fn topic_error(&self, name: &str) -> ConnectionError {
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let about = format!("topic {name}");
        self.refusal(name).unwrap_or_else(|| ConnectionError::refused(unknown, about))
    }

    /// The error that brokers answered for a topic, if they did.
    pub(super) fn refusal(&self, name: &str) -> Option<ConnectionError> {
        let code = self.refused.get(name)?;
        Some(ConnectionError::refused(*code, format!("topic {name}")))
    }

    /// Brokers to ask first for metadata: they know whether the topics in their earlier answers
    /// still exist.
    pub(super) fn doubted(&self, now: Instant) -> impl Iterator<Item = NodeId> {
        self.former.doubted(now)
    }

    /// The image after `response`, which `teller` gave, if that is known. `whole` says that all
    /// topics were asked for: what is not in the answer is gone.
    pub(super) fn after(
        &self,
        response: MetadataResponse,
        whole: bool,
        teller: Option<NodeId>,
        now: Instant,
    ) -> Result<Self, String> {
        let mut next = self.clone();
        next.generation += 1;
        next.cluster_id = response.cluster_id.or(next.cluster_id);
        next.controller = Some(response.controller_id).filter(|id| *id >= 0);
        next.brokers = brokers(&response.brokers)?;
        next.former.forget(|name| self.topics.contains_key(name), now);
        if whole {
            next.topics.clear();
            next.refused.clear();
        }
        for topic in response.topics {
            let name = topic.name.clone().unwrap_or_default();
            // A topic that was asked for by a removed id has no name. But an empty name that was
            // asked for by name is refused like any other invalid name.
            if name.is_empty() && (topic.name.is_none() || !topic.topic_id.is_zero()) {
                continue;
            }
            let known = self.topics.get(&name);
            match topic_image(topic, known, now)? {
                Ok(topic) if next.former.gave_way(&name, topic.id, teller, now) => {
                    next.keep(name, known);
                }
                Ok(topic) => {
                    next.refused.remove(&name);
                    next.topics.insert(name, Arc::new(topic));
                }
                Err(code) => {
                    next.topics.remove(&name);
                    next.refused.insert(name, code);
                }
            }
        }
        next.gone.retain(|name| !next.topics.contains_key(name));
        let lost = self.topics.values().filter(|topic| !next.topics.contains_key(&topic.name));
        next.gone.extend(lost.filter(|topic| topic.ever_used()).map(|topic| topic.name.clone()));
        Ok(next)
    }

    /// What a broker tells that lags behind changes nothing.
    fn keep(&mut self, name: String, known: Option<&Arc<TopicImage>>) {
        match known {
            Some(known) => drop(self.topics.insert(name, Arc::clone(known))),
            None => drop(self.refused.insert(name, ErrorCode::UnknownTopicOrPartition)),
        }
    }

    /// The image after `news`; `None` if it is none.
    pub(super) fn with_leader(&self, news: &LeaderNews<'_>) -> Option<Self> {
        let topic = self.topics.get(news.topic)?;
        let known = topic.partition(news.partition)?;
        if !news.topic_id.is_zero() && !topic.id.is_zero() && news.topic_id != topic.id {
            return None;
        }
        if news.leader < 0 || news.leader_epoch <= known.leader_epoch {
            return None;
        }
        let place = news.endpoint.and_then(|(host, port)| HostPort::from_wire(host, port));
        let mut next = self.clone();
        match place {
            Some(place) => {
                let rack = self.broker(news.leader).and_then(|broker| broker.rack.clone());
                let broker = BrokerImage { id: news.leader, place, rack };
                next.brokers.insert(news.leader, Arc::new(broker));
            }
            // A leader without a known address is of no use.
            None if self.broker(news.leader).is_none() => return None,
            None => {}
        }
        let mut partitions = topic.partitions.clone();
        let partition = &mut partitions[usize::try_from(news.partition).ok()?];
        partition.leader = Some(news.leader);
        partition.leader_epoch = news.leader_epoch;
        partition.error = ErrorCode::None;
        let topic = TopicImage {
            name: topic.name.clone(),
            id: topic.id,
            internal: topic.internal,
            partitions,
            updated: topic.updated,
            used: AtomicBool::new(topic.used.load(Ordering::Relaxed)),
            was_used: topic.was_used,
        };
        next.topics.insert(news.topic.to_owned(), Arc::new(topic));
        next.generation += 1;
        Some(next)
    }

    /// The image with one more broker, or one that moved; `None` if it is known.
    pub(super) fn with_broker(&self, id: NodeId, place: HostPort) -> Option<Self> {
        if self.broker(id).is_some_and(|broker| broker.place == place) {
            return None;
        }
        let mut next = self.clone();
        let rack = self.broker(id).and_then(|broker| broker.rack.clone());
        next.brokers.insert(id, Arc::new(BrokerImage { id, place, rack }));
        next.generation += 1;
        Some(next)
    }

    /// The image without brokers: only `bootstrap.servers` are left to ask.
    pub(super) fn without_brokers(&self) -> Option<Self> {
        let next =
            Self { generation: self.generation + 1, brokers: BTreeMap::new(), ..self.clone() };
        Some(next)
    }

    /// The image without unused topics: no caller looked them up since their last answer,
    /// `max_idle` ago or longer. `None` if there are none.
    pub(super) fn used(&self, max_idle: std::time::Duration, now: Instant) -> Option<Self> {
        let idle = |topic: &TopicImage| {
            !topic.used.load(Ordering::Relaxed)
                && now.saturating_duration_since(topic.updated) >= max_idle
        };
        let mut next = self.clone();
        next.topics.retain(|_, topic| !idle(topic));
        if next.topics.len() == self.topics.len() {
            return None;
        }
        next.generation += 1;
        Some(next)
    }
}

fn brokers(
    told: &[kafkalite_protocol::messages::metadata::MetadataResponseBroker],
) -> Result<BTreeMap<NodeId, Arc<BrokerImage>>, String> {
    told.iter()
        .map(|broker| {
            let place = HostPort::from_wire(&broker.host, broker.port).ok_or_else(|| {
                format!("broker {} at `{}:{}`", broker.node_id, broker.host, broker.port)
            })?;
            let id = broker.node_id;
            Ok((id, Arc::new(BrokerImage { id, place, rack: broker.rack.clone() })))
        })
        .collect()
}

/// The topic, or why there is none; the outer error is an answer that cannot be.
fn topic_image(
    told: MetadataResponseTopic,
    known: Option<&Arc<TopicImage>>,
    now: Instant,
) -> Result<Result<TopicImage, ErrorCode>, String> {
    let error = ErrorCode::from_code(told.error_code);
    let name = told.name.unwrap_or_default();
    if !error.is_none() {
        return Ok(Err(error));
    }
    if told.partitions.is_empty() {
        return Ok(Err(ErrorCode::LeaderNotAvailable));
    }
    let was_used = known.is_some_and(|known| known.ever_used());
    // A topic of the same name with another id is another topic: its epochs start again. A broker
    // before Kafka 2.8 has no ids to compare.
    let known = known.filter(|known| told.topic_id.is_zero() || known.id == told.topic_id);
    let mut partitions: Vec<_> = told.partitions.into_iter().map(PartitionImage::from).collect();
    partitions.sort_by_key(|partition| partition.index);
    for (expected, partition) in (0..).zip(&mut partitions) {
        if partition.index != expected {
            return Err(format!("topic {name} has no partition {expected}"));
        }
        // A broker that lags behind answers with an earlier leader epoch.
        if let Some(known) = known.and_then(|known| known.partition(expected))
            && partition.leader_epoch != LeaderEpoch::UNKNOWN
            && partition.leader_epoch < known.leader_epoch
        {
            *partition = known.clone();
        }
    }
    // The same topic never loses a partition: a broker that lags behind does not know all.
    if let Some(known) = known.filter(|known| !known.id.is_zero() && known.id == told.topic_id) {
        partitions.extend(known.partitions.iter().skip(partitions.len()).cloned());
    }
    Ok(Ok(TopicImage {
        name,
        id: told.topic_id,
        internal: told.is_internal,
        partitions,
        updated: now,
        used: AtomicBool::new(false),
        was_used,
    }))
}

/// A partition of a Metadata answer.
impl From<MetadataResponsePartition> for PartitionImage {
    fn from(told: MetadataResponsePartition) -> Self {
        Self {
            index: told.partition_index,
            leader: Some(told.leader_id).filter(|id| *id >= 0),
            leader_epoch: LeaderEpoch(told.leader_epoch),
            replicas: told.replica_nodes,
            isr: told.isr_nodes,
            offline: told.offline_replicas,
            error: ErrorCode::from_code(told.error_code),
        }
    }
}

#[cfg(test)]
mod tests;
