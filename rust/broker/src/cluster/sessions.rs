//! Which brokers sent the controller a heartbeat lately.
//!
//! Times are monotonic: a jump of the wall clock fences no broker.

use crate::metadata::MetadataImage;
use std::collections::BTreeMap;

/// Longer than between two looks of a leader that was not stopped.
const SHORTEST_GAP_NS: u64 = 500_000_000;

/// How long the leader waits, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Limits {
    /// A broker that sends no heartbeat for so long is fenced.
    session_ns: u64,
    /// A broker is fenced sooner when it takes no connection for so long and sends no heartbeat
    /// meanwhile: more than one of them is missing then.
    unreached_ns: u64,
    /// A leader that did not look for so long was stopped itself: no heartbeat reached it.
    gap_ns: u64,
}

impl Limits {
    /// The limits for heartbeats with this interval.
    pub const fn new(session_ns: u64, heartbeat_ns: u64) -> Self {
        let third = session_ns / 3;
        let gap_ns = if third > SHORTEST_GAP_NS { third } else { SHORTEST_GAP_NS };
        Self { session_ns, unreached_ns: heartbeat_ns.saturating_mul(2), gap_ns }
    }
}

/// When each broker sent its last heartbeat, for the leader of one term.
pub struct Sessions {
    limits: Limits,
    /// The term that this broker leads in.
    term: Option<u64>,
    heard: BTreeMap<i32, u64>,
    /// Since when a broker takes no connection.
    unreached: BTreeMap<i32, u64>,
    /// Brokers that were taken for gone, with their epochs.
    gone: BTreeMap<i32, i64>,
    /// When it looked for the last time.
    looked: Option<u64>,
}

impl Sessions {
    /// Nothing is known yet.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            term: None,
            heard: BTreeMap::new(),
            unreached: BTreeMap::new(),
            gone: BTreeMap::new(),
            looked: None,
        }
    }

    /// This broker leads in `term`. In a term that just began every broker has a full session.
    pub fn lead(&mut self, term: u64) {
        if self.term != Some(term) {
            *self = Self { term: Some(term), ..Self::new(self.limits) };
        }
    }

    /// This broker does not lead.
    pub fn follow(&mut self) {
        *self = Self::new(self.limits);
    }

    /// A broker sent a heartbeat.
    pub fn heard(&mut self, broker_id: i32, now_ns: u64) {
        self.heard.insert(broker_id, now_ns);
        self.unreached.remove(&broker_id);
    }

    /// A broker takes connections, or refused one at this time.
    pub fn reached(&mut self, broker_id: i32, is_reached: bool, now_ns: u64) {
        if is_reached {
            self.unreached.remove(&broker_id);
        } else {
            self.unreached.entry(broker_id).or_insert(now_ns);
        }
    }

    /// Whether a broker whose port refuses connections is to be fenced. It is not where that was
    /// done before in the same life: only its address is wrong then, and heartbeats decide.
    pub fn is_gone(&mut self, broker_id: i32, epoch: i64) -> bool {
        self.gone.insert(broker_id, epoch) != Some(epoch)
    }

    /// Whether no other broker sent a heartbeat for so long that more than one of each is missing.
    pub fn is_deaf(&self, me: i32, now_ns: u64) -> bool {
        let others = self.heard.iter().filter(|(id, _)| **id != me).map(|(_, heard)| *heard);
        let newest = others.max();
        newest.is_some_and(|heard| now_ns.saturating_sub(heard) > self.limits.unreached_ns)
    }

    /// The brokers whose session is over, with their epochs.
    pub fn over(&mut self, image: &MetadataImage, now_ns: u64) -> Vec<(i32, i64)> {
        let Limits { session_ns, unreached_ns, gap_ns } = self.limits;
        let looked = self.looked.replace(now_ns).unwrap_or(now_ns);
        if now_ns.saturating_sub(looked) > gap_ns {
            self.heard.clear();
            self.unreached.clear();
        }
        self.heard.retain(|id, _| image.is_alive(*id));
        self.unreached.retain(|id, _| image.is_alive(*id));
        let mut over = Vec::new();
        for broker in image.alive_brokers() {
            // The session of a broker without a heartbeat begins with this look.
            let heard = *self.heard.entry(broker.id).or_insert(now_ns);
            let unreached = *self.unreached.get(&broker.id).unwrap_or(&now_ns);
            let is_silent = now_ns.saturating_sub(heard) > session_ns;
            if is_silent || now_ns.saturating_sub(unreached) > unreached_ns {
                over.push((broker.id, broker.epoch));
            }
        }
        over
    }
}

#[cfg(test)]
mod tests;
