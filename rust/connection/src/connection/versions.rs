//! What a broker serves, and what of it both sides speak.

use kafkalite_protocol::messages::api_versions::{ApiVersionsResponse, FinalizedFeatureKey};
use kafkalite_protocol::messages::{ApiKey, Request, Wire};
use kafkalite_protocol::{ErrorCode, Reader, VersionRange};
use std::collections::HashMap;

/// A broker's answer to ApiVersions.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    served: HashMap<i16, VersionRange>,
    features: Vec<FinalizedFeatureKey>,
}

impl Versions {
    /// From a successful answer.
    pub fn new(response: ApiVersionsResponse) -> Self {
        let served = response.api_keys.iter();
        let served = served
            .map(|api| (api.api_key, VersionRange { min: api.min_version, max: api.max_version }));
        Self { served: served.collect(), features: response.finalized_features }
    }

    /// The versions of `api` that the broker serves.
    pub fn served(&self, api: ApiKey) -> Option<VersionRange> {
        self.served.get(&(api as i16)).copied()
    }

    /// The newest version of `R` that both sides speak, `most` at most.
    pub fn agreed<R: Request>(&self, most: i16) -> Option<i16> {
        let served = self.served(R::API_KEY)?;
        let version = served.max.min(R::VERSIONS.max).min(most);
        (version >= served.min.max(R::VERSIONS.min)).then_some(version)
    }

    /// The level of a feature that the cluster has finalized; 0 for one it has not.
    pub fn feature(&self, name: &str) -> i16 {
        let found = self.features.iter().find(|feature| feature.name == name);
        found.map_or(0, |feature| feature.max_version_level)
    }
}

/// What the first answer of a connection says.
pub enum Answer {
    /// The versions.
    Served(Versions),
    /// Ask again in this version (KIP-511): the broker does not serve the one that was asked in.
    AskIn(i16),
    /// An error.
    Refused(ErrorCode),
}

/// Reads the body of an answer to ApiVersions that was asked in `version`.
///
/// A broker that does not serve `version` answers in the form of version 0, with error 35 and its
/// own range of ApiVersions. Brokers before Kafka 2.4 leave the range out, and serve version 0.
pub fn read_answer(reader: Reader, version: i16) -> Result<Answer, String> {
    let unsupported = ErrorCode::UnsupportedVersion as i16;
    let code = reader.clone().i16().map_err(|error| error.to_string())?;
    let form = if code == unsupported { 0 } else { version };
    let response = ApiVersionsResponse::decode(&mut reader.clone(), form);
    let response = match response {
        Ok(response) => response,
        // An answer that says no more than the error is one of version 0 cut short.
        Err(_) if code == unsupported => {
            ApiVersionsResponse { error_code: code, ..Default::default() }
        }
        Err(error) => return Err(error.to_string()),
    };
    if code == unsupported {
        let key = ApiKey::ApiVersions as i16;
        let range = response.api_keys.iter().find(|api| api.api_key == key);
        let most = range.map_or(0, |range| range.max_version);
        // Asking in the same version again would never end.
        return Ok(if version == 0 {
            Answer::Refused(ErrorCode::UnsupportedVersion)
        } else {
            Answer::AskIn(most.clamp(0, version - 1))
        });
    }
    if code != 0 {
        return Ok(Answer::Refused(ErrorCode::from_code(code)));
    }
    Ok(Answer::Served(Versions::new(response)))
}

#[cfg(test)]
mod tests;
