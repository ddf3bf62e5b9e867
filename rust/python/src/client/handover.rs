//! `_native.Handover`: what changes hands, for whoever listens; and partitions as Python has them.

use kafkalite_client::TopicPartition;
use kafkalite_client::group_state::GroupEvent;
use pyo3::prelude::*;

/// Topic and number.
pub type Place = (String, i32);

/// A partition out of Python's pair.
pub fn partition((topic, number): Place) -> TopicPartition {
    TopicPartition::new(topic, number)
}

/// A partition as Python's pair.
pub fn place(partition: &TopicPartition) -> Place {
    (partition.topic.to_string(), partition.partition)
}

/// Partitions as Python's pairs.
pub fn places(partitions: &[TopicPartition]) -> Vec<Place> {
    partitions.iter().map(place).collect()
}

/// Partitions that change hands.
#[pyclass(frozen, get_all, module = "kafkalite._native")]
pub struct Handover {
    /// `assign`, `revoke` or `lost`.
    what: &'static str,
    partitions: Vec<Place>,
}

impl Handover {
    pub fn of(event: &GroupEvent) -> Self {
        let (what, partitions) = match event {
            GroupEvent::Revoke(partitions) => ("revoke", partitions),
            GroupEvent::Assign(partitions) => ("assign", partitions),
            GroupEvent::Lost(partitions) => ("lost", partitions),
        };
        Self { what, partitions: places(partitions) }
    }
}
