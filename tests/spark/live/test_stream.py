"""``spark.readStream.format("kafkalite")``: micro-batches, limits, restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafkalite import AdminClient
from kafkalite_spark.errors import ReadError
from kafkalite_spark.offsets import from_json
from kafkalite_spark.options import parse_read
from kafkalite_spark.stream_reader import KafkaliteStreamReader


@pytest.fixture
def stream(spark: SparkSession) -> Iterator[Callable[..., DataFrame]]:
    """Return what reads a topic as a stream, and end what is still running afterwards."""

    def load(topic: Any, **options: object) -> DataFrame:
        reader = (
            spark.readStream.format("kafkalite")
            .option("kafka.bootstrap.servers", topic.servers)
            .option("subscribe", topic.name)
            .option("startingOffsets", "earliest")
        )
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    yield load
    for query in spark.streams.active:
        query.stop()


class Lake:
    """Parquet files and the checkpoint of the query that writes them."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.files, self.checkpoint = str(path / "files"), str(path / "checkpoint")

    def drain(self, frame: DataFrame) -> list[int]:
        """Run until all that is there now is written; return the rows of each micro-batch."""
        query = (
            frame.writeStream.format("parquet")
            .option("path", self.files)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    def offsets(self) -> list[tuple[int, int]]:
        """Return partition and offset of every row."""
        rows = self.spark.read.parquet(self.files).select("partition", "offset").collect()
        return sorted((row.partition, row.offset) for row in rows)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Return a place to write to."""
    return Lake(spark, tmp_path)


def every(partitions: int, count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(partitions) for offset in range(count)]


@pytest.mark.slice
def test_available_now_reads_what_there_is_in_batches_of_the_limit(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], lake: Lake
) -> None:
    topic = make_topic(2)
    for partition in range(2):
        topic.fill(5_000, partition=partition)
    assert lake.drain(stream(topic, maxOffsetsPerTrigger=4_000)) == [4_000, 4_000, 2_000]
    assert lake.offsets() == every(2, 5_000)


@pytest.mark.slice
def test_a_restart_goes_on_where_the_checkpoint_ends(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], lake: Lake
) -> None:
    topic = make_topic()
    topic.fill(100)
    lake.drain(stream(topic))
    assert lake.drain(stream(topic)) == []
    topic.fill(50, first=100)
    assert lake.drain(stream(topic)) == [50]
    assert lake.offsets() == every(1, 150)
    last = max((Path(lake.checkpoint) / "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
    assert from_json(json.loads(last.read_text().splitlines()[-1])) == {(topic.name, 0): 150}


def test_a_partition_that_comes_later_is_read_from_its_first_record(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], lake: Lake
) -> None:
    topic = make_topic()
    topic.fill(10)
    lake.drain(stream(topic))
    with AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.create_partitions(topic.name, 2)
    topic.fill(10, partition=1)
    lake.drain(stream(topic))
    assert lake.offsets() == every(2, 10)


def test_a_topic_that_was_created_again_fails_the_query_unless_it_may_lose_records(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], lake: Lake
) -> None:
    topic = make_topic()
    topic.fill(10)
    lake.drain(stream(topic))
    with AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.delete_topic(topic.name)
    type(topic)(topic.servers, topic.name, 1).fill(3)
    with pytest.raises(PySparkException, match="ends at 3, before 10"):
        lake.drain(stream(topic))
    lake.drain(stream(topic, failOnDataLoss="false"))
    topic.fill(4, first=3)
    assert lake.drain(stream(topic, failOnDataLoss="false")) == [4]


@pytest.mark.parametrize("named", ["subscribe", "subscribePattern", "assign"])
def test_a_topic_created_again_between_two_polls_is_noticed_however_far_it_has_grown(
    make_topic: Callable[..., Any], named: str
) -> None:
    topic = make_topic()
    topic.fill(10)
    given = {"subscribe": topic.name, "subscribePattern": f"^{topic.name}$"}
    given["assign"] = json.dumps({topic.name: [0]})
    reader, may_lose = (
        KafkaliteStreamReader(
            parse_read(
                {
                    "kafka.bootstrap.servers": topic.servers,
                    "startingOffsets": "earliest",
                    "failOnDataLoss": fails,
                    named: given[named],
                },
                stream=True,
            ),
            ["value"],
        )
        for fails in ("true", "false")
    )
    begun = {topic.name: {"0": 10}}
    try:
        for one in (reader, may_lose):
            assert from_json(one.latestOffset(one.initialOffset())) == from_json(begun)
        with AdminClient(bootstrap_servers=topic.servers) as admin:
            admin.delete_topic(topic.name)
        type(topic)(topic.servers, topic.name, 1).fill(20)
        with pytest.raises(ReadError, match=f"{topic.name} was deleted and created again"):
            reader.latestOffset(begun)
        again = may_lose.latestOffset(begun)
        assert from_json(again) == {(topic.name, 0): 0}
        assert from_json(may_lose.latestOffset(again)) == {(topic.name, 0): 20}
    finally:
        reader.stop()
        may_lose.stop()


def test_finished_micro_batches_are_committed_to_the_group_for_lag_tools(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], lake: Lake
) -> None:
    topic = make_topic()
    topic.fill(30)
    options = {"commitOffsetsToGroup": "true", "kafka.group.id": f"lag-{topic.name}"}
    # The last records were committed with the next micro-batch, so a query that has caught up
    # always showed lag.
    for total in (30, 35):
        lake.drain(stream(topic, **options))
        group = Consumer({"bootstrap.servers": topic.servers, "group.id": f"lag-{topic.name}"})
        committed = group.committed([TopicPartition(topic.name, 0)], timeout=30)[0].offset
        group.close()
        # Spark before 4.2 tells a source of a micro-batch when the next one begins.
        assert committed == total or (pyspark.__version__ < "4.2" and committed in {-1001, 30})
        topic.fill(5, first=total)


def test_progress_tells_what_is_read_and_what_there_is(
    make_topic: Callable[..., Any], stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    topic = make_topic()
    topic.fill(20)
    query = (
        stream(topic, maxOffsetsPerTrigger=5)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    query.processAllAvailable()
    source = query.lastProgress["sources"][0]
    query.stop()
    assert from_json(json.loads(source["endOffset"])) == {(topic.name, 0): 20}
    assert json.loads(source["latestOffset"]) == {topic.name: {"0": 20}}
