//! The address of a broker that a client gets.
//!
//! For this broker: the entry of `advertised.listeners` for the client's listener. Without an entry
//! it is the address that the client connected to, which works by definition. For other brokers:
//! what they registered for a listener of that name.

use super::Rooms;
use crate::metadata::BrokerImage;
use crate::request_queue::RequestContext;

/// The host and port at which a client that came in by `context` finds `broker`.
pub fn endpoint(rooms: &Rooms, context: &RequestContext, broker: &BrokerImage) -> (String, i32) {
    if broker.id != rooms.config().node_id {
        let (host, port) = broker.endpoint(&context.listener);
        return (host.to_owned(), port.into());
    }
    let local = context.local;
    let named = |listener: &&crate::config::AdvertisedListener| *listener.name == *context.listener;
    match rooms.config().advertised_listeners.iter().find(named) {
        Some(listener) => {
            // An advertised port of 0 means the one that was bound.
            let port = if listener.port == 0 { local.port() } else { listener.port };
            (listener.host.clone(), port.into())
        }
        None => (local.ip().to_canonical().to_string(), local.port().into()),
    }
}
