//! What metadata must never show.
//!
//! - `change-lost`: a change that was acknowledged is not in a later image
//! - `refused-change`: a change that was rejected is in an image
//! - `image-went-back`: a broker's image is older than one that it had before
//! - `image-differs`: a broker's image is not what the log adds up to at its offset
//!
//! One client at a time asks for changes, so what was acknowledged last holds until it asks for
//! something else.

use super::Violation;
use crate::controller::{WORK, WORK_CONFIG};
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_protocol::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen of the metadata.
#[derive(Debug, Default)]
pub struct Topics {
    pub(super) found: Vec<Violation>,
    /// The topic that is deleted and made again, as committed.
    live: Option<Uuid>,
    /// It has to be there.
    owed: Option<Uuid>,
    /// The value that its config has to have.
    owed_config: Option<String>,
    deleted: BTreeSet<Uuid>,
    /// Values of its config that were refused.
    refused: BTreeSet<String>,
    /// By process of a broker: the offset of its newest image.
    offsets: BTreeMap<(i32, u32), i64>,
    /// How many changes were acknowledged.
    pub acknowledged: u64,
    /// How many moves of partitions ended.
    pub moves: u64,
}

impl Topics {
    fn report(&mut self, kind: &'static str, detail: String) {
        self.found.push(Violation::new(kind, detail));
    }

    /// The topic of the group, as committed.
    #[must_use]
    pub fn live(&self) -> Option<Uuid> {
        self.live
    }

    /// A change is asked for: what was owed may end.
    pub fn asked(&mut self) {
        (self.owed, self.owed_config) = (None, None);
    }

    /// The answer to a client: a topic was made with this config.
    pub fn created(&mut self, id: Uuid, config: &str) {
        self.acknowledged += 1;
        (self.owed, self.owed_config) = (Some(id), Some(config.to_owned()));
    }

    /// The answer to a client: this topic was deleted.
    pub fn deleted(&mut self, id: Uuid) {
        self.acknowledged += 1;
        self.deleted.insert(id);
        if self.live == Some(id) {
            self.report("change-lost", format!("topic {id} was deleted, and is there"));
        }
    }

    /// The answer to a client: the topic's config was altered.
    pub fn configured(&mut self, config: &str) {
        self.acknowledged += 1;
        self.owed_config = Some(config.to_owned());
    }

    /// The answer to a client: a change with this config was rejected.
    pub fn refused(&mut self, config: &str) {
        self.refused.insert(config.to_owned());
    }

    /// Metadata was committed, or read again; this is all of it.
    pub fn committed(&mut self, image: &MetadataImage) {
        let topic = image.topic(WORK);
        self.live = topic.map(|topic| topic.id);
        let config = topic.and_then(|topic| topic.configs.get(WORK_CONFIG));
        let offset = image.offset;
        if self.owed.is_some() && self.owed != self.live {
            let told = format!("{:?} is owed, {:?} is there at {offset}", self.owed, self.live);
            self.report("change-lost", told);
        }
        if self.owed_config.is_some() && self.owed_config.as_ref() != config {
            let told = format!("{:?} is owed, {config:?} is set at {offset}", self.owed_config);
            self.report("change-lost", told);
        }
        if let Some(id) = self.live.filter(|id| self.deleted.contains(id)) {
            self.report("change-lost", format!("topic {id} was deleted, and is there at {offset}"));
        }
        if let Some(config) = config.filter(|config| self.refused.contains(*config)) {
            self.report("refused-change", format!("{config} is set at {offset}"));
        }
    }

    /// A broker's image, beside what is committed at its offset.
    pub fn observe(
        &mut self,
        broker: (i32, u32),
        image: &MetadataImage,
        committed: impl FnOnce() -> bool,
    ) {
        let before = self.offsets.insert(broker, image.offset);
        if before == Some(image.offset) {
            return;
        }
        let told = || format!("broker {}: {} after {before:?}", broker.0, image.offset);
        if before.is_some_and(|before| image.offset < before) {
            self.report("image-went-back", told());
        }
        if !committed() {
            self.report("image-differs", told());
        }
    }
}
