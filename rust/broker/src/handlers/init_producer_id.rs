//! InitProducerId: an id and an epoch, so that the log can tell a retry from a new batch.
//!
//! Without a transactional id every request gets a fresh id at epoch 0, whatever it had before.
//! An id that a log holds is never given out: a partition that was copied here brings ids of
//! another cluster, and a new producer with one of them would be taken for the old one.
//! Source: Kafka's `TransactionCoordinator.handleInitProducerId`; it has no such care for copies.

use super::{Call, Rooms};
use crate::metadata::Controller;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::init_producer_id::{
    InitProducerIdRequest, InitProducerIdResponse,
};
use parking_lot::Mutex;
use std::ops::Range;

/// The rest of the block of ids that the controller gave to this broker.
pub struct ProducerIds {
    broker_id: i32,
    block: Mutex<Range<i64>>,
}

impl ProducerIds {
    /// No block yet: the first producer asks for one.
    #[must_use]
    pub fn new(broker_id: i32) -> Self {
        Self { broker_id, block: Mutex::new(0..0) }
    }

    /// An id that nobody else has, or had before a restart, and that is greater than `above`.
    ///
    /// # Errors
    /// There is none left in the block, and the controller cannot write down another one.
    pub fn next(&self, controller: &Controller, above: i64) -> Result<i64, ErrorCode> {
        let mut block = self.block.lock();
        if block.start > above
            && let Some(id) = block.next()
        {
            return Ok(id);
        }
        let given = controller.allocate_producer_ids(self.broker_id, above);
        let given = given.map_err(|_| ErrorCode::CoordinatorLoadInProgress)?;
        *block = given.first + 1..given.first + given.len;
        Ok(given.first)
    }
}

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<InitProducerIdRequest>) {
    let response = match new_producer_id(rooms, &call.request) {
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
    call.reply.send(&response);
}

fn new_producer_id(rooms: &Rooms, request: &InitProducerIdRequest) -> Result<i64, ErrorCode> {
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return Err(ErrorCode::InvalidRequest);
    }
    match request.transactional_id.as_deref() {
        None => rooms.producer_ids.next(&rooms.controller, rooms.partitions.greatest_producer_id()),
        Some("") => Err(ErrorCode::InvalidRequest),
        // Fatal to every client, where "coordinator not available" would keep it trying for ever.
        Some(_) => Err(ErrorCode::UnsupportedVersion),
    }
}
