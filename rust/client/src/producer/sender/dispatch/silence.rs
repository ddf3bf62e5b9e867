//! Requests that find no answer for long.
//!
//! A leader that is cut off from its cluster waits for its replicas, and answers when the request's
//! timeout is over. Meanwhile another broker may lead: what was sent goes to that one, as after a
//! connection that ended.

use std::time::Instant;

use super::{Dispatch, Leader, Plan, earlier};

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
            if request.silence.was_doubted() && request.sent.iter().any(is_replaced) {
                plan.replaced.push(request.node);
            }
        }
    }
}
