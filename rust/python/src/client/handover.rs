//! `_native.Handover`: changes of partitions, for a listener; and partitions as Python has them.

use kafkalite_client::TopicPartition;
use kafkalite_client::consumer::Claim;
use kafkalite_client::consumer::commits::Committed;
use kafkalite_client::consumer::cursor::Position;
use kafkalite_client::consumer::group_state::GroupEvent;
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

/// Topic, number, offset, leader epoch, metadata, and the tenure in which it was read, or 0.
pub type CommitRow = (String, i32, i64, i32, String, u64);

/// What is to be committed, out of Python's row.
pub fn claim((topic, number, offset, leader_epoch, metadata, tenure): CommitRow) -> Claim {
    Claim {
        partition: TopicPartition::new(topic, number),
        committed: Committed { position: Position { offset, leader_epoch }, metadata },
        tenure,
    }
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
