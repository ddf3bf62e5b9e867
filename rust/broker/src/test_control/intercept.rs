//! The way of a request through the faults, and of its answer back.

use std::sync::Arc;

use kafkalite_protocol::ApiKey;

use super::TestControl;
use super::api::{Answered, Api, Head, Join};
use super::fault::Fault;
use super::faulted::Named;
use super::held::Held;
use super::noting::{known, noted};
use super::parts::Parts;
use super::seen::Seen;
use super::spec::{Kind, Side, Stage};
use crate::clock::Clock;
use crate::error::HandlerError;
use crate::fetch_sessions::TopicRef;
use crate::handlers::{self, Rooms};
use crate::request_queue::Request;
use crate::response_queue::{Responder, Response};

/// A fault that strikes an answer, and the parts of the answer that it is for.
struct Struck {
    fault: Arc<Fault>,
    parts: Parts,
    asked: Vec<Named>,
    /// Whether the fault was counted with the request.
    is_counted: bool,
}

/// What faults do to one answer.
struct OnAnswer {
    api: &'static dyn Api,
    head: Head,
    seen: Option<Arc<Seen>>,
    joins: Vec<Join>,
    struck: Vec<Struck>,
    /// The answer of a fault that refuses the request as a whole.
    refusal: Option<Response>,
}

/// Where a request is, after the faults.
enum Way {
    /// It goes to its handler.
    On(Request),
    /// It was answered, or it is held.
    Ended,
}

impl TestControl {
    /// Notes a request and runs it, as far as faults let it.
    ///
    /// # Errors
    /// The request cannot be understood; its connection is closed.
    pub fn run(self: &Arc<Self>, rooms: &Rooms, request: Request) -> Result<(), HandlerError> {
        let (request, seen) = self.note(rooms, request);
        if self.is_armed() {
            if let Some(request) = self.holding.behind(request) {
                self.strike(rooms, request, 0);
            }
            return Ok(());
        }
        let ran = handlers::run(rooms, request);
        self.note_handled(seen.as_ref());
        ran
    }

    fn note_handled(&self, seen: Option<&Arc<Seen>>) {
        if let Some(seen) = seen {
            seen.handled(self.clock.monotonic_ns());
        }
    }

    /// Lets the faults after `done` strike a request.
    fn strike(self: &Arc<Self>, rooms: &Rooms, request: Request, done: u64) {
        let seen = noted(&request);
        let way = match known(&request) {
            Some(known) => self.strike_known(rooms, request, known, seen.as_ref(), done),
            None => Way::On(request),
        };
        let Way::On(request) = way else { return };
        let peer = request.context.peer;
        if let Err(error) = handlers::run(rooms, request) {
            tracing::warn!(%peer, %error, "connection is closed");
        }
        self.note_handled(seen.as_ref());
    }

