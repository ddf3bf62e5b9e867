//! Levels of features, of one broker and of brokers of two releases.

use super::*;
use kafkalite_broker::broker::{Environment, StartError};
use kafkalite_protocol::messages::api_versions::ApiVersionsRequest;
use kafkalite_protocol::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};
use std::path::Path;

const RECORDS: &str = "kafkalite.record.version";
const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;

/// A broker of the release that supports records up to this level.
fn of_release(
    directory: &Path,
    settings: &[(&str, &str)],
    record_version: i16,
) -> Result<Broker, StartError> {
    let config = client::config(directory, settings);
    let environment = Environment::of(&config).of_release(Some(record_version));
    Broker::start_in(config, environment)
}

fn update(level: i16, upgrade_type: i8) -> UpdateFeaturesRequest {
    let update = FeatureUpdateKey {
        feature: RECORDS.to_owned(),
        max_version_level: level,
        upgrade_type,
        ..FeatureUpdateKey::default()
    };
    UpdateFeaturesRequest { feature_updates: vec![update], ..UpdateFeaturesRequest::default() }
}

/// Name, supported levels and finalized level of each feature, as ApiVersions says them.
fn told(broker: &Broker) -> Vec<(String, (i16, i16), i16)> {
    let request = ApiVersionsRequest {
        client_software_name: "x".to_owned(),
        client_software_version: "1".to_owned(),
    };
    let answer = Client::connect(broker).call(&request, 4);
    assert!(answer.finalized_features_epoch >= 0);
    let level = |name: &str| {
        let found = answer.finalized_features.iter().find(|one| one.name == name).unwrap();
        assert_eq!(found.min_version_level, found.max_version_level);
        found.max_version_level
    };
    let supported = answer.supported_features.iter();
    let supported = supported
        .map(|one| (one.name.clone(), (one.min_version, one.max_version), level(&one.name)));
    supported.collect()
}

fn levels(records: ((i16, i16), i16)) -> Vec<(String, (i16, i16), i16)> {
    let (range, level) = records;
    vec![(RECORDS.to_owned(), range, level), ("metadata.version".to_owned(), (7, 30), 30)]
}

#[test]
fn a_new_broker_tells_the_levels_that_it_supports_and_has() {
    let fixture = Fixture::new();
    assert_eq!(told(&fixture.broker), levels(((1, 2), 2)));
}

#[test]
fn each_version_tells_an_error_once_and_a_success_for_each_feature() {
    let mut fixture = Fixture::new();
    let code = ErrorCode::InvalidUpdateVersion.code();
    for version in 0..=2 {
        let answer = fixture.call(&update(99, UPGRADE), version);
        assert_eq!(answer.error_code, code);
        assert!(answer.error_message.unwrap().ends_with("only supports versions 1-2"));
        assert_eq!(answer.results, [], "v{version}");
        let answer = fixture.call(&update(2, UPGRADE), version);
        assert_eq!((answer.error_code, answer.error_message), (0, None));
        let results: Vec<_> =
            answer.results.iter().map(|one| (&*one.feature, one.error_code)).collect();
        let expected: &[_] = if version < 2 { &[(RECORDS, 0)] } else { &[] };
        assert_eq!(results, expected, "v{version}");
    }
    assert_eq!(fixture.call(&update(2, SAFE_DOWNGRADE), 2).error_code, 0);
    assert_eq!(fixture.call(&update(1, SAFE_DOWNGRADE), 2).error_code, code);
}

/// A rolling upgrade: both releases serve, and the level goes up when the last broker is new. From
/// then on an old one is refused and says why.
#[test]
fn old_and_new_brokers_mix_until_the_level_is_raised() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = of_release(directories[0].path(), &[], 1).unwrap();
    let address = first.listeners()[0].1.to_string();
    let join = [("kafkalite.join", address.as_str())];
    let second = of_release(directories[1].path(), &join, 1).unwrap();
    let settled = |brokers: &[&Broker]| {
        let sees = |broker: &&Broker| broker.rooms().controller.image().alive_brokers().count();
        awaited::until("all serve", || brokers.iter().all(|one| sees(one) == brokers.len()));
    };
    settled(&[&first, &second]);
    assert_eq!(told(&second), levels(((1, 1), 1)));
    // The second one is upgraded.
    let place = format!("PLAINTEXT://{}", second.listeners()[0].1);
    second.stop();
    drop(second);
    let second = of_release(directories[1].path(), &[("listeners", &place)], 2).unwrap();
    settled(&[&first, &second]);
    client::create_topic(&second, "of-both", 1, &[]);
    assert_eq!(told(&second), levels(((1, 2), 1)));
    let refused = Client::connect(&second).call(&update(2, UPGRADE), 2);
    assert!(refused.error_message.unwrap().contains("controller 1 only supports versions 1"));
    // The first one too.
    let place = format!("PLAINTEXT://{address}");
    first.stop();
    drop(first);
    let first = of_release(directories[0].path(), &[("listeners", &place)], 2).unwrap();
    settled(&[&first, &second]);
    assert_eq!(Client::connect(&second).call(&update(2, UPGRADE), 2).error_code, 0);
    awaited::until("the other broker knows", || told(&first) == levels(((1, 2), 2)));
    client::create_topic(&first, "of-the-new", 1, &[]);
    // An old one that comes back, and an old one that comes for the first time.
    let place = format!("PLAINTEXT://{}", second.listeners()[0].1);
    second.stop();
    drop(second);
    for (directory, setting) in
        [(&directories[1], ("listeners", place.as_str())), (&directories[2], join[0])]
    {
        let Err(refused) = of_release(directory.path(), &[setting], 1) else { panic!("it starts") };
        assert!(refused.is_of_another_release(), "{refused}");
        let words = refused.to_string();
        assert!(
            words.contains("level 2 of kafkalite.record.version, only the levels 1"),
            "{words}"
        );
    }
    let second = of_release(directories[1].path(), &[("listeners", &place)], 2).unwrap();
    settled(&[&first, &second]);
    assert!(second.rooms().controller.image().topic("of-the-new").is_some());
}
