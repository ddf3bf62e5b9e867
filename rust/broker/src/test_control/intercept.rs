//! The way of a request through the faults, and of its answer back.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use kafkalite_protocol::{ApiKey, ErrorCode};

use super::TestControl;
use super::api::{Answered, Api, Change, Head, Join};
use super::fault::Fault;
use super::faulted::Named;
use super::held::{Held, Late};
use super::noting::{known, noted};
use super::parts::Parts;
use super::seen::Seen;
use super::spec::{Kind, Side, Stage};
use crate::clock::Clock;
use crate::error::HandlerError;
use crate::fetch_sessions::TopicRef;
use crate::handlers::{self, Rooms, api_versions};
use crate::request_queue::Request;
use crate::response_queue::{Responder, Response};

/// The first version of Fetch whose answers name a replica to read from.
const FIRST_WITH_FOLLOWERS: i16 = 11;

/// A fault that a request meets, and the parts of it that the fault is for.
struct Met {
    fault: Arc<Fault>,
    parts: Parts,
    asked: Vec<Named>,
    /// Whether the fault was counted with the request.
    is_counted: bool,
}

/// When a fault strikes. The order is that of a request's way, not the one in which faults were
/// added: so each has its effect, and what a fault does is not lost by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// The request waits before its handler.
    Hold,
    /// No handler sees the request, or parts of it.
    End,
    /// Parts of the answer are errors.
    Mark,
    /// The answer is lost.
    Lose,
    /// The answer says something else.
    Change,
    /// The answer waits.
    Late,
}

/// What faults do to one answer.
struct OnAnswer {
    api: &'static dyn Api,
    head: Head,
    seen: Option<Arc<Seen>>,
    joins: Vec<Join>,
    /// What has its error by these.
    refused: Vec<Parts>,
    /// In the order of their turns.
    met: Vec<Met>,
    /// Whether the request was refused as a whole. Then there is no answer of the broker to change.
    is_refused: bool,
}

/// Where a request is, after the faults.
enum Way {
    /// It goes to its handler.
    On(Request),
    /// It was answered, or it gets no answer.
    Ended,
    /// It is held. What lets it go lets those go that are behind it.
    Held,
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

    /// Lets faults strike a request. Those up to `done` that hold requests have held it. Whether it
    /// is held: by now another thread may have let it go.
    fn strike(self: &Arc<Self>, rooms: &Rooms, request: Request, done: u64) -> bool {
        let seen = noted(&request);
        let way = match known(&request) {
            Some(known) => self.strike_known(rooms, request, known, seen.as_ref(), done),
            None => Way::On(request),
        };
        let request = match way {
            Way::On(request) => request,
            Way::Ended => return false,
            Way::Held => return true,
        };
        let peer = request.context.peer;
        if let Err(error) = handlers::run(rooms, request) {
            tracing::warn!(%peer, %error, "connection is closed");
        }
        self.note_handled(seen.as_ref());
        false
    }

