//! `send_batch`: lists of bytes, or Arrow columns, into open batches, with the GIL released while
//! records are written.

use std::time::Instant;

use kafkalite_arrow::{Chunk, Column, ImportError, Stream};
use kafkalite_client::ClientError;
use kafkalite_client::producer::accumulator::Refusal;
use kafkalite_client::producer::bulk::{Columns, Each, Patience, RawHeaders};
use kafkalite_client::producer::write_header;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use super::Topic;
use super::bulk::Sent;
use super::data::{check_is_many, headers, is_list, is_mapping};
use super::elements::Elements;
use super::inside::{Inside, now_ms, serialize};
use crate::client::arguments::checked_ms;
use crate::client::capsules;

/// What a record that has no time says on the wire.
const NO_TIMESTAMP: i64 = -1;

/// What one call was given besides values.
pub struct Arguments<'a, 'py> {
    pub keys: Option<&'a Bound<'py, PyAny>>,
    pub headers: Option<&'a Bound<'py, PyAny>>,
    pub timestamps: Option<&'a Bound<'py, PyAny>>,
    pub partitions: Option<&'a Bound<'py, PyAny>>,
}

/// A column of numbers: one for all, or one for each.
enum Numbers {
    Same(Option<i64>),
    Own(Vec<Option<i64>>),
}

/// A record's key.
type Key<'a> = Option<&'a [u8]>;

/// Bytes that outlive the call's lists.
enum Keys<'py> {
    None,
    Objects(Elements<'py>),
    Chunks(Vec<Chunk>),
}

/// Sends all; what was appended when an exception is raised stays appended.
pub fn send_all(
    py: Python<'_>,
    inside: &Inside,
    topic: &Topic,
    values: &Bound<'_, PyAny>,
    arguments: &Arguments<'_, '_>,
) -> PyResult<Sent> {
    let call = Call { py, inside, topic, now_ms: now_ms() };
    let mut sent = Sent::new();
    if !is_list(values)
        && let Some(mut stream) = capsules::open(values)?
    {
        let side = Side::new(arguments, None)?;
        let keys = side.chunk_keys()?;
        let mut base = 0;
        let mut send = |chunk: &Chunk| -> PyResult<()> {
            if chunk.rows() > 0 {
                call.send_chunk(chunk, (&side, &keys), base, &mut sent)?;
            }
            base += chunk.rows();
            Ok(())
        };
        if side.has_columns() {
            // Before anything is sent all of it is counted. It is as large as what is beside it.
            let all = py.detach(|| all_of(&mut stream)).map_err(capsules::refused)?;
            side.check_length(all.iter().map(Chunk::rows).sum())?;
            all.iter().try_for_each(send)?;
        } else {
            while let Some(chunk) = py.detach(|| stream.next_chunk()).map_err(capsules::refused)? {
                send(&chunk)?;
            }
        }
        return Ok(sent);
    }
    check_is_many(values)?;
    let values = Elements::of(&serialized("value", inside.value_serializer.as_ref(), values)?)?;
    let mut owned = Vec::new();
    let values = values.column(0..values.len(), &mut owned, "value")?;
    let side = Side::new(arguments, inside.key_serializer.as_ref())?;
    side.check_length(values.len())?;
    let keys = side.chunk_keys()?;
    call.send_with(&values, &Own::default(), (&side, &keys), 0, &mut sent)?;
    Ok(sent)
}

/// Each element through the serializer, if there is one.
fn serialized<'py>(
    what: &str,
    serializer: Option<&Py<PyAny>>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(serializer) = serializer else { return Ok(values.clone()) };
    let out = PyList::empty(values.py());
    for value in values.try_iter()? {
        let value = value?;
        out.append(if value.is_none() { value } else { serialize(what, serializer, &value)? })?;
    }
    Ok(out.into_any())
}

/// Everything besides values.
struct Side<'py> {
    keys: Keys<'py>,
    key_count: Option<usize>,
    partitions: Numbers,
    timestamps: Numbers,
    /// Headers of each record: how many, and where their bytes end; or one for all.
    header_ends: Option<Vec<(i32, usize)>>,
    header_bytes: Vec<u8>,
    header_count: i32,
}

