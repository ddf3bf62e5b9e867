//! Requests that the broker asks of itself, in the place of a client.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use kafkalite_protocol::header::{RequestHeader, response_header_is_flexible};
use kafkalite_protocol::messages::{Request as Message, Wire};
use kafkalite_protocol::{ErrorCode, Reader, Writer};

use crate::admin_api::{AdminApi, failed};
use crate::admin_http::Refusal;
use crate::request_queue::{Audience, Lane, Request, RequestContext};
use crate::response_queue::{Piece, Responder, Response};

/// What these requests call themselves.
const CLIENT_ID: &str = "kafkalite-console";
/// The listener they name; none of the network has this name.
const LISTENER: &str = "ADMIN";
/// How long a change may take, for requests that say so themselves.
pub(super) const TIMEOUT_MS: i32 = 10_000;
/// How long an answer is waited for: longer than a change may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Asks this broker. The answer is its own: what another broker leads or coordinates is refused
/// there, with an error code.
pub(super) fn ask<R: Message + Wire>(
    api: &AdminApi,
    version: i16,
    request: &R,
) -> Result<R::Response, Refusal>
where
    R::Response: Wire,
{
    let (answered, answer) = mpsc::sync_channel(1);
    let mut body = Writer::new();
    request.encode(&mut body, version);
    let here = ([127, 0, 0, 1], 0).into();
    let context = RequestContext::anonymous((here, here), LISTENER.into(), Audience::Clients, 0);
    api.requests.run(Request {
        header: RequestHeader {
            api_key: R::API_KEY as i16,
            api_version: version,
            correlation_id: 0,
            client_id: Some(CLIENT_ID.to_owned()),
        },
        body: body.into_bytes(),
        context: Arc::new(context),
        lane: Lane::Control,
        // The other end is gone if the answer comes too late.
        responder: Responder::to(R::API_KEY as i16, version, move |response| {
            let _ = answered.send(response);
        }),
        received_ns: api.clock.monotonic_ns(),
    });
    let Ok(Response::Pieces(pieces)) = answer.recv_timeout(PATIENCE) else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "it is not known whether the change was made",
            "the broker gave no answer in time, or stops",
            "look whether the change is there, then try again.",
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
        ErrorCode::RequestTimedOut => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    let why = match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{}: {message}", error.name()),
        None => error.name().to_owned(),
    };
    Err(Refusal::new(status, what, why, hint(error)))
}

fn hint(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::NotLeaderOrFollower | ErrorCode::NotCoordinator => {
            "ask the admin port of the broker that leads the partition or coordinates the group."
        }
        ErrorCode::UnknownMemberId | ErrorCode::NonEmptyGroup => {
            "stop the members of the group first."
        }
        error if error.is_retriable() => "try again.",
        _ => "change the request.",
    }
}
