//! What becomes of batches: written, sent again, split, or failed.

use super::*;
use crate::producer::accumulator::PartitionQueue;

impl<T> Dispatch<T> {
    /// A broker assigned a producer id.
    pub fn identified(&mut self, identity: Identity) {
        self.identity = Some(identity);
        for index in std::mem::take(&mut self.to_renumber) {
            self.tracks[index].renumber(identity);
        }
    }

    /// The producer can do no more: everything fails, now and from now on.
    pub fn fail_finally(&mut self, error: ClientError) {
        self.fatal = Some(Arc::new(error));
    }

    /// The answer to a request: one for each batch, in their order; `None` if it has none.
    pub fn answered(&mut self, id: u64, answers: Vec<Option<Answer>>, now: Instant) {
        let Some(request) = self.landed(id) else { return };
        let answers = answers.into_iter().chain(std::iter::repeat(None));
        for ((index, order, leader), answer) in request.sent.into_iter().zip(answers) {
            // It may have expired while it was on its way.
            let Some(batch) = self.tracks[index].land(id, order) else { continue };
            match answer {
                Some(answer) if answer.code.is_none() => {
                    let offset = (answer.base_offset >= 0).then_some(answer.base_offset);
                    let time = answer.log_append_time_ms;
                    let log_append_time_ms = (time >= 0).then_some(time);
                    let landed = Landed { base_offset: offset, log_append_time_ms };
                    self.written(index, batch, landed, leader);
                }
                Some(answer) => self.refused(index, batch, answer, leader, now),
                None => {
                    let queue = &self.tracks[index].queue;
                    let partition = format!("{} [{}]", queue.topic(), queue.partition());
                    let error =
                        ClientError::left_out(format!("broker {}", request.node), partition);
                    self.unanswered(index, batch, &Arc::new(error), now);
                }
            }
        }
    }

    /// A request with acks=0 left, which is all that is ever known of it.
    pub fn left(&mut self, id: u64) {
        let Some(request) = self.landed(id) else { return };
        for (index, order, leader) in request.sent {
            if let Some(batch) = self.tracks[index].land(id, order) {
                let nowhere = Landed { base_offset: None, log_append_time_ms: None };
                self.written(index, batch, nowhere, leader);
            }
        }
    }

    /// The request found no answer; whether it was carried out is not known.
    pub fn failed(&mut self, id: u64, error: ClientError, now: Instant) {
        let Some(request) = self.landed(id) else { return };
        let error = Arc::new(error);
        for (index, order, _) in request.sent {
            if let Some(batch) = self.tracks[index].land(id, order) {
                self.unanswered(index, batch, &error, now);
            }
        }
        self.refresh = true;
    }

