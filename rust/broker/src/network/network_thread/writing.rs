//! The sending half of a turn: take responses in request order, write them, record their stages.

use std::io;

use super::NetworkThread;
use crate::error::panics;
use crate::metrics::{FinishedRequest, Kept, Metrics, Passed, Stage};
use crate::network::connection::CloseReason;
use crate::network::output::{Flushed, SentBytes};
use crate::request_queue::RequestContext;
use crate::response_queue::{Answer, Overlap, ReadyResponse, Response, Slot};

/// Bytes written in a turn to connections that have much to take: what a request that arrives
/// meanwhile waits for. It is little more than 50 us from the page cache.
pub(super) const TURN_BYTES: usize = 256 << 10;

/// An output of this many bytes goes at once, a larger one after what came in was served.
const SHORT_BYTES: u64 = 64 << 10;

impl NetworkThread {
    /// Looks at every connection the response queue names, and writes what it has.
    pub(super) fn take_responses(&mut self) {
        while let Some(key) = self.shared.queue.pop() {
            self.at = Some(key);
            let Some(served) = self.connections.get_mut(key) else { continue };
            let mut ready = std::mem::take(&mut self.ready);
            served.connection.responses.take_ready(&mut ready);
            let now_ns = self.now_ns();
            for response in ready.drain(..) {
                self.queue_response(key, response, now_ns);
            }
            self.ready = ready;
            if self.connections.get(key).is_some_and(|of| of.connection.output.left() > SHORT_BYTES)
            {
                self.queue_to_write(key);
            } else {
                self.write_turn(key);
            }
            // An answer may be what the next frame waited for.
            self.queue_to_read_again(key);
            self.schedule_scan(key);
        }
    }

    fn queue_response(&mut self, key: usize, ready: ReadyResponse, now_ns: u64) {
        let ReadyResponse { slot, started_ns, handled_ns, answered_ns, answer } = ready;
        let metrics = &self.parts.metrics;
        let remote_ns = handled_ns.map_or(0, |handled| answered_ns.saturating_sub(handled));
        metrics.record(Stage::Remote, slot.api_key, remote_ns);
        let queued_ns = now_ns.saturating_sub(answered_ns);
        metrics.record(Stage::ResponseQueue, slot.api_key, queued_ns);
        if let Some(recent) = metrics.recent()
            && let Some(served) = self.connections.get(key)
        {
            let connection_id = served.connection.context().connection_id;
            recent.note(connection_id, slot.correlation_id, |entry| {
                (entry.answered_ns, entry.taken_ns) = (Some(answered_ns), Some(now_ns));
            });
        }
        let received_ns = slot.received_ns;
        let started_ns = started_ns.unwrap_or(received_ns);
        let passed = Passed {
            received_ns,
            started_ns,
            // An answer may be on its way before the handler returns.
            handled_ns: handled_ns.unwrap_or(answered_ns),
            answered_ns,
            taken_ns: now_ns,
            sent_ns: now_ns,
        };
        let response = match answer {
            Answer::Response(response) => response,
            Answer::Panicked => self.answer_panic(slot),
        };
        let Some(served) = self.connections.get_mut(key) else { return };
        if served.connection.closing {
            return;
        }
        match response {
            Response::Pieces(pieces) => served.connection.output.push(pieces, slot, passed),
            Response::NoResponse => {
                let total_ns = now_ns.saturating_sub(slot.received_ns);
                self.parts.metrics.record(Stage::Total, slot.api_key, total_ns);
            }
            Response::Close => served.connection.closing = true,
        }
    }

    /// The thread that handled or completed the request panicked while it held the responder.
    fn answer_panic(&self, slot: Slot) -> Response {
        let build = || (self.parts.on_panic)(&slot);
        panics::contain("the answer to a panic", build).flatten().unwrap_or(Response::Close)
    }

    /// Writes what connection `key` has to send, within its budget. Returns how much that was.
    pub(super) fn write_turn(&mut self, key: usize) -> u64 {
        let stopping = self.is_stopping();
        let Some(served) = self.connections.get_mut(key) else { return 0 };
        served.queued_to_write = false;
        if !served.writable {
            return 0;
        }
        let mut sent = SentBytes::default();
        let connection_id = served.connection.context().connection_id;
        let mut finished = Vec::new();
        let output = &mut served.connection.output;
        let flushed = output.flush(&mut *served.stream, TURN_BYTES, &mut sent);
        let now_ns = self.parts.clock.monotonic_ns();
        while let Some(sending) = output.pop_sent() {
            let api_key = sending.slot.api_key;
            let passed = Passed { sent_ns: now_ns, ..sending.passed };
            let send_ns = now_ns.saturating_sub(passed.taken_ns);
            self.parts.metrics.record(Stage::ResponseSend, api_key, send_ns);
            let total_ns = now_ns.saturating_sub(sending.slot.received_ns);
            self.parts.metrics.record(Stage::Total, api_key, total_ns);
            if let Some(kept) = kept(&self.parts.metrics, sending.slot, passed) {
                finished.push((kept, sending.slot, passed));
            }
            if let Some(recent) = self.parts.metrics.recent() {
                recent.note(connection_id, sending.slot.correlation_id, |entry| {
                    entry.sent_ns = Some(now_ns);
                });
            }
        }
        for (kept, slot, passed) in finished {
            let request = finished_request(served.connection.context(), slot, passed);
            self.parts.metrics.finished().push(kept, request);
        }
        if sent != SentBytes::default() {
            self.totals.bytes_copied.add(sent.copied);
            self.totals.bytes_zero_copy.add(sent.zero_copy);
            served.connection.touch(now_ns);
        }
        match flushed {
            Ok(Flushed::All) if served.connection.closing && !stopping => {
                self.close(key, CloseReason::Answered, "");
            }
            Ok(Flushed::All) => {
                // The peer has read: that may be what its next frame waited for.
                self.queue_to_read_again(key);
            }
            Ok(Flushed::Budget) => self.queue_to_write(key),
            Ok(Flushed::Blocked) => served.writable = false,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                tracing::warn!(peer = %served.connection.context().peer, %error, "short file");
                self.close(key, CloseReason::ShortFile, "");
            }
            Err(error) => self.close(key, CloseReason::Peer, &error.to_string()),
        }
        sent.copied + sent.zero_copy
    }

    fn queue_to_read_again(&mut self, key: usize) {
        let Some(served) = self.connections.get(key) else { return };
        if served.paused || served.ended_ns.is_some() {
            self.queue_to_read(key);
        }
    }
}

/// Whether a request whose answer has left is kept: it was slow, or someone looks at samples.
fn kept(metrics: &Metrics, slot: Slot, passed: Passed) -> Option<Kept> {
    // A produce waits for the followers or the disk; other requests for what their client asked.
    let own_ns = match slot.overlap {
        Overlap::Produce => passed.total_ns(),
        Overlap::Fetch | Overlap::Alone => passed.busy_ns(),
    };
    metrics.finished().keeps(passed.sent_ns, own_ns)
}

fn finished_request(context: &RequestContext, slot: Slot, passed: Passed) -> FinishedRequest {
    FinishedRequest {
        api_key: slot.api_key,
        api_version: slot.api_version,
        correlation_id: slot.correlation_id,
        client_id: context.client.id().map(str::to_owned),
        connection_id: context.connection_id,
        peer: context.peer,
        passed,
    }
}
