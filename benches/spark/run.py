"""How much of what Spark allows a Python data source does the connector reach?

Each case runs beside the toy that does nothing, interleaved in one session on the same machine:
only the ratios mean something. Run with Spark's venv: ``python benches/spark/run.py --json out``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from toy import Toy

import kafkalite as kl

HERE = Path(__file__).resolve().parent
Figures = dict[str, float]


def session() -> SparkSession:
    """Return a session on two slots with Unix sockets."""
    # Workers import the toy by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Toy)
    return spark


def fill(servers: str, topic: str, rows: int, value_bytes: int, partitions: int = 2) -> None:
    """Write ``rows`` records with keys of 8 bytes, evenly over the partitions."""
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=partitions)
    with kl.Producer(bootstrap_servers=servers) as producer:
        for partition in range(partitions):
            left = rows // partitions
            while left > 0:
                now = min(left, 20_000)
                values, keys = [b"x" * value_bytes] * now, [b"12345678"] * now
                producer.send_batch(topic, values, keys=keys, partitions=partition).result(60)
                left -= now


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds it takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def interleaved(ours: Callable[[], object], toy: Callable[[], object], times: int) -> Figures:
    """Return the best seconds of each, and how much of the toy's speed ours has."""
    for warm in (ours, toy):
        warm()
    pairs = [(timed(ours), timed(toy)) for _ in range(times)]
    mine, ceiling = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    middle = statistics.median(toy / ours for ours, toy in pairs)
    return {"ours_s": mine, "toy_s": ceiling, "ratio": ceiling / mine, "median_ratio": middle}


def source(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a topic as a batch."""
    return (
        spark.read.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )


def noop(frame: DataFrame) -> None:
    """Read everything and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def reading(spark: SparkSession, servers: str, rows: int, value_bytes: int, times: int) -> Figures:
    """Batch read, all seven columns."""
    topic = f"read-{value_bytes}"
    fill(servers, topic, rows, value_bytes)
    width = 10_000 if value_bytes <= 100 else 1_000
    toy = spark.read.format("toy").options(rows=rows, batchrows=width, valuebytes=value_bytes)
    found = interleaved(
        lambda: noop(source(spark, servers, topic)), lambda: noop(toy.load()), times
    )
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def writing(spark: SparkSession, servers: str, rows: int, times: int) -> Figures:
    """Batch write, key of 8 and value of 100 bytes, acks=all, idempotent."""
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("write", partitions=2)
    frame = spark.range(0, rows, 1, 2).select(
        fn.lit("12345678").alias("key"), fn.lit("x" * 100).cast("binary").alias("value")
    )

    def save(format_: str, **options: str) -> None:
        frame.write.format(format_).mode("append").options(**options).save()

    ours = {"kafka.bootstrap.servers": servers, "topic": "write"}
    found = interleaved(lambda: save("kafkalite", **ours), lambda: save("toy"), times)
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def micro_batches(spark: SparkSession, frame: DataFrame, feed: Callable[[], None]) -> list[float]:
    """Return how long each micro-batch took, in ms; the first are left out."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            feed()
            told = [one for one in query.recentProgress if one["numInputRows"]]
            if len(told) >= 25:
                break
            time.sleep(0.2)
        query.stop()
        return [one["durationMs"]["triggerExecution"] for one in told[5:]]


def stream(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a topic as a stream, from what comes next."""
    return (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )


def latency(spark: SparkSession, servers: str) -> Figures:
    """Small micro-batches: 2 partitions of 10 rows beside the toy's, and 64 partitions of 10."""
    figures: Figures = {}
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("small-2", partitions=2)
        admin.create_topic("small-64", partitions=64)
    toy = spark.readStream.format("toy").options(rows="20").load()
    figures["toy_ms"] = statistics.median(micro_batches(spark, toy, lambda: None))
    with kl.Producer(bootstrap_servers=servers) as producer:
        for name, partitions, each in (
            ("small-2", 2, 10),
            ("small-2", 2, 320),
            ("small-64", 64, 10),
        ):

            def feed(name: str = name, partitions: int = partitions, each: int = each) -> None:
                for partition in range(partitions):
                    producer.send_batch(name, [b"x" * 100] * each, partitions=partition)
                producer.flush(30)

            told = micro_batches(spark, stream(spark, servers, name), feed)
            figures[f"ours_{partitions}x{each}_ms"] = statistics.median(told)
    return figures


def backlog(spark: SparkSession, servers: str, rows: int) -> Figures:
    """A stream that catches up with what ``reading`` left, in five micro-batches."""
    frame = (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "read-100")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows // 5)
        .load()
    )

    def drain() -> None:
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            writer.trigger(availableNow=True).start().awaitTermination()

    seconds = min(timed(drain) for _ in range(2))
    batch = min(timed(lambda: noop(source(spark, servers, "read-100"))) for _ in range(2))
    return {"stream_rows_per_s": rows / seconds, "of_batch": batch / seconds}


def cpu_s(pids: list[int]) -> float:
    """Return the CPU seconds that these processes took so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return a process's descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found


def idle(spark: SparkSession, servers: str, broker_pid: int) -> Figures:
    """CPU of a query without news, JVM and Python, as a share of a core."""
    figures: Figures = {}
    quiet = spark.readStream.format("toy").options(rows="20", idle="true").load()
    for name, frame in (("toy", quiet), ("ours", stream(spark, servers, "small-2"))):
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.start()
            time.sleep(5)
            pids = [pid for pid in family(os.getpid()) if pid != broker_pid]
            before = cpu_s(pids)
            time.sleep(10)
            figures[name] = (cpu_s(pids) - before) / 10
            query.stop()
    return figures


def main() -> None:
    """Run the cases that were asked for and print what was found."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--only", help="cases, separated by commas")
    words.add_argument("--rows", type=int, default=2_000_000)
    words.add_argument("--times", type=int, default=4)
    words.add_argument("--json", type=Path)
    given = words.parse_args()
    told: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        kl.Broker(data_dir=directory, in_process=False) as broker,
    ):
        servers, spark = broker.bootstrap_servers, session()
        rows, times = given.rows, given.times
        cases: dict[str, Callable[[], Figures]] = {
            "read 100 B": lambda: reading(spark, servers, rows, 100, times),
            "read 1 KiB": lambda: reading(spark, servers, rows // 5, 1024, times),
            "write 100 B": lambda: writing(spark, servers, rows // 2, times),
            "micro-batch": lambda: latency(spark, servers),
            "backlog": lambda: backlog(spark, servers, rows),
            "idle": lambda: idle(spark, servers, broker.pid or 0),
        }
        for name, case in cases.items():
            if given.only is None or name in given.only.split(","):
                told[name] = case()
                shown = ", ".join(f"{key} {value:,.2f}" for key, value in told[name].items())
                print(f"{name}: {shown}", flush=True)
        spark.stop()
    if given.json:
        given.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
