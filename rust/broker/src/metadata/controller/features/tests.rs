#![allow(clippy::unwrap_used)]
use super::super::super::records::{
    ControllerEpochRecord, ListenerRecord, RecordsBatch, RegisterBrokerRecord,
};
use super::UpgradeType::{SafeDowngrade, Unknown, UnsafeDowngrade, Upgrade};
use super::*;
use std::sync::Arc;

/// A cluster with this level of records, and these levels supported by the brokers 1, 2, ...
fn cluster(record_version: i16, supported: &[i16]) -> MetadataImage {
    let broker = |(broker_id, record_version): (i32, &i16)| {
        let (name, host) = ("A".to_owned(), "h".to_owned());
        MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id,
            listeners: vec![ListenerRecord { name, host, port: 1 }],
            features: SupportedFeatures::up_to(*record_version).ranges(),
            ..RegisterBrokerRecord::default()
        })
    };
    let level = |name: &str, level| {
        MetadataRecord::FeatureLevel(FeatureLevelRecord { name: name.to_owned(), level })
    };
    let epoch = ControllerEpochRecord { controller_id: 1, epoch: 1 };
    let mut records = vec![MetadataRecord::ControllerEpoch(epoch)];
    records.extend((1..).zip(supported).map(broker));
    records.push(level(METADATA_VERSION, 30));
    records.push(level(RECORD_VERSION, record_version));
    let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
    MetadataImage::default().with_batch(&batch).unwrap()
}

fn update(feature: &str, level: i16, upgrade_type: UpgradeType) -> FeatureUpdate {
    FeatureUpdate { feature: feature.to_owned(), level, upgrade_type }
}

fn levels(records: Vec<MetadataRecord>) -> Vec<(String, i16)> {
    let level = |record| match record {
        MetadataRecord::FeatureLevel(record) => (record.name, record.level),
        other => panic!("{other:?}"),
    };
    records.into_iter().map(level).collect()
}

/// Why an update of a cluster with one broker is refused.
fn refusal(feature: &str, level: i16, upgrade_type: UpgradeType) -> String {
    let updates = [update(feature, level, upgrade_type)];
    let error = update_features(&cluster(2, &[2]), &updates).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidUpdateVersion);
    let prefix = "The update failed for all features since the following feature had an error: ";
    error.message.unwrap().strip_prefix(prefix).unwrap().to_owned()
}

#[test]
fn what_cannot_be_is_refused_in_kafkas_words() {
    for (name, level, upgrade_type, words) in [
        (METADATA_VERSION, 30, Unknown, "The controller does not support the given upgrade type."),
        (METADATA_VERSION, -1, Upgrade, "A feature version cannot be less than 0."),
        (METADATA_VERSION, 31, Upgrade, "Local controller 1 only supports versions 7-30"),
        (METADATA_VERSION, 0, SafeDowngrade, "Local controller 1 only supports versions 7-30"),
        (RECORD_VERSION, 0, UnsafeDowngrade, "Local controller 1 only supports versions 1-2"),
        ("group.version", 1, Upgrade, "Local controller 1 does not support this feature."),
        ("group.version", 0, SafeDowngrade, "Local controller 1 does not support this feature."),
        (
            METADATA_VERSION,
            29,
            Upgrade,
            "Can't downgrade the version of this feature without setting the upgrade type to \
             either safe or unsafe downgrade.",
        ),
    ] {
        let expected = format!("Invalid update version {level} for feature {name}. {words}");
        assert_eq!(refusal(name, level, upgrade_type), expected);
    }
}

#[test]
fn no_level_goes_down_below_a_change_of_metadata() {
    for (name, from, to) in [(METADATA_VERSION, 30, 29), (RECORD_VERSION, 2, 1)] {
        let head = format!("Unsupported {name} downgrade from {from} to {to}.");
        let lost = "Refusing to perform the requested downgrade because it might delete metadata \
                    information.";
        assert_eq!(refusal(name, to, SafeDowngrade), format!("{head} {lost}"));
        let never = "Unsafe metadata downgrade is not supported in this version.";
        assert_eq!(refusal(name, to, UnsafeDowngrade), format!("{head} {never}"));
    }
}

#[test]
fn a_level_goes_down_where_nothing_changed() {
    let mut image = cluster(2, &[2]);
    Arc::make_mut(&mut image.features).insert(METADATA_VERSION.to_owned(), 29);
    for upgrade_type in [SafeDowngrade, UnsafeDowngrade] {
        let records = update_features(&image, &[update(METADATA_VERSION, 24, upgrade_type)]);
        assert_eq!(levels(records.unwrap()), [(METADATA_VERSION.to_owned(), 24)]);
    }
    let refused = update_features(&image, &[update(METADATA_VERSION, 30, SafeDowngrade)]);
    assert!(refused.unwrap_err().message.unwrap().ends_with("Can't downgrade to a newer version."));
}

#[test]
fn a_level_goes_up_when_the_last_broker_supports_it() {
    let raise = [update(RECORD_VERSION, 2, Upgrade)];
    let refused = update_features(&cluster(1, &[2, 2, 1]), &raise).unwrap_err();
    assert!(refused.message.unwrap().ends_with("Broker 3 only supports versions 1"));
    let records = update_features(&cluster(1, &[2, 2, 2]), &raise).unwrap();
    assert_eq!(levels(records), [(RECORD_VERSION.to_owned(), 2)]);
}

#[test]
fn all_updates_are_made_or_none_and_the_last_of_a_name_counts() {
    let image = cluster(1, &[2]);
    let good = || update(RECORD_VERSION, 2, Upgrade);
    let bad = || update("no.such.feature", 1, Upgrade);
    assert!(update_features(&image, &[good(), bad()]).is_err());
    let twice = [update(RECORD_VERSION, 99, Upgrade), good()];
    assert_eq!(levels(update_features(&image, &twice).unwrap()).len(), 1);
    assert!(update_features(&image, &[good(), update(RECORD_VERSION, 99, Upgrade)]).is_err());
}

#[test]
fn a_level_that_is_there_makes_no_record() {
    let image = cluster(2, &[2]);
    for upgrade_type in [Upgrade, SafeDowngrade, UnsafeDowngrade] {
        let same = [update(METADATA_VERSION, 30, upgrade_type), update(RECORD_VERSION, 2, Upgrade)];
        assert_eq!(update_features(&image, &same), Ok(vec![]));
    }
}
