//! What stands before the body of every request and response.
//!
//! ```text
//! request  v1: api key i16, api version i16, correlation id i32, client id nullable string (2-byte
//! length)
//!          v2: the same, then tagged fields
//! response v0: correlation id i32        v1: the same, then tagged fields
//! ```
//! Flexible versions use request v2 and response v1. But the answer to ApiVersions is always v0: a
//! client reads it before it knows the broker's versions (KIP-511).

use crate::messages::ApiKey;
use crate::primitives::{DecodeError, Reader, Writer};

/// The header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Kafka's number of the API; it may be one we do not know.
    pub api_key: i16,
    /// The version the body is written in; it may be one we do not serve.
    pub api_version: i16,
    /// The response carries it back.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Reads a header; what follows in `reader` is the body.
    ///
    /// Where key or version are unknown nothing after the client id is read: the header's own
    /// version is unknown too.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let api_key = reader.i16()?;
        let api_version = reader.i16()?;
        let correlation_id = reader.i32()?;
        let client_id = reader.nullable_string(false, true)?;
        let header = Self { api_key, api_version, correlation_id, client_id };
        if let Some(api) = header.api()
            && api.versions().contains(api_version)
            && api_version >= api.flexible_from()
        {
            reader.skip_tags()?;
        }
        Ok(header)
    }

    /// Writes the header.
    pub fn encode(&self, writer: &mut Writer) {
        writer.i16(self.api_key);
        writer.i16(self.api_version);
        writer.i32(self.correlation_id);
        match &self.client_id {
            Some(client_id) => writer.string(client_id, false),
            None => writer.null_string(false),
        }
        if self.api().is_some_and(|api| self.api_version >= api.flexible_from()) {
            writer.unsigned_varint(0);
        }
    }

    /// The API, if this codec knows it.
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_i16(self.api_key)
    }
}

/// Whether the response to `version` of `api` has tagged fields in its header.
pub fn response_header_is_flexible(api: ApiKey, version: i16) -> bool {
    api != ApiKey::ApiVersions && version >= api.flexible_from()
}

/// Starts a response frame: four bytes for its size (see [`Writer::patch_size`]) and the header.
pub fn begin_response(api: ApiKey, version: i16, correlation_id: i32) -> Writer {
    let mut writer = Writer::new();
    writer.i32(0);
    writer.i32(correlation_id);
    if response_header_is_flexible(api, version) {
        writer.unsigned_varint(0);
    }
    writer
}

#[cfg(test)]
mod tests;
