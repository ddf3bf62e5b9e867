//! What a producer has in its process, and the path of one record through it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use kafkalite_client::fork::Home;
use kafkalite_client::producer::Ask;
use kafkalite_client::producer::accumulator::{NoRoom, Place, Record, Refusal, Ticket};
use kafkalite_client::{ClientError, Producer as Core};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::callbacks::{Callbacks, Token, Who};
use super::{Topic, data};
use crate::client::arguments::TimestampMs;
use crate::client::waiting::wait;
use crate::error::{client_error, ends_something, serialization_error};

/// What a producer has in the process it was made in.
pub struct Inside {
    pub producer: Core<Token>,
    pub callbacks: Arc<Callbacks>,
    pub key_serializer: Option<Py<PyAny>>,
    pub value_serializer: Option<Py<PyAny>>,
    /// The topic of the last record, found again by the identity of its name.
    pub last_topic: Mutex<Option<(Py<PyString>, Topic)>>,
    pub closed: AtomicBool,
    pub home: Home,
}

impl Drop for Inside {
    /// It was not closed: the callback thread ends by itself.
    fn drop(&mut self) {
        self.callbacks.close(Instant::now());
    }
}

/// A record as Python gave it.
pub struct Arguments<'a, 'py> {
    pub topic: &'a Bound<'py, PyString>,
    pub value: Option<&'a Bound<'py, PyAny>>,
    pub key: Option<&'a Bound<'py, PyAny>>,
    pub partition: Option<i32>,
    pub headers: Option<&'a Bound<'py, PyAny>>,
    pub timestamp_ms: Option<TimestampMs>,
}

/// Milliseconds since 1970, now.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// What the serializer of keys or values, `what`, makes of one. What it raises is the cause of a
/// `SerializationError`; so is that what it made is nothing a record can have.
pub fn serialize<'py>(
    what: &str,
    serializer: &Py<PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let made = serializer.bind(py).call1((value,));
    let made = made.map_err(|cause| serialization_error(py, what, cause))?;
    match data::data(&made, what).err() {
        None => Ok(made),
        Some(error) if ends_something(py, &error) => Err(error),
        Some(_) => {
            let name = made.get_type().name()?;
            let why = format!("its serializer returned {name}, not bytes, str or None");
            Err(serialization_error(py, what, PyTypeError::new_err(why)))
        }
    }
}

/// A record's key or value, `what`, after its serializer, if it has one; `None` stays `None`.
pub fn through<'py>(
    what: &str,
    serializer: Option<&Py<PyAny>>,
    object: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let object = object.filter(|object| !object.is_none());
    match (serializer, object) {
        (Some(serializer), Some(object)) => serialize(what, serializer, object).map(Some),
        (_, object) => Ok(object.cloned()),
    }
}

/// A place in the line for memory; left when it is dropped.
pub struct Line<'a> {
    producer: &'a Core<Token>,
    ticket: Ticket,
}

impl Line<'_> {
    /// Names the place.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.producer.memory().leave(self.ticket);
    }
}

impl Inside {
    /// The topic's queues, waiting for its metadata if it is new.
    pub fn topic(&self, name: &Bound<'_, PyString>) -> PyResult<Topic> {
        if let Some((last, topic)) = &*self.last_topic.lock()
            && last.is(name)
        {
            return Ok(Arc::clone(topic));
        }
        let py = name.py();
        let text = name.to_str()?;
        let topic = match self.producer.topic(text) {
            Some(topic) => topic,
            None => self.look_up(py, text, Ask::IfUnknown)?,
        };
        let before = self.last_topic.lock().replace((name.clone().unbind(), Arc::clone(&topic)));
        // Dropped here, with the lock released: Python may run anything then.
        drop(before);
        Ok(topic)
    }

    /// The partition of a record. One that is not there is looked for once more.
    #[inline]
    pub fn partition(
        &self,
        py: Python<'_>,
        topic: &Topic,
        named: Option<i32>,
        key: Option<&[u8]>,
    ) -> PyResult<u32> {
        match self.producer.partition(topic, named, key) {
            Ok(partition) => Ok(partition),
            Err(error) => {
                self.look_again(py, topic, &error)?;
                let now = self.producer.partition(topic, named, key);
                now.map_err(|error| client_error(py, &error))
            }
        }
    }

    /// Asks for a topic that lacks a partition, as `error` says; raises any other error.
    #[cold]
    pub fn look_again(&self, py: Python<'_>, topic: &Topic, error: &ClientError) -> PyResult<()> {
        match error {
            ClientError::NoPartition { .. } => self.look_up(py, topic.name(), Ask::Anew).map(drop),
            other => Err(client_error(py, other)),
        }
    }

    fn look_up(&self, py: Python<'_>, name: &str, ask: Ask) -> PyResult<Topic> {
        let failed = |error: ClientError| client_error(py, &error);
        self.home.check().map_err(failed)?;
        let deadline = Instant::now() + self.producer.config().max_block;
        let call = self.producer.look_up(name, ask, deadline).map_err(failed)?;
        let step = |until: Instant| call.wait(until.saturating_duration_since(Instant::now()));
        // The call itself ends at the deadline; it knows best what was wrong.
        wait(py, None, step)?.unwrap_or(Err(ClientError::Forked)).map_err(failed)
    }

