//! The end of a connection when the broker stops: no answer is lost that was given.
//!
//! A socket that is closed with unread requests in it, or before more of them arrive, is reset. The
//! peer then loses the answers that it has not read. So sending ends first, which the peer sees
//! behind its last answer. What the peer still sends is read and thrown away until the peer ends
//! too. A peer that has every answer and asks nothing more is not waited for. A peer that was just
//! served may ask again soon, so it gets a moment.

use std::io::{self, Read};

use super::reading::is_passing;
use super::{NetworkThread, Served};
use crate::clock::NS_PER_MS;
use crate::network::connection::CloseReason;

/// How often it is looked whether the last byte has arrived.
pub(super) const LOOK_NS: u64 = 5 * NS_PER_MS;
/// How long a peer that asked more than is answered has to find the end behind its answers.
const LINGER_NS: u64 = 1_000 * NS_PER_MS;
/// How long a peer that was just served has to ask more, or to find the end.
const MOMENT_NS: u64 = 20 * NS_PER_MS;
/// A peer that moved no byte for this time is not about to ask.
const JUST_NS: u64 = 1_000 * NS_PER_MS;
/// Bytes thrown away in one read.
const DISCARD_BYTES: usize = 16 << 10;
/// Reads of one connection in a turn.
const DISCARDS: usize = 64;

/// A connection on which nothing more is sent.
pub(super) struct Parting {
    /// The peer sent requests that get no answer: it may send more before it reads the end.
    asks: bool,
    /// It was just served, or asked just now.
    is_busy: bool,
    /// Since when the peer's machine has all that was sent.
    arrived_ns: Option<u64>,
}

impl Parting {
    /// Whether the connection can end without a loss.
    fn is_over(&self, now_ns: u64) -> bool {
        let linger_ns = match self {
            Self { asks: true, .. } => LINGER_NS,
            Self { is_busy: true, .. } => MOMENT_NS,
            Self { .. } => 0,
        };
        self.arrived_ns.is_some_and(|arrived_ns| now_ns >= arrived_ns + linger_ns)
    }
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
                let is_busy = served.connection.moved_ns() >= now_ns.saturating_sub(JUST_NS);
                served.parting = Some(Parting { asks, is_busy, arrived_ns: None });
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
        if parting.arrived_ns.is_none() && self.stream.unacknowledged() == 0 {
            parting.arrived_ns = Some(now_ns);
        }
        // One that sends no more causes no reset, so the system delivers the rest by itself.
        self.ended_ns.is_some() || parting.is_over(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_more_is_waited_for_and_who_was_just_served_a_moment() {
        let at = |asks, is_busy| Parting { asks, is_busy, arrived_ns: Some(5) };
        assert!(at(false, false).is_over(5));
        let busy = at(false, true);
        assert!(!busy.is_over(4 + MOMENT_NS) && busy.is_over(5 + MOMENT_NS));
        for asks in [at(true, true), at(true, false)] {
            assert!(!asks.is_over(4 + LINGER_NS) && asks.is_over(5 + LINGER_NS));
        }
        let on_its_way = Parting { arrived_ns: None, ..at(false, false) };
        assert!(!on_its_way.is_over(u64::MAX), "until the deadline of the stop");
    }
}
