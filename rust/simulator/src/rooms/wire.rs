//! Requests and answers of the real rooms, as the bytes of the protocol, without a socket.

use bytes::Bytes;
use kafkalite_broker::request_queue::{Audience, Lane, Request as Queued, RequestContext};
use kafkalite_broker::response_queue::{Piece, Responder, Response};
use kafkalite_protocol::header::{RequestHeader, response_header_is_flexible};
use kafkalite_protocol::messages::{Request, Wire};
use kafkalite_protocol::{Reader, Writer};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Call {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// The version that the body is written in.
    pub version: i16,
    /// What follows the header.
    pub body: Bytes,
    /// Whether another broker asks.
    pub is_of_broker: bool,
}

impl Call {
    /// A request of a client.
    pub fn new<R: Request>(request: &R, version: i16) -> Self {
        let mut writer = Writer::new();
        request.encode(&mut writer, version);
        let (api_key, body) = (R::API_KEY as i16, writer.into_bytes());
        Self { api_key, version, body, is_of_broker: false }
    }

    /// A request of another broker, in the newest version.
    pub fn of_broker<R: Request>(request: &R) -> Self {
        Self { is_of_broker: true, ..Self::new(request, R::VERSIONS.max) }
    }
}

/// Answers by request; `None` is a connection that was closed.
pub type Mailbox = Arc<Mutex<Vec<(u64, Option<Bytes>)>>>;

/// The request as a handler gets it. Its answer goes into the mailbox.
#[must_use]
pub fn queued(id: u64, call: Call, mailbox: &Mailbox, received_ns: u64) -> Queued {
    let Call { api_key, version: api_version, body, is_of_broker } = call;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let (audience, lane) = match is_of_broker {
        true => (Audience::Brokers, Lane::Brokers),
        false => (Audience::Clients, Lane::Data),
    };
    let context = RequestContext::anonymous((nowhere, nowhere), "rooms".into(), audience, id);
    let mailbox = Arc::clone(mailbox);
    let receive = move |response| mailbox.lock().push((id, bytes_of(response)));
    let client_id = Some("simulator".to_owned());
    Queued {
        header: RequestHeader { api_key, api_version, correlation_id: 0, client_id },
        body,
        context: Arc::new(context),
        lane,
        responder: Responder::to(api_key, api_version, receive),
        received_ns,
    }
}

/// The bytes that a network thread would send.
fn bytes_of(response: Response) -> Option<Bytes> {
    let Response::Pieces(pieces) = response else { return None };
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Mem(memory) => bytes.extend_from_slice(&memory),
            Piece::File(slice) => {
                let read = slice.read().ok().filter(|read| read.len() == slice.length as usize);
                bytes.extend_from_slice(&read?);
            }
        }
    }
    Some(Bytes::from(bytes))
}

/// The response in an answer; `None` if it does not parse.
#[must_use]
pub fn decode<R: Request>(version: i16, bytes: Bytes) -> Option<R::Response> {
    let mut reader = Reader::new(bytes);
    reader.i32().ok()?;
    reader.i32().ok()?;
    if response_header_is_flexible(R::API_KEY, version) {
        reader.skip_tags().ok()?;
    }
    R::Response::decode(&mut reader, version).ok()
}
