//! Topics that gave way to others of their names.
//!
//! Brokers learn one after the other that a topic was deleted and created again. A broker that does
//! not know yet answers with the former topic, whose id no topic ever gets again. Ids have no order
//! that says which topic is the later one:
//! - case A: a broker that answered with one id answers with the other: a broker never goes back
//! - case B: two brokers contradict each other: the id that was seen later counts, for [`LAG`] at
//!   most. Until then the brokers with the former id are asked again: when they have the new id, it
//!   is case A

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

use crate::address::NodeId;

/// Brokers lag behind for milliseconds.
const LAG: Duration = Duration::from_secs(5);

/// The last topic of a name.
#[derive(Clone, Debug)]
struct Last {
    id: Uuid,
    /// When it was known last.
    known: Instant,
    /// Of which topic of the name each broker told last.
    told: BTreeMap<NodeId, Uuid>,
    /// When another broker answered with a topic that this one replaced.
    doubted: Option<Instant>,
}

/// Answers of a short time ago.
#[derive(Clone, Debug, Default)]
pub(super) struct Former {
    /// When topics gave way to others of their names, by id.
    gone: HashMap<Uuid, Instant>,
    /// By name.
    last: HashMap<String, Last>,
}

impl Former {
    /// Forgets topics that no broker lists any more; `is_known` says which topics exist.
    pub fn forget(&mut self, is_known: impl Fn(&str) -> bool, now: Instant) {
        let lately = |since: Instant| now.saturating_duration_since(since) < LAG;
        self.gone.retain(|_, since| lately(*since));
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
        let is_gone = self.gone.contains_key(&id);
        let Some(last) = self.last.get_mut(name) else {
            if !is_gone {
                let told = teller.map(|teller| (teller, id)).into_iter().collect();
                self.last.insert(name.to_owned(), Last { id, known: now, told, doubted: None });
            }
            return is_gone;
        };
        let before = teller.and_then(|teller| last.told.insert(teller, id));
        if last.id == id {
            return false;
        }
        if is_gone && before != Some(last.id) {
            last.doubted = Some(now);
            return true;
        }
        self.gone.remove(&id);
        self.gone.insert(last.id, now);
        (last.id, last.known, last.doubted) = (id, now, None);
        false
    }

    /// The brokers whose answer about a topic was contradicted lately.
    pub fn doubted(&self, now: Instant) -> impl Iterator<Item = NodeId> {
        let lately = move |last: &&Last| {
            last.doubted.is_some_and(|since| now.saturating_duration_since(since) < LAG)
        };
        self.last.values().filter(lately).flat_map(|last| {
            let of_last = last.told.iter().filter(|(_, id)| **id == last.id);
            of_last.map(|(teller, _)| *teller)
        })
    }
}
