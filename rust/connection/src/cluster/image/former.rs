//! Topics that gave way to others of their names.
//!
//! Brokers learn one after the other that a topic was deleted and created again. A broker that does
//! not know yet answers with the former topic, whose id no topic ever gets again. Ids have no order
//! that says which topic is the later one:
//! - case A: a broker that answered with one id answers with the other: a broker never goes back
//! - case B: two brokers contradict each other: the id that was seen later counts, for [`LAG`] at
//!   most. Until then the brokers with the former id are asked again: when they have the new id, it
//!   is case A
//! - case C: a broker contradicts case A. It lags behind for as long as it is cut off from its
//!   cluster. Its topic counts only if more brokers answer with it than with the later one

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

use crate::address::NodeId;

/// Brokers lag behind for milliseconds.
const LAG: Duration = Duration::from_secs(5);
/// A topic that certainly gave way is remembered for this time.
const CUT_OFF: Duration = Duration::from_secs(3_600);

/// The last topic of a name.
#[derive(Clone, Debug)]
struct Last {
    id: Uuid,
    /// When it was known last.
    known: Instant,
    /// Since when it is the last one.
    since: Instant,
    /// Of which topic of the name each broker told last, and when.
    told: BTreeMap<NodeId, (Uuid, Instant)>,
    /// When another broker answered with a topic that this one replaced.
    doubted: Option<Instant>,
}

impl Last {
    /// How many brokers answered with this id since the last topic is known.
    fn votes(&self, id: Uuid) -> usize {
        self.told.values().filter(|(told, when)| *told == id && *when >= self.since).count()
    }
}

/// A topic that gave way to another of its name.
#[derive(Clone, Copy, Debug)]
struct Gone {
    since: Instant,
    /// Whether one broker answered with this topic first, and with the other one later.
    is_certain: bool,
}

impl Gone {
    fn counts(&self, now: Instant) -> bool {
        let most = if self.is_certain { CUT_OFF } else { LAG };
        now.saturating_duration_since(self.since) < most
    }
}

/// Answers of a short time ago.
#[derive(Clone, Debug, Default)]
pub(super) struct Former {
    /// By id.
    gone: HashMap<Uuid, Gone>,
    /// By name.
    last: HashMap<String, Last>,
}

impl Former {
    /// Forgets topics that no broker lists any more; `is_known` says which topics exist.
    pub fn forget(&mut self, is_known: impl Fn(&str) -> bool, now: Instant) {
        let lately = |since: Instant| now.saturating_duration_since(since) < LAG;
        self.gone.retain(|_, gone| gone.counts(now));
        self.last.retain(|name, last| {
            if is_known(name) {
                last.known = now;
            }
            lately(last.known)
        });
    }

    /// Whether the topic with this id, of which `teller` tells, gave way to another one of its
    /// name. If not, it is the topic of that name now.
    pub fn gave_way(&mut self, name: &str, id: Uuid, teller: Option<NodeId>, now: Instant) -> bool {
        if id.is_zero() {
            return false;
        }
        let gone = self.gone.get(&id).copied();
        let Some(last) = self.last.get_mut(name) else {
            if gone.is_none() {
                let told = teller.map(|teller| (teller, (id, now))).into_iter().collect();
                let last = Last { id, known: now, since: now, told, doubted: None };
                self.last.insert(name.to_owned(), last);
            }
            return gone.is_some();
        };
        let before = teller.and_then(|teller| last.told.insert(teller, (id, now)));
        let before = before.map(|(id, _)| id);
        if last.id == id {
            if let Some(before) = before.filter(|before| *before != id)
                && let Some(gone) = self.gone.get_mut(&before)
            {
                gone.is_certain = true;
            }
            return false;
        }
        let went_on = before == Some(last.id);
        let is_outnumbered = last.votes(id) <= last.votes(last.id);
        if let Some(gone) = gone.filter(|_| !went_on)
            && (is_outnumbered || !gone.is_certain)
        {
            last.doubted = Some(now);
            return true;
        }
        self.gone.remove(&id);
        // A broker that went back, after a restart perhaps, says nothing for certain.
        let is_certain = went_on && gone.is_none();
        self.gone.insert(last.id, Gone { since: now, is_certain });
        (last.id, last.known, last.since, last.doubted) = (id, now, now, None);
        false
    }

    /// The brokers whose answer about a topic was contradicted lately.
    pub fn doubted(&self, now: Instant) -> impl Iterator<Item = NodeId> {
        let lately = move |last: &&Last| {
            last.doubted.is_some_and(|since| now.saturating_duration_since(since) < LAG)
        };
        self.last.values().filter(lately).flat_map(|last| {
            let of_last = last.told.iter().filter(|(_, (id, _))| *id == last.id);
            of_last.map(|(teller, _)| *teller)
        })
    }
}
