//! Requests that find no answer for long.
//!
//! A leader that is cut off from its cluster waits for its replicas, and answers when the request's
//! timeout is over. Meanwhile another broker may lead: what was sent goes to that one, as after a
//! connection that ended.

use std::time::{Duration, Instant};

use super::{Dispatch, Leader, Plan, earlier};

/// A broker that does not answer within this time is doubted, again and again.
const DOUBTED_AFTER: Duration = Duration::from_secs(5);

/// The time without an answer to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// When the broker is doubted next.
    next: Instant,
    was_doubted: bool,
}

impl Silence {
    /// The request leaves now.
    pub(super) fn since(now: Instant) -> Self {
        Self { next: now + DOUBTED_AFTER, was_doubted: false }
    }

    /// When to look again.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Whether it is time to doubt.
    fn is_over(&mut self, now: Instant) -> bool {
        let is_over = self.next <= now;
        if is_over {
            *self = Self { next: now + DOUBTED_AFTER, was_doubted: true };
        }
        is_over
    }
}

impl<T> Dispatch<T> {
    /// Looks for brokers that are silent, and for those of them that another broker replaced.
    pub(super) fn look_for_silence(
        &mut self,
        now: Instant,
        leader: impl Fn(&str, i32) -> Option<Leader>,
        plan: &mut Plan,
    ) {
        for request in self.requests.values_mut() {
            if request.silence.is_over(now) {
                plan.silent.push(request.node);
            }
            plan.wake_at = earlier(plan.wake_at, Some(request.silence.next()));
            let is_replaced = |(index, _, sent_to): &(usize, (u64, u32), Leader)| {
                let queue = &self.tracks[*index].queue;
                let now_leads = leader(queue.topic(), queue.partition());
                now_leads.is_some_and(|now_leads| {
                    now_leads.node != request.node
                        && now_leads.topic_id == sent_to.topic_id
                        && now_leads.epoch > sent_to.epoch
                })
            };
            if request.silence.was_doubted && request.sent.iter().any(is_replaced) {
                plan.replaced.push(request.node);
            }
        }
    }
}
