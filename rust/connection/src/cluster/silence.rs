//! Brokers that do not answer: nothing waits for one of them longer than the cluster does.
//!
//! A broker that is frozen or cut off is silent until a request's timeout is over. Its cluster
//! gives its work to other brokers within seconds. So another broker is asked
//! - case A: the same, if every broker can answer it and it may be carried out twice. The first
//!   answer counts, see [`Cluster::at_some`]
//! - case B: whether the cluster still has the silent one, for every other request. If not, what
//!   waits for it fails as after a connection that ended, see [`Cluster::while_alive`]
//!
//! A slow broker stays in its cluster: nothing is sent to it a second time, and nothing fails.
//! Source: Kafka's clients wait for `request.timeout.ms` in both cases. A fenced broker is not
//! listed in Metadata (KIP-631).

use super::suspects::REACHED_WITHIN;
use super::{Cluster, Wanted};
use crate::address::{HostPort, NodeId};
use crate::connection::Connection;
use crate::error::ConnectionError;
use crate::pool::Lane;
use kafkalite_protocol::messages::Request;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A broker that does not answer a request within this time is doubted.
const DOUBTED_AFTER: Duration = Duration::from_secs(3);
/// It is doubted again no later than this.
const DOUBTED_EVERY: Duration = Duration::from_secs(10);
/// What every broker can answer is asked of another one after this time.
const ANOTHER_AFTER: Duration = Duration::from_secs(2);

/// The time without an answer to one request. Time is handed in.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    began: Instant,
    patience: Duration,
    /// When the broker is doubted next.
    next: Instant,
    was_doubted: bool,
}

impl Silence {
    /// The request leaves now.
    pub fn since(now: Instant) -> Self {
        Self::with_patience(now, DOUBTED_AFTER)
    }

    fn with_patience(now: Instant, patience: Duration) -> Self {
        Self { began: now, patience, next: now + patience, was_doubted: false }
    }

    /// When to look again.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is time to doubt. The times between doubts grow with the silence: a group's Join
    /// may rightly wait for minutes.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let is_over = self.next <= now;
        if is_over {
            let quarter = now.saturating_duration_since(self.began) / 4;
            self.next = now + quarter.max(self.patience / 3).min(DOUBTED_EVERY);
            self.was_doubted = true;
        }
        is_over
    }

    /// Whether the broker was doubted, once at least.
    pub fn was_doubted(&self) -> bool {
        self.was_doubted
    }
}

