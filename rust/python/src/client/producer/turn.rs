//! Sending from an event loop: what must be waited for becomes a callback, never a blocked loop.

use std::sync::Arc;
use std::time::Instant;

use kafkalite_client::ClientError;
use kafkalite_client::accumulator::{Place, Record, Ticket};
use kafkalite_client::producer::Ask;
use parking_lot::Mutex;
use pyo3::prelude::*;

use super::callbacks::{Token, Who};
use super::inside::{Arguments, Inside, now_ms, through};
use super::{Producer, data};
use crate::error::{client_error, client_exception};

enum What {
    /// The topic's metadata.
    Topic(String),
    /// The same once more: it may have got the partition that it lacks.
    Partition(String),
    /// Memory: a place in line, and how many bytes.
    Memory(Ticket, usize),
}

/// What a record waits for.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Turn {
    producer: Py<Producer>,
    what: Mutex<What>,
    until: Instant,
}

impl Turn {
    fn new(producer: &Bound<'_, Producer>, inside: &Inside, what: What) -> PyResult<Py<Self>> {
        let until = Instant::now() + inside.producer.config().max_block;
        let (producer, py) = (producer.clone().unbind(), producer.py());
        Py::new(py, Self { producer, what: Mutex::new(what), until })
    }

    /// Keeps its place in line for so many bytes; `false` if it has none. At the end of the line
    /// a record would come after those that were sent later.
    fn stays(&self, bytes: usize) -> bool {
        match &mut *self.what.lock() {
            What::Memory(_, needed) => {
                *needed = bytes;
                true
            }
            What::Topic(_) | What::Partition(_) => false,
        }
    }

    /// Whether it waited for a partition that was not there.
    fn looked(&self) -> bool {
        matches!(*self.what.lock(), What::Partition(_))
    }

    fn ticket(&self) -> Option<Ticket> {
        match *self.what.lock() {
            What::Memory(ticket, _) => Some(ticket),
            What::Topic(_) | What::Partition(_) => None,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket()
            && let Ok(inside) = self.producer.get().inside.get_cheaply()
        {
            inside.producer.memory().leave(ticket);
        }
    }
}

#[pymethods]
impl Turn {
    /// Calls `callback(error)` on another thread when it is time to try again; `error` is an
    /// exception if there will be no such time, else `None`.
    fn subscribe(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let inside = self.producer.get().inside(py)?;
        inside.callbacks.start();
        let what = self.what.lock();
        match &*what {
            What::Memory(ticket, needed) => {
                let callbacks = Arc::clone(&inside.callbacks);
                let wake = Box::new(move || callbacks.wake(callback, None));
                inside.producer.memory().subscribe(*ticket, *needed, wake);
                Ok(())
            }
            what @ (What::Topic(name) | What::Partition(name)) => {
                let deadline = Instant::now() + inside.producer.config().max_block;
                let callbacks = Arc::clone(&inside.callbacks);
                let done = move |result: Result<_, _>| callbacks.wake(callback, result.err());
                let ask = match what {
                    What::Partition(_) => Ask::Anew,
                    _ => Ask::IfUnknown,
                };
                let begun = inside.producer.look_up_then(name, ask, deadline, done);
                begun.map_err(|error| client_error(py, &error))
            }
        }
    }

    /// The exception of having waited in vain.
    fn error(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let producer = &self.producer.get().inside(py)?.producer;
        let error = match &*self.what.lock() {
            What::Memory(_, needed) => producer.buffer_full(*needed),
            What::Topic(name) | What::Partition(name) => {
                let after_ms = producer.config().max_block.as_millis() as u64;
                ClientError::Timeout { what: format!("the metadata of topic {name}"), after_ms }
            }
        };
        Ok(client_exception(py, &error)?.unbind())
    }

    /// How long a record may still wait, in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.until.saturating_duration_since(Instant::now()).as_secs_f64()
    }
}

/// Appends the record if that needs no wait, else says what it waits for.
pub fn try_send(
    producer: &Bound<'_, Producer>,
    arguments: &Arguments<'_, '_>,
    who: Who,
    turn: Option<&Bound<'_, Turn>>,
) -> PyResult<Option<Py<Turn>>> {
    let py = producer.py();
    let inside = producer.get().inside(py)?;
    let failed = |error: ClientError| client_error(py, &error);
    inside.producer.check().map_err(failed)?;
    let name = arguments.topic.to_str()?;
    let Some(topic) = inside.producer.topic(name) else {
        return Turn::new(producer, inside, What::Topic(name.to_owned())).map(Some);
    };
    let key = through("key", inside.key_serializer.as_ref(), arguments.key)?;
    let value = through("value", inside.value_serializer.as_ref(), arguments.value)?;
    let key = key.as_ref().map_or(Ok(None), |key| data::data(key, "key"))?;
    let value = value.as_ref().map_or(Ok(None), |value| data::data(value, "value"))?;
    let mut raw = Vec::new();
    let count = match arguments.headers {
        Some(headers) => data::headers(headers, &mut raw)?,
        None => 0,
    };
    let record = Record {
        timestamp_ms: arguments.timestamp_ms.map_or_else(now_ms, |given| given.0),
        key: key.as_deref(),
        value: value.as_deref(),
        headers: (count, &raw),
    };
    inside.producer.check_size(&record).map_err(failed)?;
    let partition = match inside.producer.partition(&topic, arguments.partition, record.key) {
        Ok(partition) => partition,
        Err(ClientError::NoPartition { topic, .. }) if !turn.is_some_and(|t| t.get().looked()) => {
            return Turn::new(producer, inside, What::Partition(topic)).map(Some);
        }
        Err(error) => return Err(failed(error)),
    };
    let ticket = turn.and_then(|turn| turn.get().ticket());
    let token = Token { who, waits: inside.callbacks.expect() };
    match inside.producer.append(&topic, partition, record, Some(token), ticket) {
        Ok(Place { .. }) => Ok(None),
        Err(no_room) => {
            if no_room.closed {
                return Err(failed(inside.producer.buffer_full(no_room.needed)));
            }
            if let Some(turn) = turn.filter(|turn| turn.get().stays(no_room.needed)) {
                return Ok(Some(turn.clone().unbind()));
            }
            let line = What::Memory(inside.producer.wait_for_memory(), no_room.needed);
            Turn::new(producer, inside, line).map(Some)
        }
    }
}
