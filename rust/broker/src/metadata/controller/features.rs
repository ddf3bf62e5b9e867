//! Changing the levels of features.
//!
//! Source: Kafka's `FeatureControlManager`, its checks in their order, and its words.

use super::super::error::ApiError;
use super::super::features::{METADATA_VERSION, RECORD_VERSION, SupportedFeatures};
use super::super::image::MetadataImage;
use super::super::records::{FeatureLevelRecord, MetadataRecord};
use kafkalite_protocol::ErrorCode;
use std::collections::BTreeMap;

/// Levels of `metadata.version` that changed Kafka's metadata: no way leads back below one.
const CHANGED_METADATA: [i16; 9] = [7, 8, 11, 13, 14, 15, 17, 23, 30];

/// Which way a level may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeType {
    /// Up.
    Upgrade,
    /// Down, if no metadata are lost.
    SafeDowngrade,
    /// Down.
    UnsafeDowngrade,
    /// A number that has no meaning.
    Unknown,
}

impl UpgradeType {
    /// The meaning of the number on the wire.
    #[must_use]
    pub const fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Upgrade,
            2 => Self::SafeDowngrade,
            3 => Self::UnsafeDowngrade,
            _ => Self::Unknown,
        }
    }
}

/// The level that a feature is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub feature: String,
    /// The level; 0 takes the feature away.
    pub level: i16,
    /// Which way it may go.
    pub upgrade_type: UpgradeType,
}

/// The records that change levels, all or none. Of a feature that is named several times the last
/// update counts, as in Kafka.
///
/// # Errors
/// The first update that cannot be made.
pub fn update_features(
    image: &MetadataImage,
    updates: &[FeatureUpdate],
) -> Result<Vec<MetadataRecord>, ApiError> {
    let last = updates.iter().map(|update| (&update.feature, update));
    let last: BTreeMap<&String, &FeatureUpdate> = last.collect();
    let mut records = Vec::new();
    for (name, update) in last {
        check(image, update)?;
        if image.level(name) != update.level {
            let record = FeatureLevelRecord { name: name.clone(), level: update.level };
            records.push(MetadataRecord::FeatureLevel(record));
        }
    }
    Ok(records)
}

/// The record that finalizes Kafka's own feature in a cluster that has no level of it, once all
/// brokers support it. Nothing depends on the level, so no operator is asked.
pub(super) fn missing_level(image: &MetadataImage) -> Option<MetadataRecord> {
    let level = SupportedFeatures::default().levels(METADATA_VERSION).max;
    let mut brokers = image.brokers.values();
    let is_due = image.level(METADATA_VERSION) == 0
        && brokers.all(|broker| broker.supported.levels(METADATA_VERSION).contains(level));
    let record = FeatureLevelRecord { name: METADATA_VERSION.to_owned(), level };
    is_due.then_some(MetadataRecord::FeatureLevel(record))
}

fn check(image: &MetadataImage, update: &FeatureUpdate) -> Result<(), ApiError> {
    let FeatureUpdate { feature, level, upgrade_type } = update;
    let refused =
        |why: &str| invalid(format!("Invalid update version {level} for feature {feature}. {why}"));
    if *upgrade_type == UpgradeType::Unknown {
        return refused("The controller does not support the given upgrade type.");
    }
    if *level < 0 {
        return refused("A feature version cannot be less than 0.");
    }
    if let Some(why) = not_supported(image, feature, *level) {
        return refused(&why);
    }
    let current = image.level(feature);
    if *level < current {
        return match upgrade_type {
            UpgradeType::Upgrade => refused(
                "Can't downgrade the version of this feature without setting the upgrade type to \
                 either safe or unsafe downgrade.",
            ),
            _ => downgrade(feature, (current, *level), *upgrade_type),
        };
    }
    if *level > current && *upgrade_type != UpgradeType::Upgrade {
        return refused("Can't downgrade to a newer version.");
    }
    Ok(())
}

/// Kafka asks its controller first, and then every registered broker.
fn not_supported(image: &MetadataImage, feature: &str, level: i16) -> Option<String> {
    let controller = image.brokers.get(&image.controller_id).into_iter();
    let controller = controller.map(|one| (format!("Local controller {}", one.id), one));
    let brokers = image.brokers.values().map(|one| (format!("Broker {}", one.id), one));
    controller.chain(brokers).find_map(|(who, broker)| {
        let range = broker.supported.levels(feature);
        match (range.max, range.contains(level)) {
            (0, _) => Some(format!("{who} does not support this feature.")),
            (_, false) => Some(format!("{who} only supports versions {range}")),
            (_, true) => None,
        }
    })
}

/// Whether a level may go down. Records of the higher level stay in the log, so records go no way
/// back: an older release could not read them.
fn downgrade(
    feature: &str,
    (from, to): (i16, i16),
    upgrade_type: UpgradeType,
) -> Result<(), ApiError> {
    let is_changed = match feature {
        METADATA_VERSION => CHANGED_METADATA.iter().any(|level| to < *level && *level <= from),
        RECORD_VERSION => true,
        _ => false,
    };
    let why = match upgrade_type {
        _ if !is_changed => return Ok(()),
        UpgradeType::UnsafeDowngrade => {
            "Unsafe metadata downgrade is not supported in this version."
        }
        _ => {
            "Refusing to perform the requested downgrade because it might delete metadata \
             information."
        }
    };
    invalid(format!("Unsupported {feature} downgrade from {from} to {to}. {why}"))
}

fn invalid(why: String) -> Result<(), ApiError> {
    let prefix = "The update failed for all features since the following feature had an error:";
    Err(ApiError::new(ErrorCode::InvalidUpdateVersion, format!("{prefix} {why}")))
}

#[cfg(test)]
mod tests;
