//! The protocols that the members of a group know: how many know each, and what they cost.
//!
//! A member may name as many as its request holds, with as many bytes, and keeps them as long as it
//! lives: so they are weighed, and the coordinator bounds the weight of all groups together.

use std::collections::HashMap;

use kafkalite_protocol::messages::join_group::JoinGroupRequestProtocol;

use crate::coordinator::classic::member::Protocol;

/// About how much memory a protocol costs beyond its name and its metadata.
const PROTOCOL_BYTES: usize = 128;

/// About how much memory a member's protocols cost.
pub fn weight(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|(name, metadata)| name.len() + metadata.len() + PROTOCOL_BYTES).sum()
}

/// The same, of those that a request asks with.
pub fn weight_asked_for(protocols: &[JoinGroupRequestProtocol]) -> usize {
    let one =
        |asked: &JoinGroupRequestProtocol| asked.name.len() + asked.metadata.len() + PROTOCOL_BYTES;
    protocols.iter().map(one).sum()
}

/// The protocols of all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownProtocols {
    /// Protocol -> members that know it.
    counts: HashMap<String, usize>,
    bytes: usize,
}

impl KnownProtocols {
    /// One more member knows these.
    pub(super) fn add(&mut self, protocols: &[Protocol]) {
        self.bytes += weight(protocols);
        for (name, _) in protocols {
            *self.counts.entry(name.clone()).or_default() += 1;
        }
    }

    /// A member that knew these is gone.
    pub(super) fn remove(&mut self, protocols: &[Protocol]) {
        self.bytes = self.bytes.saturating_sub(weight(protocols));
        for (name, _) in protocols {
            let Some(count) = self.counts.get_mut(name) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(name);
            }
        }
    }

    /// How many members know `protocol`.
    pub(super) fn known_by(&self, protocol: &str) -> usize {
        self.counts.get(protocol).copied().unwrap_or(0)
    }

    /// About how much memory all of them cost.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> impl Iterator<Item = (&String, &usize)> {
        self.counts.iter()
    }
}
