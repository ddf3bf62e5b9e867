//! Brokers that may not be reached: tests divide the network with it.

use crate::address::HostPort;
use crate::connection::Connection;
use crate::error::ConnectionError;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::{Arc, Weak};

/// The links that are cut, for all pools that share it. A pool without one looks at nothing.
#[derive(Debug, Default)]
pub struct CutLinks(Mutex<Links>);

#[derive(Debug, Default)]
struct Links {
    cut: HashSet<HostPort>,
    /// To close them when their link is cut.
    open: Vec<Weak<Connection>>,
}

impl CutLinks {
    /// Cuts the links to these brokers, and mends all others. Connections over a link that is cut
    /// end; what is on its way over them is lost.
    pub fn set(&self, cut: HashSet<HostPort>) {
        let ended: Vec<Arc<Connection>> = {
            let mut links = self.0.lock();
            links.cut = cut;
            links.open.retain(|open| open.strong_count() > 0);
            let open = links.open.iter().filter_map(Weak::upgrade);
            open.filter(|open| links.cut.iter().any(|place| open.leads_to(place))).collect()
        };
        ended.iter().for_each(|connection| connection.close("the link is cut"));
    }

    /// Whether `place` can be reached.
    pub(crate) fn check(&self, place: &HostPort) -> Result<(), ConnectionError> {
        match self.0.lock().cut.contains(place) {
            false => Ok(()),
            true => Err(ConnectionError::Disconnected {
                address: place.to_string(),
                why: "the link is cut".to_owned(),
            }),
        }
    }

    /// Notes a connection to `place`. The link may have been cut while it was made.
    pub(crate) fn opened(
        &self,
        place: &HostPort,
        connection: &Arc<Connection>,
    ) -> Result<(), ConnectionError> {
        let mut links = self.0.lock();
        links.open.retain(|open| open.strong_count() > 0);
        links.open.push(Arc::downgrade(connection));
        drop(links);
        // Noted first: a cut from now on ends it.
        self.check(place)
    }
}
