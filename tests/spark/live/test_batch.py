"""``spark.read.format("kafkalite")``: everything between two places of the log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as fn

import kafkalite as kl

NOW = int(datetime.now(UTC).timestamp() * 1000)


def values(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.mark.slice
def test_a_topic_is_read_whole_with_sparks_columns(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic(3)
    for partition in range(3):
        topic.fill(1_000, partition=partition, first=partition * 1_000)
    frame = read(topic)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    assert values(frame) == list(range(3_000))
    row = frame.where("value = '2500'").collect()[0]
    assert (row.key, row.topic, row.partition, row.offset) == (b"k2500", topic.name, 2, 500)
    assert read(topic, parallelism=1).rdd.getNumPartitions() == 1
    assert read(topic, parallelism=2).rdd.getNumPartitions() == 2


def test_partitions_of_few_large_records_are_tasks_of_their_own(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    # Twenty records each are few, but ten megabytes: one task read all eight.
    topic = make_topic(8)
    value = bytes(500_000)
    with kl.Producer(bootstrap_servers=topic.servers) as producer:
        for number in range(8 * 20):
            producer.send(topic.name, value, partition=number % 8)
        producer.flush(60)
    frame = read(topic, "partition int, offset long", parallelism=1)
    assert frame.rdd.getNumPartitions() == 8
    assert frame.count() == 160


def test_a_schema_of_fewer_columns_moves_fewer(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.fill(10)
    frame = read(topic, "value binary, offset long")
    assert [(int(row.value), row.offset) for row in frame.collect()] == [(n, n) for n in range(10)]


def test_headers_nulls_and_times_are_those_that_were_written(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.write(None, key=b"k", timestamp=NOW, headers=[("a", b"1"), ("a", None)])
    row = read(topic, includeHeaders="true").collect()[0]
    assert (row.key, row.value) == (bytearray(b"k"), None)
    assert [(one.key, one.value) for one in row.headers] == [("a", bytearray(b"1")), ("a", None)]
    exact = read(topic).select((fn.unix_millis("timestamp")).alias("ms")).collect()[0].ms
    assert exact == NOW


def test_offsets_and_times_bound_what_is_read(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    for number in range(6):
        topic.write(str(number).encode(), timestamp=NOW + number)
    name = topic.name
    bounds: list[tuple[dict[str, str], list[int]]] = [
        ({"startingOffsets": f'{{"{name}": {{"0": 2}}}}'}, [2, 3, 4, 5]),
        ({"endingOffsets": f'{{"{name}": {{"0": 2}}}}'}, [0, 1]),
        ({"startingTimestamp": str(NOW + 4)}, [4, 5]),
        ({"endingTimestamp": str(NOW + 1)}, [0]),
        (
            {
                "startingOffsetsByTimestamp": f'{{"{name}": {{"0": {NOW + 1}}}}}',
                "endingOffsetsByTimestamp": f'{{"{name}": {{"0": {NOW + 3}}}}}',
            },
            [1, 2],
        ),
        (
            {
                "startingTimestamp": str(NOW + 99),
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [],
        ),
    ]
    for options, expected in bounds:
        assert values(read(topic, **options)) == expected, options


def test_min_partitions_splits_and_a_task_reads_no_more_than_it_may(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.fill(1_000)
    frame = read(topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert values(frame) == list(range(1_000))
    assert read(topic, maxRecordsPerPartition=300).rdd.getNumPartitions() == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subcribe": "x"}, "Did you mean subscribe"),
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"startingTimestamp": str(NOW + 86_400_000)}, "no record as new as that"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "it must name all partitions"),
        (
            {"kafka.fetch.min.byte": "1"},
            r"kafka\.fetch\.min\.byte: .*mean kafka\.fetch\.min\.bytes",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    make_topic: Callable[..., Any], read: Callable[..., Any], options: dict[str, str], words: str
) -> None:
    topic = make_topic()
    topic.fill(3)
    with pytest.raises(PySparkException, match=words):
        read(topic, **options).collect()


def test_a_topic_that_is_missing_is_named(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.name = "nowhere.to.be.found"
    with pytest.raises(PySparkException, match=r"UNKNOWN_TOPIC_OR_PARTITION.*nowhere"):
        read(topic).collect()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("value string", "column value is binary, not string"),
        ("val binary", "there is no column `val`"),
        ("value binary not null", "column value may be null: leave out NOT NULL"),
        ("value binary, value binary", "names value twice"),
    ],
)
def test_columns_that_the_source_has_not_are_refused(
    make_topic: Callable[..., Any], read: Callable[..., Any], schema: str, words: str
) -> None:
    topic = make_topic()
    with pytest.raises(PySparkException, match=words):
        read(topic, schema).collect()


def test_a_batch_that_ends_before_it_begins_is_refused(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.fill(10)
    bounds = {
        "startingOffsets": f'{{"{topic.name}": {{"0": 7}}}}',
        "endingOffsets": f'{{"{topic.name}": {{"0": 3}}}}',
    }
    with pytest.raises(PySparkException, match=r"from 7 to 3: compare startingOffsets with ending"):
        read(topic, **bounds).collect()


def test_offsets_that_are_gone_fail_the_query_unless_it_may_lose_them(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.fill(10)
    beyond = f'{{"{topic.name}": {{"0": 90}}}}'
    at = {"startingOffsets": f'{{"{topic.name}": {{"0": 40}}}}', "endingOffsets": beyond}
    with pytest.raises(PySparkException, match="OFFSET_OUT_OF_RANGE"):
        read(topic, **at).collect()
    assert read(topic, failOnDataLoss="false", **at).count() == 0


def test_limits_drop_the_reader_and_leave_it_usable(
    make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    topic.fill(50_000)
    for _ in range(3):
        assert len(read(topic, batchBytes="10k").limit(5).collect()) == 5
    assert read(topic).count() == 50_000
