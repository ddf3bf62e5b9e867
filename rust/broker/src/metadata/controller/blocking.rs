//! The controller for threads that may wait for it: a start, a loader, a test. Never for one that
//! handles requests, nor for a follower of the image, which would wait for itself.

use super::{ConfigChange, ConfigRules, Controller, CreatedTopic, NewPartitions, NewTopic};
use super::{Done, ElectionKind, OnAnswers, ProducerIdBlock, TopicDefaults, TopicName};
use crate::config::BrokerConfig;
use crate::metadata::error::ApiError;
use kafkalite_protocol::{ErrorCode, Uuid};
use std::sync::{Arc, mpsc};

/// Each call returns when its change is published, or refused.
#[derive(Clone, Copy)]
pub struct Blocking<'a>(pub(super) &'a Controller);

impl Blocking<'_> {
    /// As [`Controller::create_topics`].
    pub fn create_topics(
        &self,
        topics: &[NewTopic],
        defaults: TopicDefaults,
        rules: &(impl ConfigRules + Clone + 'static),
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, ApiError>> {
        let (topics, rules) = (topics.to_vec(), Arc::new(rules.clone()));
        wait(topics.len(), |done| {
            self.0.create_topics(topics, defaults, rules, validate_only, done);
        })
    }

    /// As [`Controller::create_automatically`].
    pub fn create_automatically(
        &self,
        names: &[&str],
        config: &Arc<BrokerConfig>,
    ) -> Vec<Result<(), ApiError>> {
        wait(names.len(), |done| self.0.create_automatically(names, config, done))
    }

    /// As [`Controller::delete_topics`].
    pub fn delete_topics(&self, topics: &[TopicName]) -> Vec<Result<(String, Uuid), ApiError>> {
        wait(topics.len(), |done| self.0.delete_topics(topics.to_vec(), done))
    }

    /// As [`Controller::create_partitions`].
    pub fn create_partitions(
        &self,
        topics: &[NewPartitions],
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        wait(topics.len(), |done| self.0.create_partitions(topics.to_vec(), validate_only, done))
    }

    /// As [`Controller::alter_configs`].
    pub fn alter_configs(
        &self,
        changes: &[ConfigChange],
        rules: &(impl ConfigRules + Clone + 'static),
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        let (changes, rules) = (changes.to_vec(), Arc::new(rules.clone()));
        wait(changes.len(), |done| self.0.alter_configs(changes, rules, validate_only, done))
    }

    /// As [`Controller::elect_leaders`].
    pub fn elect_leaders(
        &self,
        kind: ElectionKind,
        partitions: Vec<(Arc<str>, i32)>,
    ) -> Vec<Result<(), ApiError>> {
        wait(partitions.len(), |done| self.0.elect_leaders(kind, partitions, done))
    }

    /// As [`Controller::allocate_producer_ids`].
    ///
    /// # Errors
    /// There are none left, or the metadata log cannot be written.
    pub fn allocate_producer_ids(
        &self,
        broker_id: i32,
        above: i64,
    ) -> Result<ProducerIdBlock, ApiError> {
        let ask = |done: OnAnswers<ProducerIdBlock>| {
            let one = done.through(|done, answer| done.tell(vec![answer]));
            self.0.allocate_producer_ids(broker_id, above, one);
        };
        wait(1, ask).pop().unwrap_or_else(|| Err(ErrorCode::UnknownServerError.into()))
    }
}

/// The answers, of which there are `count`. Whatever becomes of a change its closure is called or
/// dropped, so the wait ends.
pub(super) fn wait<T: Send + 'static>(
    count: usize,
    ask: impl FnOnce(OnAnswers<T>),
) -> Vec<Result<T, ApiError>> {
    let (answered, answers) = mpsc::sync_channel(1);
    ask(Done::new(move |answers| {
        let _ = answered.send(answers);
    }));
    let stopped = || ApiError::new(ErrorCode::UnknownServerError, "The controller has stopped.");
    answers.recv().unwrap_or_else(|_| (0..count).map(|_| Err(stopped())).collect())
}
