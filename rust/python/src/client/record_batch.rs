//! `_native.RecordBatch`: many records that were read together, none of them a Python object yet.
//!
//! It holds the responses that the records came in. Python objects are made on request: one record,
//! all values, a column of offsets, Arrow's columns. The GIL is released while columns are made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalite_client::TopicPartition;
use kafkalite_client::consumer::cursor::Position;
use kafkalite_client::consumer::record_block::{RecordSlice, RecordView};
use parking_lot::Mutex;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyMemoryView, PySlice, PyTuple};

use super::record::{Deserializers, Record, TopicNames, headers};
use super::{capsules, columns, in_python};
use crate::error::deserialization_error;

/// What to commit: topic, number, offset, leader epoch, metadata, tenure.
type Claim = (String, i32, i64, i32, &'static str, u64);

/// Records of one or more partitions; those of one partition stand in the order of their offsets.
#[pyclass(frozen, module = "kafkalite.records", name = "RecordBatch")]
pub struct RecordBatch {
    slices: Arc<[RecordSlice]>,
    /// Records before each slice.
    before: Vec<usize>,
    length: usize,
    deserializers: Arc<Deserializers>,
    names: Mutex<TopicNames>,
}

impl RecordBatch {
    pub fn new(slices: Vec<RecordSlice>, deserializers: Arc<Deserializers>) -> Self {
        let mut before = Vec::with_capacity(slices.len());
        let mut length = 0;
        for slice in &slices {
            before.push(length);
            length += slice.len();
        }
        let slices = slices.into();
        Self { slices, before, length, deserializers, names: Mutex::default() }
    }

    fn record(&self, py: Python<'_>, index: usize) -> PyResult<Record> {
        let slice = self.before.partition_point(|before| *before <= index) - 1;
        let RecordSlice { block, from, .. } = &self.slices[slice];
        let view = block.get(from + index - self.before[slice]);
        let name = self.names.lock().of(py, block.cursor().partition());
        self.deserializers.record(py, &name, block.cursor(), &view)
    }

    fn views(&self) -> impl Iterator<Item = RecordView<'_>> {
        self.slices.iter().flat_map(RecordSlice::iter)
    }

    /// A list of what `part` is of each record: bytes, or null. Errors call it `what`.
    fn list<'py>(
        &self,
        py: Python<'py>,
        what: &str,
        part: impl for<'a> Fn(&RecordView<'a>) -> Option<&'a [u8]>,
        with: Option<&Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let mut all = Vec::with_capacity(self.length);
        for slice in &*self.slices {
            for view in slice.iter() {
                let failed = |cause| self.unreadable(py, what, slice, &view, cause);
                let made = match (part(&view), with) {
                    (None, _) => py.None().into_bound(py),
                    (Some(bytes), None) => PyBytes::new(py, bytes).into_any(),
                    (Some(bytes), Some(with)) => {
                        with.bind(py).call1((PyBytes::new(py, bytes),)).map_err(failed)?
                    }
                };
                all.push(made);
            }
        }
        if all.is_empty() { Ok(list) } else { PyList::new(py, all) }
    }

    #[cold]
    fn unreadable(
        &self,
        py: Python<'_>,
        what: &str,
        slice: &RecordSlice,
        view: &RecordView<'_>,
        cause: PyErr,
    ) -> PyErr {
        let partition = slice.block.cursor().partition();
        let name = self.names.lock().of(py, partition);
        deserialization_error(py, what, (&name, partition.partition), view.offset(), cause)
    }

    /// Numbers in a row, as a view of them that copies nothing.
    fn numbers<'py, const WIDTH: usize>(
        &self,
        py: Python<'py>,
        format: &str,
        number: impl Fn(&RecordSlice, &RecordView<'_>) -> [u8; WIDTH] + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = PyBytes::new_with(py, self.length * WIDTH, |out| {
            // No other thread has the bytes yet, so the GIL can be released meanwhile.
            py.detach(|| {
                let mut places = out.chunks_exact_mut(WIDTH);
                for slice in &*self.slices {
                    for (view, place) in slice.iter().zip(&mut places) {
                        place.copy_from_slice(&number(slice, &view));
                    }
                }
            });
            Ok(())
        })?;
        PyMemoryView::from(&bytes)?.call_method1("cast", (format,))
    }
}

#[pymethods]
impl RecordBatch {
    fn __len__(&self) -> usize {
        self.length
    }

