"""Topics that are compacted, grow, come late, go and come again, read by both connectors."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import kafkalite as kl
from kafkalite.ranges import RangeReader
from tests.harness.process import PATIENCE_S, Processes
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import Connection

BOTH = pytest.mark.parametrize(
    "format_", ["kafkalite", pytest.param("kafka", marks=pytest.mark.jvm)]
)

_numbers = itertools.count()


def loaded(reader: Any, format_: str, servers: str, **options: object) -> DataFrame:
    """Return what ``options`` name, from the first record on unless they say otherwise."""
    reader = reader.format(format_).option("kafka.bootstrap.servers", servers)
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    return reader.load()


def offsets(frame: DataFrame) -> list[int]:
    """Return the offsets in order."""
    return sorted(row.offset for row in frame.select("offset").collect())


class Reading:
    """A query that runs, and what it has read."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        """Start it."""
        self._spark = frame.sparkSession
        self._table = f"read_{next(_numbers)}"
        writer = frame.writeStream.format("memory").queryName(self._table)
        self.query: StreamingQuery = writer.option("checkpointLocation", str(checkpoint)).start()

    def wait_for(self, count: int) -> list[tuple[str, int, int]]:
        """Return topic, partition and offset of every record, as soon as there are ``count``."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.query.processAllAvailable()
            rows = self._spark.table(self._table).select("topic", "partition", "offset").collect()
            if len(rows) >= count or time.monotonic() > end:
                return sorted((row.topic, row.partition, row.offset) for row in rows)


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Callable[[DataFrame], Reading]]:
    """Return what starts a query, and end it afterwards."""
    started: list[Reading] = []

    def start(frame: DataFrame) -> Reading:
        started.append(Reading(frame, tmp_path / f"checkpoint-{len(started)}"))
        return started[-1]

    yield start
    for one in started:
        one.query.stop()


#: What compaction leaves of 902 records: ten keys of their own, the last of many, the newest two.
KEPT = [*range(10), 899, 900, 901]


@pytest.fixture
def compacted(processes: Processes) -> str:
    """Return a broker with a compacted topic, of whose 902 offsets 13 have records."""
    servers = processes.serve("--set", "log.cleaner.backoff.ms=50").ready
    rolls = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("compacted", config=rolls)
    with kl.Producer(bootstrap_servers=servers) as producer:
        for number in range(900):
            key = b"own %d" % number if number < 10 else b"again"
            producer.send("compacted", b"v", key=key)
        producer.flush(30)
    kept = list(range(900))
    end = time.monotonic() + PATIENCE_S
    with RangeReader(bootstrap_servers=servers) as reader:
        for number in itertools.count(900):
            if len(kept) < 20 or time.monotonic() > end:
                break
            if number < 902:
                # What is appended after a segment's time rolls it: only then it is compacted.
                time.sleep(0.15)
                with kl.Producer(bootstrap_servers=servers) as producer:
                    producer.send("compacted", b"v", key=b"newest %d" % number)
            batches = reader.read([("compacted", 0, 0, 902)], columns=["offset"], may_lose=True)
            kept = [row["offset"] for one in batches for row in pa.record_batch(one).to_pylist()]
    assert kept == KEPT
    return servers


@BOTH
def test_holes_of_a_compacted_topic_are_no_loss_wherever_a_range_ends(
    spark: SparkSession, compacted: str, format_: str
) -> None:
    for start, end in [(0, 902), (3, 500), (300, 500), (300, 899), (500, 900), (10, 899), (9, 10)]:
        frame = loaded(
            spark.read,
            format_,
            compacted,
            subscribe="compacted",
            startingOffsets=json.dumps({"compacted": {"0": start}}),
            endingOffsets=json.dumps({"compacted": {"0": end}}),
        )
        assert offsets(frame) == [at for at in KEPT if start <= at < end], (start, end)


@BOTH
def test_a_stream_goes_over_holes_whose_micro_batches_are_empty(
    spark: SparkSession, compacted: str, format_: str, reading: Callable[[DataFrame], Reading]
) -> None:
    options = {"subscribe": "compacted", "maxOffsetsPerTrigger": 100}
    found = reading(loaded(spark.readStream, format_, compacted, **options)).wait_for(len(KEPT))
    assert [offset for _, _, offset in found] == KEPT


@BOTH
def test_a_record_without_a_time_is_a_millisecond_before_1970(
    spark: SparkSession, make_topic: Callable[..., Any], format_: str
) -> None:
    topic = make_topic()
    # No client writes such a record: it is one that an old one wrote, or that was carried over.
    part = {"Index": 0, "Records": simple(b"v", base_timestamp_ms=-1)}
    data = [{"Name": topic.name, "PartitionData": [part]}]
    with Connection(topic.servers) as raw:
        answer = raw.call("Produce", 9, {"Acks": -1, "TimeoutMs": 5_000, "TopicData": data})
    assert answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"] == 0
    row = loaded(spark.read, format_, topic.servers, subscribe=topic.name).first()
    assert row is not None
    found = (row.timestamp.astimezone(UTC), row.timestampType)
    assert found == (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), 0)