    fn strike_known(
        self: &Arc<Self>,
        rooms: &Rooms,
        request: Request,
        (head, known): (Head, &'static dyn Api),
        seen: Option<&Arc<Seen>>,
        done: u64,
    ) -> Way {
        let (mut before, mut met) = (Vec::new(), Vec::new());
        for fault in self.faults.load().iter() {
            if !fault.is_for(head.api, request.header.client_id.as_deref()) {
                continue;
            }
            let Some((parts, asked)) = hit_by(rooms, &request, (head, known), fault) else {
                continue;
            };
            let turn = turn(fault, (head, known), &parts);
            if turn == Turn::Hold && fault.id <= done {
                continue;
            }
            let one = Met { fault: Arc::clone(fault), parts, asked, is_counted: false };
            if turn <= Turn::End { before.push((turn, one)) } else { met.push((turn, one)) }
        }
        // Stable: faults of the same turn strike in the order in which they were added. Those
        // without an end come last, or the others would never strike.
        // A request waits for all of them, in their order: `done` counts on it.
        let is_last = |turn, fault: &Fault| turn != Turn::Hold && fault.is_endless();
        // Of several throttles the longest counts.
        let wait_ms = |fault: &Fault| match &fault.checked.spec {
            spec if spec.kind == Kind::Throttle => spec.ms,
            _ => None,
        };
        let key = |(turn, one): &(Turn, Met)| {
            (*turn, Reverse(wait_ms(&one.fault)), is_last(*turn, &one.fault))
        };
        before.sort_by_key(key);
        met.sort_by_key(key);
        let met = met.into_iter().map(|(_, one)| one).collect();
        let (api, seen) = (known, seen.cloned());
        let (joins, refused) = (Vec::new(), Vec::new());
        let on_answer = OnAnswer { api, head, seen, joins, refused, met, is_refused: false };
        self.strike_before(rooms, request, before, on_answer)
    }

    /// Strikes a request that its handler has not seen.
    fn strike_before(
        self: &Arc<Self>,
        rooms: &Rooms,
        mut request: Request,
        before: Vec<(Turn, Met)>,
        mut on_answer: OnAnswer,
    ) -> Way {
        let (head, known) = (on_answer.head, on_answer.api);
        for (turn, Met { fault, parts, .. }) in before {
            let kind = fault.checked.spec.kind;
            // A part has its error already, and the client is to see it. So a cut waits for the
            // next request, and another error needs a part that is left.
            let is_too_late = !on_answer.joins.is_empty()
                && (kind != Kind::Error
                    || hit_by(rooms, &request, (head, known), &fault).is_none());
            if is_too_late || !fault.fires() {
                continue;
            }
            self.note_hit(on_answer.seen.as_ref(), &fault);
            match (turn, kind) {
                (Turn::Hold, Kind::Delay) => {
                    self.delay(&fault, Held::Request(Box::new(request)));
                    return Way::Held;
                }
                (Turn::Hold, _) => {
                    self.hold(&fault, Held::Request(Box::new(request)));
                    return Way::Held;
                }
                (_, Kind::Blackhole) => {
                    self.hold(&fault, Held::Unanswered(request.responder));
                    return Way::Ended;
                }
                (_, Kind::Disconnect) => {
                    request.responder.send(Response::Close);
                    return Way::Ended;
                }
                (_, Kind::Versions) => {
                    let answer = refused_version(known, &mut request, &parts, &fault);
                    request.responder.send(answer);
                    return Way::Ended;
                }
                _ => {}
            }
            match known.refuse(&mut request, &parts, fault.checked.error) {
                Some(Answered::Whole(answer)) => {
                    // A producer that wants no answer learns of an error by the cut, as in Kafka.
                    let answer = if wants_no_answer(&request) { Response::Close } else { answer };
                    on_answer.is_refused = true;
                    self.answer(on_answer, answer, request.responder);
                    return Way::Ended;
                }
                Some(Answered::Part(join)) => {
                    on_answer.joins.push(join);
                    on_answer.refused.push(parts);
                }
                None => {}
            }
        }
        Way::On(self.strike_later(request, on_answer))
    }

    /// Has faults strike the answer of a request that goes to its handler.
    fn strike_later(self: &Arc<Self>, mut request: Request, mut on_answer: OnAnswer) -> Request {
        if on_answer.head.api == ApiKey::Fetch {
            // A fetch that gets an error does not wait for records.
            let mut failed: Vec<Parts> = Vec::new();
            on_answer.met.retain_mut(|one| {
                let kind = one.fault.checked.spec.kind;
                if !matches!(kind, Kind::Error | Kind::Follower) {
                    return true;
                }
                let has_error = |(name, id, partition): &Named| {
                    failed.iter().any(|parts| parts.hit(name, *id, *partition))
                };
                let is_of_session = one.asked.is_empty() && kind == Kind::Error;
                let is_left = is_of_session || !one.asked.iter().all(has_error);
                one.is_counted = is_left && one.fault.fires();
                if one.is_counted {
                    self.note_hit(on_answer.seen.as_ref(), &one.fault);
                    on_answer.api.hurry(&mut request);
                    failed.push(one.parts.clone());
                }
                one.is_counted
            });
        }
        if on_answer.joins.is_empty() && on_answer.met.is_empty() {
            return request;
        }
        let control = Arc::clone(self);
        let Request { header, body, context, lane, responder: back, received_ns } = request;
        let responder = Responder::to(header.api_key, header.api_version, move |answer| {
            control.answer(on_answer, answer, back);
        });
        Request { header, body, context, lane, responder, received_ns }
    }

    /// Lets faults strike an answer, and sends it.
    fn answer(self: &Arc<Self>, on_answer: OnAnswer, answer: Response, back: Responder) {
        let OnAnswer { api, head, seen, joins, mut refused, met, is_refused } = on_answer;
        let mut answer = joins.into_iter().fold(answer, |answer, join| join(answer));
        let (mut is_lost, mut is_throttled, mut late) = (false, false, VecDeque::new());
        for Met { fault, mut parts, asked, is_counted } in met {
            let spec = &fault.checked.spec;
            let mut fires = || {
                let fires = !is_counted && fault.fires();
                if fires {
                    self.note_hit(seen.as_ref(), &fault);
                }
                is_counted || fires
            };
            match spec.kind {
                Kind::Error if !is_refused => {
                    // Each part has the error that came first.
                    parts.except.clone_from(&refused);
                    let (mut has_fired, error) = (false, fault.checked.error);
                    answer = api.mark(answer, head, (&parts, &asked), error, &mut || {
                        has_fired = fires();
                        has_fired
                    });
                    if has_fired {
                        refused.push(Parts { except: Vec::new(), ..parts });
                    }
                }
                Kind::Throttle if !is_throttled => {
                    let ms = i32::try_from(spec.ms.unwrap_or(0)).unwrap_or(i32::MAX);
                    answer = api.change(answer, head, &Change::Throttle(ms), &mut || {
                        is_throttled = fires();
                        is_throttled
                    });
                }
                Kind::Corrupt if !is_refused => {
                    answer = api.change(answer, head, &Change::Corrupt(&parts), &mut fires);
                }
                Kind::Follower | Kind::Leader if !is_refused => {
                    let (broker, leader_epoch) = (spec.broker.unwrap_or(-1), spec.leader_epoch);
                    parts.except.clone_from(&refused);
                    let (parts, asked) = (&parts, &asked[..]);
                    let change = Change::Point { parts, asked, broker, leader_epoch };
                    answer = api.change(answer, head, &change, &mut fires);
                }
                Kind::Versions if !is_refused => {
                    let limited = fault.checked.api.unwrap_or(head.api);
                    let change = Change::Limit(limited, spec.versions());
                    answer = api.change(answer, head, &change, &mut fires);
                }
                // The client would not learn of the error: the next answer is lost instead.
                Kind::Disconnect | Kind::DropResponse
                    if is_refused || is_lost || !refused.is_empty() => {}
                Kind::Disconnect if fires() => (answer, is_lost) = (Response::Close, true),
                Kind::DropResponse if fires() => {
                    return self.hold(&fault, Held::Unanswered(back));
                }
                Kind::Delay | Kind::Stall => late.push_back(fault),
                _ => {}
            }
        }
        self.send_late(Late { seen, faults: late, answer, back });
    }

    /// Sends an answer, once the faults that hold it let it go, one after the other.
    fn send_late(self: &Arc<Self>, mut late: Late) {
        while let Some(fault) = late.faults.pop_front() {
            if !fault.fires() {
                continue;
            }
            self.note_hit(late.seen.as_ref(), &fault);
            let held = Held::Response(Box::new(late));
            return match fault.checked.spec.kind {
                Kind::Delay => self.delay(&fault, held),
                _ => self.hold(&fault, held),
            };
        }
        late.back.send(late.answer);
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
            Held::Response(late) => self.send_late(*late),
            Held::Unanswered(back) => drop(back),
            Held::Request(request) => {
                let connection_id = request.context.connection_id;
                let Some(rooms) = self.rooms() else { return };
                let mut is_held = self.strike(&rooms, *request, fault);
                // Those behind it: they meet every fault, and may be held again.
                while !is_held && let Some(next) = self.holding.next_of(connection_id) {
                    is_held = self.strike(&rooms, next, 0);
                }
            }
        }
    }
}

