"""Arrow arrays that are wrong, and the memory of arrays that were sent or refused."""

from __future__ import annotations

import array
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafkalite as kl
from tests.clients.producer.reading import read

PATIENCE_S = 30.0


@pytest.fixture
def producer(kafkalite_bootstrap: str) -> Iterator[kl.Producer]:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as made:
        yield made


class Stream:
    """Hands out what it was given, as often as it is asked."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.capsule


class Array:
    """The same for an array."""

    def __init__(self, capsules: object) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.capsules


class ArrowArray(ctypes.Structure):
    """The struct of the C data interface, as far as it is forged here."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
    )


class ArrowSchema(ctypes.Structure):
    """The same of a type."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
    )


def opened(capsule: object, name: bytes) -> int:
    """Where a capsule points."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name))


def forged(values: pa.Array, **fields: int) -> Array:
    """An array with other figures than it has."""
    schema, made = values.__arrow_c_array__()
    struct = ArrowArray.from_address(opened(made, b"arrow_array"))
    for name, value in fields.items():
        setattr(struct, name, value)
    return Array((schema, made))


def renamed(field: str, text: bytes) -> Array:
    """An array whose type has another format or name."""
    schema, made = pa.array(["a"]).__arrow_c_array__()
    setattr(ArrowSchema.from_address(opened(schema, b"arrow_schema")), field, text)
    return Array((schema, made))


def odd_offsets() -> pa.Array:
    """Texts whose offsets begin at an odd address."""
    offsets = b"\0" + array.array("i", [0, 1, 3]).tobytes()
    buffers = [None, pa.py_buffer(memoryview(offsets)[1:]), pa.py_buffer(b"abb")]
    return pa.Array.from_buffers(pa.string(), 2, buffers)


TEXTS = pa.array(["a", "b"])
STRUCTS = pa.StructArray.from_arrays([TEXTS], names=["value"])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Stream(None), TypeError, "gives capsules, and this is none"),
        (lambda: Stream(TEXTS.__arrow_c_array__()[0]), ValueError, "incorrect name"),
        (lambda: Array(TEXTS.__arrow_c_array__()[::-1]), ValueError, "incorrect name"),
        (lambda: Array(None), TypeError, "tuple"),
        (lambda: forged(TEXTS, length=-1), ValueError, "a negative length or offset"),
        (lambda: forged(TEXTS, offset=-1), ValueError, "a negative length or offset"),
        (lambda: forged(TEXTS, length=2**62), ValueError, "a negative length or offset"),
        (lambda: forged(TEXTS, n_buffers=2), ValueError, "a number of buffers"),
        (lambda: forged(TEXTS, n_buffers=0), ValueError, "a number of buffers"),
        (lambda: forged(TEXTS, buffers=0), ValueError, "a pointer that is missing"),
        (lambda: forged(STRUCTS, length=3), ValueError, "a column with too few rows"),
        (lambda: forged(STRUCTS, offset=1), ValueError, "a column with too few rows"),
        (lambda: forged(STRUCTS, n_children=0), ValueError, "children that its type does not have"),
        (lambda: renamed("name", b"\xff"), ValueError, "a name that is no UTF-8"),
        (lambda: renamed("format", b"\xff"), ValueError, "a name that is no UTF-8"),
        (lambda: renamed("format", b"of tomorrow"), TypeError, "Arrow type `of tomorrow`"),
        (odd_offsets, ValueError, "missing or not aligned"),
    ],
)
def test_an_array_that_contradicts_itself_is_refused(
    name: str,
    producer: kl.Producer,
    make: Callable[[], Any],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        producer.send_batch(name, make())
    producer.flush(PATIENCE_S)
    assert producer.metrics()["record-send-total"] == 0.0


def test_a_capsule_is_opened_once(name: str, producer: kl.Producer) -> None:
    for offer in (
        Stream(pa.table({"value": ["a"]}).__arrow_c_stream__()),
        Array(TEXTS.__arrow_c_array__()),
    ):
        producer.send_batch(name, offer).result(PATIENCE_S)
        with pytest.raises(ValueError, match="that was released"):
            producer.send_batch(name, offer)


def test_a_stream_that_fails_says_why_and_what_came_before_is_sent(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    """The stream's own code runs in Python, which it can only where the GIL was released."""
    schema = pa.schema({"value": pa.string()})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["a", "b"]})
        raise OSError("the disk is gone")

    with pytest.raises(ValueError, match=r"the Arrow stream failed: .*the disk is gone"):
        producer.send_batch(name, pa.RecordBatchReader.from_batches(schema, batches()))
    assert [record.value for record in read(kafkalite_bootstrap, name, 2)] == [b"a", b"b"]