@BOTH
def test_a_partition_that_comes_while_a_query_runs_is_read_from_its_first_record(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
) -> None:
    topic = make_topic()
    topic.fill(10)
    query = reading(loaded(spark.readStream, format_, topic.servers, subscribe=topic.name))
    assert len(query.wait_for(10)) == 10
    with kl.AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.create_partitions(topic.name, 2)
    topic.fill(10, partition=1)
    every = [(topic.name, partition, offset) for partition in range(2) for offset in range(10)]
    assert query.wait_for(20) == every


@BOTH
def test_a_topic_that_comes_while_its_pattern_is_read_is_read_from_its_first_record(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
) -> None:
    topic = make_topic()
    topic.fill(10)
    pattern = {"subscribePattern": f"^{topic.name}(-later)?$"}
    query = reading(loaded(spark.readStream, format_, topic.servers, **pattern))
    assert len(query.wait_for(10)) == 10
    later = type(topic)(topic.servers, f"{topic.name}-later", 1)
    later.fill(5)
    assert query.wait_for(15)[10:] == [(later.name, 0, offset) for offset in range(5)]


@BOTH
def test_a_topic_deleted_under_its_query_fails_it_whatever_may_be_lost(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
) -> None:
    topic = make_topic()
    topic.fill(10)
    options = {"subscribe": topic.name, "failOnDataLoss": "false"}
    query = reading(loaded(spark.readStream, format_, topic.servers, **options))
    query.wait_for(10)
    with kl.AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.delete_topic(topic.name)
    with pytest.raises(PySparkException, match=r"UNKNOWN_TOPIC_OR|UnknownTopicOr"):
        query.query.awaitTermination(PATIENCE_S)
    assert not query.query.isActive


@BOTH
@pytest.mark.parametrize("may_lose", [False, True], ids=["failing", "losing"])
def test_a_topic_of_a_pattern_deleted_and_made_again_fails_the_query_or_is_read_again(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
    may_lose: bool,
) -> None:
    stays, goes = make_topic(), make_topic()
    for topic in (stays, goes):
        topic.fill(10)
    options = {
        "subscribePattern": f"^({stays.name}|{goes.name})$",
        "failOnDataLoss": str(not may_lose).lower(),
    }
    query = reading(loaded(spark.readStream, format_, stays.servers, **options))
    assert len(query.wait_for(20)) == 20
    with kl.AdminClient(bootstrap_servers=stays.servers) as admin:
        admin.delete_topic(goes.name)
    if not may_lose:
        with pytest.raises(PySparkException, match="failOnDataLoss"):
            query.query.awaitTermination(PATIENCE_S)
        assert not query.query.isActive
        return
    stays.fill(3, first=10)
    assert len(query.wait_for(23)) == 23
    end = time.monotonic() + PATIENCE_S
    while goes.name in json.dumps(query.query.lastProgress["sources"]) and time.monotonic() < end:
        # What has no micro-batch has no progress that says where it ends.
        stays.fill(1)
        query.query.processAllAvailable()
    type(goes)(goes.servers, goes.name, 1).fill(4)
    again = query.wait_for(27)
    assert [row for row in again if row[0] == goes.name].count((goes.name, 0, 3)) == 2


@BOTH
def test_an_empty_topic_is_a_batch_of_nothing_and_a_stream_that_waits(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
) -> None:
    topic = make_topic(2)
    assert offsets(loaded(spark.read, format_, topic.servers, subscribe=topic.name)) == []
    query = reading(loaded(spark.readStream, format_, topic.servers, subscribe=topic.name))
    assert query.wait_for(0) == []
    topic.fill(3, partition=1)
    assert query.wait_for(3) == [(topic.name, 1, offset) for offset in range(3)]


@BOTH
def test_times_past_the_end_are_an_error_or_the_end(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    format_: str,
    reading: Callable[[DataFrame], Reading],
) -> None:
    topic = make_topic(2)
    topic.fill(5)
    later = int(time.time() * 1_000) + 86_400_000
    times = {"startingOffsetsByTimestamp": json.dumps({topic.name: {"0": later, "1": later}})}
    options = {"subscribe": topic.name, **times}
    with pytest.raises(
        PySparkException, match=r"(?s)startingOffsetsByTimestamp.*|No offset matched"
    ):
        loaded(spark.read, format_, topic.servers, **options).collect()
    options["startingOffsetsByTimestampStrategy"] = "latest"
    assert offsets(loaded(spark.read, format_, topic.servers, **options)) == []
    query = reading(loaded(spark.readStream, format_, topic.servers, **options))
    query.wait_for(0)
    topic.fill(2, first=5)
    assert query.wait_for(2) == [(topic.name, 0, 5), (topic.name, 0, 6)]
