//! Brokers whose answers led nowhere. A broker that is cut off from the others goes on telling of
//! leaders and coordinators that were. So another broker is asked first for a while.

use super::Cluster;
use crate::address::NodeId;
use crate::connection::Connection;
use crate::pool::Lane;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A broker is suspected for this time.
const SUSPECTED_FOR: Duration = Duration::from_secs(10);
/// Another broker is reached within this time.
pub(super) const REACHED_WITHIN: Duration = Duration::from_secs(1);

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
}
