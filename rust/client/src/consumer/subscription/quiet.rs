//! When to ask whether a leader still leads that brings no records. Pure.
//!
//! A leader that is cut off from its cluster answers on, without new records. Of most partitions
//! nothing new comes because nothing is written. So the wait doubles.

use std::time::{Duration, Instant};

/// The first wait.
const SOONEST: Duration = Duration::from_secs(5);

/// The time without records from a leader.
#[derive(Debug, Default)]
pub struct Quiet {
    /// When to ask, and the wait that ends then.
    next: Option<(Instant, Duration)>,
}

impl Quiet {
    /// Records came.
    pub fn ends(&mut self, now: Instant) {
        self.next = Some((now + SOONEST, SOONEST));
    }

    /// When to ask.
    pub fn due(&self) -> Option<Instant> {
        self.next.map(|(due, _)| due)
    }

    /// Whether it is time to ask. The next wait is twice as long, and `most` at most.
    pub fn is_over(&mut self, now: Instant, most: Duration) -> bool {
        let Some((due, wait)) = self.next else {
            self.ends(now);
            return false;
        };
        if now < due {
            return false;
        }
        let wait = (2 * wait).min(most.max(SOONEST));
        self.next = Some((now + wait, wait));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of the leader after a leader that was cut off were hidden for 5 minutes.
    #[test]
    fn a_leader_that_brings_nothing_is_doubted_soon_and_then_ever_less_often() {
        let (mut quiet, began) = (Quiet::default(), Instant::now());
        let (second, most) = (Duration::from_secs(1), Duration::from_secs(40));
        let mut asked = Vec::new();
        for seconds in 0..120 {
            if quiet.is_over(began + second * seconds, most) {
                asked.push(seconds);
            }
        }
        assert_eq!(asked, [5, 15, 35, 75, 115]);
        quiet.ends(began + second * 120);
        assert_eq!(quiet.due(), Some(began + second * 125));
    }
}
