//! One connection: its frames, its slots, its output. Knows what comes next, touches no socket.
//!
//! A frame becomes a request when three conditions hold. The overlap rule of the connection's slots
//! allows it (`response_queue::slots`). It fits the connection's bound in bytes. Its lane of the
//! request queue has room. Until then it stays in the read buffer, and nothing more is read.

use std::sync::Arc;

use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::primitives::Reader;

use super::NetworkConfig;
use super::buffer_pool::BufferPool;
use super::frames::{FrameReader, Front};
use super::half_frames::{HalfFrames, Share};
use super::output::Output;
use crate::clock::NS_PER_MS;
use crate::request_queue::{
    Claim, ConnectionRequests, Lane, Place, Request, RequestContext, RequestQueue,
};
use crate::response_queue::{ConnectionResponses, Slot};

#[cfg(test)]
mod tests;

/// Unsent memory beyond which no further request of the connection is begun.
const MAX_UNSENT_BYTES: usize = 1 << 20;
/// Unsent responses beyond which no further request of the connection is begun.
const MAX_UNSENT_FRAMES: usize = 64;
/// By how much a frame has to be faster while others wait for the memory that it holds.
const HURRY: u64 = 10;
/// How long a peer that sends no more may take none of its answers, or have none to take.
const LINGER_NS: u64 = 5_000 * NS_PER_MS;

/// Why a connection ends: the label `reason` of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it, or it broke.
    Peer,
    /// Nothing moved for `connections.max.idle.ms`.
    Idle,
    /// A frame stayed half-sent.
    SlowFrame,
    /// A size that is negative or too large.
    BadSize,
    /// A request header that does not parse, an unknown key, an unsupported version.
    BadRequest,
    /// The handler decided so, or dropped the request.
    Answered,
    /// A file was shorter than the range a response promised.
    ShortFile,
    /// A bug: serving it panicked.
    Panicked,
    /// The broker stops.
    Stopped,
}

impl CloseReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Peer,
        Self::Idle,
        Self::SlowFrame,
        Self::BadSize,
        Self::BadRequest,
        Self::Answered,
        Self::ShortFile,
        Self::Panicked,
        Self::Stopped,
    ];

    /// The value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Idle => "idle",
            Self::SlowFrame => "slow_frame",
            Self::BadSize => "bad_size",
            Self::BadRequest => "bad_request",
            Self::Answered => "answered",
            Self::ShortFile => "short_file",
            Self::Panicked => "panicked",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the peer broke the protocol: worth a log line.
    #[must_use]
    pub const fn is_offence(self) -> bool {
        matches!(self, Self::SlowFrame | Self::BadSize | Self::BadRequest)
    }
}

/// What to do next for a connection.
pub enum Step {
    /// Run or queue this request.
    Submit(Request, Place),
    /// Read from the socket.
    Read,
    /// A frame waits for answers to what was begun before it, or for the peer to read them.
    AwaitAnswers,
    /// A frame waits for room that others hold.
    AwaitRoom,
    /// A large frame waits for memory that others hold to go on arriving.
    AwaitMemory,
    /// End the connection.
    Close(CloseReason, String),
}

/// The protocol's side of a connection.
pub struct Connection {
    /// Bytes in.
    pub frames: FrameReader,
    /// Bytes out.
    pub output: Output,
    /// Frames admitted and not run.
    pub requests: Arc<ConnectionRequests>,
    /// Requests begun and not answered.
    pub responses: Arc<ConnectionResponses>,
    context: Arc<RequestContext>,
    /// Of the large frame at the front that waits for room in its lane.
    claim: Option<Claim>,
    /// When bytes moved last, in either direction.
    active_ns: u64,
    /// Since when the frame at the front is half-sent.
    half_sent_ns: Option<u64>,
    /// The kind of the frame at the front if it is large and may go on arriving, and since when it
    /// holds memory.
    holds_memory: Option<(Share, u64)>,
    /// The last answer is `Close`: what is queued goes out, nothing more is begun.
    pub closing: bool,
}

