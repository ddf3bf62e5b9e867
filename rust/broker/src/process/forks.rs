//! Forks of a broker under test: second brokers in its process.

use std::path::PathBuf;

use super::embedded::url;
use super::failure::Failure;
use super::serve::{bind_admin, reachable, start_admin};
use crate::admin_http::AdminHttp;
use crate::broker::Broker;
use crate::config::{BrokerConfig, ConfigError, ConfigSource, ListenerConfig};
use crate::test_control::{Forked, Refused};

/// Lets clients of the admin API fork the broker, if it is under test.
pub(super) fn allow(broker: &Broker) {
    let Some(control) = broker.test_control() else { return };
    let config = broker.rooms().config();
    control.fork_with(Box::new(move |directories| {
        let started = of_fork(&config, directories).map_err(Failure::from).and_then(start);
        let fork = started.map_err(|failure| Refused {
            status: 500,
            what: failure.what,
            why: failure.why.unwrap_or_else(|| "the fork does not start".to_owned()),
            hint: failure.hint,
        })?;
        Ok(Box::new(fork))
    }));
}

struct Fork {
    broker: Broker,
    admin: Option<AdminHttp>,
}

impl Forked for Fork {
    fn bootstrap_servers(&self) -> String {
        let listeners = self.broker.listeners().into_iter();
        let addresses: Vec<String> =
            listeners.map(|(_, address)| reachable(address).to_string()).collect();
        addresses.join(",")
    }

    fn admin_url(&self) -> Option<String> {
        self.admin.as_ref().map(|admin| url(reachable(admin.address())))
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        // Its data go with it.
        self.broker.kill();
    }
}

fn start(config: BrokerConfig) -> Result<Fork, Failure> {
    let admin = bind_admin(&config)?;
    let broker = Broker::start(config)?;
    let admin = start_admin(admin, &broker).inspect_err(|_| broker.kill())?;
    allow(&broker);
    Ok(Fork { broker, admin })
}

/// The configuration with ports and directories of its own.
fn of_fork(config: &BrokerConfig, directories: &[PathBuf]) -> Result<BrokerConfig, ConfigError> {
    let mut values = config.values.clone();
    let listed = |listeners: &[ListenerConfig]| {
        let one = |listener: &ListenerConfig| match listener.host.contains(':') {
            true => format!("{}://[{}]:0", listener.name, listener.host),
            false => format!("{}://{}:0", listener.name, listener.host),
        };
        listeners.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let directories: Vec<String> =
        directories.iter().map(|directory| directory.display().to_string()).collect();
    let mut set =
        |key: &str, value: &str| values.set(key, value, ConfigSource::StaticBroker, "a fork");
    set("listeners", &listed(&config.listeners))?;
    if !config.advertised_listeners.is_empty() {
        set("advertised.listeners", &listed(&config.advertised_listeners))?;
    }
    set("log.dirs", &directories.join(","))?;
    set("kafkalite.admin.port", "0")?;
    set("kafkalite.disk.sync", "false")?;
    BrokerConfig::new(values)
}
