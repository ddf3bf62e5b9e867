//! Where a broker is.

use std::fmt;

/// A broker's id.
pub type NodeId = i32;

/// A place to connect to; the host is a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Without brackets.
    pub host: String,
    /// From 1 on.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl HostPort {
    /// From a broker's answer, whose port is 32 bits wide; `None` for a port that cannot be.
    pub fn from_wire(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }
}
