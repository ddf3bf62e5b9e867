//! The features of a cluster: the levels that its brokers support, and those that are finalized.
//!
//! A finalized level counts for the whole cluster. A broker registers with the range of levels that
//! it supports, and a level is finalized only where every registered broker supports it. So no
//! broker meets a record that it cannot read.
//! Source: the roles of Kafka's `QuorumFeatures` and `VersionRange` (KIP-584).

use super::error::MetadataError;
use super::image::MetadataImage;
use super::records::{FeatureLevelRecord, FeatureRange, MetadataRecord};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Kafka's name for the version of its own metadata. Nothing here depends on its level: it says to
/// tools which Kafka this broker is like.
pub const METADATA_VERSION: &str = "metadata.version";

/// The version of the records in the metadata log.
pub const RECORD_VERSION: &str = "kafkalite.record.version";

/// From 3.3-IV3 to 4.3-IV0, as in Kafka 4.3.
const METADATA_VERSIONS: LevelRange = LevelRange { min: 7, max: 30 };

/// Level 2: registrations that a release without features must not read.
const RECORD_VERSIONS: LevelRange = LevelRange { min: 1, max: 2 };

/// A cluster that says nothing of its records has those of the first release.
const FIRST_RECORDS: i16 = 1;

/// Levels from `min` to `max`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelRange {
    /// The least.
    pub min: i16,
    /// The greatest; 0 where the feature is not supported.
    pub max: i16,
}

impl LevelRange {
    /// Whether this level is in it.
    #[must_use]
    pub const fn contains(self, level: i16) -> bool {
        self.min <= level && level <= self.max
    }
}

impl Display for LevelRange {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(out, "{}", self.min),
            false => write!(out, "{}-{}", self.min, self.max),
        }
    }
}

/// The levels that a broker supports, by feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportedFeatures(BTreeMap<String, LevelRange>);

impl Default for SupportedFeatures {
    /// What this release supports.
    fn default() -> Self {
        Self::up_to(RECORD_VERSIONS.max)
    }
}

impl SupportedFeatures {
    /// What a release supports that knows records up to this level.
    #[must_use]
    pub fn up_to(record_version: i16) -> Self {
        let max = record_version.min(RECORD_VERSIONS.max);
        let records = LevelRange { max, ..RECORD_VERSIONS };
        let ranges = [(METADATA_VERSION, METADATA_VERSIONS), (RECORD_VERSION, records)];
        Self(ranges.into_iter().map(|(name, range)| (name.to_owned(), range)).collect())
    }

    /// What a broker registered with. One that named no feature is of a release before features.
    #[must_use]
    pub fn registered(ranges: &[FeatureRange]) -> Self {
        if ranges.is_empty() {
            return Self::up_to(FIRST_RECORDS);
        }
        let range = |one: &FeatureRange| {
            (one.name.clone(), LevelRange { min: one.min_level, max: one.max_level })
        };
        Self(ranges.iter().map(range).collect())
    }

    /// As a registration says it.
    #[must_use]
    pub fn ranges(&self) -> Vec<FeatureRange> {
        let range = |(name, range): (&String, &LevelRange)| FeatureRange {
            name: name.clone(),
            min_level: range.min,
            max_level: range.max,
        };
        self.0.iter().map(range).collect()
    }

    /// Every feature with its levels, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, LevelRange)> {
        self.0.iter().map(|(name, range)| (name.as_str(), *range))
    }

    /// The levels of a feature.
    #[must_use]
    pub fn levels(&self, feature: &str) -> LevelRange {
        self.0.get(feature).copied().unwrap_or_default()
    }

    /// The records that finalize all of it at the greatest level.
    pub fn finalized(&self) -> impl Iterator<Item = MetadataRecord> {
        self.iter().map(|(name, range)| {
            MetadataRecord::FeatureLevel(FeatureLevelRecord {
                name: name.to_owned(),
                level: range.max,
            })
        })
    }

    /// Whether a broker that supports this may belong to the cluster of `image`.
    ///
    /// # Errors
    /// It does not support a finalized level.
    pub fn fit(&self, broker_id: i32, image: &MetadataImage) -> Result<(), MetadataError> {
        for (feature, level) in image.finalized() {
            let range = self.levels(feature);
            if !range.contains(level) {
                return Err(MetadataError::Feature {
                    broker_id,
                    feature: feature.to_owned(),
                    level,
                    range,
                });
            }
        }
        Ok(())
    }
}

impl MetadataImage {
    /// The finalized level of a feature; 0 is none.
    pub fn level(&self, feature: &str) -> i16 {
        match self.features.get(feature) {
            Some(level) => *level,
            None if feature == RECORD_VERSION => FIRST_RECORDS,
            None => 0,
        }
    }

    /// Every finalized feature with its level, by name.
    pub fn finalized(&self) -> impl Iterator<Item = (&str, i16)> {
        let said = self.features.iter().map(|(name, level)| (name.as_str(), *level));
        let is_silent = !self.features.contains_key(RECORD_VERSION);
        // The name comes before Kafka's.
        is_silent.then_some((RECORD_VERSION, FIRST_RECORDS)).into_iter().chain(said)
    }

    /// The level of the records that are written next.
    pub fn record_version(&self) -> i16 {
        self.level(RECORD_VERSION)
    }
}

/// Whether records may be proposed on top of `before`, which makes `after` of it. Every record must
/// be one of the finalized level, and every broker must support what is finalized.
///
/// # Errors
/// The first record or broker that does not.
pub fn allowed(
    before: &MetadataImage,
    records: &[MetadataRecord],
    after: &MetadataImage,
) -> Result<(), MetadataError> {
    let level = before.record_version();
    for record in records {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                if let Some(broker) = after.brokers.get(&record.broker_id) {
                    broker.supported.fit(broker.id, after)?;
                }
            }
            MetadataRecord::FeatureLevel(_) => {
                for broker in after.brokers.values() {
                    broker.supported.fit(broker.id, after)?;
                }
            }
            _ => {}
        }
        if record.version_at(level).is_none() {
            return Err(MetadataError::RecordVersion { level });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
