//! Figures that brokers tell each other, so that one of them can add up those of the cluster.
//!
//! This room carries the questions and the answers; `admin_api` knows what they mean, and who may
//! ask. They have connections of their own: an answer that takes long stands before no heartbeat
//! and no proposal. Nothing is gathered without a question.

use super::Cluster;
use super::membership::endpoint;
use bytes::Bytes;
use kafkalite_protocol::messages::describe_figures::{
    DescribeFiguresRequest, DescribeFiguresResponse,
};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long another broker may take to tell its figures.
pub const DEADLINE: Duration = Duration::from_millis(1_500);
/// Questions that are answered or wait for it, at most.
const MOST_QUESTIONS: usize = 16;
/// The status of HTTP that says that there is no answer now.
const UNAVAILABLE: i16 = 503;

/// What a broker asks, and from where.
pub struct Question {
    /// Its address.
    pub peer: IpAddr,
    /// The question.
    pub request: DescribeFiguresRequest,
}

/// What it is answered.
#[derive(Debug)]
pub struct Told {
    /// A status of HTTP.
    pub status: i16,
    /// JSON; empty without an answer.
    pub body: Bytes,
}

impl Told {
    /// There is no answer now.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { status: UNAVAILABLE, body: Bytes::new() }
    }
}

/// Answers questions, on a thread that may wait for a disk.
pub type Answerer = Box<dyn Fn(Question) -> Told + Send + Sync>;

/// Who answers, and how many questions at a time.
pub(super) struct Desk {
    answerer: Arc<OnceLock<Answerer>>,
    places: Arc<Semaphore>,
    /// One is answered at a time: the broker has other work.
    turn: Arc<Semaphore>,
}

impl Default for Desk {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(MOST_QUESTIONS));
        Self { answerer: Arc::default(), places, turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Cluster {
    /// Questions of other brokers are answered by `answerer` from now on. The first one stays.
    pub fn answer_figures(&self, answerer: Answerer) {
        // A second one would be of the same broker.
        let _ = self.desk.answerer.set(answerer);
    }

    /// Answers a question of another broker, later.
    pub fn tell_figures(&self, question: Question, done: impl FnOnce(Told) + Send + 'static) {
        let place = Arc::clone(&self.desk.places).try_acquire_owned();
        let (Some(member), Ok(place)) = (self.running(), place) else {
            return done(Told::nothing());
        };
        let (answerer, turn) = (Arc::clone(&self.desk.answerer), Arc::clone(&self.desk.turn));
        let tell = async move {
            let turn = turn.acquire_owned().await;
            let told = tokio::task::spawn_blocking(move || {
                let told = answerer.get().map(|answerer| answerer(question));
                drop(turn);
                told
            });
            done(told.await.ok().flatten().unwrap_or_else(Told::nothing));
            drop(place);
        };
        drop(member.peers.runtime().spawn(tell));
    }

    /// Asks another broker for figures.
    ///
    /// # Errors
    /// Why it does not answer, in words.
    pub async fn ask_figures(
        &self,
        broker_id: i32,
        request: DescribeFiguresRequest,
    ) -> Result<Told, String> {
        let image = self.controller.image();
        let Some(broker) = image.brokers.get(&broker_id) else {
            return Err("the cluster has no such broker".to_owned());
        };
        if broker.fenced {
            return Err("it is fenced: it starts, it stops, or it sends no heartbeats".to_owned());
        }
        let to = endpoint(broker, &self.identity.listener);
        let Some(member) = self.running() else {
            return Err("this broker is alone".to_owned());
        };
        let peers = Arc::clone(&member.peers);
        let asked = member.peers.runtime().spawn(async move {
            // The connection would wait for longer.
            timeout(DEADLINE, peers.ask_figures(&to, request)).await
        });
        match asked.await {
            Ok(Ok(Ok(DescribeFiguresResponse { error_code: 0, status, body }))) => {
                Ok(Told { status, body })
            }
            Ok(Ok(Ok(_))) => Err("it failed to answer".to_owned()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err(format!("it did not answer within {} ms", DEADLINE.as_millis())),
            Err(_) => Err("this broker stops".to_owned()),
        }
    }
}
