//! Figures of another broker, `?broker=2`, and of all together, `?broker=all`.
//!
//! The broker that is asked puts the same question to the others, on the brokers' own connections.
//! It adds up what they tell within a deadline (`cluster/figures`). A broker that does not answer
//! in time is left out, and the answer says so. The others apply the admin port's rule: without
//! `kafkalite.admin.token` they answer brokers on their own machine, with it those that have it.
//! A broker tells figures alone: no records, no settings, no lines of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::future::join_all;
use kafkalite_protocol::messages::describe_figures::DescribeFiguresRequest;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::asked::{Asked, Whose};
use super::commands::in_turn;
use super::{AdminApi, Answer, ROUTES, Route, failed, json, lag, live};
use crate::admin_http::{Refusal, may_ask};
use crate::clock::NS_PER_MS;
use crate::cluster::figures::{Question, Told};

/// Questions to other brokers that are under way at a time.
const MOST_ROUNDS: usize = 4;

/// How the answers of several brokers to one question become one.
pub(super) type Sum = fn(Vec<(i32, Value)>, &Asked) -> Value;

/// When each of the other brokers answered last, and the rounds of questions under way.
pub struct Heard {
    /// By the broker's id and its epoch: another life of it is another broker.
    last_ns: Mutex<BTreeMap<(i32, i64), u64>>,
    rounds: Semaphore,
}

impl Default for Heard {
    fn default() -> Self {
        Self { last_ns: Mutex::default(), rounds: Semaphore::new(MOST_ROUNDS) }
    }
}

/// A broker whose figures were asked for.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Source {
    pub broker_id: i32,
    pub answered: bool,
    /// `None`: it has not answered since this broker serves.
    pub last_answer_ms_ago: Option<u64>,
    /// Why it did not answer.
    pub why: Option<String>,
}

impl Source {
    /// What it told cannot be used.
    pub(super) fn is_silent(&mut self, why: String) {
        (self.answered, self.why) = (false, Some(why));
    }
}

/// What a broker said; an error in words where it did not answer.
type Said = Result<Result<Bytes, Refusal>, String>;

impl AdminApi {
    /// The other brokers, each with the epoch of its life.
    pub(super) fn others(&self) -> Vec<(i32, i64)> {
        let image = self.controller.image();
        let others = image.brokers.values().filter(|broker| broker.id != self.local_id);
        others.map(|broker| (broker.id, broker.epoch)).collect()
    }

    /// Puts a question to one broker.
    async fn said_by(&self, (id, epoch): (i32, i64), path: &str, asked: &Asked) -> Said {
        let request = DescribeFiguresRequest {
            token: self.config.load().admin_token.clone(),
            path: path.to_owned(),
            asked: serde_json::to_vec(asked).map_err(|error| error.to_string())?.into(),
        };
        let Told { status, body } = self.cluster.ask_figures(id, request).await?;
        let refused = match StatusCode::from_u16(status.unsigned_abs()) {
            Ok(StatusCode::OK) => None,
            Ok(status) => Some(refusal_of(status, &body)?),
            Err(error) => return Err(error.to_string()),
        };
        self.heard.last_ns.lock().insert((id, epoch), self.clock.monotonic_ns());
        Ok(refused.map_or(Ok(body), Err))
    }

    /// Puts a question to brokers at the same time; each may have one of its own.
    pub(super) async fn ask_all(
        &self,
        others: &[(i32, i64)],
        path: &str,
        asked: impl Fn(i32) -> Asked,
    ) -> Vec<(Source, Option<Result<Bytes, Refusal>>)> {
        // Closed never.
        let _round = self.heard.rounds.acquire().await;
        let questions: Vec<Asked> = others.iter().map(|(id, _)| asked(*id)).collect();
        let asking =
            others.iter().zip(&questions).map(|(of, asked)| self.said_by(*of, path, asked));
        let said = join_all(asking).await;
        let others = others.iter().zip(said);
        others.map(|(of, said)| self.source(*of, said)).collect()
    }

    fn source(&self, of: (i32, i64), said: Said) -> (Source, Option<Result<Bytes, Refusal>>) {
        let now_ns = self.clock.monotonic_ns();
        let last_ns = self.heard.last_ns.lock().get(&of).copied();
        let last_answer_ms_ago = last_ns.map(|at| now_ns.saturating_sub(at) / NS_PER_MS);
        let (told, why) = match said {
            Ok(told) => (Some(told), None),
            Err(why) => (None, Some(why)),
        };
        let answered = told.is_some();
        (Source { broker_id: of.0, answered, last_answer_ms_ago, why }, told)
    }

    /// This broker, beside the others.
    pub(super) const fn own_source(&self) -> Source {
        let (answered, last_answer_ms_ago) = (true, Some(0));
        Source { broker_id: self.local_id, answered, last_answer_ms_ago, why: None }
    }

    /// Lives of brokers that are over are not remembered.
    fn forget_lives(&self, others: &[(i32, i64)]) {
        self.heard.last_ns.lock().retain(|life, _| others.contains(life));
    }

    /// Answers another broker.
    pub(super) fn tell(&self, question: &Question) -> Told {
        match self.told(question) {
            Ok(body) => Told { status: 200, body: body.into() },
            Err(refusal) => {
                let body = serde_json::to_vec(&refusal).unwrap_or_default().into();
                Told { status: refusal.status.as_u16().cast_signed(), body }
            }
        }
    }