    /// Waits in line until there may be memory.
    ///
    /// # Errors
    /// `BufferFullError` at the deadline.
    pub fn wait_for_room(
        &self,
        py: Python<'_>,
        needed: usize,
        deadline: Instant,
    ) -> PyResult<Line<'_>> {
        self.home.check().map_err(|error| client_error(py, &error))?;
        let ticket = self.producer.wait_for_memory();
        let line = Line { producer: &self.producer, ticket };
        let memory = self.producer.memory();
        let step = |until: Instant| memory.wait(ticket, needed, until).then_some(());
        wait(py, Some(deadline), step)?
            .ok_or_else(|| client_error(py, &self.producer.buffer_full(needed)))?;
        Ok(line)
    }

    /// Appends a record; with its timestamp.
    #[inline]
    pub fn append(
        &self,
        py: Python<'_>,
        arguments: &Arguments<'_, '_>,
        who: Option<Who>,
    ) -> PyResult<(Place<Token>, i64)> {
        let failed = |error: ClientError| client_error(py, &error);
        self.producer.check().map_err(failed)?;
        let topic = self.topic(arguments.topic)?;
        if self.key_serializer.is_some() || self.value_serializer.is_some() {
            return self.append_serialized(py, &topic, arguments, who);
        }
        self.append_bytes(py, &topic, arguments, arguments.key, arguments.value, who)
    }

    #[cold]
    fn append_serialized(
        &self,
        py: Python<'_>,
        topic: &Topic,
        arguments: &Arguments<'_, '_>,
        who: Option<Who>,
    ) -> PyResult<(Place<Token>, i64)> {
        let key = through("key", self.key_serializer.as_ref(), arguments.key)?;
        let value = through("value", self.value_serializer.as_ref(), arguments.value)?;
        self.append_bytes(py, topic, arguments, key.as_ref(), value.as_ref(), who)
    }

    #[inline]
    fn append_bytes(
        &self,
        py: Python<'_>,
        topic: &Topic,
        arguments: &Arguments<'_, '_>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        who: Option<Who>,
    ) -> PyResult<(Place<Token>, i64)> {
        let key = key.map_or(Ok(None), |key| data::data(key, "key"))?;
        let value = value.map_or(Ok(None), |value| data::data(value, "value"))?;
        let mut raw = Vec::new();
        let count = match arguments.headers {
            Some(headers) => data::headers(headers, &mut raw)?,
            None => 0,
        };
        let timestamp_ms = arguments.timestamp_ms.map_or_else(now_ms, |given| given.0);
        let record = Record {
            timestamp_ms,
            key: key.as_deref(),
            value: value.as_deref(),
            headers: (count, &raw),
        };
        let failed = |error: ClientError| client_error(py, &error);
        self.producer.check_size(&record).map_err(failed)?;
        let partition = self.partition(py, topic, arguments.partition, record.key)?;
        let token = who.map(|who| Token { who, waits: self.callbacks.expect() });
        let place = match self.producer.append(topic, partition, record, token, None) {
            Ok(place) => place,
            Err(no_room) => self.append_later(py, topic, arguments.partition, record, no_room)?,
        };
        Ok((place, timestamp_ms))
    }

    /// Waits for memory, or chooses another partition, and appends then.
    #[cold]
    fn append_later(
        &self,
        py: Python<'_>,
        topic: &Topic,
        named: Option<i32>,
        record: Record<'_>,
        mut no_room: NoRoom<Token>,
    ) -> PyResult<Place<Token>> {
        let failed = |error: ClientError| client_error(py, &error);
        let deadline = Instant::now() + self.producer.config().max_block;
        loop {
            let line = match no_room.why {
                Refusal::Closed => return Err(failed(self.producer.buffer_full(no_room.needed))),
                Refusal::Memory => Some(self.wait_for_room(py, no_room.needed, deadline)?),
                Refusal::Gone => None,
            };
            // Another partition may be the one to stick to by now.
            let partition = self.partition(py, topic, named, record.key)?;
            let ticket = line.as_ref().map(Line::ticket);
            match self.producer.append(topic, partition, record, no_room.token, ticket) {
                Ok(place) => return Ok(place),
                Err(again) => no_room = again,
            }
        }
    }

    /// Sends all there is, and waits for it and for the callbacks; `false` if not by `deadline`.
    pub fn flush(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        self.home.check().map_err(|error| client_error(py, &error))?;
        let waiting = self.callbacks.waiting();
        let mut flush = self.producer.flush().map_err(|error| client_error(py, &error))?;
        if wait(py, deadline, |until| flush.wait(until).then_some(()))?.is_none() {
            return Ok(false);
        }
        // A callback that flushes cannot wait for itself.
        if self.callbacks.is_here() {
            return Ok(true);
        }
        let told = |until: Instant| self.callbacks.wait_reported(&waiting, until).then_some(());
        Ok(wait(py, deadline, told)?.is_some())
    }

    pub fn count(&self, name: &str) -> f64 {
        let metrics = self.producer.metrics();
        metrics.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, value)| *value)
    }
}