    /// One record, or a batch of those that a slice names; that one shares the memory.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if let Ok(slice) = index.cast::<PySlice>() {
            let wanted = slice.indices(self.length as isize)?;
            if wanted.step != 1 {
                return Err(PyValueError::new_err("a batch is cut in steps of 1"));
            }
            let cut = self.cut(wanted.start as usize, wanted.slicelength);
            let part = Self::new(cut, Arc::clone(&self.deserializers));
            return Ok(Bound::new(py, part)?.into_any());
        }
        let index: isize = index.extract()?;
        let from_start = if index < 0 { index + self.length as isize } else { index };
        let index = usize::try_from(from_start).ok().filter(|index| *index < self.length);
        let index = index.ok_or_else(|| PyIndexError::new_err("record index out of range"))?;
        Ok(Bound::new(py, self.record(py, index)?)?.into_any())
    }

    /// The records, each made when its turn comes.
    fn __iter__(slf: Py<Self>) -> RecordIterator {
        RecordIterator { batch: slf, next: AtomicUsize::new(0) }
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "batch")
    }

    /// A table for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.showing", "batch_table")
    }

    /// The columns as a ``pyarrow.Table``; needs pyarrow.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_arrow")
    }

    /// The columns as a ``pandas.DataFrame``; needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_pandas")
    }

    /// The columns as a ``polars.DataFrame``; needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "kafkalite.tables", "to_polars")
    }

    /// All records as objects.
    fn records(&self, py: Python<'_>) -> PyResult<Vec<Record>> {
        let (made, failed) = self.deserializers.records(py, &self.slices, &self.names);
        failed.map_or(Ok(made), Err)
    }

    /// All values, deserialized if the consumer has a deserializer.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, "value", |view| view.value(), self.deserializers.value.as_ref())
    }

    /// All keys, deserialized if the consumer has a deserializer.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, "key", |view| view.key(), self.deserializers.key.as_ref())
    }

    /// All headers: a tuple of pairs for each record.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let none = PyTuple::empty(py);
        self.views()
            .map(|view| {
                let made = headers(py, &view)?;
                Ok(made.map_or_else(|| none.clone(), |made| made.into_bound(py)))
            })
            .collect()
    }

    /// The offsets, as a memoryview of 64-bit integers.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numbers(py, "q", |_, view| view.offset().to_ne_bytes())
    }

    /// The timestamps in ms, as a memoryview of 64-bit integers; -1 where there is none.
    #[getter]
    fn timestamps_ms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numbers(py, "q", |_, view| view.timestamp_ms().to_ne_bytes())
    }

    /// The partitions' numbers, as a memoryview of 32-bit integers.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.numbers(py, "i", |slice, _| slice.block.cursor().partition().partition.to_ne_bytes())
    }

    /// What to commit after it: topic, number, offset and leader epoch of each partition in it.
    #[getter]
    fn ends(&self) -> Vec<(String, i32, i64, i32)> {
        let end = |(topic, partition, offset, epoch, _, _)| (topic, partition, offset, epoch);
        self._claims().into_iter().map(end).collect()
    }

    /// The same with metadata, and the tenure in which the records were read.
    #[getter]
    fn _claims(&self) -> Vec<Claim> {
        let mut ends: BTreeMap<&TopicPartition, (Position, u64)> = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| !slice.is_empty()) {
            let (cursor, end) = (slice.block.cursor(), slice.block.position_after(slice.to - 1));
            ends.insert(cursor.partition(), (end, cursor.tenure()));
        }
        let claim = |(one, (end, tenure)): (&TopicPartition, (Position, u64))| {
            let topic = one.topic.to_string();
            (topic, one.partition, end.offset, end.leader_epoch, "", tenure)
        };
        ends.into_iter().map(claim).collect()
    }

    /// Bytes of all keys, values and headers.
    #[getter]
    fn nbytes(&self) -> usize {
        let size = |slice: &RecordSlice| -> usize {
            (slice.from..slice.to).map(|index| slice.block.size(index)).sum()
        };
        self.slices.iter().map(size).sum()
    }

    /// Arrow's type of the columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsules::schema(py, columns::table(&[])?.schema_ref())
    }

    /// The columns as one Arrow array, with its type. The reader owns them.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // What the reader would rather have is a wish: it may cast.
        let _ = requested_schema;
        capsules::array(py, py.detach(|| columns::table(&self.slices))?)
    }

    /// The columns as an Arrow stream of one array. The reader owns it.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsules::stream(py, py.detach(|| columns::table(&self.slices))?)
    }
}

impl RecordBatch {
    /// The slices of `count` records from `start` on.
    fn cut(&self, start: usize, count: usize) -> Vec<RecordSlice> {
        let end = start + count;
        let mut cut = Vec::new();
        for (slice, before) in self.slices.iter().zip(&self.before) {
            let from = start.max(*before);
            let to = end.min(before + slice.len());
            if from < to {
                cut.push(RecordSlice {
                    block: Arc::clone(&slice.block),
                    from: slice.from + from - before,
                    to: slice.from + to - before,
                });
            }
        }
        cut
    }
}

/// Walks a batch.
#[pyclass(frozen, module = "kafkalite._native")]
pub struct RecordIterator {
    batch: Py<RecordBatch>,
    next: AtomicUsize,
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let batch = self.batch.get();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index < batch.length { batch.record(py, index).map(Some) } else { Ok(None) }
    }
}
