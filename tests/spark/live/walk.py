"""Batch, stream and sink once, wherever Spark runs; with a broker of its own.

``walk.py --master MASTER`` or ``walk.py --remote sc://...``; ``--register`` tells Spark the format
by hand, ``--archive`` ships an environment. A program and no test: it needs PySpark and the two
distributions, and no checkout.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

import kafkalite as kl

RECORDS, PARTITIONS = 4_000, 2


def session(given: argparse.Namespace) -> Any:
    """Return a session, classic or remote."""
    builder: Any = SparkSession.builder.appName("walk")
    if given.remote:
        return builder.remote(given.remote).getOrCreate()
    if given.archive:
        builder = builder.config("spark.archives", given.archive)
    made = (
        builder.master(given.master)
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def registered(spark: Any) -> str:
    """Tell Spark the source under a name that no look-up finds; return the name."""
    from kafkalite_spark import KafkaliteSource

    class ByHand(KafkaliteSource):
        @classmethod
        def name(cls) -> str:
            return "by_hand"

    spark.dataSource.register(ByHand)
    return "by_hand"


def written(spark: Any, name: str, servers: str) -> None:
    """Write a batch: every partition gets every other number."""
    (
        spark.range(RECORDS)
        .select(
            fn.col("id").cast("string").alias("key"),
            fn.col("id").cast("string").alias("value"),
            (fn.col("id") % PARTITIONS).cast("int").alias("partition"),
        )
        .write.format(name)
        .mode("append")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "numbers")
        .save()
    )


def numbers(spark: Any, name: str, servers: str, topic: str) -> list[int]:
    """Read a topic as a batch; return its values in order."""
    frame = (
        spark.read.format(name)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("minPartitions", 2)
        .load()
    )
    return sorted(int(row.value) for row in frame.select("value").collect())


def streamed(spark: Any, name: str, servers: str, checkpoint: Path) -> None:
    """Copy one topic to another as a stream of several micro-batches."""
    query = (
        spark.readStream.format(name)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "numbers")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS // 3)
        .load()
        .select("key", "value")
        .writeStream.format(name)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "copies")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300), "the stream does not end"


def main() -> None:
    """Walk."""
    words = argparse.ArgumentParser(description=__doc__)
    where = words.add_mutually_exclusive_group(required=True)
    where.add_argument("--master")
    where.add_argument("--remote")
    words.add_argument("--register", action="store_true")
    words.add_argument("--archive", help="what executors get: `environment.tar.gz#environment`")
    given = words.parse_args()
    topics = {"numbers": PARTITIONS, "copies": 1}
    with kl.Broker(topics=topics) as broker, tempfile.TemporaryDirectory() as place:
        servers = broker.bootstrap_servers
        spark = session(given)
        try:
            name = registered(spark) if given.register else "kafkalite"
            written(spark, name, servers)
            assert numbers(spark, name, servers, "numbers") == list(range(RECORDS))
            streamed(spark, name, servers, Path(place) / "checkpoint")
            assert numbers(spark, name, servers, "copies") == list(range(RECORDS))
        finally:
            spark.stop()
    print(f"walked {type(spark).__module__} with {name} of {kl.__file__}")


if __name__ == "__main__":
    main()
