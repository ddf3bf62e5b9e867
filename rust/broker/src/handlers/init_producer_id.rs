//! InitProducerId: an id and an epoch, so that the log can tell a retry from a new batch.
//!
//! Without a transactional id every request gets a fresh id at epoch 0, whatever it had before. An
//! id that a log holds is never given out. A copied partition brings ids of another cluster, and a
//! new producer with such an id would be taken for the old one.
//! Source: Kafka's `TransactionCoordinator.handleInitProducerId`; it has no such care for copies.

use super::parked_change::{NO_TIMEOUT_MS, park};
use super::{Call, Reply, Rooms};
use crate::metadata::controller::{Done, ProducerIdBlock};
use crate::metadata::{ApiError, Controller};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::init_producer_id::{
    InitProducerIdRequest, InitProducerIdResponse,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The rest of the block of ids that the controller gave to this broker, and who waits for the next
/// one.
pub struct ProducerIds {
    broker_id: i32,
    state: Mutex<State>,
    /// See [`ProducerIds::on_block`].
    on_block: OnceLock<OnBlock>,
}

/// Called with the greatest id of a block, before any of its ids is given out.
type OnBlock = Box<dyn Fn(i64) + Send + Sync>;

struct State {
    block: Range<i64>,
    /// Whether the controller was asked for a block.
    asking: bool,
    waiting: VecDeque<Wanted>,
}

/// A request for an id that is greater than `above`.
struct Wanted {
    above: i64,
    done: OnId,
}

/// Called with an id, or with the reason why there is none.
type OnId = Box<dyn FnOnce(Result<i64, ErrorCode>) + Send>;

impl ProducerIds {
    /// No block yet: the first producer asks for one.
    #[must_use]
    pub fn new(broker_id: i32) -> Arc<Self> {
        let state = State { block: 0..0, asking: false, waiting: VecDeque::new() };
        Arc::new(Self { broker_id, state: Mutex::new(state), on_block: OnceLock::new() })
    }

    /// Calls `note` with the greatest id of each block, before any of its ids is given out.
    pub fn on_block(&self, note: OnBlock) {
        self.on_block.get_or_init(|| note);
    }

    /// Calls `done` with an id above `above` that no producer has, or had before a restart. The
    /// call comes at once, or when the controller gave a block. An error says that the block could
    /// not be written down.
    pub fn next(self: &Arc<Self>, controller: &Arc<Controller>, above: i64, done: OnId) {
        self.state.lock().waiting.push_back(Wanted { above, done });
        self.serve(controller);
    }

    /// Gives ids to those who wait, in their order, as far as the block goes; then asks for
    /// another.
    fn serve(self: &Arc<Self>, controller: &Arc<Controller>) {
        loop {
            let mut state = self.state.lock();
            let Some(above) = state.waiting.front().map(|wanted| wanted.above) else { return };
            if state.asking {
                return;
            }
            let id = if state.block.start > above { state.block.next() } else { None };
            let wanted = id.and_then(|_| state.waiting.pop_front());
            state.asking = id.is_none();
            drop(state);
            match id.zip(wanted) {
                Some((id, wanted)) => (wanted.done)(Ok(id)),
                None => return self.ask(controller, above),
            }
        }
    }

    fn ask(self: &Arc<Self>, controller: &Arc<Controller>, above: i64) {
        // Weak: the controller keeps the closure until it has an answer.
        let (this, asked) = (Arc::clone(self), Arc::downgrade(controller));
        let given = move |given: Result<ProducerIdBlock, ApiError>| {
            if let (Ok(block), Some(note)) = (&given, this.on_block.get()) {
                note(block.first + block.len - 1);
            }
            let refused = this.given(given);
            for wanted in refused {
                (wanted.done)(Err(ErrorCode::CoordinatorLoadInProgress));
            }
            if let Some(controller) = asked.upgrade() {
                this.serve(&controller);
            }
        };
        controller.allocate_producer_ids(self.broker_id, above, Done::new(given));
    }

    /// Takes a block over. Returns whom there is nothing for.
    fn given(&self, given: Result<ProducerIdBlock, ApiError>) -> VecDeque<Wanted> {
        let mut state = self.state.lock();
        state.asking = false;
        match given {
            Ok(given) => {
                state.block = given.first..given.first + given.len;
                VecDeque::new()
            }
            Err(_) => std::mem::take(&mut state.waiting),
        }
    }
}

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<InitProducerIdRequest>) {
    let Call { request, reply } = call;
    if let Some(error) = refused(&request) {
        return answer(reply, Err(error));
    }
    let above = rooms.partitions.producer_ids().greatest();
    let ask = |done: Done<Result<i64, ErrorCode>>| {
        let done = Box::new(move |given| done.tell(given));
        rooms.producer_ids.next(&rooms.controller, above, done);
    };
    park(rooms, reply.memory_bytes, NO_TIMEOUT_MS, ask, move |given| {
        answer(reply, given.unwrap_or_else(|error| Err(error.code)));
    });
}

fn answer(reply: Reply<InitProducerIdRequest>, given: Result<i64, ErrorCode>) {
    let response = match given {
        Ok(producer_id) => {
            InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() }
        }
        Err(error) => InitProducerIdResponse {
            error_code: error.code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    };
    reply.send(&response);
}

fn refused(request: &InitProducerIdRequest) -> Option<ErrorCode> {
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return Some(ErrorCode::InvalidRequest);
    }
    match request.transactional_id.as_deref() {
        None => None,
        Some("") => Some(ErrorCode::InvalidRequest),
        // Fatal to every client, where "coordinator not available" would make it try again without
        // end.
        Some(_) => Some(ErrorCode::UnsupportedVersion),
    }
}
