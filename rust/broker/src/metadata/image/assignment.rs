//! Which log directory of its broker each replica is assigned to (KIP-858).
//!
//! A broker makes a replica's directory first, and notes it in the metadata after. Nothing is
//! acknowledged before the note counts. So a replica without a note may be made anywhere, and one
//! that is missing where the note says is lost.
//! Source: Kafka's `DirectoryId`.

use super::{PartitionImage, TopicsImage};
use crate::metadata::records::AssignReplicasRecord;
use kafkalite_protocol::Uuid;

/// In place of a directory id: the replica was never noted to be in a directory, and nothing of it
/// was acknowledged.
pub const UNASSIGNED: Uuid = Uuid::ZERO;

/// In place of a directory id: unknown, because the partition comes from a release without notes.
/// Kafka has this id for partitions that come from ZooKeeper.
const UNKNOWN: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// Where a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// In some directory of its broker, or in none: an earlier release made the partition.
    Unknown,
    /// In no directory that counts. The broker may make the replica where it likes.
    Unassigned,
    /// In the log directory with this id.
    Directory(Uuid),
}

impl PartitionImage {
    /// Where the replica on this broker is. A broker without a replica has nothing anywhere.
    pub fn assignment(&self, broker_id: i32) -> Assignment {
        let Some(place) = self.place(broker_id) else { return Assignment::Unassigned };
        match self.directories.get(place) {
            None => Assignment::Unknown,
            Some(&UNKNOWN) => Assignment::Unknown,
            Some(&UNASSIGNED) => Assignment::Unassigned,
            Some(directory) => Assignment::Directory(*directory),
        }
    }

    /// The partition with these replicas: one that stays keeps its log directory, and a new one may
    /// choose.
    pub fn with_replicas(&self, replicas: Vec<i32>) -> Self {
        if replicas == self.replicas {
            return self.clone();
        }
        let directory = |id: &i32| match self.place(*id) {
            None => UNASSIGNED,
            Some(place) => self.directories.get(place).copied().unwrap_or(UNKNOWN),
        };
        let directories = replicas.iter().map(directory).collect();
        Self { replicas, directories, ..self.clone() }
    }

    /// Whether a reassignment of it is under way.
    pub fn is_moving(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }

    fn place(&self, broker_id: i32) -> Option<usize> {
        self.replicas.iter().position(|replica| *replica == broker_id)
    }

    fn assign(&mut self, broker_id: i32, directory: Uuid) -> Result<(), String> {
        let place = self.place(broker_id);
        let place = place.ok_or_else(|| format!("broker {broker_id} has no replica of it"))?;
        self.directories.resize(self.replicas.len(), UNKNOWN);
        self.directories[place] = directory;
        self.partition_epoch += 1;
        Ok(())
    }
}

impl TopicsImage {
    /// Notes the log directory of replicas.
    pub(super) fn assign(&mut self, record: &AssignReplicasRecord) -> Result<(), String> {
        for assigned in &record.topics {
            let topic = self.by_id_mut(assigned.topic_id)?;
            for index in &assigned.partitions {
                let place = usize::try_from(*index).ok();
                let partition = place.and_then(|place| topic.partitions.get_mut(place));
                let partition = partition
                    .ok_or_else(|| format!("topic {} has no partition {index}", topic.name))?;
                partition.assign(record.broker_id, record.directory_id)?;
            }
        }
        Ok(())
    }
}
