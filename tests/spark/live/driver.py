"""A driver to kill: one topic to a lake, and its counts by minute to another topic.

``driver.py MASTER SERVERS SOURCE TARGET PLACE [local]`` prints a line for each micro-batch that is
through and ends when both queries are through with what there is. Started again it goes on from
their checkpoints in ``PLACE``. With ``local`` its session has the settings for local checkpoints.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from kafkalite_spark.checkpoints import local_checkpoints
from kafkalite_spark.foreach_batch import writes_to

OFFSETS_A_TRIGGER = 2_000


def session(master: str, settings: dict[str, str]) -> SparkSession:
    """Return a session."""
    made = (
        SparkSession.builder.master(master)
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=settings)
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def stream(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return the topic as a stream of many micro-batches."""
    return (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", OFFSETS_A_TRIGGER)
        .load()
    )


def lake(records: DataFrame, place: Path) -> StreamingQuery:
    """Add every record to Parquet."""
    return (
        records.writeStream.format("parquet")
        .queryName("lake")
        .option("path", str(place / "lake"))
        .option("checkpointLocation", str(place / "lake-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def counts(records: DataFrame, servers: str, topic: str, place: Path) -> StreamingQuery:
    """Write every change of a count by minute: its last record is right."""
    return (
        records.withWatermark("timestamp", "1 hour")
        .groupBy(fn.window("timestamp", "1 minute").alias("w"))
        .count()
        .select(
            fn.date_format("w.start", "HH:mm").alias("key"),
            fn.col("count").cast("string").alias("value"),
        )
        .writeStream.outputMode("update")
        .queryName("counts")
        .foreachBatch(writes_to(servers, topic))
        .option("checkpointLocation", str(place / "counts-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main(
    master: str, servers: str, source: str, target: str, where: str, checkpoints: str = ""
) -> None:
    """Run both queries to their end."""
    settings = local_checkpoints() if checkpoints == "local" else {}
    spark, place = session(master, settings), Path(where)
    records = stream(spark, servers, source)
    queries = [lake(records, place), counts(records, servers, target, place)]
    told: set[tuple[str, int]] = set()
    while True:
        active = any(query.isActive for query in queries)
        for query in queries:
            for progress in query.recentProgress:
                line = (query.name, progress["batchId"])
                if line not in told:
                    told.add(line)
                    print(*line, flush=True)
        if not active:
            break
        time.sleep(0.05)
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