/// When a fault strikes a request of an API.
fn turn(fault: &Fault, (head, known): (Head, &'static dyn Api), parts: &Parts) -> Turn {
    let spec = &fault.checked.spec;
    let is_before = spec.side() == Side::Before;
    match spec.kind {
        Kind::Delay if is_before => Turn::Hold,
        Kind::Stall if spec.stage == Some(Stage::RequestQueue) => Turn::Hold,
        Kind::Blackhole => Turn::End,
        Kind::Versions if fault.hides(head.api, head.version) => Turn::End,
        Kind::Disconnect if is_before => Turn::End,
        Kind::Error if is_before && known.is_refused_before(head, parts, fault.checked.error) => {
            Turn::End
        }
        Kind::Error => Turn::Mark,
        Kind::Disconnect | Kind::DropResponse => Turn::Lose,
        Kind::Throttle | Kind::Corrupt | Kind::Disk => Turn::Change,
        Kind::Versions | Kind::Follower | Kind::Leader => Turn::Change,
        Kind::Delay | Kind::Stall => Turn::Late,
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
    let is_served_as_ever = spec.kind == Kind::Versions
        && head.api != ApiKey::ApiVersions
        && !fault.hides(head.api, head.version);
    // Older answers have no place for it.
    let cannot_point = spec.kind == Kind::Follower && head.version < FIRST_WITH_FOLLOWERS;
    if is_served_as_ever || cannot_point {
        return None;
    }
    let image = rooms.controller.image();
    let (topic, group) = (spec.topic.clone(), spec.group.clone());
    let parts = Parts { topic, partition: spec.partition, group, except: Vec::new(), image };
    if !known.names(&request.body, head.version, &parts) {
        return None;
    }
    if let Some(group) = &spec.group
        && known
            .tells(&request.body, head.version)
            .is_none_or(|asked| !asked.groups.contains(group))
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

/// The answer to a request of a version that a fault hides. Where the API has no error for its
/// whole answer the connection closes, as that of a version that no broker knows.
fn refused_version(
    known: &'static dyn Api,
    request: &mut Request,
    parts: &Parts,
    fault: &Fault,
) -> Response {
    if request.header.api() == Some(ApiKey::ApiVersions) {
        let correlation_id = request.header.correlation_id;
        return api_versions::unsupported(correlation_id, &fault.checked.spec.versions());
    }
    if wants_no_answer(request) {
        return Response::Close;
    }
    match known.refuse(request, parts, ErrorCode::UnsupportedVersion) {
        Some(Answered::Whole(answer)) => answer,
        Some(Answered::Part(_)) | None => Response::Close,
    }
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
