//! The first exchange: which versions does the broker serve?

use super::shared::Shared;
use super::versions::{Answer, Versions, read_answer};
use crate::error::ConnectionError;
use kafkalite_protocol::Reader;
use kafkalite_protocol::messages::Versioned;
use kafkalite_protocol::messages::api_versions::ApiVersionsRequest;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How brokers count clients (KIP-511); of letters, digits, dots and dashes.
const SOFTWARE_NAME: &str = "kafkalite";

/// A question for versions and features.
pub fn api_versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: SOFTWARE_NAME.to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Asks in our newest version, and again in the broker's newest where that is older.
pub async fn ask_versions(
    shared: &Arc<Shared>,
    limit: Duration,
) -> Result<Versions, ConnectionError> {
    let deadline = Instant::now() + limit;
    let request = api_versions_request();
    let mut version = ApiVersionsRequest::VERSIONS.max;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut reply = shared.send(&request, version, left);
        let body = poll_fn(|cx| reply.poll_body(cx)).await?;
        match read_answer(Reader::new(body), version) {
            Ok(Answer::Served(versions)) => return Ok(versions),
            Ok(Answer::AskIn(older)) => version = older,
            Ok(Answer::Refused(code)) => {
                return Err(ConnectionError::refused(
                    code,
                    format!("ApiVersions of {}", shared.address),
                ));
            }
            Err(why) => return Err(shared.malformed(format!("an answer to ApiVersions: {why}"))),
        }
    }
}
