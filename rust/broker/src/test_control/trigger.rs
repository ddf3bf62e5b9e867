//! When a fault strikes: which of the calls that it matches. Pure.

use serde::{Deserialize, Serialize};

/// Which of the matching calls a fault strikes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct When {
    /// The first call that may be struck, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_call: Option<u64>,
    /// How many calls are struck at most. Without it: one if `on_call` is given, otherwise all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The chance of each call, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Where the chances begin: the same seed strikes the same calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl When {
    /// Why these cannot stand together, if so.
    pub fn mistake(&self) -> Option<String> {
        let chance = self.probability;
        if chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Some("probability must be from 0 to 1".to_owned());
        }
        if self.seed.is_some() && chance.is_none() {
            return Some("seed has a meaning with probability only".to_owned());
        }
        if self.on_call == Some(0) || self.times == Some(0) {
            return Some("on_call and times begin at 1".to_owned());
        }
        None
    }
}

/// Counts the calls, and decides about each.
#[derive(Debug)]
pub(super) struct Trigger {
    when: When,
    seen: u64,
    fired: u64,
    random: Random,
}

/// Numbers that a seed decides.
/// Source: `SplitMix64` (Steele, Lea, Flood).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number from 0 to 1.
    fn draw(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of these; `None` if there are none.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> Option<T> {
        let count = u64::try_from(among.len()).ok().filter(|count| *count > 0)?;
        let place = usize::try_from(self.next() % count).ok()?;
        among.get(place).copied()
    }
}

impl Trigger {
    pub fn new(when: When) -> Self {
        Self { when, seen: 0, fired: 0, random: Random::new(when.seed.unwrap_or(0)) }
    }

    /// Notes a call; whether it is struck.
    pub fn fires(&mut self) -> bool {
        self.seen += 1;
        let chance = self.when.probability.is_none_or(|chance| self.random.draw() < chance);
        let times = match (self.when.times, self.when.on_call) {
            (None, Some(_)) => Some(1),
            (times, _) => times,
        };
        let fires = chance
            && self.seen >= self.when.on_call.unwrap_or(1)
            && times.is_none_or(|times| self.fired < times);
        self.fired += u64::from(fires);
        fires
    }

    /// Whether no later call can be struck.
    pub fn is_spent(&self) -> bool {
        let times = self.when.times.or(self.when.on_call.map(|_| 1));
        times.is_some_and(|times| self.fired >= times)
    }

    /// Calls that matched, and those that were struck.
    pub fn counts(&self) -> (u64, u64) {
        (self.seen, self.fired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(when: When, calls: usize) -> Vec<usize> {
        let mut trigger = Trigger::new(when);
        (1..=calls).filter(|_| trigger.fires()).collect()
    }

    #[test]
    fn without_limits_every_call_is_struck() {
        assert_eq!(struck(When::default(), 3), [1, 2, 3]);
    }

    #[test]
    fn the_first_calls_are_struck_as_often_as_times_says() {
        assert_eq!(struck(When { times: Some(2), ..When::default() }, 5), [1, 2]);
    }

    #[test]
    fn on_call_strikes_that_call_alone_or_as_many_as_times_says() {
        let third = When { on_call: Some(3), ..When::default() };
        assert_eq!(struck(third, 6), [3]);
        assert_eq!(struck(When { times: Some(2), ..third }, 6), [3, 4]);
    }

    #[test]
    fn a_seed_strikes_the_same_calls_again_and_another_seed_others() {
        let of = |seed| {
            struck(When { probability: Some(0.3), seed: Some(seed), ..When::default() }, 1_000)
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert!((250..350).contains(&of(7).len()), "{}", of(7).len());
        let never = When { probability: Some(0.0), ..When::default() };
        assert!(struck(never, 100).is_empty());
    }

    #[test]
    fn a_spent_fault_strikes_no_more() {
        let mut trigger = Trigger::new(When { times: Some(1), ..When::default() });
        assert!(!trigger.is_spent());
        assert!(trigger.fires());
        assert!(trigger.is_spent());
        assert!(!trigger.fires());
        assert_eq!(trigger.counts(), (2, 1));
    }

    #[test]
    fn what_cannot_stand_together_is_refused() {
        let seed = When { seed: Some(1), ..When::default() };
        let chance = When { probability: Some(1.5), ..When::default() };
        let zero = When { times: Some(0), ..When::default() };
        for wrong in [seed, chance, zero] {
            assert!(wrong.mistake().is_some(), "{wrong:?}");
        }
        let right = When { probability: Some(0.5), seed: Some(1), ..When::default() };
        assert_eq!(right.mistake(), None);
    }
}
