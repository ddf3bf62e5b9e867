//! `host:port`, as `bootstrap.servers` spells it.

use super::values::Values;
use crate::error::ClientError;
use kafkalite_connection::HostPort;

/// Kafka's port.
const DEFAULT_PORT: u16 = 9092;

/// Reads one of `bootstrap.servers`: `host`, `host:port`, `[::1]:port`, each after `PLAINTEXT://`
/// or not.
pub fn parse_server(text: &str) -> Result<HostPort, ClientError> {
    let wrong = |why: &str| {
        let hint = "write host:port, as in localhost:9092.";
        Values::wrong("bootstrap.servers", format!("`{text}` {why}"), Some(hint))
    };
    let bare = match text.split_once("://") {
        Some(("PLAINTEXT" | "plaintext", bare)) => bare,
        Some(_) => return Err(wrong("names a protocol that is not PLAINTEXT")),
        None => text,
    };
    let (host, port) = if let Some(rest) = bare.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(|| wrong("has no ]"))?;
        (host, after.strip_prefix(':'))
    } else if bare.matches(':').count() > 1 {
        return Err(wrong("is not host:port; an IPv6 address takes brackets"));
    } else {
        bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong("has no host"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(wrong("has no port from 1 to 65535")),
            Ok(port) => port,
        },
    };
    Ok(HostPort { host: host.to_owned(), port })
}