    fn told(&self, Question { peer, request }: &Question) -> Answer {
        let token = self.config.load().admin_token.clone();
        may_ask(token, *peer, request.token.as_deref())?;
        if request.path == live::PATH {
            return live::counts(self, &Asked::of_broker(live::OF_BROKERS, &request.asked)?);
        }
        if request.path == lag::PATH {
            return lag::tell(self, &Asked::of_broker(lag::OF_BROKERS, &request.asked)?);
        }
        let route = ROUTES.iter().find(|route| route.path == request.path && route.sum.is_some());
        let route = route.ok_or_else(|| {
            let (what, why) =
                ("the question is refused", "this broker tells no figures of this path");
            Refusal::new(StatusCode::NOT_FOUND, what, why, "let all brokers have one version.")
        })?;
        (route.answer)(self, &Asked::of_broker(route.query, &request.asked)?)
    }
}

/// What another broker refuses. An error if it refuses to be asked at all.
fn refusal_of(status: StatusCode, body: &[u8]) -> Result<Refusal, String> {
    const HINT: &str = "give all brokers the same kafkalite.admin.token";
    let refusal = serde_json::from_slice::<Refusal>(body);
    match refusal {
        Ok(_) if status == StatusCode::UNAUTHORIZED => Err(format!("it has another token; {HINT}")),
        Ok(_) if status == StatusCode::FORBIDDEN => {
            Err(format!("it is on another machine, and has no token; {HINT}"))
        }
        Ok(refusal) => Ok(Refusal { status, ..refusal }),
        Err(_) => Err("it has too much to answer, or does not serve yet".to_owned()),
    }
}

/// Answers a request for figures of one broker or of all.
pub(super) async fn answer(
    route: &'static Route,
    sum: Sum,
    api: Arc<AdminApi>,
    turns: Arc<Semaphore>,
    asked: Asked,
) -> Answer {
    let own = asked.for_one();
    match asked.whose()? {
        Whose::Own => in_turn(turns, move || (route.answer)(&api, &own)).await,
        Whose::One(id) if id == api.local_id => {
            in_turn(turns, move || (route.answer)(&api, &own)).await
        }
        Whose::One(id) => {
            let others = api.others();
            let of = others.iter().find(|(other, _)| *other == id).ok_or_else(|| unknown(id))?;
            let mut said = api.ask_all(&[*of], route.path, |_| asked.for_one()).await;
            match said.pop() {
                Some((_, Some(told))) => told.map(|body| body.to_vec()),
                Some((source, None)) => Err(silent(&[source])),
                None => Err(unknown(id)),
            }
        }
        Whose::All => {
            let others = api.others();
            api.forget_lives(&others);
            let said = api.ask_all(&others, route.path, |_| asked.for_sum()).await;
            let (here, own) = (Arc::clone(&api), asked.for_sum());
            let add = move || {
                let told = (route.answer)(&here, &own);
                together(&here, sum, &asked, told, said)
            };
            let mut all = in_turn(Arc::clone(&turns), add).await?;
            lag::fill(&api, &turns, &others, &mut all).await?;
            in_turn(turns, move || json(&all)).await
        }
    }
}

/// One answer of those of all brokers.
fn together(
    api: &AdminApi,
    sum: Sum,
    asked: &Asked,
    own: Answer,
    said: Vec<(Source, Option<Result<Bytes, Refusal>>)>,
) -> Result<Value, Refusal> {
    let mut sources = vec![api.own_source()];
    let mut told: Vec<(i32, Value)> = Vec::new();
    let mut refused: Option<Refusal> = None;
    let own = (api.own_source(), Some(own.map(Bytes::from)));
    for (mut source, answer) in std::iter::once(own).chain(said) {
        match answer.map(|answer| answer.map(|body| serde_json::from_slice(&body))) {
            Some(Ok(Ok(value))) => told.push((source.broker_id, value)),
            Some(Ok(Err(error))) => source.is_silent(format!("it told no JSON: {error}")),
            // The broker that would have it knows that it is not there; the others only that
            // they do not have it.
            Some(Err(refusal)) => match &refused {
                Some(_) if refusal.status != StatusCode::NOT_FOUND => {}
                _ => refused = Some(refusal),
            },
            None => {}
        }
        if source.broker_id != api.local_id {
            sources.push(source);
        }
    }
    if told.is_empty() {
        let away: Vec<Source> = sources.into_iter().filter(|source| !source.answered).collect();
        // The brokers that did not answer may know it.
        return Err(match (away.is_empty(), refused) {
            (true, Some(refusal)) => refusal,
            (true, None) => failed("no broker told anything"),
            (false, _) => silent(&away),
        });
    }
    sources.sort_by_key(|source| source.broker_id);
    let mut all = sum(told, asked);
    if let Some(members) = all.as_object_mut() {
        let sources = serde_json::to_value(sources).map_err(|error| failed(&error.to_string()))?;
        members.insert("broker_id".to_owned(), api.local_id.into());
        members.insert("figures_of".to_owned(), sources);
    }
    Ok(all)
}

fn unknown(id: i32) -> Refusal {
    let hint = "GET /api/v1/cluster lists the brokers.";
    let (what, why) = (format!("there is no broker {id}"), "the cluster's metadata do not have it");
    Refusal::new(StatusCode::NOT_FOUND, what, why, hint)
}

fn silent(sources: &[Source]) -> Refusal {
    let ids: Vec<String> = sources.iter().map(|source| source.broker_id.to_string()).collect();
    let whys: Vec<&str> = sources.iter().filter_map(|source| source.why.as_deref()).collect();
    let (what, hint) = match ids.len() {
        1 => (format!("broker {} does not answer", ids[0]), "look whether it runs, and its log."),
        _ => (format!("brokers {} do not answer", ids.join(", ")), "look whether they run."),
    };
    Refusal::new(StatusCode::GATEWAY_TIMEOUT, what, whys.join("; "), hint)
}
