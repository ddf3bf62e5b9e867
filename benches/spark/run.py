"""How much of what Spark allows a Python data source does the connector reach?

Each case runs beside the toy that does nothing and, where its jars are given, beside Spark's own
connector, interleaved in one session against one broker: only the ratios mean something.
`make spark-bench` runs all of it, about 8 minutes, and says which bars hold.
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

from processes import PeakMemory, cpu_s, family
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from toy import Toy

import kafkalite as kl

HERE = Path(__file__).resolve().parent
#: Where the jars of Spark's own connector are; without them it is left out.
JARS = os.environ.get("KAFKALITE_SPARK_JARS", "")
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
        .config("spark.jars", ",".join(str(jar) for jar in Path(JARS).glob("*.jar") if JARS))
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


def interleaved(runs: dict[str, Callable[[], object]], times: int) -> Figures:
    """Return the best seconds of each, and our speed as a share of each other's."""
    for warm in runs.values():
        warm()
    rounds = [{name: timed(run) for name, run in runs.items()} for _ in range(times)]
    best = {name: min(one[name] for one in rounds) for name in runs}
    figures = {f"{name}_s": seconds for name, seconds in best.items()}
    for name in runs:
        if name != "ours":
            figures[f"of_{name}"] = best[name] / best["ours"]
            figures[f"median_of_{name}"] = statistics.median(
                one[name] / one["ours"] for one in rounds
            )
    return figures


def formats() -> dict[str, str]:
    """Return who reads and writes Kafka here: name of the figures, and of the format."""
    return {"ours": "kafkalite", "jvm": "kafka"} if JARS else {"ours": "kafkalite"}


