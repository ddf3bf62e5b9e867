//! What a client hears when a handler panicked: UNKNOWN_SERVER_ERROR, and its connection goes on.
//!
//! - case A: the response of this version has an error of its own, and carries it
//! - case B: it has not; then everything the request names is echoed with the error
//! - case C: neither, or the request cannot be read any more: the connection is closed
//!
//! Source: `getErrorResponse` of Kafka's requests.

use super::{Call, Rooms, frame};
use crate::response_queue::{Response, Slot};
use bytes::Bytes;
use kafkalite_protocol::messages::{Request, Wire};
use kafkalite_protocol::{ErrorCode, Reader};

mod echo;
#[cfg(test)]
mod tests;

/// The code of everything here.
const ERROR: i16 = ErrorCode::UnknownServerError.code();

/// How an API says that something went wrong of which nobody knows more.
pub(super) trait Panicked: Request {
    /// Case A; `None` where `version` has no place for it.
    fn whole(_version: i16) -> Option<Self::Response> {
        None
    }

    /// Cases A and B.
    fn answer(&self, version: i16) -> Option<Self::Response> {
        Self::whole(version)
    }
}

/// The response to the request of `slot`; `body` is known while its handler runs. `_handler` names
/// the API.
pub(super) fn respond<R: Panicked>(
    _handler: fn(&Rooms, Call<R>),
    slot: &Slot,
    body: Option<Bytes>,
) -> Option<Response>
where
    R::Response: Wire,
{
    let version = slot.api_version;
    let request = body.and_then(|body| R::decode(&mut Reader::of_request(body), version).ok());
    let response = match request {
        Some(request) => request.answer(version),
        None => R::whole(version),
    };
    let framed = |response| frame(R::API_KEY, version, slot.correlation_id, &response);
    response.map(framed).map(Response::frame)
}
