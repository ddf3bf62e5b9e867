//! The receiving half of a turn: read, cut into frames, submit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{NetworkThread, Served};
use crate::network::buffer_pool::{Buffer, BufferPool};
use crate::network::connection::{CloseReason, Step};
use crate::network::frames::Progress;
use crate::network::half_frames::{HalfFrames, Share};
use crate::request_queue::RoomWaiters;

/// Requests of one connection begun in a turn.
const TURN_REQUESTS: usize = 64;
/// Bytes read from one connection in a turn.
const TURN_BYTES: usize = 1 << 20;

/// Why a read turn of a connection ended.
enum Pause {
    /// Its budget is spent, it comes again next turn.
    Budget,
    /// There is nothing to read now.
    Drained,
    /// A response, or the peer reading, will let it go on.
    Answers,
    /// Others hold the room it needs.
    Room,
    /// Others hold the memory it needs.
    Memory,
}

/// Whether connections of this thread wait for room, and whether some became free for them.
pub(super) struct Wanted {
    /// Set while some wait; who frees some clears it.
    waits: Arc<AtomicBool>,
    /// It was set, and what cleared it was not noticed.
    asked: bool,
    /// It was cleared, and set for another connection before that was noticed.
    freed: bool,
}

impl Wanted {
    /// None wait. `waits` is what the thread was registered with.
    pub(super) fn new(waits: Arc<AtomicBool>) -> Self {
        Self { waits, asked: false, freed: false }
    }

    /// One more waits. `true`: it has to look once more; see [`RoomWaiters::wait`].
    fn wait(&mut self, waiters: &RoomWaiters) -> bool {
        let newly = waiters.wait(&self.waits);
        if newly {
            // What became free may be of use to those before it only.
            self.freed |= self.asked;
            self.asked = true;
        }
        newly
    }

    /// Whether those that wait have to try again.
    fn take_freed(&mut self) -> bool {
        let waits = self.waits.load(Ordering::Acquire);
        let freed = !waits || self.freed;
        if freed {
            (self.asked, self.freed) = (waits, false);
        }
        freed
    }
}

impl NetworkThread {
    /// Serves what connection `key` has sent, within its budget.
    pub(super) fn read_turn(&mut self, key: usize) {
        let stopping = self.is_stopping();
        let Some(served) = self.connections.get_mut(key) else { return };
        served.queued_to_read = false;
        if stopping {
            return self.discard(key);
        }
        match self.read_until_pause(key) {
            Ok(Pause::Budget) => self.queue_to_read(key),
            Ok(Pause::Drained) => self.set_paused(key, false),
            Ok(Pause::Answers) => self.set_paused(key, true),
            Ok(Pause::Room) => {
                self.set_paused(key, true);
                self.await_room(key);
            }
            Ok(Pause::Memory) => {
                self.set_paused(key, true);
                self.await_memory(key);
            }
            Err((reason, why)) => {
                // What was answered before a bad frame is owed: Kafka looks at the next frame only
                // when it is out.
                self.take_responses();
                return self.close(key, reason, &why);
            }
        }
        self.end_if_done(key);
        self.schedule_scan(key);
    }

    fn read_until_pause(&mut self, key: usize) -> Result<Pause, (CloseReason, String)> {
        let (mut requests, mut bytes) = (0, 0);
        // Read again only after steps that take time: a read, or a handler that ran here.
        let mut now_ns = self.now_ns();
        loop {
            let Some(served) = self.connections.get_mut(key) else { return Ok(Pause::Drained) };
            let queue = &self.parts.queue;
            match served.connection.next_step(queue, &self.half_frames, &self.pool, now_ns) {
                Step::Submit(request, place) => {
                    let arriving_ns = served.connection.frame_taken(now_ns);
                    let api_key = request.header.api_key;
                    let stage = crate::metrics::Stage::Network;
                    self.parts.metrics.record(stage, api_key, arriving_ns);
                    let connection = &served.connection.requests;
                    let ended = queue.submit(connection, request, place, &mut self.gate);
                    now_ns = ended.unwrap_or(now_ns);
                    requests += 1;
                }
                Step::Read if !served.readable => return Ok(Pause::Drained),
                Step::Read => match served.read(&self.pool, &mut self.spare, now_ns) {
                    Ok(Progress::Read { bytes: n, .. }) => {
                        bytes += n;
                        self.totals.bytes_in.add(n as u64);
                        now_ns = self.now_ns();
                    }
                    Ok(Progress::NoRoom) => return Ok(Pause::Memory),
                    Ok(Progress::End) => {}
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err((CloseReason::Peer, error.to_string())),
                },
                Step::AwaitAnswers => return Ok(Pause::Answers),
                Step::AwaitRoom => return Ok(Pause::Room),
                Step::AwaitMemory => return Ok(Pause::Memory),
                Step::Close(reason, why) => return Err((reason, why)),
            }
            if requests >= TURN_REQUESTS || bytes >= TURN_BYTES {
                return Ok(Pause::Budget);
            }
        }
    }