    fn strike_known(
        self: &Arc<Self>,
        rooms: &Rooms,
        mut request: Request,
        (head, known): (Head, &'static dyn Api),
        seen: Option<&Arc<Seen>>,
        done: u64,
    ) -> Way {
        let (api, version) = (head.api, head.version);
        let mut on_answer = OnAnswer {
            api: known,
            head,
            seen: seen.cloned(),
            joins: Vec::new(),
            struck: Vec::new(),
            refusal: None,
        };
        for fault in self.faults.load().iter().filter(|fault| fault.id > done) {
            let client_id = request.header.client_id.as_deref();
            if !fault.is_for(api, client_id) {
                continue;
            }
            let is_refused = on_answer.refusal.is_some();
            if is_refused && !strikes_refusals(fault) {
                continue;
            }
            let Some((parts, asked)) = hit_by(rooms, &request, (head, known), fault) else {
                continue;
            };
            if is_refused || self.waits_for_answer(fault, (head, known), &parts) {
                let is_fetch_error = fault.checked.spec.kind == Kind::Error && api == ApiKey::Fetch;
                if is_fetch_error && !fault.fires() {
                    continue;
                }
                if is_fetch_error {
                    self.note_hit(seen, fault);
                    known.hurry(&mut request);
                }
                let fault = Arc::clone(fault);
                on_answer.struck.push(Struck { fault, parts, asked, is_counted: is_fetch_error });
            } else if fault.fires() {
                self.note_hit(seen, fault);
                request = match self.strike_before(fault, request, (known, &parts), &mut on_answer)
                {
                    Way::On(request) => request,
                    Way::Ended => return Way::Ended,
                };
            }
        }
        if let Some(answer) = on_answer.refusal.take() {
            // What would change an answer of the broker has none to change.
            on_answer.struck.retain(|struck| strikes_refusals(&struck.fault));
            self.answer(on_answer, answer, request.responder);
            return Way::Ended;
        }
        if on_answer.joins.is_empty() && on_answer.struck.is_empty() {
            return Way::On(request);
        }
        let control = Arc::clone(self);
        let Request { header, body, context, lane, responder: back, received_ns } = request;
        let responder = Responder::to(header.api_key, version, move |answer| {
            control.answer(on_answer, answer, back);
        });
        Way::On(Request { header, body, context, lane, responder, received_ns })
    }

    /// Whether a fault strikes the answer, not the request.
    fn waits_for_answer(
        &self,
        fault: &Fault,
        (head, known): (Head, &'static dyn Api),
        parts: &Parts,
    ) -> bool {
        let spec = &fault.checked.spec;
        match spec.kind {
            Kind::Error if spec.side() == Side::Before => {
                !known.is_refused_before(head, parts, fault.checked.error)
            }
            Kind::Error | Kind::Delay | Kind::Disconnect => spec.side() == Side::After,
            Kind::DropResponse | Kind::Throttle | Kind::Corrupt => true,
            Kind::Stall => spec.stage == Some(Stage::ResponseQueue),
            Kind::Blackhole | Kind::Disk => false,
        }
    }

    /// Strikes a request that its handler has not seen.
    fn strike_before(
        self: &Arc<Self>,
        fault: &Arc<Fault>,
        mut request: Request,
        (known, parts): (&'static dyn Api, &Parts),
        on_answer: &mut OnAnswer,
    ) -> Way {
        let spec = &fault.checked.spec;
        match spec.kind {
            Kind::Error => match known.refuse(&mut request, parts, fault.checked.error) {
                Some(Answered::Whole(answer)) => {
                    // A producer that wants no answer learns of an error by the cut, as in Kafka.
                    let answer = if wants_no_answer(&request) { Response::Close } else { answer };
                    on_answer.refusal = Some(answer);
                }
                Some(Answered::Part(join)) => on_answer.joins.push(join),
                None => {}
            },
            Kind::Disconnect => {
                request.responder.send(Response::Close);
                return Way::Ended;
            }
            Kind::Blackhole => {
                self.hold(fault, Held::Unanswered(request.responder));
                return Way::Ended;
            }
            Kind::Delay => {
                self.delay(fault, Held::Request(Box::new(request)));
                return Way::Ended;
            }
            Kind::Stall => {
                self.hold(fault, Held::Request(Box::new(request)));
                return Way::Ended;
            }
            Kind::DropResponse | Kind::Throttle | Kind::Corrupt | Kind::Disk => {}
        }
        Way::On(request)
    }

    /// Lets faults strike an answer, and sends it.
    fn answer(self: &Arc<Self>, on_answer: OnAnswer, answer: Response, back: Responder) {
        let OnAnswer { api, head, seen, joins, struck, refusal: _ } = on_answer;
        let mut answer = joins.into_iter().fold(answer, |answer, join| join(answer));
        let mut waits = None;
        for Struck { fault, parts, asked, is_counted } in struck {
            let spec = &fault.checked.spec;
            let mut fires = || {
                let fires = !is_counted && fault.fires();
                if fires {
                    self.note_hit(seen.as_ref(), &fault);
                }
                is_counted || fires
            };
            match spec.kind {
                Kind::Error => {
                    let (parts, error) = ((&parts, &*asked), fault.checked.error);
                    answer = api.mark(answer, head, parts, error, &mut fires);
                }
                Kind::Throttle => {
                    let ms = i32::try_from(spec.ms.unwrap_or(0)).unwrap_or(i32::MAX);
                    answer = api.throttle(answer, head, ms, &mut fires);
                }
                Kind::Corrupt => answer = api.corrupt(answer, head, &parts, &mut fires),
                Kind::Disconnect if fires() => answer = Response::Close,
                Kind::DropResponse if fires() => {
                    return self.hold(&fault, Held::Unanswered(back));
                }
                Kind::Delay | Kind::Stall if waits.is_none() && fires() => waits = Some(fault),
                _ => {}
            }
        }
        match waits {
            None => back.send(answer),
            Some(fault) if fault.checked.spec.kind == Kind::Delay => {
                self.delay(&fault, Held::Response(back, Box::new(answer)));
            }
            Some(fault) => self.hold(&fault, Held::Response(back, Box::new(answer))),
        }
    }

    /// Holds something until its fault is removed.
    fn hold(self: &Arc<Self>, fault: &Fault, held: Held) {
        match self.holding.hold(fault.id, held) {
            Ok(ticket) if fault.is_over() => self.release_ticket(ticket),
            Ok(_) => {}
            Err(held) => self.release(fault.id, held),
        }
    }

    /// Holds something for as long as its fault says.
    fn delay(self: &Arc<Self>, fault: &Fault, held: Held) {
        let ms = u64::from(fault.checked.spec.ms.unwrap_or(0));
        match self.holding.hold(fault.id, held) {
            Ok(ticket) => {
                let control = Arc::downgrade(self);
                let release = move || {
                    if let Some(control) = control.upgrade() {
                        control.release_ticket(ticket);
                    }
                };
                if fault.is_over() || !self.after(ms, Box::new(release)) {
                    self.release_ticket(ticket);
                }
            }
            Err(held) => self.release(fault.id, held),
        }
    }

    fn release_ticket(self: &Arc<Self>, ticket: u64) {
        if let Some((fault, held)) = self.holding.take(ticket) {
            self.release(fault, held);
        }
    }

    /// Lets go what a fault held.
    pub(super) fn release(self: &Arc<Self>, fault: u64, held: Held) {
        match held {
            Held::Response(back, answer) => back.send(*answer),
            Held::Unanswered(back) => drop(back),
            Held::Request(request) => {
                let connection_id = request.context.connection_id;
                let Some(rooms) = self.rooms() else { return };
                self.strike(&rooms, *request, fault);
                // Those behind it: they meet every fault, and may be held again.
                while !self.holding.holds_request_of(connection_id)
                    && let Some(next) = self.holding.next_of(connection_id)
                {
                    self.strike(&rooms, next, 0);
                }
            }
        }
    }
}

/// Whether a fault strikes the answer of another one that refuses the request. An error may be late
/// or have a throttle time. A fault that gives another outcome waits for the next request.
fn strikes_refusals(fault: &Fault) -> bool {
    let spec = &fault.checked.spec;
    match spec.kind {
        Kind::Delay | Kind::Throttle => true,
        Kind::Stall => spec.stage == Some(Stage::ResponseQueue),
        _ => false,
    }
}

/// The parts of a request that a fault is for, as far as the request tells; `None`: none.
fn hit_by(
    rooms: &Rooms,
    request: &Request,
    (head, known): (Head, &'static dyn Api),
    fault: &Fault,
) -> Option<(Parts, Vec<Named>)> {
    let spec = &fault.checked.spec;
    let image = rooms.controller.image();
    let parts = Parts { topic: spec.topic.clone(), partition: spec.partition, image };
    if !known.names(&request.body, head.version, &parts) {
        return None;
    }
    if spec.group.is_some()
        && known.tells(&request.body, head.version).is_none_or(|asked| asked.group != spec.group)
    {
        return None;
    }
    if head.api != ApiKey::Fetch {
        return Some((parts, Vec::new()));
    }
    let (mut asked, session) = known.asked(&request.body, head.version, &parts);
    for (topic, partition) in session.map(|id| rooms.sessions.partitions_of(id)).unwrap_or_default()
    {
        let (name, id) = match &*topic {
            TopicRef::Name(name) => (name.to_string(), kafkalite_protocol::Uuid::ZERO),
            TopicRef::Id(id) => (String::new(), *id),
        };
        if parts.hit(&name, id, partition) {
            asked.push((name, id, partition));
        }
    }
    (parts.are_all() || !asked.is_empty()).then_some((parts, asked))
}

/// A produce with acks=0: its second field, behind the transactional id.
fn wants_no_answer(request: &Request) -> bool {
    use kafkalite_protocol::messages::Wire;
    use kafkalite_protocol::messages::produce::ProduceRequest;
    request.header.api() == Some(ApiKey::Produce) && {
        let mut reader = kafkalite_protocol::Reader::of_request(request.body.clone());
        ProduceRequest::decode(&mut reader, request.header.api_version)
            .is_ok_and(|request| request.acks == 0)
    }
}