impl<'py> Side<'py> {
    fn new(arguments: &Arguments<'_, 'py>, serializer: Option<&Py<PyAny>>) -> PyResult<Self> {
        let mut side = Self {
            keys: Keys::None,
            key_count: None,
            partitions: numbers(arguments.partitions, "partitions")?,
            timestamps: times(arguments.timestamps)?,
            header_ends: None,
            header_bytes: Vec::new(),
            header_count: 0,
        };
        if let Some(keys) = arguments.keys {
            side.keys = match is_list(keys) {
                false => match chunks(keys)? {
                    Some(chunks) => Keys::Chunks(chunks),
                    None => return Err(PyTypeError::new_err("keys must be a list or Arrow")),
                },
                true => Keys::Objects(Elements::of(&serialized("key", serializer, keys)?)?),
            };
            side.key_count = match &side.keys {
                Keys::None => None,
                Keys::Objects(objects) => Some(objects.len()),
                Keys::Chunks(chunks) => Some(chunks.iter().map(Chunk::rows).sum()),
            };
        }
        match arguments.headers {
            None => {}
            Some(all) if is_mapping(all)? => {
                side.header_count = headers(all, &mut side.header_bytes)?;
            }
            Some(each) => {
                let mut ends = Vec::new();
                for of_one in each.try_iter()? {
                    let of_one = of_one?;
                    let count = match of_one.is_none() {
                        true => 0,
                        false => headers(&of_one, &mut side.header_bytes)?,
                    };
                    ends.push((count, side.header_bytes.len()));
                }
                side.header_ends = Some(ends);
            }
        }
        Ok(side)
    }

    /// The keys that were given as Arrow, read once for all chunks of values.
    fn chunk_keys(&self) -> PyResult<Vec<Key<'_>>> {
        let mut all = Vec::new();
        let Keys::Chunks(chunks) = &self.keys else { return Ok(all) };
        for chunk in chunks {
            let column = chunk.column("").filter(|_| !chunk.has_columns());
            let column =
                column.ok_or_else(|| PyTypeError::new_err("keys are an array, not a table"))?;
            column.bytes(&mut all).map_err(capsules::refused)?;
        }
        Ok(all)
    }

    /// How many rows each column has that has its own.
    fn lengths(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let lengths = [
            ("keys", self.key_count),
            ("partitions", self.partitions.len()),
            ("timestamps", self.timestamps.len()),
            ("headers", self.header_ends.as_ref().map(Vec::len)),
        ];
        lengths.into_iter().filter_map(|(what, length)| Some((what, length?)))
    }

    /// Whether something was given for each of the values.
    fn has_columns(&self) -> bool {
        self.lengths().next().is_some()
    }

    /// Every column must have as many rows as there are values.
    fn check_length(&self, rows: usize) -> PyResult<()> {
        match self.lengths().find(|(_, length)| *length != rows) {
            Some((what, length)) => {
                let text = format!("there are {rows} values and {length} {what}");
                Err(PyValueError::new_err(text))
            }
            None => Ok(()),
        }
    }
}

impl Numbers {
    fn len(&self) -> Option<usize> {
        match self {
            Self::Same(_) => None,
            Self::Own(numbers) => Some(numbers.len()),
        }
    }
}

fn numbers(object: Option<&Bound<'_, PyAny>>, what: &str) -> PyResult<Numbers> {
    let Some(object) = object else { return Ok(Numbers::Same(None)) };
    if object.is_instance_of::<PyInt>() {
        return Ok(Numbers::Same(Some(object.extract()?)));
    }
    if is_list(object) {
        return Ok(Numbers::Own(object.extract()?));
    }
    let Some(chunks) = chunks(object)? else {
        return Err(PyTypeError::new_err(format!("{what} must be a number, a list or Arrow")));
    };
    let mut all = Vec::new();
    for chunk in &chunks {
        let column = chunk.column("").filter(|_| !chunk.has_columns());
        let column =
            column.ok_or_else(|| PyTypeError::new_err("expected an array, not a table"))?;
        column.numbers(&mut all).map_err(capsules::refused)?;
    }
    Ok(Numbers::Own(all))
}

/// Times given beside the values: of records that are made now, so there is none below 0.
fn times(object: Option<&Bound<'_, PyAny>>) -> PyResult<Numbers> {
    let times = numbers(object, "timestamps")?;
    if let Some(object) = object {
        let given = match &times {
            Numbers::Same(one) => std::slice::from_ref(one),
            Numbers::Own(all) => all.as_slice(),
        };
        for ms in given.iter().flatten() {
            checked_ms(object.py(), *ms)?;
        }
    }
    Ok(times)
}

