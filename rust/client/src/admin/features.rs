//! Features of a cluster: the levels that a broker supports, and those that are finalized.

use super::{Admin, timeout_ms};
use crate::error::ClientError;
use kafkalite_connection::{NodeId, api_versions_request};
use kafkalite_protocol::messages::api_versions::ApiVersionsResponse;
use kafkalite_protocol::messages::update_features::{
    FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version 0 has no upgrade types, and cannot only validate.
const UPGRADE_TYPES_FROM: i16 = 1;

/// The features, as one broker tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureMetadata {
    /// The offset of the metadata that the finalized levels are from, if the broker tells.
    pub epoch: Option<i64>,
    /// By name.
    pub features: BTreeMap<String, FeatureLevels>,
}

/// The levels of a feature; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureLevels {
    /// It counts for the whole cluster.
    pub finalized: i16,
    /// The least that the broker supports.
    pub min_supported: i16,
    /// The greatest that the broker supports.
    pub max_supported: i16,
}

/// Which way levels may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeType {
    /// Up.
    Upgrade = 1,
    /// Down, unless metadata are lost by that.
    SafeDowngrade = 2,
    /// Down, also if metadata are lost by that.
    UnsafeDowngrade = 3,
}

impl Admin {
    /// The features, as `broker` tells them; any broker for `None`.
    pub async fn describe_features(
        &self,
        broker: Option<NodeId>,
        limit: Option<Duration>,
    ) -> Result<FeatureMetadata, ClientError> {
        self.retry("describing features", self.deadline(limit), || async move {
            let answer = match broker {
                Some(node) => self.cluster.send(node, |_| api_versions_request()).await,
                None => self.cluster.send_to_some(|_| api_versions_request()).await,
            };
            described(answer?.1)
        })
        .await
    }

    /// Finalizes other levels: all of them, or none if there is an error.
    pub async fn update_features(
        &self,
        levels: BTreeMap<String, i16>,
        upgrade_type: UpgradeType,
        validate_only: bool,
        limit: Option<Duration>,
    ) -> Result<(), ClientError> {
        let deadline = self.deadline(limit);
        let update = |(feature, level): (&String, &i16)| FeatureUpdateKey {
            feature: feature.clone(),
            max_version_level: *level,
            upgrade_type: upgrade_type as i8,
            ..FeatureUpdateKey::default()
        };
        let updates: Vec<FeatureUpdateKey> = levels.iter().map(update).collect();
        let updates = &updates;
        self.retry("updating features", deadline, || async move {
            // An older broker would take a validation for a change.
            self.check_serves::<UpdateFeaturesRequest>(UPGRADE_TYPES_FROM).await?;
            let request = UpdateFeaturesRequest {
                timeout_ms: timeout_ms(deadline),
                feature_updates: updates.clone(),
                validate_only,
            };
            updated(self.to_controller(|_| request).await?)
        })
        .await
    }
}

fn described(response: ApiVersionsResponse) -> Result<FeatureMetadata, ClientError> {
    ClientError::check(response.error_code, None, || "describing features".to_owned())?;
    let mut features: BTreeMap<String, FeatureLevels> = BTreeMap::new();
    for supported in response.supported_features {
        let levels = features.entry(supported.name).or_default();
        (levels.min_supported, levels.max_supported) =
            (supported.min_version, supported.max_version);
    }
    for finalized in response.finalized_features {
        features.entry(finalized.name).or_default().finalized = finalized.max_version_level;
    }
    let epoch = Some(response.finalized_features_epoch).filter(|epoch| *epoch >= 0);
    Ok(FeatureMetadata { epoch, features })
}

/// Up to version 1 each feature has an error of its own.
fn updated(response: UpdateFeaturesResponse) -> Result<(), ClientError> {
    let about = || "updating features".to_owned();
    ClientError::check(response.error_code, response.error_message.as_deref(), about)?;
    for told in response.results {
        let message = told.error_message.as_deref();
        ClientError::check(told.error_code, message, || format!("feature {}", told.feature))?;
    }
    Ok(())
}
