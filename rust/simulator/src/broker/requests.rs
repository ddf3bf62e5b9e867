//! Requests of clients and followers, and what follows from every step: answers, timers, appends of
//! the coordinator.

use super::replica::Waiting;
use super::{Admitted, Broker, Expired};
use crate::io::{Io, Tick};
use crate::message::{Fetch, Message, Node, Produce};
use crate::planted::Planted;
use kafkalite_broker::partitions::CommitStatus;
use kafkalite_log::validation::validate;
use kafkalite_log::{LogConfig, LogEnd};
use kafkalite_protocol::ErrorCode;
use std::sync::Arc;

/// How long an append may wait for the high watermark, ms.
const REQUEST_MS: u64 = 400;
/// The Produce version of the simulated clients.
const PRODUCE_VERSION: i16 = 11;

impl Broker {
    pub(super) fn serve(&mut self, from: Node, id: u64, message: Message, io: &mut Io<'_>) {
        match message {
            Message::Produce(produce) => self.admit(from, id, produce, io),
            Message::Fetch(fetch) => self.read(from, id, &fetch, io),
            Message::Ask(question) => {
                if let Node::Broker(follower) = from {
                    self.answer(follower, id, &question, io);
                }
            }
            Message::Answer(answer) => {
                if let Node::Broker(leader) = from {
                    self.take_answer(leader, id, *answer, io);
                }
            }
            Message::Group(request) => {
                self.lend(|me| me.coordination.receive(from, id, request, io));
            }
            _ => {}
        }
    }

    fn read(&mut self, from: Node, id: u64, fetch: &Fetch, io: &mut Io<'_>) {
        let fetched = self.replicas[fetch.partition].read(None, fetch, io);
        io.send(from, id, Message::Fetched(fetched));
    }

    /// Looks at a produce as handlers do before any lock, and by which epoch it may be appended.
    fn admit(&mut self, client: Node, id: u64, produce: Produce, io: &mut Io<'_>) {
        let Produce { partition, batch, acks_all } = produce;
        let replica = &self.replicas[partition];
        let refuse = |error, io: &mut Io<'_>| io.send(client, id, Message::Produced(Err(error)));
        let wall_ms = super::WALL_MS;
        let is_sound = validate(&batch, &LogConfig::default(), wall_ms, PRODUCE_VERSION).is_ok();
        if !is_sound && !io.has(Planted::CrcSkipped) {
            return refuse(ErrorCode::CorruptMessage, io);
        }
        let epoch = match replica.state.may_append(acks_all) {
            Ok(epoch) => epoch,
            Err(refusal) => return refuse(refusal.code, io),
        };
        if io.has(Planted::AckBeforeAppend) && io.rng.chance(50) {
            let base = replica.log.end();
            return io.send(client, id, Message::Produced(Ok(base)));
        }
        let number = self.new_id();
        self.admitted.insert(number, Admitted { client, id, partition, batch, acks_all, epoch });
        // An I/O thread may stand still between the look at the epoch and the append.
        let pause = self.stall(io);
        io.after(pause, Tick::Append(number));
    }

    pub(super) fn append(&mut self, number: u64, io: &mut Io<'_>) {
        let Some(admitted) = self.admitted.remove(&number) else { return };
        let Admitted { client, id, partition, batch, acks_all, epoch } = admitted;
        let is_unfenced = io.has(Planted::DemotedLeaderAppends);
        let appended = match self.replicas[partition].append(&batch, epoch, is_unfenced) {
            Ok(appended) => appended,
            Err(error) => return io.send(client, id, Message::Produced(Err(error))),
        };
        self.appended(partition, appended.log_end, io);
        if acks_all || self.settings.flush_messages {
            let timer = self.arm(REQUEST_MS, partition, io);
            let (base, end) = (appended.base, appended.end);
            let waiting = Waiting { base, end, epoch, timer, client, id };
            self.replicas[partition].waiting.push(waiting);
        } else {
            io.checker.logs.acknowledged(self.id, partition, epoch);
            io.send(client, id, Message::Produced(Ok(appended.base)));
        }
    }

    /// The end of the log is reported a moment after the append; it is flushed if that counts.
    fn appended(&mut self, partition: usize, end: Option<LogEnd>, io: &mut Io<'_>) {
        let Some(end) = end else { return };
        let pause = self.stall(io);
        let stay = self.replicas[partition].stay();
        io.after(pause, Tick::Report { partition, stay, end });
        if self.settings.flush_messages {
            self.committer.commit(partition as u64);
            let pause = io.rng.between(1, 6);
            io.after(pause, Tick::Flush);
        }
    }

