//! One log line for each misbehaving peer, not one for each of its ten thousand connections.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::clock::NS_PER_MS;

/// A peer is named again after this long.
const QUIET_NS: u64 = 10_000 * NS_PER_MS;
/// Peers remembered; beyond that all are forgotten, and may be named once more.
const MAX_PEERS: usize = 1_024;

/// When each peer was last named.
#[derive(Debug, Default)]
pub struct PeerLog {
    named_ns: HashMap<IpAddr, u64>,
}

impl PeerLog {
    /// Whether to write a line about `peer` now.
    pub fn may_name(&mut self, peer: IpAddr, now_ns: u64) -> bool {
        let quiet = |&last: &u64| now_ns.saturating_sub(last) < QUIET_NS;
        if self.named_ns.get(&peer).is_some_and(quiet) {
            return false;
        }
        if self.named_ns.len() >= MAX_PEERS {
            self.named_ns.clear();
        }
        self.named_ns.insert(peer, now_ns);
        true
    }
}