    fn landed(&mut self, id: u64) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        if let Some(count) = self.in_flight.get_mut(&request.node) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(&request.node);
            }
        }
        Some(request)
    }

    /// The `leader` that the batch was sent to has written it.
    fn written(&mut self, index: usize, batch: Batch<T>, landed: Landed, leader: Leader) {
        let track = &mut self.tracks[index];
        track.failures = 0;
        if let (Some(stamp), Some(next)) = (batch.stamp(), batch.next_sequence()) {
            if batch.stamp_replaced() {
                // It was written under its old number: there is a hole where its new one stands.
                match self.identity {
                    Some(identity) if track.all_replaced() => track.renumber(identity),
                    _ => self.to_renumber.push(index),
                }
            } else {
                let last = advance_sequence(stamp.base_sequence, batch.count() as i32 - 1);
                debug_assert_eq!(advance_sequence(last, 1), next);
                let count = i64::from(batch.count());
                track.sequences.acked(last, landed.base_offset.map(|base| base + count - 1));
                if leader.topic_id == track.topic_id {
                    track.sequences.begin();
                }
            }
        }
        self.finish(index, batch, Ok(landed), &BTreeMap::new());
    }

    /// A broker refused the batch.
    fn refused(
        &mut self,
        index: usize,
        batch: Batch<T>,
        answer: Answer,
        leader: Leader,
        now: Instant,
    ) {
        let code = answer.code;
        // Who leads what may have changed; so may a topic's id.
        self.refresh |= code.is_retriable() && code != ErrorCode::CorruptMessage;
        let may_retry = self.may_retry(index, &batch, now);
        let is_too_large =
            matches!(code, ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge);
        let batch = if is_too_large && may_retry {
            match batch.split() {
                Ok(halves) => return self.retry_halves(index, halves),
                Err(whole) => *whole,
            }
        } else {
            batch
        };
        let queue = &self.tracks[index].queue;
        let about = format!("Produce to {} [{}]", queue.topic(), queue.partition());
        let error = match queue.is_gone() && code.is_retriable() {
            true => self.no_partition(queue),
            false => Arc::new(ClientError::refused(code, answer.message.clone(), &about)),
        };
        let verdict = match batch.stamp() {
            Some(_) => {
                let stamp_replaced = batch.stamp_replaced();
                let is_first = self.tracks[index].is_first(&batch);
                let half_of_unanswered = batch.half_of_unanswered();
                judge(&Refused { code, stamp_replaced, is_first, half_of_unanswered, may_retry })
            }
            None if may_retry && code.is_retriable() => Verdict::Retry,
            None => Verdict::Lost,
        };
        match verdict {
            Verdict::Written => {
                let nowhere = Landed { base_offset: None, log_append_time_ms: None };
                self.written(index, batch, nowhere, leader);
            }
            Verdict::Retry => self.retry(index, batch, error, leader.epoch, now),
            Verdict::RetryRenumbered => {
                self.to_renumber.push(index);
                self.retry(index, batch, error, leader.epoch, now);
            }
            Verdict::Lost => {
                let own = answer.record_errors.into_iter().filter_map(|(record, words)| {
                    let words = words.or_else(|| answer.message.clone());
                    let failure = Arc::new(ClientError::refused(code, words, &about));
                    Some((u32::try_from(record).ok()?, failure))
                });
                let own = own.collect();
                self.lose(index, batch, &error, &own);
            }
        }
    }

    fn unanswered(&mut self, index: usize, mut batch: Batch<T>, error: &Failure, now: Instant) {
        batch.unanswered = true;
        let hopeless = !(error.retriable() || error.is_transport());
        if hopeless || !self.may_retry(index, &batch, now) {
            self.give_up(index, batch, error);
        } else {
            self.retry(index, batch, Arc::clone(error), -1, now);
        }
    }

    fn may_retry(&self, index: usize, batch: &Batch<T>, now: Instant) -> bool {
        batch.attempts as usize <= self.settings.retries
            && !self.tracks[index].queue.is_gone()
            && batch.created() + self.settings.delivery_timeout > now
    }

    fn retry(
        &mut self,
        index: usize,
        mut batch: Batch<T>,
        error: Failure,
        epoch: i32,
        now: Instant,
    ) {
        let track = &mut self.tracks[index];
        tracing::debug!(
            topic = %track.queue.topic(), partition = track.queue.partition(), %error,
            attempts = batch.attempts, "batch is sent again"
        );
        self.metrics.batch_retried();
        let backoff = self.settings.retry_backoff.after(track.failures + 1);
        batch.last_failure = Some(error);
        track.push_retry(batch);
        track.back_off(now, backoff, epoch);
    }

    fn retry_halves(&mut self, index: usize, halves: [Batch<T>; 2]) {
        let track = &mut self.tracks[index];
        track.queue.batch_split();
        self.metrics.batch_split();
        for half in halves {
            track.push_retry(half);
        }
    }

    pub(super) fn give_up(&mut self, index: usize, batch: Batch<T>, error: &Failure) {
        self.lose(index, batch, error, &BTreeMap::new());
    }

    fn lose(
        &mut self,
        index: usize,
        batch: Batch<T>,
        error: &Failure,
        own: &BTreeMap<u32, Failure>,
    ) {
        if batch.stamp().is_some() {
            self.tracks[index].sequences.give_up();
        }
        if error.fatal() {
            self.fatal = Some(Arc::clone(error));
        }
        self.finish(index, batch, Err(Arc::clone(error)), own);
    }

    fn finish(
        &mut self,
        index: usize,
        batch: Batch<T>,
        outcome: Result<Landed, Failure>,
        own: &BTreeMap<u32, Failure>,
    ) {
        self.tracks[index].queue.batch_done();
        self.tell(batch, outcome, own);
    }

    fn tell(
        &mut self,
        batch: Batch<T>,
        outcome: Result<Landed, Failure>,
        own: &BTreeMap<u32, Failure>,
    ) {
        let serial = batch.serial();
        self.metrics.records_ended(batch.count(), outcome.is_ok());
        let batch_size = self.accumulator.settings().batch_size;
        let (report, all) = batch.complete(outcome, own, self.accumulator.memory(), batch_size);
        self.accumulator.completed(serial, all);
        self.reports.extend(report);
    }

    /// Fails what waits for partitions that are gone; what is on its way may have been written to
    /// the topic that had them.
    pub(super) fn fail_retired(&mut self) {
        for (queue, batches) in self.accumulator.take_retired() {
            let error = self.no_partition(&queue);
            let track = self.tracks.get_mut(queue.index()).filter(|_| queue.is_gone());
            // A queue that was never roused has no track of its own.
            let track = track.filter(|track| Arc::ptr_eq(&track.queue, &queue));
            for batch in track.map(Track::take_retries).unwrap_or_default() {
                self.give_up(queue.index(), batch, &error);
            }
            for batch in batches {
                queue.batch_done();
                self.tell(batch, Err(Arc::clone(&error)), &BTreeMap::new());
            }
        }
    }

    fn no_partition(&self, queue: &PartitionQueue<T>) -> Failure {
        let topic = self.accumulator.topic(queue.topic());
        Arc::new(ClientError::NoPartition {
            topic: queue.topic().to_string(),
            count: topic.map_or(0, |topic| topic.partition_count() as usize),
            partition: queue.partition(),
        })
    }

    /// Fails what was begun longer than `delivery.timeout.ms` ago.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.next_expiry.is_some_and(|time| time > now) {
            return;
        }
        let timeout = self.settings.delivery_timeout;
        let mut oldest = None;
        for at in 0..self.active.len() {
            let index = self.active[at];
            // An `Instant` too close to the machine's start has nothing that long before it.
            let until = now.checked_sub(timeout);
            for batch in
                until.map(|until| self.tracks[index].take_older(until)).into_iter().flatten()
            {
                let error = Arc::new(ClientError::DeliveryTimeout {
                    topic: self.tracks[index].queue.topic().to_string(),
                    partition: self.tracks[index].queue.partition(),
                    after_ms: timeout.as_millis() as u64,
                    last: batch.last_failure.as_ref().map(ToString::to_string),
                });
                self.give_up(index, batch, &error);
            }
            oldest = earlier(oldest, self.tracks[index].oldest());
        }
        // What comes later expires later.
        self.next_expiry = oldest.map(|oldest| oldest + timeout);
    }

    /// Settles partitions where a batch was given up and nothing is outstanding, and raises the
    /// epoch if that, or a refusal, asks for it.
    pub(super) fn resolve(&mut self) {
        if !self.settings.idempotent {
            return;
        }
        for index in &self.active {
            let track = &mut self.tracks[*index];
            let is_over = track.sequences.is_unresolved() && track.is_still();
            if is_over && !track.sequences.resolve() {
                self.to_renumber.push(*index);
            }
        }
        if self.to_renumber.is_empty() {
            return;
        }
        let Some(identity) = self.identity else { return };
        self.metrics.epoch_bumped();
        self.identity = identity.bumped();
        if let Some(bumped) = self.identity {
            for index in std::mem::take(&mut self.to_renumber) {
                self.tracks[index].renumber(bumped);
            }
        }
    }

    /// Fails everything there is with `error`.
    pub(super) fn fail_all(&mut self, error: &Failure) {
        self.active.clear();
        for index in 0..self.tracks.len() {
            self.tracks[index].active = false;
            for batch in self.tracks[index].take_all() {
                self.finish(index, batch, Err(Arc::clone(error)), &BTreeMap::new());
            }
        }
        for (queue, batch) in self.accumulator.shut() {
            queue.batch_done();
            self.tell(batch, Err(Arc::clone(error)), &BTreeMap::new());
        }
    }

    /// Ends: fails what is left, and takes nothing any more.
    pub fn end(&mut self, error: ClientError) {
        self.fail_all(&Arc::new(error));
    }
}
