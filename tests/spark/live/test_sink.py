"""``df.write`` and ``df.writeStream``: every row a record, at least once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from kafkalite_spark.foreach_batch import writes_to
from kafkalite_spark.progress import KafkaliteProgress


def write(frame: DataFrame, near: Any, **options: object) -> None:
    writer = frame.write.format("kafkalite").mode("append")
    for name, value in {"kafka.bootstrap.servers": near.servers, **options}.items():
        writer = writer.option(name, value)
    writer.save()


def test_rows_become_records_with_their_keys_and_partitions(
    spark: SparkSession, make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic(2)
    frame = spark.range(1_000).select(
        fn.col("id").cast("string").alias("key"),
        fn.concat(fn.lit("v"), "id").cast("binary").alias("value"),
        (fn.col("id") % 2).cast("int").alias("partition"),
    )
    write(frame, topic, topic=topic.name)
    rows = read(topic).collect()
    assert len(rows) == 1_000
    for row in rows:
        number = int(row.key)
        assert (bytes(row.value), row.partition) == (f"v{number}".encode(), number % 2)


def test_a_column_names_the_topic_where_no_option_does(
    spark: SparkSession, make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    one, two = make_topic(), make_topic()
    frame = spark.createDataFrame([("a", one.name), ("b", two.name)], "value string, topic string")
    write(frame, one)
    assert [bytes(row.value) for row in read(one).collect()] == [b"a"]
    assert [bytes(row.value) for row in read(two).collect()] == [b"b"]
    write(frame, one, topic=one.name)
    assert read(one).count() == 3


def test_nulls_and_headers_are_written_as_they_are(
    spark: SparkSession, make_topic: Callable[..., Any], read: Callable[..., Any]
) -> None:
    topic = make_topic()
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame([("k", None, [("h", b"1"), ("h", None)])], schema)
    write(frame, topic, topic=topic.name, includeHeaders="true")
    row = read(topic, includeHeaders="true").collect()[0]
    assert (bytes(row.key), row.value) == (b"k", None)
    assert [(one.key, one.value) for one in row.headers] == [("h", bytearray(b"1")), ("h", None)]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id as value", {"topic": "x"}, "column value is bigint, not string or binary"),
        ("cast(id as string) as key", {"topic": "x"}, "need a column `value`"),
        ("cast(id as string) as value", {}, "no topic"),
        ("cast(id as string) as value", {"topic": "x", "transactional": "true"}, "at least once"),
        ("cast(id as string) as value", {"topic": "x", "topc": "y"}, "Did you mean topic"),
        (
            "cast(id as string) as value",
            {"topic": "x", "kafka.lingr.ms": "5"},
            r"kafka\.lingr\.ms: unknown key. Did you mean kafka\.linger\.ms",
        ),
    ],
)
def test_rows_that_are_no_records_are_refused_before_any_is_sent(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    columns: str,
    options: dict[str, str],
    words: str,
) -> None:
    with pytest.raises(PySparkException, match=words):
        write(spark.range(3).selectExpr(columns), make_topic(), **options)


@pytest.mark.parametrize(
    "header",
    [
        "cast(null as struct<key:string,value:binary>)",
        "struct(cast(null as string) as key, cast('x' as binary) as value)",
    ],
)
def test_a_header_without_a_name_is_refused(
    spark: SparkSession, make_topic: Callable[..., Any], header: str
) -> None:
    topic = make_topic()
    rows = spark.range(1).selectExpr("'v' as value", f"array({header}) as headers")
    with pytest.raises(PySparkException, match="a header without a name"):
        write(rows, topic, topic=topic.name)


def test_overwriting_a_log_is_refused(spark: SparkSession, make_topic: Callable[..., Any]) -> None:
    topic = make_topic()
    writer = spark.range(1).selectExpr("'x' as value").write.format("kafkalite")
    writer = writer.option("kafka.bootstrap.servers", topic.servers).option("topic", topic.name)
    with pytest.raises(PySparkException, match="only added to"):
        writer.mode("overwrite").save()


@pytest.mark.slice
def test_a_stream_is_written_to_a_topic(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    read: Callable[..., Any],
    tmp_path: Path,
) -> None:
    source, target = make_topic(2), make_topic()
    for partition in range(2):
        source.fill(2_000, partition=partition, first=partition * 2_000)
    query = (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", source.servers)
        .option("subscribe", source.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_500)
        .load()
        .select("key", "value")
        .writeStream.format("kafkalite")
        .option("kafka.bootstrap.servers", target.servers)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert sorted(int(row.value) for row in read(target).collect()) == list(range(4_000))


@pytest.mark.slice
def test_changed_windows_are_written_in_update_mode_by_foreach_batch(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    read: Callable[..., Any],
    tmp_path: Path,
) -> None:
    source, target = make_topic(), make_topic()
    source.fill(100)
    lags: list[int] = []
    listener = KafkaliteProgress(lambda _query, lag: lags.append(lag.total))
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", source.servers)
        .option("subscribe", source.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60)
        .load()
        .groupBy((fn.col("offset") % 4).cast("string").alias("key"))
        .agg(fn.count("*").cast("string").alias("value"))
        .writeStream.outputMode("update")
        .foreachBatch(writes_to(target.servers, target.name))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    last = {bytes(row.key): bytes(row.value) for row in read(target).orderBy("offset").collect()}
    assert last == dict.fromkeys((b"0", b"1", b"2", b"3"), b"25")
    spark.streams.removeListener(listener)
    assert lags[:1] == [40]
