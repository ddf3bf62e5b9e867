//! A broker without a process of its own: no flags, no signals, no lines on stdout.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::failure::Failure;
use super::serve::{bind_admin, start_admin};
use crate::admin_http::AdminHttp;
use crate::broker::Broker;
use crate::config::{Sources, load};

/// A broker on threads of a process that belongs to somebody else.
pub struct Embedded {
    broker: Broker,
    admin: Option<AdminHttp>,
}

impl Embedded {
    /// Starts one with `config` over the table's defaults; it serves when this returns.
    ///
    /// # Errors
    /// The configuration is wrong, or the broker is refused something that it needs.
    pub fn start(config: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let keys = config.iter();
        let flags = keys.map(|(key, value)| (key.clone(), value.clone(), "config".to_owned()));
        let config = load(&Sources { flags: flags.collect(), ..Sources::default() })?;
        let admin = bind_admin(&config)?;
        let broker = Broker::start(config)?;
        let admin = start_admin(admin, &broker)?;
        Ok(Self { broker, admin })
    }

    /// `HOST:PORT` of every listener, comma-separated.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        let listeners = self.broker.listeners();
        let addresses: Vec<String> =
            listeners.iter().map(|(_, address)| address.to_string()).collect();
        addresses.join(",")
    }

    /// The URL of metrics and health, if they are on.
    #[must_use]
    pub fn admin_url(&self) -> Option<String> {
        self.admin.as_ref().map(|admin| url(admin.address()))
    }

    /// Stops it cleanly.
    pub fn stop(self) {
        if let Some(admin) = &self.admin {
            admin.set_ready(false);
        }
        self.broker.stop();
    }
}

/// The URL under which `address` serves metrics and health.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}
