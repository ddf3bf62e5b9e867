//! Which topics and partitions a fault is for.

use std::sync::Arc;

use kafkalite_protocol::Uuid;

use crate::metadata::MetadataImage;

/// A topic and a partition of it, or all; requests name topics by name or by id.
#[derive(Clone)]
pub(super) struct Parts {
    pub topic: Option<String>,
    pub partition: Option<i32>,
    /// Of this group alone, where an answer has several.
    pub group: Option<String>,
    /// But not of these: they have the error of another fault.
    pub except: Vec<Parts>,
    /// Tells the names of ids.
    pub image: Arc<MetadataImage>,
}

impl Parts {
    /// Whether the fault is for everything.
    pub fn are_all(&self) -> bool {
        self.topic.is_none()
    }

    /// Whether it is for this group.
    pub fn hit_group(&self, group: &str) -> bool {
        let mut others = self.except.iter();
        self.group.as_ref().is_none_or(|wanted| wanted == group)
            && !others.any(|other| other.topic.is_none() && other.hit_group(group))
    }

    /// Whether it is for this topic, as a request or an answer names it.
    pub fn hit_topic(&self, name: &str, id: Uuid) -> bool {
        let is_all_of_it = |other: &&Parts| other.partition.is_none() && other.group.is_none();
        let mut others = self.except.iter().filter(is_all_of_it);
        self.is_of_topic(name, id) && !others.any(|other| other.is_of_topic(name, id))
    }

    fn is_of_topic(&self, name: &str, id: Uuid) -> bool {
        let Some(wanted) = &self.topic else { return true };
        if !name.is_empty() {
            return name == wanted;
        }
        self.image.topic_by_id(id).is_some_and(|topic| &*topic.name == wanted)
    }

    /// Whether it is for this partition.
    pub fn hit(&self, name: &str, id: Uuid, partition: i32) -> bool {
        let is_one = |parts: &Parts| {
            parts.partition.is_none_or(|wanted| wanted == partition) && parts.is_of_topic(name, id)
        };
        let mut others = self.except.iter().filter(|other| other.group.is_none());
        is_one(self) && !others.any(is_one)
    }
}
