//! The controller quorum: voters that agree on one log of metadata, by Raft.
//!
//! The quorum knows nothing of metadata. It takes [`Proposal`]s and keeps them in order on the
//! disks of a majority. What is committed goes to a [`StateMachine`]; bytes between voters travel
//! on a [`Transport`]. Raft itself is openraft's, and nothing of openraft leaves this crate.
//!
//! ```text
//!  propose --> quorum --> member --> openraft --> log_store --> journal      disk (one thread)
//!                           ^          |    \--> state_machine --> snapshots
//!                           |          v
//!               answer --> server    network --> Transport
//! ```

mod codec;
mod disk;
mod error;
#[cfg(test)]
#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;
mod journal;
mod log_state;
mod log_store;
mod member;
mod membership;
mod network;
mod quorum;
mod server;
#[cfg(test)]
mod simulation;
mod snapshots;
mod state_machine;
mod types;

pub use error::QuorumError;
pub use member::{MemberStatus, Status, Timing};
pub use membership::MembershipChange;
pub use network::{Answer, Lane, Transport, time_for};
pub use quorum::{Quorum, QuorumOptions};
pub use state_machine::{MakeBytes, StateMachine};
pub use types::{Committed, Endpoint, Proposal, State, VoterId};
