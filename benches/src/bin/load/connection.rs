//! One connection of the load: a ring of ready frames going out, heads of responses coming in.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kafkalite_benches::figures::Histogram;
use kafkalite_benches::frames::{ResponseLayout, i16_at, i32_at};
use kafkalite_benches::sys::{self, Interest};

/// When a run is over, and how fast it goes.
pub struct Goal {
    pub duration: Duration,
    pub max_bytes: u64,
    pub requests: u64,
    /// Between two requests of one connection, open loop; `None` is closed loop.
    pub interval: Option<Duration>,
}

impl Goal {
    /// Closed loop until so many requests were answered.
    pub fn requests(requests: u64) -> Self {
        Self { duration: Duration::MAX, max_bytes: u64::MAX, requests, interval: None }
    }
}

/// What was completed by one call.
#[derive(Default)]
pub struct Progress {
    pub requests: u64,
    pub bytes: u64,
}

pub struct Connection {
    pub socket: TcpStream,
    /// All frames in a row, sent round and round: a write may span several.
    ring: Vec<u8>,
    frame_bytes: usize,
    frame_count: u64,
    layout: ResponseLayout,
    in_flight: u64,
    acknowledged: bool,
    interval: Option<Duration>,
    interest: Interest,
    /// Requests allowed to be sent, and when each became so (or was due), oldest unanswered first.
    allowed: u64,
    due: VecDeque<Instant>,
    /// Allowed and due in this run.
    scheduled: u32,
    sent_bytes: u64,
    answered: u64,
    /// The length and the first bytes of the response under way, and what of it is still to come.
    head: Vec<u8>,
    rest_bytes: usize,
}

impl Connection {
    /// `frames` are all of one length and carry their index as the correlation id.
    pub fn new(
        socket: TcpStream,
        frames: &[Vec<u8>],
        layout: ResponseLayout,
        in_flight: usize,
        acknowledged: bool,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        sys::set_congestion_control(&socket, "reno")?;
        Ok(Self {
            socket,
            ring: frames.concat(),
            frame_bytes: frames[0].len(),
            frame_count: frames.len() as u64,
            layout,
            in_flight: in_flight as u64,
            acknowledged,
            interval: None,
            interest: Interest::Read,
            allowed: 0,
            due: VecDeque::new(),
            scheduled: 0,
            sent_bytes: 0,
            answered: 0,
            head: Vec::new(),
            rest_bytes: 0,
        })
    }

    /// Starts a run; nothing is in flight.
    pub fn begin(&mut self, goal: &Goal) {
        (self.interval, self.scheduled, self.interest) = (goal.interval, 0, Interest::Read);
    }

    /// When the next request is due, in an open loop.
    pub fn next_due(&self, begin: Instant) -> Option<Instant> {
        Some(begin + self.interval? * self.scheduled)
    }

    /// Allows every request whose time has come and for which there is room.
    pub fn allow(&mut self, begin: Instant, now: Instant) {
        while self.allowed - self.answered < self.in_flight {
            let due = match self.next_due(begin) {
                Some(due) if due > now => break,
                due => due.unwrap_or(now),
            };
            self.due.push_back(due);
            self.allowed += 1;
            self.scheduled += 1;
        }
    }

    pub fn busy(&self) -> bool {
        self.answered < self.allowed
    }

    fn unsent_bytes(&self) -> u64 {
        self.allowed * self.frame_bytes as u64 - self.sent_bytes
    }

    /// Writes what is allowed and what the socket takes. Without acknowledgements, that completes.
    pub fn send(&mut self, latency: &mut Histogram) -> io::Result<Progress> {
        while self.unsent_bytes() > 0 {
            let start = (self.sent_bytes % self.ring.len() as u64) as usize;
            let end = self.ring.len().min(start + self.unsent_bytes() as usize);
            match self.socket.write(&self.ring[start..end]) {
                Ok(sent) => self.sent_bytes += sent as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let mut progress = Progress::default();
        while !self.acknowledged && (self.answered + 1) * self.frame_bytes as u64 <= self.sent_bytes
        {
            self.complete(latency);
            progress.requests += 1;
            progress.bytes += self.frame_bytes as u64;
        }
        Ok(progress)
    }

    fn complete(&mut self, latency: &mut Histogram) {
        self.answered += 1;
        if let Some(due) = self.due.pop_front() {
            latency.record(due.elapsed().as_nanos() as u64);
        }
    }

    /// Reads once and checks the responses that have begun in it. `bytes` counts the payload: the
    /// request's for a produce, the response's for a fetch.
    pub fn receive(&mut self, buffer: &mut [u8], latency: &mut Histogram) -> io::Result<Progress> {
        let n = match self.socket.read(buffer) {
            Ok(0) => return Err(io::Error::other("the server closed the connection")),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Progress::default());
            }
            Err(error) => return Err(error),
        };
        let mut progress = Progress::default();
        let fetching = self.layout.head - self.layout.error > 10;
        if fetching {
            progress.bytes = n as u64;
        }
        let mut bytes = &buffer[..n];
        while !bytes.is_empty() {
            if self.rest_bytes == 0 {
                // Between a length and its end every response is at least as long as its head.
                let wanted = (4 + self.layout.head - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..wanted]);
                bytes = &bytes[wanted..];
                if self.head.len() < 4 + self.layout.head {
                    break;
                }
                self.rest_bytes = self.check_head()?;
            }
            let skipped = self.rest_bytes.min(bytes.len());
            bytes = &bytes[skipped..];
            self.rest_bytes -= skipped;
            if self.rest_bytes == 0 {
                self.head.clear();
                self.complete(latency);
                progress.requests += 1;
                progress.bytes += if fetching { 0 } else { self.frame_bytes as u64 };
            }
        }
        Ok(progress)
    }

    /// How much of the response follows its head.
    fn check_head(&self) -> io::Result<usize> {
        let (len, correlation_id) = (i32_at(&self.head, 0), i32_at(&self.head, 4));
        let error = i16_at(&self.head[4..], self.layout.error);
        let expected = (self.answered % self.frame_count) as i32;
        match (len, correlation_id, error) {
            (Some(len), Some(id), Some(0))
                if id == expected && len as usize >= self.layout.head =>
            {
                Ok(len as usize - self.layout.head)
            }
            _ => Err(io::Error::other(format!(
                "a response of {len:?} bytes to {correlation_id:?} (expected {expected}) with \
                 error {error:?}"
            ))),
        }
    }

    /// What to wait for, if that is news.
    pub fn changed_interest(&mut self) -> Option<Interest> {
        let wanted = if self.unsent_bytes() > 0 { Interest::ReadWrite } else { Interest::Read };
        (wanted != std::mem::replace(&mut self.interest, wanted)).then_some(wanted)
    }
}
