//! The end of a connection when the broker stops: no answer is lost that was given.
//!
//! A socket that is closed while requests lie in it unread, or before more of them come, is reset,
//! and what the peer had not taken of its answers is gone. So sending ends first, which the peer
//! sees behind its last answer; what it still sends is read and thrown away until it ends, too.
//! Nobody is waited for who has every answer and asked nothing more.

use std::io::{self, Read};

use super::reading::is_passing;
use super::{NetworkThread, Served};
use crate::clock::NS_PER_MS;
use crate::network::connection::CloseReason;

/// How often it is looked whether the last byte has arrived.
pub(super) const LOOK_NS: u64 = 5 * NS_PER_MS;
/// How long a peer that asked more than is answered has to find the end behind its answers.
const LINGER_NS: u64 = 1_000 * NS_PER_MS;
/// Bytes thrown away in one read.
const DISCARD_BYTES: usize = 16 << 10;
/// Reads of one connection in a turn.
const DISCARDS: usize = 64;

/// A connection on which nothing more is sent.
pub(super) struct Parting {
    /// The peer sent what nobody will answer: it may not look for the end before it has sent more.
    asks: bool,
    /// Since when the peer's machine has all that was sent.
    arrived_ns: Option<u64>,
}

impl NetworkThread {
    /// Ends sending where everything is answered and out, and ends connections that nothing is lost
    /// with.
    pub(super) fn part(&mut self) {
        let now_ns = self.now_ns();
        let settled = self.connections.iter().filter(|(_, of)| of.connection.is_settled());
        let settled: Vec<usize> = settled.map(|(key, _)| key).collect();
        for key in settled {
            let Some(served) = self.connections.get_mut(key) else { continue };
            if served.parting.is_none() {
                served.stream.end_sending();
                let asks = served.connection.frames.arrived() > 0;
                served.parting = Some(Parting { asks, arrived_ns: None });
                // What lies in the socket since before has to be read.
                self.discard(key);
            }
            if self.connections.get_mut(key).is_some_and(|served| served.has_parted(now_ns)) {
                self.close(key, CloseReason::Stopped, "");
            }
        }
    }

    /// Throws away what a peer sends from which we part.
    pub(super) fn discard(&mut self, key: usize) {
        let Some(served) = self.connections.get_mut(key) else { return };
        let Some(parting) = served.parting.as_mut().filter(|_| served.readable) else { return };
        let mut bytes = [0; DISCARD_BYTES];
        for _ in 0..DISCARDS {
            match served.stream.read(&mut bytes) {
                Ok(0) => return self.close(key, CloseReason::Peer, ""),
                Ok(_) => parting.asks = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => {
                    served.readable = false;
                    return;
                }
                Err(error) => return self.close(key, CloseReason::Peer, &error.to_string()),
            }
        }
        self.queue_to_read(key);
    }
}

impl Served {
    /// Whether the connection may be closed.
    fn has_parted(&mut self, now_ns: u64) -> bool {
        let Some(parting) = &mut self.parting else { return false };
        if parting.arrived_ns.is_none() && self.stream.has_arrived() {
            parting.arrived_ns = Some(now_ns);
        }
        let has_arrived = |arrived_ns| !parting.asks || now_ns >= arrived_ns + LINGER_NS;
        // One that sends no more causes no reset, so the system delivers the rest by itself.
        self.ended_ns.is_some() || parting.arrived_ns.is_some_and(has_arrived)
    }
}