fn chunks(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Chunk>>> {
    let Some(mut stream) = capsules::open(object)? else { return Ok(None) };
    all_of(&mut stream).map(Some).map_err(capsules::refused)
}

fn all_of(stream: &mut Stream) -> Result<Vec<Chunk>, ImportError> {
    std::iter::from_fn(|| stream.next_chunk().transpose()).collect()
}

/// One call of `send_batch`.
struct Call<'a, 'py> {
    py: Python<'py>,
    inside: &'a Inside,
    topic: &'a Topic,
    now_ms: i64,
}

impl Call<'_, '_> {
    /// Sends the rows of a chunk: its columns win over what was given beside it.
    fn send_chunk(
        &self,
        chunk: &Chunk,
        (side, side_keys): (&Side<'_>, &[Key<'_>]),
        base: usize,
        sent: &mut Sent,
    ) -> PyResult<()> {
        let mut values = Vec::new();
        let Some(column) = chunk.column("value") else {
            let names: Vec<_> = chunk.names().collect();
            let text = format!("an Arrow table needs a column `value`; it has {names:?}");
            return Err(PyValueError::new_err(text));
        };
        column.bytes(&mut values).map_err(capsules::refused)?;
        let named = |name: &str| chunk.column(name).filter(|_| chunk.has_columns());
        let (mut keys, mut partitions, mut times) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(column) = named("key") {
            column.bytes(&mut keys).map_err(capsules::refused)?;
        }
        if let Some(column) = named("partition") {
            column.numbers(&mut partitions).map_err(capsules::refused)?;
        }
        if let Some(column) = named("timestamp").or_else(|| named("timestamp_ms")) {
            column.numbers(&mut times).map_err(capsules::refused)?;
            for time in &mut times {
                // What was read from elsewhere may say, as the wire does, that it has none.
                *time = time.filter(|ms| *ms != NO_TIMESTAMP);
                time.map_or(Ok(0), |ms| checked_ms(self.py, ms))?;
            }
        }
        let headers = match named("headers") {
            Some(column) if side.header_ends.is_none() && side.header_count == 0 => {
                headers_of(&column)?
            }
            _ => OwnHeaders::default(),
        };
        let own = Own { keys, partitions, times, headers };
        self.send_with(&values, &own, (side, side_keys), base, sent)
    }

    fn send_with<'a>(
        &self,
        values: &[Option<&'a [u8]>],
        own: &'a Own<'a>,
        (side, side_keys): (&'a Side<'_>, &'a [Key<'a>]),
        base: usize,
        sent: &mut Sent,
    ) -> PyResult<()> {
        let rows = base..base + values.len();
        let mut owned = Vec::new();
        let objects;
        let keys = match &side.keys {
            _ if !own.keys.is_empty() => &own.keys[..],
            Keys::None => &[],
            Keys::Objects(all) => {
                objects = all.column(rows.clone(), &mut owned, "key")?;
                &objects[..]
            }
            Keys::Chunks(_) => &side_keys[rows.clone()],
        };
        let partitions = picked(&own.partitions, &side.partitions, &rows).iter().copied();
        let partitions: Vec<_> = partitions.map(partition).collect::<PyResult<_>>()?;
        let times = picked(&own.times, &side.timestamps, &rows).iter();
        let times: Vec<i64> = times.map(|time| time.unwrap_or(self.now_ms)).collect();
        let header_rows = match own.headers.rows() {
            Some(rows) => Some(rows),
            None => header_rows(side, &rows),
        };
        let columns = Columns {
            values,
            keys: if keys.is_empty() { Each::Same(None) } else { Each::Own(keys) },
            partitions: match partitions.is_empty() {
                true => Each::Same(side.one_partition()?),
                false => Each::Own(&partitions),
            },
            timestamps: match times.is_empty() {
                true => Each::Same(side.one_time().unwrap_or(self.now_ms)),
                false => Each::Own(&times),
            },
            headers: match &header_rows {
                Some(rows) => Each::Own(rows),
                None => Each::Same((side.header_count, &side.header_bytes)),
            },
        };
        self.append(&columns, sent)
    }

    /// Writes the records, and waits for memory as often as it takes.
    fn append(&self, columns: &Columns<'_>, sent: &mut Sent) -> PyResult<()> {
        let (py, producer, topic) = (self.py, &self.inside.producer, &**self.topic);
        let failed = |error: ClientError| crate::error::client_error(py, &error);
        let mut begun = py.detach(|| producer.begin_bulk(topic, columns));
        if let Err(error) = &begun {
            self.inside.look_again(py, self.topic, error)?;
            begun = py.detach(|| producer.begin_bulk(topic, columns));
        }
        let mut bulk = begun.map_err(failed)?;
        let mut patience = Patience::new(producer.config().max_block);
        while !bulk.is_done(columns) {
            let mut result = py.detach(|| producer.go_on(topic, columns, &mut bulk, None));
            while let Err(no_room) = result {
                let line = match no_room.why {
                    Refusal::Closed => return Err(failed(producer.buffer_full(0))),
                    Refusal::Gone => return Err(failed(producer.gone(topic, columns, &bulk))),
                    Refusal::Memory => {
                        let until = patience.until(bulk.appended(), Instant::now());
                        self.inside.wait_for_room(py, no_room.needed, until)?
                    }
                };
                let ticket = Some(line.ticket());
                result = py.detach(|| producer.go_on(topic, columns, &mut bulk, ticket));
            }
            py.check_signals()?;
        }
        let (order, runs) = bulk.into_parts();
        sent.push(columns.values.len(), order, runs);
        Ok(())
    }
}

