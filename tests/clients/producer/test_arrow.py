"""Arrow columns as records, from whatever speaks Arrow's PyCapsule interface."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import kafkalite as kl
from tests.clients.producer.reading import read

PATIENCE_S = 30.0
NOW_MS = int(time.time() * 1000)


@pytest.fixture
def producer(kafkalite_bootstrap: str) -> Iterator[kl.Producer]:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as made:
        yield made


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_an_array_of_bytes_or_texts_is_values(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer, kind: pa.DataType
) -> None:
    values = ["a", None, "", "a text that is longer than twelve bytes", "a"]
    array = pa.array(values, pa.string()).cast(kind)
    producer.send_batch(name, array.slice(0)).result(PATIENCE_S)
    producer.send_batch(name, array.slice(3, 2)).result(PATIENCE_S)
    found = read(kafkalite_bootstrap, name, 7)
    expected = [None if value is None else value.encode() for value in values]
    assert [record.value for record in found] == expected + expected[3:]


def test_a_table_has_its_keys_partitions_and_timestamps_in_columns(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    admin.create_topic(name, partitions=3)
    moment = datetime.datetime.fromtimestamp(NOW_MS / 1000, datetime.UTC)
    table = pa.table(
        {
            "offset": [7, 8, 9],
            "value": [b"one", None, b"three"],
            "key": ["k1", None, "k3"],
            "partition": pa.array([2, 1, 2], pa.int32()),
            "timestamp": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
        }
    )
    table = pa.concat_tables([table, table.slice(2)])
    delivery = producer.send_batch(name, table, headers={"from": "arrow"})
    assert len(delivery) == 4
    delivery.result(PATIENCE_S)
    found = read(kafkalite_bootstrap, name, 4, partitions=3)
    assert [(r.partition, r.key, r.value) for r in found] == [
        (1, None, None),
        (2, b"k1", b"one"),
        (2, b"k3", b"three"),
        (2, b"k3", b"three"),
    ]
    assert found[1].timestamp_ms == NOW_MS
    assert (found[0].timestamp_ms or 0) >= NOW_MS, "no timestamp is now"
    assert {record.headers for record in found} == {(("from", b"arrow"),)}


def test_arrays_may_stand_beside_each_other(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    delivery = producer.send_batch(
        name,
        pa.chunked_array([["a", "b"], ["c"]]),
        keys=pa.array([b"1", None, b"3"]),
        timestamps=pa.array([NOW_MS - 1, NOW_MS - 2, NOW_MS - 3]),
        headers=[{"h": b"1"}, None, [("h", None)]],
        partitions=0,
    )
    assert delivery.result(PATIENCE_S) == [kl.DeliveredRange(name, 0, 0, 3)]
    found = read(kafkalite_bootstrap, name, 3)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in found] == [
        (b"1", b"a", NOW_MS - 1, (("h", b"1"),)),
        (None, b"b", NOW_MS - 2, ()),
        (b"3", b"c", NOW_MS - 3, (("h", None),)),
    ]


def test_what_has_no_meaning_as_a_record_is_refused(name: str, producer: kl.Producer) -> None:
    with pytest.raises(ValueError, match="needs a column `value`"):
        producer.send_batch(name, pa.table({"key": ["a"]}))
    with pytest.raises(TypeError, match="expected bytes or text"):
        producer.send_batch(name, pa.array([1.5]))
    with pytest.raises(TypeError, match="expected bytes or text"):
        producer.send_batch(name, pa.array([1]))
    with pytest.raises(ValueError, match="2 values and 1 keys"):
        producer.send_batch(name, pa.array(["a", "b"]), keys=pa.array(["k"]))
    producer.flush(PATIENCE_S)
    assert producer.metrics()["record-send-total"] == 0.0


def test_a_struct_that_is_null_is_refused_whatever_its_columns_hold(
    name: str, producer: kl.Producer
) -> None:
    # It was sent as a record of what lay under the null.
    values, mask = pa.array([b"a", b"b", b"c"]), pa.array([False, False, True])
    rows = pa.StructArray.from_arrays([values], names=["value"], mask=mask)
    pairs = pa.StructArray.from_arrays([values, values], names=["name", "value"], mask=mask)
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 3]), pairs)
    for structs in (rows, rows.slice(1), pa.chunked_array([rows])):
        with pytest.raises(ValueError, match=r"row [12] of the Arrow structs is null"):
            producer.send_batch(name, structs)
    with pytest.raises(ValueError, match="a header without a name"):
        producer.send_batch(name, pa.table({"value": [b"v", b"v"], "headers": headers}))
    producer.flush(PATIENCE_S)
    assert producer.metrics()["record-send-total"] == 0.0


def test_what_lies_under_a_null_that_was_cut_off_does_no_harm(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    values, mask = pa.array([b"a", b"b", b"c"]), pa.array([True, False, False])
    rows = pa.StructArray.from_arrays([values], names=["value"], mask=mask)
    pairs = pa.StructArray.from_arrays([values, values], names=["name", "value"], mask=mask)
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 3]), pairs, mask=pa.array([True, False]))
    producer.send_batch(name, rows.slice(1)).result(PATIENCE_S)
    producer.send_batch(name, pa.table({"value": [b"d", b"e"], "headers": headers})).result(
        PATIENCE_S
    )
    found = read(kafkalite_bootstrap, name, 4)
    assert [record.value for record in found] == [b"b", b"c", b"d", b"e"]
    assert found[2].headers == ()
    assert found[3].headers == (("b", b"b"), ("c", b"c"))


def test_what_a_consumer_hands_out_can_be_sent_on(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    source, target = f"{name}-a", f"{name}-b"
    values = [b"%d" % number for number in range(1_000)]
    headers = [[("n", value), ("null", None)][: number % 3] for number, value in enumerate(values)]
    producer.send_batch(source, values, keys=values, timestamps=NOW_MS, headers=headers).result(
        PATIENCE_S
    )
    with kl.Consumer(
        source,
        group_id=name,
        bootstrap_servers=kafkalite_bootstrap,
        auto_offset_reset="earliest",
    ) as consumer:
        count = 0
        for batch in consumer.batches():
            producer.send_batch(target, batch).result(PATIENCE_S)
            count += len(batch)
            if count == len(values):
                break
    found = read(kafkalite_bootstrap, target, len(values))
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in found] == [
        (value, value, NOW_MS, of) for value, of in zip(values, headers, strict=True)
    ]


def test_a_column_may_say_that_a_record_has_no_time_and_not_that_it_is_before_1970(
    kafkalite_bootstrap: str, name: str, producer: kl.Producer
) -> None:
    table = pa.table({"value": [b"v", b"w"], "timestamp": pa.array([-1, NOW_MS - 5], pa.int64())})
    producer.send_batch(name, table).result(PATIENCE_S)
    now, given = (record.timestamp_ms for record in read(kafkalite_bootstrap, name, 2))
    assert now is not None
    assert now >= NOW_MS
    assert given == NOW_MS - 5
    before = pa.table({"value": [b"v"], "timestamp": pa.array([-2], pa.int64())})
    with pytest.raises(kl.InvalidArgumentError, match="timestamp: -2 is negative"):
        producer.send_batch(name, before)


def test_keys_beside_a_table_of_many_chunks_are_read_once(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    """For every chunk of values all keys were read: 100,000 chunks took minutes."""
    admin.create_topic(name, partitions=1)
    chunks, rows = 100_000, 10
    values = pa.chunked_array([pa.array([b"v"] * rows)] * chunks)
    keys = pa.array([b"%d" % number for number in range(chunks * rows)])
    delivery = producer.send_batch(name, values, keys=keys)
    assert sum(found.count for found in delivery.result(PATIENCE_S)) == chunks * rows


@pytest.mark.parametrize("chunks", [[2], [1, 1]], ids=["an array", "a stream"])
def test_columns_beside_arrow_of_another_length_are_refused_and_nothing_is_sent(
    kafkalite_bootstrap: str,
    admin: kl.AdminClient,
    name: str,
    producer: kl.Producer,
    chunks: list[int],
) -> None:
    """All values were sent before the lengths were compared."""
    admin.create_topic(name)
    values = pa.chunked_array([pa.array([b"a"] * rows, pa.binary()) for rows in chunks])
    with pytest.raises(ValueError, match="2 values and 3 keys"):
        producer.send_batch(name, values, keys=[b"k"] * 3)
    with pytest.raises(ValueError, match="2 values and 1 partitions"):
        producer.send_batch(name, values, partitions=[0])
    with pytest.raises(ValueError, match="2 values and 3 timestamps"):
        producer.send_batch(name, values, timestamps=pa.array([1, 2, 3]))
    with pytest.raises(ValueError, match="2 values and 3 headers"):
        producer.send_batch(name, values, headers=[{"a": b"1"}] * 3)
    producer.flush(PATIENCE_S)
    assert producer.metrics()["record-send-total"] == 0.0
    sent = producer.send_batch(name, values, keys=[b"k", b"l"])
    assert sum(one.count for one in sent.result(PATIENCE_S)) == 2
    assert [record.key for record in read(kafkalite_bootstrap, name, 2)] == [b"k", b"l"]
