//! A broker without a process of its own: no flags, no signals, no lines on stdout.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::failure::Failure;
use super::forks;
use super::links::Links;
use super::serve::{bind_admin, reachable, start_admin};
use crate::admin_http::AdminHttp;
use crate::broker::{Broker, Environment};
use crate::config::{Sources, load};
use crate::metrics::{RecentRequest, RecentRequests};
use crate::test_control::{Refused as ControlRefused, TestControl};

/// A broker on threads of another program's process. Dropping it kills the broker.
pub struct Embedded {
    /// Until it is stopped or killed.
    running: Option<Running>,
    process_id: u32,
}

struct Running {
    broker: Broker,
    admin: Option<AdminHttp>,
}

impl Embedded {
    /// Starts one with `config` over the profile `dev`, and makes the topics that are not there:
    /// name, and partitions if not as many as `num.partitions` says. It serves when this returns,
    /// and does not cross `links` that are cut.
    ///
    /// # Errors
    /// The configuration is wrong, or the broker is refused something that it needs.
    pub fn start(
        config: &BTreeMap<String, String>,
        topics: &[(String, Option<i32>)],
        links: &Links,
    ) -> Result<Self, Failure> {
        let keys = config.iter();
        let flags = keys.map(|(key, value)| (key.clone(), value.clone(), "config".to_owned()));
        let profile = Some("dev".to_owned());
        let config = load(&Sources { profile, flags: flags.collect(), ..Sources::default() })?;
        let admin = bind_admin(&config)?;
        let links = Some(links.0.clone());
        let environment = Environment { links, ..Environment::of(&config) };
        let broker = Broker::start_in(config, environment)?;
        let admin = start_admin(admin, &broker).inspect_err(|_| broker.stop())?;
        broker.create_topics(topics).inspect_err(|_| broker.stop())?;
        forks::allow(&broker);
        let running = Some(Running { broker, admin });
        Ok(Self { running, process_id: std::process::id() })
    }

    /// `HOST:PORT` of every listener, comma-separated.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        let listeners = self.running.iter().flat_map(|running| running.broker.listeners());
        let addresses: Vec<String> =
            listeners.map(|(_, address)| reachable(address).to_string()).collect();
        addresses.join(",")
    }

    /// The URL of metrics and health, if they are on.
    #[must_use]
    pub fn admin_url(&self) -> Option<String> {
        let admin = self.running.as_ref()?.admin.as_ref()?;
        Some(url(reachable(admin.address())))
    }

    /// The last requests, oldest first, and what time it is on their clock.
    #[must_use]
    pub fn recent_requests(&self) -> (Vec<RecentRequest>, u64) {
        let Some(running) = &self.running else { return (Vec::new(), 0) };
        let recent = running.broker.metrics().recent();
        let now_ns = running.broker.rooms().clock.monotonic_ns();
        (recent.map(RecentRequests::all).unwrap_or_default(), now_ns)
    }

    /// Its test control. A command may wait, so it is to run without any lock that another command
    /// or the stop needs.
    ///
    /// # Errors
    /// Test control is off.
    pub fn test_control(&self) -> Result<Arc<TestControl>, ControlRefused> {
        let control = self.running.as_ref().and_then(|running| running.broker.test_control());
        control.cloned().ok_or_else(ControlRefused::off)
    }

    /// Stops it cleanly.
    pub fn stop(mut self) {
        self.end(|running| {
            if let Some(admin) = &running.admin {
                admin.set_ready(false);
            }
            running.broker.stop();
        });
    }

    /// Ends it like a crash, as far as threads can: nothing is flushed, no client is notified.
    pub fn kill(mut self) {
        self.end(|running| running.broker.kill());
    }

    fn end(&mut self, how: impl FnOnce(&Running)) {
        let Some(running) = self.running.take() else { return };
        if self.process_id == std::process::id() {
            how(&running);
        } else {
            // This process was forked off the one that started it: the threads stayed there, and so
            // did the right to its files. Waiting for them would never end.
            std::mem::forget(running);
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.end(|running| running.broker.kill());
    }
}

/// The URL under which `address` serves metrics and health.
pub fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}