/// A chunk's own columns; empty where it has none.
#[derive(Default)]
struct Own<'a> {
    keys: Vec<Option<&'a [u8]>>,
    partitions: Vec<Option<i64>>,
    times: Vec<Option<i64>>,
    headers: OwnHeaders,
}

/// Headers as they lie in records: how many each has, and where their bytes end.
#[derive(Default)]
struct OwnHeaders {
    ends: Vec<(i32, usize)>,
    bytes: Vec<u8>,
}

impl OwnHeaders {
    fn rows(&self) -> Option<Vec<RawHeaders<'_>>> {
        (!self.ends.is_empty()).then(|| rows_of(&self.ends, &self.bytes, 0))
    }
}

/// The headers of a column of lists of pairs.
fn headers_of(column: &Column<'_>) -> PyResult<OwnHeaders> {
    let (mut counts, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    column.pairs(&mut counts, &mut names, &mut values).map_err(capsules::refused)?;
    let mut headers = OwnHeaders::default();
    let mut pairs = names.into_iter().zip(values);
    for count in counts {
        for (name, value) in pairs.by_ref().take(count) {
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| PyValueError::new_err("a header without a name"))?;
            write_header(&mut headers.bytes, name, value);
        }
        headers.ends.push((count as i32, headers.bytes.len()));
    }
    Ok(headers)
}

impl Side<'_> {
    fn one_partition(&self) -> PyResult<Option<i32>> {
        match &self.partitions {
            Numbers::Same(one) => partition(*one),
            Numbers::Own(_) => Ok(None),
        }
    }

    fn one_time(&self) -> Option<i64> {
        match &self.timestamps {
            Numbers::Same(one) => *one,
            Numbers::Own(_) => None,
        }
    }
}

fn partition(number: Option<i64>) -> PyResult<Option<i32>> {
    let narrow = |number: i64| {
        let text = || PyValueError::new_err(format!("{number} is no partition"));
        i32::try_from(number).map_err(|_| text())
    };
    number.map(narrow).transpose()
}

/// The chunk's own numbers, or those of its rows that were given beside it.
fn picked<'a>(
    own: &'a [Option<i64>],
    beside: &'a Numbers,
    rows: &std::ops::Range<usize>,
) -> &'a [Option<i64>] {
    match beside {
        Numbers::Own(numbers) if own.is_empty() => &numbers[rows.clone()],
        _ => own,
    }
}

/// Headers of each of the rows; `None` where all have the same.
fn header_rows<'a>(
    side: &'a Side<'_>,
    rows: &std::ops::Range<usize>,
) -> Option<Vec<RawHeaders<'a>>> {
    let ends = side.header_ends.as_ref()?;
    let start = rows.start.checked_sub(1).map_or(0, |before| ends[before].1);
    Some(rows_of(&ends[rows.clone()], &side.header_bytes, start))
}

/// Cuts bytes, from `start` on, where they end for each row.
fn rows_of<'a>(ends: &[(i32, usize)], bytes: &'a [u8], mut start: usize) -> Vec<RawHeaders<'a>> {
    let row = |(count, end): &(i32, usize)| {
        let of_row = &bytes[start..*end];
        start = *end;
        (*count, of_row)
    };
    ends.iter().map(row).collect()
}
