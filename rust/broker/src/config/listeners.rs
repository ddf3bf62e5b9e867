//! `listeners` and `advertised.listeners`: NAME://HOST:PORT.
//!
//! Source: Kafka's `SocketServerConfigs.listenerListToEndPoints`.

/// One place to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    /// `PLAINTEXT` for instance.
    pub name: String,
    /// Name or address to bind; empty is every interface.
    pub host: String,
    /// Port; 0 lets the system choose.
    pub port: u16,
}

impl ListenerConfig {
    /// It names an address that is none to connect to: no host, or that of every interface.
    #[must_use]
    pub fn is_unspecified(&self) -> bool {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_unspecified(),
            Err(_) => self.host.is_empty(),
        }
    }

    /// Only this machine can reach it: 127.0.0.0/8, `::1` or `localhost`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// An address that clients of one listener are sent to; port 0 is the port that was bound.
pub type AdvertisedListener = ListenerConfig;

/// Reads one `NAME://HOST:PORT`; an IPv6 host stands in brackets.
///
/// # Errors
/// What is wrong with it, to follow `Invalid value ... for configuration ...: `.
pub fn parse_listener(text: &str) -> Result<ListenerConfig, String> {
    let bad = || format!("Unable to parse {text} to a broker endpoint");
    let (name, address) = text.split_once("://").ok_or_else(bad)?;
    let (host, port) = parse_host_port(address).ok_or_else(bad)?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_word) {
        return Err(bad());
    }
    Ok(ListenerConfig { name: name.to_ascii_uppercase(), host, port })
}

/// Splits `HOST:PORT`; the host may be empty, or in brackets.
#[must_use]
pub fn parse_host_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner,
        None if host.contains(':') => return None,
        None => host,
    };
    Some((host.to_owned(), port))
}
