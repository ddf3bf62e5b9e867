//! `_native.RangeReader`: offset ranges of partitions into Arrow's columns.
//!
//! Waiting, decoding and the making of columns happen without the GIL, on the caller's thread; only
//! fetching has a thread of its own. A batch is handed over once, without a copy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use kafkalite_client::consumer::Limits;
use kafkalite_client::fork::ForkGuard;
use kafkalite_client::ranges::{self, OffsetRange, RangeOptions, Step};
use kafkalite_client::{ClientError, ConsumerConfig, TopicPartition, Uuid};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::arguments::Seconds;
use super::{capsules, in_python};
use crate::error::client_error;

mod columns;

use columns::Field;

/// How long Ctrl-C may wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

struct Inside {
    reader: ranges::RangeReader,
    fields: Arc<[Field]>,
    limits: Limits,
    /// Which start the present ranges are of. Iterators of earlier ones may still be there, and
    /// have no say in these.
    start: u64,
}

impl Inside {
    fn check(&self, start: u64) -> Result<(), ClientError> {
        if start == self.start {
            return Ok(());
        }
        let why = "a later read() of this reader replaced these ranges".to_owned();
        Err(ClientError::IllegalState { why })
    }
}

/// Reads offset ranges, one set of them after the other.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct RangeReader {
    /// In the child of a fork its lock may be that of a thread that the child does not have.
    inside: ForkGuard<Mutex<Inside>>,
    warnings: Vec<String>,
}

/// Topic, partition, first offset, end offset.
type Range = (String, i32, i64, i64);

#[pymethods]
impl RangeReader {
    #[new]
    fn new(py: Python<'_>, pairs: BTreeMap<String, String>) -> PyResult<Self> {
        let made = ConsumerConfig::from_pairs(&pairs).and_then(|config| {
            let warnings = config.client.warnings.clone();
            Ok((py.detach(|| ranges::RangeReader::new(config))?, warnings))
        });
        let (reader, warnings) = made.map_err(|error| client_error(py, &error))?;
        let limits = Limits { max_records: usize::MAX, max_bytes: usize::MAX };
        let inside = Mutex::new(Inside { reader, fields: Arc::new([]), limits, start: 0 });
        Ok(Self { inside: ForkGuard::new(inside), warnings })
    }

    /// What the configuration has that changes nothing.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Begins with these ranges and forgets those before; columns are given by name, and ids of
    /// topics as far as they are known. Returns the number that `next_batch` and `stop` name.
    #[expect(clippy::too_many_arguments, reason = "Python's class gives them names")]
    fn start(
        &self,
        py: Python<'_>,
        ranges: Vec<Range>,
        columns: Vec<String>,
        batch_bytes: usize,
        batch_rows: usize,
        may_lose: bool,
        stall_timeout: Seconds,
        topic_ids: BTreeMap<String, String>,
    ) -> PyResult<u64> {
        let fields = columns.iter().map(|name| Field::named(name)).collect::<PyResult<_>>()?;
        let ids = topic_ids.into_iter().map(|(topic, id)| {
            let no_id = || PyValueError::new_err(format!("topic_ids: `{id}` is no id of a topic"));
            Ok((topic, Uuid::parse(&id).ok_or_else(no_id)?))
        });
        let ids = ids.collect::<PyResult<BTreeMap<_, _>>>()?;
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|(topic, partition, start, end)| {
                let topic_id = ids.get(&topic).copied().unwrap_or(Uuid::ZERO);
                let partition = TopicPartition::new(topic, partition);
                OffsetRange { partition, start, end, topic_id }
            })
            .collect();
        let options = RangeOptions { may_lose, stall_timeout: stall_timeout.duration() };
        py.detach(|| {
            let mut inside = self.inside.get()?.lock();
            inside.reader.start(&ranges, options)?;
            inside.fields = fields;
            inside.limits = Limits { max_records: batch_rows.max(1), max_bytes: batch_bytes };
            inside.start += 1;
            Ok(inside.start)
        })
        .map_err(|error| client_error(py, &error))
    }

    /// The next batch; `None` when all ranges of `start` are read.
    fn next_batch(&self, py: Python<'_>, start: u64) -> PyResult<Option<ColumnBatch>> {
        let inside = self.inside.get().map_err(|error| client_error(py, &error))?;
        loop {
            match py.detach(|| step(inside, start)) {
                Ok((Step::Records(slices), fields)) => {
                    let table = py.detach(|| columns::table(&slices, &fields))?;
                    return Ok(Some(ColumnBatch::new(table)));
                }
                Ok((Step::End, _)) => return Ok(None),
                Ok((Step::Nothing, _)) => py.check_signals()?,
                Err(error) => return Err(client_error(py, &error)),
            }
        }
    }

    /// Nothing more is wanted of the ranges of `start`. Nothing happens where others replaced them,
    /// where it is closed already, or in the child of a fork.
    fn stop(&self, py: Python<'_>, start: u64) {
        let Ok(inside) = self.inside.get() else { return };
        py.detach(|| {
            let mut inside = inside.lock();
            if inside.check(start).is_ok() {
                inside.reader.stop();
            }
        });
    }

    /// Offsets that were wanted and are gone, since the last start.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        let inside = self.inside.get().map_err(|error| client_error(py, &error))?;
        Ok(py.detach(|| inside.lock().reader.lost()))
    }

    /// Ends its thread and connections, within `timeout` seconds.
    fn close(&self, py: Python<'_>, timeout: Seconds) {
        if let Ok(inside) = self.inside.get() {
            py.detach(|| inside.lock().reader.close(timeout.duration()));
        }
    }
}

/// What comes next of the ranges of `start`, and the columns that were asked for with them.
fn step(inside: &Mutex<Inside>, start: u64) -> Result<(Step, Arc<[Field]>), ClientError> {
    let mut inside = inside.lock();
    inside.check(start)?;
    let limits = inside.limits;
    let step = inside.reader.next(limits, Instant::now() + SIGNALS_EVERY)?;
    Ok((step, Arc::clone(&inside.fields)))
}

/// Columns of records that were read together.
#[pyclass(frozen, module = "kafkalite.ranges")]
pub struct ColumnBatch {
    rows: usize,
    table: Mutex<Option<RecordBatch>>,
}

impl ColumnBatch {
    fn new(table: RecordBatch) -> Self {
        Self { rows: table.num_rows(), table: Mutex::new(Some(table)) }
    }

    fn take(&self) -> PyResult<RecordBatch> {
        let gone = || PyValueError::new_err("this batch was handed over already");
        self.table.lock().take().ok_or_else(gone)
    }
}

#[pymethods]
impl ColumnBatch {
    fn __len__(&self) -> usize {
        self.rows
    }

    fn __repr__(&self) -> String {
        let noun = if self.rows == 1 { "record" } else { "records" };
        format!("<ColumnBatch of {} {noun}>", self.rows)
    }

    /// The columns as a ``pyarrow.Table``, once; needs pyarrow.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_arrow")
    }

    /// The columns as a ``pandas.DataFrame``, once; needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_pandas")
    }

    /// The columns as a ``polars.DataFrame``, once; needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_polars")
    }

    /// The columns as one Arrow array, with its type: the reader owns them afterwards.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // What the reader would rather have is a wish: it may cast.
        let _ = requested_schema;
        capsules::array(py, self.take()?)
    }

    /// The columns as an Arrow stream of one array: the reader owns it afterwards.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsules::stream(py, self.take()?)
    }
}
