"""Flights as a stream, from a topic to a lake, a topic of aggregates, and a picture.

1. every flight becomes a JSON record in the topic ``flights``
2. Spark types them and adds each to Parquet, with its partition and offset
3. Spark counts them by carrier and hour and averages their delays. Every change of a window is a
   record in the topic ``flights_by_hour``, keyed by carrier and hour
4. the results are compared with a plain count in Python, and drawn

It runs where Spark runs: only ``--master`` changes, and ``--master standalone`` brings a cluster of
this machine. Without ``--servers`` it brings its own broker.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import kafkalite as kl
from examples.clusters import standalone
from examples.flights.table import counted, flights
from kafkalite_spark.foreach_batch import writes_to

SOURCE, TARGET, PARTITIONS = "flights", "flights_by_hour", 4
FLIGHT = (
    "row int, carrier string, flight string, origin string, dest string, time timestamp, "
    "dep_delay double, arr_delay double, distance double, air_time double"
)


def session(master: str) -> SparkSession:
    """Return a session; workers run the interpreter that runs this."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    made = (
        SparkSession.builder.master(master)
        .appName("flights")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def publish(servers: str, most: int | None) -> int:
    """Write every flight to the topic; return how many."""
    count = 0
    with kl.Producer(bootstrap_servers=servers) as producer:
        keys: list[str] = []
        values: list[str] = []
        deliveries = []
        for carrier, text in flights(most):
            keys.append(carrier)
            values.append(text)
            if len(values) == 10_000:
                deliveries.append(producer.send_batch(SOURCE, values, keys=keys))
                count, keys, values = count + len(values), [], []
        if values:
            deliveries.append(producer.send_batch(SOURCE, values, keys=keys))
        for delivery in deliveries:
            delivery.result(timeout=60)
    return count + len(values)


def typed(spark: SparkSession, servers: str) -> DataFrame:
    """Return the stream of flights, typed, with the place of each."""
    return (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .schema("value binary, partition int, offset long")
        .load()
        .select(
            fn.from_json(fn.col("value").cast("string"), FLIGHT).alias("f"), "partition", "offset"
        )
        .select("f.*", "partition", "offset")
    )


def to_lake(stream: DataFrame, lake: Path, checkpoint: Path) -> None:
    """Add what there is now to Parquet: each flight once, whatever fails in between."""
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(lake))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def to_topic(stream: DataFrame, servers: str, checkpoint: Path) -> None:
    """Count by carrier and hour, and write every change of a count; the last one is right."""
    windows = (
        # A micro-batch takes as large a part of each partition: their times end days apart.
        stream.withWatermark("time", "14 days")
        .groupBy(fn.window("time", "1 hour").alias("w"), "carrier")
        .agg(
            fn.count("*").alias("flights"),
            fn.count("dep_delay").alias("departed"),
            fn.avg("dep_delay").alias("dep_delay"),
        )
        .select(
            fn.concat_ws("|", "carrier", fn.date_format("w.start", "yyyy-MM-dd'T'HH")).alias("key"),
            fn.to_json(fn.struct("flights", "departed", "dep_delay")).alias("value"),
        )
    )
    query = (
        windows.writeStream.outputMode("update")
        .foreachBatch(writes_to(servers, TARGET))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def last_values(servers: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the last record of each key of the topic of aggregates, read without Spark."""
    import pyarrow as pa

    with kl.AdminClient(bootstrap_servers=servers) as admin:
        ends = admin.list_offsets([(TARGET, number) for number in range(PARTITIONS)])
    ranges = [(one.topic, one.partition, 0, found.offset) for one, found in ends.items()]
    last: dict[tuple[str, str], dict[str, Any]] = {}
    with kl.RangeReader(bootstrap_servers=servers) as reader:
        for batch in reader.read(ranges, columns=["key", "value"]):
            for row in pa.record_batch(batch).to_pylist():
                carrier, hour = row["key"].decode().split("|")
                last[carrier, hour] = json.loads(row["value"])
    return last


def compare(spark: SparkSession, lake: Path, servers: str, most: int | None) -> str:
    """Compare both results with a plain count.

    Raises:
        AssertionError: A flight is missing or doubled, or a window ends on another value.
    """
    truth = counted(most)
    files = spark.read.parquet(str(lake))
    rows, places = files.count(), files.select("partition", "offset").distinct().count()
    numbers = files.select("row").distinct().count()
    total = sum(truth.values())
    assert rows == places == numbers == total, (rows, places, numbers, total)
    windows = {key: value["flights"] for key, value in last_values(servers).items()}
    assert windows == truth, f"{len(windows)} windows, {len(truth)} in truth"
    return f"{total:,} flights once each in Parquet; {len(truth):,} windows right in {TARGET}"


def main() -> None:
    """Run it."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--master", default="local[2]", help="as Spark's, or `standalone`")
    words.add_argument("--servers", help="HOST:PORT of a broker; its own if not given")
    words.add_argument("--flights", type=int, help="how many; all if not given")
    words.add_argument("--out", type=Path, default=Path("dist/flights"))
    given = words.parse_args()
    lake, checkpoints = given.out / "parquet", given.out / "checkpoints"
    for old in (lake, checkpoints):
        shutil.rmtree(old, ignore_errors=True)
    with ExitStack() as stack:
        servers = given.servers
        if servers is None:
            servers = stack.enter_context(kl.Broker()).bootstrap_servers
        with kl.AdminClient(bootstrap_servers=servers) as admin:
            for topic in (SOURCE, TARGET):
                admin.create_topic(topic, partitions=PARTITIONS)
        master = given.master
        if master == "standalone":
            master = stack.enter_context(standalone())
        spark = session(master)
        stack.callback(spark.stop)
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("publish", lambda: publish(servers, given.flights)),
            ("lake", lambda: to_lake(typed(spark, servers), lake, checkpoints / "lake")),
            ("windows", lambda: to_topic(typed(spark, servers), servers, checkpoints / "windows")),
            ("truth", lambda: compare(spark, lake, servers, given.flights)),
        ]
        for name, step in steps:
            began = time.monotonic()
            told = step()
            print(f"{name}: {time.monotonic() - began:.1f} s{f', {told}' if told else ''}")
        from examples.flights.picture import draw

        print("picture:", draw(last_values(servers), given.out / "flights.png"))


if __name__ == "__main__":
    main()