impl Cluster {
    /// Waits for the answer of `call`, which `node` was asked, or will be as soon as it is
    /// connected. It ends with `Disconnected` when the broker is silent and another broker says
    /// that the cluster goes on without it. A broker of its id that is elsewhere is another one.
    ///
    /// # Errors
    /// Those of `call`, and `Disconnected`.
    pub async fn while_alive<T, E: From<ConnectionError>>(
        &self,
        node: NodeId,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let patience = self.patience(DOUBTED_AFTER);
        let mut silence = Silence::with_patience(Instant::now(), patience);
        let asked_at = self.image().broker(node).map(|broker| broker.place.clone());
        tokio::pin!(call);
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                () = tokio::time::sleep_until(silence.next().into()) => {}
            }
            // It may answer other requests though it is cut off, and would list itself.
            self.suspect(node);
            let told = tokio::select! {
                biased;
                answer = &mut call => return answer,
                told = self.refresh(Wanted::Brokers) => told,
            };
            if told.is_ok_and(|image| image.has_replaced(node, asked_at.as_ref())) {
                return Err(self.leave(node, asked_at).into());
            }
            silence.is_over(Instant::now());
        }
    }

    /// Ends the connections to a broker that is silent and not in the cluster any more. Those to a
    /// broker that has its id elsewhere stay.
    fn leave(&self, node: NodeId, asked_at: Option<HostPort>) -> ConnectionError {
        let why = "it does not answer, and its cluster goes on without it";
        tracing::debug!(node, why);
        self.0.pool.close(node, asked_at.as_ref(), why);
        self.request_refresh();
        let address = asked_at.map_or_else(|| format!("broker {node}"), |at| at.to_string());
        ConnectionError::Disconnected { address, why: why.to_owned() }
    }

    /// Sends a request that every broker can answer, and that may be carried out twice, to one of
    /// them, as [`Self::at_some`].
    ///
    /// # Errors
    /// What the last broker failed with, if none is asked any more.
    pub async fn send_to_some<R: Request + 'static>(
        &self,
        build: impl Fn(i16) -> R,
    ) -> Result<(i16, R::Response), ConnectionError>
    where
        R::Response: Send,
    {
        let ask = |connection: Arc<Connection>| {
            let reply = connection.send(&build);
            async move {
                let answer = reply.await;
                drop(connection);
                answer
            }
        };
        let answer = self.at_some(ask).await;
        self.after(answer)
    }

    /// Asks any broker. When no answer comes within two seconds another broker is asked as well:
    /// the first one may be frozen or cut off. No broker is asked twice. The first answer counts.
    ///
    /// # Errors
    /// What the last broker failed with, if none is asked any more.
    pub async fn at_some<T, F>(
        &self,
        ask: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, ConnectionError>
    where
        F: Future<Output = Result<T, ConnectionError>> + Send + 'static,
        T: Send + 'static,
    {
        let first = self.any_connection().await?;
        self.at_some_from(first, ask).await
    }

    /// The same, beginning with a connection.
    pub(super) async fn at_some_from<T, F>(
        &self,
        first: Arc<Connection>,
        ask: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, ConnectionError>
    where
        F: Future<Output = Result<T, ConnectionError>> + Send + 'static,
        T: Send + 'static,
    {
        let (mut asked, mut answers) = (Vec::new(), JoinSet::new());
        let mut next = first;
        loop {
            asked.push(Arc::clone(&next));
            let answer = ask(Arc::clone(&next));
            answers.spawn(answer_over(next, answer, self.patience(ANOTHER_AFTER)));
            next = loop {
                tokio::select! {
                    biased;
                    ended = answers.join_next() => match ended {
                        Some(Ok(Ok(answer))) => return Ok(answer),
                        Some(Ok(Err(error))) if answers.is_empty() => return Err(error),
                        None => return Err(shut_down()),
                        // Another one may answer yet.
                        Some(_) => {}
                    },
                    another = self.another(&asked) => break another,
                }
            };
        }
    }

    /// A connection to a broker that was not asked: the others are late. It is looked for until
    /// there is one.
    async fn another(&self, asked: &[Arc<Connection>]) -> Arc<Connection> {
        loop {
            tokio::time::sleep(self.patience(ANOTHER_AFTER)).await;
            let image = self.image();
            let leads_to = |place: &HostPort| asked.iter().any(|open| open.leads_to(place));
            let (late, mut others): (Vec<_>, Vec<_>) =
                image.brokers().partition(|broker| leads_to(&broker.place));
            late.iter().for_each(|broker| self.suspect(broker.id));
            others.sort_by_key(|broker| self.is_suspected(broker.id));
            for broker in others {
                let made = self.0.pool.connection(broker.id, Lane::Data, &broker.place);
                if let Ok(Ok(open)) = tokio::time::timeout(REACHED_WITHIN, made).await {
                    return open;
                }
            }
            // Perhaps no more is known than the broker that is late.
            let is_known = |place: &HostPort| image.brokers().any(|one| one.place == *place);
            let config = &self.0.config;
            for place in self.bootstrap().iter().filter(|place| !leads_to(place)) {
                let made = Connection::open(place, config, REACHED_WITHIN);
                if !is_known(place)
                    && let Ok(open) = made.await
                {
                    return Arc::new(open);
                }
            }
        }
    }

    /// How long to wait; tests have less time than users.
    fn patience(&self, usual: Duration) -> Duration {
        self.0.patience.get().copied().unwrap_or(usual)
    }

    /// Doubts brokers after this time; counts the first time it is called.
    #[cfg(any(test, feature = "testing"))]
    pub fn doubt_after(&self, patience: Duration) {
        let _ = self.0.patience.set(patience);
    }
}

/// Waits for an answer. A connection that took longer than `patience` ends with the wait.
async fn answer_over<T>(
    connection: Arc<Connection>,
    answer: impl Future<Output = Result<T, ConnectionError>>,
    patience: Duration,
) -> Result<T, ConnectionError> {
    tokio::pin!(answer);
    if let Ok(answer) = tokio::time::timeout(patience, &mut answer).await {
        return answer;
    }
    let ends = EndsUnanswered(Some(connection));
    let answer = answer.await;
    ends.answered();
    answer
}

fn shut_down() -> ConnectionError {
    let (address, why) = ("brokers".to_owned(), "the client was shut down".to_owned());
    ConnectionError::Disconnected { address, why }
}

/// A connection that still waits for an answer when no caller does any more. Answers come in the
/// order of requests, so later ones would wait with it. It lives on if others wait for answers: a
/// slow broker gives them, and what is sent again may be carried out twice.
struct EndsUnanswered(Option<Arc<Connection>>);

impl EndsUnanswered {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for EndsUnanswered {
    fn drop(&mut self) {
        if let Some(connection) = self.0.as_ref().filter(|open| open.in_flight() <= 1) {
            connection.close("another broker answered in its place");
        }
    }
}

#[cfg(test)]
mod tests;
