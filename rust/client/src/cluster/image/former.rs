//! Topics that gave way to others of their names.
//!
//! Brokers learn one after the other that a topic was deleted and made again. One that does not
//! know yet tells of the topic that there was, whose id no topic ever gets again. No order of ids
//! says which topic is the later one: it is the one that was heard of later. Where the first answer
//! came from a broker that lags behind, that is wrong, for [`LAG`] at most.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

/// Brokers lag behind for milliseconds.
const LAG: Duration = Duration::from_secs(5);

/// What was told not long ago.
#[derive(Clone, Debug, Default)]
pub(super) struct Former {
    /// When topics gave way to others of their names, by id.
    gone: HashMap<Uuid, Instant>,
    /// The last topic of each name, and when it was known last.
    last: HashMap<String, (Uuid, Instant)>,
}

impl Former {
    /// Forgets what no broker tells of any more; `is_known` says which topics there are.
    pub fn forget(&mut self, is_known: impl Fn(&str) -> bool, now: Instant) {
        let lately = |since: Instant| now.saturating_duration_since(since) < LAG;
        self.gone.retain(|_, since| lately(*since));
        self.last.retain(|name, (_, known)| {
            if is_known(name) {
                *known = now;
            }
            lately(*known)
        });
    }

    /// Whether the topic with this id gave way to another one of its name. If not, it is the
    /// topic of that name now.
    pub fn gave_way(&mut self, name: &str, id: Uuid, now: Instant) -> bool {
        if id.is_zero() || self.gone.contains_key(&id) {
            return !id.is_zero();
        }
        let before = match self.last.get_mut(name) {
            Some(last) => Some(std::mem::replace(last, (id, now)).0),
            None => self.last.insert(name.to_owned(), (id, now)).map(|(before, _)| before),
        };
        if let Some(before) = before.filter(|before| *before != id) {
            self.gone.insert(before, now);
        }
        false
    }
}
