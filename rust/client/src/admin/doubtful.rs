//! Changes that may have been made although no answer came.
//!
//! A broker that falls silent may have made a change before. One that passed a change on to it says
//! REQUEST_TIMED_OUT, which is no answer either. Then the next attempt, at another
//! broker, is refused because of the first one: the topic exists already. Kafka's admin client
//! reports that refusal as the result of the call. Here the call succeeds if an attempt that left
//! found no answer, and what is there is what was asked for.

use super::Each;
use crate::error::ClientError;
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::Hash;

/// Whether an attempt that ended so may have made its change. No answer came, or none came in time
/// to the broker that was asked.
pub(super) fn is_unanswered(error: &ClientError) -> bool {
    error.is_transport() || error.code() == Some(ErrorCode::RequestTimedOut)
}

/// The things that one call asked for, as far as their fate is unknown.
pub(super) struct Doubtful<K>(Mutex<State<K>>);

struct State<K> {
    /// Named in the request of the present attempt.
    left: HashSet<K>,
    /// Named in an earlier request that found no answer.
    doubtful: HashSet<K>,
}

impl<K: Clone + Eq + Hash> Doubtful<K> {
    /// No request has left.
    pub fn new() -> Self {
        Self(Mutex::new(State { left: HashSet::new(), doubtful: HashSet::new() }))
    }

    /// A request that names `keys` leaves now. An attempt that never gets so far changes nothing.
    pub fn leaves(&self, keys: &[K]) {
        self.0.lock().left.extend(keys.iter().cloned());
    }

    /// Takes note of what came of an attempt, and returns the keys that it refuses with `code`
    /// after an earlier one without an answer.
    pub fn refused<T>(&self, answer: &Result<Each<K, T>, ClientError>, code: ErrorCode) -> Vec<K> {
        let mut state = self.0.lock();
        let left = std::mem::take(&mut state.left);
        let each = match answer {
            Ok(each) => each,
            Err(error) => {
                if is_unanswered(error) {
                    state.doubtful.extend(left);
                }
                return Vec::new();
            }
        };
        let failed = each.iter().filter_map(|(key, result)| Some((key, result.as_ref().err()?)));
        let is_refused = |(_, error): &(&K, &ClientError)| error.code() == Some(code);
        let refused = failed.clone().filter(is_refused).map(|(key, _)| key);
        let refused = refused.filter(|key| state.doubtful.contains(key)).cloned().collect();
        let unknown = failed.filter(|(key, error)| is_unanswered(error) && left.contains(key));
        state.doubtful.extend(unknown.map(|(key, _)| key.clone()));
        refused
    }

    /// The same for removals: a refusal with `code` says that there is no such thing any more, so
    /// it is a success.
    pub fn removed(
        &self,
        mut answer: Result<Each<K, ()>, ClientError>,
        code: ErrorCode,
    ) -> Result<Each<K, ()>, ClientError> {
        for key in self.refused(&answer, code) {
            settle(&mut answer, &key, ());
        }
        answer
    }
}

/// Makes a success of a refusal.
pub(super) fn settle<K: PartialEq, T>(
    answer: &mut Result<Each<K, T>, ClientError>,
    key: &K,
    made: T,
) {
    let refusal = answer.iter_mut().flatten().find(|(known, _)| known == key);
    if let Some((_, result)) = refusal {
        *result = Ok(made);
    }
}
