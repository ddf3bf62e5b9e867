//! Requests that the broker asks of itself, in the place of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use kafkalite_protocol::header::{RequestHeader, response_header_is_flexible};
use kafkalite_protocol::messages::{Request as Message, Wire};
use kafkalite_protocol::primitives::MAX_STRING_BYTES;
use kafkalite_protocol::{ErrorCode, Reader, Writer};
use tokio::sync::oneshot;

use super::bad;
use crate::admin_api::commands::Change;
use crate::admin_api::failed;
use crate::admin_http::Refusal;
use crate::request_queue::{Audience, Lane, Request, RequestContext};
use crate::response_queue::{Piece, Responder, Response};

/// What these requests call themselves.
const CLIENT_ID: &str = "kafkalite-console";
/// The listener they name; none of the network has this name.
const LISTENER: &str = "ADMIN";
/// Each change is a connection of its own: what stops one must not stop those behind it. The
/// network's connections are numbered from 1.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1 << 48);
/// How long a change may take, for requests that say so themselves.
pub(super) const TIMEOUT_MS: i32 = 10_000;
/// How long an answer is waited for: longer than a change may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is said of a change that may have been made, or may be made later.
const NOT_KNOWN: &str = "it is not known whether the change was made";
const LOOK: &str = "look whether the change is there, then try again.";

/// Asks this broker. The answer is its own: what another broker leads or coordinates is refused
/// there, with an error code. No thread is held while the answer is waited for.
pub(super) async fn ask<R: Message + Wire + PartialEq>(
    change: &Change,
    version: i16,
    request: &R,
) -> Result<R::Response, Refusal>
where
    R::Response: Wire,
{
    let body = encoded(request, version)?;
    let (answered, answer) = oneshot::channel();
    let (api, place) = (&change.api, Arc::clone(&change.place));
    let here = ([127, 0, 0, 1], 0).into();
    let connection_id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    let context =
        RequestContext::anonymous((here, here), LISTENER.into(), Audience::Clients, connection_id);
    api.requests.run(Request {
        header: RequestHeader {
            api_key: R::API_KEY as i16,
            api_version: version,
            correlation_id: 0,
            client_id: Some(CLIENT_ID.to_owned()),
        },
        body,
        context: Arc::new(context),
        lane: Lane::Control,
        // The other end is gone if the answer comes too late, or the client went away. The change
        // keeps its place until then.
        responder: Responder::to(R::API_KEY as i16, version, move |response| {
            let _ = answered.send(response);
            drop(place);
        }),
        received_ns: api.clock.monotonic_ns(),
    });
    let Ok(Ok(Response::Pieces(pieces))) = tokio::time::timeout(PATIENCE, answer).await else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            NOT_KNOWN,
            "the broker gave no answer in time, or stops",
            LOOK,
        ));
    };
    let frame = in_memory(&pieces).and_then(|frame| decode::<R>(frame, version));
    frame.ok_or_else(|| failed("its answer cannot be read"))
}

/// The bytes of a frame; `None` if some are in a file.
fn in_memory(pieces: &[Piece]) -> Option<Bytes> {
    let mut frame = BytesMut::new();
    for piece in pieces {
        match piece {
            Piece::Mem(bytes) => frame.extend_from_slice(bytes),
            Piece::File(_) => return None,
        }
    }
    Some(frame.freeze())
}

/// The body of a request. The protocol cuts a text that is too long for it, which would be the name
/// of something else.
fn encoded<R: Message + Wire + PartialEq>(request: &R, version: i16) -> Result<Bytes, Refusal> {
    let mut body = Writer::new();
    request.encode(&mut body, version);
    let body = body.into_bytes();
    let read = R::decode(&mut Reader::new(body.clone()), version);
    if read.is_ok_and(|read| read == *request) {
        return Ok(body);
    }
    let why = format!("a name or a value in it is longer than {MAX_STRING_BYTES} bytes");
    Err(bad("the change is refused", why, "give shorter ones."))
}

fn decode<R: Message>(frame: Bytes, version: i16) -> Option<R::Response>
where
    R::Response: Wire,
{
    let mut reader = Reader::new(frame);
    // The size of the frame, and the correlation id.
    reader.i64().ok()?;
    if response_header_is_flexible(R::API_KEY, version) {
        reader.skip_tags().ok()?;
    }
    R::Response::decode(&mut reader, version).ok()
}

/// An error of Kafka's as a refusal.
pub(super) fn check(what: &str, code: i16, message: Option<String>) -> Result<(), Refusal> {
    let error = ErrorCode::from_code(code);
    let status = match error {
        ErrorCode::None => return Ok(()),
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::GroupIdNotFound => StatusCode::NOT_FOUND,
        _ if is_open(error) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    let why = match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{}: {message}", error.name()),
        None => error.name().to_owned(),
    };
    let what = if is_open(error) { NOT_KNOWN } else { what };
    Err(Refusal::new(status, what, why, hint(error)))
}

/// Whether a change that got this error may still be made.
pub(super) fn is_open(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend)
}

fn hint(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::NotLeaderOrFollower | ErrorCode::NotCoordinator => {
            "ask the admin port of the broker that leads the partition or coordinates the group."
        }
        ErrorCode::UnknownMemberId | ErrorCode::NonEmptyGroup => {
            "stop the members of the group first."
        }
        error if is_open(error) => LOOK,
        error if error.is_retriable() => "try again.",
        _ => "change the request.",
    }
}

#[cfg(test)]
mod tests {
    use kafkalite_protocol::messages::delete_groups::DeleteGroupsRequest;

    use super::*;

    /// Another group has the name that is left of a longer one.
    #[test]
    fn a_name_that_would_be_cut_is_refused() {
        for version in [1, 2] {
            let named = |bytes| DeleteGroupsRequest { groups_names: vec!["g".repeat(bytes)] };
            assert!(encoded(&named(MAX_STRING_BYTES), version).is_ok());
            let refusal = encoded(&named(MAX_STRING_BYTES + 1), version).expect_err("too long");
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        }
    }

    /// The leader has the record, and its followers may get it later.
    #[test]
    fn a_change_that_may_be_made_later_is_not_denied() {
        for error in [ErrorCode::RequestTimedOut, ErrorCode::NotEnoughReplicasAfterAppend] {
            let told = check("the record is not appended", error.code(), None);
            let refusal = told.expect_err("an error");
            assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!((refusal.what.as_str(), refusal.hint.as_str()), (NOT_KNOWN, LOOK));
        }
        let refused =
            check("the record is not appended", ErrorCode::NotEnoughReplicas.code(), None);
        assert_eq!(refused.expect_err("an error").what, "the record is not appended");
    }
}