def test_threads_may_send_the_same_table_at_once(name: str, producer: kl.Producer) -> None:
    table = pa.table({"value": [b"v" * 100] * 10_000, "key": [b"k"] * 10_000})
    sent: list[int] = []

    def send() -> None:
        sent.append(len(producer.send_batch(name, table).result(PATIENCE_S)))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(sent) == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda values: pa.table({"value": values, "key": values.cast(pa.string())}),
        lambda values: pa.chunked_array([values, values.slice(10)]),
        lambda values: values.dictionary_encode(),
        lambda values: values.cast(pa.binary_view()).slice(3),
    ],
    ids=["table", "chunks", "dictionary", "views"],
)
def test_memory_is_given_back_when_it_was_sent_and_when_it_was_refused(
    name: str, producer: kl.Producer, make: Callable[[pa.Array], Any]
) -> None:
    def send(refuse: bool) -> None:
        made = make(pa.array([b"%d" % number * 10 for number in range(10_000)]))
        if refuse:
            with pytest.raises((ValueError, TypeError)):
                producer.send_batch(name, made, keys=pa.array([1.5] * len(made)))
        else:
            producer.send_batch(name, made).result(PATIENCE_S)

    before = pa.total_allocated_bytes()
    for refuse in (False, True):
        send(refuse)
        assert pa.total_allocated_bytes() == before, f"{refuse=}"


def test_columns_of_any_type_may_stand_beside_the_value(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    table = pa.table(
        {
            "views": pa.array([[1], None], pa.list_view(pa.int8())),
            "runs": pa.RunEndEncodedArray.from_arrays([2], [1.5]),
            "value": pa.array(["a", None], pa.large_string()),
            "union": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
            "price": pa.array([1, 2], pa.decimal256(40)),
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)),
            "headers": pa.array([[("h", "1")], None], pa.map_(pa.string(), pa.string())),
        }
    )
    producer.send_batch(name, table).result(PATIENCE_S)
    found = read(kafkalite_bootstrap, name, 2)
    assert [(record.value, record.headers) for record in found] == [
        (b"a", (("h", b"1"),)),
        (None, ()),
    ]


def test_arrays_without_rows_or_chunks_send_nothing(name: str, producer: kl.Producer) -> None:
    empty = pa.array([], pa.string())
    for none in (empty, pa.chunked_array([], pa.string()), pa.table({"value": empty}), TEXTS[:0]):
        assert len(producer.send_batch(name, none)) == 0
    sliced = pa.table(
        {"value": ["a"], "headers": [[("h", b"1")]]},
        schema=pa.schema({"value": pa.string(), "headers": pa.map_(pa.string(), pa.binary())}),
    ).slice(1)
    assert len(producer.send_batch(name, sliced)) == 0


def test_what_polars_makes_is_sent(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    polars: Any = pytest.importorskip("polars")
    words = ["a", None, "a word that is longer than twelve bytes"]
    frame = polars.DataFrame(
        {"value": words, "key": polars.Series(words, dtype=polars.Categorical)}
    )
    producer.send_batch(name, frame).result(PATIENCE_S)
    producer.send_batch(name, frame[1:]).result(PATIENCE_S)
    expected = [None if word is None else word.encode() for word in words + words[1:]]
    found = read(kafkalite_bootstrap, name, 5)
    assert [(record.key, record.value) for record in found] == list(
        zip(expected, expected, strict=True)
    )
