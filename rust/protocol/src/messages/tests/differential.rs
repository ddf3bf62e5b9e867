//! A second codec as the judge: what we write, the crate `kafka-protocol` reads, writes again, and
//! the bytes agree.
//!
//! It is older than Kafka 4.3 and has faults of its own; `EXCLUDED` lists both, each with its
//! reason.

use super::*;
use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey as TheirKey, RequestKind, ResponseKind};

/// (key, kind, versions from, to, why)
const EXCLUDED: &[(ApiKey, &str, i16, i16, &str)] = &[
    (ApiKey::ListOffsets, "request", 11, 11, "newer than the crate"),
    (ApiKey::ListOffsets, "response", 11, 11, "newer than the crate"),
    (ApiKey::OffsetCommit, "request", 10, 10, "the crate ends at 9, its response at 10"),
    (ApiKey::OffsetFetch, "request", 10, 10, "the crate ends at 9, its response at 10"),
    (ApiKey::DescribeLogDirs, "request", 5, 5, "newer than the crate"),
    (ApiKey::DescribeLogDirs, "response", 5, 5, "newer than the crate"),
    (ApiKey::AddRaftVoter, "request", 1, 1, "newer than the crate"),
    (ApiKey::AddRaftVoter, "response", 1, 1, "newer than the crate"),
    (ApiKey::Quorum, "request", 0, 0, "kafkalite's own"),
    (ApiKey::Quorum, "response", 0, 0, "kafkalite's own"),
    (ApiKey::ProposeRecords, "request", 0, 0, "kafkalite's own"),
    (ApiKey::ProposeRecords, "response", 0, 0, "kafkalite's own"),
    (ApiKey::JoinCluster, "request", 0, 0, "kafkalite's own"),
    (ApiKey::JoinCluster, "response", 0, 0, "kafkalite's own"),
    (ApiKey::DescribeFigures, "request", 0, 0, "kafkalite's own"),
    (ApiKey::DescribeFigures, "response", 0, 0, "kafkalite's own"),
];

fn excluded(api: ApiKey, kind: &str, version: i16) -> bool {
    EXCLUDED.iter().any(|(key, of, from, to, _)| {
        *key == api && *of == kind && (*from..=*to).contains(&version)
    })
}

fn theirs(api: ApiKey, kind: &str, version: i16, ours: Bytes) -> Result<Bytes, String> {
    let key = TheirKey::try_from(api as i16).map_err(|()| "unknown key".to_owned())?;
    let (mut input, mut out) = (ours, BytesMut::new());
    let done = if kind == "request" {
        RequestKind::decode(key, &mut input, version)
            .and_then(|message| message.encode(&mut out, version))
    } else {
        ResponseKind::decode(key, &mut input, version)
            .and_then(|message| message.encode(&mut out, version))
    };
    done.map_err(|error| error.to_string())?;
    if !input.is_empty() {
        return Err(format!("{} bytes left over", input.len()));
    }
    Ok(out.freeze())
}

/// Adds a line to `failures` for every version of `T` on which the codecs disagree without an
/// excuse.
fn compare<T: Versioned + Sample + Default>(
    failures: &mut Vec<String>,
    api: ApiKey,
    kind: &'static str,
) {
    for version in T::VERSIONS.min..=T::VERSIONS.max {
        let disagreement = (0..40).find_map(|round| {
            let value = match round {
                0 => T::default(),
                _ => T::sample(&mut Generator(round << 32 | version as u64), version),
            };
            let mut writer = Writer::new();
            value.encode(&mut writer, version);
            let ours = writer.into_bytes();
            match theirs(api, kind, version, ours.clone()) {
                Ok(bytes) if bytes == ours => None,
                Ok(bytes) => Some(format!("\n  ours   {ours:02x?}\n  theirs {bytes:02x?}")),
                Err(error) => Some(error),
            }
        });
        // An excuse that is no longer needed has to go, or it would hide the next fault.
        match (disagreement, excluded(api, kind, version)) {
            (Some(why), false) => failures.push(format!("{} v{version} {kind}: {why}", api.name())),
            (None, true) => failures.push(format!("{} v{version} {kind} agrees", api.name())),
            _ => {}
        }
    }
}

#[test]
fn another_codec_reads_what_we_write_and_writes_the_same() {
    let mut failures = Vec::new();
    macro_rules! run {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            compare::<$module::$request>(&mut failures, ApiKey::$key, "request");
            compare::<$module::$response>(&mut failures, ApiKey::$key, "response");
        };
    }
    for_each_api!(run);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