impl Connection {
    /// A connection just accepted.
    #[must_use]
    pub fn new(
        context: Arc<RequestContext>,
        responses: Arc<ConnectionResponses>,
        config: &NetworkConfig,
        now_ns: u64,
    ) -> Self {
        Self {
            frames: FrameReader::new(config.max_frame_bytes),
            output: Output::new(config.sendfile_min_bytes),
            requests: Arc::default(),
            responses,
            context,
            claim: None,
            active_ns: now_ns,
            half_sent_ns: None,
            holds_memory: None,
            closing: false,
        }
    }

    /// Where its requests come from.
    #[must_use]
    pub fn context(&self) -> &RequestContext {
        &self.context
    }

    /// What to do next. `half_frames` has the rooms for large frames that are still arriving, and
    /// `pool` the buffers for them.
    pub fn next_step(
        &mut self,
        queue: &RequestQueue,
        half_frames: &HalfFrames,
        pool: &Arc<BufferPool>,
        now_ns: u64,
    ) -> Step {
        // Kept only if the frame at the front waits for room in its lane again.
        let claim = self.claim.take();
        if self.closing || self.owes_reading() {
            return Step::AwaitAnswers;
        }
        match self.frames.front() {
            Front::Incomplete => Step::Read,
            Front::Large { api_key } => {
                let policy = queue.policy(api_key);
                if !self.responses.may_open(policy.overlap) {
                    return Step::AwaitAnswers;
                }
                let kind = Share::of(&policy);
                if !self.frames.begin_large(half_frames.of(kind), pool) {
                    return Step::AwaitMemory;
                }
                self.holds_memory = Some((kind, now_ns));
                Step::Read
            }
            Front::Larger { api_key, .. } if queue.policy(api_key).lane == Lane::Brokers => {
                self.frames.take_larger();
                self.next_step(queue, half_frames, pool, now_ns)
            }
            Front::BadSize(_) | Front::Larger { .. } if self.responses.unanswered() > 0 => {
                Step::AwaitAnswers
            }
            Front::BadSize(size) | Front::Larger { size, .. } => {
                Step::Close(CloseReason::BadSize, format!("size {size}"))
            }
            Front::Frame { length, api_key } => self.admit((length, api_key), claim, queue, now_ns),
        }
    }

    /// Whether the peer leaves so much unread that nothing more is begun for it.
    fn owes_reading(&self) -> bool {
        self.output.held_bytes() >= MAX_UNSENT_BYTES || self.output.frames() >= MAX_UNSENT_FRAMES
    }

