//! The keys that every client has.

use super::key::{ClientKey, Valid, keys};
use Valid::{Any, AtLeast, Between, NotEmpty, OneOf};

/// In the order in which documentation lists them.
pub static KEYS: &[ClientKey] = keys! {
    All List "bootstrap.servers" = None, NotEmpty,
        "Addresses of some brokers: host:port, comma-separated. The client learns the other \
         brokers from them. The default port is 9092.";
    All String "client.id" = Some("kafkalite"), Any,
        "Name of this client in every request. Brokers log the name.";
    All String "client.dns.lookup" = Some("use_all_dns_ips"), OneOf(&["use_all_dns_ips"]),
        "Try every address that a name resolves to.";
    All Int "request.timeout.ms" = Some("30000"), AtLeast(1),
        "Time to wait for an answer. Then the client closes the connection.";
    All Int "kafkalite.bootstrap.timeout.ms" = Some("3000"), AtLeast(1),
        "Time to try all known addresses before the error NO_BROKER_REACHABLE.";
    All Int "socket.connection.setup.timeout.ms" = Some("10000"), AtLeast(1),
        "Time for one address to accept a connection and send its versions.";
    All Int "socket.connection.setup.timeout.max.ms" = Some("30000"), AtLeast(1),
        "Maximum of that time: it doubles with each failure in a row.";
    All Int "reconnect.backoff.ms" = Some("50"), AtLeast(0),
        "Wait after a failed connection before the next try. It doubles with each failure.";
    All Int "reconnect.backoff.max.ms" = Some("1000"), AtLeast(0),
        "Maximum wait before the next try of a connection.";
    All Int "retry.backoff.ms" = Some("100"), AtLeast(0),
        "Wait before a failed request is sent again. It doubles with each failure.";
    All Int "retry.backoff.max.ms" = Some("1000"), AtLeast(0),
        "Maximum wait before a failed request is sent again.";
    All Long "metadata.max.age.ms" = Some("300000"), AtLeast(0),
        "Age at which the client asks for topics and leaders again.";
    All String "metadata.recovery.strategy" = Some("rebootstrap"), OneOf(&["rebootstrap", "none"]),
        "If no known broker answers: start again from bootstrap.servers, or keep trying.";
    All Long "connections.max.idle.ms" = Some("540000"), AtLeast(-1),
        "Idle time after which a connection is closed; -1 for never.";
    All Int "send.buffer.bytes" = Some("-1"), AtLeast(-1),
        "Size of the socket send buffer; -1 lets the system choose.";
    All Int "receive.buffer.bytes" = Some("-1"), AtLeast(-1),
        "Size of the socket receive buffer; -1 lets the system choose.";
    All String "security.protocol" = Some("plaintext"), OneOf(&["plaintext"]),
        "How connections are secured.";
    All Int "kafkalite.response.max.bytes" = Some("134217728"), Between(1024, 2_147_483_647),
        "A larger response is taken for garbage and its connection is closed.";
    Callers Int "default.api.timeout.ms" = Some("60000"), AtLeast(0),
        "How long a call may take, with all its retries, where it does not say itself.";
};
