//! Replication: the fetchers that keep this broker's followers up with their leaders.
//!
//! One [`Fetcher`] for each leader says what to ask and what the answers mean; it is pure. A thread
//! of its own ([`ReplicaFetchers`]) carries questions and answers. [`LocalLogs`] appends and cuts.
//! `healer` reads the followed logs, and mends what a disk changed in them.
//! A broker that follows no leader has no thread and no connection here. See ADR 0036.

mod fetcher;
mod healer;
mod leader_thread;
mod local_logs;
mod replica_fetchers;

pub use fetcher::{
    Answer, FetchedRecords, Fetcher, FetcherConfig, LocalReplicas, Next, Position, Question,
    ReplicaKey,
};
pub use local_logs::LocalLogs;
pub use replica_fetchers::{ReplicaFetchers, ReplicaFetchersConfig};
