//! The keys that every client has.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, Between, NotEmpty, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    All List "bootstrap.servers" = None, NotEmpty,
        "Addresses `host:port`, separated by commas, of some brokers; the rest of the cluster is \
         learned from them. Without a port it is 9092.";
    All String "client.id" = Some("kafkalite"), Any,
        "What this client calls itself in every request; brokers log it.";
    All String "client.dns.lookup" = Some("use_all_dns_ips"), OneOf(&["use_all_dns_ips"]),
        "Every address that a name resolves to is tried.";
    All Int "request.timeout.ms" = Some("30000"), AtLeast(1),
        "How long a request may wait for its answer; then its connection is closed.";
    All Int "kafkalite.bootstrap.timeout.ms" = Some("3000"), AtLeast(1),
        "How long all known addresses are tried before NO_BROKER_REACHABLE is reported.";
    All Int "socket.connection.setup.timeout.ms" = Some("10000"), AtLeast(1),
        "How long one address may take to accept a connection and tell its versions.";
    All Int "socket.connection.setup.timeout.max.ms" = Some("30000"), AtLeast(1),
        "The same after many failures in a row: the time doubles with each.";
    All Int "reconnect.backoff.ms" = Some("50"), AtLeast(0),
        "The wait before a broker is tried again after a failed connection; it doubles.";
    All Int "reconnect.backoff.max.ms" = Some("1000"), AtLeast(0),
        "The longest wait before a broker is tried again.";
    All Int "retry.backoff.ms" = Some("100"), AtLeast(0),
        "The wait before a failed request is sent again; it doubles.";
    All Int "retry.backoff.max.ms" = Some("1000"), AtLeast(0),
        "The longest wait before a failed request is sent again.";
    All Long "metadata.max.age.ms" = Some("300000"), AtLeast(0),
        "After this time topics and leaders are asked for again, though nothing went wrong.";
    All String "metadata.recovery.strategy" = Some("rebootstrap"), OneOf(&["rebootstrap", "none"]),
        "When no known broker answers: begin again with bootstrap.servers, or keep trying those.";
    All Long "connections.max.idle.ms" = Some("540000"), AtLeast(-1),
        "A connection that was not used for this long is closed; -1 keeps it.";
    All Int "send.buffer.bytes" = Some("-1"), AtLeast(-1),
        "SO_SNDBUF; -1 leaves it to the system, which adapts it.";
    All Int "receive.buffer.bytes" = Some("-1"), AtLeast(-1),
        "SO_RCVBUF; -1 leaves it to the system, which adapts it.";
    All String "security.protocol" = Some("plaintext"), OneOf(&["plaintext"]),
        "How connections are secured.";
    All Int "kafkalite.response.max.bytes" = Some("134217728"), Between(1024, 2_147_483_647),
        "A larger response is taken for garbage and its connection is closed.";
    Callers Int "default.api.timeout.ms" = Some("60000"), AtLeast(0),
        "How long a call may take, with all its retries, where it does not say itself.";
};
