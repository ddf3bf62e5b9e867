#![allow(clippy::unwrap_used)]
use super::*;
use crate::metadata::metadata_log::{image_bytes, image_of};
use crate::metadata::records::{ListenerRecord, RecordsBatch, RegisterBrokerRecord};

fn registration(broker_id: i32, features: Vec<FeatureRange>) -> MetadataRecord {
    let (name, host) = ("A".to_owned(), "h".to_owned());
    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id,
        listeners: vec![ListenerRecord { name, host, port: 1 }],
        features,
        ..RegisterBrokerRecord::default()
    })
}

fn level(name: &str, level: i16) -> MetadataRecord {
    MetadataRecord::FeatureLevel(FeatureLevelRecord { name: name.to_owned(), level })
}

/// The image after records that are allowed, or why they are not.
fn proposed(
    image: &MetadataImage,
    records: Vec<MetadataRecord>,
) -> Result<MetadataImage, MetadataError> {
    let base_offset = image.offset + 1;
    let batch = RecordsBatch { base_offset, epoch: 1, timestamp_ms: 0, records };
    let after = image.with_batch(&batch)?;
    allowed(image, &batch.records, &after).map(|()| after)
}

fn cluster(records: Vec<MetadataRecord>) -> MetadataImage {
    proposed(&MetadataImage::default(), records).unwrap()
}

#[test]
fn a_broker_that_names_no_feature_is_of_a_release_before_features() {
    let image = cluster(vec![registration(1, vec![])]);
    let supported = &image.brokers[&1].supported;
    assert_eq!(supported.levels(RECORD_VERSION), LevelRange { min: 1, max: 1 });
    assert_eq!(supported.levels("group.version"), LevelRange { min: 0, max: 0 });
}

#[test]
fn a_cluster_that_says_nothing_has_the_records_of_the_first_release() {
    let image = cluster(vec![registration(1, vec![])]);
    assert_eq!(image.record_version(), 1);
    assert_eq!(Vec::from_iter(image.finalized()), [(RECORD_VERSION, 1)]);
    let image = proposed(&image, vec![level(METADATA_VERSION, 30)]).unwrap();
    let both = [(RECORD_VERSION, 1), (METADATA_VERSION, 30)];
    assert_eq!(Vec::from_iter(image.finalized()), both);
}

/// The leader checks what other brokers propose: one of an earlier release checks nothing itself.
#[test]
fn a_broker_without_the_finalized_level_is_refused_with_feature_range_and_level() {
    let ours = SupportedFeatures::default().ranges();
    let image = cluster(vec![registration(1, ours), level(RECORD_VERSION, 2)]);
    let refused = proposed(&image, vec![registration(2, vec![])]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "broker 2 does not support the finalized level 2 of kafkalite.record.version, only the \
         levels 1: it needs another release of kafkalite"
    );
}

#[test]
fn a_level_is_refused_while_a_registered_broker_does_not_support_it() {
    let ours = SupportedFeatures::default().ranges();
    let image = cluster(vec![registration(1, ours.clone()), registration(2, vec![])]);
    let raise = || vec![level(RECORD_VERSION, 2)];
    assert!(matches!(
        proposed(&image, raise()),
        Err(MetadataError::Feature { broker_id: 2, level: 2, .. })
    ));
    let image = proposed(&image, vec![registration(2, ours)]).unwrap();
    assert_eq!(proposed(&image, raise()).unwrap().record_version(), 2);
}

#[test]
fn a_snapshot_keeps_levels_and_what_brokers_support() {
    let ours = SupportedFeatures::default().ranges();
    let mut image = cluster(vec![registration(1, ours), level(METADATA_VERSION, 30)]);
    for raised in [1, 2] {
        image = proposed(&image, vec![level(RECORD_VERSION, raised)]).unwrap();
        let bytes = image_bytes(&image);
        assert_eq!(image_of(image.offset + 1, bytes.into()).unwrap(), image);
    }
}
