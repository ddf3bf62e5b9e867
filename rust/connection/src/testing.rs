//! What tests need of the other end of a connection: a broker that follows a script, and a thread
//! that runs futures. Tests of this crate use it, and those of crates that ask for the feature
//! `testing`; nothing of it is in a release.

mod auto_create;
mod event_loop;
mod fake_broker;

pub use auto_create::{AutoCreated, auto_creating};
pub use event_loop::{EventLoop, until};
pub use fake_broker::{
    Answer, Asked, FakeBroker, Held, NODE, OTHER, all_apis, config, coordinator, coordinator_at,
    coordinator_is, hold, metadata, metadata_of_two, raw, release, topic, two, two_until, two_with,
    wait_held,
};
