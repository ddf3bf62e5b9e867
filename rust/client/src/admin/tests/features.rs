//! Features: described by ApiVersions, changed by UpdateFeatures.

use super::{Answer, ErrorCode, FakeBroker, run};
use crate::admin::{FeatureLevels, UpgradeType};
use crate::error::ClientError;
use kafkalite_connection::testing::{Asked, all_apis};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::api_versions::{
    ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafkalite_protocol::messages::update_features::{
    UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use std::collections::BTreeMap;

/// A broker that has UpdateFeatures up to this version, and these features.
fn apis_up_to(version: i16, features: ApiVersionsResponse) -> ApiVersionsResponse {
    let mut api_keys = all_apis().api_keys;
    for api in &mut api_keys {
        if api.api_key == ApiKey::UpdateFeatures as i16 {
            api.max_version = version;
        }
    }
    ApiVersionsResponse { api_keys, ..features }
}

fn levels(pairs: [(&str, i16); 1]) -> BTreeMap<String, i16> {
    pairs.into_iter().map(|(name, level)| (name.to_owned(), level)).collect()
}

/// A broker whose answers to UpdateFeatures are those of `answer`.
fn updating(
    version: i16,
    answer: impl Fn(&Asked) -> UpdateFeaturesResponse + Send + Sync + 'static,
) -> FakeBroker {
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ApiVersions) {
            let told = apis_up_to(version, ApiVersionsResponse::default());
            asked.answer::<ApiVersionsRequest>(&told)
        } else if asked.is(ApiKey::UpdateFeatures) {
            asked.answer::<UpdateFeaturesRequest>(&answer(asked))
        } else {
            Answer::Usual
        }
    })
}

#[test]
fn a_feature_has_the_level_that_counts_and_those_that_the_broker_supports() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::ApiVersions) {
            return Answer::Usual;
        }
        let supported = |name: &str, min_version, max_version| SupportedFeatureKey {
            name: name.to_owned(),
            min_version,
            max_version,
        };
        let finalized = |name: &str, level| FinalizedFeatureKey {
            name: name.to_owned(),
            max_version_level: level,
            min_version_level: level,
        };
        let features = ApiVersionsResponse {
            supported_features: vec![supported("a", 7, 30), supported("b", 0, 2)],
            finalized_features: vec![finalized("a", 29), finalized("c", 4)],
            finalized_features_epoch: 12,
            ..ApiVersionsResponse::default()
        };
        asked.answer::<ApiVersionsRequest>(&apis_up_to(2, features))
    });
    let told = run(&broker, |admin| async move { admin.describe_features(None, None).await });
    let told = told.expect("the way there is good");
    let levels = |finalized, min_supported, max_supported| FeatureLevels {
        finalized,
        min_supported,
        max_supported,
    };
    let expected = [("a", levels(29, 7, 30)), ("b", levels(0, 0, 2)), ("c", levels(4, 0, 0))];
    let expected = expected.map(|(name, levels)| (name.to_owned(), levels));
    assert_eq!((told.epoch, told.features), (Some(12), expected.into()));
}

#[test]
fn a_change_of_levels_is_asked_again_if_the_controller_moved() {
    let broker = updating(2, |asked| {
        let request: UpdateFeaturesRequest = asked.read();
        let update = &request.feature_updates[0];
        let asked_for = (update.feature.as_str(), update.max_version_level, update.upgrade_type);
        assert_eq!((asked_for, request.validate_only), (("a", 3, 2), true));
        let moved = if asked.before == 0 { ErrorCode::NotController } else { ErrorCode::None };
        UpdateFeaturesResponse { error_code: moved as i16, ..Default::default() }
    });
    let told = run(&broker, |admin| async move {
        admin.update_features(levels([("a", 3)]), UpgradeType::SafeDowngrade, true, None).await
    });
    assert_eq!((told, broker.count(ApiKey::UpdateFeatures)), (Ok(()), 2));
}

#[test]
fn an_older_broker_names_the_feature_that_it_refuses() {
    let broker = updating(1, |_| {
        let refused = UpdatableFeatureResult {
            feature: "a".to_owned(),
            error_code: ErrorCode::InvalidUpdateVersion as i16,
            error_message: Some("too high".to_owned()),
        };
        UpdateFeaturesResponse { results: vec![refused], ..Default::default() }
    });
    let told = run(&broker, |admin| async move {
        admin.update_features(levels([("a", 3)]), UpgradeType::Upgrade, false, None).await
    });
    let error = told.expect_err("it is refused");
    assert_eq!(error.code(), Some(ErrorCode::InvalidUpdateVersion));
    let text = error.to_string();
    assert!(text.contains("feature a") && text.contains("too high"), "{text}");
}

#[test]
fn a_broker_that_cannot_only_validate_is_not_asked_to() {
    let broker = updating(0, |_| UpdateFeaturesResponse::default());
    let told = run(&broker, |admin| async move {
        admin.update_features(levels([("a", 3)]), UpgradeType::Upgrade, true, None).await
    });
    assert!(matches!(told, Err(ClientError::UnsupportedVersion { .. })), "{told:?}");
    assert_eq!(broker.count(ApiKey::UpdateFeatures), 0);
}