    fn admit(
        &mut self,
        (length, api_key): (usize, i16),
        mut claim: Option<Claim>,
        queue: &RequestQueue,
        now_ns: u64,
    ) -> Step {
        let policy = queue.policy(api_key);
        if !self.responses.may_open(policy.overlap) {
            return Step::AwaitAnswers;
        }
        let begins = queue.parked().admits(policy.overlap, length);
        if !begins || !self.requests.has_room(length) {
            return Step::AwaitRoom;
        }
        let lane = policy.lane_for(self.context.audience);
        let Some(mut place) = queue.enter(lane, length, &mut claim) else {
            self.claim = claim;
            return Step::AwaitRoom;
        };
        place.hold(queue.parked().expect(policy.overlap, length));
        let mut reader = Reader::new(self.frames.take(length));
        let header = match RequestHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return Step::Close(CloseReason::BadRequest, error.to_string()),
        };
        if let Err(why) = check_served(&header) {
            return Step::Close(CloseReason::BadRequest, why);
        }
        self.context.client.asked(header.client_id.as_deref(), now_ns);
        let slot = Slot {
            api_key: header.api_key,
            api_version: header.api_version,
            correlation_id: header.correlation_id,
            overlap: policy.overlap,
            received_ns: now_ns,
        };
        let request = Request {
            header,
            body: reader.into_rest(),
            context: Arc::clone(&self.context),
            lane,
            responder: self.responses.open(slot),
            received_ns: now_ns,
        };
        Step::Submit(request, place)
    }

    /// When the connection of a peer that sends no more since `ended_ns` has to end. That is some
    /// time after the last byte moved, because the peer may still be reading a large answer.
    #[must_use]
    pub fn lingers_until(&self, ended_ns: u64) -> u64 {
        ended_ns.max(self.active_ns).saturating_add(LINGER_NS)
    }

    /// When a byte moved last.
    #[must_use]
    pub fn moved_ns(&self) -> u64 {
        self.active_ns
    }

    /// Notes that bytes moved: some came, some were given to the socket, or the peer was seen to
    /// have taken some.
    pub fn touch(&mut self, now_ns: u64) {
        self.active_ns = now_ns;
    }

    /// Notes that bytes arrived: a frame that is half-sent now has been so since its first ones.
    pub fn bytes_arrived(&mut self, now_ns: u64) {
        if self.frames.is_half_sent() {
            self.half_sent_ns.get_or_insert(now_ns);
        }
    }

    /// Notes that a frame was taken. Returns how long it had been arriving, in nanoseconds.
    pub fn frame_taken(&mut self, now_ns: u64) -> u64 {
        let since_ns = self.half_sent_ns.unwrap_or(now_ns);
        self.half_sent_ns = self.frames.is_half_sent().then_some(now_ns);
        self.holds_memory = None;
        now_ns.saturating_sub(since_ns)
    }

    /// The half-sent frame stood still because of this broker, so its time starts again.
    pub fn excuse(&mut self, now_ns: u64) {
        if self.half_sent_ns.is_some() {
            self.half_sent_ns = Some(now_ns);
        }
    }

    /// When the connection has to end if nothing moves until then, and why.
    ///
    /// A half-sent frame has a deadline, which what has arrived of it extends; it does not run
    /// while `paused` says that we do not read. A connection with a request that waits is not idle.
    #[must_use]
    pub fn deadline(&self, config: &NetworkConfig, paused: bool) -> (u64, CloseReason) {
        if let Some(since_ns) = self.half_sent_ns
            && self.frames.is_half_sent()
            && !paused
        {
            let ms = config.half_frame_timeout_ms.saturating_add(self.earned_ms(config));
            return (after(since_ns, ms), CloseReason::SlowFrame);
        }
        if !self.responses.are_taken() {
            return (u64::MAX, CloseReason::Idle);
        }
        (after(self.active_ns, config.max_idle_ms), CloseReason::Idle)
    }

    /// The time that the arrived part of the frame may take.
    fn earned_ms(&self, config: &NetworkConfig) -> u64 {
        self.frames.arrived() as u64 * 1_000 / config.half_frame_min_bytes_per_s.max(1)
    }

    /// When the half-sent large frame at the front has to give up its memory, should another
    /// connection wait for memory of that kind. `None` if the front holds none.
    ///
    /// Its deadline is a tenth of the usual one then. The usual one, counted from its beginning, is
    /// the last, because frames that wait for each other to grow stand still.
    #[must_use]
    pub fn gives_up_memory_at(&self, config: &NetworkConfig, paused: bool) -> Option<(u64, Share)> {
        let (kind, began_ns) = self.holds_memory.filter(|_| self.frames.is_half_sent())?;
        let last_ns = after(began_ns, config.half_frame_timeout_ms);
        let hurry_ms = config.half_frame_timeout_ms / HURRY;
        let slow_ns = self.half_sent_ns.filter(|_| !paused).map_or(u64::MAX, |since_ns| {
            after(since_ns, hurry_ms.saturating_add(self.earned_ms(config)))
        });
        Some((slow_ns.min(last_ns), kind))
    }

    /// Whether everything begun is answered and every answer is out. One that was given and not yet
    /// taken is not out.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.output.is_empty() && self.responses.are_taken()
    }
}

fn after(start_ns: u64, ms: u64) -> u64 {
    start_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
}

/// Unknown keys and versions end the connection, with the exception of ApiVersions. A client asks
/// there for the known versions, and gets an answer in version 0.
fn check_served(header: &RequestHeader) -> Result<(), String> {
    let (key, version) = (header.api_key, header.api_version);
    match header.api() {
        None => Err(format!("unknown API key {key}")),
        Some(ApiKey::ApiVersions) => Ok(()),
        Some(api) if api.versions().contains(version) => Ok(()),
        Some(api) => Err(format!("unsupported version {version} of {api:?}")),
    }
}
