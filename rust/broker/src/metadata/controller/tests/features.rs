use super::super::features::{FeatureUpdate, UpgradeType};
use super::*;
use crate::awaited;
use crate::metadata::SupportedFeatures;

const RECORDS: &str = "kafkalite.record.version";

/// Opens the log as a release does that supports records up to this level.
fn open_as(dir: &Path, record_version: i16) -> Result<Controller, MetadataError> {
    let supported = SupportedFeatures::up_to(record_version);
    let broker = Registration { supported, ..broker(vec![listener("PLAINTEXT", 9092)], vec![]) };
    let options = ControllerOptions {
        cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        dir: dir.to_owned(),
        broker,
        min_insync_replicas: 1,
    };
    Controller::open(options, Arc::new(RealStorage), Arc::new(ManualClock::new(0)))
}

fn raise(controller: &Controller, level: i16, validate_only: bool) -> Result<(), ApiError> {
    let (feature, upgrade_type) = (RECORDS.to_owned(), UpgradeType::Upgrade);
    let updates = vec![FeatureUpdate { feature, level, upgrade_type }];
    let (told, heard) = mpsc::sync_channel(1);
    let done = move |result| _ = told.send(result);
    controller.update_features(updates, validate_only, Done::new(done));
    awaited::received("the answer to the update", &heard)
}

#[test]
fn a_new_cluster_has_the_newest_levels() {
    let dir = tempfile::tempdir().unwrap();
    let image = open(dir.path()).image();
    let levels = [(RECORDS, 2), ("metadata.version", 30)];
    assert_eq!(Vec::from_iter(image.finalized()), levels);
    assert_eq!(*open(dir.path()).image().features, *image.features);
}

/// A release that knows the records may go back and forth until the level is raised.
#[test]
fn an_older_log_keeps_its_level_until_it_is_raised_and_its_release_may_come_back() {
    let dir = tempfile::tempdir().unwrap();
    drop(open_as(dir.path(), 1).unwrap());
    let controller = open_as(dir.path(), 2).unwrap();
    assert_eq!(controller.image().record_version(), 1);
    assert_eq!(raise(&controller, 2, true), Ok(()));
    assert_eq!(controller.image().record_version(), 1, "it was validated only");
    drop(controller);
    drop(open_as(dir.path(), 1).unwrap());
    let controller = open_as(dir.path(), 2).unwrap();
    assert_eq!(raise(&controller, 2, false), Ok(()));
    assert_eq!(controller.image().record_version(), 2);
    drop(controller);
    let Err(refused) = open_as(dir.path(), 1) else { panic!("it opens") };
    assert!(refused.to_string().contains("level 2 of kafkalite.record.version, only the levels 1"));
    assert_eq!(open_as(dir.path(), 2).unwrap().image().record_version(), 2);
}
