//! Sending from an event loop: what must be waited for becomes a callback, never a blocked loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_client::ClientError;
use kafkalite_client::producer::Ask;
use kafkalite_client::producer::accumulator::{NoRoom, Record, Refusal, Ticket};
use parking_lot::Mutex;
use pyo3::prelude::*;

use super::callbacks::{Token, Who};
use super::inside::{Arguments, Inside, now_ms, through};
use super::{Producer, Topic, data};
use crate::error::{client_error, client_exception};

/// How long after its time a record's wait ends that should have ended by itself.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The records that were sent to its topic before it.
    Others,
    /// The topic's metadata.
    Topic,
    /// The same once more: it may have got the partition that it lacks.
    Partition,
    /// Memory: a place in line, and how many bytes.
    Memory(Ticket, usize),
}

/// What serializers made of a key and a value.
type Made = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// What a record waits for: one thing after the other, `max.block.ms` in all.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct Turn {
    producer: Py<Producer>,
    topic: String,
    what: Mutex<What>,
    until: Instant,
    /// A serializer is called once for a record.
    made: Mutex<Option<Made>>,
}

impl Turn {
    fn new(producer: &Bound<'_, Producer>, topic: &str, what: What) -> PyResult<Py<Self>> {
        let py = producer.py();
        let inside = producer.get().inside(py)?;
        let until = Instant::now() + inside.producer.config().max_block;
        let (what, made) = (Mutex::new(what), Mutex::new(None));
        let producer = producer.clone().unbind();
        Py::new(py, Self { producer, topic: topic.to_owned(), what, until, made })
    }

    /// It waits for something else. A place in line for memory is kept: at the end of the line a
    /// record would come after those that were sent later.
    fn waits_for(&self, inside: &Inside, next: Waits) {
        let mut what = self.what.lock();
        let before = *what;
        *what = match (next, before) {
            (Waits::Memory(bytes), What::Memory(ticket, _)) => What::Memory(ticket, bytes),
            (Waits::Memory(bytes), _) => What::Memory(inside.producer.wait_for_memory(), bytes),
            (Waits::Topic, _) => What::Topic,
            (Waits::Partition, _) => What::Partition,
        };
        let after = *what;
        drop(what);
        if let (What::Memory(ticket, _), What::Topic | What::Partition) = (before, after) {
            inside.producer.memory().leave(ticket);
        }
    }

    /// Whether it waited for a partition that was not there.
    fn looked(&self) -> bool {
        *self.what.lock() == What::Partition
    }