    /// Notes that a connection is, or is no longer, held back by us.
    fn set_paused(&mut self, key: usize, paused: bool) {
        let now_ns = self.now_ns();
        let Some(served) = self.connections.get_mut(key) else { return };
        if served.paused && !paused {
            // The frame stood still because of this broker, so its time starts again.
            served.connection.excuse(now_ns);
        }
        served.paused = paused;
    }

    fn await_room(&mut self, key: usize) {
        if let Some(served) = self.connections.get_mut(key)
            && !std::mem::replace(&mut served.awaits_room, true)
        {
            self.awaiting_room.push_back(key);
        }
        if self.wants_room.wait(self.parts.queue.waiters()) {
            self.queue_to_read(key);
        }
    }

    fn await_memory(&mut self, key: usize) {
        if let Some(served) = self.connections.get_mut(key) {
            let policy = self.parts.queue.policy(served.connection.frames.api_key());
            let kind = Share::of(&policy);
            if !served.awaits_memory_of(kind) {
                served.awaits_memory = Some(HalfFrames::wait(&self.half_frames, kind));
                self.awaiting_memory[kind as usize].push_back(key);
            }
        }
        if self.wants_memory.wait(self.half_frames.waiters()) {
            self.queue_to_read(key);
        }
    }

    /// If room became free in a lane, those that waited for it try again.
    pub(super) fn retry_awaiting_room(&mut self) {
        if !self.wants_room.take_freed() {
            return;
        }
        for _ in 0..self.awaiting_room.len() {
            if let Some(key) = self.awaiting_room.pop_front()
                && let Some(served) = self.connections.get_mut(key)
            {
                served.awaits_room = false;
                self.queue_to_read(key);
            }
        }
    }

    /// If memory became free, those that waited for it go on, oldest first, until that of their
    /// kind is used up.
    pub(super) fn retry_awaiting_memory(&mut self) {
        if !self.wants_memory.take_freed() {
            return;
        }
        for kind in Share::ALL {
            for _ in 0..self.awaiting_memory[kind as usize].len() {
                let Some(key) = self.awaiting_memory[kind as usize].pop_front() else { break };
                let served = self.connections.get_mut(key);
                // One that went on by itself may be in the line of another kind by now.
                let Some(served) = served.filter(|served| served.awaits_memory_of(kind)) else {
                    continue;
                };
                served.awaits_memory = None;
                self.read_turn(key);
                let served = self.connections.get(key);
                if served.is_some_and(|served| served.awaits_memory_of(kind)) {
                    break;
                }
            }
        }
    }

    /// Ends a connection whose peer sends no more, once all it sent was served and answered.
    pub(super) fn end_if_done(&mut self, key: usize) {
        let Some(served) = self.connections.get(key) else { return };
        // Paused means that a complete frame may still wait for its turn.
        if served.ended_ns.is_some() && !served.paused && served.connection.is_settled() {
            self.close(key, CloseReason::Peer, "");
        }
    }
}

/// Nothing to read now, or a signal came: no reason to end the connection.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Served {
    fn awaits_memory_of(&self, kind: Share) -> bool {
        self.awaits_memory.as_ref().is_some_and(|waits| waits.kind() == kind)
    }

    /// Reads once, and notes what that says about the socket.
    fn read(
        &mut self,
        pool: &Arc<BufferPool>,
        spare: &mut Option<Buffer>,
        now_ns: u64,
    ) -> io::Result<Progress> {
        let result = self.connection.frames.read(&mut *self.stream, pool, spare);
        match &result {
            Ok(Progress::Read { drained, .. }) => {
                self.connection.touch(now_ns);
                self.connection.bytes_arrived(now_ns);
                // A short read empties the socket, and later bytes are announced. But the end of
                // the stream may have been announced already, together with these bytes.
                self.readable = !drained || self.end_announced;
            }
            Ok(Progress::NoRoom) => {}
            Ok(Progress::End) => {
                self.readable = false;
                self.ended_ns = Some(now_ns);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.readable = false,
        }
        result
    }
}
