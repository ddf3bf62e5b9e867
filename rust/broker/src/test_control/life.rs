//! Which life of a broker a fault or a recording belongs to.
//!
//! Both end with the broker, and their numbers begin again with the next one. So a program that has
//! kept a number says whose it is, and never reaches what another life gave the same number.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::refusal::Refused;

/// One life of one broker: no other has the same text.
#[derive(Debug)]
pub(super) struct Life(String);

impl Life {
    pub fn new() -> Self {
        // The standard library's keys are random, and no two states have the same.
        Self(format!("{:016x}", RandomState::new().build_hasher().finish()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses a question for `what` of another life. Who does not say whose it is, means this one.
    pub fn check(&self, meant: Option<&str>, what: &str) -> Result<(), Refused> {
        if meant.is_none_or(|meant| meant == self.0) {
            return Ok(());
        }
        let what = format!("there is no {what}");
        let why = "it ended when its broker did, which has started again since".to_owned();
        let hint = "make another one: faults and recordings end with the broker.".to_owned();
        Err(Refused { status: 404, what, why, hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_knows_its_own_and_refuses_others() {
        let (one, other) = (Life::new(), Life::new());
        assert_ne!(one.as_str(), other.as_str());
        assert_eq!(one.check(None, "fault 1"), Ok(()));
        assert_eq!(one.check(Some(one.as_str()), "fault 1"), Ok(()));
        let refused = one.check(Some(other.as_str()), "fault 1").expect_err("another one");
        assert_eq!((refused.status, &*refused.what), (404, "there is no fault 1"));
    }
}
