//! Connections to brokers: for the client, and for a broker that calls other brokers.
//!
//! | level | what it knows |
//! |---|---|
//! | [`Connection`] | one TCP connection: versions, correlation ids, deadlines, bounds on memory |
//! | [`Pool`] | one connection for each broker and [`Lane`]; the caller says where the broker is |
//! | [`Cluster`] | brokers, topics and leaders, asked for at any of a few addresses |
//!
//! Each level stands on the one above it in this table. A broker has an image of the cluster
//! already and needs the pool; a client has nothing but `bootstrap.servers` and needs all three.
//! Every level fails with a [`ConnectionError`]. Nothing here starts a thread: futures run on the
//! tokio runtime of the caller.
//!
//! The crate knows no producer, consumer or admin client. It trusts no broker: no length is
//! believed before its bytes have arrived, and an answer that cannot be ends its connection.
//! Source: the Kafka protocol guide; `NetworkClient` and `Metadata` of Kafka's clients.

mod address;
#[cfg(any(test, feature = "testing"))]
#[path = "../../testing/awaited.rs"]
mod awaited;
mod backoff;
mod cluster;
mod config;
mod connection;
mod error;
mod links;
mod pool;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use address::{HostPort, NodeId};
pub use backoff::Backoff;
pub use cluster::{
    BrokerImage, Cluster, ClusterImage, CoordinatorKind, LeaderNews, PartitionImage, Silence,
    TopicImage, Wanted,
};
pub use config::ConnectionConfig;
pub use connection::{Connection, Reply, Sent, Versions, api_versions_request};
pub use error::ConnectionError;
pub use links::CutLinks;
pub use pool::{Lane, Pool};
