//! The replica that a partition is read from in place of its leader (KIP-392). Pure.
//!
//! A leader names the replica. The leader does not know whether this client reaches it, and the
//! replica does not say that it fell behind. So the leader is asked again when the replica brings
//! no records for a while. It is asked for the records themselves when the replica is not reached.

use std::time::{Duration, Instant};

/// A replica without new records for this time may have lost its leader.
const QUIET: Duration = Duration::from_secs(5);
/// A replica that was not reached is not asked for this time.
const AVOIDED: Duration = Duration::from_secs(30);

/// What is known of such replicas.
#[derive(Debug, Default)]
pub struct Nearby {
    named: Option<Named>,
    /// The leader is asked for the records until then.
    avoided_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    node: i32,
    until: Instant,
    /// The end of the time for which the leader's word counts; `None` is without end.
    most: Option<Instant>,
}

impl Named {
    fn go_on(&mut self, now: Instant) {
        let until = now + QUIET;
        self.until = self.most.map_or(until, |most| until.min(most));
    }
}

impl Nearby {
    /// The leader named a replica. That counts for `age`, or without end if that is zero.
    pub fn name(&mut self, node: i32, now: Instant, age: Duration) {
        if self.may_be_named(now) {
            let most = if age.is_zero() { None } else { now.checked_add(age) };
            let mut named = Named { node, until: now, most };
            named.go_on(now);
            self.named = Some(named);
        }
    }

    /// The replica brought records.
    pub fn serves(&mut self, now: Instant) {
        if let Some(named) = &mut self.named {
            named.go_on(now);
        }
    }

    /// The replica to read from, if it is not the leader's turn.
    pub fn replica(&self, now: Instant) -> Option<i32> {
        self.named.filter(|named| now < named.until).map(|named| named.node)
    }

    /// Whether a fetch may tell the leader where this client is.
    pub fn may_be_named(&self, now: Instant) -> bool {
        self.avoided_until.is_none_or(|until| until <= now)
    }

    /// When the leader's turn is.
    pub fn leader_due(&self) -> Option<Instant> {
        self.named.map(|named| named.until)
    }

    /// Goes back to the leader, which may name a replica again.
    pub fn leave(&mut self) {
        self.named = None;
    }

    /// The replica `node` was not reached.
    pub fn avoid(&mut self, node: i32, now: Instant) {
        if self.named.is_some_and(|named| named.node == node) {
            *self = Self { named: None, avoided_until: Some(now + AVOIDED) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(300);
    const MOMENT: Duration = Duration::from_millis(1);

    fn named(age: Duration) -> (Nearby, Instant) {
        let (mut nearby, now) = (Nearby::default(), Instant::now());
        nearby.name(2, now, age);
        (nearby, now)
    }

    /// Records were hidden for `metadata.max.age.ms`, where only the brokers' links were cut.
    #[test]
    fn a_replica_that_brings_nothing_is_left_for_the_leader_soon() {
        let (mut nearby, now) = named(AGE);
        assert_eq!(nearby.replica(now + QUIET - MOMENT), Some(2));
        assert_eq!(nearby.replica(now + QUIET), None);
        assert_eq!(nearby.leader_due(), Some(now + QUIET));
        nearby.serves(now + QUIET - MOMENT);
        assert_eq!(nearby.replica(now + QUIET), Some(2));
    }

    #[test]
    fn a_replica_that_serves_is_read_from_for_as_long_as_the_leaders_word_counts() {
        let (mut nearby, now) = named(AGE);
        let late = now + AGE - MOMENT;
        nearby.serves(late);
        assert_eq!(nearby.replica(late), Some(2));
        assert_eq!(nearby.replica(now + AGE), None);
    }

    /// The leader was asked without end, and answered each time without records.
    #[test]
    fn the_leaders_word_counts_without_end_where_metadata_do() {
        let (mut nearby, now) = named(Duration::ZERO);
        assert_eq!(nearby.replica(now), Some(2));
        nearby.serves(now + 2 * AGE);
        assert_eq!(nearby.replica(now + 2 * AGE), Some(2));
    }

    #[test]
    fn a_replica_that_is_not_reached_is_avoided_for_a_while() {
        let (mut nearby, now) = named(AGE);
        nearby.avoid(3, now);
        assert_eq!(nearby.replica(now), Some(2), "another one");
        nearby.avoid(2, now);
        // The answer to an earlier fetch.
        nearby.name(2, now, AGE);
        assert_eq!((nearby.replica(now), nearby.may_be_named(now)), (None, false));
        let later = now + AVOIDED;
        assert!(nearby.may_be_named(later));
        nearby.name(2, later, AGE);
        assert_eq!(nearby.replica(later), Some(2));
    }
}
