//! Clients of the simulated cluster: plain models that do what correct clients do.

mod admin;
mod member;
mod producer;
mod reader;

pub use admin::Admin;
pub use member::Member;
pub use producer::Producer;
pub use reader::Reader;

use kafkalite_protocol::LeaderEpoch;

/// What a client found out about a partition: the leader and its epoch, as some broker knows them.
pub type Guess = Option<(i32, LeaderEpoch)>;
