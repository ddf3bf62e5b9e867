//! Notes each request of a client, and each answer, while the broker is under test.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kafkalite_protocol::Uuid;

use super::TestControl;
use super::api::{self, Api, Head};
use super::fault::Fault;
use super::faulted::Named;
use super::seen::{Began, End, Failed, Hit, Part, Seen, Watched};
use super::spec::Kind;
use super::told::WHOLE;
use crate::clock::Clock;
use crate::handlers::Rooms;
use crate::metadata::MetadataImage;
use crate::request_queue::{Request, clipped};
use crate::response_queue::{Responder, Response};

/// A request that is noted as open. Dropping this ends the note, also after a panic.
struct Open {
    watched: Arc<Watched>,
    seen: Arc<Seen>,
    clock: Arc<dyn Clock>,
}

impl Open {
    fn end(&self, end: End, outcomes: Vec<Failed>) {
        self.watched.end(&self.seen, end, outcomes, self.clock.monotonic_ns());
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(End::Closed, Vec::new());
    }
}

/// How faults treat the API of a request; `None`: they leave it alone, or its version is unknown.
pub(super) fn known(request: &Request) -> Option<(Head, &'static dyn Api)> {
    let header = &request.header;
    let (version, correlation_id) = (header.api_version, header.correlation_id);
    let api = header.api().filter(|api| api.versions().contains(version))?;
    Some((Head { api, version, correlation_id }, api::of(api)?))
}

/// A topic or partition as people know it.
fn part((name, id, partition): Named, image: &MetadataImage) -> Part {
    let named = (!name.is_empty()).then(|| Arc::from(name));
    let of_id = || match image.topic_by_id(id) {
        Some(topic) => Arc::clone(&topic.name),
        None => Arc::from(id.to_string()),
    };
    let topic = named.or_else(|| (id != Uuid::ZERO).then(of_id));
    Part { topic, partition: (partition != WHOLE).then_some(partition) }
}

impl TestControl {
    /// Notes a request, and has its answer noted. What a broker sent is left alone.
    pub(super) fn note(
        self: &Arc<Self>,
        rooms: &Rooms,
        request: Request,
    ) -> (Request, Option<Arc<Seen>>) {
        let Some((head, known)) = known(&request) else { return (request, None) };
        let Some(asked) = known.tells(&request.body, head.version) else {
            return (request, None);
        };
        let image = rooms.controller.image();
        let client_id = request.header.client_id.as_deref();
        let watched = Watched::of(&request.context);
        let began = Began {
            number: self.next_request.fetch_add(1, Ordering::Relaxed) + 1,
            api: head.api,
            version: head.version,
            correlation_id: head.correlation_id,
            client_id: client_id.map(|id| Arc::from(clipped(id))),
            received_ns: request.received_ns,
            started_ns: self.clock.monotonic_ns(),
            wall_ms: self.clock.wall_ms(),
            parts: asked.parts.into_iter().map(|named| part(named, &image)).collect(),
            group: asked.groups.into_iter().next(),
            member: asked.member,
        };
        let seen = Arc::new(Seen::new(&request.context, began));
        watched.begin(&seen);
        self.recordings.keep(&seen);
        let open = Open { watched, seen: Arc::clone(&seen), clock: self.clock() };
        let control = Arc::downgrade(self);
        let Request { header, body, context, lane, responder: back, received_ns } = request;
        let (api_key, version) = (header.api_key, header.api_version);
        let responder = Responder::to(api_key, version, move |answer| {
            // Before the answer goes out: its client may ask what was noted.
            let image = control.upgrade().and_then(|control| control.rooms());
            let image = image.map(|rooms| rooms.controller.image()).unwrap_or_default();
            let (end, outcomes) = match &answer {
                Response::Pieces(pieces) => {
                    let outcomes = known.outcomes(pieces, head).unwrap_or_default();
                    let failed = |(named, code)| Failed { part: part(named, &image), code };
                    (End::Answered, outcomes.into_iter().map(failed).collect())
                }
                Response::NoResponse => (End::Silent, Vec::new()),
                Response::Close => (End::Closed, Vec::new()),
            };
            open.end(end, outcomes);
            back.send(answer);
        });
        (Request { header, body, context, lane, responder, received_ns }, Some(seen))
    }

    /// Notes that a fault struck a request.
    pub(super) fn note_hit(&self, seen: Option<&Arc<Seen>>, fault: &Fault) {
        if let Some(seen) = seen {
            let spec = &fault.checked.spec;
            let (kind, ms) = (spec.kind, spec.ms.unwrap_or(0));
            let at_ns = self.clock.monotonic_ns();
            let error = (kind == Kind::Error).then(|| {
                let part =
                    Part { topic: spec.topic.as_deref().map(Arc::from), partition: spec.partition };
                Failed { part, code: fault.checked.error.code() }
            });
            seen.hit(Hit { fault: fault.id, kind, ms, at_ns, error });
        }
    }
}

/// The notes of a request that is open.
pub(super) fn noted(request: &Request) -> Option<Arc<Seen>> {
    let known = known(request).is_some();
    known.then(|| Watched::of(&request.context).find(request.header.correlation_id)).flatten()
}