def source(spark: SparkSession, servers: str, topic: str, format_: str = "kafkalite") -> DataFrame:
    """Return a topic as a batch."""
    return (
        spark.read.format(format_)
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
    runs: dict[str, Callable[[], object]] = {
        name: lambda format_=format_: noop(source(spark, servers, topic, format_))
        for name, format_ in formats().items()
    }
    found = interleaved({**runs, "toy": lambda: noop(toy.load())}, times)
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def writing(spark: SparkSession, servers: str, rows: int, times: int) -> Figures:
    """Batch write, key of 8 and value of 100 bytes, acks=all, idempotent."""
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        for name in formats():
            admin.create_topic(f"write-{name}", partitions=2)
    frame = spark.range(0, rows, 1, 2).select(
        fn.lit("12345678").alias("key"), fn.lit("x" * 100).cast("binary").alias("value")
    )

    def save(name: str, format_: str) -> None:
        writer = frame.write.format(format_).mode("append")
        if format_ != "toy":
            writer = writer.option("kafka.bootstrap.servers", servers)
            writer = writer.option("topic", f"write-{name}")
        writer.save()

    runs = {**formats(), "toy": "toy"}
    found = interleaved(
        {
            name: lambda name=name, format_=format_: save(name, format_)
            for name, format_ in runs.items()
        },
        times,
    )
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def micro_batches(spark: SparkSession, frame: DataFrame, feed: Callable[[], None]) -> list[float]:
    """Return how long each micro-batch took, in ms; the first are left out."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if query.exception():
                raise query.exception()
            feed()
            told = [one for one in query.recentProgress if one["numInputRows"]]
            if len(told) >= 25:
                break
            time.sleep(0.2)
        query.stop()
        return [one["durationMs"]["triggerExecution"] for one in told[5:]]


def stream(spark: SparkSession, servers: str, topic: str, format_: str = "kafkalite") -> DataFrame:
    """Return a topic as a stream, from what comes next."""
    return (
        spark.readStream.format(format_)
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

        def feed(partitions: int, each: int) -> None:
            for partition in range(partitions):
                values = [b"x" * 100] * each
                producer.send_batch(f"small-{partitions}", values, partitions=partition)
            producer.flush(30)

        for who, format_ in formats().items():
            for partitions, each in ((2, 10), (2, 320), (64, 10)):
                frame = stream(spark, servers, f"small-{partitions}", format_)
                told = micro_batches(spark, frame, lambda p=partitions, e=each: feed(p, e))
                figures[f"{who}_{partitions}x{each}_ms"] = statistics.median(told)
    figures["above_toy_ms"] = figures["ours_2x10_ms"] - figures["toy_ms"]
    figures["many_of_few"] = figures["ours_64x10_ms"] / figures["ours_2x320_ms"]
    return figures


def backlog(spark: SparkSession, servers: str, rows: int, times: int) -> Figures:
    """A stream that catches up with what ``reading`` left, in ten micro-batches."""

    def drain(format_: str) -> None:
        reader = spark.readStream.format(format_).option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", "read-100").option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", rows // 10).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            writer.trigger(availableNow=True).start().awaitTermination()

    runs: dict[str, Callable[[], object]] = {
        name: lambda format_=format_: drain(format_) for name, format_ in formats().items()
    }
    found = interleaved(
        {**runs, "batch": lambda: noop(source(spark, servers, "read-100"))}, max(1, times - 1)
    )
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def memory(spark: SparkSession, servers: str) -> Figures:
    """How much larger workers become while 10 GB go through them, in MiB."""
    # They are there, and have imported all.
    source(spark, servers, "read-1024").limit(10).collect()
    peak = PeakMemory(os.getpid(), "pyspark.daemon")
    count = 0
    with peak:
        while count * 1024 < 10e9:
            count += source(spark, servers, "read-1024").count()
    return {"gigabytes": count * 1024 / 1e9, "before_mib": peak.before, "grown_mib": peak.grown}


def idle(spark: SparkSession, servers: str, broker_pid: int) -> Figures:
    """CPU of a query without news, JVM and Python, as a share of a core."""
    figures: Figures = {}
    quiet = spark.readStream.format("toy").options(rows="20", idle="true").load()
    frames = {name: stream(spark, servers, "small-2", fmt) for name, fmt in formats().items()}
    for name, frame in {"toy": quiet, **frames}.items():
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.start()
            time.sleep(5)
            pids = [pid for pid in family(os.getpid()) if pid != broker_pid]
            before = cpu_s(pids)
            time.sleep(10)
            figures[name] = (cpu_s(pids) - before) / 10
            query.stop()
    return {**figures, "above_toy": figures["ours"] - figures["toy"]}


#: What must hold, with the figure of the case that says so: at least, or at most where negative.
BARS = (
    ("S1 batch read, 100 B, of the toy", "read 100 B", "of_toy", 0.55),
    ("S2 batch read, 1 KiB, of the toy", "read 1 KiB", "of_toy", 0.50),
    ("S3 batch read, 100 B, of Spark's own", "read 100 B", "of_jvm", 1.0),
    ("S3 batch read, 1 KiB, of Spark's own", "read 1 KiB", "of_jvm", 1.0),
    ("S3 batch write, 100 B, of Spark's own", "write 100 B", "of_jvm", 1.0),
    ("S4 batch write, 100 B, of the toy", "write 100 B", "of_toy", 0.45),
    ("S5 micro-batch of 2 x 10 rows, ms above the toy", "micro-batch", "above_toy_ms", -30),
    ("S6 64 partitions x 10 rows / 2 x 320", "micro-batch", "many_of_few", -1.5),
    ("S7 backlog in ten micro-batches, of batch read", "backlog", "of_batch", 0.60),
    ("S8 idle query above the toy, of a core", "idle", "above_toy", -0.03),
    ("S9 growth of workers over 10 GB, MiB", "memory", "grown_mib", -64),
)


def judged(told: dict[str, Figures]) -> list[str]:
    """Return a table of the bars that were measured."""
    lines = ["| bar | must | found | |", "|---|---|---|---|"]
    for name, case, figure, bar in BARS:
        if (found := told.get(case, {}).get(figure)) is not None:
            held = found >= bar if bar > 0 else found <= -bar
            must = f">= {bar}" if bar > 0 else f"<= {-bar}"
            lines.append(f"| {name} | {must} | {found:.2f} | {'holds' if held else 'missed'} |")
    return lines


def main() -> None:
    """Run the cases that were asked for and print what was found."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--only", help="cases, separated by commas")
    words.add_argument("--rows", type=int, default=10_000_000)
    words.add_argument("--times", type=int, default=3)
    words.add_argument("--minutes", type=float, default=11, help="then no other case begins")
    words.add_argument("--json", type=Path)
    given = words.parse_args()
    told: dict[str, Figures] = {}
    end = time.monotonic() + given.minutes * 60
    with (
        tempfile.TemporaryDirectory() as directory,
        kl.Broker(data_dir=directory, in_process=False) as broker,
    ):
        servers, spark = broker.bootstrap_servers, session()
        rows, times = given.rows, given.times
        # Those that write most come last: what the disk has yet to take slows whoever is next.
        cases: dict[str, Callable[[], Figures]] = {
            "micro-batch": lambda: latency(spark, servers),
            "idle": lambda: idle(spark, servers, broker.pid or 0),
            "read 100 B": lambda: reading(spark, servers, rows, 100, times),
            "backlog": lambda: backlog(spark, servers, rows, times),
            "read 1 KiB": lambda: reading(spark, servers, rows // 5, 1024, times),
            "memory": lambda: memory(spark, servers),
            "write 100 B": lambda: writing(spark, servers, rows // 2, times),
        }
        for name, case in cases.items():
            if given.only is None or name in given.only.split(","):
                if time.monotonic() > end:
                    print(f"{name}: left out, the time is over")
                    continue
                told[name] = case()
                shown = ", ".join(f"{key} {value:,.2f}" for key, value in told[name].items())
                print(f"{name}: {shown}", flush=True)
        spark.stop()
    print("\n".join(judged(told)))
    if given.json:
        given.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
