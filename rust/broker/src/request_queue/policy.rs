//! How requests of one API travel: a row of the table of APIs, and what the listener adds to it.
//!
//! `handlers/table.rs` fills the rows; network and request queue only look at them.

use std::sync::Arc;

use crate::response_queue::Overlap;

/// Which lane a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Everything that arrives on the listener of brokers, and what only brokers ask on any.
    Brokers,
    /// Heartbeats, coordinators, metadata, controller.
    Control,
    /// What reads or writes the log and may wait for a disk.
    Data,
}

/// Who uses a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Producers, consumers, admin clients.
    Clients,
    /// Other brokers: the listener is `inter.broker.listener.name`.
    Brokers,
}

/// Who sends a request, as `type:name`. Source: `KafkaPrincipal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Every client on a listener without authentication.
    #[must_use]
    pub fn anonymous() -> Self {
        Self("User:ANONYMOUS".into())
    }

    /// `type:name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How requests of one API travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiPolicy {
    /// The lane on a listener of clients.
    pub lane: Lane,
    /// What such a request may run beside.
    pub overlap: Overlap,
    /// Whether it cannot block and costs little, so that a network thread may run it.
    pub inline: bool,
}

impl ApiPolicy {
    /// The lane of a request that arrives on a listener of `audience`.
    #[must_use]
    pub fn lane_for(&self, audience: Audience) -> Lane {
        match audience {
            Audience::Brokers => Lane::Brokers,
            Audience::Clients => self.lane,
        }
    }
}

/// The policy of an API by Kafka's number of it; every number has one.
pub type PolicyOf = fn(i16) -> ApiPolicy;