    /// How long a thread stands still before it takes its next lock, ms.
    pub(super) fn stall(&self, io: &mut Io<'_>) -> u64 {
        let stands_still = io.rng.chance(self.settings.stalls);
        let pause = io.rng.between(1, 120);
        if stands_still { pause } else { 0 }
    }

    /// Has the timer end the wait of an append; the timer's number.
    fn arm(&mut self, delay_ms: u64, partition: usize, io: &Io<'_>) -> u64 {
        self.next_timer += 1;
        let (timer, deadline_ms) = (self.next_timer, io.now_ms + delay_ms);
        let expired = Arc::clone(&self.expired);
        let task = move || expired.lock().push(Expired { timer, partition, deadline_ms });
        self.timer.schedule(delay_ms, Box::new(task));
        timer
    }

    /// Runs what is due, and asks for a tick at the timer's next event. Whether anything was.
    fn turn_timer(&mut self, io: &mut Io<'_>) -> bool {
        // Tasks of the coordinator may append.
        let next_ms = self.lend(|me| me.timer.turn());
        let next_ms = next_ms.map(|next_ms| self.started_ms + next_ms);
        if let Some(next_ms) = next_ms
            && self.timer_tick_ms.is_none_or(|tick_ms| next_ms < tick_ms)
        {
            self.timer_tick_ms = Some(next_ms);
            io.after(next_ms.saturating_sub(io.now_ms), Tick::Timer);
        }
        let expired = std::mem::take(&mut *self.expired.lock());
        let process = (self.id, self.incarnation);
        for one in &expired {
            io.checker.timer_fired(process, one.timer, one.deadline_ms, io.now_ms);
            if io.has(Planted::TimerFiresTwice) && io.rng.chance(20) {
                io.checker.timer_fired(process, one.timer, one.deadline_ms, io.now_ms);
            }
            self.give_up(one.partition, one.timer, io);
        }
        !expired.is_empty()
    }

    /// An append waited for too long.
    fn give_up(&mut self, partition: usize, timer: u64, io: &mut Io<'_>) {
        let waiting = &mut self.replicas[partition].waiting;
        let Some(at) = waiting.iter().position(|one| one.timer == timer) else { return };
        let Waiting { client, id, .. } = waiting.remove(at);
        io.send(client, id, Message::Produced(Err(ErrorCode::RequestTimedOut)));
    }

    /// Carries out what followed from the last step, until nothing more does.
    pub(super) fn settle(&mut self, io: &mut Io<'_>) {
        loop {
            let mut moved = self.settle_waiting(io);
            moved |= self.turn_timer(io);
            moved |= self.settle_coordinators(io);
            if !moved {
                return;
            }
        }
    }

    fn settle_waiting(&mut self, io: &mut Io<'_>) -> bool {
        let mut moved = false;
        for partition in self.settings.all() {
            for (waiting, status) in self.replicas[partition].settle(io) {
                moved = true;
                let answer = match status == CommitStatus::Committed {
                    true => {
                        io.checker.logs.acknowledged(self.id, partition, waiting.epoch);
                        Ok(waiting.base)
                    }
                    false => Err(ErrorCode::NotLeaderOrFollower),
                };
                io.send(waiting.client, waiting.id, Message::Produced(answer));
            }
        }
        moved
    }

    /// Tells the coordinator what is committed, and sends its answers. Whether there was anything.
    fn settle_coordinators(&mut self, io: &mut Io<'_>) -> bool {
        let mut moved = self.lend(|me| {
            let settled = me.desk.take_settled();
            let any = !settled.is_empty();
            settled.into_iter().for_each(|settled| settled());
            any
        });
        let partition = self.settings.group_partition();
        while let Some(end) = self.desk.take_end() {
            moved = true;
            self.appended(partition, Some(end), io);
        }
        let high_watermark = self.replicas[partition].high_watermark();
        for coordination in self.deposed.iter_mut().chain([&mut self.coordination]) {
            for answered in coordination.take_answers(io.checker, high_watermark) {
                moved = true;
                io.send(answered.to, answered.id, Message::GroupAnswer(answered.answer));
            }
        }
        moved
    }
}