    fn ticket(&self) -> Option<Ticket> {
        match *self.what.lock() {
            What::Memory(ticket, _) => Some(ticket),
            What::Others | What::Topic | What::Partition => None,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

#[pymethods]
impl Turn {
    /// Gives up its place in line. Without this call the place is held for as long as the turn is
    /// alive. A traceback that refers to the turn may make that very long.
    fn leave(&self) {
        let before = std::mem::replace(&mut *self.what.lock(), What::Others);
        if let What::Memory(ticket, _) = before
            && let Ok(inside) = self.producer.get().inside.get_cheaply()
        {
            inside.producer.memory().leave(ticket);
        }
    }

    /// Calls `callback(error)` on another thread when it is time to try again; `error` is an
    /// exception if there will be no such time, else `None`.
    fn subscribe(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let inside = self.producer.get().inside(py)?;
        inside.callbacks.start();
        let callbacks = Arc::clone(&inside.callbacks);
        let what = *self.what.lock();
        let ask = match what {
            What::Memory(ticket, needed) => {
                let wake = Box::new(move || callbacks.wake(callback, None));
                inside.producer.memory().subscribe(ticket, needed, wake);
                return Ok(());
            }
            What::Others => {
                callbacks.wake(callback, None);
                return Ok(());
            }
            What::Topic => Ask::IfUnknown,
            What::Partition => Ask::Anew,
        };
        let done = move |result: Result<Topic, _>| callbacks.wake(callback, result.err());
        let begun = inside.producer.look_up_then(&self.topic, ask, self.until, done);
        begun.map_err(|error| client_error(py, &error))
    }

    /// The exception of a wait that got no memory.
    fn error(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let producer = &self.producer.get().inside(py)?.producer;
        let after_ms = producer.config().max_block.as_millis() as u64;
        let topic = &self.topic;
        let what = match *self.what.lock() {
            What::Memory(_, needed) => {
                let full = producer.buffer_full(needed);
                return Ok(client_exception(py, &full)?.unbind());
            }
            What::Topic | What::Partition => format!("the metadata of topic {topic}"),
            What::Others => format!("adding what was sent to topic {topic} before"),
        };
        Ok(client_exception(py, &ClientError::Timeout { what, after_ms })?.unbind())
    }

    /// How long a record may still wait, in seconds. What ends by itself in time, and knows best
    /// what was wrong, gets a little more.
    #[getter]
    fn seconds(&self) -> f64 {
        let grace = if self.ticket().is_some() { Duration::ZERO } else { GRACE };
        (self.until + grace).saturating_duration_since(Instant::now()).as_secs_f64()
    }
}

/// What a record must wait for.
enum Waits {
    Topic,
    Partition,
    Memory(usize),
}

/// A turn of a record that waits for those that were sent before it.
pub fn queue_up(producer: &Bound<'_, Producer>, topic: &str) -> PyResult<Py<Turn>> {
    Turn::new(producer, topic, What::Others)
}

/// Appends the record if that needs no wait, else says what it waits for: `turn`, if there is one.
pub fn try_send(
    producer: &Bound<'_, Producer>,
    arguments: &Arguments<'_, '_>,
    who: Who,
    turn: Option<&Bound<'_, Turn>>,
) -> PyResult<Option<Py<Turn>>> {
    let py = producer.py();
    let inside = producer.get().inside(py)?;
    inside.producer.check().map_err(|error| client_error(py, &error))?;
    let name = arguments.topic.to_str()?;
    let mut made = None;
    let waits = match inside.producer.topic(name) {
        Some(topic) => {
            made = Some(serialized(inside, arguments, turn)?);
            let made = made.as_ref().map(|(key, value)| (key.as_ref(), value.as_ref()));
            append(py, inside, &topic, arguments, made.unwrap_or_default(), who, turn)?
        }
        None => Some(Waits::Topic),
    };
    let Some(waits) = waits else {
        if let Some(turn) = turn {
            turn.get().leave();
        }
        return Ok(None);
    };
    let turn = match turn {
        Some(turn) => turn.clone().unbind(),
        None => Turn::new(producer, name, What::Others)?,
    };
    turn.get().waits_for(inside, waits);
    if let Some((key, value)) = made {
        *turn.get().made.lock() = Some((key.map(Bound::unbind), value.map(Bound::unbind)));
    }
    Ok(Some(turn))
}

/// What the serializers make of key and value, or have made of them.
type Serialized<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

fn serialized<'py>(
    inside: &Inside,
    arguments: &Arguments<'_, 'py>,
    turn: Option<&Bound<'py, Turn>>,
) -> PyResult<Serialized<'py>> {
    let py = arguments.topic.py();
    if let Some((key, value)) = turn.and_then(|turn| turn.get().made.lock().take()) {
        return Ok((key.map(|key| key.into_bound(py)), value.map(|value| value.into_bound(py))));
    }
    let key = through("key", inside.key_serializer.as_ref(), arguments.key)?;
    let value = through("value", inside.value_serializer.as_ref(), arguments.value)?;
    Ok((key, value))
}

/// Appends the record, or says what it must wait for.
fn append(
    py: Python<'_>,
    inside: &Inside,
    topic: &Topic,
    arguments: &Arguments<'_, '_>,
    (key, value): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    who: Who,
    turn: Option<&Bound<'_, Turn>>,
) -> PyResult<Option<Waits>> {
    let failed = |error: ClientError| client_error(py, &error);
    let key = key.map_or(Ok(None), |key| data::data(key, "key"))?;
    let value = value.map_or(Ok(None), |value| data::data(value, "value"))?;
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
    let ticket = turn.and_then(|turn| turn.get().ticket());
    let mut token = Some(Token { who, waits: inside.callbacks.expect() });
    loop {
        let partition = match inside.producer.partition(topic, arguments.partition, record.key) {
            Ok(partition) => partition,
            Err(ClientError::NoPartition { .. }) if !turn.is_some_and(|t| t.get().looked()) => {
                return Ok(Some(Waits::Partition));
            }
            Err(error) => return Err(failed(error)),
        };
        match inside.producer.append(topic, partition, record, token, ticket) {
            Ok(_) => return Ok(None),
            // Another partition is chosen.
            Err(NoRoom { why: Refusal::Gone, token: back, .. }) => token = back,
            Err(NoRoom { why: Refusal::Memory, needed, .. }) => {
                return Ok(Some(Waits::Memory(needed)));
            }
            Err(NoRoom { why: Refusal::Closed, needed, .. }) => {
                return Err(failed(inside.producer.buffer_full(needed)));
            }
        }
    }
}
