//! Which topics and partitions a fault is for.

use std::sync::Arc;

use kafkalite_protocol::Uuid;

use crate::metadata::MetadataImage;

/// A topic and a partition of it, or all; requests name topics by name or by id.
#[derive(Clone)]
pub(super) struct Parts {
    pub topic: Option<String>,
    pub partition: Option<i32>,
    /// Tells the names of ids.
    pub image: Arc<MetadataImage>,
}

impl Parts {
    /// Whether the fault is for everything.
    pub fn are_all(&self) -> bool {
        self.topic.is_none()
    }

    /// Whether it is for this topic, as a request or an answer names it.
    pub fn hit_topic(&self, name: &str, id: Uuid) -> bool {
        let Some(wanted) = &self.topic else { return true };
        if !name.is_empty() {
            return name == wanted;
        }
        self.image.topic_by_id(id).is_some_and(|topic| &*topic.name == wanted)
    }

    /// Whether it is for this partition.
    pub fn hit(&self, name: &str, id: Uuid, partition: i32) -> bool {
        self.partition.is_none_or(|wanted| wanted == partition) && self.hit_topic(name, id)
    }
}
