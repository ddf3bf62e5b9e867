"""Bad input and bad days: an error that a person can act on, never a hang, never a silent gap."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from kafkalite_spark.progress import UPDATE_REFUSED, KafkaliteProgress
from tests.harness.patience import ended, eventually
from tests.harness.process import Processes
from tests.spark.live.conftest import Topic

NOBODY = "127.0.0.1:1"
LARGE = 20 << 20

#: An error after the first of these, in seconds, was waited for longer than anything asked for.
SOON_S = 30.0


def loaded(reader: Any, servers: str, topic: str, **options: object) -> DataFrame:
    """Return a topic from its first record on."""
    reader = reader.format("kafkalite").option("kafka.bootstrap.servers", servers)
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    return reader.option("subscribe", topic).load()


def write(frame: DataFrame, servers: str, topic: str, **options: object) -> None:
    """Write rows as a batch."""
    writer = frame.write.format("kafkalite").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", servers)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def started(frame: DataFrame, path: Path) -> Any:
    """Start a query that writes to Parquet."""
    writer = frame.writeStream.format("parquet").option("path", str(path / "files"))
    return writer.option("checkpointLocation", str(path / "checkpoint")).start()


def offsets(spark: SparkSession, path: Path) -> list[int]:
    """Return the offsets in Parquet."""
    return sorted(row.offset for row in spark.read.parquet(str(path / "files")).collect())


def test_a_stream_of_a_missing_topic_names_it(
    spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    query = started(loaded(spark.readStream, make_topic().servers, "nowhere.to.be.found"), tmp_path)
    with pytest.raises(PySparkException, match=r"UNKNOWN_TOPIC_OR_PARTITION.*nowhere"):
        query.awaitTermination(60)


def test_a_stream_of_options_that_cannot_be_ends_with_their_error_and_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = started(loaded(spark.readStream, NOBODY, "a", maxOffsetsPerTrigger=0), tmp_path)
    with pytest.raises(PySparkException, match="maxOffsetsPerTrigger: 0 is less than 1") as caught:
        query.awaitTermination(60)
    # Of Spark's own, when a reader cannot be made.
    assert "UnboundLocalError" not in str(caught.value)


def message_of(run: Callable[[], object]) -> str:
    """Return the text of the error that Spark raises."""
    with pytest.raises(PySparkException) as caught:
        run()
    return str(caught.value)


@pytest.mark.slice
def test_an_error_shows_its_text_first_and_the_traceback_last(
    spark: SparkSession, make_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    topic = make_topic()
    large = spark.range(1).selectExpr("repeat('x', 3000000) as value")
    stream = loaded(spark.readStream, topic.servers, topic.name, startingOfsets="latest")
    for expected, text in (
        (
            "OptionError: option startingofsets: there is none. Did you mean startingOffsets?",
            message_of(loaded(spark.read, topic.servers, topic.name, startingOfsets="x").count),
        ),
        (
            "MissingError: UNKNOWN_TOPIC_OR_PARTITION: topic nowhere",
            message_of(loaded(spark.read, topic.servers, "nowhere").count),
        ),
        (
            "OptionError: option startingofsets: there is none",
            message_of(lambda: started(stream, tmp_path).awaitTermination(60)),
        ),
        (
            "OptionError: option topik: there is none. Did you mean topic?",
            message_of(lambda: write(large, topic.servers, topic.name, topik="a")),
        ),
        (
            "WriteError: MESSAGE_TOO_LARGE: a record of",
            message_of(lambda: write(large, topic.servers, topic.name)),
        ),
    ):
        before, _, _ = text.partition("Traceback (most recent call last)")
        assert expected in before, text
        assert before != text, "the traceback stays for those who need it"


@pytest.mark.slice
def test_the_listener_names_writes_to_when_spark_refuses_the_mode_update(
    spark: SparkSession,
    make_topic: Callable[..., Topic],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = make_topic()
    listener = KafkaliteProgress()
    spark.streams.addListener(listener)
    frame = loaded(spark.readStream, topic.servers, topic.name).groupBy("value").count()
    writer = frame.select("value").writeStream.format("kafkalite").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", topic.servers).option("topic", topic.name)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    text = message_of(lambda: query.awaitTermination(60))
    assert UPDATE_REFUSED in text, "Spark has other words now"
    eventually(lambda: "writes_to(servers, topic)" in caplog.text)
    spark.streams.removeListener(listener)


def test_rows_for_a_missing_topic_name_it(spark: SparkSession, processes: Processes) -> None:
    servers = processes.serve("--set", "auto.create.topics.enable=false").ready
    rows = spark.range(3).selectExpr("'x' as value")
    with pytest.raises(PySparkException, match=r"UNKNOWN_TOPIC_OR_PARTITION.*nowhere"):
        write(rows, servers, "nowhere", **{"kafka.max.block.ms": 2_000})


def test_an_absent_broker_is_an_error_with_the_address_within_seconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(3).selectExpr("'x' as value")
    soon = {"kafka.delivery.timeout.ms": 5_000, "kafka.request.timeout.ms": 1_000}
    began = time.monotonic()
    with pytest.raises(PySparkException, match=f"{NOBODY}.*refused"):
        loaded(spark.read, NOBODY, "a").collect()
    with pytest.raises(PySparkException, match=f"{NOBODY}.*refused"):
        write(rows, NOBODY, "a", **soon)
    with pytest.raises(PySparkException, match=f"{NOBODY}.*refused"):
        started(loaded(spark.readStream, NOBODY, "a"), tmp_path).awaitTermination(60)
    assert time.monotonic() - began < SOON_S


@pytest.fixture
def leaving() -> Iterator[kl.Broker]:
    """Return a broker that may be killed, with a topic."""
    with kl.Broker(in_process=False, topics=["leaving"]) as broker:
        yield broker


def fill(broker: kl.Broker, first: int, count: int, value: bytes = b"x") -> None:
    """Write records, acknowledged."""
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(first, first + count):
            producer.send("leaving", value)
        producer.flush(60)


def test_a_query_outlives_a_broker_that_is_gone_for_a_while(
    spark: SparkSession, leaving: kl.Broker, tmp_path: Path
) -> None:
    fill(leaving, 0, 100)
    query = started(loaded(spark.readStream, leaving.bootstrap_servers, "leaving"), tmp_path)
    query.processAllAvailable()
    leaving.kill()
    # Longer than any wait for a broker that was never reached.
    time.sleep(4)
    assert query.isActive, query.exception()
    leaving.start()
    fill(leaving, 100, 100)
    query.processAllAvailable()
    query.stop()
    assert offsets(spark, tmp_path) == list(range(200))


def test_a_query_whose_broker_stays_away_ends_with_an_error_that_names_it(
    spark: SparkSession, leaving: kl.Broker, tmp_path: Path
) -> None:
    fill(leaving, 0, 10)
    address = leaving.bootstrap_servers
    patience = {"kafka.default.api.timeout.ms": 2_000}
    query = started(loaded(spark.readStream, address, "leaving", **patience), tmp_path)
    query.processAllAvailable()
    leaving.kill()
    with pytest.raises(PySparkException, match=address):
        query.awaitTermination(60)


def test_a_task_whose_broker_stays_away_ends_with_an_error_that_says_what_it_wanted(
    spark: SparkSession, leaving: kl.Broker, tmp_path: Path
) -> None:
    fill(leaving, 0, 400, b"x" * 200_000)
    reached, killed = tmp_path / "reached", tmp_path / "killed"

    def slowly(row: Any) -> int:
        reached.touch()
        while not killed.exists():
            time.sleep(0.01)
        return len(row.value)

    def kill() -> None:
        while not reached.exists():
            time.sleep(0.01)
        leaving.kill()
        killed.touch()

    options = {"kafkaConsumer.pollTimeoutMs": 2_000, "fetchBufferBytes": "1m"}
    frame = loaded(spark.read, leaving.bootstrap_servers, "leaving", **options)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    began = time.monotonic()
    with pytest.raises(PySparkException, match=r"REQUEST_TIMED_OUT.*leaving-0"):
        frame.rdd.map(slowly).count()
    assert time.monotonic() - began < SOON_S
    ended(killer)


@pytest.fixture
def large(make_topic: Callable[..., Any]) -> Topic:
    """Return a topic that takes records of 20 MB."""
    topic: Topic = make_topic()
    with kl.AdminClient(bootstrap_servers=topic.servers) as admin:
        admin.alter_topic_config(topic.name, {"max.message.bytes": 2 * LARGE})
    return topic


def test_a_record_of_20_mb_is_written_and_read_between_small_ones(
    spark: SparkSession, large: Topic
) -> None:
    rows = (
        spark.range(3)
        .repartition(1)
        .selectExpr(f"repeat(cast(id as string), if(id = 1, {LARGE}, 10)) as value")
    )
    write(rows, large.servers, large.name, **{"kafka.max.request.size": 2 * LARGE})
    for options in ({}, {"fetchBufferBytes": "1m", "batchBytes": "10k"}):
        frame = loaded(spark.read, large.servers, large.name, **options)
        sizes = frame.selectExpr("offset", "length(value) as size").collect()
        assert sorted(row.size for row in sizes) == [10, 10, LARGE], options


@pytest.mark.parametrize(
    ("at_most", "words"),
    [(1 << 20, "MessageTooLarge|MESSAGE_TOO_LARGE"), (2 * LARGE, "MESSAGE_TOO_LARGE")],
    ids=["for the producer", "for the broker"],
)
def test_a_record_that_is_too_large_says_so_and_which_setting(
    spark: SparkSession, make_topic: Callable[..., Any], at_most: int, words: str
) -> None:
    topic = make_topic()
    rows = spark.range(1).selectExpr(f"repeat('x', {LARGE}) as value")
    with pytest.raises(PySparkException, match=words):
        write(rows, topic.servers, topic.name, **{"kafka.max.request.size": at_most})


@pytest.fixture
def corrupt(tmp_path: Path) -> Iterator[str]:
    """Return a broker whose second batch of three has a byte that is another."""
    broker = kl.Broker(data_dir=tmp_path / "data", in_process=False, topics=["leaving"])
    with broker:
        for first in (0, 10, 20):
            fill(broker, first, 10)
        broker.stop()
        log = tmp_path / "data" / "leaving-0" / f"{0:020d}.log"
        content = bytearray(log.read_bytes())
        at = 0
        while struct.unpack_from(">q", content, at)[0] < 10:
            at += 12 + struct.unpack_from(">i", content, at + 8)[0]
        # The last byte of its first record's value, behind the batch's header of 61 bytes.
        content[at + 61 + 6] ^= 0xFF
        log.write_bytes(content)
        broker.start()
        yield broker.bootstrap_servers


@pytest.mark.parametrize("may_lose", ["true", "false"])
def test_a_corrupt_batch_is_an_error_that_says_where_it_is(
    spark: SparkSession, corrupt: str, may_lose: str
) -> None:
    before = '{"leaving": {"0": 10}}'
    assert loaded(spark.read, corrupt, "leaving", endingOffsets=before).count() == 10
    with pytest.raises(PySparkException, match=r"CORRUPT_MESSAGE.*leaving-0.*1\d"):
        loaded(spark.read, corrupt, "leaving", failOnDataLoss=may_lose).count()
