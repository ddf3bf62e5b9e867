//! A broker that stops hands over what it leads, and tells the cluster.
//!
//! ```text
//!  hand over --> the others know --> fence --> hand on the lead of the quorum
//!      ^  |
//!      +--+ a follower gets in sync
//! ```
//! It serves until the others know the new leaders, so that a client that asks any of them finds
//! one. Where no other replica is in sync, it leads until one is, or its time is over.
//! Source: the role of Kafka's controlled shutdown in `BrokerHeartbeatManager`.

use super::member::Member;
use super::membership::endpoint;
use super::{Cluster, LEAVE_TIMEOUT, NO_EPOCH};
use crate::metadata::MetadataImage;
use crate::metadata::controller::{Done, OnAnswer};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::api_versions::ApiVersionsRequest;
use kafkalite_quorum::Endpoint;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

impl Cluster {
    /// Hands over what this broker leads, tells the cluster that it stops, and hands its lead of
    /// the quorum on. The first takes at most `timeout`.
    pub fn leave(&self, timeout: Duration) {
        let Some(member) = self.running() else { return };
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == NO_EPOCH {
            return;
        }
        if self.controller().image().alive_brokers().all(|broker| broker.id == self.id()) {
            return;
        }
        let until = Instant::now() + timeout;
        match self.hand_over(epoch, until) {
            Some(offset) => self.wait_for_others(&member, offset, until),
            None => tracing::warn!("some partitions have no other leader yet; the broker stops"),
        }
        // From here on no heartbeat ends the fence.
        self.epoch.store(NO_EPOCH, Ordering::Release);
        let told = until_done(Instant::now() + LEAVE_TIMEOUT, |done| self.fence_self(true, done));
        if !told {
            tracing::warn!("the cluster did not hear in time that this broker stops");
        }
        let status = member.raft.raft_status();
        let others = status.voters.iter().filter(|voter| voter.id != status.me);
        let next = others.max_by_key(|voter| voter.matched).map(|voter| voter.id);
        if let Some(next) = next.filter(|_| Member::leads(&status)) {
            let (told, heard) = mpsc::sync_channel(1);
            member.raft.transfer(next, move |result| _ = told.send(result));
            // Without an answer the others elect a leader after a moment.
            let _ = heard.recv_timeout(LEAVE_TIMEOUT);
        }
    }

    /// Hands over until nothing is left that another broker could take. The offset of the metadata
    /// that say so; `None` if the time is over before.
    fn hand_over(&self, epoch: i64, until: Instant) -> Option<i64> {
        loop {
            let ask = |done: OnAnswer<()>| self.controller().hand_over(self.id(), epoch, done);
            if !until_done(until, ask) {
                return None;
            }
            let image = self.controller().image();
            if !leads_for_others(&image, self.id()) {
                return Some(image.offset);
            }
            // A follower that gets in sync makes another image.
            while self.controller().image().offset == image.offset {
                if Instant::now() >= until {
                    return None;
                }
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Waits until every broker that serves has the metadata up to `offset`.
    fn wait_for_others(&self, member: &Arc<Member>, offset: i64, until: Instant) {
        let image = self.controller().image();
        let others = image.alive_brokers().filter(|broker| broker.id != self.id());
        let listener = &self.identity.listener;
        for (id, at) in others.map(|broker| (broker.id, endpoint(broker, listener))) {
            while !self.knows(member, &at, offset, until) {
                // A broker that died meanwhile is not waited for.
                if !self.controller().image().is_alive(id) || Instant::now() >= until {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Whether the broker at `at` says that it has the metadata up to `offset`.
    fn knows(&self, member: &Arc<Member>, at: &Endpoint, offset: i64, until: Instant) -> bool {
        let (peers, at) = (Arc::clone(&member.peers), at.clone());
        let (told, heard) = mpsc::sync_channel(1);
        let request = ApiVersionsRequest {
            client_software_name: "kafkalite".to_owned(),
            client_software_version: "1".to_owned(),
        };
        drop(member.peers.runtime().spawn(async move {
            let answer = peers.ask(&at, request).await;
            let _ = told.send(answer.map(|answer| answer.finalized_features_epoch));
        }));
        let left = until.saturating_duration_since(Instant::now());
        matches!(heard.recv_timeout(left), Ok(Ok(known)) if known >= offset)
    }
}

/// Whether a broker leads a partition that another one has a replica of and could lead soon.
fn leads_for_others(image: &MetadataImage, id: i32) -> bool {
    let mut partitions = image.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.any(|partition| {
        let mut others = partition.replicas.iter().filter(|replica| **replica != id);
        partition.leader == id && others.any(|replica| image.is_alive(*replica))
    })
}

/// Asks for a change until it is made: a controller may be on its way out as well. Whether it was
/// made in time.
fn until_done(until: Instant, ask: impl Fn(OnAnswer<()>)) -> bool {
    loop {
        let (told, heard) = mpsc::sync_channel(1);
        ask(Done::new(move |result| _ = told.send(result)));
        match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) if error.code == ErrorCode::BrokerIdNotRegistered => return false,
            Ok(Err(error)) => tracing::debug!(?error, "a change of a stop was refused"),
            Err(_) => return false,
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
