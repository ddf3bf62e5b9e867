//! Brokers whose answers led nowhere. A broker that is cut off from the others goes on telling of
//! leaders and coordinators that were. So another broker is asked first for a while.

use super::Cluster;
use crate::address::NodeId;
use crate::connection::Connection;
use crate::error::ConnectionError;
use crate::pool::Lane;
use kafkalite_protocol::messages::Request;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A broker is suspected for this time.
const SUSPECTED_FOR: Duration = Duration::from_secs(10);
/// Another broker is reached within this time.
const REACHED_WITHIN: Duration = Duration::from_secs(1);

/// Until when each broker is suspected.
pub type Suspects = HashMap<NodeId, Instant>;

impl Cluster {
    /// What this broker told led nowhere: others are asked first for a while.
    pub fn suspect(&self, node: NodeId) {
        self.0.suspects.lock().insert(node, Instant::now() + SUSPECTED_FOR);
    }

    /// Whether what this broker told led nowhere lately.
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.0.suspects.lock().get(&node).is_some_and(|until| *until > Instant::now())
    }

    /// A connection to a broker that is not suspected while others are. If no such broker is
    /// reached, no broker is suspected any more.
    pub(super) async fn beside_suspects(&self) -> Option<Arc<Connection>> {
        let suspects = {
            let mut suspects = self.0.suspects.lock();
            let now = Instant::now();
            suspects.retain(|_, until| *until > now);
            if suspects.is_empty() {
                return None;
            }
            suspects.clone()
        };
        let open = self.0.pool.least_loaded(|node| !suspects.contains_key(&node));
        if open.is_some() {
            return open;
        }
        let image = self.image();
        for broker in image.brokers().filter(|broker| !suspects.contains_key(&broker.id)) {
            let made = self.0.pool.connection(broker.id, Lane::Data, &broker.place);
            if let Ok(Ok(open)) = tokio::time::timeout(REACHED_WITHIN, made).await {
                return Some(open);
            }
        }
        self.0.suspects.lock().clear();
        None
    }

    /// Sends a request that may be carried out twice to a broker. When no answer comes within
    /// `patience`, another broker is asked as well, as the first one may be cut off from its
    /// cluster. The first answer counts.
    ///
    /// # Errors
    /// What the last broker failed with, if none is asked any more.
    pub async fn send_to_some<R: Request + 'static>(
        &self,
        patience: Duration,
        build: impl Fn(i16) -> R + Clone + Send + 'static,
    ) -> Result<(i16, R::Response), ConnectionError>
    where
        R::Response: Send,
    {
        let (mut asked, late) = (JoinSet::new(), Arc::new(Notify::new()));
        let most = self.image().brokers().count().max(1);
        let mut asks = 0;
        loop {
            if asks < most {
                asks += 1;
                let (cluster, build, late) = (self.clone(), build.clone(), Arc::clone(&late));
                asked.spawn(async move { cluster.ask_one(patience, build, &late).await });
            }
            let ended = tokio::select! {
                ended = asked.join_next() => ended,
                () = late.notified() => continue,
            };
            match ended {
                Some(Ok(answer)) if answer.is_ok() || asked.is_empty() => {
                    return self.after(answer);
                }
                // Another broker is asked in its place.
                Some(_) => {}
                None => {
                    let (address, why) = ("brokers".to_owned(), "the client was shut down");
                    return Err(ConnectionError::Disconnected { address, why: why.to_owned() });
                }
            }
        }
    }

    /// Asks one broker. If it takes longer than `patience` it is suspected, and `late` is notified.
    async fn ask_one<R: Request>(
        &self,
        patience: Duration,
        build: impl Fn(i16) -> R,
        late: &Notify,
    ) -> Result<(i16, R::Response), ConnectionError> {
        let connection = self.any_connection().await?;
        let mut reply = connection.send(build);
        if let Ok(answer) = tokio::time::timeout(patience, &mut reply).await {
            return answer;
        }
        let image = self.image();
        if let Some(broker) = image.brokers().find(|broker| connection.leads_to(&broker.place)) {
            self.suspect(broker.id);
        }
        late.notify_one();
        let mut ends = EndsUnanswered(Some(connection));
        let answer = reply.await;
        ends.0 = None;
        answer
    }
}

/// A connection that still waits for an answer when no caller does any more. Answers come in the
/// order of requests, so later ones would wait with it.
struct EndsUnanswered(Option<Arc<Connection>>);

impl Drop for EndsUnanswered {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.close("another broker answered in its place");
        }
    }
}
