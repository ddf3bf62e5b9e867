//! Why a client is stuck: facts out of the rooms, and a sentence for each with what to do.
//!
//! Nothing is read out of logs. Each room is looked at once: the connections, their notes, the
//! operations in purgatory, one image of the metadata. A group is looked at under its lock. What
//! ended between two looks is left out.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::TestControl;
use super::fault::Fault;
use super::over::{Now, is_over};
use super::refusal::Refused;
use super::seen::{Look, Seen, Watched};
use super::spec::{Kind, Stage};
use super::words::{among, span};
use crate::clock::{Clock, NS_PER_MS};
use crate::handlers::Rooms;
use crate::metadata::MetadataImage;
use crate::purgatory::Wait;
use crate::request_queue::{Audience, RequestContext, clipped};

/// Connections that are explained at once, at most.
const MOST_CONNECTIONS: usize = 1_000;
/// Clients that are named when the wanted one is not connected.
const MOST_NAMED: usize = 20;

/// The kind of reason of a connection without an open request.
const IDLE: &str = "idle";

/// What lists the connections that are open.
pub type Connections = Box<dyn Fn() -> Vec<Arc<RequestContext>> + Send + Sync>;

/// Why a client is stuck.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    broker_id: i32,
    /// `None`: every client.
    client_id: Option<String>,
    /// Its open connections to this broker.
    connections: usize,
    reasons: Vec<Reason>,
}

/// One reason.
#[derive(Debug, Serialize)]
pub(super) struct Reason {
    pub kind: &'static str,
    pub client_id: Option<String>,
    /// `None`: it is about no connection.
    pub connection_id: Option<u64>,
    pub peer: Option<String>,
    /// What is so.
    pub says: String,
    /// What to do.
    pub todo: String,
    /// The same for programs; which members there are depends on the kind.
    pub facts: Value,
}

/// What a reason is made of, before it is known whose it is.
pub(super) struct Said {
    pub kind: &'static str,
    pub says: String,
    pub todo: String,
    pub facts: Value,
}

/// What all reasons of one explanation are made of.
pub(super) struct Scene<'a> {
    pub rooms: &'a Rooms,
    pub image: Arc<MetadataImage>,
    pub faults: Arc<Vec<Arc<Fault>>>,
    pub waits: Vec<Wait>,
    pub now_ns: u64,
}

impl Scene<'_> {
    /// The time since then, in ms.
    pub fn since_ms(&self, at_ns: u64) -> u64 {
        self.now_ns.saturating_sub(at_ns) / NS_PER_MS
    }

    /// A fault that is in force.
    pub fn fault(&self, id: u64) -> Option<&Arc<Fault>> {
        self.faults.iter().find(|fault| fault.id == id && !fault.is_over())
    }

    /// A fault in force that lets a stage stand still.
    pub fn stalls(&self, stage: Stage) -> Option<&Arc<Fault>> {
        let stalls = |fault: &&Arc<Fault>| {
            let spec = &fault.checked.spec;
            spec.kind == Kind::Stall && spec.stage == Some(stage) && !fault.is_over()
        };
        self.faults.iter().find(stalls)
    }
}

/// A connection and its notes.
struct Client {
    context: Arc<RequestContext>,
    look: Look,
}

impl Client {
    fn reason(&self, said: Said) -> Reason {
        let Said { kind, says, todo, facts } = said;
        Reason {
            kind,
            client_id: self.context.client.id().map(str::to_owned),
            connection_id: Some(self.context.connection_id),
            peer: Some(self.context.peer.to_string()),
            says,
            todo,
            facts,
        }
    }

    /// Looks at other connections that may be of the same client.
    fn others<'a>(&'a self, all: &'a [Self]) -> impl Iterator<Item = &'a Look> {
        let same = |other: &&Self| {
            other.context.connection_id != self.context.connection_id
                && other.context.client.id() == self.context.client.id()
                && other.context.peer.ip() == self.context.peer.ip()
        };
        all.iter().filter(same).map(|other| &other.look)
    }
}

impl TestControl {
    /// The network is there.
    pub fn open_network(&self, connections: Connections) {
        self.connections.get_or_init(|| connections);
    }

