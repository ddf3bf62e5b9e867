//! What of a subscription is committed, and what is to be committed by itself.
//!
//! Automatic commits carry what earlier calls handed out. A caller may have committed more, or less
//! on purpose: that stands until more is done, or until the position goes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PartitionState, Subscription};
use crate::consumer::cursor::{Cursor, Position};
use crate::topic_partition::TopicPartition;

/// Where the consumer was in a partition when it made a commit.
#[derive(Clone, Debug)]
pub struct Made {
    /// The life of the partition, see [`PartitionState::life`].
    pub(super) life: u64,
    /// Its place then.
    place: Arc<Cursor>,
    /// How often that had gone back.
    setbacks: u64,
    /// Up to this offset nothing is to be committed by itself when the commit went through.
    settles: i64,
}

impl Made {
    fn settle(&self) {
        self.place.settle(self.settles, self.setbacks);
    }
}

impl Subscription {
    /// What is done and not committed yet, by partition.
    #[must_use]
    pub fn to_commit(&self) -> BTreeMap<TopicPartition, Position> {
        let uncommitted = self
            .partitions
            .iter()
            .filter_map(|(partition, state)| Some((partition.clone(), state.uncommitted()?)));
        uncommitted.collect()
    }

    /// The end of what calls handed out of each partition: what a caller that commits now means.
    #[must_use]
    pub fn handed_out(&self) -> BTreeMap<TopicPartition, Position> {
        let known = self
            .partitions
            .iter()
            .filter_map(|(partition, state)| Some((partition.clone(), state.handed_out()?)));
        known.collect()
    }

    /// The caller came back: all that was handed out is done.
    pub fn finish(&self) {
        self.partitions.values().for_each(|state| _ = state.cursor().finish());
    }

    /// The number of the partition's life, see [`PartitionState::life`]; 0 if it is not assigned.
    #[must_use]
    pub fn life(&self, partition: &TopicPartition) -> u64 {
        self.partitions.get(partition).map_or(0, PartitionState::life)
    }

    /// Where the consumer is when it makes a commit of `offset`; `None` if the partition is not
    /// assigned.
    #[must_use]
    pub fn made(&self, partition: &TopicPartition, offset: i64) -> Option<Made> {
        let state = self.partitions.get(partition)?;
        let place = Arc::clone(state.cursor());
        let setbacks = place.setbacks();
        Some(Made { life: state.life(), place, setbacks, settles: offset })
    }

    /// The same where a caller named `offset`: one that is less than what is done is meant so.
    #[must_use]
    pub fn made_on_purpose(&self, partition: &TopicPartition, offset: i64) -> Option<Made> {
        let made = self.made(partition, offset)?;
        let settles = offset.max(made.place.done().offset);
        Some(Made { settles, ..made })
    }

    /// A commit of `position` went through.
    pub fn committed(&mut self, partition: &TopicPartition, position: Position, made: &Made) {
        let state = self.partitions.get_mut(partition);
        let Some(state) = state else { return made.settle() };
        let is_here = state.cursor().is_of_one_place_with(&made.place);
        if state.life() != made.life {
            // Of another topic of the name, if its place goes on.
            if !is_here {
                made.settle();
            }
            return;
        }
        made.settle();
        if !is_here {
            state.cursor().unsettle();
        }
        state.set_committed(position);
    }

    /// Whether an automatic commit of `offset` is not to go out any more: a caller's commit came
    /// before it, or the caller went elsewhere.
    #[must_use]
    pub fn is_settled(&self, partition: &TopicPartition, offset: i64, made: &Made) -> bool {
        let state = self.partitions.get(partition).filter(|state| state.life() == made.life);
        let has_left = |state: &PartitionState| !state.cursor().is_of_one_place_with(&made.place);
        made.place.is_settled(offset) || state.is_some_and(has_left)
    }
}
