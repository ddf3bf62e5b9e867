//! UpdateFeatures: raise or lower the finalized levels of features, all or none.
//!
//! As in Kafka the request's time limit does not count: the controller ends what it began.
//! Source: Kafka's `ControllerApis.handleUpdateFeatures` and `QuorumController.updateFeatures`;
//! KIP-584, KIP-778, KIP-1022.

use super::parked_change::{NO_TIMEOUT_MS, park};
use super::{Call, Rooms};
use crate::metadata::controller::{FeatureUpdate, OnAnswer, UpgradeType};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::update_features::{
    UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<UpdateFeaturesRequest>) {
    let Call { request, reply } = call;
    let names = request.feature_updates.iter().map(|one| one.feature.clone());
    let names: Vec<String> = names.filter(|_| reply.version <= 1).collect();
    let updates = request.feature_updates.into_iter().map(|one| FeatureUpdate {
        feature: one.feature,
        level: one.max_version_level,
        // Version 0 has its own flag for downgrades, which Kafka does not look at.
        upgrade_type: UpgradeType::from_code(one.upgrade_type),
    });
    let updates: Vec<FeatureUpdate> = updates.collect();
    let ask = |done: OnAnswer<()>| {
        rooms.controller.update_features(updates, request.validate_only, done);
    };
    park(rooms, reply.memory_bytes, NO_TIMEOUT_MS, ask, move |answer| {
        let error = answer.and_then(|answer| answer).err();
        // As in Kafka the answer has one error for all of them.
        let names = names.into_iter().filter(|_| error.is_none());
        let results = names.map(|feature| UpdatableFeatureResult {
            feature,
            error_code: 0,
            error_message: Some(ErrorCode::None.name().to_owned()),
        });
        reply.send(&UpdateFeaturesResponse {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            results: results.collect(),
            error_message: error.and_then(|error| error.message),
            ..UpdateFeaturesResponse::default()
        });
    });
}