    /// Why a client, or each client, is stuck.
    pub(super) fn explained(&self, client_id: Option<&str>) -> Result<Explanation, Refused> {
        // Connections keep so much of the names of their clients.
        let clipped = client_id.map(clipped);
        let client_id = clipped.as_deref();
        let rooms = self.rooms().ok_or_else(Refused::not_running)?;
        let list = self.connections.get().ok_or_else(Refused::not_running)?;
        let open = list();
        let is_meant = |context: &Arc<RequestContext>| match client_id {
            Some(id) => context.client.id() == Some(id),
            None => context.notes.get().is_some() && context.audience == Audience::Clients,
        };
        let meant: Vec<_> = open.iter().filter(|context| is_meant(context)).cloned().collect();
        let connections = meant.len();
        let looked = meant.into_iter().take(MOST_CONNECTIONS).map(|context| {
            let look = Watched::of(&context).look();
            Client { context, look }
        });
        let clients: Vec<Client> = looked.collect();
        let scene = Scene {
            image: rooms.controller.image(),
            faults: self.faults.load_full(),
            // After the notes: an operation that is over by now is in neither.
            waits: rooms.fetches.waits().into_iter().chain(rooms.produces.waits()).collect(),
            now_ns: self.clock.monotonic_ns(),
            rooms: &rooms,
        };
        let mut reasons = Vec::new();
        for client in &clients {
            let said = explain(&scene, client, &clients);
            reasons.extend(said.into_iter().map(|said| client.reason(said)));
        }
        // A quiet connection says something of a client only if no other one has a reason.
        let busy: HashSet<Option<String>> = reasons
            .iter()
            .filter(|reason: &&Reason| reason.kind != IDLE)
            .map(|reason| reason.client_id.clone())
            .collect();
        reasons.retain(|reason| reason.kind != IDLE || !busy.contains(&reason.client_id));
        if let Some(id) = client_id.filter(|_| clients.is_empty()) {
            reasons.push(not_connected(id, &open));
        }
        let broker_id = rooms.config().node_id;
        let client_id = client_id.map(str::to_owned);
        Ok(Explanation { broker_id, client_id, connections, reasons })
    }
}

/// Why one connection is quiet.
fn explain(scene: &Scene<'_>, client: &Client, all: &[Client]) -> Vec<Said> {
    let look = &client.look;
    let mut said = Vec::new();
    let mut ahead: Option<&Arc<Seen>> = None;
    for seen in &look.open {
        // `None`: it was answered meanwhile.
        said.extend(super::waits::of_open(scene, seen, ahead));
        ahead = ahead.or(Some(seen));
    }
    if let Some((until_ns, ms, fault)) = look.throttled.filter(|(at_ns, ..)| *at_ns > scene.now_ns)
    {
        let left_ms = (until_ns - scene.now_ns).div_ceil(NS_PER_MS);
        said.push(Said {
            kind: "throttled",
            says: format!(
                "fault {fault} told it to wait {}; {} are left",
                span(ms.into()),
                span(left_ms)
            ),
            // The answer asked the client to wait: it waits even when the fault is removed.
            todo: match scene.fault(fault).filter(|fault| !fault.is_spent()) {
                Some(_) => format!("wait, and remove fault {fault}"),
                None => "wait: the fault strikes no more".to_owned(),
            },
            facts: json!({"fault": fault, "ms": ms, "left_ms": left_ms}),
        });
    }
    let local_id = scene.rooms.config().node_id;
    let now = Now { local_id, image: &scene.image, now_ns: scene.now_ns };
    let is_present =
        |streak: &&super::seen::Streak| !is_over(streak, look, client.others(all), now);
    let streaks: Vec<_> = look.streaks.iter().filter(is_present).collect();
    for one in super::errors_told::of_streaks(scene, &streaks) {
        // A member that has joined again waits for the same rebalance.
        let is_same =
            |other: &Said| (other.kind, &other.facts["group"]) == (one.kind, &one.facts["group"]);
        if one.kind != "rebalancing" || !said.iter().any(is_same) {
            said.push(one);
        }
    }
    if let Some(fault) = scene.stalls(Stage::IoThreads) {
        said.push(Said {
            kind: "stalled",
            says: format!("fault {} stops the I/O threads: its queued requests wait", fault.id),
            todo: format!("remove fault {}", fault.id),
            facts: json!({"fault": fault.id, "stage": Stage::IoThreads}),
        });
    }
    if said.is_empty() && look.open.is_empty() {
        said.push(idle(scene, client));
    }
    said
}

fn idle(scene: &Scene<'_>, client: &Client) -> Said {
    let seen = &client.context.client;
    let (requests, last_ns) = (seen.requests(), seen.last_request_ns());
    let ago_ms = (requests > 0).then(|| scene.since_ms(last_ns));
    let says = match ago_ms {
        Some(ms) => format!(
            "its connection is idle: all {requests} requests are answered, the last came {} ago",
            span(ms)
        ),
        None => "its connection is idle: it has not sent a request yet".to_owned(),
    };
    Said {
        kind: IDLE,
        says,
        todo: "look into the client: the broker owes it nothing".to_owned(),
        facts: json!({"requests": requests, "last_request_ms_ago": ago_ms}),
    }
}

fn not_connected(id: &str, open: &[Arc<RequestContext>]) -> Reason {
    let mut known: Vec<&str> = open.iter().filter_map(|context| context.client.id()).collect();
    known.sort_unstable();
    known.dedup();
    let connected = match known.as_slice() {
        [] => "no other client is connected".to_owned(),
        known => format!("connected: {}", among(known.iter().copied(), MOST_NAMED)),
    };
    known.truncate(MOST_NAMED);
    Reason {
        kind: "not_connected",
        client_id: Some(id.to_owned()),
        connection_id: None,
        peer: None,
        says: format!("no open connection to this broker has the client id {id:?}; {connected}"),
        todo: "compare client.id and bootstrap.servers of the client".to_owned(),
        facts: json!({"connected": known}),
    }
}
